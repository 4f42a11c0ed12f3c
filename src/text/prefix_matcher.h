/* A set of texts, and the longest of them that stands at a place. */
#ifndef LOCKSTEP_TEXT_PREFIX_MATCHER_H
#define LOCKSTEP_TEXT_PREFIX_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PrefixPattern {
    char *text;
    uint32_t length;
    uint32_t value; /* the caller's */
    uint32_t order; /* of two equal patterns the one added first counts */
} PrefixPattern;

typedef struct PrefixMatcher {
    PrefixPattern *patterns;
    uint32_t n;
    size_t capacity;
    uint32_t first[257]; /* where the patterns with that first byte begin */
} PrefixMatcher;

/* Copies text[0..n), n > 0; false when out of memory. After the last one, prefix_matcher_finish. */
bool prefix_matcher_add(PrefixMatcher *m, const char *text, size_t n, uint32_t value);
void prefix_matcher_finish(PrefixMatcher *m);
void prefix_matcher_clear(PrefixMatcher *m);
/* Whether a pattern begins with that byte. */
static inline bool prefix_matcher_may(const PrefixMatcher *m, char byte) {
    return m->first[(unsigned char)byte] < m->first[(unsigned char)byte + 1];
}
/* The longest pattern at the start of text[0..n), n > 0; NULL: none. */
const PrefixPattern *prefix_matcher_at(const PrefixMatcher *m, const char *text, size_t n);

#endif
