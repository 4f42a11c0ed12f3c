/* Blueprints from a config written in a test, without tensors. */
#ifndef LOCKSTEP_TESTS_SUPPORT_BLUEPRINT_H
#define LOCKSTEP_TESTS_SUPPORT_BLUEPRINT_H

#include "model/blueprint.h"

/* The blueprint of a config of this model type with hidden 48, an mlp of 20, 3 layers, 6 heads over 2 key-value heads
 * and a vocabulary of 50, and what `more` adds (", \"key\": value"; it replaces keys that are there). False with err;
 * a model type without a family fails the test. */
bool test_blueprint(const char *model_type, const char *more, Blueprint *b, Error *err);

#endif
