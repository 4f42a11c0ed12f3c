/* Filters about HTML: escaping, and what builds or takes apart markup. Chat templates use `safe` out of habit. */
#define _GNU_SOURCE
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool filter_escape(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return value_escape(run, v, out);
}

/* Escapes also what is safe already. */
static bool filter_forceescape(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return value_str(run, v, &v) && value_escape(run, v, out);
}

static bool filter_safe(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    if (!value_str(run, v, &v)) return false;
    return value_text_safe(run, v.string->data, v.string->length, true, out);
}

static bool xml_key(Run *run, Value key) {
    if (key.type != V_STRING) return run_fail(run, "xmlattr: keys must be strings, not %s", value_type_name(key));
    for (size_t i = 0; i < key.string->length; i++)
        if (strchr(" \t\n\r\f\v/>=", key.string->data[i]))
            return run_fail(run, "Invalid character in attribute name: '%.*s'",
                            (int)(key.string->length < 60 ? key.string->length : 60), key.string->data);
    return true;
}

static bool filter_xmlattr(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    bool space = argv[0].type == V_MISSING || value_truth(argv[0]), ok = true;
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type != V_DICT) return run_fail(run, "'%s' object has no attribute 'items'", value_type_name(v));
    Buffer b = {0};
    size_t n = 0;
    for (uint32_t i = 0; ok && i < v.dict->n; i++) {
        Value key = v.dict->keys[i], value = v.dict->values[i];
        if (value.type == V_NONE || value.type == V_UNDEFINED) continue;
        ok = xml_key(run, key) && value_escape(run, key, &key) && value_escape(run, value, &value);
        if (!ok) break;
        if (n++ || space) buffer_byte(&b, ' ');
        buffer_append(&b, key.string->data, key.string->length);
        buffer_text(&b, "=\"");
        buffer_append(&b, value.string->data, value.string->length);
        buffer_byte(&b, '"');
    }
    if (ok) return value_from_buffer(run, &b, run->autoescape, out);
    buffer_clear(&b);
    return false;
}

/* ---- striptags ---- */

/* What Markup.striptags removes: comments and tags, as long as they end. */
static void remove_tags(Buffer *b, const String *s) {
    const char *p = s->data, *end = s->data + s->length, *open;
    while ((open = memchr(p, '<', (size_t)(end - p)))) {
        bool comment = end - open >= 4 && memcmp(open, "<!--", 4) == 0;
        const char *close =
            comment ? memmem(open + 4, (size_t)(end - open - 4), "-->", 3) : memchr(open, '>', (size_t)(end - open));
        if (!close) break;
        buffer_append(b, p, (size_t)(open - p));
        p = close + (comment ? 3 : 1);
    }
    buffer_append(b, p, (size_t)(end - p));
}

typedef struct Entity {
    const char *name;
    uint32_t code;
} Entity;

static const Entity ENTITIES[] = {
    {"amp;", '&'},       {"lt;", '<'},       {"gt;", '>'},       {"quot;", '"'},     {"apos;", '\''},
    {"nbsp;", 0xA0},     {"copy;", 0xA9},    {"reg;", 0xAE},     {"laquo;", 0xAB},   {"raquo;", 0xBB},
    {"hellip;", 0x2026}, {"mdash;", 0x2014}, {"ndash;", 0x2013}, {"lsquo;", 0x2018}, {"rsquo;", 0x2019},
    {"ldquo;", 0x201C},  {"rdquo;", 0x201D}, {"bull;", 0x2022},  {"middot;", 0xB7},  {"euro;", 0x20AC},
    {"trade;", 0x2122},  {"times;", 0xD7},   {"deg;", 0xB0},     {"larr;", 0x2190},  {"rarr;", 0x2192},
};

/* The character reference at s ("&" first): how much of s it takes and its code; 0 when it is plain text. */
static size_t reference(Run *run, const char *s, size_t n, uint32_t *code) {
    if (n > 2 && s[1] == '#') {
        bool hex = (s[2] | 32) == 'x';
        size_t at = hex ? 3 : 2, from = at;
        *code = 0;
        for (; at < n && at < from + 8; at++) {
            char c = s[at] | 32;
            int d = s[at] >= '0' && s[at] <= '9' ? s[at] - '0' : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (d < 0) break;
            *code = *code * (hex ? 16 : 10) + (uint32_t)d;
        }
        if (at == from) return 0;
        if (*code == 0 || (*code >= 0x80 && *code < 0xA0) || *code > 0x10FFFF) *code = 0xFFFD;
        return at + (at < n && s[at] == ';');
    }
    for (size_t i = 0; i < COUNT(ENTITIES); i++) {
        size_t length = strlen(ENTITIES[i].name);
        if (n <= length || memcmp(s + 1, ENTITIES[i].name, length) != 0) continue;
        *code = ENTITIES[i].code;
        return length + 1;
    }
    if (n > 1 && ((s[1] | 32) >= 'a' && (s[1] | 32) <= 'z'))
        run_error(run, "striptags: this character reference is not supported: %.*s", (int)(n < 20 ? n : 20), s);
    return 0;
}

static bool filter_striptags(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer bare = {0}, text = {0};
    if (!value_str(run, v, &v)) return false;
    remove_tags(&bare, v.string);
    const char *s = buffer_string(&bare);
    bool pending = false;
    for (size_t i = 0; i < bare.length && !run->failed;) {
        uint32_t code = 0;
        char bytes[4];
        int n = utf8_decode(s + i, bare.length - i, &code);
        if (jinja_char_class(code) & CHAR_SPACE) {
            pending = text.length > 0;
            i += n > 0 ? (size_t)n : 1;
            continue;
        }
        if (pending) buffer_byte(&text, ' ');
        pending = false;
        size_t taken = code == '&' ? reference(run, s + i, bare.length - i, &code) : 0;
        if (taken)
            buffer_append(&text, bytes, (size_t)utf8_encode(code, bytes));
        else
            buffer_append(&text, s + i, n > 0 ? (size_t)n : 1);
        i += taken ? taken : n > 0 ? (size_t)n : 1;
    }
    buffer_clear(&bare);
    if (!run->failed) return value_from_buffer(run, &text, false, out);
    buffer_clear(&text);
    return false;
}

static bool filter_urlize(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)v, (void)argv, (void)args, (void)out;
    return run_fail(run, "the filter 'urlize' makes HTML links and is not supported in chat templates");
}

static const FilterDef FILTERS[] = {
    {{"e", "", 0}, filter_escape},
    {{"escape", "", 0}, filter_escape},
    {{"forceescape", "", 0}, filter_forceescape},
    {{"safe", "", 0}, filter_safe},
    {{"striptags", "", 0}, filter_striptags},
    {{"urlize", "trim_url_limit,nofollow,target,rel,extra_schemes", 0}, filter_urlize},
    {{"xmlattr", "autospace", 0}, filter_xmlattr},
};

FilterTable jinja_html_filters(void) {
    return (FilterTable){FILTERS, COUNT(FILTERS)};
}
