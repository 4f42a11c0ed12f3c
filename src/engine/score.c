/* The best tokens come from one pass over the vocabulary that keeps a short sorted list: nearly every logit fails the
 * first comparison. */
#include "engine/score.h"
#include "base/hash.h"
#include "base/memory.h"
#include "math/ops.h"

#include <string.h>

uint64_t logits_hash(const float *values, size_t n) {
    return hash_bytes(HASH_START, values, n * sizeof *values);
}

/* top[].logprob holds raw logits here. Equal ones stay in the order of their ids. */
static int best_tokens(const float *logits, int vocab, int n_top, ScoredToken *top) {
    int n = 0;
    for (int id = 0; id < vocab && n_top > 0; id++) {
        if (n == n_top && !(logits[id] > top[n - 1].logprob)) continue;
        int at = n < n_top ? n++ : n - 1;
        for (; at > 0 && logits[id] > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (ScoredToken){id, logits[id]};
    }
    return n;
}

void score_token(const float *logits, int vocab, int32_t id, int n_top, bool hash, TokenScore *out) {
    ScoredToken first = {0};
    best_tokens(logits, vocab, 1, &first);
    float log_sum = -ops_log_prob(logits, vocab, first.id); /* of the largest logit it is all there is */
    float max = first.logprob;
    out->token = (ScoredToken){id, logits[id] - max - log_sum};
    out->n_top = best_tokens(logits, vocab, n_top < SCORE_TOP ? n_top : SCORE_TOP, out->top);
    for (int i = 0; i < out->n_top; i++) out->top[i].logprob = out->top[i].logprob - max - log_sum;
    out->hash = hash ? logits_hash(logits, (size_t)vocab) : 0;
}

TokenScore *score_list_push(ScoreList *l) {
    TokenScore *items = mem_room(l->items, l->n, &l->capacity, sizeof *items);
    if (!items) return NULL;
    l->items = items;
    items[l->n] = (TokenScore){0};
    return &items[l->n++];
}

void score_list_clear(ScoreList *l) {
    mem_free(l->items);
    *l = (ScoreList){0};
}
