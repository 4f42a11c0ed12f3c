/* A teardown may follow a setup that failed: json_free takes NULL. */
#include "support/shared_json.h"

#include <stdio.h>
#include <string.h>

int shared_json_parse(void **state, const char *text, JsonDoc **doc) {
    Error err = {""};
    *state = *doc = json_parse(text, strlen(text), 0, &err);
    if (!*doc) fprintf(stderr, "%s\n", err.text);
    return *doc ? 0 : -1;
}

int shared_json_free(void **state) {
    json_free(*state);
    return 0;
}
