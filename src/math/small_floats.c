/* Rounding to e4m3 and e2m1 in f32 arithmetic that is exact but for the rounding meant: scaling by powers of two, and
 * rint at the step of the value's binade. Halves go to even, as in every conversion of these formats. */
#include "math/small_floats.h"

#include <math.h>

/* x to a float of `bits` mantissa bits whose smallest normal is 2^least, at most `largest`. */
static float round_float(float x, int bits, int least, float largest) {
    int exponent;
    frexpf(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    if (exponent - 1 < least) exponent = least + 1;
    float step = ldexpf(1, exponent - 1 - bits);
    float rounded = rintf(x / step) * step;
    return rounded > largest ? largest : rounded < -largest ? -largest : rounded;
}

static float round_e4m3(float x) {
    return round_float(x, 3, -6, 448);
}

static float round_e2m1(float x) {
    return round_float(x, 1, 0, 6);
}

static float largest_magnitude(const float *x, int n, float least) {
    float largest = least;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
    return largest;
}

/* The least power of two that is not below x > 0. */
static float power_above(float x) {
    int exponent;
    return frexpf(x, &exponent) == 0.5f ? x : ldexpf(1, exponent);
}

static float limited(float x, float largest) {
    return x > largest ? largest : x < -largest ? -largest : x;
}

void small_floats_e4m3(float *x, int n, int block) {
    for (int b = 0; b + block <= n; b += block) {
        float scale = power_above(largest_magnitude(x + b, block, 1e-4f) / 448);
        for (int i = b; i < b + block; i++) x[i] = round_e4m3(limited(x[i] / scale, 448)) * scale;
    }
}

static void round_block(float *x, int n, float scale) {
    for (int i = 0; i < n; i++) x[i] = round_e2m1(limited(x[i] / scale, 6)) * scale;
}

void small_floats_e2m1(float *x, int n, int block) {
    for (int b = 0; b + block <= n; b += block)
        round_block(x + b, block, power_above(largest_magnitude(x + b, block, ldexpf(6, -126)) / 6));
}

void small_floats_e2m1_scaled(float *x, int n, int block) {
    for (int b = 0; b + block <= n; b += block)
        round_block(x + b, block, round_e4m3(largest_magnitude(x + b, block, ldexpf(6, -9)) / 6));
}
