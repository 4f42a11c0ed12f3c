/* Attention of a step's rows over their sequences' keys and values: docs/arithmetic.md, "Attention".
 *
 * Keys lie in tiles of 16 positions ([head_dim][16]) and values position by position, both in pages of KV_PAGE
 * positions of one layer. A row sees its keys in ascending position; blocks of 512 positions are part of the
 * definition. */
#ifndef LOCKSTEP_MATH_ATTEND_H
#define LOCKSTEP_MATH_ATTEND_H

#include "base/arena.h"
#include "base/pool.h"

#include <stddef.h>
#include <stdint.h>

enum { KV_PAGE = 64, KV_TILE = 16, ATTEND_BLOCK = 512, ATTEND_QUERIES = 16 /* of a task at most */ };

typedef enum KvFormat { KV_I16, KV_F32, KV_F16, KV_BF16 } KvFormat;
const char *kv_format_name(KvFormat f);
bool kv_format_parse(const char *name, KvFormat *out);

/* The shape of one layer's pages. */
typedef struct KvShape {
    KvFormat format;
    int heads;        /* key-value heads */
    int k_dim, v_dim; /* dims of a key and of a value */
} KvShape;

size_t kv_page_bytes(const KvShape *shape);

/* One layer's keys and values of one sequence: pages[p / KV_PAGE] holds position p; NULL where dropped (outside a
 * window). */
typedef struct KvView {
    KvShape shape;
    uint8_t *const *pages;
} KvView;

/* Writes position `position`: k [heads][k_dim], v [heads][v_dim], in the page's format. False when a value is not
 * finite (what was written is then unspecified). */
bool kv_write(const KvView *view, int position, const float *k, const float *v);

/* The value at `position` as it was written: of one f32 head. */
const float *kv_value(const KvView *view, int position);

/* Scores of n queries (q[i] [k_dim]) against one page of keys of a kv head, each times `scale`: out[i] [KV_PAGE], of
 * which positions not yet written are meaningless. */
void kv_page_scores(const KvView *view, int page, int kv_head, const float *const *q, int n, float scale,
                    float *const *out);

/* Some of a row's positions, ascending. */
typedef struct AttendKeys {
    const int *positions;
    int n;
} AttendKeys;

/* What is needed to add up what one query reads in several places. */
typedef struct AttendPart {
    float max, denominator; /* of the weights exp(score - max) */
} AttendPart;

/* One query row: q [n_heads][k_dim] against the keys of `view` at positions first .. position (its own, or a later one
 * where it sees both ways), out [n_heads][v_dim]. */
typedef struct AttendRow {
    const KvView
        *view; /* rows of one sequence share the pointer and follow one another: that is how they are grouped */
    int first, position; /* both ascend from row to row of one sequence */
    const float *q;
    float *out;
    /* NULL, or the positions among first .. position that are visible (sparse indexers, block-sparse patterns): one
     * list, or one for each query head. The others contribute nothing, and blocks stay those of absolute positions. */
    const AttendKeys *keys;
    bool keys_per_head;
    AttendPart *parts; /* NULL; or [n_heads]: `out` then stays undivided, to be added to what other keys give */
} AttendRow;

typedef struct AttendArgs {
    int n_heads;        /* query heads; a multiple of the view's heads: head h uses kv head h / (n_heads / heads) */
    float scale;        /* applied to the finished dot product */
    float softcap;      /* 0: none; else score = softcap * tanh(score / softcap), after the scale */
    const float *sinks; /* NULL or [n_heads]: one more logit in maximum and denominator, without a value */
} AttendArgs;

bool attend(const AttendArgs *args, const AttendRow *rows, int n_rows, Pool *pool,
            Arena *arena); /* false: out of memory */

#endif
