/* Fuzz target: any bytes as JSON. What is read is written and read again, and must then be written as the same text. */
#define _GNU_SOURCE
#include "fuzz/input.h"

#include "base/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error err;
    JsonDoc *doc = json_parse((const char *)data, size, 0, &err);
    if (!doc) return 0;
    Buffer first = {0}, second = {0};
    json_write(&first, json_root(doc), NULL);
    JsonDoc *again = json_parse(buffer_string(&first), first.length, 0, &err);
    if (!again) __builtin_trap();
    json_write(&second, json_root(again), NULL);
    if (first.length != second.length || memcmp(buffer_string(&first), buffer_string(&second), first.length) != 0)
        __builtin_trap();
    buffer_clear(&first);
    buffer_clear(&second);
    json_free(again);
    json_free(doc);
    return 0;
}
