/* Reads Oniguruma's Ruby syntax and writes pcre2 syntax, replacing every character and class by a set of code points.
 * What differs between the two is settled here: ^ and $ are line anchors, (?m) lets the dot match a newline, {n,m}+ is
 * a repeat of a repeat and not possessive, a(?i)b|c is a(?i:b|c), && intersects classes, (?i) folds a class in brackets
 * but not a bare \p{..}. Each of these was checked against the library (a test lists them). */
#include "text/pattern_parse.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

enum { MAX_DEPTH = 100, MAX_LENGTH = 1 << 16, MAX_SETS = 4096, MAX_REPEAT = 65535 };

typedef struct Parser {
    const char *start, *p, *end;
    bool ignore_case, dot_all, extended;
    int depth;
    PatternItems *out;
    Error *err;
} Parser;

static bool parse_alternatives(Parser *ps);
static bool parse_class(Parser *ps, CodeSet *set);

static bool fail(Parser *ps, const char *what) {
    return error_set(ps->err, "%s at byte %zu", what, (size_t)(ps->p - ps->start));
}

static bool out_of_memory(Parser *ps) {
    return error_memory(ps->err, "a pattern");
}

static bool at(const Parser *ps, const char *text) {
    size_t n = strlen(text);
    return (size_t)(ps->end - ps->p) >= n && memcmp(ps->p, text, n) == 0;
}

static bool take(Parser *ps, const char *text) {
    if (!at(ps, text)) return false;
    ps->p += strlen(text);
    return true;
}

/* ---- items ---- */

static bool emit(Parser *ps, PatternItem item) {
    PatternItems *out = ps->out;
    PatternItem *items = mem_room(out->items, out->n, &out->capacity, sizeof *items);
    if (!items) return out_of_memory(ps);
    out->items = items;
    out->items[out->n++] = item;
    return true;
}

static bool emit_syntax(Parser *ps, const char *syntax) {
    return emit(ps, (PatternItem){.set = -1, .syntax = syntax});
}

/* Takes the set over, whatever the outcome. */
static bool emit_set(Parser *ps, CodeSet *set) {
    PatternItems *out = ps->out;
    size_t i = 0;
    while (i < out->n_sets && !codeset_equal(&out->sets[i], set)) i++;
    bool ok = true;
    if (i < out->n_sets) {
        codeset_clear(set);
    } else if (i == MAX_SETS) {
        ok = fail(ps, "too many different characters");
    } else {
        CodeSet *sets = mem_room(out->sets, i, &out->sets_capacity, sizeof *sets);
        if (sets)
            out->sets = sets;
        else
            ok = out_of_memory(ps);
    }
    if (!ok) {
        codeset_clear(set);
        return false;
    }
    if (i == out->n_sets) out->sets[out->n_sets++] = *set;
    *set = (CodeSet){0};
    return emit(ps, (PatternItem){.set = (int)i});
}

static bool emit_characters(Parser *ps, uint32_t first, uint32_t end, bool negate, bool fold) {
    CodeSet set = {0};
    bool ok = codeset_add(&set, first, end) && (!fold || codeset_fold(&set)) && (!negate || codeset_negate(&set));
    if (ok) return emit_set(ps, &set);
    codeset_clear(&set);
    return out_of_memory(ps);
}

/* Puts "(?:" before the items from `first` on and ")" behind them. */
static bool wrap(Parser *ps, size_t first) {
    if (!emit_syntax(ps, "(?:")) return false; /* makes room: moved to its place below */
    if (!emit_syntax(ps, ")")) return false;
    PatternItem *items = ps->out->items;
    memmove(items + first + 1, items + first, (ps->out->n - 2 - first) * sizeof *items);
    items[first] = (PatternItem){.set = -1, .syntax = "(?:"};
    return true;
}

/* ---- escapes ---- */

/* `least` to `most` hexadecimal digits. */
static bool parse_hex(Parser *ps, int least, int most, uint32_t *code) {
    int n = 0;
    *code = 0;
    while (n < most && ps->p < ps->end && hex_digit(*ps->p) >= 0) {
        *code = *code << 4 | (uint32_t)hex_digit(*ps->p++);
        n++;
    }
    if (n < least || *code >= CODE_END) return fail(ps, "bad character code");
    return true;
}

/* The escape after the backslash as one character; the cursor is behind its letter `c`. */
static bool escape_character(Parser *ps, char c, uint32_t *code) {
    static const char letters[] = "tnrfvae", values[] = "\t\n\r\f\v\a\033";
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        *code = (unsigned char)values[known - letters];
        return true;
    }
    if (c == 'u') return parse_hex(ps, 4, 4, code);
    if (c == 'x' && take(ps, "{")) return parse_hex(ps, 1, 8, code) && (take(ps, "}") || fail(ps, "'}' missing"));
    if (c == 'x') return parse_hex(ps, 0, 2, code) && (*code < 0x80 || fail(ps, "\\x reaches to 7F; use \\x{..}"));
    if (c == '0') {
        *code = 0;
        for (int i = 0; i < 2 && ps->p < ps->end && *ps->p >= '0' && *ps->p <= '7'; i++)
            *code = *code * 8 + (uint32_t)(*ps->p++ - '0');
        return true;
    }
    if ((unsigned char)c < 0x80) {
        if (strchr("123456789kgKXyYGRcCM", c) && c) return fail(ps, "escape that is not supported");
        *code = (unsigned char)c;
        return true;
    }
    ps->p--;
    int n = utf8_decode(ps->p, (size_t)(ps->end - ps->p), code);
    ps->p += n;
    return n > 0 || fail(ps, "invalid UTF-8");
}

/* Adds \p{name}. In brackets and outside, Word differs by six characters: Oniguruma asks two tables of its own. */
static bool add_property(Parser *ps, const char *name, size_t n, bool in_brackets, CodeSet *set) {
    bool is_word = n == 4 && (memcmp(name, "word", 4) == 0 || memcmp(name, "Word", 4) == 0);
    if (!is_word || in_brackets) return pattern_property(name, n, set, ps->err);
    return codeset_add_set(set, &unicode_pattern_word) || out_of_memory(ps);
}

/* \p{name}, \p{^name}, \P{name}; the cursor is behind the letter. */
static bool escape_property(Parser *ps, bool negate, bool in_brackets, CodeSet *set) {
    if (!take(ps, "{")) return fail(ps, "'{' must follow \\p");
    if (take(ps, "^")) negate = !negate;
    const char *close = memchr(ps->p, '}', (size_t)(ps->end - ps->p));
    if (!close) return fail(ps, "'}' missing");
    CodeSet property = {0};
    bool ok = add_property(ps, ps->p, (size_t)(close - ps->p), in_brackets, &property);
    ps->p = close + 1;
    if (ok && !((!negate || codeset_negate(&property)) && codeset_unite(set, &property))) ok = out_of_memory(ps);
    codeset_clear(&property);
    return ok;
}

static bool add_shorthand(Parser *ps, const UnicodeSet *members, bool negate, CodeSet *set) {
    CodeSet all = {0};
    bool ok = codeset_add_set(&all, members) && (!negate || codeset_negate(&all)) && codeset_unite(set, &all);
    codeset_clear(&all);
    return ok || out_of_memory(ps);
}

/* Adds \d \s \w \h \p{} and their opposites; *is_class says whether the letter was one. Cursor behind the letter. */
static bool escape_class(Parser *ps, char c, bool in_brackets, CodeSet *set, bool *is_class) {
    static const uint32_t hex_bounds[] = {'0', '9' + 1, 'A', 'F' + 1, 'a', 'f' + 1};
    static const UnicodeSet hex = {hex_bounds, 6};
    const UnicodeSet *word = in_brackets ? &unicode_bracket_word : &unicode_pattern_word;
    *is_class = true;
    switch (c) {
    case 'd': return add_shorthand(ps, &unicode_pattern_digit, false, set);
    case 'D': return add_shorthand(ps, &unicode_pattern_digit, true, set);
    case 's': return add_shorthand(ps, &unicode_pattern_space, false, set);
    case 'S': return add_shorthand(ps, &unicode_pattern_space, true, set);
    case 'w': return add_shorthand(ps, word, false, set);
    case 'W': return add_shorthand(ps, word, true, set);
    case 'h': return add_shorthand(ps, &hex, false, set);
    case 'H': return add_shorthand(ps, &hex, true, set);
    case 'p':
        if (at(ps, "{")) return escape_property(ps, false, in_brackets, set);
        break;
    case 'P':
        if (at(ps, "{")) return escape_property(ps, true, in_brackets, set);
        break;
    default: break;
    }
    *is_class = false;
    return true;
}

/* ---- classes in brackets ---- */

static bool class_bracket(Parser *ps, CodeSet *set) {
    bool negate = take(ps, "^");
    const char *name = ps->p;
    while (ps->p < ps->end && *ps->p != ':') ps->p++;
    size_t n = (size_t)(ps->p - name);
    if (!take(ps, ":]")) return fail(ps, "':]' missing");
    CodeSet members = {0};
    bool ok = pattern_bracket(name, n, &members, ps->err);
    if (ok && !((!negate || codeset_negate(&members)) && codeset_unite(set, &members))) ok = out_of_memory(ps);
    codeset_clear(&members);
    return ok;
}

/* One character of a class, or an escape that stands for several, which is then added at once. */
static bool class_character(Parser *ps, CodeSet *set, uint32_t *code, bool *is_class) {
    *is_class = false;
    if (take(ps, "\\")) {
        if (ps->p == ps->end) return fail(ps, "pattern ends in an escape");
        char c = *ps->p++;
        if (c == 'b') {
            *code = '\b';
            return true;
        }
        if (!escape_class(ps, c, true, set, is_class)) return false;
        return *is_class || escape_character(ps, c, code);
    }
    int n = utf8_decode(ps->p, (size_t)(ps->end - ps->p), code);
    ps->p += n;
    return n > 0 || fail(ps, "']' missing");
}

/* A character, a range, or an escape. */
static bool class_range(Parser *ps, CodeSet *set) {
    uint32_t first, last;
    bool is_class;
    if (!class_character(ps, set, &first, &is_class)) return false;
    bool range = ps->p + 1 < ps->end && ps->p[0] == '-' && ps->p[1] != ']';
    if (is_class) return !range || fail(ps, "a class cannot begin a range");
    if (!range) return codeset_add(set, first, first + 1) || out_of_memory(ps);
    ps->p++;
    if (!class_character(ps, set, &last, &is_class)) return false;
    if (is_class || last < first) return fail(ps, "bad range in a class");
    return codeset_add(set, first, last + 1) || out_of_memory(ps);
}

static bool class_nested(Parser *ps, CodeSet *set) {
    CodeSet inner = {0};
    bool ok = parse_class(ps, &inner) && (codeset_unite(set, &inner) || out_of_memory(ps));
    codeset_clear(&inner);
    return ok;
}

/* The items up to "]" or "&&". */
static bool class_items(Parser *ps, CodeSet *set) {
    bool first = true;
    while (ps->p < ps->end && !(at(ps, "]") && !first) && !at(ps, "&&")) {
        bool ok = take(ps, "[:")  ? class_bracket(ps, set)
                  : take(ps, "[") ? class_nested(ps, set)
                                  : class_range(ps, set);
        if (!ok) return false;
        first = false;
    }
    if (first && !at(ps, "&&")) return fail(ps, "empty class");
    return true;
}

/* Behind the opening bracket. */
static bool parse_class(Parser *ps, CodeSet *set) {
    if (++ps->depth > MAX_DEPTH) return fail(ps, "too deeply nested");
    bool negate = take(ps, "^");
    bool ok = class_items(ps, set);
    while (ok && take(ps, "&&")) {
        CodeSet right = {0};
        ok = at(ps, "]") || class_items(ps, &right);
        if (ok && !codeset_intersect(set, &right)) ok = out_of_memory(ps);
        codeset_clear(&right);
    }
    if (ok && !take(ps, "]")) ok = fail(ps, "']' missing");
    if (ok && ps->ignore_case && !codeset_fold(set)) ok = out_of_memory(ps);
    if (ok && negate && !codeset_negate(set)) ok = out_of_memory(ps);
    ps->depth--;
    return ok;
}

/* ---- groups ---- */

/* Letters of (?imx-imx; the cursor ends at ')' or ':'. */
static bool parse_options(Parser *ps) {
    bool on = true;
    for (; ps->p < ps->end && *ps->p != ')' && *ps->p != ':'; ps->p++) {
        switch (*ps->p) {
        case '-': on = false; break;
        case 'i': ps->ignore_case = on; break;
        case 'm': ps->dot_all = on; break;
        case 'x': ps->extended = on; break;
        default: return fail(ps, "group that is not supported");
        }
    }
    return ps->p < ps->end || fail(ps, "')' missing");
}

/* The inside of a group and its end. Options set inside end with it. */
static bool parse_group_body(Parser *ps, const char *open, bool closes) {
    bool ignore_case = ps->ignore_case, dot_all = ps->dot_all, extended = ps->extended;
    if (++ps->depth > MAX_DEPTH) return fail(ps, "too deeply nested");
    if (!emit_syntax(ps, open) || !parse_alternatives(ps) || !emit_syntax(ps, ")")) return false;
    if (closes && !take(ps, ")")) return fail(ps, "')' missing");
    ps->depth--;
    ps->ignore_case = ignore_case;
    ps->dot_all = dot_all;
    ps->extended = extended;
    return true;
}

/* (?i) alone holds to the end of the group around it, across alternatives; (?i:...) inside its own. */
static bool parse_option_group(Parser *ps) {
    Parser before = *ps;
    if (!parse_options(ps)) return false;
    bool own = *ps->p++ == ':';
    bool ok = parse_group_body(ps, "(?:", own);
    ps->ignore_case = before.ignore_case;
    ps->dot_all = before.dot_all;
    ps->extended = before.extended;
    return ok;
}

static bool parse_named_group(Parser *ps) {
    while (ps->p < ps->end && *ps->p != '>') ps->p++;
    return take(ps, ">") ? parse_group_body(ps, "(?:", true) : fail(ps, "'>' missing");
}

/* Behind the opening parenthesis. Groups capture nothing, since nothing can refer back. *quantifiable: may be repeated.
 */
static bool parse_group(Parser *ps, bool *quantifiable) {
    static const char *const kinds[][2] = {{"?:", "(?:"}, {"?>", "(?>"},   {"?=", "(?="},
                                           {"?!", "(?!"}, {"?<=", "(?<="}, {"?<!", "(?<!"}};
    *quantifiable = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (take(ps, kinds[i][0])) return parse_group_body(ps, kinds[i][1], true);
    }
    if (take(ps, "?#")) {
        *quantifiable = false;
        while (ps->p < ps->end && *ps->p != ')') ps->p++;
        return take(ps, ")") || fail(ps, "')' missing");
    }
    if (take(ps, "?<")) return parse_named_group(ps);
    if (take(ps, "?")) return parse_option_group(ps);
    return parse_group_body(ps, "(?:", true);
}

/* ---- single things and repeats ---- */

static bool emit_line_start(Parser *ps) { /* not after a newline that ends the text */
    return emit_syntax(ps, "(?:\\A|(?<=") && emit_characters(ps, '\n', '\n' + 1, false, false) &&
           emit_syntax(ps, ")(?!\\z))");
}

static bool emit_line_end(Parser *ps) {
    return emit_syntax(ps, "(?=") && emit_characters(ps, '\n', '\n' + 1, false, false) && emit_syntax(ps, "|\\z)");
}

static bool emit_last_line_end(Parser *ps) {
    return emit_syntax(ps, "(?=") && emit_characters(ps, '\n', '\n' + 1, false, false) && emit_syntax(ps, "?\\z)");
}

static bool emit_word(Parser *ps, const char *before, const char *behind) {
    CodeSet word = {0};
    return emit_syntax(ps, before) && add_shorthand(ps, &unicode_pattern_word, false, &word) && emit_set(ps, &word) &&
           emit_syntax(ps, behind);
}

static bool emit_word_boundary(Parser *ps, bool negate) {
    return emit_word(ps, "(?:(?<=", ")") && emit_word(ps, negate ? "(?=" : "(?!", ")|") && emit_word(ps, "(?<!", ")") &&
           emit_word(ps, negate ? "(?!" : "(?=", "))");
}

/* \R as Oniguruma has it: \r\n or one of the line breaks. */
static bool emit_any_newline(Parser *ps) {
    CodeSet breaks = {0};
    bool ok = codeset_add(&breaks, '\n', '\r' + 1) && codeset_add(&breaks, 0x85, 0x86) &&
              codeset_add(&breaks, 0x2028, 0x202A);
    if (!ok) {
        codeset_clear(&breaks);
        return out_of_memory(ps);
    }
    if (!emit_syntax(ps, "(?>") || !emit_characters(ps, '\r', '\r' + 1, false, false) ||
        !emit_characters(ps, '\n', '\n' + 1, false, false) || !emit_syntax(ps, "|")) {
        codeset_clear(&breaks);
        return false;
    }
    return emit_set(ps, &breaks) && emit_syntax(ps, ")");
}

/* Behind the backslash. *quantifiable: an assertion is not. */
static bool parse_escape(Parser *ps, bool *quantifiable) {
    if (ps->p == ps->end) return fail(ps, "pattern ends in an escape");
    char c = *ps->p++;
    *quantifiable = false;
    switch (c) {
    case 'A': return emit_syntax(ps, "\\A");
    case 'z': return emit_syntax(ps, "\\z");
    case 'Z': return emit_last_line_end(ps);
    case 'b': return emit_word_boundary(ps, false);
    case 'B': return emit_word_boundary(ps, true);
    default: *quantifiable = true;
    }
    if (c == 'R') return emit_any_newline(ps);
    if (c == 'N') return emit_characters(ps, '\n', '\n' + 1, true, false);
    if (c == 'O') return emit_characters(ps, 0, CODE_END, false, false);
    CodeSet set = {0};
    bool is_class;
    if (!escape_class(ps, c, false, &set, &is_class)) {
        codeset_clear(&set);
        return false;
    }
    if (is_class) return emit_set(ps, &set);
    uint32_t code;
    return escape_character(ps, c, &code) && emit_characters(ps, code, code + 1, false, ps->ignore_case);
}

/* Anything that a repeat may follow. *quantifiable as above. */
static bool parse_single(Parser *ps, bool *quantifiable) {
    *quantifiable = true;
    if (take(ps, "(")) return parse_group(ps, quantifiable);
    if (take(ps, "\\")) return parse_escape(ps, quantifiable);
    if (take(ps, ".")) {
        return ps->dot_all ? emit_characters(ps, 0, CODE_END, false, false)
                           : emit_characters(ps, '\n', '\n' + 1, true, false);
    }
    if (take(ps, "[")) {
        CodeSet set = {0};
        if (parse_class(ps, &set)) return emit_set(ps, &set);
        codeset_clear(&set);
        return false;
    }
    if (at(ps, "^") || at(ps, "$")) {
        *quantifiable = false;
        return *ps->p++ == '^' ? emit_line_start(ps) : emit_line_end(ps);
    }
    if (at(ps, "*") || at(ps, "+") || at(ps, "?")) return fail(ps, "nothing to repeat");
    uint32_t code;
    int n = utf8_decode(ps->p, (size_t)(ps->end - ps->p), &code);
    if (n == 0) return fail(ps, "invalid UTF-8");
    ps->p += n;
    return emit_characters(ps, code, code + 1, false, ps->ignore_case);
}

static const char *read_number(const char *p, const char *end, uint32_t *value, bool *present) {
    *present = false;
    for (*value = 0; p < end && *p >= '0' && *p <= '9'; p++) {
        *value = *value > MAX_REPEAT ? *value : *value * 10 + (uint32_t)(*p - '0');
        *present = true;
    }
    return p;
}

/* {n}, {n,}, {,m}, {n,m} at the cursor; anything else in braces is text. Moves behind it. */
static bool take_interval(Parser *ps, uint32_t *low, uint32_t *high) {
    if (!at(ps, "{")) return false;
    bool has_low, has_high;
    const char *p = read_number(ps->p + 1, ps->end, low, &has_low);
    *high = *low;
    if (p < ps->end && *p == ',') {
        p = read_number(p + 1, ps->end, high, &has_high);
        if (!has_high) *high = UINT32_MAX;
        if (!has_low && !has_high) return false;
    } else if (!has_low) {
        return false;
    }
    if (p == ps->end || *p != '}') return false;
    ps->p = p + 1;
    return true;
}

/* One repeat of what was just emitted; *found says whether there was one. */
static bool parse_repeat(Parser *ps, bool *found) {
    static const char *const simple[][2] = {{"*+", "*+"}, {"++", "++"}, {"?+", "?+"}, {"*?", "*?"}, {"+?", "+?"},
                                            {"??", "??"}, {"*", "*"},   {"+", "+"},   {"?", "?"}};
    *found = true;
    for (size_t i = 0; i < sizeof simple / sizeof simple[0]; i++) {
        if (take(ps, simple[i][0])) return emit_syntax(ps, simple[i][1]);
    }
    PatternItem item = {.set = -1};
    if (!take_interval(ps, &item.low, &item.high)) {
        *found = false;
        return true;
    }
    if (item.low > MAX_REPEAT || (item.high != UINT32_MAX && item.high > MAX_REPEAT))
        return fail(ps, "repeat count too large");
    if (item.high < item.low) return fail(ps, "repeat counts in the wrong order");
    bool fixed = item.low == item.high;
    if (!emit(ps, item)) return false;
    return fixed || !take(ps, "?") || emit_syntax(ps, "?"); /* {n}? is a repeat of a repeat in Ruby's syntax */
}

static bool parse_piece(Parser *ps) {
    if (ps->extended && (strchr(" \t\n\r\f\v", *ps->p) || *ps->p == '#')) {
        bool comment = *ps->p == '#';
        ps->p++;
        while (comment && ps->p < ps->end && *ps->p != '\n') ps->p++;
        return true;
    }
    size_t first = ps->out->n;
    bool quantifiable, found = true;
    if (!parse_single(ps, &quantifiable)) return false;
    for (int n = 0; found && quantifiable; n++) {
        size_t before = ps->out->n;
        if (n && !wrap(ps, first)) return false; /* undone below when no repeat follows */
        size_t wrapped = ps->out->n;
        if (!parse_repeat(ps, &found)) return false;
        if (!found && wrapped != before) {
            memmove(ps->out->items + first, ps->out->items + first + 1, (before - first) * sizeof ps->out->items[0]);
            ps->out->n = before;
        }
    }
    return true;
}

/* Up to the end or a ')' that is not ours. */
static bool parse_alternatives(Parser *ps) {
    while (ps->p < ps->end && *ps->p != ')') {
        bool ok = take(ps, "|") ? emit_syntax(ps, "|") : parse_piece(ps);
        if (!ok) return false;
    }
    return true;
}

bool pattern_parse(const char *source, size_t n, PatternItems *out, Error *err) {
    *out = (PatternItems){0};
    if (n > MAX_LENGTH) return error_set(err, "the pattern is longer than %d bytes", MAX_LENGTH);
    Parser ps = {.start = source, .p = source, .end = source + n, .out = out, .err = err};
    bool ok = parse_alternatives(&ps);
    if (ok && ps.p != ps.end) ok = fail(&ps, "')' without '('");
    if (!ok) pattern_items_clear(out);
    return ok;
}

void pattern_items_clear(PatternItems *p) {
    for (size_t i = 0; i < p->n_sets; i++) codeset_clear(&p->sets[i]);
    mem_free(p->sets);
    mem_free(p->items);
    *p = (PatternItems){0};
}
