/* What a folder says of scoring pairs of texts, where its model is a sequence classifier: what sentence-transformers'
 * CrossEncoder reads of config.json, modules.json and config_sentence_transformers.json, and how long a pair may be. */
#ifndef LOCKSTEP_ENGINE_CROSS_ENCODER_H
#define LOCKSTEP_ENGINE_CROSS_ENCODER_H

#include "engine/embed_plan.h"
#include "model/model.h"

/* For a model with labels. On failure nothing is left in *out. */
bool cross_encoder_plan_read(const char *folder, const Model *m, EmbedPlan *out, Error *err);

#endif
