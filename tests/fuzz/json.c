/* Fuzz target: any bytes as JSON. What is read is written and read again, and must then be written as the same text; so
 * must what is read where the reader's window ends within the text. */
#define _GNU_SOURCE
#include "fuzz/input.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = (1 << 16) + 8 };

/* The text behind so many blanks that the window ends `at` bytes into it. */
static JsonDoc *parse_across(const uint8_t *data, size_t size, size_t at, Error *err) {
    char *text = malloc(WINDOW + size);
    memset(text, ' ', WINDOW - at);
    memcpy(text + WINDOW - at, data, size);
    JsonDoc *doc = json_parse(text, WINDOW - at + size, 0, err);
    free(text);
    return doc;
}

static bool writes_the_same(const JsonDoc *a, const JsonDoc *b) {
    Buffer first = {0}, second = {0};
    json_write(&first, json_root(a), NULL);
    json_write(&second, json_root(b), NULL);
    bool same =
        first.length == second.length && memcmp(buffer_string(&first), buffer_string(&second), first.length) == 0;
    buffer_clear(&first);
    buffer_clear(&second);
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error err;
    JsonDoc *doc = json_parse((const char *)data, size, 0, &err);
    bool has_mark = size >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0;
    JsonDoc *across = size && !has_mark ? parse_across(data, size, data[size / 2] % size, &err) : NULL;
    if (size && !has_mark && !doc != !across) __builtin_trap();
    if (doc && !writes_the_same(doc, across)) __builtin_trap();
    json_free(across);
    if (!doc) return 0;
    Buffer text = {0};
    json_write(&text, json_root(doc), NULL);
    JsonDoc *again = json_parse(buffer_string(&text), text.length, 0, &err);
    if (!again || !writes_the_same(doc, again)) __builtin_trap();
    buffer_clear(&text);
    json_free(again);
    json_free(doc);
    return 0;
}
