/* Blueprints of written configs. */
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

bool test_blueprint(const char *model_type, const char *more, Blueprint *b, Error *err) {
    char text[1400];
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"hidden_size\": 48, \"intermediate_size\": 20, \"num_hidden_layers\": 3,"
             " \"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"vocab_size\": 50%s}",
             model_type, more);
    JsonDoc *doc = json_parse(text, strlen(text), 0, err);
    if (!doc) fail_msg("%s", err->text);
    const Family *family = family_find(json_root(doc), err);
    if (!family) fail_msg("%s", err->text);
    bool ok = blueprint_read(json_root(doc), family, NULL, NULL, 0, b, err);
    json_free(doc);
    return ok;
}
