/* Calls in Python's notation, [get_weather(city='Oslo', days=2), now()], turned into JSON as they are read: recursive
 * descent over a text whose end is known (STEP_LIST and STEP_BODY find it). Only literals are values, as for
 * ast.literal_eval; a string's escapes are Python's, where an unknown one keeps its backslash. */
#include "text/toolcall_python.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"
#include "text/toolcall.h"

#include <string.h>

enum { MAX_DEPTH = 100 };

typedef struct Reader {
    const char *p, *end;
    Buffer *out;
    int depth;
} Reader;

static bool read_value(Reader *r);

static void skip_space(Reader *r) {
    r->p = json_skip_space(r->p, r->end);
}

static bool take(Reader *r, char c) {
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* ---- strings ---- */

/* \xhh, \uhhhh, \Uhhhhhhhh: the digits. A half of a surrogate pair is no character. */
static bool unescape_code(Reader *r, int digits, Buffer *text) {
    uint32_t code = 0;
    char bytes[4];
    if (r->end - r->p < digits) return false;
    for (int i = 0; i < digits; i++) {
        int d = hex_digit(*r->p++);
        if (d < 0 || code > 0x10FFFF) return false;
        code = code << 4 | (uint32_t)d;
    }
    int n = utf8_encode(code, bytes);
    buffer_append(text, bytes, (size_t)n);
    return n > 0;
}

/* After the backslash. */
static bool unescape(Reader *r, Buffer *text) {
    static const char from[] = "\\'\"nrtbfav0", to[] = "\\'\"\n\r\t\b\f\a\v\0";
    if (r->p == r->end) return false;
    char c = *r->p++;
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        buffer_byte(text, to[at - from]);
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') return unescape_code(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
    if (c == '\n') return true;
    buffer_byte(text, '\\');
    buffer_byte(text, c);
    return true;
}

/* At the opening quote. A newline may stand in any string, not only in a triple-quoted one: the templates of LFM2 write
 * them so. */
static bool unquote(Reader *r, Buffer *text) {
    char quote = *r->p;
    bool triple = r->end - r->p >= 3 && r->p[1] == quote && r->p[2] == quote;
    size_t width = triple ? 3 : 1;
    for (r->p += width; r->p < r->end;) {
        if (*r->p == quote && (!triple || (r->end - r->p >= 3 && r->p[1] == quote && r->p[2] == quote))) {
            r->p += width;
            return true;
        }
        char c = *r->p++;
        if (c != '\\')
            buffer_byte(text, c);
        else if (!unescape(r, text))
            return false;
    }
    return false;
}

static bool read_string(Reader *r) {
    Buffer text = {0};
    bool ok = unquote(r, &text);
    if (ok) json_write_string(r->out, buffer_string(&text), text.length, false);
    if (text.failed) r->out->failed = true;
    buffer_clear(&text);
    return ok;
}

/* ---- numbers and words ---- */

static size_t count_digits(const Reader *r) {
    size_t n = 0;
    while (r->p + n < r->end && is_digit(r->p[n])) n++;
    return n;
}

static void copy(Reader *r, size_t n) {
    buffer_append(r->out, r->p, n);
    r->p += n;
}

/* JSON wants a digit on both sides of the point; Python does not. */
static bool read_number(Reader *r) {
    if (*r->p == '-') copy(r, 1);
    size_t whole = count_digits(r), fraction = 0;
    if (whole > 1 && *r->p == '0') return false;
    if (whole == 0) buffer_byte(r->out, '0');
    copy(r, whole);
    if (take(r, '.')) {
        buffer_byte(r->out, '.');
        fraction = count_digits(r);
        if (fraction == 0) buffer_byte(r->out, '0');
        copy(r, fraction);
    }
    if (whole + fraction == 0) return false;
    if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
        copy(r, 1);
        if (r->p < r->end && (*r->p == '+' || *r->p == '-')) copy(r, 1);
        size_t exponent = count_digits(r);
        if (exponent == 0) return false;
        copy(r, exponent);
    }
    return r->p == r->end || !is_word(*r->p);
}

static size_t word_length(const Reader *r) {
    size_t n = 0;
    while (r->p + n < r->end && is_word(r->p[n])) n++;
    return n;
}

static bool read_word(Reader *r) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    size_t n = word_length(r);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i][0]) != n || memcmp(words[i][0], r->p, n) != 0) continue;
        r->p += n;
        buffer_text(r->out, words[i][1]);
        return true;
    }
    return false;
}

/* ---- containers ---- */

static bool read_item(Reader *r, bool dict) {
    if (!dict) return read_value(r);
    if (r->p == r->end || (*r->p != '"' && *r->p != '\'') || !read_string(r)) return false;
    skip_space(r);
    if (!take(r, ':')) return false;
    buffer_text(r->out, ": ");
    skip_space(r);
    return read_value(r);
}

/* After the opening bracket: items up to `close`; a comma may end them. */
static bool read_items(Reader *r, char close, bool dict) {
    bool first = true;
    for (;;) {
        skip_space(r);
        if (take(r, close)) return true;
        if (!first) buffer_text(r->out, ", ");
        if (!read_item(r, dict)) return false;
        first = false;
        skip_space(r);
        if (!take(r, ',')) return take(r, close);
    }
}

static bool read_container(Reader *r) {
    char open = *r->p++, close = open == '{' ? '}' : open == '[' ? ']' : ')';
    if (r->depth == MAX_DEPTH) return false;
    r->depth++;
    buffer_byte(r->out, open == '{' ? '{' : '[');
    bool ok = read_items(r, close, open == '{');
    buffer_byte(r->out, open == '{' ? '}' : ']');
    r->depth--;
    return ok;
}

static bool read_value(Reader *r) {
    if (r->p == r->end) return false;
    char c = *r->p;
    if (c == '"' || c == '\'') return read_string(r);
    if (c == '{' || c == '[' || c == '(') return read_container(r);
    return c == '-' || c == '.' || is_digit(c) ? read_number(r) : read_word(r);
}

bool python_value(const char *text, size_t n, Buffer *out) {
    Reader r = {.p = text, .end = text + n, .out = out};
    size_t before = out->length;
    if (utf8_valid(text, n) == n && read_value(&r) && r.p == r.end) return true;
    out->length = before;
    if (out->data) out->data[before] = 0;
    return false;
}

/* ---- calls ---- */

static bool has_key(const char *keys, size_t n_keys, const char *name, size_t n) {
    for (size_t at = 0; at < n_keys; at += strlen(keys + at) + 1)
        if (strlen(keys + at) == n && memcmp(keys + at, name, n) == 0) return true;
    return false;
}

/* After the parenthesis: name=value, ... A name twice is an error, as in Python. */
static bool read_keywords(Reader *r, Buffer *seen) {
    for (bool first = true;; first = false) {
        skip_space(r);
        if (take(r, ')')) return true;
        const char *name = r->p;
        size_t n = word_length(r);
        if (n == 0 || is_digit(*name) || has_key(buffer_string(seen), seen->length, name, n)) return false;
        buffer_append(seen, name, n);
        buffer_byte(seen, 0);
        r->p += n;
        skip_space(r);
        if (!take(r, '=')) return false;
        if (!first) buffer_text(r->out, ", ");
        json_write_string(r->out, name, n, false);
        buffer_text(r->out, ": ");
        skip_space(r);
        if (!read_value(r)) return false;
        skip_space(r);
        if (!take(r, ',')) return take(r, ')');
    }
}

/* name(key=value, ...); a name may have dots. */
static bool read_call(Reader *r, CallList *calls) {
    const char *name = r->p;
    while (r->p < r->end && (is_word(*r->p) || *r->p == '.' || *r->p == '-')) r->p++;
    size_t n = (size_t)(r->p - name);
    skip_space(r);
    if (n == 0 || is_digit(*name) || !take(r, '(')) return false;
    Call *call = calls_push(calls);
    if (!call) return false;
    buffer_append(&call->name, name, n);
    Buffer seen = {0};
    r->out = &call->arguments;
    buffer_byte(r->out, '{');
    bool ok = read_keywords(r, &seen);
    buffer_byte(r->out, '}');
    calls->failed |= seen.failed;
    buffer_clear(&seen);
    return ok;
}

bool read_python_calls(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    Reader r = {.p = text, .end = text + n};
    if (utf8_valid(text, n) < n) return false;
    skip_space(&r);
    bool list = take(&r, '['), separated = true;
    skip_space(&r);
    if (r.p < r.end && *r.p == '{') return read_json_calls(out, text, n, tools); /* LFM2 writes both when asked */
    for (;;) {
        skip_space(&r);
        if (list && take(&r, ']')) break;
        if (!list && r.p == r.end) break;
        if (!separated || !read_call(&r, out)) return false;
        const char *after = r.p;
        skip_space(&r);
        separated = take(&r, ',') || (!list && (take(&r, ';') || r.p > after));
    }
    skip_space(&r);
    return r.p == r.end && out->n > 0;
}

bool read_python_tag(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    static const char suffix[] = ".call";
    enum { SUFFIX = sizeof suffix - 1 };
    const char *start = json_skip_space(text, text + n);
    bool json = start < text + n && *start == '{';
    if (!read_python_calls(out, text, n, tools)) return false;
    for (size_t i = 0; !json && i < out->n; i++) {
        Buffer *name = &out->items[i].name;
        if (name->length <= SUFFIX || memcmp(name->data + name->length - SUFFIX, suffix, SUFFIX) != 0) return false;
        name->length -= SUFFIX;
        name->data[name->length] = 0;
    }
    return true;
}
