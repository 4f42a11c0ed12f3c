/* Tiles: integer weights as they lie in memory while the model runs.
 *
 * A tile is 16 outputs. Along K it is a run of units; a unit holds `unit` codes per output and then the scales of its
 * groups, so that one step reads a tile as one forward stream. Inside a unit, codes come in blocks of 32 along K. A
 * block is bit planes of 64-byte lines; in every line, 32-bit lane o belongs to output o, and byte b of the lane to k =
 * 4 * quad + b:
 *
 *     plane 4: a line is 2 quads, low nibble then high      (8 k)
 *     plane 2: a line is 4 quads, from the low bits up      (16 k)
 *     plane 1: a line is 8 quads, from the low bit up       (32 k)
 *     bytes:   a line is 1 quad
 *
 * 3 bits are plane 2 then plane 1, 5 are 4 then 1, 6 are 4 then 2. So any instruction set unpacks to quads of unsigned
 * bytes: what vpdpbusd takes as they are, and vpmaddwd and smlal after a mask and a shift. K is padded to whole units
 * with zero codes; padding groups do not exist (n_groups counts real ones). Rows past the last output are zero and
 * never stored. */
#ifndef LOCKSTEP_MATH_TILE_H
#define LOCKSTEP_MATH_TILE_H

#include "base/error.h"
#include "math/format.h"

#include <stddef.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILE_BLOCK = 32 };

typedef enum TileStorage { TILE_2, TILE_3, TILE_4, TILE_5, TILE_6, TILE_8, TILE_FP4 } TileStorage;

typedef enum TileScale {
    TILE_SCALE_F16, /* [16] u16, then biases [16] u16 where there are any */
    TILE_SCALE_BF16,
    TILE_SCALE_F32,
    TILE_SCALE_K, /* d [16] f16, dmin [16] f16 (with a bias), then per group: sub-scales [16] 8-bit, mins [16] u8 (with
                     a bias) */
} TileScale;

typedef struct TileFormat {
    TileStorage storage;
    TileScale scale;
    bool has_bias;      /* w = q * scale + bias */
    bool signed_scales; /* K: sub-scales are int8 */
    int offset;         /* of the codes: value = code - offset; exact, times the sum of X */
    int group, unit;    /* along K; unit is a multiple of group and of TILE_BLOCK */
    int block_bytes;    /* codes of one block of 32 */
    int unit_codes;     /* bytes of a unit's codes */
    int unit_bytes;     /* codes and scales */
} TileFormat;

bool tile_format(const WeightSource *source, TileFormat *out, Error *err);
/* Bytes of one tile of `cols` inputs. */
size_t tile_bytes(const TileFormat *f, int cols);
/* Lays out rows [first, first + 16) of the source into `tile`, which is zeroed. */
void tile_pack(const WeightSource *source, const TileFormat *f, int64_t first, uint8_t *tile);

/* One output of a tile back as floats (an embedding row): fma((float)code, scale, bias); without a bias the product.
 * order: as in a WeightSource. */
void tile_row(const TileFormat *f, const uint8_t *tile, int lane, int cols, const int32_t *order, float *out);

/* Scales and biases of the groups of one unit as f32, [groups][16] each: the definition, also used by tests. bias may
 * be NULL where the format has none. */
void tile_unit_scales(const TileFormat *f, const uint8_t *unit, int n_groups, float *scale, float *bias);
/* One block of codes as quads of unsigned bytes, [8][16][4]; E2M1 codes come out as twice their value + 12. */
void tile_block_codes(TileStorage storage, const uint8_t *block, uint8_t *quads);

extern const uint8_t tile_fp4_codes[16];

#endif
