/* The front half of pattern.h: a pattern's text as a row of items, each plain pcre2 syntax or a set of code points. */
#ifndef LOCKSTEP_TEXT_PATTERN_PARSE_H
#define LOCKSTEP_TEXT_PATTERN_PARSE_H

#include "base/buffer.h"
#include "base/error.h"
#include "text/codeset.h"

typedef struct PatternItem {
    int set;            /* >= 0: one character of sets[set]; -1: syntax */
    const char *syntax; /* static text, or NULL: `count` then says the repeat */
    uint32_t low, high; /* of {low,high}; high UINT32_MAX: no limit */
} PatternItem;

typedef struct PatternItems {
    PatternItem *items;
    size_t n, capacity;
    CodeSet *sets; /* no two are equal */
    size_t n_sets, sets_capacity;
} PatternItems;

bool pattern_parse(const char *source, size_t n, PatternItems *out, Error *err);
void pattern_items_clear(PatternItems *p);

/* Adds the members of \p{name}; false and an error when there is no such property or memory is out. */
bool pattern_property(const char *name, size_t n, CodeSet *s, Error *err);
/* The same for [:name:]. */
bool pattern_bracket(const char *name, size_t n, CodeSet *s, Error *err);

#endif
