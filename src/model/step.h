/* One step in progress: the rows, the scratch memory and the faults. What mixers and feed-forwards work with. */
#ifndef LOCKSTEP_MODEL_STEP_H
#define LOCKSTEP_MODEL_STEP_H

#include "model/bind.h"
#include "model/model.h"

typedef struct RopeAngles {
    float *cos, *sin; /* [rows][dims / 2] */
} RopeAngles;

enum { STEP_BUFFERS = 64, ALTUP_MAX = 16, BLOCKS_MAX = 48, HYPER_MAX = 16 };

/* Where a row stands in its step. */
typedef struct RowPlace {
    int sequence; /* which of the step's sequences it belongs to, from 0 */
    int end;      /* one past the last position of that sequence in this step */
} RowPlace;

/* Kinds of keys that a layer may keep: its own, and beside them those of an index, those that stand for many positions,
 * and rows that such are made of. */
enum { STEP_OWN, STEP_INDEX, STEP_POOLED, STEP_RAW, STEP_KINDS };

typedef struct StepBuffer {
    float *values;
    int cols;
} StepBuffer;

typedef struct Step {
    const Blueprint *blueprint;
    const Weights *weights;
    const NumericSettings *numeric;
    Pool *pool;
    Arena *arena;
    const Row *rows;
    int n;
    const int *positions;   /* [n] */
    const RowPlace *places; /* [n] */
    int n_sequences;
    const RopeAngles *angles; /* [blueprint->n_ropes] */
    RowFault *faults;         /* [n] */
    int n_failed;
    float *hidden;             /* [n][hidden], the residual stream */
    float *embedding;          /* [n][hidden] as the layers began, where some layer skips to it; else NULL */
    float *per_layer;          /* [n][n_layers * width], where the blueprint has per-layer inputs */
    float *streams[ALTUP_MAX]; /* [n][hidden] each, where the blueprint has several */
    float *blocks[BLOCKS_MAX]; /* [n][hidden] each: the hidden rows where blocks of layers began */
    int n_blocks;
    float *hyper;                  /* [n][streams][hidden], where the blueprint has hyper-connections */
    float *hyper_mix, *hyper_sum;  /* [n][(2 + streams) * streams], [n][streams]: the mixes, and a delayed sum's */
    StepBuffer kept[STEP_BUFFERS]; /* row by row values that outlive a layer, hidden among them */
    int n_kept;
    KvView *views;          /* [n_sequences] of an encoder's layer: its keys and values, which live no longer than it */
    float *lent_k, *lent_v; /* keys and values of all rows as the last layer that lends them projected them */
    float *shortcut; /* [n][hidden]: experts' result for the next layer; NULL where the blueprint has no shortcuts */
    float *chosen;   /* [n][n_chosen] ints: positions that the last indexer chose; NULL where the blueprint has none */
    int n_chosen;
    float *candidates; /* [n][n_candidates] ints: blocks of positions that an index left to later ones; or NULL */
    int n_candidates;
    ModelCounts counts;
    ModelTap *tap;
    void *tap_context;
} Step;

/* Scratch that dies with the layer; NULL when out of memory. */
float *step_floats(Step *s, int rows, int cols);

/* The same, but it lives to the end of the step, and shrinks with it when rows that want no logits leave. */
float *step_keep(Step *s, int cols);

/* x normed into y [rows][cols]; rows is n, or n times the heads. y may be x. */
void step_norm(const Step *s, const NormSpec *spec, const Norm *norm, const float *x, float *y, int rows, int cols);

/* Marks row r, and the rows after it of the same sequence, which would see it (of an encoder all of the sequence).
 * Their hidden rows become zero, so that nothing spreads. The first fault of a row stays. */
void step_fail(Step *s, int row, int layer, const char *operation);
/* Zeroes the rows of x [n][cols] that have failed. */
void step_zero_failed(const Step *s, float *x, int cols);

/* All jobs (their x is not looked at) over x [n][cols]. Rows with a non-finite input fail, named after `operation`;
 * outputs of failed rows are zero. False: out of memory. */
bool step_linear(Step *s, const LinearJob *jobs, int n_jobs, const float *x, int cols, int layer,
                 const char *operation);

/* Where keys and values of row r's sequence are, for this layer: in its state, or for a layer that sees both ways in
 * the step's own memory, which step_open_views gives it. False: out of memory. */
bool step_open_views(Step *s, const KvShape *shape);
const KvView *step_view(const Step *s, int row, int layer);

/* Writes keys k [n][k_width] and values v [n][v_width] of all rows where the states keep them for this layer; rows with
 * a value that is not finite fail. False: out of memory. */
bool step_store(Step *s, int layer, const float *k, int k_width, const float *v, int v_width);

/* The same for another kind of keys of this layer. */
bool step_store_side(Step *s, int kind, int layer, const float *k, int k_width, const float *v, int v_width);
/* Where row r's sequence keeps them. */
const KvView *step_side(const Step *s, int kind, int layer, int r);

/* Shows values [n][cols] to the tap, if there is one. */
void step_tap(const Step *s, int layer, const char *operation, const float *values, int cols);

/* Per-layer inputs (per_layer.c): all of them from the embedded rows, and one layer's, gated by x [n][hidden], into out
 * [n][hidden], to be added. False: out of memory. */
bool per_layer_prepare(Step *s);
bool per_layer_apply(Step *s, int layer, const float *x, float *out);

/* Embeddings of n-grams (ngram.c): how many tables there are in all, and the rows of one. */
int ngram_count(const NgramSpec *spec);
int64_t ngram_rows(const NgramSpec *spec, int table);
/* What the states keep for them, as the index keys of layer 0: the tokens. */
void ngram_state(const NgramSpec *spec, LayerShape *out);
/* Writes the rows' tokens to their states, and makes their embedded rows the mean of theirs and the n-grams'. Rows that
 * were given as embeddings stay as they are, and stand for token 0 in later n-grams. False: out of memory. */
bool ngram_add(Step *s);

/* Several hidden streams (altup.c): made from the embedded rows; predicted before a layer, whose stream then is
 * s->hidden; corrected after it; and joined into s->hidden at the end. `scratch` [n][hidden]. False: out of memory. */
bool altup_begin(Step *s);
bool altup_predict(Step *s, int layer, float *scratch);
bool altup_correct(Step *s, int layer, float *scratch);
bool altup_end(Step *s);
/* Attention over residuals (residual.c): how many blocks there will be, and room for them; what a half of a layer
 * reads, before its norm, in `to` [n][hidden] or, without blocks, the hidden rows themselves. False, NULL: out of
 * memory. */
int residual_blocks(const Blueprint *b);
bool residual_prepare(Step *s);
const float *residual_read(Step *s, int layer, const ResidualSpec *spec, const ResidualWeights *w, float *to);
/* After a layer's mixer ran: at the begin of a block, the hidden rows become one and begin anew at zero. */
void residual_begin(Step *s, int layer);
/* Hyper-connections (hyper.c): streams made from the embedded rows; summed into s->hidden before a half of a layer;
 * mixed, with the half's result y [n][hidden] added, after it; and summed for the head. False: out of memory. */
typedef enum HyperHalf { HYPER_MIXER, HYPER_FFN } HyperHalf;
bool hyper_begin(Step *s);
bool hyper_before(Step *s, int layer, HyperHalf half);
void hyper_after(Step *s, int layer, const float *y);
bool hyper_end(Step *s);
/* The hidden rows become (themselves + y + the low-rank residual of x) / sqrt(2); x, y [n][hidden]. */
bool laurel_add(Step *s, int layer, const float *x, const float *y);

/* A sequence classifier's head (classifier.c) over x [n][hidden], into logits [n][labels]. False: out of memory. */
typedef struct ClassifierJob {
    const Blueprint *blueprint;
    const Weights *weights;
    const NumericSettings *numeric;
    Pool *pool;
    Arena *arena;
    const float *x;
    int n;
} ClassifierJob;
bool classifier_run(const ClassifierJob *job, float *logits);

/* The whole forward path of a step: decoder.c. Of the wanted rows, in the arena: logits [][vocab], or where `headless`
 * what the final norm gives, [][hidden]. False: out of memory. */
bool decoder_run(Step *s, bool headless, const float **out);

#endif
