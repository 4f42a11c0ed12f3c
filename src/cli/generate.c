/* lockstep generate: one prompt, one answer, for people and for scripts (--json). */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "eval/trace.h"
#include "engine/score.h"

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

static void print_json(const Loaded *loaded, const RequestFlags *flags, const Generation *g, const Message *message) {
    Buffer out = {0};
    buffer_text(&out, "{\"ids\":");
    write_ids(&out, &g->ids);
    buffer_text(&out, ",\"text\":");
    json_write_string(&out, buffer_string(&g->text), g->text.length, false);
    buffer_printf(&out, ",\"finish_reason\":\"%s\",\"timings\":", g->finish == FINISH_STOP ? "stop" : "length");
    write_timings(&out, g, loaded->seconds);
    if (message) {
        buffer_text(&out, ",\"message\":");
        message_write(message, &out);
    }
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
    bool *whole = context; /* nothing is shown before the end */
    if (interrupt_noted()) return false;
    return *whole || n == 0 || output_write(text, n);
}

/* The prompt, and with --parse how its answer is taken apart. */
typedef struct Prompt {
    IdList ids, kept;
    JsonDoc *variables;
    ReplyOptions how;
} Prompt;

static void prompt_clear(Prompt *p) {
    id_list_clear(&p->ids);
    id_list_clear(&p->kept);
    json_free(p->variables);
}

static bool prompt_messages(const Args *args, const Loaded *loaded, Prompt *p, Error *err) {
    if (!(p->variables = setup_variables_flags(args, err))) return false;
    const JsonValue *variables = json_root(p->variables);
    if (args_has(args, FLAG_PARSE)) {
        if (!dialog_forms(args_text(args, FLAG_TOOL_PARSER), args_text(args, FLAG_REASONING_PARSER),
                          loaded->chat_template, &p->how, err))
            return false;
        p->how.tools = json_get_set(variables, "tools");
        if (!p->how.tools && !args_has(args, FLAG_TOOL_PARSER)) p->how.calls = NULL; /* none offered, none called */
        if (!dialog_kept_ids(loaded->tokenizer, &p->how, &p->kept, err)) return false;
    }
    return dialog_ids(loaded, variables, &p->how, &p->ids, err);
}

static bool prompt_read(const Args *args, const Loaded *loaded, Prompt *p, Error *err) {
    bool given;
    if (!input_ids_flags(args, &p->ids, &given, err)) return false;
    if (given) return true;
    const char *prompt = args_text(args, FLAG_PROMPT);
    if (!prompt) return prompt_messages(args, loaded, p, err);
    return tokenizer_encode(loaded->tokenizer, prompt, strlen(prompt), ENCODE_SPECIAL, &p->ids, err) ||
           error_prefix(err, "--prompt");
}

/* With --parse: the message, alone or as a part of --json. */
static bool print_parsed(const Args *args, const Loaded *loaded, const RequestFlags *flags, const Prompt *p,
                         const Generation *g, Error *err) {
    Message m;
    if (!message_read(&p->how, buffer_string(&g->text), g->text.length, &m, err)) return false;
    if (args_has(args, FLAG_JSON)) {
        print_json(loaded, flags, g, &m);
    } else {
        Buffer out = {0};
        message_write(&m, &out);
        buffer_byte(&out, '\n');
        output_buffer(&out);
        buffer_clear(&out);
    }
    message_clear(&m);
    return true;
}

static bool run_request(const Args *args, const Loaded *loaded, const RequestFlags *flags, const Prompt *p,
                        Error *err) {
    PrefixCache *cache = prefix_cache_new(model_state_shape(loaded->model), 0, err);
    if (!cache) return false;
    Generation g;
    bool parse = args_has(args, FLAG_PARSE), whole = args_has(args, FLAG_JSON) || parse;
    interrupt_catch(true);
    bool ok = generate(loaded->model, loaded->tokenizer, cache, &flags->request, stream_text, &whole, &g, err);
    if (ok) {
        if (parse)
            ok = print_parsed(args, loaded, flags, p, &g, err);
        else if (whole)
            print_json(loaded, flags, &g, NULL);
        else
            print_plain_end(loaded, &g);
        if (flags->seed_drawn) fprintf(stderr, "seed %llu\n", (unsigned long long)flags->request.sampling.seed);
        uint64_t hash = g.last_logits ? logits_hash(g.last_logits, (size_t)model_vocab_size(loaded->model)) : 0;
        report_verbose(loaded, args, hash, g.decode_steps, g.decode_seconds);
        generation_clear(&g);
    }
    prefix_cache_free(cache);
    return ok;
}

static bool generate_all(const Args *args, LoadNeed tokenizer, LoadNeed chat_template, Error *err) {
    Loaded loaded;
    RequestFlags flags = {0};
    Prompt prompt = {0};
    Sampling greedy = SAMPLING_GREEDY;
    if (!setup_load(args, tokenizer, chat_template, &loaded, err)) return false;
    bool ok = prompt_read(args, &loaded, &prompt, err) && setup_request(args, &loaded, &greedy, &flags, err);
    if (ok) {
        flags.request.prompt = prompt.ids.ids;
        flags.request.n_prompt = (int)prompt.ids.n;
        flags.request.kept_ids = prompt.kept.ids;
        flags.request.n_kept_ids = (int)prompt.kept.n;
        ok = run_request(args, &loaded, &flags, &prompt, err);
    }
    setup_request_clear(&flags);
    prompt_clear(&prompt);
    loaded_close(&loaded);
    return ok;
}

int command_generate(const Args *args) {
    Error err;
    bool messages = args_has(args, FLAG_MESSAGES), ids = args_has(args, FLAG_IDS) || args_has(args, FLAG_IDS_FILE);
    if (messages + ids + args_has(args, FLAG_PROMPT) != 1)
        return wrong_usage(args->command, "give one of --prompt, --ids and --messages");
    if (args_has(args, FLAG_PARSE) && !messages)
        return wrong_usage(args->command,
                           "--parse goes with --messages: the chat template tells how to read an answer");
    if (!generate_all(args, ids ? LOAD_IF_THERE : LOAD_NEEDED, messages ? LOAD_NEEDED : LOAD_NOT, &err))
        return complain(&err);
    return interrupt_noted() ? EXIT_INTERRUPTED : 0;
}
