/* Scale and bias of one group, in MLX's arithmetic: shared by every instruction set's kernels. */
#ifndef LOCKSTEP_MATH_ENCODE_SCALE_H
#define LOCKSTEP_MATH_ENCODE_SCALE_H

#include "math/encode.h"

/* Groups of one row for the kernel table. */
typedef struct EncodeJob {
    WeightFormat format;
    ScaleType type;
    int bits, group, n_groups;
    const float *x;         /* [n_groups * group] */
    float *scales, *biases; /* affine: [n_groups] */
    uint8_t *scale_codes;   /* the others: [n_groups] */
    int16_t *codes;         /* [n_groups * group] */
} EncodeJob;

#define AFFINE_LEAST_SCALE 1e-7f /* so that equal values divide by something */

/* Value i of an array of the number format. */
float float_at(ScaleType type, const uint8_t *bytes, int64_t i);
/* Scale of a group whose values lie in low .. high, for codes 0 .. bins; its bias goes to *bias. */
float affine_scale(float low, float high, float bins, float *bias);
/* Scale of a group whose largest magnitude is `most`, as the float that values are divided by; its byte to *code. */
float minifloat_scale(WeightFormat format, ScaleType type, float most, uint8_t *code);

#endif
