/* What an instruction set fills in: the functions of one table. Rows, groups and blocks are handed over whole, so that
 * a kernel may choose its loop but not its arithmetic (docs/arithmetic.md). */
#ifndef LOCKSTEP_MATH_KERNEL_TABLE_H
#define LOCKSTEP_MATH_KERNEL_TABLE_H

#include "math/attend.h"
#include "math/encode_scale.h"
#include "math/kernels.h"
#include "math/ops.h"
#include "math/recurrent.h"
#include "math/tile.h"
#include "math/unroll.h"

/* One group of one row: X = rint(x / a). */
typedef struct QuantStep {
    float a, a_sum; /* a, and a * (float)(sum X) */
    int32_t sum;    /* sum X */
    int32_t paired; /* sum of X[2 i] * X[2 i + 1] modulo 2^32; only AVX2 fills it in */
} QuantStep;

/* Activations in block fixed point for one group size. Where a row's codes and steps lie is the instruction set's own
 * matter; codes take 2 bytes per padded input for 16 bits and 1 for 8. */
typedef struct QuantRows {
    int n_rows, cols, padded; /* padded: cols rounded up to 256, X is zero there */
    int group, n_groups, bits;
    uint8_t *codes;   /* n_rows * padded * bits / 8 */
    QuantStep *steps; /* n_rows * n_groups */
    uint8_t *bad;     /* [n_rows] 1: a non-finite input */
} QuantRows;

/* Some tiles of one integer linear times all rows. */
typedef struct TileJob {
    const TileFormat *format;
    const uint8_t *tiles; /* of the first tile */
    size_t tile_bytes;
    int n_tiles, n_outputs; /* n_outputs <= 16 n_tiles: outputs that exist */
    const QuantRows *x;
    float *y; /* [n_rows][stride], at the first output */
    size_t y_stride;
    uint8_t *scratch; /* tile_scratch_bytes of TASK_PANELS, or of n_tiles where those are fewer */
} TileJob;

/* Some outputs of one float linear times all rows. */
typedef struct FloatJob {
    WeightFormat format;
    const uint8_t *weights; /* row-major, of the first output; unaligned */
    const uint8_t *scales;  /* MXFP8: u8 [output][cols / 32]; FP8: f32 [output][cols / 128, rounded up] */
    int cols, n_outputs;
    const float *x; /* [n_rows][cols] */
    int n_rows;
    const float *bias; /* NULL, or of the first output: added to the finished sums */
    float *y;
    size_t y_stride;
} FloatJob;

/* Scores of n_queries queries against the tiles [first_tile, end_tile) of one page and head: score = dot * (key scale)
 * * scale. */
typedef struct ScoreJob {
    KvFormat format;
    const uint8_t *keys;    /* [page tiles][k_dim][16] of the format */
    const float *key_scale; /* i16: [KV_PAGE] */
    int k_dim, first_tile, end_tile;
    const float *const *q;
    float *const *out; /* out[i] + 16 * tile takes the scores of a tile of this page */
    int n_queries;
    float scale;
    const uint8_t *next; /* keys that are wanted soon, of a whole page: fetched meanwhile */
} ScoreJob;

/* Weighted values of positions [first, end) of one page and head, added key by key onto acc[i] [v_dim]. */
typedef struct ValueJob {
    KvFormat format;
    const uint8_t *values;    /* [KV_PAGE][v_dim] of the format */
    const float *value_scale; /* i16: [KV_PAGE] */
    int v_dim, first, end;
    const float *const *weights; /* weights[i][position in page], of which whole tiles may be read */
    float *const *acc;
    int n_queries;       /* ATTEND_QUERIES at most */
    const uint8_t *next; /* values that are wanted soon, of a whole page: fetched meanwhile */
} ValueJob;

typedef enum ElementKind {
    ELEMENT_ADD,        /* x + other */
    ELEMENT_ADD_SCALED, /* x + round(other * number) */
    ELEMENT_MUL,        /* x * other */
    ELEMENT_SCALE,      /* x * number */
    ELEMENT_SOFTCAP,    /* number * tanh(x / number) */
    ELEMENT_ACT,        /* act(x) */
    ELEMENT_ACT_MUL,    /* act(x) * other */
    ELEMENT_XIELU,      /* ops_xielu, by its params */
} ElementKind;

/* n elements, y == x or y == other allowed. */
typedef struct ElementJob {
    ElementKind kind;
    Activation act;
    const float *x, *other; /* other: NULL where the kind has none */
    float number;
    const float *params; /* [4] of xIELU: alpha of positive and of negative x, beta, eps */
    float *y;
    int n;
} ElementJob;

typedef struct KernelTable {
    const char *name;
    bool (*supported)(void);
    void (*quantize)(const float *x, QuantRows *out, int row);
    /* Row i of `to` becomes row `row` of `from`, of the same columns, group and bits. */
    void (*quant_copy)(QuantRows *to, int i, const QuantRows *from, int row);
    void (*tiles)(const TileJob *job);
    void (*floats)(const FloatJob *job);
    void (*rms_norm)(const float *x, const float *weight, float eps, float *y, int n);
    void (*layer_norm)(const float *x, const float *weight, const float *bias, float eps, float *y, int n);
    void (*add)(const float *x, const float *add, float *y, int n);
    void (*elements)(const ElementJob *job);
    float (*maximum)(const float *x, int n, float start);
    bool (*all_finite)(const float *x, int n);
    /* Sum over lanes of exp(x - max). With out: the exponentials too. */
    float (*exp_sum)(const float *x, float max, float *out, int n);
    /* The same for one attention block: x[i] is position 16 * k + i for some k; only [first, end) exists. In place. */
    float (*exp_block)(float *x, float max, int first, int end);
    /* n values into the cache's format; the i16 scale goes to *scale. False when a value is not finite. out is dense.
     */
    bool (*kv_encode)(KvFormat format, const float *x, int n, void *out, float *scale);
    void (*scores)(const ScoreJob *job);
    void (*values)(const ValueJob *job);
    void (*outer_step)(const OuterStep *step);
    void (*wkv_step)(const WkvStep *step);
    void (*conv_step)(const ConvStep *step); /* without moving the window */
    void (*scan_step)(const ScanStep *step);
    void (*lru_step)(const LruStep *step);
    void (*floats_read)(ScaleType type, const uint8_t *bytes, int64_t n, float *out);
    void (*encode)(const EncodeJob *job);
} KernelTable;

extern const KernelTable kernels_scalar;
#if defined(__x86_64__)
extern const KernelTable kernels_avx2, kernels_avx512, kernels_avx512_base, kernels_amx;
#elif defined(__aarch64__)
extern const KernelTable kernels_neon;
#endif

/* Those of this build, the best first; this machine may lack some. */
extern const KernelTable *const kernel_tables[];
extern const int n_kernel_tables;

const KernelTable *kernels(void);           /* the chosen one */
void kernels_use(const KernelTable *table); /* for tests: a supported table that has no name of its own */

/* Tiles of a job that a kernel may have unpacked side by side. */
enum { TASK_PANELS = 8 };

/* Scratch for n_tiles of them. */
size_t tile_scratch_bytes(const TileFormat *f, int cols, int n_tiles);

#endif
