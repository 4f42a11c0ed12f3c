/* lockstep tokenize: needs nothing but the folder's tokenizer.json. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "file/store.h"

#include <string.h>

typedef struct Tokenizing {
    Tokenizer *tokenizer;
    unsigned flags;
} Tokenizing;

static bool print_ids(const IdList *ids) {
    Buffer out = {0};
    buffer_byte(&out, '[');
    for (size_t i = 0; i < ids->n; i++) buffer_printf(&out, "%s%d", i > 0 ? ", " : "", ids->ids[i]);
    buffer_text(&out, "]\n");
    bool ok = output_buffer(&out);
    buffer_clear(&out);
    return ok;
}

/* A line that fails has its error in its place, so that line n out always answers line n in. */
static bool tokenize_line(void *context, const char *text, size_t n, Error *err) {
    const Tokenizing *t = context;
    Error line_error;
    IdList ids = {0};
    bool ok = false;
    JsonDoc *doc = json_parse(text, n, 0, &line_error);
    if (doc) {
        const JsonValue *v = json_root(doc);
        ok = v->type == JSON_STRING ? tokenizer_encode(t->tokenizer, v->text, v->length, t->flags, &ids, &line_error)
                                    : error_set(&line_error, "the line is not a JSON string");
    }
    bool written = ok ? print_ids(&ids) : output_error_line(&line_error);
    id_list_clear(&ids);
    json_free(doc);
    return written || error_set(err, "nobody reads the output");
}

static bool tokenize_text(const Tokenizing *t, const char *what, const char *text, size_t n, Error *err) {
    IdList ids = {0};
    bool ok = tokenizer_encode(t->tokenizer, text, n, t->flags, &ids, err) || error_prefix(err, "%s", what);
    if (ok) print_ids(&ids);
    id_list_clear(&ids);
    return ok;
}

static bool tokenize_input(const Args *args, const Tokenizing *t, Error *err) {
    const char *text = args_text(args, FLAG_TEXT), *path = args_text(args, FLAG_FILE);
    if (text) return tokenize_text(t, "--text", text, strlen(text), err);
    if (!path) return input_lines(args_text(args, FLAG_JSONL), tokenize_line, (void *)(uintptr_t)t, err);
    Buffer content = {0};
    bool ok = input_text(path, &content, err) && tokenize_text(t, path, content.data, content.length, err);
    buffer_clear(&content);
    return ok;
}

int command_tokenize(const Args *args) {
    Error err;
    Buffer folder = {0};
    Tokenizing t = {NULL, args_has(args, FLAG_NO_SPECIAL) ? 0 : ENCODE_SPECIAL};
    if (args_has(args, FLAG_TEXT) + args_has(args, FLAG_FILE) + args_has(args, FLAG_JSONL) != 1)
        return wrong_usage(args->command, "give one of --text, --file and --jsonl");
    bool ok = store_resolve(args->positional[0], &folder, &err) && (t.tokenizer = tokenizer_load(folder.data, &err)) &&
              tokenize_input(args, &t, &err);
    tokenizer_free(t.tokenizer);
    buffer_clear(&folder);
    return ok ? 0 : complain(&err);
}
