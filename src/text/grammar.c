/* Rules and items lie in two arrays, so that a place in a grammar is a number.
 *
 * The run expands the first item of every alternative until it meets bytes; a rule that can come back to itself before
 * it has taken a byte would expand for ever, so such a grammar is refused here. */
#include "text/grammar.h"
#include "text/grammar_build.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

Grammar *grammar_new(void) {
    Grammar *g = mem_zeroed(1, sizeof *g);
    if (g) g->owners = 1;
    return g;
}

void grammar_free(const Grammar *shared) {
    Grammar *g = (Grammar *)shared;
    if (!g || __atomic_sub_fetch(&g->owners, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (size_t i = 0; i < g->n_rules; i++) mem_free(g->rules[i].starts);
    mem_free(g->rules);
    mem_free(g->items);
    mem_free(g->sets);
    mem_free(g->set_next);
    mem_free(g);
}

Grammar *grammar_hold(const Grammar *shared) {
    Grammar *g = (Grammar *)shared;
    __atomic_add_fetch(&g->owners, 1, __ATOMIC_RELAXED);
    return g;
}

/* ---- building ---- */

void grammar_put_item(Grammar *g, GrammarItem item) {
    if (g->failed) return;
    GrammarItem *items =
        g->n_items < GRAMMAR_MOST_ITEMS ? mem_room(g->items, g->n_items, &g->item_capacity, sizeof *items) : NULL;
    if (!items) {
        g->failed = true;
        return;
    }
    g->items = items;
    items[g->n_items++] = item;
}

static void put_item(Grammar *g, GrammarOp op, uint32_t value) {
    grammar_put_item(g, (GrammarItem){.op = op, .value = value & 0x3FFFFFFF});
}

uint32_t grammar_rule(Grammar *g) {
    GrammarRule *rules = g->failed ? NULL : mem_room(g->rules, g->n_rules, &g->rule_capacity, sizeof *rules);
    if (!rules) {
        g->failed = true;
        return 0;
    }
    g->rules = rules;
    rules[g->n_rules] = (GrammarRule){0};
    return (uint32_t)g->n_rules++;
}

void grammar_alternative_at(Grammar *g, uint32_t rule, uint32_t start) {
    if (g->failed) return;
    GrammarRule *r = &g->rules[rule];
    size_t capacity = r->capacity;
    uint32_t *starts = mem_room(r->starts, r->n, &capacity, sizeof *starts);
    if (!starts) {
        g->failed = true;
        return;
    }
    r->starts = starts;
    r->capacity = (uint32_t)capacity;
    starts[r->n++] = start;
}

void grammar_alternative(Grammar *g, uint32_t rule) {
    grammar_alternative_at(g, rule, (uint32_t)g->n_items);
}

void grammar_put_rule(Grammar *g, uint32_t rule) {
    put_item(g, GRAMMAR_RULE, rule);
}

void grammar_end(Grammar *g) {
    put_item(g, GRAMMAR_END, 0);
}

static uint32_t *set_head(Grammar *g, const ByteSet *set) {
    uint64_t hash = 0;
    for (int w = 0; w < 8; w++) hash = (hash ^ set->bits[w]) * 0x9E3779B97F4A7C15u;
    return &g->set_heads[(hash >> 32) % GRAMMAR_SET_HEADS];
}

/* Number 0 is no set, so that an empty chain is 0. */
static uint32_t add_set(Grammar *g, const ByteSet *set, uint32_t *head) {
    ByteSet *sets = mem_room(g->sets, g->n_sets, &g->set_capacity, sizeof *sets);
    if (sets) g->sets = sets;
    uint32_t *next = mem_room(g->set_next, g->n_sets, &g->next_capacity, sizeof *next);
    if (next) g->set_next = next;
    if (!sets || !next) {
        g->failed = true;
        return 0;
    }
    if (g->n_sets == 0) g->n_sets = 1;
    sets[g->n_sets] = *set;
    next[g->n_sets] = *head;
    *head = (uint32_t)g->n_sets;
    return (uint32_t)g->n_sets++;
}

/* Equal sets are one. */
void grammar_put_set(Grammar *g, const ByteSet *set) {
    uint32_t *head = set_head(g, set), i = *head;
    if (g->failed) return;
    while (i && memcmp(&g->sets[i], set, sizeof *set) != 0) i = g->set_next[i];
    if (!i) i = add_set(g, set, head);
    put_item(g, GRAMMAR_BYTES, i);
}

static void put_bytes(Grammar *g, unsigned low, unsigned high) {
    ByteSet set = {{0}};
    for (unsigned b = low; b <= high; b++) set.bits[b / 32] |= 1u << b % 32;
    grammar_put_set(g, &set);
}

void grammar_put_text(Grammar *g, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) put_bytes(g, (unsigned char)text[i], (unsigned char)text[i]);
}

uint32_t grammar_text(Grammar *g, const char *text, size_t n) {
    uint32_t rule = grammar_rule(g);
    grammar_alternative(g, rule);
    grammar_put_text(g, text, n);
    grammar_end(g);
    return rule;
}

uint32_t grammar_empty(Grammar *g) {
    return grammar_text(g, "", 0);
}

uint32_t grammar_sequence(Grammar *g, const uint32_t *rules, size_t n) {
    uint32_t rule = grammar_rule(g);
    grammar_alternative(g, rule);
    for (size_t i = 0; i < n; i++) grammar_put_rule(g, rules[i]);
    grammar_end(g);
    return rule;
}

uint32_t grammar_choice(Grammar *g, const uint32_t *rules, size_t n) {
    uint32_t rule = grammar_rule(g);
    for (size_t i = 0; i < n; i++) {
        grammar_alternative(g, rule);
        grammar_put_rule(g, rules[i]);
        grammar_end(g);
    }
    return rule;
}

void rule_list_push(Grammar *g, RuleList *l, uint32_t rule) {
    uint32_t *rules = mem_room(l->rules, l->n, &l->capacity, sizeof *rules);
    if (!rules) {
        g->failed = true;
        return;
    }
    l->rules = rules;
    rules[l->n++] = rule;
}

static uint32_t rule_list_end(RuleList *l, uint32_t rule) {
    mem_free(l->rules);
    *l = (RuleList){0};
    return rule;
}

uint32_t rule_list_sequence(Grammar *g, RuleList *l) {
    return rule_list_end(l, l->n == 1 ? l->rules[0] : grammar_sequence(g, l->rules, l->n));
}

uint32_t rule_list_choice(Grammar *g, RuleList *l) {
    return rule_list_end(l, l->n == 1 ? l->rules[0] : grammar_choice(g, l->rules, l->n));
}

/* rest(k) = (x rest(k - 1))?, so that what may follow is one place in the grammar however many were taken. */
static uint32_t repeat_at_most(Grammar *g, uint32_t rule, int most) {
    uint32_t rest = grammar_empty(g);
    for (int i = 0; i < most && !g->failed; i++) {
        uint32_t next = grammar_rule(g);
        grammar_alternative(g, next);
        grammar_put_rule(g, rule);
        grammar_put_rule(g, rest);
        grammar_end(g);
        grammar_alternative(g, next);
        grammar_end(g);
        rest = next;
    }
    return rest;
}

static uint32_t repeat_for_ever(Grammar *g, uint32_t rule) {
    uint32_t rest = grammar_rule(g);
    grammar_alternative(g, rest);
    grammar_put_rule(g, rule);
    grammar_put_rule(g, rest);
    grammar_end(g);
    grammar_alternative(g, rest);
    grammar_end(g);
    return rest;
}

uint32_t grammar_repeat(Grammar *g, uint32_t rule, int least, int most) {
    uint32_t rest = most < 0 ? repeat_for_ever(g, rule) : repeat_at_most(g, rule, most - least);
    uint32_t whole = grammar_rule(g);
    grammar_alternative(g, whole);
    for (int i = 0; i < least && !g->failed; i++) grammar_put_rule(g, rule);
    grammar_put_rule(g, rest);
    grammar_end(g);
    return whole;
}

/* ---- code points as bytes ---- */

void ranges_add(CodeRanges *r, uint32_t low, uint32_t high) {
    uint32_t(*items)[2] = r->failed ? NULL : mem_room(r->items, r->n, &r->capacity, sizeof *items);
    if (!items) {
        r->failed = true;
        return;
    }
    r->items = items;
    items[r->n][0] = low;
    items[r->n++][1] = high;
}

void ranges_clear(CodeRanges *r) {
    mem_free(r->items);
    *r = (CodeRanges){0};
}

static int compare_ranges(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void ranges_sort(CodeRanges *r) {
    size_t kept = 0;
    if (r->n == 0) return;
    qsort(r->items, r->n, sizeof *r->items, compare_ranges);
    for (size_t i = 1; i < r->n; i++) {
        if (r->items[i][0] <= r->items[kept][1] + 1) {
            if (r->items[i][1] > r->items[kept][1]) r->items[kept][1] = r->items[i][1];
        } else {
            kept++;
            r->items[kept][0] = r->items[i][0];
            r->items[kept][1] = r->items[i][1];
        }
    }
    r->n = kept + 1;
}

void ranges_invert(CodeRanges *r) {
    CodeRanges out = {0};
    uint32_t next = 0;
    ranges_add(r, 0xD800, 0xDFFF);
    ranges_sort(r);
    for (size_t i = 0; i < r->n; i++) {
        if (r->items[i][0] > next) ranges_add(&out, next, r->items[i][0] - 1);
        next = r->items[i][1] + 1;
    }
    if (next <= 0x10FFFF) ranges_add(&out, next, 0x10FFFF);
    out.failed |= r->failed;
    ranges_clear(r);
    *r = out;
}

static int utf8_bytes(uint32_t code, unsigned char out[4]) {
    if (code < 0x80) return out[0] = (unsigned char)code, 1;
    int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (unsigned char)(0x80 | (code & 0x3F));
    out[0] = (unsigned char)((0xF00 >> n & 0xFF) | code);
    return n;
}

/* Code points low .. high of one length in UTF-8 whose bytes are a range at every place. */
static void put_utf8(Grammar *g, uint32_t rule, uint32_t low, uint32_t high) {
    unsigned char a[4], b[4];
    int n = utf8_bytes(low, a);
    utf8_bytes(high, b);
    grammar_alternative(g, rule);
    for (int i = 0; i < n; i++) put_bytes(g, a[i], b[i]);
    grammar_end(g);
}

/* Splits where the length changes, and where bytes after the first that differs do not run over their whole range. */
static void put_range(Grammar *g, uint32_t rule, uint32_t low, uint32_t high) {
    static const uint32_t lengths[] = {0x7F, 0x7FF, 0xFFFF};
    for (int i = 0; i < 3; i++)
        if (low <= lengths[i] && high > lengths[i]) {
            put_range(g, rule, low, lengths[i]);
            put_range(g, rule, lengths[i] + 1, high);
            return;
        }
    for (int shift = 6; high >= 0x80 && shift <= 18; shift += 6) {
        uint32_t mask = (1u << shift) - 1;
        if ((low & ~mask) == (high & ~mask)) break;
        if ((low & mask) != 0) {
            put_range(g, rule, low, low | mask);
            put_range(g, rule, (low | mask) + 1, high);
            return;
        }
        if ((high & mask) != mask) {
            put_range(g, rule, low, (high & ~mask) - 1);
            put_range(g, rule, high & ~mask, high);
            return;
        }
    }
    put_utf8(g, rule, low, high);
}

uint32_t grammar_codes(Grammar *g, const uint32_t (*ranges)[2], size_t n) {
    uint32_t rule = grammar_rule(g);
    ByteSet ascii = {{0}};
    bool any = false;
    for (size_t i = 0; i < n; i++) /* most sets are of ASCII: one alternative for all of it */
        for (uint32_t c = ranges[i][0]; c <= ranges[i][1] && c < 0x80; c++) {
            ascii.bits[c / 32] |= 1u << c % 32;
            any = true;
        }
    if (any) {
        grammar_alternative(g, rule);
        grammar_put_set(g, &ascii);
        grammar_end(g);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t low = ranges[i][0] < 0x80 ? 0x80 : ranges[i][0], high = ranges[i][1];
        if (low > high) continue;
        if (low < 0xD800 && high > 0xDFFF) {
            put_range(g, rule, low, 0xD7FF);
            put_range(g, rule, 0xE000, high);
        } else if (high < 0xD800 || low > 0xDFFF) {
            put_range(g, rule, low, high);
        }
    }
    return rule;
}

/* ---- checking ---- */

/* The alternatives of all rules, and for each rule those that it stands in. */
typedef struct Ways {
    uint32_t *rule, *left; /* [n] whose alternative it is, and how many rules in it are not completed; NEVER */
    uint32_t *first, *use; /* rule r stands in use[first[r]] .. use[first[r + 1]] */
    uint32_t *todo;        /* [rules] completed, their uses not looked at */
    size_t n, n_uses, n_todo;
} Ways;

enum { NEVER = UINT32_MAX };

static void ways_clear(Ways *w) {
    mem_free(w->rule);
    mem_free(w->left);
    mem_free(w->first);
    mem_free(w->use);
    mem_free(w->todo);
}

/* Alternatives may share items, so they can be longer than all items: then it is too large. */
static bool count_uses(const Grammar *g, Ways *w) {
    for (size_t r = 0; r < g->n_rules; r++)
        for (uint32_t a = 0; a < g->rules[r].n; a++, w->n++)
            for (const GrammarItem *i = &g->items[g->rules[r].starts[a]]; i->op != GRAMMAR_END; i++) {
                if (++w->n_uses > 2 * (size_t)GRAMMAR_MOST_ITEMS) return false;
                if (i->op == GRAMMAR_RULE) w->first[i->value]++;
            }
    for (size_t r = 0, n = 0; r <= g->n_rules; r++) w->first[r] = (uint32_t)(n += w->first[r]);
    return true;
}

/* Fills from the end of each rule's uses, so that `first` comes to stand at their beginning. */
static void list_uses(const Grammar *g, Ways *w, bool empty) {
    uint32_t way = 0;
    for (uint32_t r = 0; r < g->n_rules; r++)
        for (uint32_t a = 0; a < g->rules[r].n; a++, way++) {
            bool never = false;
            uint32_t left = 0;
            for (const GrammarItem *i = &g->items[g->rules[r].starts[a]]; i->op != GRAMMAR_END; i++) {
                if (i->op == GRAMMAR_RULE)
                    w->use[--w->first[i->value]] = way, left++;
                else
                    never |= empty || set_is_empty(&g->sets[i->value]);
            }
            w->rule[way] = r;
            w->left[way] = never ? NEVER : left;
        }
}

static void complete(Ways *w, uint32_t rule, bool *done) {
    if (done[rule]) return;
    done[rule] = true;
    w->todo[w->n_todo++] = rule;
}

/* Which rules can be completed, by nothing (`empty`) or by any text: those with an alternative of nothing else. Each
 * use of a rule is looked at once. */
static bool find_completed(const Grammar *g, bool empty, bool *done) {
    Ways w = {.first = mem_zeroed(g->n_rules + 1, sizeof *w.first), .todo = mem_array(g->n_rules, sizeof *w.todo)};
    bool ok = w.first && w.todo && count_uses(g, &w) && (w.rule = mem_array(w.n, sizeof *w.rule)) &&
              (w.left = mem_array(w.n, sizeof *w.left)) && (w.use = mem_array(w.n_uses, sizeof *w.use));
    if (ok) list_uses(g, &w, empty);
    for (size_t way = 0; ok && way < w.n; way++)
        if (w.left[way] == 0) complete(&w, w.rule[way], done);
    while (w.n_todo > 0) {
        uint32_t r = w.todo[--w.n_todo];
        for (uint32_t u = w.first[r]; u < w.first[r + 1]; u++) {
            uint32_t way = w.use[u];
            if (w.left[way] != NEVER && --w.left[way] == 0) complete(&w, w.rule[way], done);
        }
    }
    ways_clear(&w);
    return ok;
}

/* Whether a rule can come back to itself before a byte; mark: 1 on the way, 2 done. The way is as deep as there are
 * rules, so it is kept in an array. */
typedef struct Way {
    uint32_t rule, alternative, item;
} Way;

static bool begins_with_itself(const Grammar *g, const bool *empty, uint8_t *mark, Way *way, uint32_t start) {
    size_t n = 0;
    way[n++] = (Way){start, 0, 0};
    mark[start] = 1;
    while (n > 0) {
        Way *w = &way[n - 1];
        const GrammarRule *r = &g->rules[w->rule];
        if (w->alternative == r->n) {
            mark[w->rule] = 2;
            n--;
            continue;
        }
        const GrammarItem *i = &g->items[r->starts[w->alternative] + w->item];
        bool goes_on = i->op == GRAMMAR_RULE && empty[i->value];
        w->item = goes_on ? w->item + 1 : 0;
        w->alternative += !goes_on;
        if (i->op != GRAMMAR_RULE || mark[i->value] == 2) continue;
        if (mark[i->value] == 1) return true;
        mark[i->value] = 1;
        way[n++] = (Way){i->value, 0, 0};
    }
    return false;
}

/* Whether what follows from an item to its sequence's end can come to an end. */
static bool can_be_done(const Grammar *g, const bool *done, const GrammarItem *i) {
    for (; i->op != GRAMMAR_END; i++)
        if (i->op == GRAMMAR_RULE ? !done[i->value] : set_is_empty(&g->sets[i->value])) return false;
    return true;
}

/* Drops the alternatives that no text can complete, so that whoever followed the grammar so far can always reach its
 * end. */
static bool drop_endless(Grammar *g) {
    bool *done = mem_zeroed(g->n_rules, sizeof *done);
    if (!done || !find_completed(g, false, done)) {
        mem_free(done);
        return false;
    }
    for (size_t r = 0; r < g->n_rules; r++) {
        GrammarRule *rule = &g->rules[r];
        uint32_t kept = 0;
        for (uint32_t a = 0; a < rule->n; a++)
            if (can_be_done(g, done, &g->items[rule->starts[a]])) rule->starts[kept++] = rule->starts[a];
        rule->n = kept;
    }
    mem_free(done);
    return true;
}

static bool check(const Grammar *g, Error *err) {
    bool *empty = mem_zeroed(g->n_rules, sizeof *empty);
    uint8_t *mark = mem_zeroed(g->n_rules, 1);
    Way *way = mem_array(g->n_rules, sizeof *way);
    bool ok = (empty && mark && way && find_completed(g, true, empty)) || error_memory(err, "a grammar");
    for (uint32_t r = 0; ok && r < g->n_rules; r++)
        if (mark[r] == 0 && begins_with_itself(g, empty, mark, way, r))
            ok = error_set(err, "a rule begins with itself, which is not supported: put what repeats at its end");
    mem_free(empty);
    mem_free(mark);
    mem_free(way);
    return ok;
}

Grammar *grammar_finish(Grammar *g, uint32_t root, Error *err) {
    g->root = root;
    bool ok = !g->failed && (drop_endless(g) || error_memory(err, "a grammar"));
    if (ok && g->rules[root].n == 0) ok = error_set(err, "no text fits the grammar");
    ok = ok && check(g, err);
    if (ok) grammar_simplify(g);
    if (g->failed)
        ok = error_set(err, g->n_items >= GRAMMAR_MOST_ITEMS ? "the grammar is too large" : "out of memory: a grammar");
    if (ok && grammar_can_start(g, err)) return g;
    grammar_free(g);
    return NULL;
}

Grammar *grammar_from_choices(const JsonValue *texts, Error *err) {
    Grammar *g = grammar_new();
    if (!g) {
        error_memory(err, "a grammar");
        return NULL;
    }
    uint32_t root = grammar_rule(g);
    bool ok = texts && texts->type == JSON_ARRAY && texts->length > 0;
    for (uint32_t i = 0; ok && i < texts->length; i++) {
        const JsonValue *v = json_item(texts, i);
        ok = v->type == JSON_STRING && v->length > 0;
        if (!ok) break;
        grammar_alternative(g, root);
        grammar_put_text(g, v->text, v->length);
        grammar_end(g);
    }
    if (ok) return grammar_finish(g, root, err);
    error_set(err, "the choices must be a list of texts that are not empty");
    grammar_free(g);
    return NULL;
}
