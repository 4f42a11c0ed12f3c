/* Gemma's notation of arguments: JSON without quotes, where strings stand between two tokens of their own, so that
 * nothing in them is escaped: city:<|"|>Oslo<|"|>,days:2,where:{lat:1.5}}. FunctionGemma writes <escape> for both. */
#define _GNU_SOURCE
#include "base/json_scan.h"
#include "base/utf8.h"
#include "text/toolcall.h"
#include "text/toolcall_schema.h"

#include <string.h>

enum { MAX_DEPTH = 100 };

typedef struct Reader {
    const char *p, *end, *quote;
    Buffer *out;
    int depth;
} Reader;

static bool read_value(Reader *r);

static void skip_space(Reader *r) {
    r->p = json_skip_space(r->p, r->end);
}

static bool take(Reader *r, char c) {
    skip_space(r);
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

/* 1: a string was there and is written; 0: there is none; -1: it does not end. */
static int read_string(Reader *r) {
    size_t n = strlen(r->quote);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, r->quote, n) != 0) return 0;
    const char *from = r->p + n, *to = memmem(from, (size_t)(r->end - from), r->quote, n);
    if (!to) return -1;
    json_write_string(r->out, from, (size_t)(to - from), false);
    r->p = to + n;
    return 1;
}

/* Up to one of the characters, without white space around it. */
static size_t bare_length(const Reader *r, const char *ends, size_t *next) {
    size_t n = 0;
    while (r->p + n < r->end && !strchr(ends, r->p[n])) n++;
    *next = n;
    while (n > 0 && json_is_space(r->p[n - 1])) n--;
    return n;
}

static bool read_key(Reader *r) {
    int string = read_string(r);
    if (string) return string > 0 && take(r, ':');
    size_t next, n = bare_length(r, ":,{}[]", &next);
    if (n == 0) return false;
    json_write_string(r->out, r->p, n, false);
    r->p += next;
    return take(r, ':');
}

/* After the opening bracket. */
static bool read_items(Reader *r, char close) {
    if (take(r, close)) return true;
    for (;;) {
        skip_space(r);
        if (close == '}') {
            if (!read_key(r)) return false;
            buffer_text(r->out, ": ");
        }
        if (!read_value(r)) return false;
        if (!take(r, ',')) return take(r, close);
        buffer_text(r->out, ", ");
    }
}

static bool read_container(Reader *r, char close) {
    if (r->depth == MAX_DEPTH) return false;
    r->depth++;
    buffer_byte(r->out, close == '}' ? '{' : '[');
    bool ok = read_items(r, close);
    buffer_byte(r->out, close);
    r->depth--;
    return ok;
}

static bool read_value(Reader *r) {
    if (take(r, '{')) return read_container(r, '}');
    if (take(r, '[')) return read_container(r, ']');
    int string = read_string(r);
    if (string) return string > 0;
    size_t next, n = bare_length(r, ",{}[]", &next);
    if (n == 0) return false;
    schema_write((Schema){0}, r->p, n, r->out);
    r->p += next;
    return true;
}

/* After the first brace, up to the last one, which ends the text. */
static bool read_arguments(CallList *out, const char *text, size_t n, const char *quote) {
    if (out->n == 0 || utf8_valid(text, n) < n) return false;
    Reader r = {.p = text, .end = text + n, .quote = quote, .out = &out->items[out->n - 1].arguments};
    bool ok = read_container(&r, '}');
    skip_space(&r);
    return ok && r.p == r.end;
}

bool read_gemma_arguments(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    (void)tools;
    return read_arguments(out, text, n, "<|\"|>");
}

bool read_function_gemma(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    (void)tools;
    return read_arguments(out, text, n, "<escape>");
}
