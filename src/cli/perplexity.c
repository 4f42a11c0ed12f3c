/* lockstep perplexity: a text scored by a model. */
#include "eval/perplexity.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/setup.h"

#include <stdio.h>

static bool show_progress(void *context, int64_t done, int64_t n_ids) {
    (void)context;
    progress_show("perplexity: token", done, n_ids);
    return !interrupt_noted();
}

static void print_result(const Perplexity *p, bool json) {
    Buffer out = {0};
    if (json) {
        buffer_printf(&out, "{\"n_ids\":%lld,\"n_scored\":%lld,\"windows\":%d,\"mean_nll\":", (long long)p->n_ids,
                      (long long)p->n_scored, p->windows);
        json_write_double(&out, p->mean_nll);
        buffer_text(&out, ",\"ppl\":");
        json_write_double(&out, p->ppl);
        buffer_text(&out, "}\n");
    } else {
        buffer_printf(&out, "perplexity %.4f  (mean nll %.6f over %lld of %lld tokens", p->ppl, p->mean_nll,
                      (long long)p->n_scored, (long long)p->n_ids);
        if (p->windows > 1) buffer_printf(&out, ", %d windows of the context", p->windows);
        buffer_text(&out, ")\n");
    }
    progress_clear();
    output_buffer(&out);
    buffer_clear(&out);
}

static bool perplexity(const Args *args, const Buffer *text, Error *err) {
    Loaded loaded;
    IdList ids = {0};
    Perplexity result;
    if (!setup_load(args, LOAD_NEEDED, LOAD_NOT, &loaded, err)) return false;
    interrupt_catch(true);
    bool ok = tokenizer_encode(loaded.tokenizer, buffer_string(text), text->length, ENCODE_SPECIAL, &ids, err) &&
              perplexity_run(loaded.model, ids.ids, (int64_t)ids.n, show_progress, NULL, &result, err);
    if (ok) print_result(&result, args_has(args, FLAG_JSON));
    id_list_clear(&ids);
    loaded_close(&loaded);
    return ok;
}

int command_perplexity(const Args *args) {
    Error err;
    Buffer text = {0};
    const char *path = args_text(args, FLAG_FILE);
    if (!path) return wrong_usage(args->command, "--file is missing");
    bool ok = input_text(path, &text, &err) && perplexity(args, &text, &err);
    buffer_clear(&text);
    if (ok) return 0;
    int status = complain(&err);
    return interrupt_noted() ? EXIT_INTERRUPTED : status;
}
