/* For bench/text.py: one measurement, in milliseconds, and what came of it, on one line.
 *   text_timer load FOLDER TEXT           reading the folder's tokenizer and encoding TEXT; ids
 *   text_timer encode FOLDER FILE BYTES   encoding the file in texts of about that many bytes (0: as one), after
 * loading; ids text_timer render FOLDER FILE         rendering the folder's chat template with a JSON object of
 * variables; bytes The last two are done once before the clock starts, so that no page of memory is touched for the
 * first time. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/memory.h"
#include "text/template.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool time_load(const char *folder, const char *text, Error *err) {
    double begun = milliseconds();
    Tokenizer *t = tokenizer_load(folder, err);
    IdList ids = {0};
    bool ok = t && tokenizer_encode(t, text, strlen(text), 0, &ids, err);
    if (ok) printf("%.3f %zu\n", milliseconds() - begun, ids.n);
    id_list_clear(&ids);
    tokenizer_free(t);
    return ok;
}

static bool read_text(const char *path, Buffer *out, Error *err) {
    FILE *file = fopen(path, "rb");
    if (!file) return error_set(err, "%s cannot be opened", path);
    size_t n;
    while (buffer_reserve(out, 1 << 16) && (n = fread(out->data + out->length, 1, 1 << 16, file)) > 0) out->length += n;
    fclose(file);
    return !out->failed || error_memory(err, path);
}

/* The end of a text of about `bytes` that begins at `from`: not within a character. */
static size_t text_end(const Buffer *b, size_t from, size_t bytes) {
    size_t end = bytes && bytes < b->length - from ? from + bytes : b->length;
    while (end < b->length && (b->data[end] & 0xC0) == 0x80) end++;
    return end;
}

static bool encode_all(const Tokenizer *t, const Buffer *b, size_t bytes, IdList *ids, Error *err) {
    ids->n = 0;
    for (size_t from = 0, end; from < b->length; from = end) {
        end = text_end(b, from, bytes);
        if (!tokenizer_encode(t, b->data + from, end - from, 0, ids, err)) return false;
    }
    return true;
}

static bool time_encode(const char *folder, const char *path, size_t bytes, Error *err) {
    Buffer text = {0};
    IdList ids = {0};
    Tokenizer *t = tokenizer_load(folder, err);
    bool ok = t && read_text(path, &text, err) && encode_all(t, &text, bytes, &ids, err);
    double begun = milliseconds();
    ok = ok && encode_all(t, &text, bytes, &ids, err);
    if (ok) printf("%.3f %zu\n", milliseconds() - begun, ids.n);
    buffer_clear(&text);
    id_list_clear(&ids);
    tokenizer_free(t);
    return ok;
}

static bool time_render(const char *folder, const char *path, Error *err) {
    ChatTemplate *t = template_load(folder, err);
    JsonDoc *variables = t ? json_parse_file(path, 0, err) : NULL;
    Buffer out = {0};
    bool ok = variables && template_render(t, json_root(variables), &out, err);
    buffer_reset(&out);
    double begun = milliseconds();
    ok = ok && template_render(t, json_root(variables), &out, err);
    if (ok) printf("%.3f %zu\n", milliseconds() - begun, out.length);
    buffer_clear(&out);
    json_free(variables);
    template_free(t);
    return ok;
}

int main(int n, char **args) {
    Error err = {"text_timer load FOLDER TEXT | encode FOLDER FILE BYTES | render FOLDER FILE"};
    bool ok = false;
    if (n == 4 && strcmp(args[1], "load") == 0)
        ok = time_load(args[2], args[3], &err);
    else if (n == 5 && strcmp(args[1], "encode") == 0)
        ok = time_encode(args[2], args[3], strtoul(args[4], NULL, 10), &err);
    else if (n == 4 && strcmp(args[1], "render") == 0)
        ok = time_render(args[2], args[3], &err);
    if (!ok) fprintf(stderr, "text_timer: %s\n", err.text);
    return !ok;
}
