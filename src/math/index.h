/* Choosing which positions an attention sees, by an index of its own (DeepSeek-V3.2's lightning indexer,
 * arXiv:2512.02556): each row has a few small queries, one key per position answers them all, and the positions with
 * the best scores are seen. docs/arithmetic.md, "Sparse indexers". */
#ifndef LOCKSTEP_MATH_INDEX_H
#define LOCKSTEP_MATH_INDEX_H

#include "math/attend.h"

/* The score of position p is the sum over heads, in ascending order, of weights[h] * max(0, (q_h . k_p) * scale). */
typedef struct IndexRow {
    const KvView *view;    /* one kv head; its values are not looked at */
    int position;          /* the row sees 0 .. position */
    const float *q;        /* [n_heads][k_dim] */
    const float *weights;  /* [n_heads] */
    const int *candidates; /* NULL, or the blocks [min(blocks, n_candidates)] that compete: ascending */
    int *keep;   /* NULL, or [min(blocks, n_candidates)], written: the blocks with the best scores, ascending; only
                    where positions are chosen from more than n_chosen */
    int *chosen; /* [min(position + 1, n_chosen)], written: ascending positions */
} IndexRow;

typedef struct IndexArgs {
    int n_heads;
    int n_chosen; /* positions that a row keeps; all while there are no more; of equal scores the lower position */
    float scale;
    int block, n_candidates; /* of candidates: positions of a block, and how many are kept. A block's score is its best
                                position's, and the last block always stays */
} IndexArgs;

bool index_choose(const IndexArgs *args, const IndexRow *rows, int n_rows, Pool *pool,
                  Arena *arena); /* false: out of memory */
/* Choosing whole blocks: a block's score is the best q . k_p of its visible positions; the last n_local blocks come
 * first, then the best, and of equal scores the lower one. For rows with more than n_chosen blocks. */
typedef struct BlockRow {
    const KvView *view;
    int position;
    const float *q; /* [k_dim] */
    int *positions; /* [n_chosen * block], written: the visible positions of the chosen blocks, ascending */
    int n;          /* written: how many */
} BlockRow;

typedef struct BlockArgs {
    int block, n_chosen, n_local;
} BlockArgs;

bool index_blocks(const BlockArgs *args, BlockRow *rows, int n_rows, Pool *pool, Arena *arena);

#endif
