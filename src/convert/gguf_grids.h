/* The codebooks of GGUF's IQ types (made by tools/make_gguf_grids.py). */
#ifndef LOCKSTEP_CONVERT_GGUF_GRIDS_H
#define LOCKSTEP_CONVERT_GGUF_GRIDS_H

#include <stdint.h>

/* Eight values per entry, of 2 bits each. */
extern const uint16_t gguf_grid_iq2_xxs[256], gguf_grid_iq2_xs[512], gguf_grid_iq2_s[1024], gguf_grid_iq1[2048];
/* Four values per entry, of 3 bits each. */
extern const uint16_t gguf_grid_iq3_xxs[256], gguf_grid_iq3_s[512];

#endif
