/* The logits of a prefix run alone, from an empty state in one step: what every other way of running must equal. And a
 * tiny checkpoint whose rotary tables change with length. */
#ifndef LOCKSTEP_TESTS_SUPPORT_FRESH_H
#define LOCKSTEP_TESTS_SUPPORT_FRESH_H

#include "engine/prefix.h"
#include "support/tiny_llama.h"

/* Into out [vocab]. Ends the test when it can not run. */
void fresh_logits(Model *m, const int32_t *ids, int n, float *out);

/* The tiny llama with longrope: short and long tables and scales differ; the second layer has a window of 20. */
void fresh_longrope_write(const TestFolder *folder, int boundary);
/* Opens it; `context` as --ctx (0: 600). Ends the test when it can not; tiny_close ends its use. */
void fresh_longrope_open(TinyModel *m, int boundary, int context);

/* A prefix cache that forgets nothing. Ends the test when it can not. */
PrefixCache *fresh_cache(const Model *m);

/* n ids of the tiny vocabulary. */
void fresh_ids(int32_t *ids, int n);

#endif
