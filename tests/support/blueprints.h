/* Reading a blueprint from the text of a config.json, without a checkpoint. */
#ifndef LOCKSTEP_TESTS_SUPPORT_BLUEPRINTS_H
#define LOCKSTEP_TESTS_SUPPORT_BLUEPRINTS_H

#include "model/blueprint.h"

/* The config is `common` and then `more`, two parts of one JSON object without its braces. False with err. */
bool test_blueprint(const char *common, const char *more, Blueprint *out, Error *err);
/* Fails the test unless reading stops with a message that contains `says`. */
void test_blueprint_refused(const char *common, const char *more, const char *says);
/* Fails the test when reading stops. */
Blueprint test_blueprint_read(const char *common, const char *more);

#endif
