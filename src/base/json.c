/* The reader: recursive descent over one private copy of the text. Strings are unescaped in place (an escape is never
 * shorter than what it stands for) and numbers are moved one byte to the left, over the separator before them, so that
 * both end in a NUL without a further allocation per value. Children gather on two stacks and are copied to the arena
 * when their container closes. That, and a byte table that finds the end of a string's plain part, is what reads
 * tokenizer.json of 33 MB in about a tenth of a second.
 *
 * Invariant: everything before `p` may already be overwritten; `line` and `line_start` are therefore counted while
 * white space is skipped, never looked up afterwards. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/arena.h"
#include "base/decimal.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 512, FEW_KEYS = 16, EXACT_DIGITS = 15 };

struct JsonDoc {
    Arena arena;
    Buffer text; /* one spare byte, then the text */
    JsonValue root;
};

typedef struct Stack {
    void *data;
    size_t n, capacity;
} Stack;

typedef struct Parser {
    char *p, *end; /* *end is 0 */
    const char *line_start;
    size_t line;
    unsigned flags;
    int depth;
    JsonDoc *doc;
    Stack values, members;
    Error *err;
} Parser;

/* 1: a string's plain part ends here (quote, backslash, control); 2: a byte of a longer character, to be checked. */
static const unsigned char string_class[256] = {
    1,         1,         1,         1,         1,         1,         1,          1,         1,
    1,         1,         1,         1,         1,         1,         1,          1,         1,
    1,         1,         1,         1,         1,         1,         1,          1,         1,
    1,         1,         1,         1,         1,         ['"'] = 1, ['\\'] = 1,
#define TWO8(i) [i] = 2, [i + 1] = 2, [i + 2] = 2, [i + 3] = 2, [i + 4] = 2, [i + 5] = 2, [i + 6] = 2, [i + 7] = 2
    TWO8(128), TWO8(136), TWO8(144), TWO8(152), TWO8(160), TWO8(168), TWO8(176),  TWO8(184), TWO8(192),
    TWO8(200), TWO8(208), TWO8(216), TWO8(224), TWO8(232), TWO8(240), TWO8(248),
#undef TWO8
};

static bool parse_value(Parser *ps, JsonValue *out);

static bool fail_at(Parser *ps, const char *where, const char *what) {
    return error_set(ps->err, "line %zu column %zu: %s", ps->line, (size_t)(where - ps->line_start) + 1, what);
}

static bool fail(Parser *ps, const char *what) {
    return fail_at(ps, ps->p, ps->p == ps->end ? "the text ends too early" : what);
}

static void skip_space(Parser *ps) {
    char *p = ps->p;
    for (;; p++) {
        if (*p == '\n') {
            ps->line++;
            ps->line_start = p + 1;
        } else if (*p != ' ' && *p != '\t' && *p != '\r') {
            break;
        }
    }
    ps->p = p;
}

static bool stack_push(Stack *s, const void *item, size_t size) {
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 64;
        void *data = mem_resize(s->data, capacity, size);
        if (!data) return false;
        s->data = data;
        s->capacity = capacity;
    }
    memcpy((char *)s->data + s->n++ * size, item, size);
    return true;
}

/* The items from `base` up, moved into the arena. */
static bool stack_take(Parser *ps, Stack *s, size_t base, size_t size, void **out, uint32_t *length) {
    size_t n = s->n - base;
    s->n = base;
    *length = (uint32_t)n;
    *out = n ? arena_array(&ps->doc->arena, n, size) : NULL;
    if (n == 0) return true;
    if (!*out) return error_memory(ps->err, "JSON");
    memcpy(*out, (char *)s->data + base * size, n * size);
    return true;
}

/* ---- strings ---- */

static int hex4(const char *s) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1; /* the NUL at the end stops the loop, too */
        value = value << 4 | digit;
    }
    return value;
}

/* At the u of \u; a pair of surrogates is one character, a lone one U+FFFD. Returns the bytes written, 0 on error. */
static int unescape_unicode(Parser *ps, char *out) {
    int unit = hex4(ps->p + 1);
    if (unit < 0) return fail(ps, "\\u needs four hexadecimal digits");
    ps->p += 5;
    uint32_t code = (uint32_t)unit;
    if (unit >= 0xD800 && unit < 0xDC00 && ps->p[0] == '\\' && ps->p[1] == 'u') {
        int low = hex4(ps->p + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
            ps->p += 6;
        }
    }
    if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    return utf8_encode(code, out);
}

/* At the character after the backslash. */
static int unescape(Parser *ps, char *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*ps->p == 'u') return unescape_unicode(ps, out);
    const char *at = *ps->p ? strchr(from, *ps->p) : NULL;
    if (!at) return fail(ps, "unknown escape in a string");
    ps->p++;
    *out = to[at - from];
    return 1;
}

/* Steps over characters that stand for themselves. */
static bool skip_plain(Parser *ps) {
    char *p = ps->p;
    for (;;) {
        while (!string_class[(unsigned char)*p]) p++;
        if (string_class[(unsigned char)*p] == 1) break;
        uint32_t code;
        int n = utf8_decode(p, (size_t)(ps->end - p), &code);
        if (n == 0) {
            return fail_at(ps, p, "invalid UTF-8");
        }
        p += n;
    }
    ps->p = p;
    return true;
}

/* At the opening quote. */
static bool parse_string(Parser *ps, const char **text, uint32_t *length) {
    char *start = ++ps->p, *out = start;
    for (;;) {
        char *run = ps->p;
        if (!skip_plain(ps)) return false;
        size_t n = (size_t)(ps->p - run);
        if (out != run) memmove(out, run, n);
        out += n;
        if (*ps->p == '"') break;
        if (*ps->p != '\\') return fail(ps, "control character in a string");
        ps->p++;
        int written = unescape(ps, out);
        if (written == 0) return false;
        out += written;
    }
    *out = 0; /* at the latest over the closing quote */
    ps->p++;
    *text = start;
    *length = (uint32_t)(out - start);
    return true;
}

/* ---- numbers and words ---- */

static char *skip_digits(char *p) {
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

static bool parse_word(Parser *ps, const char *word, JsonValue value, JsonValue *out) {
    size_t n = strlen(word);
    if (strncmp(ps->p, word, n) != 0) return fail(ps, "a JSON value must stand here");
    if (value.type == JSON_FLOAT) {
        value.text = word;
        value.length = (uint32_t)n;
    }
    ps->p += n;
    *out = value;
    return true;
}

/* Up to 15 digits a double is exact on the way, too; token ids are such numbers, and there are hundreds of thousands.
 */
static double small_integer(const char *s, size_t n) {
    bool negative = *s == '-';
    double value = 0;
    for (size_t i = negative; i < n; i++) value = value * 10 + (s[i] - '0');
    return negative ? -value : value;
}

static bool parse_number(Parser *ps, JsonValue *out) {
    char *start = ps->p, *p = start + (*start == '-');
    if (*p == 'I') {
        return parse_word(ps, "-Infinity", (JsonValue){.type = JSON_FLOAT, .number = -INFINITY}, out);
    }
    if (*p < '0' || *p > '9') return fail(ps, "a JSON value must stand here");
    JsonType type = JSON_INT;
    p = *p == '0' ? p + 1 : skip_digits(p);
    if (*p == '.' && p[1] >= '0' && p[1] <= '9') {
        type = JSON_FLOAT;
        p = skip_digits(p + 1);
    }
    if (*p == 'e' || *p == 'E') {
        char *digits = p + 1 + (p[1] == '-' || p[1] == '+');
        if (*digits >= '0' && *digits <= '9') {
            type = JSON_FLOAT;
            p = skip_digits(digits);
        }
    }
    size_t n = (size_t)(p - start);
    *out = (JsonValue){.type = type, .length = (uint32_t)n, .text = start - 1};
    out->number = type == JSON_INT && n <= EXACT_DIGITS ? small_integer(start, n) : decimal_parse(start, n);
    memmove(start - 1, start, n); /* the byte before is a separator already read, or the spare one */
    start[n - 1] = 0;
    ps->p = p;
    return true;
}

/* ---- containers ---- */

static uint64_t key_hash(const JsonMember *m, uint64_t seed) {
    uint64_t h = seed ^ m->key_length;
    for (uint32_t i = 0; i < m->key_length; i++) h = (h ^ (unsigned char)m->key[i]) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static bool same_key(const JsonMember *a, const JsonMember *b) {
    return a->key_length == b->key_length && memcmp(a->key, b->key, a->key_length) == 0;
}

static bool duplicate_error(Parser *ps, const JsonMember *m) {
    return error_set(ps->err, "the key \"%.200s\" stands twice in one object", m->key);
}

/* As a Python dict: a repeated key keeps its first place and takes the last value. */
static bool unique_few(Parser *ps, JsonMember *members, uint32_t *length) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < *length; i++) {
        uint32_t j = 0;
        while (j < n && !same_key(&members[j], &members[i])) j++;
        if (j < n && (ps->flags & JSON_UNIQUE_KEYS)) return duplicate_error(ps, &members[i]);
        members[j] = members[i];
        if (j == n) n++;
    }
    *length = n;
    return true;
}

/* The same with a hash table. The seed is an address, so that nobody can prepare keys that all collide; the result
 * does not depend on it. */
static bool unique_many(Parser *ps, JsonMember *members, uint32_t *length) {
    size_t size = 64;
    while (size < (size_t)*length * 2) size *= 2;
    uint32_t *slots = mem_zeroed(size, sizeof *slots); /* 1 + index; 0 is free */
    if (!slots) return error_memory(ps->err, "JSON");
    uint64_t seed = (uint64_t)(uintptr_t)members * 0xD6E8FEB86659FD93u;
    uint32_t n = 0;
    bool ok = true;
    for (uint32_t i = 0; i < *length && ok; i++) {
        size_t at = key_hash(&members[i], seed) & (size - 1);
        while (slots[at] && !same_key(&members[slots[at] - 1], &members[i])) at = (at + 1) & (size - 1);
        if (slots[at]) {
            if (ps->flags & JSON_UNIQUE_KEYS) ok = duplicate_error(ps, &members[i]);
            members[slots[at] - 1].value = members[i].value;
        } else {
            members[n] = members[i];
            slots[at] = ++n;
        }
    }
    mem_free(slots);
    if (ok) *length = n;
    return ok;
}

/* One member, key at the cursor. */
static bool parse_member(Parser *ps) {
    JsonMember m;
    if (*ps->p != '"') return fail(ps, "an object's key must be a string");
    if (!parse_string(ps, &m.key, &m.key_length)) return false;
    skip_space(ps);
    if (*ps->p != ':') return fail(ps, "':' must follow an object's key");
    ps->p++;
    if (!parse_value(ps, &m.value)) return false;
    return stack_push(&ps->members, &m, sizeof m) || error_memory(ps->err, "JSON");
}

static bool parse_element(Parser *ps) {
    JsonValue v;
    if (!parse_value(ps, &v)) return false;
    return stack_push(&ps->values, &v, sizeof v) || error_memory(ps->err, "JSON");
}

/* From the opening bracket to the closing one; the children are then on their stack. */
static bool parse_children(Parser *ps, bool (*child)(Parser *), char close, const char *what) {
    if (++ps->depth > MAX_DEPTH) return fail(ps, "more than 512 levels of nesting");
    ps->p++;
    skip_space(ps);
    bool more = *ps->p != close;
    while (more) {
        skip_space(ps);
        if (!child(ps)) return false;
        skip_space(ps);
        more = *ps->p == ',';
        if (!more && *ps->p != close) return fail(ps, what);
        ps->p += more;
    }
    ps->p++;
    ps->depth--;
    return true;
}

static bool parse_array(Parser *ps, JsonValue *out) {
    size_t base = ps->values.n;
    if (!parse_children(ps, parse_element, ']', "',' or ']' must stand here")) return false;
    JsonValue v = {.type = JSON_ARRAY};
    void *items;
    if (!stack_take(ps, &ps->values, base, sizeof(JsonValue), &items, &v.length)) return false;
    v.items = items;
    *out = v;
    return true;
}

static bool parse_object(Parser *ps, JsonValue *out) {
    size_t base = ps->members.n;
    if (!parse_children(ps, parse_member, '}', "',' or '}' must stand here")) return false;
    JsonValue v = {.type = JSON_OBJECT};
    void *members;
    if (!stack_take(ps, &ps->members, base, sizeof(JsonMember), &members, &v.length)) return false;
    v.members = members;
    bool few = v.length <= FEW_KEYS;
    if (!(few ? unique_few : unique_many)(ps, v.members, &v.length)) return false;
    *out = v;
    return true;
}

static bool parse_value(Parser *ps, JsonValue *out) {
    skip_space(ps);
    JsonValue v = {.type = JSON_STRING};
    switch (*ps->p) {
    case '"':
        if (!parse_string(ps, &v.text, &v.length)) return false;
        *out = v;
        return true;
    case '{': return parse_object(ps, out);
    case '[': return parse_array(ps, out);
    case 'n': return parse_word(ps, "null", (JsonValue){.type = JSON_NULL}, out);
    case 't': return parse_word(ps, "true", (JsonValue){.type = JSON_BOOL, .boolean = true}, out);
    case 'f': return parse_word(ps, "false", (JsonValue){.type = JSON_BOOL}, out);
    case 'N': return parse_word(ps, "NaN", (JsonValue){.type = JSON_FLOAT, .number = NAN}, out);
    case 'I': return parse_word(ps, "Infinity", (JsonValue){.type = JSON_FLOAT, .number = INFINITY}, out);
    default: return parse_number(ps, out);
    }
}

/* ---- documents ---- */

/* Parses doc->text, which has one spare byte in front. */
static bool parse_document(JsonDoc *doc, unsigned flags, Error *err) {
    if (doc->text.length > UINT32_MAX) return error_set(err, "JSON text over 4 GB");
    char *start = doc->text.data + 1;
    Parser ps = {.p = start, .end = doc->text.data + doc->text.length, .line_start = start, .line = 1};
    ps.flags = flags;
    ps.doc = doc;
    ps.err = err;
    bool ok;
    if (strncmp(start, "\xEF\xBB\xBF", 3) == 0) {
        ok = fail(&ps, "a byte order mark stands before the JSON text");
    } else {
        ok = parse_value(&ps, &doc->root);
    }
    if (ok) {
        skip_space(&ps);
        if (ps.p != ps.end) ok = fail(&ps, "something follows the JSON value");
    }
    mem_free(ps.values.data);
    mem_free(ps.members.data);
    return ok;
}

static JsonDoc *document_new(size_t length) {
    JsonDoc *doc = mem_zeroed(1, sizeof *doc);
    if (!doc) return NULL;
    arena_init(&doc->arena);
    buffer_reserve(&doc->text, length < PTRDIFF_MAX - 16 ? length + 2 : length);
    buffer_byte(&doc->text, 0);
    return doc;
}

static JsonDoc *document_finish(JsonDoc *doc, unsigned flags, Error *err) {
    bool ok = doc->text.failed ? error_memory(err, "JSON") : parse_document(doc, flags, err);
    if (ok) return doc;
    json_free(doc);
    return NULL;
}

JsonDoc *json_parse(const char *text, size_t length, unsigned flags, Error *err) {
    JsonDoc *doc = document_new(length);
    if (!doc) {
        error_memory(err, "JSON");
        return NULL;
    }
    buffer_append(&doc->text, text, length);
    return document_finish(doc, flags, err);
}

static bool read_file(FILE *file, Buffer *b, Error *err) {
    size_t n;
    do {
        if (!buffer_reserve(b, 1 << 16)) return error_memory(err, "JSON");
        n = fread(b->data + b->length, 1, b->capacity - b->length - 1, file);
        b->length += n;
        b->data[b->length] = 0;
    } while (n);
    return !ferror(file) || error_set(err, "%s", strerror(errno));
}

JsonDoc *json_parse_file(const char *path, unsigned flags, Error *err) {
    struct stat st;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &st) != 0 || S_ISDIR(st.st_mode)) {
        error_set(err, "%s: %s", path, strerror(file && S_ISDIR(st.st_mode) ? EISDIR : errno));
        if (file) fclose(file);
        return NULL;
    }
    JsonDoc *doc = document_new(S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0);
    if (!doc) {
        error_memory(err, "JSON");
    } else if (read_file(file, &doc->text, err)) {
        doc = document_finish(doc, flags, err);
    } else {
        json_free(doc);
        doc = NULL;
    }
    fclose(file);
    if (!doc) error_prefix(err, "%s", path);
    return doc;
}

void json_free(JsonDoc *doc) {
    if (!doc) return;
    arena_clear(&doc->arena);
    buffer_clear(&doc->text);
    mem_free(doc);
}

const JsonValue *json_root(const JsonDoc *doc) {
    return &doc->root;
}

/* ---- looking at values ---- */

const JsonValue *json_get(const JsonValue *v, const char *key) {
    if (!v || v->type != JSON_OBJECT) return NULL;
    size_t n = strlen(key);
    for (uint32_t i = 0; i < v->length; i++) {
        const JsonMember *m = &v->members[i];
        if (m->key_length == n && memcmp(m->key, key, n) == 0) return &m->value;
    }
    return NULL;
}

const JsonValue *json_get_set(const JsonValue *v, const char *key) {
    const JsonValue *member = json_get(v, key);
    return member && member->type != JSON_NULL ? member : NULL;
}

const JsonValue *json_item(const JsonValue *v, uint32_t i) {
    return v && v->type == JSON_ARRAY && i < v->length ? &v->items[i] : NULL;
}

const char *json_string(const JsonValue *v) {
    return v && v->type == JSON_STRING ? v->text : NULL;
}

bool json_equals(const JsonValue *v, const char *text) {
    return v && v->type == JSON_STRING && v->length == strlen(text) && memcmp(v->text, text, v->length) == 0;
}

bool json_int(const JsonValue *v, int64_t *out) {
    if (!v) return false;
    if (v->type == JSON_FLOAT) {
        if (!(v->number >= -0x1p63 && v->number < 0x1p63) || v->number != floor(v->number)) return false;
        *out = (int64_t)v->number;
        return true;
    }
    if (v->type != JSON_INT) return false;
    int64_t value = 0;
    bool negative = v->text[0] == '-';
    for (uint32_t i = negative; i < v->length; i++) { /* downwards, because INT64_MIN has no positive twin */
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, v->text[i] - '0', &value)) return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

bool json_number(const JsonValue *v, double *out) {
    if (!v || (v->type != JSON_INT && v->type != JSON_FLOAT)) return false;
    *out = v->number;
    return true;
}

bool json_bool(const JsonValue *v, bool *out) {
    if (!v || v->type != JSON_BOOL) return false;
    *out = v->boolean;
    return true;
}
