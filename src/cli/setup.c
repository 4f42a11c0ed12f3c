/* The steps that commands share between the command line and the engine. */
#include "cli/setup.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/input.h"
#include "math/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const NumericSettings default_numeric = {KV_I16, 16};

bool setup_options(const Args *args, LoadOptions *out, Error *err) {
    NumericSettings numeric = default_numeric;
    const char **ignored = NULL;
    int n_ignored = 0;
    if (args_has(args, FLAG_KV) && !kv_format_parse(args_text(args, FLAG_KV), &numeric.kv))
        return error_set(err, "--kv %s: not a format of keys and values", args_text(args, FLAG_KV));
    if (args_has(args, FLAG_ACTIVATIONS)) numeric.activation_bits = atoi(args_text(args, FLAG_ACTIVATIONS));
    if (!args_list(args, FLAG_IGNORE_CONFIG, &ignored, &n_ignored, err)) return false;
    *out = (LoadOptions){.model = args->positional[0],
                         .threads = args_int(args, FLAG_THREADS, 0),
                         .isa = args_text(args, FLAG_ISA),
                         .options = {numeric, ignored, n_ignored, args_int(args, FLAG_CTX, 0)}};
    return true;
}

void setup_options_clear(LoadOptions *o) {
    mem_free((void *)o->options.ignore_config);
}

bool setup_load(const Args *args, LoadNeed tokenizer, LoadNeed chat_template, Loaded *out, Error *err) {
    LoadOptions o;
    if (!setup_options(args, &o, err)) return false;
    o.tokenizer = tokenizer;
    o.chat_template = chat_template;
    bool ok = loaded_open(&o, out, err);
    setup_options_clear(&o);
    return ok;
}

/* "ID=V"; V may be -inf. */
static bool parse_bias(const char *text, LogitBias *out, Error *err) {
    char *end;
    long long id = strtoll(text, &end, 10);
    const char *number = end + 1;
    if (end == text || *end != '=' || id < 0 || id > INT32_MAX)
        return error_set(err, "--logit-bias %s: it must be ID=V, an id and a number", text);
    double value = strtod(number, &end);
    if (end == number || *end || isnan(value))
        return error_set(err, "--logit-bias %s: \"%s\" is not a number", text, number);
    *out = (LogitBias){(int32_t)id, (float)value};
    return true;
}

static bool setup_bias(const Args *args, RequestFlags *r, Error *err) {
    const char **texts = NULL;
    int n;
    if (!args_list(args, FLAG_LOGIT_BIAS, &texts, &n, err)) return false;
    bool ok = n == 0 || (r->bias = mem_array((size_t)n, sizeof *r->bias)) || error_memory(err, "--logit-bias");
    for (int i = 0; i < n && ok; i++) ok = parse_bias(texts[i], &r->bias[i], err);
    mem_free(texts);
    r->request.sampling.bias = r->bias;
    r->request.sampling.n_bias = n;
    return ok;
}

static bool setup_stops(const Args *args, RequestFlags *r, Error *err) {
    const char **texts = NULL;
    int n;
    if (!args_list(args, FLAG_STOP, &texts, &n, err)) return false;
    bool ok = n == 0 || (r->stops = mem_array((size_t)n, sizeof *r->stops)) || error_memory(err, "--stop");
    for (int i = 0; i < n && ok; i++) {
        r->stops[i] = (StopText){texts[i], strlen(texts[i])};
        if (!*texts[i]) ok = error_set(err, "--stop: an empty text would end every answer at once");
    }
    mem_free(texts);
    r->request.stops = r->stops;
    r->request.n_stops = n;
    return ok;
}

static void setup_sampling(const Args *args, RequestFlags *r) {
    Sampling *s = &r->request.sampling;
    s->temperature = (float)args_number(args, FLAG_TEMP, (double)s->temperature);
    s->top_k = args_int(args, FLAG_TOP_K, s->top_k);
    s->top_p = (float)args_number(args, FLAG_TOP_P, (double)s->top_p);
    s->min_p = (float)args_number(args, FLAG_MIN_P, (double)s->min_p);
    s->repetition_penalty = (float)args_number(args, FLAG_REPETITION_PENALTY, (double)s->repetition_penalty);
    s->presence_penalty = (float)args_number(args, FLAG_PRESENCE_PENALTY, (double)s->presence_penalty);
    s->frequency_penalty = (float)args_number(args, FLAG_FREQUENCY_PENALTY, (double)s->frequency_penalty);
    s->seed = args_has(args, FLAG_SEED) ? args->values[FLAG_SEED].natural : 0;
    r->seed_drawn = s->temperature > 0 && !args_has(args, FLAG_SEED);
    if (r->seed_drawn) s->seed = rng_seed();
}

bool setup_request(const Args *args, const Loaded *loaded, const Sampling *base, RequestFlags *out, Error *err) {
    const Defaults *d = &loaded->defaults;
    RequestFlags r = {.request = {.max_tokens = args_int(args, FLAG_N, -1),
                                  .sampling = *base,
                                  .end_ids = d->end_ids.ids,
                                  .n_end_ids = (int)d->end_ids.n}};
    r.request.sampling.suppressed = d->suppressed.ids;
    r.request.sampling.n_suppressed = (int)d->suppressed.n;
    setup_sampling(args, &r);
    if (!setup_bias(args, &r, err) || !setup_stops(args, &r, err)) {
        setup_request_clear(&r);
        return false;
    }
    *out = r;
    return true;
}

void setup_request_clear(RequestFlags *r) {
    mem_free(r->bias);
    mem_free(r->stops);
    *r = (RequestFlags){0};
}

static bool read_kwargs(const char *text, JsonDoc **out, Error *err) {
    JsonDoc *doc;
    if (!text) return true;
    if (!(doc = json_parse(text, strlen(text), 0, err))) return error_prefix(err, "--kwargs");
    if (json_root(doc)->type != JSON_OBJECT) {
        json_free(doc);
        return error_set(err, "--kwargs: it must be a JSON object");
    }
    *out = doc;
    return true;
}

JsonDoc *setup_variables_flags(const Args *args, Error *err) {
    JsonDoc *messages = NULL, *tools = NULL, *more = NULL, *variables = NULL;
    if (input_array("--messages", args_text(args, FLAG_MESSAGES), &messages, err) &&
        input_array("--tools", args_text(args, FLAG_TOOLS), &tools, err) &&
        read_kwargs(args_text(args, FLAG_KWARGS), &more, err)) {
        TemplateInput in = {.messages = messages ? json_root(messages) : NULL,
                            .tools = tools ? json_root(tools) : NULL,
                            .more = more ? json_root(more) : NULL,
                            .generation_prompt = !args_has(args, FLAG_NO_GENERATION_PROMPT)};
        variables = dialog_variables(&in, err);
    }
    json_free(messages);
    json_free(tools);
    json_free(more);
    return variables;
}

void report_verbose(const Loaded *loaded, const Args *args, uint64_t logits_hash, int steps, double seconds) {
    if (!args_has(args, FLAG_VERBOSE)) return;
    const NumericSettings *numeric = model_numeric(loaded->model);
    log_verbose("checkpoint %016llx  kv %s  activations %d  isa %s  threads %d",
                (unsigned long long)checkpoint_hash(loaded->checkpoint), kv_format_name(numeric->kv),
                numeric->activation_bits, kernels_name(), pool_threads(loaded->pool));
    if (steps > 0 && seconds > 0)
        log_verbose("%.2f GB/s of weights over %d steps",
                    (double)model_step_bytes(loaded->model) * steps / seconds / 1e9, steps);
    log_verbose("last logits %016llx", (unsigned long long)logits_hash);
}
