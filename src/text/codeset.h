/* Sets of code points that patterns are built from: sorted bounds, as in unicode.h, that can grow. */
#ifndef LOCKSTEP_TEXT_CODESET_H
#define LOCKSTEP_TEXT_CODESET_H

#include "text/unicode.h"

enum { CODE_END = 0x110000 };

typedef struct CodeSet {
    uint32_t *bounds;
    size_t n, capacity;
} CodeSet;

void codeset_clear(CodeSet *s); /* frees */
/* All return false when out of memory; s is then still a valid set. Ranges are [first, end). */
bool codeset_add(CodeSet *s, uint32_t first, uint32_t end);
bool codeset_add_set(CodeSet *s, const UnicodeSet *more);
/* Adds the code points whose general category has its bit set. */
bool codeset_add_categories(CodeSet *s, uint64_t categories);
bool codeset_add_script(CodeSet *s, unsigned script); /* a value of unicode_script */
bool codeset_unite(CodeSet *s, const CodeSet *other);
bool codeset_intersect(CodeSet *s, const CodeSet *other);
bool codeset_negate(CodeSet *s);
bool codeset_fold(CodeSet *s); /* adds all that (?i) takes for the same */
bool codeset_equal(const CodeSet *a, const CodeSet *b);

#endif
