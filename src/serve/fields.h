/* The fields of requests: ONE table for all protocols, with their types and ranges. A field of the wrong type or out of
 * range is refused by name; a null counts as absent; what the table does not know is ignored, as clients send more than
 * anyone reads. */
#ifndef LOCKSTEP_SERVE_FIELDS_H
#define LOCKSTEP_SERVE_FIELDS_H

#include "engine/request.h"
#include "serve/api.h"

typedef struct FieldInt {
    bool set;
    int64_t value;
} FieldInt;

typedef struct FieldNumber {
    bool set;
    double value;
} FieldNumber;

typedef struct FieldBool {
    bool set, value;
} FieldBool;

/* What a request says; NULL or not set: nothing. Values belong to the request's document. */
typedef struct Fields {
    const char *model, *suffix, *keep_alive, *encoding_format, *user, *previous_response_id, *reasoning_effort, *query,
        *prompt_name, *instructions, *truncation;
    const JsonValue *content, *tokens, *include, *conversation, *output_config, *output_format, *context;
    const JsonValue *messages, *prompt, *input, *system;
    const JsonValue *tools, *tool_choice, *functions, *response_format, *text, *thinking, *reasoning;
    const JsonValue *stop, *logit_bias, *stream_options, *chat_template_kwargs, *documents, *options, *metadata,
        *format, *think;
    const JsonValue *guided_json, *guided_choice;
    const char *guided_regex, *guided_grammar;
    FieldBool add_special, with_pieces, return_token_strs, background, stream, echo, logprobs, store,
        parallel_tool_calls, ignore_eos, logits_hash, raw, return_documents, truncate, add_generation_prompt,
        continue_final_message;
    FieldInt n, best_of, max_tokens, max_completion_tokens, top_logprobs, legacy_logprobs, top_k, seed, min_tokens,
        dimensions, top_n, thinking_budget;
    FieldNumber temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
} Fields;

/* Reads what the table has for `api` out of an object. */
bool fields_read(const JsonValue *object, Api api, Fields *out, ApiError *err);

/* Appends what the table has for `api` as the "properties" of a JSON Schema. */
void fields_write_schema(Api api, Buffer *out);

/* The sampling settings over `base`, and its bias list, whose memory is the caller's to free. */
bool fields_sampling(const Fields *f, const Sampling *base, int vocab, Sampling *out, LogitBias **bias, ApiError *err);
/* "stop" or "stop_sequences": a text or a list of texts. *stops is the caller's to free; the texts are the document's.
 */
bool fields_stops(const JsonValue *stop, const char *name, int most, StopText **stops, int *n, ApiError *err);

#endif
