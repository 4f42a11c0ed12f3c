/* textwrap.wrap and pprint.pformat as CPython has them. wrap first cuts a line into chunks that must stay together
 * (runs of blanks, words, parts of hyphenated words, dashes) and then fills lines with whole chunks. */
#define _GNU_SOURCE
#include "text/jinja_wrap.h"
#include "base/utf8.h"
#include "text/jinja_unicode.h"

#include <string.h>

typedef struct Chunk {
    const uint32_t *text;
    size_t n;
} Chunk;

typedef struct Chunks {
    Chunk *items;
    size_t n, capacity;
} Chunks;

static bool blank(uint32_t c) {
    return c == '\t' || c == '\n' || c == 0x0B || c == 0x0C || c == '\r' || c == ' ';
}

static bool word(uint32_t c) {
    return c == '_' || (jinja_char_class(c) & CHAR_ALNUM);
}

/* A letter: a word character that is no digit. */
static bool letter(uint32_t c) {
    return word(c) && !(jinja_char_class(c) & CHAR_DECIMAL);
}

/* What may stand before a dash between words. */
static bool before_dash(uint32_t c) {
    return word(c) || (c < 128 && c && strchr("!\"'&.,?", (int)c));
}

static bool chunk_add(Run *run, Chunks *chunks, const uint32_t *text, size_t n) {
    if (chunks->n == chunks->capacity) {
        size_t capacity = chunks->capacity ? chunks->capacity * 2 : 16;
        Chunk *items = run_take(run, capacity, sizeof *items);
        if (!items) return false;
        if (chunks->n) memcpy(items, chunks->items, chunks->n * sizeof *items);
        chunks->items = items;
        chunks->capacity = capacity;
    }
    chunks->items[chunks->n++] = (Chunk){text, n};
    return true;
}

static size_t dashes(const uint32_t *s, size_t n, size_t at) {
    size_t end = at;
    while (end < n && s[end] == '-') end++;
    return end - at;
}

/* "--" between words at `at`: its length, or 0. */
static size_t em_dash(const uint32_t *s, size_t n, size_t at) {
    if (at == 0 || !before_dash(s[at - 1])) return 0;
    size_t length = dashes(s, n, at);
    return length >= 2 && at + length < n && word(s[at + length]) ? length : 0;
}

/* Whether a hyphen at `at` ends a chunk: letters around it, as in co-op or x-y-z. */
static bool splits_after(const uint32_t *s, size_t n, size_t at) {
    bool two = at >= 2 && letter(s[at - 1]) && letter(s[at - 2]);
    bool one = at >= 3 && letter(s[at - 1]) && s[at - 2] == '-' && letter(s[at - 3]);
    if (!two && !one) return false;
    if (at + 1 >= n || !letter(s[at + 1])) return false;
    size_t next = at + 2 + (at + 2 < n && s[at + 2] == '-');
    if (next < n && letter(s[next])) return true;
    return at + 2 < n && letter(s[at + 2]);
}

/* The end of the chunk that starts at `at`, with hyphens as places to break. */
static size_t chunk_end(const uint32_t *s, size_t n, size_t at) {
    if (blank(s[at])) {
        while (at < n && blank(s[at])) at++;
        return at;
    }
    size_t dash = em_dash(s, n, at);
    if (dash) return at + dash;
    for (size_t i = at + 1; i <= n; i++) {
        if (i < n && s[i] == '-' && splits_after(s, n, i)) return i + 1;
        if (i == n || blank(s[i])) return i;
        if (em_dash(s, n, i)) return i;
    }
    return n;
}

static size_t simple_end(const uint32_t *s, size_t n, size_t at) {
    bool is_blank = blank(s[at]);
    while (at < n && blank(s[at]) == is_blank) at++;
    return at;
}

static void append_chars(Buffer *out, const uint32_t *text, size_t n) {
    char bytes[4];
    for (size_t i = 0; i < n; i++) buffer_append(out, bytes, (size_t)utf8_encode(text[i], bytes));
}

static bool all_blank(Chunk c) {
    for (size_t i = 0; i < c.n; i++)
        if (!(jinja_char_class(c.text[i]) & CHAR_SPACE)) return false;
    return true;
}

/* How much of a chunk longer than the line goes onto it. */
static size_t long_cut(Chunk c, size_t room, bool hyphens) {
    if (!hyphens || c.n <= room) return room;
    for (size_t i = room; i-- > 0;) {
        if (c.text[i] != '-') continue;
        for (size_t k = 0; k < i; k++)
            if (c.text[k] != '-') return i + 1;
        break;
    }
    return room;
}

typedef struct Wrapper {
    Run *run;
    Chunks chunks;
    size_t width;
    bool long_words, hyphens;
    const String *joint;
    Buffer *out;
} Wrapper;

/* Takes chunks from *at on for one line; *first and *last tell which, *length how long it is. */
static void fill_line(Wrapper *w, size_t *at, bool has_lines, Chunks *line) {
    Chunk *items = w->chunks.items;
    size_t length = 0;
    line->n = 0;
    if (has_lines && *at < w->chunks.n && all_blank(items[*at])) (*at)++;
    while (*at < w->chunks.n && length + items[*at].n <= w->width) {
        length += items[*at].n;
        chunk_add(w->run, line, items[*at].text, items[*at].n);
        (*at)++;
    }
    if (*at < w->chunks.n && items[*at].n > w->width) {
        size_t room = w->width < 1 ? 1 : w->width - length;
        if (w->long_words) {
            size_t cut = long_cut(items[*at], room, w->hyphens);
            chunk_add(w->run, line, items[*at].text, cut);
            items[*at].text += cut;
            items[*at].n -= cut;
        } else if (line->n == 0) {
            chunk_add(w->run, line, items[*at].text, items[*at].n);
            (*at)++;
        }
    }
    if (line->n && all_blank(line->items[line->n - 1])) line->n--;
}

static bool wrap_chunks(Wrapper *w) {
    Chunks line = {0};
    bool has_lines = false;
    for (size_t at = 0; at < w->chunks.n;) {
        if (!run_charge(w->run, 4)) return false;
        fill_line(w, &at, has_lines, &line);
        if (w->run->failed) return false;
        if (!line.n) continue;
        if (has_lines) buffer_append(w->out, w->joint->data, w->joint->length);
        for (size_t i = 0; i < line.n; i++) append_chars(w->out, line.items[i].text, line.items[i].n);
        if (w->out->length > w->run->heap.limit) return run_memory(w->run);
        has_lines = true;
    }
    return true;
}

bool jinja_wrap(Run *run, const String *s, int64_t width, bool break_long_words, bool break_on_hyphens,
                const String *joint, Buffer *out) {
    if (width <= 0) return run_fail(run, "invalid width %lld (must be > 0)", (long long)width);
    uint32_t *text = run_take(run, s->chars + 1, sizeof *text);
    if (!text) return false;
    size_t n = 0;
    for (size_t i = 0; i < s->length;) {
        int bytes = utf8_decode(s->data + i, s->length - i, &text[n++]);
        i += bytes > 0 ? (size_t)bytes : 1;
    }
    Wrapper w = {.run = run,
                 .width = (size_t)width,
                 .long_words = break_long_words,
                 .hyphens = break_on_hyphens,
                 .joint = joint,
                 .out = out};
    for (size_t at = 0; at < n;) {
        size_t end = break_on_hyphens ? chunk_end(text, n, at) : simple_end(text, n, at);
        if (!chunk_add(run, &w.chunks, text + at, end - at)) return false;
        at = end;
    }
    return wrap_chunks(&w);
}

/* ---- pprint ---- */

enum { PPRINT_WIDTH = 80 };

typedef struct Printer {
    Run *run;
    Buffer *out;
} Printer;

static bool pretty(Printer *p, Value v, int64_t indent, int64_t allowance);

/* repr with the keys of dicts in order, as pprint shows small values. */
static bool flat(Printer *p, Buffer *out, Value v);

static bool sorted_entries(Run *run, const Dict *d, Value **out) {
    Value *order = run_take(run, d->n + 1, sizeof *order);
    if (!order) return false;
    for (uint32_t i = 0; i < d->n; i++) order[i] = value_int(i);
    *out = order;
    return jinja_sort(run, order, d->keys, d->n, false);
}

static bool flat_list(Printer *p, Buffer *out, Value v) {
    buffer_byte(out, v.type == V_LIST ? '[' : '(');
    for (size_t i = 0; i < v.list->n; i++) {
        if (i) buffer_text(out, ", ");
        if (!flat(p, out, v.list->items[i])) return false;
    }
    buffer_text(out, v.type == V_LIST ? "]" : v.list->n == 1 ? ",)" : ")");
    return true;
}

static bool flat_dict(Printer *p, Buffer *out, const Dict *d) {
    Value *order;
    if (!sorted_entries(p->run, d, &order)) return false;
    buffer_byte(out, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t at = order[i].integer;
        if (i) buffer_text(out, ", ");
        if (!flat(p, out, d->keys[at])) return false;
        buffer_text(out, ": ");
        if (!flat(p, out, d->values[at])) return false;
    }
    buffer_byte(out, '}');
    return true;
}

static bool flat(Printer *p, Buffer *out, Value v) {
    if (!run_enter(p->run) || !run_charge(p->run, 1)) return false;
    bool ok = v.type == V_DICT                        ? flat_dict(p, out, v.dict)
              : v.type == V_LIST || v.type == V_TUPLE ? flat_list(p, out, v)
                                                      : value_repr(p->run, out, v, 0);
    run_leave(p->run);
    return ok && (out->length < p->run->heap.limit || run_memory(p->run));
}

static void newline(Buffer *out, int64_t indent) {
    buffer_text(out, ",\n");
    for (int64_t i = 0; i < indent; i++) buffer_byte(out, ' ');
}

static bool pretty_items(Printer *p, Value v, int64_t indent, int64_t allowance) {
    const char *close = v.type == V_LIST ? "]" : v.list->n == 1 ? ",)" : ")";
    buffer_byte(p->out, v.type == V_LIST ? '[' : '(');
    for (size_t i = 0; i < v.list->n; i++) {
        bool last = i + 1 == v.list->n;
        if (i) newline(p->out, indent + 1);
        if (!pretty(p, v.list->items[i], indent + 1, last ? allowance + (int64_t)strlen(close) : 1)) return false;
    }
    buffer_text(p->out, close);
    return true;
}

static bool pretty_dict(Printer *p, const Dict *d, int64_t indent, int64_t allowance) {
    Value *order;
    if (!sorted_entries(p->run, d, &order)) return false;
    buffer_byte(p->out, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t at = order[i].integer;
        if (i) newline(p->out, indent + 1);
        size_t from = p->out->length;
        if (!flat(p, p->out, d->keys[at])) return false;
        buffer_text(p->out, ": ");
        size_t chars = utf8_count(p->out->data + from, p->out->length - from);
        if (!pretty(p, d->values[at], indent + 1 + (int64_t)chars, i + 1 == d->n ? allowance + 1 : 1)) return false;
    }
    buffer_byte(p->out, '}');
    return true;
}

/* pprint would break long strings over lines; that part is not here. */
static bool pretty(Printer *p, Value v, int64_t indent, int64_t allowance) {
    Buffer line = {0};
    bool ok = flat(p, &line, v);
    size_t chars = utf8_count(line.data, line.length);
    bool fits = (int64_t)chars <= PPRINT_WIDTH - indent - allowance;
    bool nested = (v.type == V_LIST || v.type == V_TUPLE || v.type == V_DICT) && line.length > 2;
    if (ok && (fits || (!nested && v.type != V_STRING))) buffer_append(p->out, buffer_string(&line), line.length);
    buffer_clear(&line);
    if (!ok || fits || (!nested && v.type != V_STRING)) return ok;
    if (v.type == V_STRING) return run_fail(p->run, "pprint of strings that need several lines is not supported");
    if (!run_enter(p->run)) return false;
    ok = v.type == V_DICT ? pretty_dict(p, v.dict, indent, allowance) : pretty_items(p, v, indent, allowance);
    run_leave(p->run);
    return ok;
}

bool jinja_pprint(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer text = {0};
    Printer p = {run, &text};
    if (pretty(&p, v, 0, 0)) return value_from_buffer(run, &text, false, out);
    buffer_clear(&text);
    return false;
}
