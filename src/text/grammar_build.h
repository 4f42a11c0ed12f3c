/* A grammar in the making: rules whose alternatives are sequences of byte sets and of other rules. For the readers of
 * schemas, patterns and notations. */
#ifndef LOCKSTEP_TEXT_GRAMMAR_BUILD_H
#define LOCKSTEP_TEXT_GRAMMAR_BUILD_H

#include "text/grammar.h"

typedef struct ByteSet {
    uint32_t bits[8];
} ByteSet;

typedef enum GrammarOp { GRAMMAR_END, GRAMMAR_BYTES, GRAMMAR_RULE } GrammarOp;

/* One element of a sequence; `value` is a byte set's or a rule's number. */
typedef struct GrammarItem {
    uint32_t op : 2, value : 30;
} GrammarItem;

static inline bool set_is_empty(const ByteSet *set) {
    uint32_t any = 0;
    for (int w = 0; w < 8; w++) any |= set->bits[w];
    return any == 0;
}

typedef struct GrammarRule {
    uint32_t *starts; /* [n] where its alternatives begin in items */
    uint32_t n, capacity;
} GrammarRule;

enum { GRAMMAR_MOST_ITEMS = 4 << 20, GRAMMAR_MOST_REPEATS = 16384, GRAMMAR_SET_HEADS = 1024 };

struct Grammar {
    GrammarItem *items;
    size_t n_items, item_capacity;
    GrammarRule *rules;
    size_t n_rules, rule_capacity;
    ByteSet *sets;                                    /* number 0 is none */
    uint32_t *set_next, set_heads[GRAMMAR_SET_HEADS]; /* a hash table of them */
    size_t n_sets, set_capacity, next_capacity;
    uint32_t root;
    int owners;  /* atomic */
    bool failed; /* out of memory, or too large: then nothing is added any more */
};

Grammar *grammar_new(void); /* NULL when out of memory */
/* Checks what was built: that no rule begins with itself, that all of them can end, and that a run can follow all ways
 * that it begins with. NULL (and freed) with the reason. */
Grammar *grammar_finish(Grammar *g, uint32_t root, Error *err);

/* A sequence being put together, from its end to nobody's business but its rule's. */
uint32_t grammar_rule(Grammar *g); /* a new rule, without alternatives */
/* Begins another alternative of a rule; what is put follows it until grammar_end. One at a time. */
void grammar_alternative(Grammar *g, uint32_t rule);
void grammar_alternative_at(Grammar *g, uint32_t rule, uint32_t start); /* another that is there already */
void grammar_put_item(Grammar *g, GrammarItem item);
void grammar_put_set(Grammar *g, const ByteSet *set);
void grammar_put_rule(Grammar *g, uint32_t rule);
void grammar_put_text(Grammar *g, const char *text, size_t n);
void grammar_end(Grammar *g);

/* Rules that are often needed, made whole. */
uint32_t grammar_empty(Grammar *g);
uint32_t grammar_text(Grammar *g, const char *text, size_t n);
uint32_t grammar_sequence(Grammar *g, const uint32_t *rules, size_t n);
uint32_t grammar_choice(Grammar *g, const uint32_t *rules, size_t n);
/* A rule from `least` to `most` times (-1: any number). */
uint32_t grammar_repeat(Grammar *g, uint32_t rule, int least, int most);
/* One character of a set of code points: ranges [n][2], both ends included, ascending and apart. */
uint32_t grammar_codes(Grammar *g, const uint32_t (*ranges)[2], size_t n);

/* Rules while a sequence or a choice is gathered. */
typedef struct RuleList {
    uint32_t *rules;
    size_t n, capacity;
} RuleList;
void rule_list_push(Grammar *g, RuleList *l, uint32_t rule); /* without memory the grammar has failed */
/* The rule of all of them; the list is empty afterwards, with its memory freed. */
uint32_t rule_list_sequence(Grammar *g, RuleList *l);
uint32_t rule_list_choice(Grammar *g, RuleList *l);

/* A list of ranges of code points while it is gathered. */
typedef struct CodeRanges {
    uint32_t (*items)[2];
    size_t n, capacity;
    bool failed;
} CodeRanges;
void ranges_add(CodeRanges *r, uint32_t low, uint32_t high);
void ranges_sort(CodeRanges *r);   /* ascending, apart */
void ranges_invert(CodeRanges *r); /* of all code points but surrogates */
void ranges_clear(CodeRanges *r);

void grammar_simplify(Grammar *g); /* once it is checked; the same texts */
bool grammar_can_start(const Grammar *g, Error *err);

/* A regular expression as a rule; its anchors at both ends are dropped. False with the reason. */
bool grammar_put_regex(Grammar *g, const char *pattern, size_t n, uint32_t *rule, Error *err);
/* The same for the inside of a JSON string, as a schema's "pattern" means it: without an anchor, anything may stand
 * there. */
bool grammar_put_json_regex(Grammar *g, const char *pattern, size_t n, uint32_t *rule, Error *err);
/* A JSON schema as a rule; NULL: any JSON object. False with the reason. */
bool grammar_put_schema(Grammar *g, const JsonValue *schema, uint32_t *rule, Error *err);
/* A decimal number from low to high (NULL: no bound), as JSON writes it without an exponent; whole numbers only, or
 * with a fraction. The bounds are numbers as JSON writes them. False when a bound is too long, or nothing lies between
 * them. */
typedef struct NumberBounds {
    const char *low, *high;
    bool low_open, high_open; /* the bound itself is outside */
} NumberBounds;
bool grammar_put_number(Grammar *g, const NumberBounds *bounds, bool whole, uint32_t *rule, Error *err);

#endif
