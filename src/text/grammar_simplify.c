/* A grammar made cheaper to run; the texts that it takes stay the same. A rule of one item is written as that item, and
 * alternatives that begin alike share their beginning: a list of words becomes the tree of them, so that a run follows
 * one way through it where it followed one for each word.
 *
 * Sequences are not moved: an alternative may begin in the middle of one, after what it shares with others. */
#include "text/grammar_build.h"
#include "base/memory.h"

#include <stdlib.h>

enum { MOST_STEPS = 64 }; /* along rules that stand for one another */

static bool is_single(const Grammar *g, uint32_t start) {
    return g->items[start].op != GRAMMAR_END && g->items[start + 1].op == GRAMMAR_END;
}

static void write_single_items(Grammar *g) {
    for (size_t i = 0; i < g->n_items; i++)
        for (int step = 0; step < MOST_STEPS && g->items[i].op == GRAMMAR_RULE; step++) {
            const GrammarRule *rule = &g->rules[g->items[i].value];
            if (rule->n != 1 || !is_single(g, rule->starts[0])) break;
            g->items[i] = g->items[rule->starts[0]];
        }
}

/* Where a sequence of nothing but a rule with one alternative really begins. */
static uint32_t real_start(const Grammar *g, uint32_t start) {
    for (int step = 0; step < MOST_STEPS && g->items[start].op == GRAMMAR_RULE && is_single(g, start); step++) {
        const GrammarRule *rule = &g->rules[g->items[start].value];
        if (rule->n != 1) break;
        start = rule->starts[0];
    }
    return start;
}

static bool same_item(GrammarItem a, GrammarItem b) {
    return a.op == b.op && a.value == b.value;
}

static int compare_sequences(const void *a, const void *b) {
    const GrammarItem *x = *(const GrammarItem *const *)a, *y = *(const GrammarItem *const *)b;
    while (x != y && same_item(*x, *y) && x->op != GRAMMAR_END) x++, y++;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static bool sort_alternatives(Grammar *g, GrammarRule *rule) {
    const GrammarItem **sequences = mem_array(rule->n, sizeof *sequences);
    if (!sequences) return false;
    for (uint32_t a = 0; a < rule->n; a++) sequences[a] = &g->items[rule->starts[a]];
    qsort(sequences, rule->n, sizeof *sequences, compare_sequences);
    for (uint32_t a = 0; a < rule->n; a++) rule->starts[a] = (uint32_t)(sequences[a] - g->items);
    mem_free(sequences);
    return true;
}

static size_t count_shared(const Grammar *g, uint32_t a, uint32_t b) {
    size_t n = 0;
    while (g->items[a + n].op != GRAMMAR_END && same_item(g->items[a + n], g->items[b + n])) n++;
    return n;
}

/* Alternatives low .. high of a sorted rule as one, put at the end of the items: what they share, and a rule of what
 * follows. */
static uint32_t share(Grammar *g, uint32_t rule, uint32_t low, uint32_t high) {
    uint32_t first = g->rules[rule].starts[low], start = (uint32_t)g->n_items, tails = grammar_rule(g);
    size_t n = count_shared(g, first, g->rules[rule].starts[high]);
    for (uint32_t a = low; a <= high; a++) grammar_alternative_at(g, tails, g->rules[rule].starts[a] + (uint32_t)n);
    for (size_t i = 0; i < n; i++) grammar_put_item(g, g->items[first + i]);
    grammar_put_rule(g, tails);
    grammar_end(g);
    return start;
}

static void share_beginnings(Grammar *g, uint32_t rule) {
    uint32_t kept = 0, n = g->rules[rule].n;
    for (uint32_t low = 0, high; low < n && !g->failed; low = high + 1) {
        uint32_t start = g->rules[rule].starts[low];
        GrammarItem first = g->items[start];
        for (high = low; high + 1 < n && same_item(first, g->items[g->rules[rule].starts[high + 1]]);) high++;
        if (high > low && first.op != GRAMMAR_END) start = share(g, rule, low, high);
        g->rules[rule].starts[kept++] = start;
    }
    if (!g->failed) g->rules[rule].n = kept;
}

void grammar_simplify(Grammar *g) {
    size_t n_sorted = g->n_rules; /* what is shared out of sorted alternatives is sorted, too */
    write_single_items(g);
    for (uint32_t r = 0; r < g->n_rules && !g->failed; r++) {
        GrammarRule *rule = &g->rules[r];
        for (uint32_t a = 0; a < rule->n; a++) rule->starts[a] = real_start(g, rule->starts[a]);
        if (rule->n < 2) continue;
        if (r < n_sorted && !sort_alternatives(g, rule)) g->failed = true;
        share_beginnings(g, r);
    }
}
