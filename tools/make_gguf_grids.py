#!/usr/bin/env python3
"""Writes src/convert/gguf_grids.c: the codebooks of GGUF's IQ types, as Python `gguf` has them.

  make_gguf_grids.py > src/convert/gguf_grids.c      (needs `gguf`; made with 0.19.0)
"""
import gguf.quants as q
import numpy as np

GRIDS = [("iq2_xxs", q.IQ2_XXS, 2), ("iq2_xs", q.IQ2_XS, 2), ("iq2_s", q.IQ2_S, 2), ("iq3_xxs", q.IQ3_XXS, 3), ("iq3_s", q.IQ3_S, 3),
         ("iq1", q.IQ1_S, 2)]

print("""/* Written by tools/make_gguf_grids.py: the codebooks of GGUF's IQ types, which are part of the format. An entry is the
 * indices of its values among the type's levels, the first value lowest: eight of 2 bits or four of 3. */
#include "convert/gguf_grids.h"

/* clang-format off */""")
for name, kind, bits in GRIDS:
    kind.init_grid()
    levels = np.array(kind.grid_map)
    indices = np.argmax(kind.grid.reshape(*kind.grid_shape, 1) == levels, axis=-1)
    assert (levels[indices] == kind.grid.reshape(kind.grid_shape)).all()
    words = [str(sum(int(v) << bits * i for i, v in enumerate(row))) for row in indices]
    print(f"const uint16_t gguf_grid_{name}[{len(words)}] = {{")
    line = ""
    for word in words:
        if len(line) + len(word) + 1 > 118:
            print(line)
            line = ""
        line += word + ","
    print(line + "\n};")
