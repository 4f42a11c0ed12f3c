/* The sampler: one row of raw logits to one token, a pure function of the row, the prefix, the settings and the seed
 * (docs/arithmetic.md, "Sampling"). The object only holds scratch memory for one vocabulary. */
#ifndef LOCKSTEP_ENGINE_SAMPLER_H
#define LOCKSTEP_ENGINE_SAMPLER_H

#include "base/error.h"
#include "engine/request.h"

typedef struct Sampler Sampler;

Sampler *sampler_new(int vocab, Error *err);
void sampler_free(Sampler *s);

/* Whether the settings make sense for this vocabulary: ranges, finite numbers, ids inside. The error names the field.
 */
bool sampling_check(const Sampling *p, int vocab, Error *err);

/* The tokens before the one to choose: prompt and answer so far. Their number is the absolute position of the choice.
 */
typedef struct SamplePrefix {
    const int32_t *ids;
    int n_prompt, n_ids; /* n_ids counts both */
} SamplePrefix;

/* Chooses from logits [vocab], which must be finite. `p` must have passed sampling_check. `allowed`: a bit for every id
 * that may be chosen, id 0 the lowest of the first word; NULL: all. False only when every token is suppressed. */
bool sampler_choose(Sampler *s, const Sampling *p, const float *logits, const uint32_t *allowed, SamplePrefix prefix,
                    int32_t *id, Error *err);

/* The lowest index among equal maxima of n >= 1 values. */
int32_t logits_argmax(const float *logits, int n);

#endif
