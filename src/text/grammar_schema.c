/* JSON Schema as a grammar of the JSON that it allows: draft 2020-12 as far as structured output uses it. Objects have
 * their properties in the order of the schema; white space is bounded; an assertion that can not be kept is refused by
 * name, for an answer must hold what the schema says. Every other keyword, known or not, is an annotation and passed
 * over, and so is an assertion about another kind of value than the schema's.
 *
 * A schema without additionalProperties gets none when it names properties: fewer texts than the standard would take,
 * and all of them valid. */
#include "text/grammar_build.h"
#include "base/json_pointer.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 256, MOST_ITEMS = 4096, MOST_NAME = 1024, HEADS = 1024 };

typedef struct Known {
    const JsonValue *schema;
    uint32_t rule, next; /* next: in its chain of the hash table, a number of `known` and 1, 0: none */
} Known;

typedef struct Schema {
    Grammar *grammar;
    const JsonValue *root;
    Known *known; /* schemas that were met, for references and recursion */
    size_t n_known, capacity;
    uint32_t heads[HEADS];
    uint32_t space, string, character, any, object; /* shared rules; any and object are made when needed */
    bool has_any;
    int depth;
    Error *err;
} Schema;

static bool read_schema(Schema *s, const JsonValue *v, uint32_t *rule);

static uint32_t text_rule(Schema *s, const char *text) {
    return grammar_text(s->grammar, text, strlen(text));
}

static uint32_t sequence(Schema *s, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t all[3] = {a, b, c};
    return grammar_sequence(s->grammar, all, 3);
}

static void add_way(Schema *s, uint32_t rule, uint32_t way) {
    grammar_alternative(s->grammar, rule);
    grammar_put_rule(s->grammar, way);
    grammar_end(s->grammar);
}

/* ---- the shared rules ---- */

static bool regex_rule(Schema *s, const char *pattern, uint32_t *rule) {
    return grammar_put_regex(s->grammar, pattern, strlen(pattern), rule, s->err);
}

/* A character of a string: itself, or an escape; \u of half a pair only with the other half. */
static const char CHARACTER[] =
    "[^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\/bfnrt]|\\\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
    "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})";

static bool make_shared(Schema *s) {
    uint32_t quote = text_rule(s, "\"");
    if (!regex_rule(s, " ?|\\n[ \\t]{0,15}", &s->space) || !regex_rule(s, CHARACTER, &s->character)) return false;
    s->string = sequence(s, quote, grammar_repeat(s->grammar, s->character, 0, -1), quote);
    return true;
}

static uint32_t list_rule(Schema *s, const char *open, uint32_t item, const char *close) {
    Grammar *g = s->grammar;
    uint32_t comma = sequence(s, text_rule(s, ","), s->space, item);
    uint32_t items = sequence(s, item, grammar_repeat(g, comma, 0, -1), s->space);
    uint32_t parts[4] = {text_rule(s, open), s->space, grammar_repeat(g, items, 0, 1), text_rule(s, close)};
    return grammar_sequence(g, parts, 4);
}

/* "key": value */
static uint32_t member_rule(Schema *s, uint32_t key, uint32_t value) {
    uint32_t parts[4] = {key, text_rule(s, ":"), s->space, value};
    return grammar_sequence(s->grammar, parts, 4);
}

static bool make_any(Schema *s) {
    uint32_t number;
    if (s->has_any) return true;
    if (!regex_rule(s, "-?(?:0|[1-9][0-9]{0,15})(?:\\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,3})?", &number)) return false;
    s->has_any = true;
    s->any = grammar_rule(s->grammar);
    s->object = list_rule(s, "{", member_rule(s, s->string, s->any), "}");
    uint32_t ways[] = {s->string,
                       number,
                       s->object,
                       list_rule(s, "[", s->any, "]"),
                       text_rule(s, "true"),
                       text_rule(s, "false"),
                       text_rule(s, "null")};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) add_way(s, s->any, ways[i]);
    return true;
}

/* ---- keywords ---- */

static bool fail(Schema *s, const char *keyword, const char *why) {
    return error_set(s->err, "the schema: \"%s\" %s", keyword, why);
}

/* Kinds of values, for the assertions about them. */
enum { NEITHER = 0, STRING = 1, NUMBER = 2, ARRAY = 4, OBJECT = 8, EVERY = 15, ALWAYS = 16 };

/* The keywords that say what a value may be, and of which values they say it. With null, and with a value of the sort
 * `nothing`, they say nothing: 'e' an empty list or object, or true; 'f' false; '0' zero; 'n' not even null. */
static const struct {
    const char *name;
    unsigned kinds;
    char nothing;
} assertions[] = {
    {"type", ALWAYS, 0},
    {"enum", ALWAYS, 0},
    {"const", ALWAYS, 'n'},
    {"$ref", ALWAYS, 0},
    {"$dynamicRef", ALWAYS, 0},
    {"$recursiveRef", ALWAYS, 0},
    {"allOf", ALWAYS, 'e'},
    {"anyOf", ALWAYS, 0},
    {"oneOf", ALWAYS, 0},
    {"not", ALWAYS, 0},
    {"if", ALWAYS, 0}, /* then and else say nothing without it */
    {"minLength", STRING, '0'},
    {"maxLength", STRING, 0},
    {"pattern", STRING, 0},
    {"minimum", NUMBER, 0},
    {"maximum", NUMBER, 0},
    {"exclusiveMinimum", NUMBER, 0},
    {"exclusiveMaximum", NUMBER, 0},
    {"multipleOf", NUMBER, 0},
    {"items", ARRAY, 'e'},
    {"prefixItems", ARRAY, 'e'},
    {"minItems", ARRAY, '0'},
    {"maxItems", ARRAY, 0},
    {"uniqueItems", ARRAY, 'f'},
    {"contains", ARRAY, 0},
    {"unevaluatedItems", ARRAY, 'e'},
    {"properties", OBJECT, 'e'},
    {"required", OBJECT, 'e'},
    {"additionalProperties", OBJECT, 'e'},
    {"patternProperties", OBJECT, 'e'},
    {"propertyNames", OBJECT, 'e'},
    {"minProperties", OBJECT, '0'},
    {"maxProperties", OBJECT, 0},
    {"dependencies", OBJECT, 'e'},
    {"dependentRequired", OBJECT, 'e'},
    {"dependentSchemas", OBJECT, 'e'},
    {"unevaluatedProperties", OBJECT, 'e'},
};

static bool says_nothing(char nothing, const JsonValue *v) {
    if (v->type == JSON_NULL) return nothing != 'n';
    if (v->type == JSON_BOOL) return v->boolean ? nothing == 'e' : nothing == 'f';
    if (v->type == JSON_OBJECT || v->type == JSON_ARRAY) return nothing == 'e' && v->length == 0;
    return nothing == '0' && v->type == JSON_INT && strcmp(v->text, "0") == 0;
}

/* Whether the member limits values of these kinds. */
static bool asserts(const JsonMember *m, unsigned kinds) {
    for (size_t i = 0; i < sizeof assertions / sizeof *assertions; i++)
        if (strcmp(m->key, assertions[i].name) == 0)
            return (assertions[i].kinds & (kinds | ALWAYS)) && !says_nothing(assertions[i].nothing, &m->value);
    return false;
}

/* Refuses what limits values of these kinds and is not among `names` (with blanks between them), which are kept. */
static bool check_keywords(Schema *s, const JsonValue *v, unsigned kinds, const char *names) {
    for (uint32_t i = 0; i < v->length; i++) {
        const char *key = v->members[i].key, *at = names;
        size_t n = strlen(key);
        bool known = !asserts(&v->members[i], kinds);
        while (!known && (at = strstr(at, key))) {
            known = (at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0');
            at += n;
        }
        if (!known) return fail(s, key, "is not supported here");
    }
    return true;
}

static bool read_count(Schema *s, const JsonValue *v, const char *key, int otherwise, int most, int *out) {
    const JsonValue *count = json_get_set(v, key);
    int64_t value = otherwise;
    if (count && (!json_int(count, &value) || value < 0 || value > most)) {
        char why[64];
        Buffer text = {0};
        buffer_printf(&text, "must be a whole number from 0 to %d", most);
        size_t n = text.length < sizeof why ? text.length : sizeof why - 1;
        memcpy(why, buffer_string(&text), n);
        why[n] = '\0';
        buffer_clear(&text);
        return fail(s, key, why);
    }
    *out = (int)value;
    return true;
}

/* ---- strings ---- */

typedef struct StringFormat {
    const char *name, *pattern;
    int least, most; /* characters of what the pattern takes */
} StringFormat;

#define DATE "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"

static const StringFormat formats[] = {
    {"date", DATE, 10, 10},
    {"time", TIME, 9, 24},
    {"date-time", DATE "T" TIME, 20, 35},
    {"duration", "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y)?(?:[0-9]{1,9}M)?[0-9]{1,9}D(?:T[0-9]{1,9}H)?|T[0-9]{1,9}[HMS])", 3,
     42},
    {"email", "[a-zA-Z0-9_+-]{1,32}(?:\\.[a-zA-Z0-9_+-]{1,32}){0,4}@" LABEL "(?:\\." LABEL "){1,4}", 5, 484},
    {"hostname", LABEL "(?:\\." LABEL "){0,8}", 1, 575},
    {"ipv4", BYTE "(?:\\." BYTE "){3}", 7, 15},
    {"ipv6", "[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){7}", 15, 39},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", 36, 36},
    {"uri", "[a-z][a-z0-9+.-]{0,15}://[a-zA-Z0-9._~:/?#@!$&'()*+,;=%-]{1,512}", 5, 531},
};

/* NULL: it has none, or one that is an annotation only. */
static const StringFormat *format_of(const JsonValue *v) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (json_equals(json_get(v, "format"), formats[i].name)) return &formats[i];
    return NULL;
}

/* A format is an annotation by default; a known one is kept where all of its texts have a length that is allowed. */
static bool read_string(Schema *s, const JsonValue *v, uint32_t *rule) {
    const JsonValue *pattern = json_get_set(v, "pattern");
    const StringFormat *format = format_of(v);
    uint32_t quote = text_rule(s, "\""), inside;
    int least, most;
    if (!check_keywords(s, v, STRING, "type minLength maxLength pattern") ||
        !read_count(s, v, "minLength", 0, GRAMMAR_MOST_REPEATS, &least) ||
        !read_count(s, v, "maxLength", -1, INT32_MAX, &most))
        return false;
    if (most > GRAMMAR_MOST_REPEATS) most = -1; /* longer than any answer */
    if (pattern && (least > 0 || most >= 0))
        return fail(s, "pattern", "beside another limit of the string is not supported");
    if (most >= 0 && most < least) return fail(s, "maxLength", "is smaller than minLength");
    if (pattern && pattern->type != JSON_STRING) return fail(s, "pattern", "must be a string");
    if (pattern) {
        if (!grammar_put_json_regex(s->grammar, pattern->text, pattern->length, &inside, s->err)) return false;
    } else if (format && format->least >= least && (most < 0 || format->most <= most)) {
        if (!regex_rule(s, format->pattern, &inside)) return false;
    } else {
        inside = grammar_repeat(s->grammar, s->character, least, most);
    }
    *rule = sequence(s, quote, inside, quote);
    return true;
}

/* ---- numbers ---- */

static bool read_bound(Schema *s, const JsonValue *v, const char *key, const char **bound, bool *open) {
    const JsonValue *value = json_get_set(v, key);
    if (!value) return true;
    if (value->type != JSON_INT && value->type != JSON_FLOAT) return fail(s, key, "must be a number");
    if (*bound) return fail(s, key, "beside another bound of that side is not supported");
    *bound = value->text;
    *open = key[0] == 'e';
    return true;
}

static bool read_number(Schema *s, const JsonValue *v, bool whole, uint32_t *rule) {
    NumberBounds b = {0};
    double step = 0;
    if (!check_keywords(s, v, NUMBER, "type minimum maximum exclusiveMinimum exclusiveMaximum multipleOf") ||
        !read_bound(s, v, "minimum", &b.low, &b.low_open) ||
        !read_bound(s, v, "exclusiveMinimum", &b.low, &b.low_open) ||
        !read_bound(s, v, "maximum", &b.high, &b.high_open) ||
        !read_bound(s, v, "exclusiveMaximum", &b.high, &b.high_open))
        return false;
    const JsonValue *multiple = json_get_set(v, "multipleOf");
    if (multiple && (!json_number(multiple, &step) || step != 1))
        return fail(s, "multipleOf", "is supported as 1 only");
    if (b.low || b.high) return grammar_put_number(s->grammar, &b, whole || multiple, rule, s->err);
    return regex_rule(s,
                      whole || multiple ? "-?(?:0|[1-9][0-9]{0,17})"
                                        : "-?(?:0|[1-9][0-9]{0,15})(?:\\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,3})?",
                      rule);
}

/* ---- arrays ---- */

/* first, then rest items after commas: items(k) says what may follow k of them. */
static bool read_array(Schema *s, const JsonValue *v, uint32_t *rule) {
    Grammar *g = s->grammar;
    const JsonValue *prefix = json_get_set(v, "prefixItems"), *items = json_get_set(v, "items");
    int least, most, n = prefix ? (int)prefix->length : 0;
    uint32_t item = 0, close = sequence(s, s->space, text_rule(s, "]"), grammar_empty(g)), comma;
    if (!check_keywords(s, v, ARRAY, "type items prefixItems minItems maxItems") ||
        !read_count(s, v, "minItems", 0, MOST_ITEMS, &least) || !read_count(s, v, "maxItems", -1, INT32_MAX, &most))
        return false;
    bool more = !(items && items->type == JSON_BOOL && !items->boolean);
    if (prefix && (prefix->type != JSON_ARRAY || n > MOST_ITEMS)) return fail(s, "prefixItems", "must be an array");
    if (most > MOST_ITEMS) most = -1;
    if (!more) most = most < 0 || most > n ? n : most;
    if (most >= 0 && most < least) return fail(s, "maxItems", "is smaller than minItems");
    if (more && items && !read_schema(s, items, &item)) return false;
    if (more && !items && !make_any(s)) return false;
    if (more && !items) item = s->any;
    comma = sequence(s, text_rule(s, ","), s->space, grammar_empty(g));
    int listed = n > least ? n : least, last = most < 0 || most > listed ? listed : most;
    /* from the end: after `last` items come the others, then one item less each */
    uint32_t rest = close;
    if (most < 0 || most > last) {
        uint32_t one = sequence(s, comma, item, grammar_empty(g));
        rest = sequence(s, grammar_repeat(g, one, 0, most < 0 ? -1 : most - last), close, grammar_empty(g));
    }
    for (int i = last; i-- > 0;) {
        uint32_t own = item, next = grammar_rule(g);
        if (i < n && !read_schema(s, json_item(prefix, (uint32_t)i), &own)) return false;
        add_way(s, next, sequence(s, i > 0 ? comma : grammar_empty(g), own, rest));
        if (i >= least) add_way(s, next, close);
        rest = next;
    }
    if (last == 0 && (most < 0 || most > 0)) { /* the first item has no comma */
        uint32_t others = grammar_repeat(g, sequence(s, comma, item, grammar_empty(g)), 0, most < 0 ? -1 : most - 1);
        uint32_t start = grammar_rule(g);
        add_way(s, start, close);
        add_way(s, start, sequence(s, item, others, close));
        rest = start;
    }
    *rule = sequence(s, text_rule(s, "["), s->space, rest);
    return true;
}

/* ---- objects ---- */

/* The keys of an object, or the strings of a list, in the order of their bytes. */
typedef struct Name {
    const char *text;
    size_t n;
} Name;

typedef struct Names {
    Name *items;
    size_t n;
} Names;

static int compare_names(const void *a, const void *b) {
    const Name *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static bool sort_names(Schema *s, const JsonValue *v, Names *out) {
    uint32_t n = v ? v->length : 0;
    *out = (Names){.items = mem_array(n, sizeof *out->items)};
    if (!out->items) return error_memory(s->err, "a grammar");
    for (uint32_t i = 0; i < n; i++) {
        if (v->type == JSON_OBJECT)
            out->items[out->n++] = (Name){v->members[i].key, v->members[i].key_length};
        else if (v->items[i].type == JSON_STRING)
            out->items[out->n++] = (Name){v->items[i].text, v->items[i].length};
    }
    if (out->n) qsort(out->items, out->n, sizeof *out->items, compare_names);
    return true;
}

static bool has_name(const Names *names, Name name) {
    return names->n && bsearch(&name, names->items, names->n, sizeof name, compare_names);
}

static uint32_t literal_string(Schema *s, const char *text, size_t n) {
    Buffer quoted = {0};
    json_write_string(&quoted, text, n, false);
    if (quoted.failed) s->grammar->failed = true;
    uint32_t rule = grammar_text(s->grammar, buffer_string(&quoted), quoted.length);
    buffer_clear(&quoted);
    return rule;
}

static size_t count_beginning(const Names *names, size_t low, size_t high, size_t n) {
    size_t i = low + 1;
    while (i < high && names->items[i].n >= n && memcmp(names->items[i].text, names->items[low].text, n) == 0) i++;
    return i - low;
}

/* The inside of a key, from its character `at` on, that is none of the names low .. high, which begin as it does so
 * far. Without escapes, so that no name can be spelled in another way. */
static uint32_t other_key(Schema *s, const Names *names, size_t low, size_t high, size_t at) {
    Grammar *g = s->grammar;
    uint32_t rule = grammar_rule(g), plain;
    CodeRanges others = {0};
    bool is_name = false;
    ranges_add(&others, 0, 0x1F);
    ranges_add(&others, '"', '"');
    ranges_add(&others, '\\', '\\');
    if (!regex_rule(s, "[^\"\\\\\\x00-\\x1f]*", &plain)) g->failed = true;
    for (size_t i = low, same = 1; i < high && !g->failed; i += same) {
        const Name *name = &names->items[i];
        uint32_t code;
        int n = utf8_decode(name->text + at, name->n - at, &code);
        is_name |= name->n == at;
        same = n > 0 ? count_beginning(names, i, high, at + (size_t)n) : 1;
        if (n == 0 || code < 0x20 || code == '"' || code == '\\') continue;
        ranges_add(&others, code, code);
        uint32_t own[1][2] = {{code, code}};
        uint32_t both[2] = {grammar_codes(g, (const uint32_t(*)[2])own, 1),
                            other_key(s, names, i, i + same, at + (size_t)n)};
        add_way(s, rule, grammar_sequence(g, both, 2));
    }
    ranges_sort(&others);
    ranges_invert(&others);
    uint32_t both[2] = {grammar_codes(g, (const uint32_t(*)[2])others.items, others.n), plain};
    if (others.failed) g->failed = true;
    ranges_clear(&others);
    add_way(s, rule, grammar_sequence(g, both, 2));
    if (!is_name && at > 0) add_way(s, rule, grammar_empty(g));
    return rule;
}

/* Members beyond the properties: further ones after a comma each; `first` is the rule when none stands before them. */
static bool read_others(Schema *s, const JsonValue *v, const Names *names, uint32_t close, uint32_t *first,
                        uint32_t *next) {
    const JsonValue *additional = json_get_set(v, "additionalProperties");
    Grammar *g = s->grammar;
    uint32_t value;
    *first = *next = close;
    bool none =
        additional ? additional->type == JSON_BOOL && !additional->boolean : json_get_set(v, "properties") != NULL;
    if (none) return true;
    for (size_t i = 0; i < names->n; i++)
        if (names->items[i].n > MOST_NAME)
            return fail(s, "additionalProperties", "beside so long a name is not supported");
    if (additional && additional->type == JSON_OBJECT) {
        if (!read_schema(s, additional, &value)) return false;
    } else {
        if (!make_any(s)) return false;
        value = s->any;
    }
    uint32_t quote = text_rule(s, "\""), key = sequence(s, quote, other_key(s, names, 0, names->n, 0), quote);
    uint32_t member = member_rule(s, key, value), comma = sequence(s, text_rule(s, ","), s->space, member);
    uint32_t more = grammar_repeat(g, comma, 0, -1);
    *next = sequence(s, more, close, grammar_empty(g));
    *first = grammar_rule(g);
    add_way(s, *first, close);
    add_way(s, *first, sequence(s, member, more, close));
    return true;
}

/* From the last property to the first: what may follow when a member stands before, and when none does. */
static bool read_members(Schema *s, const JsonValue *v, const Names *names, const Names *required, uint32_t *rule) {
    Grammar *g = s->grammar;
    const JsonValue *properties = json_get_set(v, "properties");
    uint32_t close = sequence(s, s->space, text_rule(s, "}"), grammar_empty(g)), first, next;
    uint32_t comma = sequence(s, text_rule(s, ","), s->space, grammar_empty(g));
    if (!read_others(s, v, names, close, &first, &next)) return false;
    for (uint32_t i = properties ? properties->length : 0; i-- > 0;) {
        const JsonMember *m = &properties->members[i];
        uint32_t value, key = literal_string(s, m->key, m->key_length);
        if (!read_schema(s, &m->value, &value)) return false;
        uint32_t member = member_rule(s, key, value), alone = grammar_rule(g), after = grammar_rule(g);
        add_way(s, alone, sequence(s, member, next, grammar_empty(g)));
        add_way(s, after, sequence(s, comma, member, next));
        if (!has_name(required, (Name){m->key, m->key_length})) {
            add_way(s, alone, first);
            add_way(s, after, next);
        }
        first = alone;
        next = after;
    }
    *rule = sequence(s, text_rule(s, "{"), s->space, first);
    return true;
}

static bool read_object(Schema *s, const JsonValue *v, uint32_t *rule) {
    const JsonValue *properties = json_get_set(v, "properties"), *required = json_get_set(v, "required");
    Names names = {0}, needed = {0};
    if (!check_keywords(s, v, OBJECT, "type properties required additionalProperties")) return false;
    if (properties && properties->type != JSON_OBJECT) return fail(s, "properties", "must be an object");
    if (required && required->type != JSON_ARRAY) return fail(s, "required", "must be an array");
    bool ok = sort_names(s, properties, &names) && sort_names(s, required, &needed);
    if (ok && required && needed.n < required->length) ok = fail(s, "required", "must be a list of strings");
    for (size_t i = 0; ok && i < needed.n; i++)
        ok = has_name(&names, needed.items[i]) || fail(s, "required", "names what is not among the properties");
    ok = ok && read_members(s, v, &names, &needed, rule);
    mem_free(names.items);
    mem_free(needed.items);
    return ok;
}

/* ---- the rest ---- */

static void put_literal(Schema *s, uint32_t rule, const JsonValue *value) {
    Buffer text = {0};
    json_write(&text, value, NULL);
    if (text.failed) s->grammar->failed = true;
    add_way(s, rule, grammar_text(s->grammar, buffer_string(&text), text.length));
    buffer_clear(&text);
}

static bool read_enum(Schema *s, const JsonValue *v, uint32_t *rule) {
    const JsonValue *values = json_get_set(v, "enum"), *constant = json_get(v, "const");
    *rule = grammar_rule(s->grammar);
    if (!check_keywords(s, v, EVERY, "type enum const")) return false;
    if (constant) put_literal(s, *rule, constant);
    if (constant) return !values || fail(s, "enum", "beside const is not supported");
    if (values->type != JSON_ARRAY || values->length == 0) return fail(s, "enum", "must be a list that is not empty");
    for (uint32_t i = 0; i < values->length; i++) put_literal(s, *rule, json_item(values, i));
    return true;
}

static bool read_any_of(Schema *s, const JsonValue *v, const char *key, uint32_t *rule) {
    const JsonValue *ways = json_get(v, key);
    *rule = grammar_rule(s->grammar);
    if (!check_keywords(s, v, EVERY, key)) return false;
    if (ways->type != JSON_ARRAY || ways->length == 0) return fail(s, key, "must be a list that is not empty");
    for (uint32_t i = 0; i < ways->length; i++) {
        uint32_t way;
        if (!read_schema(s, json_item(ways, i), &way)) return false;
        add_way(s, *rule, way);
    }
    return true;
}

static bool read_all_of(Schema *s, const JsonValue *v, uint32_t *rule) {
    const JsonValue *parts = json_get(v, "allOf");
    if (!check_keywords(s, v, EVERY, "allOf")) return false;
    if (parts->type != JSON_ARRAY || parts->length != 1) return fail(s, "allOf", "is supported with one schema only");
    return read_schema(s, json_item(parts, 0), rule);
}

static bool read_reference(Schema *s, const JsonValue *v, uint32_t *rule) {
    const char *path = json_string(json_get(v, "$ref"));
    const JsonValue *at = path ? json_pointer(s->root, path) : NULL;
    if (!path || path[0] != '#') return fail(s, "$ref", "must point into the schema itself (#/...)");
    return at ? read_schema(s, at, rule) : fail(s, "$ref", "points to what is not there");
}

static bool read_type(Schema *s, const JsonValue *v, const char *type, uint32_t *rule) {
    if (strcmp(type, "object") == 0) return read_object(s, v, rule);
    if (strcmp(type, "array") == 0) return read_array(s, v, rule);
    if (strcmp(type, "string") == 0) return read_string(s, v, rule);
    if (strcmp(type, "number") == 0) return read_number(s, v, false, rule);
    if (strcmp(type, "integer") == 0) return read_number(s, v, true, rule);
    bool boolean = strcmp(type, "boolean") == 0, null = strcmp(type, "null") == 0;
    if ((boolean || null) && !check_keywords(s, v, NEITHER, "type")) return false;
    if (boolean) return regex_rule(s, "true|false", rule);
    if (null) return *rule = text_rule(s, "null"), true;
    return fail(s, "type", "has a value that is not known");
}

/* Several types: each is read as if it stood alone, without the limits of the others. */
static bool read_types(Schema *s, const JsonValue *v, const JsonValue *types, uint32_t *rule) {
    if (types->length == 0) return fail(s, "type", "must not be an empty list");
    *rule = grammar_rule(s->grammar);
    for (uint32_t i = 0; i < types->length; i++) {
        const char *type = json_string(json_item(types, i));
        uint32_t way;
        if (!type) return fail(s, "type", "must be a list of strings");
        if (!read_type(s, v, type, &way)) return false;
        add_way(s, *rule, way);
    }
    return true;
}

static bool has_any_of(const JsonValue *v, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (json_get_set(v, keys[i])) return true;
    return false;
}

/* Without a type the keywords tell. */
static const char *implied_type(const JsonValue *v) {
    static const char *const object[] = {"properties", "required", "additionalProperties"};
    static const char *const array[] = {"items", "prefixItems", "minItems", "maxItems"};
    static const char *const string[] = {"pattern", "minLength", "maxLength"};
    static const char *const number[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
    if (has_any_of(v, object, 3)) return "object";
    if (has_any_of(v, array, 4)) return "array";
    if (has_any_of(v, string, 3) || format_of(v)) return "string";
    return has_any_of(v, number, 5) ? "number" : NULL;
}

static bool read_kind(Schema *s, const JsonValue *v, uint32_t *rule) {
    const JsonValue *type = json_get_set(v, "type");
    if (v->type == JSON_BOOL && v->boolean) return make_any(s) && (*rule = s->any, true);
    if (v->type != JSON_OBJECT) return error_set(s->err, "the schema: a schema must be an object or true");
    if (json_get_set(v, "$ref")) return check_keywords(s, v, EVERY, "$ref") && read_reference(s, v, rule);
    if (json_get_set(v, "enum") || json_get(v, "const")) return read_enum(s, v, rule);
    if (json_get_set(v, "anyOf")) return read_any_of(s, v, "anyOf", rule);
    if (json_get_set(v, "oneOf")) return read_any_of(s, v, "oneOf", rule);
    if (json_get_set(v, "allOf")) return read_all_of(s, v, rule);
    if (type && type->type == JSON_ARRAY) return read_types(s, v, type, rule);
    if (type && type->type != JSON_STRING) return fail(s, "type", "must be a string or a list");
    const char *name = type ? type->text : implied_type(v);
    if (name) return read_type(s, v, name, rule);
    return check_keywords(s, v, EVERY, "") && make_any(s) && (*rule = s->any, true);
}

/* A schema is read once; who refers to it gets its rule, also while it is being read. */
static bool read_schema(Schema *s, const JsonValue *v, uint32_t *rule) {
    uint32_t *head = &s->heads[((uintptr_t)v >> 4) % HEADS];
    for (uint32_t i = *head; i; i = s->known[i - 1].next)
        if (s->known[i - 1].schema == v) {
            *rule = s->known[i - 1].rule;
            return true;
        }
    Known *known = mem_room(s->known, s->n_known, &s->capacity, sizeof *known);
    if (!known) return error_memory(s->err, "a grammar");
    s->known = known;
    *rule = grammar_rule(s->grammar);
    known[s->n_known++] = (Known){v, *rule, *head};
    *head = (uint32_t)s->n_known;
    uint32_t body;
    bool nullable = false;
    if (++s->depth > MOST_DEPTH) return error_set(s->err, "the schema is nested too deeply");
    if (!read_kind(s, v, &body)) return false;
    s->depth--;
    add_way(s, *rule, body);
    if (json_bool(json_get(v, "nullable"), &nullable) && nullable) add_way(s, *rule, text_rule(s, "null"));
    return true;
}

bool grammar_put_schema(Grammar *g, const JsonValue *schema, uint32_t *rule, Error *err) {
    Schema s = {.grammar = g, .root = schema, .err = err};
    bool ok = make_shared(&s) && (schema ? read_schema(&s, schema, rule) : make_any(&s));
    if (ok && !schema) *rule = s.object;
    mem_free(s.known);
    return ok;
}

static Grammar *whole_schema(const JsonValue *schema, Error *err) {
    uint32_t root;
    Grammar *g = grammar_new();
    if (!g) {
        error_memory(err, "a grammar");
        return NULL;
    }
    if (grammar_put_schema(g, schema, &root, err)) return grammar_finish(g, root, err);
    grammar_free(g);
    return NULL;
}

Grammar *grammar_from_schema(const JsonValue *schema, Error *err) {
    return whole_schema(schema, err);
}

Grammar *grammar_from_json_object(Error *err) {
    return whole_schema(NULL, err);
}
