/* Patterns sorted by bytes: the longest that stands at a place is found by narrowing a range, byte by byte. Most places
 * are left after one look at the table of first bytes. */
#include "text/prefix_matcher.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

bool prefix_matcher_add(PrefixMatcher *m, const char *text, size_t n, uint32_t value) {
    PrefixPattern *patterns = mem_room(m->patterns, m->n, &m->capacity, sizeof *patterns);
    if (!patterns) return false;
    m->patterns = patterns;
    char *copy = mem_string(text, n);
    if (!copy) return false;
    m->patterns[m->n] = (PrefixPattern){copy, (uint32_t)n, value, m->n};
    m->n++;
    return true;
}

static int compare_patterns(const void *x, const void *y) {
    const PrefixPattern *a = x, *b = y;
    uint32_t n = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, n);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static bool same_text(const PrefixPattern *a, const PrefixPattern *b) {
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

void prefix_matcher_finish(PrefixMatcher *m) {
    uint32_t n = 0;
    if (m->n) qsort(m->patterns, m->n, sizeof *m->patterns, compare_patterns);
    for (uint32_t i = 0; i < m->n; i++) {
        if (n && same_text(&m->patterns[n - 1], &m->patterns[i]))
            mem_free(m->patterns[i].text);
        else
            m->patterns[n++] = m->patterns[i];
    }
    m->n = n;
    for (uint32_t byte = 0, i = 0; byte <= 256; byte++) {
        while (i < n && (unsigned char)m->patterns[i].text[0] < byte) i++;
        m->first[byte] = i;
    }
}

void prefix_matcher_clear(PrefixMatcher *m) {
    for (uint32_t i = 0; i < m->n; i++) mem_free(m->patterns[i].text);
    mem_free(m->patterns);
    *m = (PrefixMatcher){0};
}

/* The first pattern in [low, high) whose byte `depth` is at least `byte`; all share the bytes before it. */
static uint32_t lower_bound(const PrefixMatcher *m, uint32_t low, uint32_t high, uint32_t depth, unsigned byte) {
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const PrefixPattern *p = &m->patterns[middle];
        if (p->length <= depth || (unsigned char)p->text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const PrefixPattern *prefix_matcher_at(const PrefixMatcher *m, const char *text, size_t n) {
    unsigned byte = (unsigned char)text[0];
    uint32_t low = m->first[byte], high = m->first[byte + 1];
    const PrefixPattern *best = NULL;
    for (uint32_t depth = 1; low < high; depth++) {
        if (m->patterns[low].length == depth) best = &m->patterns[low++];
        if (depth == n || low == high) break;
        byte = (unsigned char)text[depth];
        low = lower_bound(m, low, high, depth, byte);
        high = lower_bound(m, low, high, depth, byte + 1);
    }
    return best;
}
