/* The back half of pattern.h. The bounds of all sets of a pattern cut the code points into intervals; intervals that
 * lie in the same sets are one class, and a class is one byte of the rewritten pattern and text. Every pattern in
 * published checkpoints has fewer than 60 classes. A two-level table takes a character to its class. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/pattern_parse.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CLASSES = 256,
    PAGE = 256,
    N_PAGES = CODE_END / PAGE,
    JIT_STACK_START = 64 << 10,
    JIT_STACK_MOST = 64 << 20, /* address space: touched only as deep as a match nests */
    MATCH_LIMIT = 200 << 20,   /* steps of one match; a run of n characters may take a few n */
    HEAP_LIMIT_KIB = 1 << 20,
};

struct Pattern {
    char *literal; /* NULL: an expression */
    size_t literal_length;
    pcre2_code *code;
    bool jit;
    unsigned char ascii[128];
    uint16_t page_of[N_PAGES];
    unsigned char (*pages)[PAGE];
};

/* ---- classes ---- */

typedef struct Classes {
    uint32_t *cuts; /* where intervals begin; cuts[0] is 0 */
    size_t n_cuts;
    unsigned char *class_of; /* per interval */
    uint64_t *signature;     /* [class][words]: which sets the class lies in */
    size_t words, n;
} Classes;

static void classes_clear(Classes *c) {
    mem_free(c->cuts);
    mem_free(c->class_of);
    mem_free(c->signature);
}

static int compare_codes(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool find_cuts(const PatternItems *items, Classes *c) {
    size_t total = 1;
    for (size_t i = 0; i < items->n_sets; i++) total += items->sets[i].n;
    c->cuts = mem_array(total, sizeof *c->cuts);
    if (!c->cuts) return false;
    size_t n = 0;
    c->cuts[n++] = 0;
    for (size_t i = 0; i < items->n_sets; i++) {
        for (size_t k = 0; k < items->sets[i].n; k++) c->cuts[n++] = items->sets[i].bounds[k];
    }
    qsort(c->cuts, n, sizeof *c->cuts, compare_codes);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || c->cuts[i] != c->cuts[c->n_cuts - 1]) c->cuts[c->n_cuts++] = c->cuts[i];
    }
    return true;
}

/* The class with that signature, a new one if there is none; -1 when there are too many. */
static int class_for(Classes *c, const uint64_t *signature) {
    for (size_t i = 0; i < c->n; i++) {
        if (memcmp(c->signature + i * c->words, signature, c->words * sizeof *signature) == 0) return (int)i;
    }
    if (c->n == MAX_CLASSES) return -1;
    memcpy(c->signature + c->n * c->words, signature, c->words * sizeof *signature);
    return (int)c->n++;
}

static bool find_classes(const PatternItems *items, Classes *c, Error *err) {
    c->words = items->n_sets / 64 + 1;
    uint64_t *signature = mem_zeroed(c->words, sizeof *signature);
    size_t *next = mem_zeroed(items->n_sets + 1, sizeof *next); /* per set: its next bound */
    bool ok = find_cuts(items, c) && signature && next;
    if (ok) c->class_of = mem_zeroed(c->n_cuts, 1);
    if (ok) c->signature = mem_zeroed(MAX_CLASSES * c->words, sizeof *c->signature);
    ok = ok && c->class_of && c->signature;
    if (!ok) error_memory(err, "a pattern");
    for (size_t i = 0; ok && i < c->n_cuts; i++) {
        for (size_t s = 0; s < items->n_sets; s++) {
            const CodeSet *set = &items->sets[s];
            if (next[s] == set->n || set->bounds[next[s]] != c->cuts[i]) continue;
            next[s]++;
            signature[s / 64] ^= 1ull << s % 64;
        }
        int class = class_for(c, signature);
        if (class < 0)
            ok = error_set(err, "the pattern tells more than %d kinds of characters apart", MAX_CLASSES);
        else
            c->class_of[i] = (unsigned char)class;
    }
    mem_free(signature);
    mem_free(next);
    return ok;
}

/* ---- the table from characters to classes ---- */

static bool page_add(Pattern *p, size_t *n_pages, const unsigned char *page, uint16_t *index) {
    for (size_t i = 0; i < *n_pages; i++) {
        if (memcmp(p->pages[i], page, PAGE) == 0) {
            *index = (uint16_t)i;
            return true;
        }
    }
    if ((*n_pages & (*n_pages - 1)) == 0) { /* full at every power of two */
        void *pages = mem_resize(p->pages, *n_pages ? *n_pages * 2 : 1, PAGE);
        if (!pages) return false;
        p->pages = pages;
    }
    memcpy(p->pages[*n_pages], page, PAGE);
    *index = (uint16_t)(*n_pages)++;
    return true;
}

static bool build_table(Pattern *p, const Classes *c) {
    size_t n_pages = 0, interval = 0;
    unsigned char page[PAGE];
    bool previous_uniform = false; /* long stretches repeat one page: do not search for it again */
    for (uint32_t i = 0; i < N_PAGES; i++) {
        uint32_t first = i * PAGE;
        bool uniform = interval + 1 == c->n_cuts || c->cuts[interval + 1] >= first + PAGE;
        if (uniform && previous_uniform && page[0] == c->class_of[interval]) {
            p->page_of[i] = p->page_of[i - 1];
            continue;
        }
        for (uint32_t k = 0; k < PAGE; k++) {
            while (interval + 1 < c->n_cuts && c->cuts[interval + 1] <= first + k) interval++;
            page[k] = c->class_of[interval];
        }
        if (!page_add(p, &n_pages, page, &p->page_of[i])) return false;
        previous_uniform = uniform;
    }
    memcpy(p->ascii, p->pages[p->page_of[0]], sizeof p->ascii);
    return true;
}

/* ---- the rewritten pattern ---- */

static void write_class(Buffer *out, const Classes *c, int set) {
    buffer_byte(out, '[');
    size_t before = out->length;
    for (size_t i = 0; i < c->n; i++) {
        if (!(c->signature[i * c->words + (size_t)set / 64] >> (set % 64) & 1)) continue;
        size_t last = i;
        while (last + 1 < c->n && (c->signature[(last + 1) * c->words + (size_t)set / 64] >> (set % 64) & 1)) last++;
        buffer_printf(out, last > i ? "\\x%02zx-\\x%02zx" : "\\x%02zx", i, last);
        i = last;
    }
    if (out->length == before) buffer_text(out, "^\\x00-\\xff"); /* no character at all */
    buffer_byte(out, ']');
}

static void write_pattern(Buffer *out, const PatternItems *items, const Classes *c) {
    for (size_t i = 0; i < items->n; i++) {
        const PatternItem *item = &items->items[i];
        if (item->set >= 0)
            write_class(out, c, item->set);
        else if (item->syntax)
            buffer_text(out, item->syntax);
        else if (item->high == UINT32_MAX)
            buffer_printf(out, "{%u,}", item->low);
        else
            buffer_printf(out, "{%u,%u}", item->low, item->high);
    }
}

static void *give(size_t bytes, void *data) {
    (void)data;
    return mem_array(bytes, 1);
}

static void take_back(void *p, void *data) {
    (void)data;
    mem_free(p);
}

static bool compile(Pattern *p, const Buffer *text, Error *err) {
    if (text->failed) return error_memory(err, "a pattern");
    pcre2_general_context *general = pcre2_general_context_create(give, take_back, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    int code = 0;
    PCRE2_SIZE offset;
    if (context)
        p->code =
            pcre2_compile((PCRE2_SPTR)buffer_string(text), text->length, PCRE2_NEVER_UTF, &code, &offset, context);
    bool ok = p->code != NULL;
    if (!context) {
        error_memory(err, "a pattern");
    } else if (!ok) {
        char message[160] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        error_set(err, "the pattern cannot be used: %s", message);
    } else {
        p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0; /* else pcre2 interprets: slower, same result */
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return ok;
}

Pattern *pattern_new(const char *source, size_t n, Error *err) {
    PatternItems items;
    if (!pattern_parse(source, n, &items, err)) return NULL;
    Classes classes = {0};
    Buffer text = {0};
    Pattern *p = mem_zeroed(1, sizeof *p);
    bool ok = p || error_memory(err, "a pattern");
    ok = ok && find_classes(&items, &classes, err);
    ok = ok && (build_table(p, &classes) || error_memory(err, "a pattern"));
    if (ok) write_pattern(&text, &items, &classes);
    ok = ok && compile(p, &text, err);
    buffer_clear(&text);
    classes_clear(&classes);
    pattern_items_clear(&items);
    if (ok) return p;
    pattern_free(p);
    return NULL;
}

Pattern *pattern_literal(const char *text, size_t n, Error *err) {
    if (n == 0) {
        error_set(err, "an empty pattern");
        return NULL;
    }
    Pattern *p = mem_zeroed(1, sizeof *p);
    if (p) p->literal = mem_string(text, n);
    if (!p || !p->literal) {
        mem_free(p);
        error_memory(err, "a pattern");
        return NULL;
    }
    p->literal_length = n;
    return p;
}

void pattern_free(Pattern *p) {
    if (!p) return;
    mem_free(p->literal);
    pcre2_code_free(p->code);
    mem_free(p->pages);
    mem_free(p);
}

/* ---- matching ---- */

void pattern_scratch_clear(PatternScratch *s) {
    buffer_clear(&s->subject);
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (PatternScratch){0};
}

static bool scratch_prepare(PatternScratch *s) {
    if (s->context) return true;
    pcre2_general_context *general = pcre2_general_context_create(give, take_back, NULL);
    if (!general) return false;
    s->match = pcre2_match_data_create(1, general);
    s->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MOST, general); /* NULL: the machine's stack must do */
    s->context = s->match ? pcre2_match_context_create(general) : NULL;
    pcre2_general_context_free(general);
    if (!s->context) return false;
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return true;
}

bool span_push(SpanList *list, size_t end, bool match) {
    Span *items = mem_room(list->items, list->n, &list->capacity, sizeof *items);
    if (!items) return false;
    list->items = items;
    list->items[list->n++] = (Span){end, match};
    return true;
}

void span_clear(SpanList *list) {
    mem_free(list->items);
    *list = (SpanList){0};
}

static bool literal_spans(const Pattern *p, const char *text, size_t n, SpanList *out) {
    size_t done = 0, i = 0;
    while (n - i >= p->literal_length) {
        const char *found = memchr(text + i, p->literal[0], n - i - p->literal_length + 1);
        if (!found) break;
        i = (size_t)(found - text);
        if (memcmp(found, p->literal, p->literal_length) != 0) {
            i++;
            continue;
        }
        if (i > done && !span_push(out, i, false)) return false;
        i = done = i + p->literal_length;
        if (!span_push(out, done, true)) return false;
    }
    return done == n || span_push(out, n, false);
}

/* Rewrites the text into scratch->subject, one byte per character; returns how many, SIZE_MAX when out of memory. */
static size_t rewrite(const Pattern *p, PatternScratch *scratch, const char *text, size_t n) {
    buffer_reset(&scratch->subject);
    if (!buffer_reserve(&scratch->subject, n)) return SIZE_MAX;
    unsigned char *out = (unsigned char *)scratch->subject.data, *start = out;
    size_t i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x80) {
            *out++ = p->ascii[c];
            i++;
            continue;
        }
        uint32_t code = 0xFFFD;
        int length = utf8_decode(text + i, n - i, &code);
        i += length ? (size_t)length : 1;
        *out++ = p->pages[p->page_of[code / PAGE]][code % PAGE];
    }
    return (size_t)(out - start);
}

/* The byte offset of character `to`, given that of character `from` <= `to`; the text is valid UTF-8. */
static size_t advance(const char *text, size_t offset, size_t from, size_t to) {
    for (; from < to; from++) {
        unsigned char lead = (unsigned char)text[offset];
        offset += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    }
    return offset;
}

/* A match at or after `from`: true and *first, *end. *failed on an error. */
static bool next_match(const Pattern *p, PatternScratch *s, size_t n, size_t from, size_t *first, size_t *end,
                       Error *err, bool *failed) {
    PCRE2_SPTR subject = (PCRE2_SPTR)s->subject.data;
    int rc = p->jit ? pcre2_jit_match(p->code, subject, n, from, 0, s->match, s->context)
                    : pcre2_match(p->code, subject, n, from, 0, s->match, s->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, subject, n, from, PCRE2_NO_JIT, s->match, s->context);
    *failed = rc < 0 && rc != PCRE2_ERROR_NOMATCH;
    if (*failed) {
        char message[160] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)message, sizeof message);
        error_set(err, "a pattern of the tokenizer gave up on a text of %zu characters: %s", n, message);
    }
    if (rc < 0) return false;
    PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->match);
    *first = ends[0];
    *end = ends[1];
    return true;
}

static bool expression_spans(const Pattern *p, PatternScratch *s, const char *text, size_t n, SpanList *out,
                             Error *err) {
    size_t n_characters = scratch_prepare(s) ? rewrite(p, s, text, n) : SIZE_MAX;
    if (n_characters == SIZE_MAX) return error_memory(err, "a pattern's subject");
    bool narrow = n_characters == n; /* then characters are bytes */
    size_t at = 0, at_byte = 0, from = 0, first, end;
    bool failed = false, any = false;
    while (from <= n_characters && next_match(p, s, n_characters, from, &first, &end, err, &failed)) {
        if (any && first == end && end == at) { /* no empty match right behind a match */
            from++;
            continue;
        }
        size_t first_byte = narrow ? first : advance(text, at_byte, at, first);
        size_t end_byte = narrow ? end : advance(text, first_byte, first, end);
        if (first_byte > at_byte && !span_push(out, first_byte, false)) return error_memory(err, "spans");
        if (!span_push(out, end_byte, true)) return error_memory(err, "spans");
        any = true;
        from = at = end;
        at_byte = end_byte;
    }
    if (from <= n_characters && failed) return false;
    return at_byte == n || span_push(out, n, false) || error_memory(err, "spans");
}

bool pattern_spans(const Pattern *p, PatternScratch *scratch, const char *text, size_t n, SpanList *out, Error *err) {
    out->n = 0;
    if (n == 0) return span_push(out, 0, false) || error_memory(err, "spans");
    if (p->literal) return literal_spans(p, text, n, out) || error_memory(err, "spans");
    return expression_spans(p, scratch, text, n, out, err);
}
