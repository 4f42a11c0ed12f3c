/* Block-sparse attention: which positions each head of a row sees. */
#ifndef LOCKSTEP_MODEL_MIXERS_BLOCK_PATTERN_H
#define LOCKSTEP_MODEL_MIXERS_BLOCK_PATTERN_H

#include "math/attend.h"
#include "model/step.h"

/* Gives each of the step's rows its lists of visible positions, one per query head. False: out of memory. */
bool block_pattern_apply(const BlockPattern *pattern, Step *s, int n_heads, AttendRow *rows);

#endif
