/* Rotary tables and rotation, with functions of our own for pow, log, sin and cos.
 *
 * libm's transcendental functions differ between C libraries and versions, and one different bit in a table moves every
 * logit after it. These are series in double with every fused operation written out: fma, rint, frexp and ldexp are
 * exact or correctly rounded everywhere, so the results are the same bytes everywhere. Their error is a few units in
 * the last place of a double, and they are rounded to float, so that they are the correctly rounded float but for one
 * value in some 10^8.
 *
 * Not to be changed: the order of operations in any function of this file. */
#include "math/rope.h"
#include "base/memory.h"

#include <math.h>
#include <stdint.h>

enum { ROWS_PER_TASK = 16 };

/* Horner with fma, highest coefficient last in c. */
static double polynomial(double x, const double *c, int n) {
    double sum = c[n - 1];
    for (int i = n - 2; i >= 0; i--) sum = fma(sum, x, c[i]);
    return sum;
}

static const double LN2_HIGH = 0x1.62e42feep-1; /* 33 bits, so that exponent * LN2_HIGH is exact */
static const double LN2_LOW = 0x1.a39ef35793c76p-33;

/* log(m * 2^e) = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)): |s| <= 0.172. */
double rope_log(double x) {
    static const double atanh_series[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                          1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent -= 1;
    }
    double s = (m - 1) / (m + 1), square = s * s;
    double tail = s * square * polynomial(square, atanh_series, sizeof atanh_series / sizeof *atanh_series);
    double low = fma((double)exponent, LN2_LOW, 2 * tail);
    return fma((double)exponent, LN2_HIGH, fma(2.0, s, low));
}

/* exp(x) = 2^k exp(r), |r| <= ln 2 / 2; for finite x, saturating to 0 and infinity. */
static double rope_exp(double x) {
    static const double series[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    if (x > 710) return INFINITY;
    if (x < -746) return 0;
    double k = rint(x * 0x1.71547652b82fep+0);
    double r = fma(-k, LN2_LOW, fma(-k, LN2_HIGH, x));
    return ldexp(polynomial(r, series, sizeof series / sizeof *series), (int)k);
}

double rope_pow(double base, double exponent) {
    return rope_exp(exponent * rope_log(base));
}

/* Angle minus the nearest multiple of pi/2, in two parts of pi/2 (107 bits). The first fma is exact: k * PIO2_HIGH is a
 * multiple of 2^-52 and the difference is below 1. That holds for |angle| up to 2^31, the largest position. */
void rope_sin_cos(double angle, double *sin_out, double *cos_out) {
    static const double sin_series[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                                        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    static const double cos_series[] = {1.0 / 24,        -1.0 / 720,         1.0 / 40320,         -1.0 / 3628800,
                                        1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
    double k = rint(angle * 0x1.45f306dc9c883p-1);
    double r = fma(-k, 0x1.1a62633145c07p-54, fma(-k, 0x1.921fb54442d18p+0, angle));
    double square = r * r;
    double s = fma(r * square, polynomial(square, sin_series, sizeof sin_series / sizeof *sin_series), r);
    double c = fma(square * square, polynomial(square, cos_series, sizeof cos_series / sizeof *cos_series),
                   fma(-0.5, square, 1.0));
    int quarter = (int)((int64_t)k & 3);
    double sines[4] = {s, c, -s, -c};
    *sin_out = sines[quarter];
    *cos_out = sines[(quarter + 1) & 3];
}

float *rope_plain(double theta, int dims) {
    float *inv_freq = mem_array((size_t)dims / 2, sizeof *inv_freq);
    if (!inv_freq) return NULL;
    for (int i = 0; i < dims / 2; i++) inv_freq[i] = 1.0f / (float)rope_pow(theta, 2.0 * i / dims);
    return inv_freq;
}

typedef struct AngleJob {
    const RopeTable *table;
    const int *positions;
    int n;
    float *out_cos, *out_sin;
} AngleJob;

static void angle_task(void *context, int task, int thread) {
    const AngleJob *job = context;
    int half = job->table->dims / 2, end = (task + 1) * ROWS_PER_TASK;
    float scale = job->table->scale;
    (void)thread;
    for (int row = task * ROWS_PER_TASK; row < end && row < job->n; row++) {
        for (int i = 0; i < half; i++) {
            double s, c;
            float angle = (float)job->positions[row] * job->table->inv_freq[i];
            rope_sin_cos((double)angle, &s, &c);
            job->out_cos[(size_t)row * half + i] = (float)c * scale;
            job->out_sin[(size_t)row * half + i] = (float)s * scale;
        }
    }
}

void rope_angles(Pool *pool, const RopeTable *table, const int *positions, int n, float *out_cos, float *out_sin) {
    AngleJob job = {table, positions, n, out_cos, out_sin};
    pool_run(pool, angle_task, &job, (n + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
}

static void rotate_split(float *restrict a, float *restrict b, const float *restrict c, const float *restrict s,
                         int half) {
    for (int i = 0; i < half; i++) {
        float x = a[i], y = b[i];
        a[i] = x * c[i] - y * s[i];
        b[i] = y * c[i] + x * s[i];
    }
}

static void rotate_interleaved(float *restrict x, const float *restrict c, const float *restrict s, int half) {
    for (int i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c[i] - b * s[i];
        x[2 * i + 1] = b * c[i] + a * s[i];
    }
}

typedef struct RotateJob {
    const RopeTable *table;
    const float *cos_table, *sin_table;
    float *x;
    int n, heads, head_dim;
} RotateJob;

static void rotate_task(void *context, int task, int thread) {
    const RotateJob *job = context;
    int half = job->table->dims / 2, end = (task + 1) * ROWS_PER_TASK;
    (void)thread;
    for (int row = task * ROWS_PER_TASK; row < end && row < job->n; row++) {
        const float *c = job->cos_table + (size_t)row * half, *s = job->sin_table + (size_t)row * half;
        for (int h = 0; h < job->heads; h++) {
            float *x = job->x + ((size_t)row * job->heads + h) * job->head_dim;
            if (job->table->interleaved)
                rotate_interleaved(x, c, s, half);
            else
                rotate_split(x, x + half, c, s, half);
        }
    }
}

void rope_rotate(Pool *pool, const RopeTable *table, const float *cos_table, const float *sin_table, float *x, int n,
                 int heads, int head_dim) {
    RotateJob job = {table, cos_table, sin_table, x, n, heads, head_dim};
    pool_run(pool, rotate_task, &job, (n + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
}
