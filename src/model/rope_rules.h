/* From a config's rope settings to a rotary table: every scaling rule of transformers that a family here may name. */
#ifndef LOCKSTEP_MODEL_ROPE_RULES_H
#define LOCKSTEP_MODEL_ROPE_RULES_H

#include "model/blueprint.h"

/* The section that holds them: rope_scaling (older) or rope_parameters (newer); absent: plain. Having both is a
 * mistake. */
Config rope_section(const Config *c);

typedef struct RopeInput {
    double theta;     /* unless the section has its own rope_theta */
    int dims;         /* rotated dims of a head */
    int max_position; /* max_position_embeddings */
    int original;     /* original_max_position_embeddings of the top level; 0: the section's, else max_position */
    bool interleaved;
} RopeInput;

/* Reads the section and fills the spec with its table, owned by it. Mistakes stick in the config. */
bool rope_read(const Config *section, const RopeInput *in, RopeSpec *out);

/* For a rule that ties the context to max_position_embeddings: why, as a sentence; else NULL. */
const char *rope_context_note(const RopeSpec *spec);

#endif
