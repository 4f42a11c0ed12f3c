/* A teardown may follow a setup that failed: json_free takes NULL. */
#include "support/shared_json.h"

#include <stdio.h>
#include <string.h>

static int keep(void **state, JsonDoc *parsed, const Error *err, JsonDoc **doc) {
    if (!parsed) fprintf(stderr, "%s\n", err->text);
    *state = *doc = parsed;
    return parsed ? 0 : -1;
}

int shared_json_parse(void **state, const char *text, JsonDoc **doc) {
    Error err = {""};
    return keep(state, json_parse(text, strlen(text), 0, &err), &err, doc);
}

int shared_json_read(void **state, const char *path, JsonDoc **doc) {
    Error err = {""};
    return keep(state, json_parse_file(path, 0, &err), &err, doc);
}

int shared_json_free(void **state) {
    json_free(*state);
    return 0;
}
