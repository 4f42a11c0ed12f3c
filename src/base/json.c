/* The reader: recursive descent over a window that slides along the text. Strings and numbers are copied to the arena
 * as they are met; children gather on two stacks and are copied when their container closes. So a document of 33 MB
 * never lies in memory as text, and one whose long lists are tapped hardly at all: touching fresh memory is what a
 * quick reader would spend most of its time on.
 *
 * Invariant: a token is only looked at while it lies in the window whole. What comes near `end` calls `slide`, which
 * moves the bytes still needed to the front and reads more behind them, so that every pointer into the window but
 * ps->p and ps->end is void after it. READ_AHEAD zero bytes stand behind `end`. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/arena.h"
#include "base/decimal.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_DEPTH = 512,
    FEW_KEYS = 16,
    EXACT_DIGITS = 15,
    READ_AHEAD = 8,
    WINDOW = 1 << 16,
    TEXTS_FIRST = 1 << 12,
    TEXTS_MOST = 1 << 20,
    LONGEST_WORD = 9,    /* -Infinity */
    LONGEST_ESCAPE = 12, /* a pair of surrogates */
    EXPONENT = 3,        /* the bytes that tell whether a number goes on: e+5 */
};

#define AFTER_MEMBER "',' or '}' must stand here"
#define AFTER_ELEMENT "',' or ']' must stand here"

typedef struct TextBlock {
    struct TextBlock *before;
    char data[];
} TextBlock;

struct JsonDoc {
    Arena arena;      /* arrays of values and of members */
    TextBlock *texts; /* strings and numbers, one after the other */
    JsonValue root;
};

typedef struct Stack {
    void *data;
    size_t n, capacity;
} Stack;

/* Where the text comes from. */
typedef struct Source {
    FILE *file;       /* or NULL */
    const char *text; /* what is left of a text in memory */
    size_t left;
} Source;

typedef struct Options {
    unsigned flags;
    const JsonTap *taps;
    size_t n_taps;
} Options;

typedef struct Parser {
    Source source;
    Options options;
    JsonDoc *doc;
    char *window, *p, *end;
    size_t capacity;
    bool ended;                /* the source has no more */
    bool broken;               /* reading failed; *err says how */
    size_t before, line_start; /* offsets in the text: of the window, of the line */
    size_t line;
    int depth;
    Stack values, members;
    char *room; /* for the next text, and how many bytes are left there */
    size_t room_left, texts_size;
    const JsonTap *tap;        /* the one whose children are being read */
    uint64_t tapped;           /* a bit per tap: its container was met */
    const JsonMember *path[2]; /* the members being read in the root object and in the object below it */
    Error *err;
} Parser;

static bool parse_value(Parser *ps, JsonValue *out);

static bool fail_at(Parser *ps, const char *where, const char *what) {
    if (ps->broken) return false;
    size_t column = ps->before + (size_t)(where - ps->window) - ps->line_start + 1;
    return error_set(ps->err, "line %zu column %zu: %s", ps->line, column, what);
}

static bool fail(Parser *ps, const char *what) {
    return fail_at(ps, ps->p, ps->p == ps->end ? "the text ends too early" : what);
}

/* ---- the window ---- */

static size_t source_read(Source *s, char *out, size_t n) {
    if (s->file) return fread(out, 1, n, s->file);
    if (n > s->left) n = s->left;
    memcpy(out, s->text, n);
    s->text += n;
    s->left -= n;
    return n;
}

/* Reads on, keeping the last `kept` bytes before ps->p and all after it. False when there is no more, or on an error;
 * pointers into the window are void then, too. */
static bool slide(Parser *ps, size_t kept) {
    if (ps->ended) return false;
    char *from = ps->p - kept;
    size_t n = (size_t)(ps->end - from), room = ps->capacity - READ_AHEAD;
    memmove(ps->window, from, n);
    ps->before += (size_t)(from - ps->window);
    if (n == room) { /* a token longer than the window */
        char *grown = mem_resize(ps->window, 2 * ps->capacity, 1);
        if (!grown) ps->broken = !error_memory(ps->err, "JSON");
        if (grown) {
            ps->window = grown;
            ps->capacity *= 2;
            room = ps->capacity - READ_AHEAD;
        }
    }
    size_t more = source_read(&ps->source, ps->window + n, room - n);
    ps->p = ps->window + kept;
    ps->end = ps->window + n + more;
    memset(ps->end, 0, READ_AHEAD);
    if (ps->source.file && ferror(ps->source.file)) ps->broken = !error_set(ps->err, "%s", strerror(errno));
    if (ps->before + n + more > UINT32_MAX) ps->broken = !error_set(ps->err, "JSON text over 4 GB");
    ps->ended = more == 0 || ps->broken;
    return !ps->ended;
}

/* Eight at a time, because files are often indented. */
static char *skip_blanks(char *p) {
    for (;;) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        word ^= 0x2020202020202020u;
        if (word) return p + __builtin_ctzll(word) / 8;
        p += sizeof word;
    }
}

static void skip_all_space(Parser *ps) {
    for (;;) {
        char *p = ps->p;
        if (*p == '\n') {
            p++;
            ps->line++;
            ps->line_start = ps->before + (size_t)(p - ps->window);
        }
        p = skip_blanks(p);
        ps->p = p;
        if ((unsigned char)*p > ' ') return;
        if (*p == '\t' || *p == '\r')
            ps->p++;
        else if (*p != '\n' && (p != ps->end || !slide(ps, 0)))
            return;
    }
}

static inline void skip_space(Parser *ps) {
    if ((unsigned char)*ps->p <= ' ') skip_all_space(ps);
}

static inline bool stack_push(Stack *s, const void *item, size_t size) {
    void *data = mem_room(s->data, s->n, &s->capacity, size);
    if (!data) return false;
    s->data = data;
    memcpy((char *)s->data + s->n++ * size, item, size);
    return true;
}

/* The items from `base` up, moved into the arena. */
static bool stack_take(Parser *ps, Stack *s, size_t base, size_t size, void **out, uint32_t *length) {
    size_t n = s->n - base;
    s->n = base;
    *length = (uint32_t)n;
    *out = NULL;
    if (n == 0) return true;
    void *items = arena_aligned(&ps->doc->arena, n, size, sizeof(void *));
    if (!items) return error_memory(ps->err, "JSON");
    memcpy(items, (char *)s->data + base * size, n * size);
    *out = items;
    return true;
}

/* ---- strings ---- */

static bool more_room(Parser *ps, size_t n) {
    size_t size = ps->texts_size ? ps->texts_size * 2 : TEXTS_FIRST;
    if (size > TEXTS_MOST) size = TEXTS_MOST;
    ps->texts_size = size;
    if (size <= n) size = n + 1;
    TextBlock *block = mem_array(sizeof *block + size, 1);
    if (!block) return error_memory(ps->err, "JSON");
    block->before = ps->doc->texts;
    ps->doc->texts = block;
    ps->room = block->data;
    ps->room_left = size;
    return true;
}

/* A copy with a NUL after it; NULL when out of memory. */
static const char *keep_text(Parser *ps, const char *text, size_t n) {
    if ((!ps->room || n >= ps->room_left) && !more_room(ps, n)) return NULL;
    char *copy = ps->room;
    memcpy(copy, text, n);
    copy[n] = 0;
    ps->room += n + 1;
    ps->room_left -= n + 1;
    return copy;
}

static int hex4(const char *s) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(s[i]);
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

/* In the lowest byte of the word that is a quote, a backslash or a control character bit 7 is set, in the bytes below
 * it not. */
static uint64_t find_stop(uint64_t word) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x80 * ones;
    uint64_t quote = word ^ '"' * ones, backslash = word ^ '\\' * ones;
    return tops & (((word - ' ' * ones) & ~word) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash));
}

/* The first byte of [p, end) that begins no whole valid character; `end` when there is none. */
static char *valid_end(const Parser *ps, char *p, char *end) {
    while (p < end) {
        uint64_t word, high;
        memcpy(&word, p, sizeof word);
        high = word & 0x8080808080808080u;
        if (high == 0) {
            p += sizeof word;
            continue;
        }
        p += __builtin_ctzll(high) / 8;
        uint32_t code;
        int n = p < end ? utf8_decode(p, (size_t)(ps->end - p), &code) : 1;
        if (n == 0) return p;
        p += n;
    }
    return end;
}

/* The end of the characters that stand for themselves: one that does not, one that the window cuts, or a bad byte. By
 * eights, for a loop over bytes would guess its end wrongly once per string. */
static char *plain_end(const Parser *ps) {
    char *p = ps->p;
    uint64_t word, stop, all = 0;
    for (;; p += sizeof word) {
        memcpy(&word, p, sizeof word);
        stop = find_stop(word);
        if (stop) break;
        all |= word;
    }
    all |= word & (stop ^ (stop - 1)); /* the bytes up to the stop */
    p += __builtin_ctzll(stop) / 8;
    return all & 0x8080808080808080u ? valid_end(ps, ps->p, p) : p;
}

/* A string's byte that does not stand for itself, and is neither quote nor backslash, and behind which the text has
 * nothing that would explain it. */
static bool fail_string(Parser *ps) {
    return fail(ps, *ps->p & 0x80 ? "invalid UTF-8" : "control character in a string");
}

/* Within a string, the first n bytes of which lie before ps->p: up to the closing quote. Escapes are resolved in place;
 * what is read of the string then ends `gap` bytes before ps->p. */
static bool finish_string(Parser *ps, size_t n, const char **text, uint32_t *length) {
    size_t gap = 0;
    for (;;) {
        char *run = ps->p;
        ps->p = plain_end(ps);
        size_t plain = (size_t)(ps->p - run);
        if (gap) memmove(run - gap, run, plain);
        n += plain;
        if (*ps->p == '"') break;
        if (ps->end - ps->p < LONGEST_ESCAPE && slide(ps, n + gap)) continue;
        if (*ps->p != '\\') return fail_string(ps);
        char *from = ps->p++;
        int written = unescape(ps, from - gap);
        if (written == 0) return false;
        n += (size_t)written;
        gap += (size_t)(ps->p - from) - (size_t)written;
    }
    *text = keep_text(ps, ps->p - gap - n, n);
    *length = (uint32_t)n;
    ps->p++;
    return *text != NULL;
}

/* At the opening quote. */
static bool parse_string(Parser *ps, const char **text, uint32_t *length) {
    char *start = ++ps->p, *end = plain_end(ps);
    size_t n = (size_t)(end - start);
    ps->p = end;
    if (*end != '"') return finish_string(ps, n, text, length);
    ps->p++;
    *length = (uint32_t)n;
    *text = keep_text(ps, start, n);
    return *text != NULL;
}

/* ---- numbers and words ---- */

static char *skip_digits(char *p) {
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

static bool parse_word(Parser *ps, const char *word, JsonValue value, JsonValue *out) {
    size_t n = strlen(word);
    while (ps->end - ps->p < LONGEST_WORD && slide(ps, 0)) {}
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

/* The end of the number that begins at p, which is at least a digit. */
static char *number_end(char *p, JsonType *type) {
    p += *p == '-';
    *type = JSON_INT;
    p = *p == '0' ? p + 1 : skip_digits(p);
    if (*p == '.' && p[1] >= '0' && p[1] <= '9') {
        *type = JSON_FLOAT;
        p = skip_digits(p + 1);
    }
    if (*p == 'e' || *p == 'E') {
        char *digits = p + 1 + (p[1] == '-' || p[1] == '+');
        if (*digits >= '0' && *digits <= '9') {
            *type = JSON_FLOAT;
            p = skip_digits(digits);
        }
    }
    return p;
}

static bool parse_number(Parser *ps, JsonValue *out) {
    if (*ps->p == '-' && ps->end - ps->p < LONGEST_WORD) slide(ps, 0);
    const char *digit = ps->p + (*ps->p == '-');
    if (*digit == 'I') {
        return parse_word(ps, "-Infinity", (JsonValue){.type = JSON_FLOAT, .number = -INFINITY}, out);
    }
    if (*digit < '0' || *digit > '9') return fail(ps, "a JSON value must stand here");
    JsonType type;
    char *end = number_end(ps->p, &type);
    while (ps->end - end < EXPONENT && !ps->ended) {
        slide(ps, 0);
        end = number_end(ps->p, &type);
    }
    size_t n = (size_t)(end - ps->p);
    const char *text = keep_text(ps, ps->p, n);
    if (!text) return false;
    *out = (JsonValue){.type = type, .length = (uint32_t)n, .text = text};
    out->number = type == JSON_INT && n <= EXACT_DIGITS ? small_integer(text, n) : decimal_parse(text, n);
    ps->p = end;
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
        if (j < n && (ps->options.flags & JSON_UNIQUE_KEYS)) return duplicate_error(ps, &members[i]);
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
            if (ps->options.flags & JSON_UNIQUE_KEYS) ok = duplicate_error(ps, &members[i]);
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
static bool read_member(Parser *ps, JsonMember *m) {
    if (*ps->p != '"') return fail(ps, "an object's key must be a string");
    if (!parse_string(ps, &m->key, &m->key_length)) return false;
    skip_space(ps);
    if (*ps->p != ':') return fail(ps, "':' must follow an object's key");
    ps->p++;
    if (ps->depth <= 2) ps->path[ps->depth - 1] = m;
    return parse_value(ps, &m->value);
}

static bool parse_member(Parser *ps) {
    JsonMember m;
    if (!read_member(ps, &m)) return false;
    return stack_push(&ps->members, &m, sizeof m) || error_memory(ps->err, "JSON");
}

static bool parse_element(Parser *ps) {
    JsonValue v = {.type = JSON_STRING};
    bool ok = *ps->p == '"' ? parse_string(ps, &v.text, &v.length) : parse_value(ps, &v);
    if (!ok) return false;
    return stack_push(&ps->values, &v, sizeof v) || error_memory(ps->err, "JSON");
}

/* From the opening bracket to the closing one; the children are then on their stack. Inlined, so that the calls of
 * `child` are direct. */
static inline __attribute__((always_inline)) bool parse_children(Parser *ps, bool (*child)(Parser *), char close,
                                                                 const char *what) {
    if (++ps->depth > MAX_DEPTH) return fail(ps, "more than 512 levels of nesting");
    if (ps->depth <= 2) ps->path[ps->depth - 1] = NULL;
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
    if (!parse_children(ps, parse_element, ']', AFTER_ELEMENT)) return false;
    JsonValue v = {.type = JSON_ARRAY};
    void *items;
    if (!stack_take(ps, &ps->values, base, sizeof(JsonValue), &items, &v.length)) return false;
    v.items = items;
    *out = v;
    return true;
}

static bool parse_object(Parser *ps, JsonValue *out) {
    size_t base = ps->members.n;
    if (!parse_children(ps, parse_member, '}', AFTER_MEMBER)) return false;
    JsonValue v = {.type = JSON_OBJECT};
    void *members;
    if (!stack_take(ps, &ps->members, base, sizeof(JsonMember), &members, &v.length)) return false;
    v.members = members;
    bool few = v.length <= FEW_KEYS;
    if (!(few ? unique_few : unique_many)(ps, v.members, &v.length)) return false;
    *out = v;
    return true;
}

/* ---- tapped containers ---- */

/* Hands a child over and drops what the arena and the stacks hold of it; its texts stay. */
static bool tap_child(Parser *ps, bool (*read)(Parser *, JsonMember *)) {
    JsonMember m = {0};
    ArenaMark mark = arena_mark(&ps->doc->arena);
    size_t values = ps->values.n;
    bool ok = read(ps, &m) && ps->tap->take(ps->tap->context, &m, ps->err);
    ps->values.n = values;
    arena_rewind(&ps->doc->arena, mark);
    return ok;
}

static bool tap_member(Parser *ps) {
    return tap_child(ps, read_member);
}

/* The items of an array stay on their stack. */
static bool read_element(Parser *ps, JsonMember *m) {
    if (*ps->p != '[') return parse_value(ps, &m->value);
    size_t base = ps->values.n;
    if (!parse_children(ps, parse_element, ']', AFTER_ELEMENT)) return false;
    m->value = (JsonValue){.type = JSON_ARRAY, .length = (uint32_t)(ps->values.n - base)};
    m->value.items = (JsonValue *)ps->values.data + base;
    return true;
}

static bool tap_element(Parser *ps) {
    return tap_child(ps, read_element);
}

static bool is_key(const JsonMember *m, const char *key) {
    return m->key_length == strlen(key) && memcmp(m->key, key, m->key_length) == 0;
}

/* The tap of the container that opens here, or NULL. */
static const JsonTap *find_tap(const Parser *ps) {
    if (ps->depth != 2 || !ps->path[0] || !ps->path[1]) return NULL;
    for (size_t i = 0; i < ps->options.n_taps; i++) {
        const JsonTap *tap = &ps->options.taps[i];
        if (tap->open == *ps->p && is_key(ps->path[0], tap->outer) && is_key(ps->path[1], tap->key)) return tap;
    }
    return NULL;
}

static bool parse_tapped(Parser *ps, const JsonTap *tap, JsonValue *out) {
    uint64_t bit = 1ull << (tap - ps->options.taps);
    if (ps->tapped & bit) return duplicate_error(ps, ps->path[1]);
    ps->tapped |= bit;
    ps->tap = tap;
    bool object = tap->open == '{';
    *out = (JsonValue){.type = object ? JSON_OBJECT : JSON_ARRAY};
    return object ? parse_children(ps, tap_member, '}', AFTER_MEMBER)
                  : parse_children(ps, tap_element, ']', AFTER_ELEMENT);
}

static bool parse_container(Parser *ps, JsonValue *out) {
    const JsonTap *tap = ps->options.n_taps ? find_tap(ps) : NULL;
    if (tap) return parse_tapped(ps, tap, out);
    return (*ps->p == '{' ? parse_object : parse_array)(ps, out);
}

static bool parse_value(Parser *ps, JsonValue *out) {
    skip_space(ps);
    switch (*ps->p) {
    case '"': out->type = JSON_STRING; return parse_string(ps, &out->text, &out->length);
    case '{':
    case '[': return parse_container(ps, out);
    case 'n': return parse_word(ps, "null", (JsonValue){.type = JSON_NULL}, out);
    case 't': return parse_word(ps, "true", (JsonValue){.type = JSON_BOOL, .boolean = true}, out);
    case 'f': return parse_word(ps, "false", (JsonValue){.type = JSON_BOOL}, out);
    case 'N': return parse_word(ps, "NaN", (JsonValue){.type = JSON_FLOAT, .number = NAN}, out);
    case 'I': return parse_word(ps, "Infinity", (JsonValue){.type = JSON_FLOAT, .number = INFINITY}, out);
    default: return parse_number(ps, out);
    }
}

/* ---- documents ---- */

static bool parse_text(Parser *ps) {
    slide(ps, 0);
    if (strncmp(ps->p, "\xEF\xBB\xBF", 3) == 0) return fail(ps, "a byte order mark stands before the JSON text");
    if (!parse_value(ps, &ps->doc->root)) return false;
    skip_space(ps);
    if (ps->broken) return false;
    return ps->p == ps->end || fail(ps, "something follows the JSON value");
}

/* `size` is the text's, or a guess. */
static JsonDoc *parse_source(Source source, size_t size, Options options, Error *err) {
    Parser ps = {.source = source, .options = options, .err = err, .line = 1};
    ps.capacity = (size < WINDOW ? size : WINDOW) + 2 * READ_AHEAD;
    ps.doc = mem_zeroed(1, sizeof *ps.doc);
    ps.window = ps.p = ps.end = mem_array(ps.capacity, 1);
    bool ok = (ps.doc && ps.window) || error_memory(err, "JSON");
    if (ok) arena_init(&ps.doc->arena);
    ok = ok && parse_text(&ps);
    mem_free(ps.values.data);
    mem_free(ps.members.data);
    mem_free(ps.window);
    if (ok) return ps.doc;
    json_free(ps.doc);
    return NULL;
}

static JsonDoc *parse_memory(const char *text, size_t length, Options options, Error *err) {
    return parse_source((Source){.text = text, .left = length}, length, options, err);
}

static JsonDoc *parse_file(const char *path, Options options, Error *err) {
    struct stat st;
    FILE *file = fopen(path, "rb");
    JsonDoc *doc = NULL;
    if (!file || fstat(fileno(file), &st) != 0 || S_ISDIR(st.st_mode)) {
        error_set(err, "%s", strerror(file && S_ISDIR(st.st_mode) ? EISDIR : errno));
    } else {
        doc = parse_source((Source){.file = file}, WINDOW, options, err);
    }
    if (file) fclose(file);
    if (!doc) error_prefix(err, "%s", path);
    return doc;
}

JsonDoc *json_parse(const char *text, size_t length, unsigned flags, Error *err) {
    return parse_memory(text, length, (Options){.flags = flags}, err);
}

JsonDoc *json_parse_tapped(const char *text, size_t length, const JsonTap *taps, size_t n_taps, Error *err) {
    return parse_memory(text, length, (Options){.taps = taps, .n_taps = n_taps}, err);
}

JsonDoc *json_parse_file(const char *path, unsigned flags, Error *err) {
    return parse_file(path, (Options){.flags = flags}, err);
}

JsonDoc *json_parse_file_tapped(const char *path, const JsonTap *taps, size_t n_taps, Error *err) {
    return parse_file(path, (Options){.taps = taps, .n_taps = n_taps}, err);
}

void json_free(JsonDoc *doc) {
    if (!doc) return;
    arena_clear(&doc->arena);
    for (TextBlock *block = doc->texts, *before; block; block = before) {
        before = block->before;
        mem_free(block);
    }
    mem_free(doc);
}

const JsonValue *json_root(const JsonDoc *doc) {
    return &doc->root;
}
