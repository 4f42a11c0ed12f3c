/* Every component of tokenizer.json: 90 small tokenizers of components drawn at random
 * (tests/data/tokenizers/components.json), and 213 that go through the options of each kind one by one (options.json);
 * ids and texts as Python tokenizers 0.23.3 gives them. tests/differential/compare_tokenizers.py and option_cases.py
 * made them, the former goes on from there. */
#include "base/json.h"
#include "text/tokenizer.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER "tests/data/tokenizers/"

static void same_ids(const IdList *ids, const JsonValue *expected, const char *where) {
    if (ids->n != expected->length) fail_msg("%s: %zu ids, %u expected", where, ids->n, expected->length);
    for (size_t i = 0; i < ids->n; i++) {
        int64_t id = -1;
        assert_true(json_int(&expected->items[i], &id));
        if (ids->ids[i] != id) fail_msg("%s: id %zu is %d, not %d", where, i, (int)ids->ids[i], (int)id);
    }
}

static void same_text(const Buffer *text, const JsonValue *expected, const char *where) {
    if (text->length == expected->length && memcmp(buffer_string(text), expected->text, text->length) == 0) return;
    fail_msg("%s: \"%s\", expected \"%s\"", where, buffer_string(text), expected->text);
}

static void decode(const Tokenizer *t, const IdList *ids, bool skip, const JsonValue *expected, const char *where) {
    Buffer whole = {0}, streamed = {0};
    Error err = {""};
    if (!tokenizer_decode(t, ids->ids, ids->n, skip, &whole, &err)) fail_msg("%s: %s", where, err.text);
    same_text(&whole, expected, where);
    Detok *d = detok_new(t, skip, &err);
    assert_non_null(d);
    for (size_t i = 0; i < ids->n; i++) assert_true(detok_push(d, ids->ids[i], &streamed, &err));
    assert_true(detok_finish(d, &streamed, &err));
    same_text(&streamed, expected, where);
    detok_free(d);
    buffer_clear(&whole);
    buffer_clear(&streamed);
}

/* [text, ids, ids with specials, text of those, text without specials]; ids null: the reference gives an error. */
static void check_row(const Tokenizer *t, const JsonValue *row, const char *where) {
    const JsonValue *text = json_item(row, 0);
    for (uint32_t special = 0; special < 2; special++) {
        IdList ids = {0};
        Error err = {""};
        bool ok = tokenizer_encode(t, text->text, text->length, special ? ENCODE_SPECIAL : 0, &ids, &err);
        const JsonValue *expected = json_item(row, 1 + special);
        if (json_item(row, 1)->type == JSON_NULL) {
            assert_false(ok);
            assert_true(err.text[0] != 0);
            continue;
        }
        if (!ok) fail_msg("%s: %s", where, err.text);
        same_ids(&ids, expected, where);
        for (uint32_t skip = 0; special && skip < 2 && json_item(row, 3); skip++) {
            decode(t, &ids, skip, json_item(row, 3 + skip), where);
        }
        id_list_clear(&ids);
    }
}

/* The tokenizer's own model, or the one of `models` that the case names. */
static Tokenizer *build(const JsonValue *c, const JsonValue *models, Error *err) {
    Buffer source = {0};
    json_write(&source, json_get(c, "tokenizer"), NULL);
    const char *name = json_string(json_get(c, "model"));
    if (name) {
        source.length--;
        buffer_text(&source, ",\"model\":");
        json_write(&source, json_get(models, name), NULL);
        buffer_byte(&source, '}');
    }
    Tokenizer *t = tokenizer_parse(source.data, source.length, NULL, 0, err);
    buffer_clear(&source);
    return t;
}

static void check_file(const char *path, uint32_t n) {
    Error err = {""};
    JsonDoc *document = json_parse_file(path, 0, &err);
    if (!document) fail_msg("%s", err.text);
    const JsonValue *root = json_root(document), *cases = json_get(root, "cases");
    assert_int_equal(cases->length, n);
    for (uint32_t i = 0; i < n; i++) {
        const JsonValue *c = json_item(cases, i), *rows = json_get(c, "rows");
        Tokenizer *t = build(c, json_get(root, "models"), &err);
        if (!t) fail_msg("case %u: %s", i, err.text);
        for (uint32_t k = 0; k < rows->length; k++) {
            char where[64];
            snprintf(where, sizeof where, "case %u row %u", i, k);
            check_row(t, json_item(rows, k), where);
        }
        tokenizer_free(t);
    }
    json_free(document);
}

static void every_component_gives_the_reference_s_ids_and_text(void **state) {
    (void)state;
    check_file(FOLDER "components.json", 90);
}

static void every_option_gives_the_reference_s_ids_and_text(void **state) {
    (void)state;
    check_file(FOLDER "options.json", 213);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_component_gives_the_reference_s_ids_and_text),
        cmocka_unit_test(every_option_gives_the_reference_s_ids_and_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
