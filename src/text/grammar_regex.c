/* Regular expressions as rules: what ECMAScript and PCRE have in common and a grammar can hold. What looks around, back
 * or at words' edges is refused by name, for leaving it out would let wrong answers through.
 *
 * Inside of a JSON string the same pattern is written with escapes: a quote is \", a newline is \n. */
#include "text/grammar_build.h"
#include "base/utf8.h"
#include "text/grammar_scan.h"

#include <string.h>

enum { MOST_NESTING = 200 };

typedef struct Regex {
    Grammar *grammar;
    const char *text, *at, *end;
    bool json;                 /* characters as they stand in a JSON string */
    bool open_start, open_end; /* no anchor there */
    uint32_t ascii[128];       /* the rule of a character by itself, 0: not made */
    int depth;
    Error *err;
} Regex;

static bool fail(Regex *r, const char *why) {
    return error_set(r->err, "the pattern, at character %d: %s", (int)(r->at - r->text) + 1, why);
}

static bool is_at(const Regex *r, char c) {
    return r->at < r->end && *r->at == c;
}

/* ---- characters ---- */

static void put_escape(Grammar *g, uint32_t rule, const char *text) {
    grammar_alternative(g, rule);
    grammar_put_text(g, text, strlen(text));
    grammar_end(g);
}

/* One character of the ranges, as JSON writes it. */
static uint32_t json_codes(Grammar *g, const CodeRanges *ranges) {
    static const struct {
        uint32_t code;
        const char *text;
    } escapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"},
                   {'\t', "\\t"}, {'\b', "\\b"},  {'\f', "\\f"}};
    CodeRanges plain = {0};
    uint32_t escaped = grammar_rule(g);
    for (size_t i = 0; i < ranges->n; i++) {
        uint32_t low = ranges->items[i][0], high = ranges->items[i][1];
        for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++)
            if (escapes[k].code >= low && escapes[k].code <= high) put_escape(g, escaped, escapes[k].text);
        static const uint32_t parts[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
        for (size_t k = 0; k < 3; k++) {
            uint32_t a = low > parts[k][0] ? low : parts[k][0], b = high < parts[k][1] ? high : parts[k][1];
            if (a <= b) ranges_add(&plain, a, b);
        }
    }
    uint32_t both[2] = {grammar_codes(g, (const uint32_t(*)[2])plain.items, plain.n), escaped};
    if (plain.failed) g->failed = true;
    ranges_clear(&plain);
    return grammar_choice(g, both, 2);
}

/* Takes the ranges over. */
static uint32_t put_codes(Regex *r, CodeRanges *ranges) {
    ranges_sort(ranges);
    if (ranges->failed) r->grammar->failed = true;
    uint32_t rule = r->json ? json_codes(r->grammar, ranges)
                            : grammar_codes(r->grammar, (const uint32_t(*)[2])ranges->items, ranges->n);
    ranges_clear(ranges);
    return rule;
}

/* Most patterns are mostly letters: a character has one rule, wherever it stands. */
static uint32_t put_code(Regex *r, uint32_t code) {
    CodeRanges one = {0};
    if (code < 128 && r->ascii[code]) return r->ascii[code] - 1;
    ranges_add(&one, code, code);
    uint32_t rule = put_codes(r, &one);
    if (code < 128) r->ascii[code] = rule + 1;
    return rule;
}

/* \d, \w, \s and what they leave: true when c names such a class. */
static bool add_class(CodeRanges *out, char c) {
    CodeRanges set = {0};
    switch (c | 0x20) {
    case 'd': ranges_add(&set, '0', '9'); break;
    case 'w':
        ranges_add(&set, '0', '9');
        ranges_add(&set, 'A', 'Z');
        ranges_add(&set, '_', '_');
        ranges_add(&set, 'a', 'z');
        break;
    case 's':
        ranges_add(&set, '\t', '\r');
        ranges_add(&set, ' ', ' ');
        ranges_add(&set, 0xA0, 0xA0);
        break;
    default: return false;
    }
    if (!(c & 0x20)) ranges_invert(&set);
    for (size_t i = 0; i < set.n; i++) ranges_add(out, set.items[i][0], set.items[i][1]);
    ranges_clear(&set);
    return true;
}

static bool read_hex(Regex *r, int n, uint32_t *code) {
    const char *wrong = scan_hex(&r->at, r->end, n, code);
    return !wrong || fail(r, wrong);
}

static bool read_unicode(Regex *r, uint32_t *code) {
    if (!is_at(r, '{')) return read_hex(r, 4, code);
    int n = 0;
    for (r->at++; r->at + n < r->end && r->at[n] != '}';) n++;
    if (n < 1 || n > 6 || r->at + n == r->end) return fail(r, "a code point in braces is not complete");
    if (!read_hex(r, n, code)) return false;
    r->at++;
    return true;
}

/* After the backslash: one character. */
static bool read_escape(Regex *r, uint32_t *code) {
    if (r->at == r->end) return fail(r, "it ends with a backslash");
    char c = *r->at++;
    switch (c) {
    case 'n': *code = '\n'; return true;
    case 'r': *code = '\r'; return true;
    case 't': *code = '\t'; return true;
    case 'f': *code = '\f'; return true;
    case 'v': *code = '\v'; return true;
    case '0': *code = 0; return true;
    case 'x': return read_hex(r, 2, code);
    case 'u': return read_unicode(r, code);
    default: break;
    }
    if (c == 'b' || c == 'B') return fail(r, "edges of words (\\b) are not supported");
    if (c >= '1' && c <= '9') return fail(r, "references back (\\1) are not supported");
    if (c == 'p' || c == 'P') return fail(r, "Unicode properties (\\p) are not supported");
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return fail(r, "this escape is not known");
    r->at--;
    int n = utf8_decode(r->at, (size_t)(r->end - r->at), code);
    r->at += n;
    return n > 0 || fail(r, "it is not valid UTF-8");
}

static bool read_code(Regex *r, uint32_t *code) {
    if (is_at(r, '\\')) {
        r->at++;
        return read_escape(r, code);
    }
    int n = utf8_decode(r->at, (size_t)(r->end - r->at), code);
    r->at += n;
    return n > 0 || fail(r, "it is not valid UTF-8");
}

/* After the opening bracket. */
static bool read_set(Regex *r, CodeRanges *out) {
    bool inverted = is_at(r, '^');
    r->at += inverted;
    for (bool first = true; first || !is_at(r, ']'); first = false) {
        uint32_t low, high;
        if (r->at == r->end) return fail(r, "a set is not closed by ]");
        if (is_at(r, ']')) break; /* [] and [^] */
        if (is_at(r, '\\') && r->at + 1 < r->end && add_class(out, r->at[1])) {
            r->at += 2;
            continue;
        }
        if (is_at(r, '\\') && r->at + 1 < r->end && r->at[1] == 'b') {
            r->at += 2;
            ranges_add(out, '\b', '\b');
            continue;
        }
        if (!read_code(r, &low)) return false;
        high = low;
        if (is_at(r, '-') && r->at + 1 < r->end && r->at[1] != ']') {
            r->at++;
            if (!read_code(r, &high)) return false;
            if (high < low) return fail(r, "a range ends before it begins");
        }
        ranges_add(out, low, high);
    }
    r->at++;
    if (inverted) ranges_invert(out);
    return true;
}

/* ---- structure ---- */

static bool read_choice(Regex *r, uint32_t *rule);

static bool read_group(Regex *r, uint32_t *rule) {
    if (is_at(r, '?')) {
        if (r->at + 1 < r->end && r->at[1] == ':') {
            r->at += 2;
        } else if (r->at + 2 < r->end && (r->at[1] == '<' || r->at[1] == 'P') && !scan_is_one("=!", r->at[2])) {
            const char *close = memchr(r->at, '>', (size_t)(r->end - r->at));
            if (!close) return fail(r, "a group's name is not closed");
            r->at = close + 1;
        } else {
            return fail(r, "looking ahead or behind, and flags, are not supported");
        }
    }
    if (++r->depth > MOST_NESTING) return fail(r, "groups are nested too deeply");
    if (!read_choice(r, rule)) return false;
    r->depth--;
    if (!is_at(r, ')')) return fail(r, "a group is not closed by )");
    r->at++;
    return true;
}

static bool read_atom(Regex *r, uint32_t *rule) {
    CodeRanges ranges = {0};
    char c = *r->at;
    uint32_t code;
    bool ok = true;
    if (c == '(') {
        r->at++;
        return read_group(r, rule);
    }
    if (scan_is_one("*+?{", c)) return fail(r, "there is nothing to repeat");
    if (c == '^' || c == '$') return fail(r, "anchors are supported at the two ends only");
    if (c == '[') {
        r->at++;
        ok = read_set(r, &ranges);
    } else if (c == '.') {
        r->at++;
        ranges_add(&ranges, '\n', '\n');
        ranges_add(&ranges, '\r', '\r');
        ranges_sort(&ranges);
        ranges_invert(&ranges);
    } else if (c == '\\' && r->at + 1 < r->end && add_class(&ranges, r->at[1])) {
        r->at += 2;
    } else {
        if (!read_code(r, &code)) return false;
        *rule = put_code(r, code);
        return true;
    }
    if (!ok) {
        ranges_clear(&ranges);
        return false;
    }
    *rule = put_codes(r, &ranges);
    return true;
}

static bool read_repeated(Regex *r, uint32_t *rule) {
    if (!read_atom(r, rule)) return false;
    while (r->at < r->end && scan_is_one("*+?{", *r->at)) {
        int least, most;
        const char *wrong = scan_repeats(&r->at, r->end, &least, &most);
        if (wrong) return fail(r, wrong);
        if (is_at(r, '?') || is_at(r, '+')) r->at++; /* lazy or possessive: the same texts */
        *rule = grammar_repeat(r->grammar, *rule, least, most);
    }
    return true;
}

static bool read_sequence(Regex *r, uint32_t *rule) {
    RuleList list = {0};
    bool ok = true;
    while (ok && r->at < r->end && *r->at != '|' && *r->at != ')') {
        if (*r->at == '$' && r->depth == 0 && r->at + 1 == r->end) {
            r->open_end = false;
            r->at++;
            break;
        }
        uint32_t next;
        if ((ok = read_repeated(r, &next))) rule_list_push(r->grammar, &list, next);
    }
    *rule = rule_list_sequence(r->grammar, &list);
    return ok;
}

static bool read_choice(Regex *r, uint32_t *rule) {
    RuleList list = {0};
    uint32_t way;
    bool ok = read_sequence(r, &way);
    if (ok) rule_list_push(r->grammar, &list, way);
    while (ok && is_at(r, '|')) {
        r->at++;
        if ((ok = read_sequence(r, &way))) rule_list_push(r->grammar, &list, way);
    }
    *rule = rule_list_choice(r->grammar, &list);
    return ok;
}

/* Whether | stands outside of all groups: then an anchor would belong to one branch only. */
static bool has_branches(const char *p, const char *end) {
    int depth = 0;
    bool set = false;
    for (; p < end; p++) {
        if (*p == '\\')
            p++;
        else if (set)
            set = *p != ']';
        else if (*p == '[')
            set = true;
        else if (*p == '(' || *p == ')')
            depth += *p == '(' ? 1 : -1;
        else if (*p == '|' && depth == 0)
            return true;
    }
    return false;
}

static bool read_pattern(Regex *r, uint32_t *rule) {
    r->open_start = r->open_end = true;
    if (is_at(r, '^')) {
        if (has_branches(r->text, r->end)) return fail(r, "put the branches of | into a group: ^(?:a|b)$");
        r->open_start = false;
        r->at++;
    }
    if (!read_choice(r, rule)) return false;
    return r->at == r->end || fail(r, "a ) has no (");
}

bool grammar_put_regex(Grammar *g, const char *pattern, size_t n, uint32_t *rule, Error *err) {
    Regex r = {.grammar = g, .text = pattern, .at = pattern, .end = pattern + n, .err = err};
    return read_pattern(&r, rule);
}

bool grammar_put_json_regex(Grammar *g, const char *pattern, size_t n, uint32_t *rule, Error *err) {
    Regex r = {.grammar = g, .text = pattern, .at = pattern, .end = pattern + n, .json = true, .err = err};
    CodeRanges all = {0};
    uint32_t parts[3];
    if (!read_pattern(&r, &parts[1])) return false;
    ranges_add(&all, 0, 0x10FFFF);
    uint32_t any = grammar_repeat(g, put_codes(&r, &all), 0, -1);
    parts[0] = r.open_start ? any : grammar_empty(g);
    parts[2] = r.open_end ? any : grammar_empty(g);
    *rule = grammar_sequence(g, parts, 3);
    return true;
}

Grammar *grammar_from_regex(const char *pattern, size_t n, Error *err) {
    uint32_t root;
    Grammar *g = grammar_new();
    if (!g) {
        error_memory(err, "a grammar");
        return NULL;
    }
    if (grammar_put_regex(g, pattern, n, &root, err)) return grammar_finish(g, root, err);
    grammar_free(g);
    return NULL;
}
