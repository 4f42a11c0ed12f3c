/* A token is named by its text here, not by its id; one that is part of a character is named by its bytes, as OpenAI
 * does. Where two tokens have one name, the more probable one has it in "top_logprobs". */
#include "serve/openai_legacy.h"
#include "base/json.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

static void name_token(const Tokenizer *t, int32_t id, Buffer *out) {
    Buffer bytes = {0};
    if (t)
        tokenizer_bytes(t, id, &bytes);
    else
        buffer_printf(&bytes, "token_id:%d", id);
    if (utf8_valid(buffer_string(&bytes), bytes.length) == bytes.length) {
        buffer_append(out, buffer_string(&bytes), bytes.length);
    } else {
        buffer_text(out, "bytes:");
        for (size_t i = 0; i < bytes.length; i++) buffer_printf(out, "\\x%02x", (unsigned char)bytes.data[i]);
    }
    if (bytes.failed) out->failed = true;
    buffer_clear(&bytes);
}

static bool is_named(const Buffer *names, int n, const Buffer *name) {
    for (int i = 0; i < n; i++)
        if (names[i].length == name->length && memcmp(buffer_string(&names[i]), buffer_string(name), name->length) == 0)
            return true;
    return false;
}

static void write_top(const Tokenizer *t, const TokenScore *s, Buffer *out) {
    Buffer names[SCORE_TOP + 1] = {{0}};
    int n = 0;
    bool chosen = false;
    buffer_byte(out, '{');
    for (int i = 0; i <= s->n_top; i++) {
        if (i == s->n_top && chosen) break;
        const ScoredToken *token = i < s->n_top ? &s->top[i] : &s->token;
        chosen = chosen || token->id == s->token.id;
        name_token(t, token->id, &names[n]);
        if (names[n].failed) out->failed = true;
        if (is_named(names, n, &names[n])) {
            buffer_clear(&names[n]);
            continue;
        }
        buffer_text(out, n ? ", " : "");
        json_write_string(out, buffer_string(&names[n]), names[n].length, false);
        buffer_text(out, ": ");
        json_write_double(out, (double)token->logprob);
        n++;
    }
    buffer_byte(out, '}');
    for (int i = 0; i < n; i++) buffer_clear(&names[i]);
}

void legacy_add(LegacyScores *l, const Tokenizer *t, int32_t id, const TokenScore *score, size_t offset) {
    const char *comma = l->n++ ? ", " : "";
    Buffer name = {0};
    name_token(t, id, &name);
    buffer_text(&l->tokens, comma);
    json_write_string(&l->tokens, buffer_string(&name), name.length, false);
    if (name.failed) l->tokens.failed = true;
    buffer_clear(&name);
    buffer_text(&l->logprobs, comma);
    buffer_text(&l->tops, comma);
    if (score) {
        json_write_double(&l->logprobs, (double)score->token.logprob);
        write_top(t, score, &l->tops);
        buffer_printf(&l->hashes, "%s\"%016" PRIx64 "\"", comma, score->hash);
    } else {
        buffer_text(&l->logprobs, "null");
        buffer_text(&l->tops, "null");
        buffer_printf(&l->hashes, "%snull", comma);
    }
    buffer_printf(&l->offsets, "%s%zu", comma, offset);
    buffer_printf(&l->ids, "%s%d", comma, id);
}

void legacy_write(LegacyScores *l, bool ids, Buffer *out) {
    if (l->n == 0) {
        buffer_text(out, "null");
        return;
    }
    buffer_printf(out, "{\"tokens\": [%s], \"token_logprobs\": [%s], \"top_logprobs\": [%s], \"text_offset\": [%s]",
                  buffer_string(&l->tokens), buffer_string(&l->logprobs), buffer_string(&l->tops),
                  buffer_string(&l->offsets));
    if (ids)
        buffer_printf(out, ", \"token_ids\": [%s], \"logits_hash\": [%s]", buffer_string(&l->ids),
                      buffer_string(&l->hashes));
    buffer_byte(out, '}');
    Buffer *all[] = {&l->tokens, &l->logprobs, &l->tops, &l->offsets, &l->ids, &l->hashes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->failed) out->failed = true;
        buffer_reset(all[i]);
    }
    l->n = 0;
}

void legacy_clear(LegacyScores *l) {
    buffer_clear(&l->tokens);
    buffer_clear(&l->logprobs);
    buffer_clear(&l->tops);
    buffer_clear(&l->offsets);
    buffer_clear(&l->ids);
    buffer_clear(&l->hashes);
    l->n = 0;
}
