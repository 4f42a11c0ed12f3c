/* All set operations are one merge of two sorted lists of bounds: walk both, and write a bound wherever the combined
 * membership changes. */
#include "text/codeset.h"
#include "base/memory.h"

#include <string.h>

void codeset_clear(CodeSet *s) {
    mem_free(s->bounds);
    *s = (CodeSet){0};
}

/* s becomes { c : table[c in s + 2 * (c in other)] }; table is four bits. */
static bool combine(CodeSet *s, const uint32_t *other, size_t n_other, unsigned table) {
    uint32_t *out = mem_array(s->n + n_other + 1, sizeof *out);
    if (!out) return false;
    size_t i = 0, j = 0, n = 0;
    bool inside = false;
    if (table & 1) {
        out[n++] = 0;
        inside = true;
    }
    while (i < s->n || j < n_other) {
        uint32_t a = i < s->n ? s->bounds[i] : CODE_END, b = j < n_other ? other[j] : CODE_END;
        uint32_t at = a < b ? a : b;
        i += a == at && i < s->n;
        j += b == at && j < n_other;
        bool now = table >> ((i & 1) + 2 * (j & 1)) & 1;
        if (now == inside) continue;
        if (n && out[n - 1] == at)
            n--; /* opened and closed at the same place */
        else
            out[n++] = at;
        inside = now;
    }
    mem_free(s->bounds);
    s->bounds = out;
    s->capacity = s->n + n_other + 1;
    s->n = n;
    return true;
}

bool codeset_add(CodeSet *s, uint32_t first, uint32_t end) {
    uint32_t range[2] = {first, end};
    if (first >= end) return true;
    return combine(s, range, 2, 0xE);
}

bool codeset_add_set(CodeSet *s, const UnicodeSet *more) {
    return combine(s, more->bounds, more->n, 0xE);
}

bool codeset_unite(CodeSet *s, const CodeSet *other) {
    return combine(s, other->bounds, other->n, 0xE);
}

bool codeset_intersect(CodeSet *s, const CodeSet *other) {
    return combine(s, other->bounds, other->n, 0x8);
}

bool codeset_negate(CodeSet *s) {
    return combine(s, NULL, 0, 0x1);
}

/* Adds where wanted(value) of the runs holds. */
static bool add_runs(CodeSet *s, const UnicodeRuns *runs, uint64_t values, unsigned single) {
    uint32_t *bounds = mem_array(runs->n + 1, sizeof *bounds);
    if (!bounds) return false;
    size_t n = 0;
    for (size_t i = 0; i < runs->n; i++) {
        unsigned value = runs->words[i] & 0xFF;
        bool in = single ? value == single : value < 64 && (values >> value & 1);
        if (in != (n & 1)) bounds[n++] = runs->words[i] >> 8;
    }
    bool ok = combine(s, bounds, n, 0xE);
    mem_free(bounds);
    return ok;
}

bool codeset_add_categories(CodeSet *s, uint64_t categories) {
    return add_runs(s, &unicode_category, categories, 0);
}

bool codeset_add_script(CodeSet *s, unsigned script) {
    return add_runs(s, &unicode_script, 0, script);
}

bool codeset_fold(CodeSet *s) {
    CodeSet more = {0};
    UnicodeSet view = {s->bounds, s->n};
    bool ok = true;
    for (size_t i = 0; i < unicode_fold.n && ok; i++) {
        uint32_t code = (uint32_t)(unicode_fold.index[i] >> 32);
        if (!unicode_in(&view, code)) continue;
        size_t n = 0;
        const uint32_t *others = unicode_map(&unicode_fold, code, &n);
        for (size_t k = 0; k < n && ok; k++) {
            if (!unicode_in(&view, others[k])) ok = codeset_add(&more, others[k], others[k] + 1);
        }
    }
    ok = ok && codeset_unite(s, &more);
    codeset_clear(&more);
    return ok;
}

bool codeset_equal(const CodeSet *a, const CodeSet *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->bounds, b->bounds, a->n * sizeof a->bounds[0]) == 0);
}
