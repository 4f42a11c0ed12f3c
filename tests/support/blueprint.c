/* Blueprints of written configs. */
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

bool test_blueprint_of(const char *common, const char *more, Blueprint *out, Error *err) {
    char text[4000];
    int n = snprintf(text, sizeof text, "{%s%s}", common, more);
    assert_true(n > 0 && n < (int)sizeof text);
    JsonDoc *doc = json_parse(text, strlen(text), 0, err);
    if (!doc) fail_msg("%s: %s", text, err->text);
    const Family *family = family_find(json_root(doc), err);
    if (!family) fail_msg("%s", err->text);
    bool ok = blueprint_read(json_root(doc), family, NULL, NULL, 0, out, err);
    json_free(doc);
    return ok;
}

enum { SIZES_BYTES = 400 };

static void sizes_of(const char *model_type, char common[SIZES_BYTES]) {
    snprintf(common, SIZES_BYTES,
             "\"model_type\": \"%s\", \"hidden_size\": 48, \"intermediate_size\": 20, \"num_hidden_layers\": 3,"
             " \"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"vocab_size\": 50",
             model_type);
}

bool test_blueprint(const char *model_type, const char *more, Blueprint *b, Error *err) {
    char common[SIZES_BYTES];
    sizes_of(model_type, common);
    return test_blueprint_of(common, more, b, err);
}

Blueprint test_typed_read(const char *model_type, const char *more) {
    char common[SIZES_BYTES];
    sizes_of(model_type, common);
    return test_blueprint_read(common, more);
}

void test_typed_refused(const char *model_type, const char *more, const char *says) {
    char common[SIZES_BYTES];
    sizes_of(model_type, common);
    test_blueprint_refused(common, more, says);
}

void test_blueprint_refused(const char *common, const char *more, const char *says) {
    Blueprint b;
    Error err = {""};
    if (test_blueprint_of(common, more, &b, &err)) fail_msg("%s is not refused", more);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

Blueprint test_blueprint_read(const char *common, const char *more) {
    Blueprint b;
    Error err = {""};
    if (!test_blueprint_of(common, more, &b, &err)) fail_msg("%s: %s", more, err.text);
    return b;
}
