/* GGUF's block types whose values are looked up: in a list of levels (IQ4) or a codebook (IQ1 to IQ3), and those of
 * three values (TQ). What each gives is for the table in gguf_blocks.c. */
#ifndef LOCKSTEP_CONVERT_GGUF_GRID_BLOCKS_H
#define LOCKSTEP_CONVERT_GGUF_GRID_BLOCKS_H

#include <stdint.h>

/* Codes of a block: the looked-up values, made unsigned by the type's offset. */
void gguf_codes_iq4_nl(const uint8_t *block, uint8_t *out);
void gguf_codes_iq4_xs(const uint8_t *block, uint8_t *out);
void gguf_codes_iq3_xxs(const uint8_t *block, uint8_t *out); /* halved */
void gguf_codes_iq3_s(const uint8_t *block, uint8_t *out);
void gguf_codes_iq2_xxs(const uint8_t *block, uint8_t *out);
void gguf_codes_iq1_s(const uint8_t *block, uint8_t *out);
void gguf_codes_tq1_0(const uint8_t *block, uint8_t *out);

/* Scale and min of group j, in units of the type. */
void gguf_sub_iq4_xs(const uint8_t *packed, int j, int *scale, int *min);
void gguf_sub_iq3_xxs(const uint8_t *packed, int j, int *scale, int *min);
void gguf_sub_iq3_s(const uint8_t *packed, int j, int *scale, int *min);
void gguf_sub_iq2_xxs(const uint8_t *packed, int j, int *scale, int *min);
void gguf_sub_iq1_s(const uint8_t *packed, int j, int *scale, int *min);

/* The values of a block of a type whose scales are of 16 values. */
void gguf_floats_iq2_xs(const uint8_t *block, float *out);
void gguf_floats_iq2_s(const uint8_t *block, float *out);
void gguf_floats_iq1_m(const uint8_t *block, float *out);

#endif
