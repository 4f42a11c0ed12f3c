/* lockstep generate: one prompt, one answer, for people and for scripts (--json). */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "eval/trace.h"

#include <stdio.h>
#include <string.h>

static void write_ids(Buffer *out, const IdList *ids) {
    buffer_byte(out, '[');
    for (size_t i = 0; i < ids->n; i++) buffer_printf(out, "%s%d", i > 0 ? "," : "", ids->ids[i]);
    buffer_byte(out, ']');
}

static double per_second(double n, double seconds) {
    return seconds > 0 ? n / seconds : 0;
}

static void write_number(Buffer *out, const char *key, double value) {
    buffer_printf(out, "\"%s\":", key);
    json_write_double(out, value);
}

static void write_timings(Buffer *out, const Generation *g, double load_seconds) {
    int computed = g->n_prompt - g->n_cached;
    buffer_printf(out, "{\"prompt_tokens\":%d,\"cached_tokens\":%d,\"generated_tokens\":%zu,", g->n_prompt, g->n_cached,
                  g->ids.n);
    write_number(out, "load_seconds", load_seconds);
    buffer_byte(out, ',');
    write_number(out, "prompt_seconds", g->prompt_seconds);
    buffer_byte(out, ',');
    write_number(out, "prompt_tps", per_second(computed, g->prompt_seconds));
    buffer_byte(out, ',');
    write_number(out, "decode_seconds", g->decode_seconds);
    buffer_byte(out, ',');
    write_number(out, "decode_tps", per_second(g->decode_steps, g->decode_seconds));
    buffer_byte(out, '}');
}

static void print_json(const Loaded *loaded, const RequestFlags *flags, const Generation *g) {
    Buffer out = {0};
    buffer_text(&out, "{\"ids\":");
    write_ids(&out, &g->ids);
    buffer_text(&out, ",\"text\":");
    json_write_string(&out, buffer_string(&g->text), g->text.length, false);
    buffer_printf(&out, ",\"finish_reason\":\"%s\",\"timings\":", g->finish == FINISH_STOP ? "stop" : "length");
    write_timings(&out, g, loaded->seconds);
    if (flags->request.sampling.temperature > 0)
        buffer_printf(&out, ",\"seed\":%llu", (unsigned long long)flags->request.sampling.seed);
    buffer_text(&out, "}\n");
    output_buffer(&out);
    buffer_clear(&out);
}

/* Without a tokenizer the ids are the answer. */
static void print_plain_end(const Loaded *loaded, const Generation *g) {
    if (!loaded->tokenizer) {
        Buffer out = {0};
        write_ids(&out, &g->ids);
        output_buffer(&out);
        buffer_clear(&out);
    }
    output_byte('\n');
}

static bool stream_text(void *context, const char *text, size_t n) {
    bool *json = context;
    if (interrupt_noted()) return false;
    return *json || n == 0 || output_write(text, n);
}

static bool prompt_ids(const Args *args, const Loaded *loaded, IdList *ids, Error *err) {
    bool given;
    if (!input_ids_flags(args, ids, &given, err)) return false;
    if (given) return true;
    const char *prompt = args_text(args, FLAG_PROMPT);
    if (prompt)
        return tokenizer_encode(loaded->tokenizer, prompt, strlen(prompt), ENCODE_SPECIAL, ids, err) ||
               error_prefix(err, "--prompt");
    JsonDoc *variables = setup_variables_flags(args, err);
    bool ok = variables && setup_chat_ids(loaded, json_root(variables), ids, err);
    json_free(variables);
    return ok;
}

static bool run_request(const Args *args, const Loaded *loaded, const RequestFlags *flags, Error *err) {
    Prefix prefix = {0};
    Generation g;
    bool json = args_has(args, FLAG_JSON);
    interrupt_catch(true);
    bool ok = generate(loaded->model, loaded->tokenizer, &prefix, &flags->request, stream_text, &json, &g, err);
    if (ok) {
        if (json)
            print_json(loaded, flags, &g);
        else
            print_plain_end(loaded, &g);
        if (flags->seed_drawn) fprintf(stderr, "seed %llu\n", (unsigned long long)flags->request.sampling.seed);
        uint64_t hash = g.last_logits ? trace_hash(g.last_logits, (size_t)model_vocab_size(loaded->model)) : 0;
        report_verbose(loaded, args, hash, g.decode_steps, g.decode_seconds);
        generation_clear(&g);
    }
    prefix_clear(&prefix);
    return ok;
}

static bool generate_all(const Args *args, LoadNeed tokenizer, LoadNeed chat_template, Error *err) {
    Loaded loaded;
    RequestFlags flags = {0};
    IdList ids = {0};
    Sampling greedy = SAMPLING_GREEDY;
    if (!setup_load(args, tokenizer, chat_template, &loaded, err)) return false;
    bool ok = prompt_ids(args, &loaded, &ids, err) && setup_request(args, &loaded, &greedy, &flags, err);
    if (ok) {
        flags.request.prompt = ids.ids;
        flags.request.n_prompt = (int)ids.n;
        ok = run_request(args, &loaded, &flags, err);
    }
    setup_request_clear(&flags);
    id_list_clear(&ids);
    loaded_close(&loaded);
    return ok;
}

int command_generate(const Args *args) {
    Error err;
    bool messages = args_has(args, FLAG_MESSAGES), ids = args_has(args, FLAG_IDS) || args_has(args, FLAG_IDS_FILE);
    if (messages + ids + args_has(args, FLAG_PROMPT) != 1)
        return wrong_usage(args->command, "give one of --prompt, --ids and --messages");
    if (!generate_all(args, ids ? LOAD_IF_THERE : LOAD_NEEDED, messages ? LOAD_NEEDED : LOAD_NOT, &err))
        return complain(&err);
    return interrupt_noted() ? EXIT_INTERRUPTED : 0;
}
