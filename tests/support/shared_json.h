/* A JSON document that all tests of a program read: the group's setup parses it, cmocka's state keeps it. */
#ifndef LOCKSTEP_TESTS_SUPPORT_SHARED_JSON_H
#define LOCKSTEP_TESTS_SUPPORT_SHARED_JSON_H

#include "base/json.h"

/* What a group's setup returns: 0, or -1 with the reason on stderr. *doc is the document. */
int shared_json_parse(void **state, const char *text, JsonDoc **doc);
int shared_json_free(void **state); /* the group's teardown */

#endif
