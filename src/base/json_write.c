/* The writer: json.dumps. Which characters are escaped, where white space goes and how a float looks follow Python,
 * because prompts are made of this text and a model has seen exactly that. */
#include "base/json.h"
#include "base/decimal.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Writer {
    Buffer *out;
    const JsonStyle *style;
    const char *item_sep, *key_sep;
} Writer;

static void write_value(const Writer *w, const JsonValue *v, int depth);

static void write_escape(Buffer *out, uint32_t code) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = code && code < 0x80 ? strchr(from, (int)code) : NULL;
    if (at) {
        buffer_byte(out, '\\');
        buffer_byte(out, to[at - from]);
    } else if (code < 0x10000) {
        buffer_printf(out, "\\u%04x", (unsigned)code);
    } else {
        code -= 0x10000;
        buffer_printf(out, "\\u%04x\\u%04x", (unsigned)(0xD800 + (code >> 10)), (unsigned)(0xDC00 + (code & 0x3FF)));
    }
}

void json_write_string(Buffer *out, const char *s, size_t n, bool ensure_ascii) {
    buffer_byte(out, '"');
    size_t kept = 0, i = 0; /* s[kept..i) goes out as it is */
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        bool plain = c >= 0x20 && c != '"' && c != '\\' && (!ensure_ascii || c < 0x7F);
        if (plain) {
            i++;
            continue;
        }
        buffer_append(out, s + kept, i - kept);
        uint32_t code;
        int length = utf8_decode(s + i, n - i, &code);
        if (length == 0) { /* not text; keep the output well-formed */
            code = 0xFFFD;
            length = 1;
        }
        write_escape(out, code);
        i += (size_t)length;
        kept = i;
    }
    buffer_append(out, s + kept, n - kept);
    buffer_byte(out, '"');
}

void json_write_double(Buffer *out, double d) {
    if (isnan(d)) {
        buffer_text(out, "NaN");
    } else if (isinf(d)) {
        buffer_text(out, d < 0 ? "-Infinity" : "Infinity");
    } else {
        char text[DECIMAL_MAX];
        buffer_append(out, text, decimal_write(d, text));
    }
}

static void write_newline(const Writer *w, int depth) {
    if (w->style->indent < 0) return;
    buffer_byte(w->out, '\n');
    for (int i = 0; i < depth * w->style->indent; i++) buffer_byte(w->out, ' ');
}

static int compare_keys(const void *a, const void *b) {
    const JsonMember *x = *(const JsonMember *const *)a, *y = *(const JsonMember *const *)b;
    uint32_t n = x->key_length < y->key_length ? x->key_length : y->key_length;
    int order = memcmp(x->key, y->key, n); /* bytes of UTF-8 sort as code points */
    if (order) return order;
    return (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

static void write_members(const Writer *w, const JsonMember *const *members, uint32_t n, int depth) {
    for (uint32_t i = 0; i < n; i++) {
        if (i) buffer_text(w->out, w->item_sep);
        write_newline(w, depth);
        json_write_string(w->out, members[i]->key, members[i]->key_length, w->style->ensure_ascii);
        buffer_text(w->out, w->key_sep);
        write_value(w, &members[i]->value, depth);
    }
}

static void write_object(const Writer *w, const JsonValue *v, int depth) {
    const JsonMember **order = mem_array(v->length, sizeof *order);
    if (!order) {
        w->out->failed = true;
        return;
    }
    for (uint32_t i = 0; i < v->length; i++) order[i] = &v->members[i];
    if (w->style->sort_keys) qsort(order, v->length, sizeof *order, compare_keys);
    buffer_byte(w->out, '{');
    write_members(w, order, v->length, depth + 1);
    if (v->length) write_newline(w, depth);
    buffer_byte(w->out, '}');
    mem_free(order);
}

/* As written, for any size; Python's integers have no minus zero. */
static void write_int(Buffer *out, const JsonValue *v) {
    bool minus_zero = v->length == 2 && memcmp(v->text, "-0", 2) == 0;
    buffer_append(out, v->text + minus_zero, v->length - minus_zero);
}

static void write_array(const Writer *w, const JsonValue *v, int depth) {
    buffer_byte(w->out, '[');
    for (uint32_t i = 0; i < v->length; i++) {
        if (i) buffer_text(w->out, w->item_sep);
        write_newline(w, depth + 1);
        write_value(w, &v->items[i], depth + 1);
    }
    if (v->length) write_newline(w, depth);
    buffer_byte(w->out, ']');
}

static void write_value(const Writer *w, const JsonValue *v, int depth) {
    switch (v->type) {
    case JSON_NULL: buffer_text(w->out, "null"); break;
    case JSON_BOOL: buffer_text(w->out, v->boolean ? "true" : "false"); break;
    case JSON_INT: write_int(w->out, v); break;
    case JSON_FLOAT: json_write_double(w->out, v->number); break;
    case JSON_STRING: json_write_string(w->out, v->text, v->length, w->style->ensure_ascii); break;
    case JSON_ARRAY: write_array(w, v, depth); break;
    case JSON_OBJECT: write_object(w, v, depth); break;
    }
}

void json_write(Buffer *out, const JsonValue *v, const JsonStyle *style) {
    static const JsonStyle one_line = {.indent = -1};
    Writer w = {.out = out, .style = style ? style : &one_line};
    w.item_sep = w.style->item_sep ? w.style->item_sep : w.style->indent < 0 ? ", " : ",";
    w.key_sep = w.style->key_sep ? w.style->key_sep : ": ";
    write_value(&w, v, 0);
}
