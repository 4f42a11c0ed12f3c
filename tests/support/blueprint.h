/* Blueprints from a config written in a test, without tensors. */
#ifndef LOCKSTEP_TESTS_SUPPORT_BLUEPRINT_H
#define LOCKSTEP_TESTS_SUPPORT_BLUEPRINT_H

#include "model/blueprint.h"

/* The blueprint of a config of this model type with hidden 48, an mlp of 20, 3 layers, 6 heads over 2 key-value heads
 * and a vocabulary of 50, and what `more` adds (", \"key\": value"; it replaces keys that are there). False with err;
 * a model type without a family fails the test. */
bool test_blueprint(const char *model_type, const char *more, Blueprint *b, Error *err);

/* The same of a config given as two parts of one JSON object without its braces. */
bool test_blueprint_of(const char *common, const char *more, Blueprint *out, Error *err);
/* Fails the test unless reading stops with a message that contains `says`. */
void test_blueprint_refused(const char *common, const char *more, const char *says);
/* Fails the test when reading stops. */
Blueprint test_blueprint_read(const char *common, const char *more);

/* These two with the sizes of test_blueprint. */
Blueprint test_typed_read(const char *model_type, const char *more);
void test_typed_refused(const char *model_type, const char *more, const char *says);

#endif
