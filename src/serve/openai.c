/* Ids are drawn, so that they stay apart over restarts; nothing else in an answer is left to chance. */
#include "serve/openai.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "serve/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void openai_new_id(char *out, size_t size, const char *prefix) {
    snprintf(out, size, "%s%016" PRIx64 "%08" PRIx32, prefix, rng_seed(), (uint32_t)rng_seed());
}

void openai_call_id(const ReplyEvent *call, char out[OPENAI_CALL_ID]) {
    if (call->id_length > 0 && call->id_length < OPENAI_CALL_ID)
        snprintf(out, OPENAI_CALL_ID, "%.*s", (int)call->id_length, call->id);
    else
        openai_new_id(out, OPENAI_CALL_ID, "call_");
}

void openai_write_head(Buffer *out, const char *id, const char *object, int64_t created, const char *model) {
    buffer_printf(out, "{\"id\": \"%s\", \"object\": \"%s\", \"created\": %" PRId64 ", ", id, object, created);
    api_write_text(out, "model", model, strlen(model));
}

void openai_write_usage(Buffer *out, const Ask *ask) {
    JobUsage u = ask_usage(ask);
    buffer_printf(out,
                  "\"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"total_tokens\": %d, "
                  "\"prompt_tokens_details\": {\"cached_tokens\": %d}, "
                  "\"completion_tokens_details\": {\"reasoning_tokens\": %d}}",
                  u.n_prompt, u.n_answer, u.n_prompt + u.n_answer, u.n_cached, ask_thoughts(ask));
}

void openai_write_token(Buffer *out, const Tokenizer *t, int32_t id) {
    Buffer bytes = {0}, text = {0};
    tokenizer_bytes(t, id, &bytes);
    utf8_append_lossy(&text, buffer_string(&bytes), bytes.length);
    api_write_text(out, "token", buffer_string(&text), text.length);
    buffer_text(out, ", \"bytes\": [");
    for (size_t i = 0; i < bytes.length; i++) buffer_printf(out, "%s%d", i ? ", " : "", (unsigned char)bytes.data[i]);
    buffer_byte(out, ']');
    if (bytes.failed || text.failed) out->failed = true;
    buffer_clear(&bytes);
    buffer_clear(&text);
}

static void write_scored(Buffer *out, const Tokenizer *t, const ScoredToken *s) {
    buffer_byte(out, '{');
    openai_write_token(out, t, s->id);
    buffer_text(out, ", \"logprob\": ");
    json_write_double(out, (double)s->logprob);
}

void openai_write_score(Buffer *out, const Tokenizer *t, const TokenScore *score, bool hash) {
    write_scored(out, t, &score->token);
    if (hash) buffer_printf(out, ", \"id\": %d, \"logits_hash\": \"%016" PRIx64 "\"", score->token.id, score->hash);
    buffer_text(out, ", \"top_logprobs\": [");
    for (int i = 0; i < score->n_top; i++) {
        buffer_text(out, i ? ", " : "");
        write_scored(out, t, &score->top[i]);
        buffer_byte(out, '}');
    }
    buffer_text(out, "]}");
}

void openai_fail_late(Exchange *x, Api api, const char *why) {
    ApiError err;
    api_refuse(&err, 500, NULL, "%s", why);
    if (!exchange_is_streaming(x)) {
        api_fail(x, api, &err);
        return;
    }
    Buffer out = {0};
    api_write_error(&out, api, exchange_id(x), &err);
    sse_send(x, NULL, &out);
    buffer_clear(&out);
    sse_send_text(x, "[DONE]");
    exchange_stream_end(x);
}
