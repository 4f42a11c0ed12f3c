/* From a config's rope settings to a rotary table: every scaling rule of transformers that a family here may name. */
#ifndef LOCKSTEP_MODEL_ROPE_RULES_H
#define LOCKSTEP_MODEL_ROPE_RULES_H

#include "model/blueprint.h"

/* The section that holds them: rope_scaling (older) or rope_parameters (newer); absent: plain. Having both is a
 * mistake. */
Config rope_section(const Config *c);

/* The settings of one kind of layer ("full_attention"): a section of that name inside `section`, where they are given
 * kind by kind (then a kind without any is a mistake); else `section` itself, which is for all kinds. */
Config rope_kind_section(const Config *section, const char *kind);

/* How many dims of a head are rotated: (int)(head_dim * partial_rotary_factor), where the factor is the section's, else
 * the top level's (of c), else `otherwise`. A factor outside (0, 1] or an odd number of dims is a mistake. Not for
 * "proportional", whose table spans the head. */
int rope_partial_dims(const Config *c, const Config *section, int head_dim, double otherwise);

typedef struct RopeInput {
    double theta;     /* unless the section has its own rope_theta */
    int dims;         /* rotated dims of a head; for "proportional" all of them, since it leaves its own out */
    int max_position; /* max_position_embeddings */
    int original;     /* original_max_position_embeddings of the top level; 0: the section's, else max_position */
    double partial;   /* "proportional": partial_rotary_factor, unless the section has its own; 0: 1 */
    bool interleaved;
    bool fixed_theta; /* `theta` counts also where the section has its own */
    const char *rule; /* where the section names none; NULL: default */
} RopeInput;

/* Reads the section and fills the spec with its tables, owned by it. Mistakes stick in the config.
 *
 * The rules: default (and mrope, which is the same for text), linear, dynamic (with "alpha", as hunyuan has it: a fixed
 * base of theta * alpha^(d / (d - 2))), llama3, yarn, longrope (two tables), proportional. */
bool rope_read(const Config *section, const RopeInput *in, RopeSpec *out);
void rope_clear(RopeSpec *spec);
/* Negates the angles: pairs turn the other way round. */
void rope_turn_backwards(RopeSpec *spec);

/* For a rule that ties the context to max_position_embeddings: why, as a sentence; else NULL. */
const char *rope_context_note(const RopeSpec *spec);

#endif
