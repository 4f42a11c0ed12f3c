/* A row names a field, the protocols that have it, its kind and its place in Fields. Two names for one thing are two
 * rows with one place. */
#include "serve/fields.h"
#include "base/memory.h"
#include "base/rng.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum FieldKind {
    FIELD_TEXT,
    FIELD_BOOL,
    FIELD_INT,
    FIELD_SEED, /* an integer of 64 bits, signed or not */
    FIELD_NUMBER,
    FIELD_ARRAY,
    FIELD_OBJECT,
    FIELD_TEXT_OR_ARRAY,
    FIELD_TEXT_OR_OBJECT,
    FIELD_ANY,
} FieldKind;

typedef struct FieldRow {
    const char *name;
    unsigned apis;
    FieldKind kind;
    size_t place;
    double low, high; /* of numbers */
} FieldRow;

enum {
    CHAT = API_CHAT,
    COMPLETIONS = API_COMPLETIONS,
    RESPONSES = API_RESPONSES,
    MESSAGES = API_MESSAGES,
    OLLAMA = API_OLLAMA,
    EMBEDDINGS = API_EMBEDDINGS,
    RERANK = API_RERANK,
    TOKENS = API_TOKENS,
    OPENAI = CHAT | COMPLETIONS | RESPONSES,
    ANSWERS = OPENAI | MESSAGES,
    EVERY = ANSWERS | OLLAMA | EMBEDDINGS | RERANK | TOKENS,
};

#define AT(field) offsetof(Fields, field)
static const double MOST = 2147483647.0;

static const FieldRow rows[] = {
    {"model", EVERY, FIELD_TEXT, AT(model), 0, 0},
    {"messages", CHAT | MESSAGES | OLLAMA | TOKENS, FIELD_ARRAY, AT(messages), 0, 0},
    {"prompt", COMPLETIONS | OLLAMA | TOKENS, FIELD_TEXT_OR_ARRAY, AT(prompt), 0, 0},
    {"input", RESPONSES | EMBEDDINGS, FIELD_TEXT_OR_ARRAY, AT(input), 0, 0},
    {"instructions", RESPONSES, FIELD_TEXT, AT(instructions), 0, 0},
    {"system", MESSAGES | OLLAMA, FIELD_TEXT_OR_ARRAY, AT(system), 0, 0},
    {"suffix", COMPLETIONS | OLLAMA, FIELD_TEXT, AT(suffix), 0, 0},
    {"stream", ANSWERS | OLLAMA, FIELD_BOOL, AT(stream), 0, 0},
    {"stream_options", CHAT | COMPLETIONS | RESPONSES, FIELD_OBJECT, AT(stream_options), 0, 0},
    {"n", CHAT | COMPLETIONS, FIELD_INT, AT(n), 1, 64},
    {"best_of", COMPLETIONS, FIELD_INT, AT(best_of), 1, 64},
    {"max_tokens", CHAT | COMPLETIONS | MESSAGES, FIELD_INT, AT(max_tokens), 0, MOST},
    {"max_completion_tokens", CHAT, FIELD_INT, AT(max_completion_tokens), 0, MOST},
    {"max_output_tokens", RESPONSES, FIELD_INT, AT(max_tokens), 1, MOST},
    {"num_predict", OLLAMA, FIELD_INT, AT(max_tokens), -2, MOST},
    {"min_tokens", CHAT | COMPLETIONS, FIELD_INT, AT(min_tokens), 0, MOST},
    {"temperature", ANSWERS | OLLAMA, FIELD_NUMBER, AT(temperature), 0, 100},
    {"top_p", ANSWERS | OLLAMA, FIELD_NUMBER, AT(top_p), 0, 1},
    {"top_k", ANSWERS | OLLAMA, FIELD_INT, AT(top_k), -1, MOST},
    {"min_p", ANSWERS | OLLAMA, FIELD_NUMBER, AT(min_p), 0, 1},
    {"repetition_penalty", ANSWERS, FIELD_NUMBER, AT(repetition_penalty), 1e-6, 100},
    {"repeat_penalty", ANSWERS | OLLAMA, FIELD_NUMBER, AT(repetition_penalty), 1e-6, 100},
    {"presence_penalty", ANSWERS | OLLAMA, FIELD_NUMBER, AT(presence_penalty), -100, 100},
    {"frequency_penalty", ANSWERS | OLLAMA, FIELD_NUMBER, AT(frequency_penalty), -100, 100},
    {"seed", ANSWERS | OLLAMA, FIELD_SEED, AT(seed), 0, 0},
    {"stop", CHAT | COMPLETIONS | OLLAMA, FIELD_TEXT_OR_ARRAY, AT(stop), 0, 0},
    {"stop_sequences", MESSAGES, FIELD_ARRAY, AT(stop), 0, 0},
    {"ignore_eos", ANSWERS, FIELD_BOOL, AT(ignore_eos), 0, 0},
    {"echo", COMPLETIONS, FIELD_BOOL, AT(echo), 0, 0},
    {"logprobs", CHAT | OLLAMA, FIELD_BOOL, AT(logprobs), 0, 0},
    {"logprobs", COMPLETIONS, FIELD_INT, AT(legacy_logprobs), 0, 5},
    {"top_logprobs", CHAT | RESPONSES | OLLAMA, FIELD_INT, AT(top_logprobs), 0, 20},
    {"logits_hash", CHAT | COMPLETIONS, FIELD_BOOL, AT(logits_hash), 0, 0},
    {"logit_bias", CHAT | COMPLETIONS, FIELD_OBJECT, AT(logit_bias), 0, 0},
    {"tools", CHAT | RESPONSES | MESSAGES | OLLAMA | TOKENS, FIELD_ARRAY, AT(tools), 0, 0},
    {"tool_choice", CHAT | RESPONSES | MESSAGES | TOKENS, FIELD_TEXT_OR_OBJECT, AT(tool_choice), 0, 0},
    {"functions", CHAT, FIELD_ARRAY, AT(functions), 0, 0},
    {"parallel_tool_calls", CHAT | RESPONSES, FIELD_BOOL, AT(parallel_tool_calls), 0, 0},
    {"response_format", CHAT | COMPLETIONS, FIELD_OBJECT, AT(response_format), 0, 0},
    {"text", RESPONSES, FIELD_OBJECT, AT(text), 0, 0},
    {"output_config", MESSAGES, FIELD_OBJECT, AT(output_config), 0, 0},
    {"output_format", MESSAGES, FIELD_OBJECT, AT(output_format), 0, 0},
    {"format", OLLAMA, FIELD_ANY, AT(format), 0, 0},
    {"guided_json", CHAT | COMPLETIONS, FIELD_ANY, AT(guided_json), 0, 0},
    {"guided_choice", CHAT | COMPLETIONS, FIELD_ARRAY, AT(guided_choice), 0, 0},
    {"guided_regex", CHAT | COMPLETIONS, FIELD_TEXT, AT(guided_regex), 0, 0},
    {"guided_grammar", CHAT | COMPLETIONS, FIELD_TEXT, AT(guided_grammar), 0, 0},
    {"thinking", MESSAGES, FIELD_OBJECT, AT(thinking), 0, 0},
    {"reasoning", RESPONSES, FIELD_OBJECT, AT(reasoning), 0, 0},
    {"reasoning_effort", CHAT | TOKENS, FIELD_TEXT, AT(reasoning_effort), 0, 0},
    {"thinking_budget", CHAT | RESPONSES, FIELD_INT, AT(thinking_budget), 1, MOST},
    {"think", OLLAMA, FIELD_ANY, AT(think), 0, 0},
    {"chat_template_kwargs", ANSWERS | TOKENS, FIELD_OBJECT, AT(chat_template_kwargs), 0, 0},
    {"documents", CHAT | RERANK | TOKENS, FIELD_ARRAY, AT(documents), 0, 0},
    {"add_generation_prompt", CHAT | TOKENS, FIELD_BOOL, AT(add_generation_prompt), 0, 0},
    {"continue_final_message", CHAT | TOKENS, FIELD_BOOL, AT(continue_final_message), 0, 0},
    {"store", CHAT | RESPONSES, FIELD_BOOL, AT(store), 0, 0},
    {"metadata", ANSWERS, FIELD_OBJECT, AT(metadata), 0, 0},
    {"truncation", RESPONSES, FIELD_TEXT, AT(truncation), 0, 0},
    {"background", RESPONSES, FIELD_BOOL, AT(background), 0, 0},
    {"include", RESPONSES, FIELD_ARRAY, AT(include), 0, 0},
    {"conversation", RESPONSES, FIELD_TEXT_OR_OBJECT, AT(conversation), 0, 0},
    {"prompt", RESPONSES, FIELD_OBJECT, AT(prompt), 0, 0},
    {"previous_response_id", RESPONSES, FIELD_TEXT, AT(previous_response_id), 0, 0},
    {"context", OLLAMA, FIELD_ARRAY, AT(context), 0, 0},
    {"options", OLLAMA, FIELD_OBJECT, AT(options), 0, 0},
    {"raw", OLLAMA, FIELD_BOOL, AT(raw), 0, 0},
    {"encoding_format", EMBEDDINGS, FIELD_TEXT, AT(encoding_format), 0, 0},
    {"dimensions", EMBEDDINGS, FIELD_INT, AT(dimensions), 1, MOST},
    {"content", TOKENS, FIELD_TEXT_OR_ARRAY, AT(content), 0, 0},
    {"tokens", TOKENS, FIELD_ARRAY, AT(tokens), 0, 0},
    {"add_special", TOKENS, FIELD_BOOL, AT(add_special), 0, 0},
    {"add_special_tokens", TOKENS, FIELD_BOOL, AT(add_special), 0, 0},
    {"with_pieces", TOKENS, FIELD_BOOL, AT(with_pieces), 0, 0},
    {"return_token_strs", TOKENS, FIELD_BOOL, AT(return_token_strs), 0, 0},
    {"prompt_name", EMBEDDINGS, FIELD_TEXT, AT(prompt_name), 0, 0},
    {"query", RERANK, FIELD_TEXT, AT(query), 0, 0},
    {"top_n", RERANK, FIELD_INT, AT(top_n), 1, MOST},
    {"return_documents", RERANK, FIELD_BOOL, AT(return_documents), 0, 0},
    {"user", OPENAI | EMBEDDINGS, FIELD_TEXT, AT(user), 0, 0},
};

static const char *const kind_names[] = {
    [FIELD_TEXT] = "a string",
    [FIELD_BOOL] = "true or false",
    [FIELD_INT] = "an integer",
    [FIELD_SEED] = "an integer",
    [FIELD_NUMBER] = "a number",
    [FIELD_ARRAY] = "an array",
    [FIELD_OBJECT] = "an object",
    [FIELD_TEXT_OR_ARRAY] = "a string or an array",
    [FIELD_TEXT_OR_OBJECT] = "a string or an object",
    [FIELD_ANY] = "a value",
};

/* JSON Schema's types of each kind, null besides: a null counts as absent. */
static const char *const kind_types[] = {
    [FIELD_TEXT] = "\"string\"",
    [FIELD_BOOL] = "\"boolean\"",
    [FIELD_INT] = "\"integer\"",
    [FIELD_SEED] = "\"integer\"",
    [FIELD_NUMBER] = "\"number\"",
    [FIELD_ARRAY] = "\"array\"",
    [FIELD_OBJECT] = "\"object\"",
    [FIELD_TEXT_OR_ARRAY] = "\"string\", \"array\"",
    [FIELD_TEXT_OR_OBJECT] = "\"string\", \"object\"",
    [FIELD_ANY] = NULL,
};

void fields_write_schema(Api api, Buffer *out) {
    const char *comma = "";
    buffer_byte(out, '{');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const FieldRow *row = &rows[i];
        bool counts = row->kind == FIELD_INT || row->kind == FIELD_NUMBER;
        if (!(row->apis & (unsigned)api)) continue;
        buffer_printf(out, "%s\"%s\": {", comma, row->name);
        if (kind_types[row->kind]) buffer_printf(out, "\"type\": [%s, \"null\"]", kind_types[row->kind]);
        if (counts && row->low > -MOST) buffer_printf(out, ", \"minimum\": %.9g", row->low);
        if (counts && row->high < MOST) buffer_printf(out, ", \"maximum\": %.9g", row->high);
        buffer_byte(out, '}');
        comma = ", ";
    }
    buffer_byte(out, '}');
}

static bool wrong_type(const FieldRow *row, ApiError *err) {
    return api_refuse(err, 400, row->name, "'%s' must be %s", row->name, kind_names[row->kind]);
}

static bool out_of_range(const FieldRow *row, const JsonValue *v, bool above, ApiError *err) {
    char must[64];
    if (row->low > -MOST && row->high < MOST)
        snprintf(must, sizeof must, "from %.10g to %.10g", row->low, row->high);
    else
        snprintf(must, sizeof must, above ? "at most %.10g" : "at least %.10g", above ? row->high : row->low);
    return api_refuse(err, 400, row->name, "'%s' is %.*s: it must be %s", row->name, (int)v->length, v->text, must);
}

static bool read_int(const FieldRow *row, const JsonValue *v, FieldInt *out, ApiError *err) {
    int64_t value;
    if (v->type != JSON_INT && v->type != JSON_FLOAT) return wrong_type(row, err);
    if (!json_int(v, &value))
        return v->type == JSON_INT ? out_of_range(row, v, v->text[0] != '-', err) : wrong_type(row, err);
    if ((double)value < row->low || (double)value > row->high)
        return out_of_range(row, v, (double)value > row->high, err);
    *out = (FieldInt){true, value};
    return true;
}

static bool json_unsigned(const JsonValue *v, uint64_t *out) {
    uint64_t value = 0;
    if (v->type != JSON_INT || v->text[0] == '-') return false;
    for (uint32_t i = 0; i < v->length; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(v->text[i] - '0'), &value))
            return false;
    *out = value;
    return true;
}

/* Clients draw seeds of either kind; what counts is the 64 bits. */
static bool read_seed(const FieldRow *row, const JsonValue *v, FieldInt *out, ApiError *err) {
    uint64_t value;
    *out = (FieldInt){.set = true};
    if (json_int(v, &out->value)) return true;
    if (v->type != JSON_INT) return wrong_type(row, err);
    if (!json_unsigned(v, &value))
        return api_refuse(err, 400, row->name, "'%s' is %.*s: it must be from %" PRId64 " to %" PRIu64, row->name,
                          (int)v->length, v->text, INT64_MIN, UINT64_MAX);
    out->value = (int64_t)value;
    return true;
}

static bool read_number(const FieldRow *row, const JsonValue *v, FieldNumber *out, ApiError *err) {
    double value;
    if (!json_number(v, &value)) return wrong_type(row, err);
    if (!(value >= row->low && value <= row->high)) return out_of_range(row, v, value > row->high, err);
    *out = (FieldNumber){true, value};
    return true;
}

/* A text with a NUL inside would end there for everyone below. */
static bool read_text(const FieldRow *row, const JsonValue *v, const char **out, ApiError *err) {
    if (v->type != JSON_STRING) return wrong_type(row, err);
    if (strlen(v->text) != v->length) return api_refuse(err, 400, row->name, "'%s' holds a NUL", row->name);
    *out = v->text;
    return true;
}

static bool kind_takes(FieldKind kind, JsonType type) {
    switch (kind) {
    case FIELD_ARRAY: return type == JSON_ARRAY;
    case FIELD_OBJECT: return type == JSON_OBJECT;
    case FIELD_TEXT_OR_ARRAY: return type == JSON_STRING || type == JSON_ARRAY;
    case FIELD_TEXT_OR_OBJECT: return type == JSON_STRING || type == JSON_OBJECT;
    default: return true;
    }
}

static bool read_row(const FieldRow *row, const JsonValue *v, void *place, ApiError *err) {
    switch (row->kind) {
    case FIELD_TEXT: return read_text(row, v, place, err);
    case FIELD_INT: return read_int(row, v, place, err);
    case FIELD_SEED: return read_seed(row, v, place, err);
    case FIELD_NUMBER: return read_number(row, v, place, err);
    case FIELD_BOOL:
        if (v->type != JSON_BOOL) return wrong_type(row, err);
        *(FieldBool *)place = (FieldBool){true, v->boolean};
        return true;
    default:
        if (!kind_takes(row->kind, v->type)) return wrong_type(row, err);
        *(const JsonValue **)place = v;
        return true;
    }
}

bool fields_read(const JsonValue *object, Api api, Fields *out, ApiError *err) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const FieldRow *row = &rows[i];
        const JsonValue *v = row->apis & (unsigned)api ? json_get_set(object, row->name) : NULL;
        if (v && !read_row(row, v, (char *)out + row->place, err)) return false;
    }
    return true;
}

/* ---- sampling ---- */

static bool read_bias(const JsonValue *v, int vocab, LogitBias **out, int *n, ApiError *err) {
    LogitBias *bias = mem_array(v->length, sizeof *bias);
    if (!bias) return api_refuse(err, 500, NULL, "out of memory");
    for (uint32_t i = 0; i < v->length; i++) {
        const JsonMember *m = &v->members[i];
        char *end;
        double value = 0;
        long id = strtol(m->key, &end, 10);
        bool ok = m->key_length > 0 && *end == '\0' && id >= 0 && id < vocab && json_number(&m->value, &value) &&
                  fabs(value) <= 100;
        if (!ok) {
            mem_free(bias);
            return api_refuse(
                err, 400, "logit_bias",
                "'logit_bias': each key must be a token id below %d, each value a number from -100 to 100", vocab);
        }
        bias[i] = (LogitBias){(int32_t)id, value <= -100 ? -INFINITY : (float)value};
    }
    *out = bias;
    *n = (int)v->length;
    return true;
}

static void take_number(const FieldNumber *f, float *out) {
    if (f->set) *out = (float)f->value;
}

bool fields_sampling(const Fields *f, const Sampling *base, int vocab, Sampling *out, LogitBias **bias, ApiError *err) {
    Sampling s = *base;
    take_number(&f->temperature, &s.temperature);
    take_number(&f->top_p, &s.top_p);
    take_number(&f->min_p, &s.min_p);
    take_number(&f->repetition_penalty, &s.repetition_penalty);
    take_number(&f->presence_penalty, &s.presence_penalty);
    take_number(&f->frequency_penalty, &s.frequency_penalty);
    if (f->top_k.set) s.top_k = f->top_k.value < 0 ? 0 : (int)f->top_k.value;
    s.seed = f->seed.set ? (uint64_t)f->seed.value : rng_seed();
    if (f->logit_bias && !read_bias(f->logit_bias, vocab, bias, &s.n_bias, err)) return false;
    if (f->logit_bias) s.bias = *bias;
    *out = s;
    return true;
}

bool fields_stops(const JsonValue *stop, const char *name, int most, StopText **stops, int *n, ApiError *err) {
    *stops = NULL;
    *n = 0;
    if (!stop) return true;
    uint32_t count = stop->type == JSON_STRING ? 1 : stop->length;
    if (count > (uint32_t)most) return api_refuse(err, 400, name, "'%s' has %u texts: at most %d", name, count, most);
    StopText *list = mem_array(count, sizeof *list);
    if (!list) return api_refuse(err, 500, NULL, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        const JsonValue *v = stop->type == JSON_STRING ? stop : json_item(stop, i);
        if (v->type != JSON_STRING || v->length == 0) {
            mem_free(list);
            return api_refuse(err, 400, name, "'%s' must hold texts that are not empty", name);
        }
        list[i] = (StopText){v->text, v->length};
    }
    *stops = list;
    *n = (int)count;
    return true;
}
