/* Reading the parts of a WeightSource one by one: for tile.c, which lays them out, and for tests. */
#ifndef LOCKSTEP_MATH_FORMAT_READ_H
#define LOCKSTEP_MATH_FORMAT_READ_H

#include "math/format.h"

int format_bits(const WeightSource *s);
int format_group(const WeightSource *s);
int format_offset(const WeightSource *s); /* what a stored code exceeds its value by */
bool format_is_integer(WeightFormat f);
bool format_is_k(WeightFormat f);
bool format_is_fp4(WeightFormat f); /* codes are E2M1 */
bool format_has_bias(WeightFormat f);
extern const float format_fp4_halves[16]; /* what E2M1 codes count */

float format_f16(uint16_t h);
float format_bf16(uint16_t h);
uint16_t format_to_f16(float f); /* to nearest even; past the range becomes infinity */
float format_e4m3(uint8_t b);    /* OCP E4M3: no infinities, 0x7F is NaN */
float format_e8m0(uint8_t b);

/* Codes [first, first + n) of a row, unsigned as stored. */
void format_codes(const WeightSource *s, int64_t row, int64_t first, int n, uint8_t *out);
/* Scale and bias of one group in f32. E2M1 scales are halved, since their codes count in halves. */
void format_scale_bias(const WeightSource *s, int64_t row, int64_t group, float *scale, float *bias);
/* A K-quant's integer sub-scale (int8 for q3_k and q6_k) and min. */
void format_k_group(const WeightSource *s, int64_t row, int64_t group, uint8_t *scale, uint8_t *min);

#endif
