/* Queries that grow with their position (Llama 4, Ministral 3): shared by the attentions that have it. */
#ifndef LOCKSTEP_MODEL_MIXERS_POSITION_SCALE_H
#define LOCKSTEP_MODEL_MIXERS_POSITION_SCALE_H

#include "model/step.h"

/* Multiplies each row of q [n][width]; nothing to do when beta is 0. */
void position_scale_apply(const PositionScale *p, const Step *s, float *q, int width);

#endif
