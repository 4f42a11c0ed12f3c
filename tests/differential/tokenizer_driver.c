/* For compare_tokenizers.py: reads one JSON document per line and answers each with one line.
 *   {"load": TOKENIZER_JSON_TEXT}            "ok", or {"error": ...}
 *   {"folder": PATH}                         the same for a folder
 *   {"encode": TEXT}                         [ids without specials, ids with them], or {"error": ...}
 *   {"decode": [ids]}                        [text, text without specials, "same" when streaming gave the same] */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_error(const Error *err) {
    Buffer b = {0};
    json_write_string(&b, err->text, strlen(err->text), true);
    printf("{\"error\": %s}\n", buffer_string(&b));
    buffer_clear(&b);
}

static void append_ids(Buffer *b, const IdList *ids) {
    buffer_byte(b, '[');
    for (size_t i = 0; i < ids->n; i++) buffer_printf(b, "%s%d", i ? "," : "", (int)ids->ids[i]);
    buffer_byte(b, ']');
}

static void answer_encode(const Tokenizer *t, const JsonValue *text) {
    Error err = {""};
    Buffer b = {0};
    buffer_byte(&b, '[');
    bool ok = true;
    for (int special = 0; ok && special < 2; special++) {
        IdList ids = {0};
        ok = tokenizer_encode(t, text->text, text->length, special ? ENCODE_SPECIAL : 0, &ids, &err);
        if (special) buffer_byte(&b, ',');
        append_ids(&b, &ids);
        id_list_clear(&ids);
    }
    if (ok)
        printf("%s]\n", buffer_string(&b));
    else
        print_error(&err);
    buffer_clear(&b);
}

static bool stream(const Tokenizer *t, const IdList *ids, bool skip, Buffer *out, Error *err) {
    Detok *d = detok_new(t, skip, err);
    bool ok = d != NULL;
    for (size_t i = 0; ok && i < ids->n; i++) ok = detok_push(d, ids->ids[i], out, err);
    ok = ok && detok_finish(d, out, err);
    detok_free(d);
    return ok;
}

static void answer_decode(const Tokenizer *t, const JsonValue *list) {
    Error err = {""};
    IdList ids = {0};
    for (uint32_t i = 0; i < list->length; i++) id_list_push(&ids, (int32_t)list->items[i].number);
    Buffer b = {0};
    bool ok = true, same = true;
    buffer_byte(&b, '[');
    for (int skip = 0; ok && skip < 2; skip++) {
        Buffer whole = {0}, streamed = {0};
        ok = tokenizer_decode(t, ids.ids, ids.n, skip, &whole, &err) && stream(t, &ids, skip, &streamed, &err);
        same = same && whole.length == streamed.length && strcmp(buffer_string(&whole), buffer_string(&streamed)) == 0;
        json_write_string(&b, buffer_string(&whole), whole.length, true);
        buffer_text(&b, ",");
        buffer_clear(&whole);
        buffer_clear(&streamed);
    }
    if (ok)
        printf("%s\"%s\"]\n", buffer_string(&b), same ? "same" : "differs");
    else
        print_error(&err);
    buffer_clear(&b);
    id_list_clear(&ids);
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    Tokenizer *t = NULL;
    while ((n = getline(&line, &capacity, stdin)) > 0) {
        Error err = {""};
        JsonDoc *doc = json_parse(line, (size_t)n, 0, &err);
        const JsonValue *root = doc ? json_root(doc) : NULL, *v;
        if ((v = json_get(root, "load")) != NULL) {
            tokenizer_free(t);
            t = tokenizer_parse(v->text, v->length, NULL, 0, &err);
            if (t)
                puts("\"ok\"");
            else
                print_error(&err);
        } else if ((v = json_get(root, "folder")) != NULL) {
            tokenizer_free(t);
            t = tokenizer_load(v->text, &err);
            if (t)
                puts("\"ok\"");
            else
                print_error(&err);
        } else if (t && (v = json_get(root, "encode")) != NULL) {
            answer_encode(t, v);
        } else if (t && (v = json_get(root, "decode")) != NULL) {
            answer_decode(t, v);
        } else {
            print_error(&err);
        }
        fflush(stdout);
        json_free(doc);
    }
    tokenizer_free(t);
    free(line);
    return 0;
}
