/* Binary searches over the generated tables. Callers keep a short cut for ASCII where it pays. */
#include "text/unicode.h"

bool unicode_in(const UnicodeSet *set, uint32_t code) {
    size_t low = 0, high = set->n; /* the number of bounds <= code */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->bounds[middle] <= code)
            low = middle + 1;
        else
            high = middle;
    }
    return low & 1;
}

unsigned unicode_value(const UnicodeRuns *runs, uint32_t code) {
    size_t low = 0, high = runs->n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs->words[middle] >> 8 <= code)
            low = middle;
        else
            high = middle;
    }
    return runs->words[low] & 0xFF;
}

const uint32_t *unicode_map(const UnicodeMap *map, uint32_t code, size_t *n) {
    size_t low = 0, high = map->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->index[middle] >> 32 < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == map->n || map->index[low] >> 32 != code) return NULL;
    *n = map->index[low] & 0xFF;
    return map->text + (map->index[low] >> 8 & 0xFFFFFF);
}

/* The arithmetic of the Unicode standard, section 3.12. */
static uint32_t compose_hangul(uint32_t a, uint32_t b) {
    enum { L = 0x1100, V = 0x1161, T = 0x11A7, S = 0xAC00, N_L = 19, N_V = 21, N_T = 28 };
    if (a >= L && a < L + N_L && b >= V && b < V + N_V) return S + ((a - L) * N_V + (b - V)) * N_T;
    if (a >= S && a < S + N_L * N_V * N_T && (a - S) % N_T == 0 && b > T && b < T + N_T) return a + (b - T);
    return 0;
}

uint32_t unicode_compose(uint32_t a, uint32_t b) {
    uint64_t key = (uint64_t)a << 42 | (uint64_t)b << 21;
    size_t low = 0, high = unicode_compose_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (unicode_compose_words[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < unicode_compose_count && unicode_compose_words[low] >> 21 == key >> 21) {
        return (uint32_t)(unicode_compose_words[low] & 0x1FFFFF);
    }
    return compose_hangul(a, b);
}
