/* Byte fallback spells the bytes, so that no alphabet stands between them and the pieces. */
#include "support/vocabulary.h"
#include "base/buffer.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void add_token(Buffer *out, const char *text, size_t n, int id) {
    buffer_text(out, id ? ", " : "");
    json_write_string(out, text, n, false);
    buffer_printf(out, ": %d", id);
}

Tokenizer *vocabulary_make(const char *const *pieces, int n) {
    Buffer json = {0};
    Error err = {""};
    buffer_text(
        &json,
        "{\"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": null, "
        "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}, "
        "\"model\": {\"type\": \"BPE\", \"merges\": [], \"byte_fallback\": true, \"vocab\": {");
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        add_token(&json, name, 6, byte);
    }
    for (int i = 0; i < n; i++) add_token(&json, pieces[i], strlen(pieces[i]), 256 + i);
    buffer_text(&json, "}}}");
    Tokenizer *t = tokenizer_parse(buffer_string(&json), json.length, NULL, 0, &err);
    if (!t) fail_msg("%s", err.text);
    buffer_clear(&json);
    return t;
}
