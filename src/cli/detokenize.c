/* lockstep detokenize: ids to text, exactly the text. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "file/store.h"

static bool detokenize(const Args *args, const IdList *ids, Error *err) {
    Buffer folder = {0}, text = {0};
    Tokenizer *tokenizer = NULL;
    bool ok = store_resolve(args->positional[0], &folder, err) && (tokenizer = tokenizer_load(folder.data, err)) &&
              tokenizer_decode(tokenizer, ids->ids, ids->n, args_has(args, FLAG_SKIP_SPECIAL), &text, err);
    if (ok) {
        output_buffer(&text);
        output_line_end(&text);
    }
    tokenizer_free(tokenizer);
    buffer_clear(&text);
    buffer_clear(&folder);
    return ok;
}

int command_detokenize(const Args *args) {
    Error err;
    IdList ids = {0};
    bool given;
    bool ok = input_ids_flags(args, &ids, &given, &err);
    if (ok && !given) return wrong_usage(args->command, "--ids is missing");
    ok = ok && detokenize(args, &ids, &err);
    id_list_clear(&ids);
    return ok ? 0 : complain(&err);
}
