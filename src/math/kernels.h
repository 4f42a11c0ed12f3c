/* The kernel table: what an instruction set fills in. kernels_scalar.c is the definition; the others reproduce its
 * bytes and are compared with it. The table is chosen once, at start; what an instruction set leaves out falls back to
 * scalar. */
#ifndef LOCKSTEP_MATH_KERNELS_H
#define LOCKSTEP_MATH_KERNELS_H

#include "base/error.h"

/* Chooses by name: "scalar", "avx2", "avx512", "neon"; NULL takes the best that this machine has. An error names those
 * it has. Not while kernels run. */
bool kernels_select(const char *isa, Error *err);
const char *kernels_name(void);
/* The names that kernels_select would take here, best first; NULL-terminated. */
const char *const *kernels_available(void);

#endif
