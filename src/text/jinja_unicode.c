/* Lookups in the generated tables: a sorted list of class changes, and runs of equal case distance. ASCII, nearly all
 * of what templates touch, is answered without a search. */
#include "text/jinja_unicode.h"

#include <stddef.h>

typedef struct CaseRun {
    uint32_t first, last;
    int32_t step, delta;
} CaseRun;

typedef struct CaseLong {
    uint32_t code, to[3];
} CaseLong;

#include "text/jinja_unicode_data.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

unsigned jinja_char_class(uint32_t code) {
    size_t low = 0, high = COUNT(CLASS_START);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (CLASS_START[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return CLASS_MASK[low];
}

static uint32_t run_map(const CaseRun *runs, size_t n, uint32_t code) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (runs[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n || code < runs[low].first || (code - runs[low].first) % (uint32_t)runs[low].step) return code;
    return (uint32_t)((int64_t)code + runs[low].delta);
}

static int long_map(const CaseLong *list, size_t n, uint32_t code, uint32_t out[3]) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n || list[low].code != code) return 0;
    int count = 0;
    while (count < 3 && list[low].to[count]) {
        out[count] = list[low].to[count];
        count++;
    }
    return count;
}

static int map_with(const CaseRun *runs, size_t n, const CaseLong *list, size_t n_list, uint32_t code,
                    uint32_t out[3]) {
    int count = long_map(list, n_list, code, out);
    if (count) return count;
    out[0] = run_map(runs, n, code);
    return 1;
}

int jinja_char_case(uint32_t code, CaseMap map, uint32_t out[3]) {
    if (code < 128) {
        bool lower = code >= 'a' && code <= 'z', upper = code >= 'A' && code <= 'Z';
        bool want_upper = map == CASE_UPPER || map == CASE_TITLE;
        out[0] = (want_upper && lower) || (!want_upper && upper) ? code ^ 32 : code;
        return 1;
    }
    if (map == CASE_UPPER) return map_with(UPPER_RUNS, COUNT(UPPER_RUNS), UPPER_LONG, COUNT(UPPER_LONG), code, out);
    if (map == CASE_TITLE) return map_with(TITLE_RUNS, COUNT(TITLE_RUNS), TITLE_LONG, COUNT(TITLE_LONG), code, out);
    int count = map == CASE_FOLD ? long_map(FOLD_LONG, COUNT(FOLD_LONG), code, out) : 0;
    if (count) return count;
    return map_with(LOWER_RUNS, COUNT(LOWER_RUNS), LOWER_LONG, COUNT(LOWER_LONG), code, out);
}
