/* GBNF: rules `name ::= alternatives`, with "texts", [sets], groups, * + ? {m,n}, . for any character, and comments
 * after #. */
#include "text/grammar_build.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/grammar_scan.h"

#include <string.h>

enum { MOST_NESTING = 200, HEADS = 4096 };

typedef struct Named {
    const char *name;
    size_t n;
    uint32_t rule;
    bool defined;
    uint32_t next; /* in its chain of the hash table: a number of `names` and 1, 0: none */
} Named;

typedef struct Gbnf {
    Grammar *grammar;
    const char *text, *at, *end;
    Named *names;
    size_t n_names, capacity;
    uint32_t heads[HEADS];
    int depth;
    Error *err;
} Gbnf;

static bool fail(const Gbnf *p, const char *why) {
    int line = 1;
    for (const char *c = p->text; c < p->at; c++) line += *c == '\n';
    return error_set(p->err, "the grammar, line %d: %s", line, why);
}

static bool is_at(const Gbnf *p, char c) {
    return p->at < p->end && *p->at == c;
}

/* Past blanks and comments; past line ends only where a rule goes on, in groups and after | and ::=. */
static void skip_blank(Gbnf *p, bool lines) {
    for (; p->at < p->end; p->at++) {
        if (*p->at == '#')
            while (p->at + 1 < p->end && p->at[1] != '\n') p->at++;
        else if (*p->at != ' ' && *p->at != '\t' && !(lines && (*p->at == '\n' || *p->at == '\r')))
            return;
    }
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static Named *find_name(Gbnf *p) {
    const char *start = p->at;
    while (p->at < p->end && is_name(*p->at)) p->at++;
    size_t n = (size_t)(p->at - start);
    uint32_t *head = &p->heads[hash_bytes(HASH_START, start, n) % HEADS];
    for (uint32_t i = *head; i; i = p->names[i - 1].next)
        if (p->names[i - 1].n == n && memcmp(p->names[i - 1].name, start, n) == 0) return &p->names[i - 1];
    Named *names = mem_room(p->names, p->n_names, &p->capacity, sizeof *names);
    if (!names) {
        error_memory(p->err, "a grammar");
        return NULL;
    }
    p->names = names;
    names[p->n_names++] = (Named){start, n, grammar_rule(p->grammar), false, *head};
    *head = (uint32_t)p->n_names;
    return &names[p->n_names - 1];
}

/* ---- characters ---- */

static bool read_hex(Gbnf *p, int n, uint32_t *code) {
    const char *wrong = scan_hex(&p->at, p->end, n, code);
    return !wrong || fail(p, wrong);
}

static bool read_code(Gbnf *p, uint32_t *code) {
    if (!is_at(p, '\\')) {
        int n = utf8_decode(p->at, (size_t)(p->end - p->at), code);
        p->at += n;
        return n > 0 || fail(p, "it is not valid UTF-8, or ends in a text");
    }
    if (++p->at == p->end) return fail(p, "it ends with a backslash");
    switch (*p->at++) {
    case 'n': *code = '\n'; return true;
    case 'r': *code = '\r'; return true;
    case 't': *code = '\t'; return true;
    case 'x': return read_hex(p, 2, code);
    case 'u': return read_hex(p, 4, code);
    case 'U': return read_hex(p, 8, code);
    default: break;
    }
    *code = (unsigned char)p->at[-1];
    return (*code < 0x80 && scan_is_one("\"\\[]-^", (char)*code)) || fail(p, "this escape is not known");
}

static uint32_t codes_rule(Gbnf *p, CodeRanges *ranges) {
    ranges_sort(ranges);
    if (ranges->failed) p->grammar->failed = true;
    uint32_t rule = grammar_codes(p->grammar, (const uint32_t(*)[2])ranges->items, ranges->n);
    ranges_clear(ranges);
    return rule;
}

static bool read_text(Gbnf *p, uint32_t *rule) {
    Buffer text = {0};
    bool ok = true;
    for (p->at++; ok && !is_at(p, '"');) {
        uint32_t code = 0;
        char bytes[4];
        ok = p->at < p->end ? read_code(p, &code) : fail(p, "a text is not closed by \"");
        if (ok) buffer_append(&text, bytes, (size_t)utf8_encode(code, bytes));
    }
    p->at += ok;
    if (ok) *rule = grammar_text(p->grammar, buffer_string(&text), text.length);
    if (text.failed) p->grammar->failed = true;
    buffer_clear(&text);
    return ok;
}

static bool read_set(Gbnf *p, uint32_t *rule) {
    CodeRanges ranges = {0};
    bool ok = true, inverted;
    p->at++;
    inverted = is_at(p, '^');
    for (p->at += inverted; ok && !is_at(p, ']');) {
        uint32_t low = 0, high;
        ok = p->at < p->end ? read_code(p, &low) : fail(p, "a set is not closed by ]");
        high = low;
        if (ok && is_at(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            ok = read_code(p, &high) && (high >= low || fail(p, "a range ends before it begins"));
        }
        if (ok) ranges_add(&ranges, low, high);
    }
    if (!ok) {
        ranges_clear(&ranges);
        return false;
    }
    p->at++;
    if (inverted) ranges_invert(&ranges);
    *rule = codes_rule(p, &ranges);
    return true;
}

/* ---- structure ---- */

static bool read_choice(Gbnf *p, bool lines, uint32_t *rule);

static bool read_group(Gbnf *p, uint32_t *rule) {
    p->at++;
    if (++p->depth > MOST_NESTING) return fail(p, "groups are nested too deeply");
    skip_blank(p, true);
    if (!read_choice(p, true, rule)) return false;
    p->depth--;
    if (!is_at(p, ')')) return fail(p, "a group is not closed by )");
    p->at++;
    return true;
}

static bool read_item(Gbnf *p, uint32_t *rule) {
    char c = *p->at;
    if (c == '"') return read_text(p, rule);
    if (c == '[') return read_set(p, rule);
    if (c == '(') return read_group(p, rule);
    if (c == '.') {
        CodeRanges all = {0};
        p->at++;
        ranges_add(&all, 0, 0x10FFFF);
        *rule = codes_rule(p, &all);
        return true;
    }
    if (!is_name(c)) return fail(p, "a text, a set, a group or a rule's name must stand here");
    Named *named = find_name(p);
    if (named) *rule = named->rule;
    return named != NULL;
}

static bool read_repeated(Gbnf *p, bool lines, uint32_t *rule) {
    if (!read_item(p, rule)) return false;
    for (skip_blank(p, lines); p->at < p->end && scan_is_one("*+?{", *p->at); skip_blank(p, lines)) {
        int least, most;
        const char *wrong = scan_repeats(&p->at, p->end, &least, &most);
        if (wrong) return fail(p, wrong);
        *rule = grammar_repeat(p->grammar, *rule, least, most);
    }
    return true;
}

static bool read_sequence(Gbnf *p, bool lines, uint32_t *rule) {
    RuleList list = {0};
    bool ok = true;
    while (ok && p->at < p->end && !scan_is_one("|)\n\r", *p->at)) {
        uint32_t next;
        if ((ok = read_repeated(p, lines, &next))) rule_list_push(p->grammar, &list, next);
    }
    *rule = rule_list_sequence(p->grammar, &list);
    return ok;
}

static bool read_choice(Gbnf *p, bool lines, uint32_t *rule) {
    RuleList list = {0};
    bool ok = true;
    for (bool more = true; ok && more;) {
        uint32_t way;
        if (!(ok = read_sequence(p, lines, &way))) break;
        rule_list_push(p->grammar, &list, way);
        const char *before = p->at; /* | may stand on the next line */
        skip_blank(p, true);
        more = is_at(p, '|');
        if (!more && !lines) p->at = before;
        if (!more) break;
        p->at++;
        skip_blank(p, true);
    }
    *rule = rule_list_choice(p->grammar, &list);
    return ok;
}

static bool read_rule(Gbnf *p) {
    uint32_t body;
    if (!is_name(*p->at)) return fail(p, "a rule's name must stand here");
    Named *named = find_name(p);
    if (!named) return false;
    size_t number = (size_t)(named - p->names);
    skip_blank(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0) return fail(p, "::= must follow a rule's name");
    p->at += 3;
    skip_blank(p, true);
    if (p->names[number].defined) return fail(p, "this rule is there twice");
    if (!read_choice(p, false, &body)) return false;
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r') return fail(p, "a ) has no (");
    p->names[number].defined = true;
    grammar_alternative(p->grammar, p->names[number].rule);
    grammar_put_rule(p->grammar, body);
    grammar_end(p->grammar);
    return true;
}

static bool read_rules(Gbnf *p, uint32_t *root) {
    bool found = false;
    for (skip_blank(p, true); p->at < p->end; skip_blank(p, true))
        if (!read_rule(p)) return false;
    for (size_t i = 0; i < p->n_names; i++) {
        const Named *n = &p->names[i];
        if (!n->defined) return error_set(p->err, "the grammar: the rule %.*s is not there", (int)n->n, n->name);
        if (n->n != 4 || memcmp(n->name, "root", 4) != 0) continue;
        *root = n->rule;
        found = true;
    }
    return found || error_set(p->err, "the grammar has no rule named root");
}

Grammar *grammar_from_gbnf(const char *text, size_t n, Error *err) {
    Gbnf p = {.grammar = grammar_new(), .text = text, .at = text, .end = text + n, .err = err};
    uint32_t root = 0;
    if (!p.grammar) {
        error_memory(err, "a grammar");
        return NULL;
    }
    bool ok = read_rules(&p, &root);
    mem_free(p.names);
    if (ok) return grammar_finish(p.grammar, root, err);
    grammar_free(p.grammar);
    return NULL;
}
