/* Every kind of component of tokenizer.json: 90 small tokenizers, their ids and texts as Python tokenizers 0.23.3 gives
 * them (tests/data/tokenizers/components.json; tests/differential/compare_tokenizers.py made it and goes on from
 * there). */
#include "support/shared_json.h"
#include "text/tokenizer.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static JsonDoc *document;

static int load_document(void **state) {
    return shared_json_read(state, "tests/data/tokenizers/components.json", &document);
}

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

static void every_component_gives_the_reference_s_ids_and_text(void **state) {
    (void)state;
    const JsonValue *cases = json_get(json_root(document), "cases");
    assert_int_equal(cases->length, 90);
    for (uint32_t i = 0; i < cases->length; i++) {
        const JsonValue *c = json_item(cases, i), *rows = json_get(c, "rows");
        Buffer source = {0};
        json_write(&source, json_get(c, "tokenizer"), NULL);
        Error err = {""};
        Tokenizer *t = tokenizer_parse(source.data, source.length, NULL, 0, &err);
        if (!t) fail_msg("case %u: %s", i, err.text);
        for (uint32_t k = 0; k < rows->length; k++) {
            char where[64];
            snprintf(where, sizeof where, "case %u row %u", i, k);
            check_row(t, json_item(rows, k), where);
        }
        tokenizer_free(t);
        buffer_clear(&source);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_component_gives_the_reference_s_ids_and_text)};
    return cmocka_run_group_tests(tests, load_document, shared_json_free);
}
