/* AMX: a tile register holds 16 rows of 64 bytes, and one instruction multiplies 16 rows of activations by 16 outputs
 * over 64 inputs, exactly. Rows go through it in blocks of 32 by 32 outputs, whose integer sums of a group, of H and of
 * L apart, come back through memory; while the next group's products are formed, AVX-512 adds this group's to the f32
 * sums as docs/arithmetic.md defines it. Few rows would leave most of a tile register empty: they are streamed as
 * kernels_avx512.c does. */
#if defined(__x86_64__)
#define _GNU_SOURCE
#include "math/kernel_table.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "math/isa_begin_amx.h"

#include "math/lanes_avx512.h"

/* ---- where codes and steps lie ---- */

enum { AMX_ROWS = 16, AMX_BYTES = 64 };

/* Rows up to which streaming is the faster, no more than kernels_avx512.c streams, which does it here too: a group
 * costs a square the same time whether it has 64 inputs or fewer. */
static inline bool rows_streamed(const QuantRows *x) {
    return x->n_rows <= (x->group < AMX_BYTES ? 31 : 12);
}

/* Rows of the block of AMX_ROWS that `row` is in. */
static inline int block_rows(const QuantRows *x, int row) {
    int left = x->n_rows - row / AMX_ROWS * AMX_ROWS;
    return left < AMX_ROWS ? left : AMX_ROWS;
}

/* Many rows: in blocks of 16, of which every 64 inputs are what a tile register takes: 64 H bytes of each row (the
 * codes themselves with 8 bits), then 64 L bytes of each. */
static inline size_t wide_low_codes(const QuantRows *x, int row) {
    return (size_t)block_rows(x, row) * AMX_BYTES;
}

static inline size_t wide_codes_at(const QuantRows *x, int row, int block) {
    const size_t bytes = (size_t)x->bits / 8, first = (size_t)(row / AMX_ROWS * AMX_ROWS), per = AMX_BYTES / TILE_BLOCK;
    size_t chunk = (size_t)block / per * wide_low_codes(x, row) * bytes;
    return first * (size_t)x->padded * bytes + chunk + (size_t)(row % AMX_ROWS * AMX_BYTES) +
           (size_t)block % per * TILE_BLOCK;
}

/* For each group the steps of the rows of a block. */
static inline size_t wide_step_at(const QuantRows *x, int row, int group) {
    return (size_t)(row / AMX_ROWS * AMX_ROWS) * (size_t)x->n_groups +
           (size_t)(group * block_rows(x, row) + row % AMX_ROWS);
}

#include "math/codes_avx512.h"

#include "math/kernels_body.h"

#include "math/panel_avx512.h"

/* ---- many rows ---- */

enum { SIDE = 2 }; /* blocks of rows, and tiles, that are multiplied together */

/* The integer sums of a group: of H (or of 8-bit codes), and of L. */
typedef struct GroupSums {
    _Alignas(64) int32_t of[2][SIDE][SIDE][AMX_ROWS][TILE_ROWS]; /* [part][block of rows][tile] */
} GroupSums;

/* SIDE blocks of rows times SIDE tiles. */
typedef struct Square {
    const TileJob *job;
    const Panel *panels[SIDE];
    int tile, row;
    int rows[SIDE]; /* of each block; of the second 0 where there is none */
    const uint8_t *codes[SIDE];
    const QuantStep *steps[SIDE];
    const uint8_t *ahead; /* weights that are unpacked after these: every step asks for some lines of them */
    int ahead_lines;
    _Alignas(64) float acc[SIDE][SIDE][AMX_ROWS][TILE_ROWS];
    GroupSums sums[2]; /* of even and of odd groups */
} Square;

/* The tile registers: sums 0 to 3, rows 4 and 5, weights 6 and 7. `inputs`: of one multiplication. To be done rarely:
 * it waits until every store before it has reached the cache. */
static void configure(const int rows[SIDE], int inputs) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    for (int b = 0; b < SIDE; b++) {
        for (int t = 0; t < SIDE; t++) {
            c.rows[b * SIDE + t] = (uint8_t)(rows[b] ? rows[b] : 1);
            c.row_bytes[b * SIDE + t] = TILE_ROWS * 4;
        }
        c.rows[4 + b] = (uint8_t)(rows[b] ? rows[b] : 1);
        c.row_bytes[4 + b] = (uint16_t)inputs;
        c.rows[6 + b] = (uint8_t)(inputs / 4);
        c.row_bytes[6 + b] = TILE_ROWS * 4;
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc's _tile_loadconfig says that it reads 8 of the 64 bytes */
    _tile_loadconfig(&c);
}

/* The two fused operations of a group for one row and the tiles. 256 * H + L is below 2^31 and both are below 2^24, so
 * that a fused multiply-add of the two as floats is the integer rounded once, as the definition has it. */
static inline __attribute__((always_inline)) void row_end(const int32_t *high, const int32_t *low,
                                                          const QuantStep *step, const __m512 scale[SIDE],
                                                          const __m512 bias[SIDE], int bits, bool has_bias,
                                                          float *acc) {
    enum { NEXT = AMX_ROWS * TILE_ROWS }; /* from a row of a tile to that of the next */
    UNROLL for (int t = 0; t < SIDE; t++) {
        __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(high + t * NEXT)));
        if (bits == 16)
            dot = _mm512_fmadd_ps(dot, _mm512_set1_ps(256.0f),
                                  _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(low + t * NEXT))));
        const __m512 before = _mm512_load_ps(acc + t * NEXT);
        _mm512_store_ps(acc + t * NEXT, group_add(dot, scale[t], bias[t], step, has_bias, before));
    }
}

/* Group g for rows [row, row + n) of the square, which are in one block and may not all exist. */
static inline __attribute__((always_inline)) void rows_end(Square *s, int g, int row, int n, int bits, bool has_bias) {
    const int b = row / AMX_ROWS, first = row % AMX_ROWS;
    if (first >= s->rows[b]) return;
    const GroupSums *sums = &s->sums[g % 2];
    const int32_t *high = sums->of[0][b][0][first], *low = sums->of[1][b][0][first];
    const QuantStep *steps = s->steps[b] + (size_t)g * (size_t)s->rows[b] + first;
    float *acc = s->acc[b][0][first];
    __m512 scale[SIDE], bias[SIDE];
    UNROLL for (int t = 0; t < SIDE; t++) {
        scale[t] = _mm512_load_ps(s->panels[t]->scale + g * TILE_ROWS);
        bias[t] = _mm512_load_ps(s->panels[t]->bias + g * TILE_ROWS);
    }
    if (first + n <= s->rows[b]) {
        UNROLL for (int r = 0; r < n; r++) row_end(high + r * TILE_ROWS, low + r * TILE_ROWS, steps + r, scale, bias,
                                                   bits, has_bias, acc + r * TILE_ROWS);
    } else
        for (int r = 0; first + r < s->rows[b]; r++)
            row_end(high + r * TILE_ROWS, low + r * TILE_ROWS, steps + r, scale, bias, bits, has_bias,
                    acc + r * TILE_ROWS);
}

/* A step is one multiplication of both blocks with both tiles. A group takes `parts` times `pieces` of them: H, then L,
 * each over 64 inputs or fewer at a time. */
typedef struct Step {
    int group, part;
    bool first; /* of its group and part */
} Step;

static inline __attribute__((always_inline)) Step step_of(int i, int parts, int pieces) {
    const int in_group = i % (parts * pieces);
    return (Step){i / (parts * pieces), in_group / pieces, in_group % pieces == 0};
}

/* The operands of step i. */
static inline __attribute__((always_inline)) void step_load(const Square *s, int i, int parts, int pieces) {
    const int group = s->job->format->group, piece = i % pieces;
    const Step step = step_of(i, parts, pieces);
    const size_t k = (size_t)(step.group * group + piece * AMX_BYTES), quads = k * TILE_ROWS;
    const size_t chunk = (k / AMX_BYTES * (size_t)parts + (size_t)step.part) * AMX_BYTES, in = k % AMX_BYTES;
    if (step.part == 0 || pieces > 1) { /* else they are there since H */
        _tile_loadd(6, s->panels[0]->quads + quads, TILE_ROWS * 4);
        _tile_loadd(7, s->panels[1]->quads + quads, TILE_ROWS * 4);
    }
    _tile_loadd(4, s->codes[0] + chunk * (size_t)s->rows[0] + in, AMX_BYTES);
    if (s->rows[1]) _tile_loadd(5, s->codes[1] + chunk * (size_t)s->rows[1] + in, AMX_BYTES);
}

/* One of a step's four sums. When it begins anew, the sum that it held is stored, which was finished four slots ago,
 * and then some rows of a group before that are ended: so neither waits for the other, nor the multiplier for them.
 * Numbers of registers must be literals. */
#define SLOT(number, rows_at, weights_at)                                                                       \
    do {                                                                                                        \
        if (step.first) {                                                                                       \
            if (i > 0) _tile_stored(number, s->sums[last.group % 2].of[last.part][number / 2][number % 2], 64); \
            _tile_zero(number);                                                                                 \
        }                                                                                                       \
        if (is_signed)                                                                                          \
            _tile_dpbssd(number, rows_at, weights_at);                                                          \
        else                                                                                                    \
            _tile_dpbsud(number, rows_at, weights_at);                                                          \
        if (late >= 0)                                                                                          \
            rows_end(s, late / per_group, (late % per_group * 4 + number) * n_rows, n_rows, bits, has_bias);    \
    } while (0)

static inline __attribute__((always_inline)) void square_steps(Square *s, int bits, int pieces, bool is_signed,
                                                               bool has_bias) {
    const int parts = bits / 8, per_group = parts * pieces, n = s->job->x->n_groups, n_steps = n * per_group;
    const int n_rows = SIDE * AMX_ROWS / 4 / per_group; /* that a slot ends */
    for (int i = 0; i < n_steps; i++) {
        const Step step = step_of(i, parts, pieces), last = step_of(i - 1, parts, pieces);
        const int late = i - 1 - per_group; /* a group's last sums are stored during the next one's first step */
        step_load(s, i, parts, pieces);
        for (int line = 0; line < s->ahead_lines; line++, s->ahead += 64)
            _mm_prefetch((const char *)s->ahead, _MM_HINT_T1);
        SLOT(0, 4, 6);
        SLOT(1, 4, 7);
        SLOT(2, 5, 6);
        SLOT(3, 5, 7);
    }
    GroupSums *last = &s->sums[(n - 1) % 2];
    _tile_stored(0, last->of[parts - 1][0][0], 64);
    _tile_stored(1, last->of[parts - 1][0][1], 64);
    _tile_stored(2, last->of[parts - 1][1][0], 64);
    _tile_stored(3, last->of[parts - 1][1][1], 64);
    const int ended = n_steps - 1 - per_group;
    for (int slot = ended > 0 ? ended * 4 : 0; slot < n_steps * 4; slot++)
        rows_end(s, slot / 4 / per_group, slot % (4 * per_group) * n_rows, n_rows, bits, has_bias);
}

/* Weights whose offset has been taken off are signed. */
static inline __attribute__((always_inline)) void square_format(Square *s, int bits, int pieces) {
    const TileFormat *f = s->job->format;
    if (f->offset && f->has_bias)
        square_steps(s, bits, pieces, true, true);
    else if (f->offset)
        square_steps(s, bits, pieces, true, false);
    else if (f->has_bias)
        square_steps(s, bits, pieces, false, true);
    else
        square_steps(s, bits, pieces, false, false);
}

static void square_store(const Square *s) {
    const TileJob *job = s->job;
    for (int b = 0; b < SIDE; b++)
        for (int r = 0; r < s->rows[b]; r++)
            for (int t = 0; t < SIDE && s->tile + t < job->n_tiles; t++) {
                const int first = (s->tile + t) * TILE_ROWS;
                float *y = job->y + (size_t)(s->row + b * AMX_ROWS + r) * job->y_stride + first;
                store_outputs(y, _mm512_load_ps(s->acc[b][t][r]), job->n_outputs - first);
            }
}

static void square_run(Square *s) {
    const bool one_piece = s->job->format->group <= AMX_BYTES;
    for (int i = 0; i < SIDE * SIDE * AMX_ROWS; i++)
        _mm512_store_ps(&s->acc[0][0][0][0] + i * TILE_ROWS, _mm512_setzero_ps());
    if (s->job->x->bits == 16)
        one_piece ? square_format(s, 16, 1) : square_format(s, 16, 2);
    else
        one_piece ? square_format(s, 8, 1) : square_format(s, 8, 2);
    square_store(s);
}

static void square_rows(Square *s, int row) {
    const QuantRows *x = s->job->x;
    s->row = row;
    for (int b = 0; b < SIDE; b++, row += AMX_ROWS) {
        s->rows[b] = row < x->n_rows ? block_rows(x, row) : 0;
        if (!s->rows[b]) continue;
        s->codes[b] = x->codes + wide_codes_at(x, row, 0);
        s->steps[b] = x->steps + wide_step_at(x, row, 0);
    }
}

/* Unpacking would wait for memory, and memory for multiplying: so the lines of the next n tiles are asked for evenly
 * while these are multiplied. */
static void look_ahead(Square *s, int tile, int n) {
    const TileJob *job = s->job;
    const int side_rows = SIDE * AMX_ROWS;
    const size_t squares = (size_t)((n + SIDE - 1) / SIDE) * (size_t)((job->x->n_rows + side_rows - 1) / side_rows);
    const size_t steps = squares * (size_t)job->x->n_groups * (size_t)(job->x->bits / 8);
    s->ahead = job->tiles + (size_t)(tile + n) * job->tile_bytes;
    s->ahead_lines = tile + n < job->n_tiles ? (int)((size_t)n * job->tile_bytes / 64 / steps) + 1 : 0;
}

/* n tiles times all rows: the tiles stay near while the rows come by once. */
static void panels_run(const TileJob *job, const Panel *panels, int tile, int n) {
    const int inputs = job->format->group < AMX_BYTES ? job->format->group : AMX_BYTES;
    int configured[SIDE] = {0, 0};
    Square s; /* not cleared: it is large */
    s.job = job;
    look_ahead(&s, tile, n);
    for (int row = 0; row < job->x->n_rows; row += SIDE * AMX_ROWS) {
        square_rows(&s, row);
        if (memcmp(configured, s.rows, sizeof configured) != 0) configure(s.rows, inputs);
        memcpy(configured, s.rows, sizeof configured);
        for (int t = 0; t < n; t += SIDE) {
            s.tile = tile + t;
            s.panels[0] = &panels[t];
            s.panels[1] = t + 1 < n ? &panels[t + 1] : &panels[t]; /* without a neighbour its own; stored once */
            square_run(&s);
        }
    }
    _tile_release();
}

static void tiles_wide(const TileJob *job) {
    const size_t codes = (size_t)job->x->padded * TILE_ROWS, scales = (size_t)job->x->n_groups * TILE_ROWS;
    const int most = job->n_tiles < TASK_PANELS ? job->n_tiles : TASK_PANELS;
    Panel panels[TASK_PANELS];
    uint8_t *p = job->scratch;
    for (int t = 0; t < most; t++, p += codes + scales * 2 * sizeof(float)) {
        float *scale = (float *)(void *)(p + codes);
        panels[t] = (Panel){p, scale, scale + scales};
    }
    for (int tile = 0, n; tile < job->n_tiles; tile += n) {
        n = job->n_tiles - tile < most ? job->n_tiles - tile : most;
        for (int t = 0; t < n; t++) panel_unpack(job, tile + t, job->format->offset, &panels[t]);
        __asm__ volatile("" : : : "memory"); /* gcc's _tile_loadd does not say that it reads */
        panels_run(job, panels, tile, n);
    }
}

static void tile_rows(const TileJob *job) {
    if (rows_streamed(job->x))
        kernels_avx512.tiles(job);
    else
        tiles_wide(job);
}

/* ---- the machine ---- */

/* The tile registers make a thread's state so much larger that Linux wants to be asked, once for the process. */
static bool kernel_allows(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned low, high, tiles = 3u << 17;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & tiles) == tiles && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool supported(void) {
    unsigned a, b, c, d;
    const unsigned amx_tile = 1u << 24, amx_int8 = 1u << 25, osxsave = 1u << 27;
    if (!kernels_avx512.supported() || !__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amx_tile) || !(d & amx_int8)) return false;
    return kernel_allows();
}

const KernelTable kernels_amx = {.name = "amx", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};

#include "math/isa_end.h"
#else
typedef int kernels_amx_is_for_x86; /* an empty translation unit is not C */
#endif
