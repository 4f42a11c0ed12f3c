/* A pushdown automaton: one state, and one bit per open container. Every byte moves it once, so that a value of any
 * length costs the same whether it comes whole or byte by byte. */
#include "base/json_scan.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

enum {
    S_VALUE,
    S_FIRST_ITEM, /* a value, or the end of an empty array */
    S_FIRST_KEY,
    S_KEY,
    S_COLON,
    S_AFTER, /* a value inside a container is complete */
    S_STRING,
    S_ESCAPE,
    S_HEX,
    S_WORD,
    S_MINUS,
    S_ZERO,
    S_DIGITS,
    S_POINT,
    S_FRACTION,
    S_EXPONENT,
    S_EXPONENT_SIGN,
    S_EXPONENT_DIGITS,
};

bool json_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

const char *json_skip_space(const char *p, const char *end) {
    while (p < end && json_is_space(*p)) p++;
    return p;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static ScanResult move(JsonScan *s, int state) {
    s->state = (uint8_t)state;
    return SCAN_MORE;
}

static bool in_object(const JsonScan *s) {
    unsigned level = (unsigned)s->depth - 1;
    return s->objects[level / 32] >> level % 32 & 1;
}

static ScanResult value_ends(JsonScan *s) {
    return s->depth == 0 ? SCAN_DONE : move(s, S_AFTER);
}

static ScanResult open_container(JsonScan *s, bool object) {
    if (s->depth == JSON_SCAN_DEPTH) return SCAN_BAD;
    unsigned level = (unsigned)s->depth++;
    uint32_t bit = (uint32_t)1 << level % 32;
    if (object)
        s->objects[level / 32] |= bit;
    else
        s->objects[level / 32] &= ~bit;
    return move(s, object ? S_FIRST_KEY : S_FIRST_ITEM);
}

static ScanResult close_container(JsonScan *s, char c) {
    if (c != (in_object(s) ? '}' : ']')) return SCAN_BAD;
    s->depth--;
    return value_ends(s);
}

static ScanResult begin_string(JsonScan *s, bool key) {
    s->key = key;
    return move(s, S_STRING);
}

static ScanResult begin_value(JsonScan *s, char c) {
    static const char *const words[] = {"true", "false", "null"};
    switch (c) {
    case '{': return open_container(s, true);
    case '[': return open_container(s, false);
    case '"': return begin_string(s, false);
    case '-': return move(s, S_MINUS);
    case '0': return move(s, S_ZERO);
    default: break;
    }
    if (is_digit(c)) return move(s, S_DIGITS);
    for (int i = 0; i < 3; i++) {
        if (c != words[i][0]) continue;
        s->word = words[i] + 1;
        return move(s, S_WORD);
    }
    return SCAN_BAD;
}

/* Where space may stand. */
static ScanResult feed_structure(JsonScan *s, char c) {
    if (json_is_space(c)) return SCAN_MORE;
    switch (s->state) {
    case S_FIRST_ITEM: return c == ']' ? close_container(s, c) : begin_value(s, c);
    case S_FIRST_KEY:
        if (c == '}') return close_container(s, c);
        return c == '"' ? begin_string(s, true) : SCAN_BAD;
    case S_KEY: return c == '"' ? begin_string(s, true) : SCAN_BAD;
    case S_COLON: return c == ':' ? move(s, S_VALUE) : SCAN_BAD;
    case S_AFTER:
        if (c == ',') return move(s, in_object(s) ? S_KEY : S_VALUE);
        return close_container(s, c);
    default: return begin_value(s, c);
    }
}

static ScanResult feed_string(JsonScan *s, char c) {
    if (s->state == S_HEX) {
        if (hex_digit(c) < 0) return SCAN_BAD;
        return --s->left == 0 ? move(s, S_STRING) : SCAN_MORE;
    }
    if (s->state == S_ESCAPE) {
        if (c == 'u') {
            s->left = 4;
            return move(s, S_HEX);
        }
        return c && strchr("\"\\/bfnrt", c) ? move(s, S_STRING) : SCAN_BAD;
    }
    if (c == '\\') return move(s, S_ESCAPE);
    if (c == '"') return s->key ? move(s, S_COLON) : value_ends(s);
    return (unsigned char)c < 0x20 ? SCAN_BAD : SCAN_MORE;
}

static ScanResult feed_word(JsonScan *s, char c) {
    if (c != *s->word) return SCAN_BAD;
    return *++s->word ? SCAN_MORE : value_ends(s);
}

/* SCAN_DONE: c is not part of the number, and the number was whole. */
static ScanResult feed_number(JsonScan *s, char c) {
    bool digit = is_digit(c), exponent = c == 'e' || c == 'E';
    switch (s->state) {
    case S_MINUS: return digit ? move(s, c == '0' ? S_ZERO : S_DIGITS) : SCAN_BAD;
    case S_ZERO:
    case S_DIGITS:
        if (digit) return s->state == S_DIGITS ? SCAN_MORE : SCAN_BAD;
        if (c == '.') return move(s, S_POINT);
        return exponent ? move(s, S_EXPONENT) : SCAN_DONE;
    case S_POINT: return digit ? move(s, S_FRACTION) : SCAN_BAD;
    case S_FRACTION:
        if (digit) return SCAN_MORE;
        return exponent ? move(s, S_EXPONENT) : SCAN_DONE;
    case S_EXPONENT:
        if (c == '+' || c == '-') return move(s, S_EXPONENT_SIGN);
        return digit ? move(s, S_EXPONENT_DIGITS) : SCAN_BAD;
    case S_EXPONENT_SIGN: return digit ? move(s, S_EXPONENT_DIGITS) : SCAN_BAD;
    default: return digit ? SCAN_MORE : SCAN_DONE;
    }
}

ScanResult json_scan(JsonScan *s, const char *text, size_t n, size_t *at) {
    for (; *at < n; ++*at) {
        char c = text[*at];
        ScanResult r;
        if (s->state >= S_MINUS) {
            r = feed_number(s, c);
            if (r == SCAN_DONE && s->depth == 0) return SCAN_DONE;
            if (r == SCAN_DONE) {
                s->state = S_AFTER;
                r = feed_structure(s, c);
            }
        } else if (s->state == S_WORD) {
            r = feed_word(s, c);
        } else {
            r = s->state >= S_STRING ? feed_string(s, c) : feed_structure(s, c);
        }
        if (r == SCAN_BAD) return r;
        if (r == SCAN_DONE) {
            ++*at;
            return r;
        }
    }
    return SCAN_MORE;
}

bool json_scan_number(const JsonScan *s) {
    return s->depth == 0 &&
           (s->state == S_ZERO || s->state == S_DIGITS || s->state == S_FRACTION || s->state == S_EXPONENT_DIGITS);
}

bool json_is_value(const char *text, size_t n) {
    JsonScan s = {0};
    size_t at = 0;
    if (n == 0 || json_is_space(text[0])) return false;
    ScanResult r = json_scan(&s, text, n, &at);
    return at == n && (r == SCAN_DONE || (r == SCAN_MORE && json_scan_number(&s))) && utf8_valid(text, n) == n;
}

static const char *skip_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\') p++;
    return p < end ? p + 1 : end;
}

/* Past one value: what is inside it has been checked. */
static const char *skip_value(const char *p, const char *end) {
    int depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
            if (depth == 0) return p;
            continue;
        }
        if (depth == 0 && (*p == ',' || *p == '}' || *p == ']' || json_is_space(*p))) return p;
        if (*p == '{' || *p == '[') depth++;
        if ((*p == '}' || *p == ']') && --depth == 0) return p + 1;
        p++;
    }
    return end;
}

JsonWalk json_walk(const char *text, size_t n) {
    const char *end = text + n, *p = json_skip_space(text, end);
    bool object = p < end && *p == '{';
    return (JsonWalk){p < end ? p + 1 : end, end, object};
}

bool json_walk_next(JsonWalk *w, JsonSpan *key, JsonSpan *value) {
    const char *p = json_skip_space(w->at, w->end);
    *key = (JsonSpan){p, 0};
    if (p < w->end && *p == ',') p = json_skip_space(p + 1, w->end);
    if (p >= w->end || *p == '}' || *p == ']') return false;
    if (w->object) {
        const char *after = skip_string(p, w->end);
        *key = (JsonSpan){p, (size_t)(after - p)};
        p = json_skip_space(after, w->end);
        p = json_skip_space(p < w->end ? p + 1 : p, w->end);
    }
    w->at = skip_value(p, w->end);
    *value = (JsonSpan){p, (size_t)(w->at - p)};
    return true;
}

bool json_span_is(JsonSpan string, const char *text) {
    size_t n = strlen(text);
    return string.length == n + 2 && memcmp(string.text + 1, text, n) == 0;
}

bool json_span_string(JsonSpan v, Buffer *out) {
    if (v.length == 0 || v.text[0] != '"') return false;
    JsonDoc *doc = json_parse(v.text, v.length, 0, NULL);
    if (doc)
        buffer_append(out, json_root(doc)->text, json_root(doc)->length);
    else
        out->failed = true; /* the scan has passed it, so only memory can be wanting */
    json_free(doc);
    return doc != NULL;
}
