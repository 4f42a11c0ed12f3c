/* The sums of pooling. They are no kernels: a row is added once where it was multiplied with every weight of the model.
 * Plain loops over the dimensions do the same operations whatever vectors the compiler makes of them. */
#include "math/pooling.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, PARTS = 2 * LANES + 3 }; /* plain sums, weighted sums, largest, first, last */

static float *part(const Pooling *p, int i) {
    return p->sums + (size_t)i * (size_t)p->dims;
}

static float *weighted_part(const Pooling *p, int lane) {
    return part(p, LANES + lane);
}

static float *largest(const Pooling *p) {
    return part(p, PARTS - 3);
}

static float *first_row(const Pooling *p) {
    return part(p, PARTS - 2);
}

static float *last_row(const Pooling *p) {
    return part(p, PARTS - 1);
}

size_t pooling_floats(int dims) {
    return (size_t)PARTS * (size_t)dims;
}

bool pooling_wants(const PoolSpec *spec, int first, int end, int position) {
    if (position < first || position >= end) return false;
    for (int i = 0; i < spec->n_modes; i++) {
        PoolMode m = spec->modes[i];
        if (m == POOL_FIRST ? position == first : m == POOL_LAST ? position == end - 1 : true) return true;
    }
    return false;
}

void pooling_begin(Pooling *p) {
    memset(p->sums, 0, pooling_floats(p->dims) * sizeof *p->sums);
    for (int d = 0; d < p->dims; d++) largest(p)[d] = -INFINITY;
}

void pooling_add(Pooling *p, int position, const float *row) {
    float *sum = part(p, position % LANES), *weighted = weighted_part(p, position % LANES), *most = largest(p);
    float weight = (float)(position + 1);
    for (int d = 0; d < p->dims; d++) {
        sum[d] += row[d];
        weighted[d] += row[d] * weight;
        most[d] = row[d] > most[d] ? row[d] : most[d];
    }
    if (position == p->first) memcpy(first_row(p), row, (size_t)p->dims * sizeof *row);
    if (position == p->end - 1) memcpy(last_row(p), row, (size_t)p->dims * sizeof *row);
}

/* Lane j of a sum over dimension d is at lanes[j * dims]. */
static float fold(const float *lanes, int dims) {
    float sums[LANES];
    for (int j = 0; j < LANES; j++) sums[j] = lanes[(size_t)j * (size_t)dims];
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int j = 0; j < step; j++) sums[j] += sums[j + step];
    return sums[0];
}

static void finish_mean(const Pooling *p, PoolMode mode, float *out) {
    float n = (float)(p->end - p->first), count = mode == POOL_MEAN_SQRT ? sqrtf(n) : n;
    double weights = ((double)p->end * (p->end + 1) - (double)p->first * (p->first + 1)) / 2;
    const float *lanes = mode == POOL_WEIGHTED ? weighted_part(p, 0) : part(p, 0);
    if (mode == POOL_WEIGHTED) count = (float)weights;
    for (int d = 0; d < p->dims; d++) out[d] = fold(lanes + d, p->dims) / count;
}

void pooling_finish(const Pooling *p, float *out) {
    for (int i = 0; i < p->spec->n_modes; i++, out += p->dims) {
        PoolMode mode = p->spec->modes[i];
        const float *row = mode == POOL_FIRST  ? first_row(p)
                           : mode == POOL_LAST ? last_row(p)
                           : mode == POOL_MAX  ? largest(p)
                                               : NULL;
        if (row)
            memcpy(out, row, (size_t)p->dims * sizeof *out);
        else
            finish_mean(p, mode, out);
    }
}

void pooling_unit(const float *x, float *y, int n) {
    float lanes[LANES] = {0};
    for (int i = 0; i < n; i++) lanes[i % LANES] = fmaf(x[i], x[i], lanes[i % LANES]);
    float length = sqrtf(fold(lanes, 1));
    if (length < 1e-12f) length = 1e-12f;
    for (int i = 0; i < n; i++) y[i] = x[i] / length;
}
