/* Methods of strings that search, cut and join, with Python's argument rules. Positions are code points; the bytes are
 * UTF-8, in which a substring match is always a match of whole characters. A safe string (Markup) gives safe results.
 */
#define _GNU_SOURCE
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

typedef struct Piece {
    const char *data;
    size_t length;
} Piece;

static bool make(Run *run, Piece p, bool safe, Value *out) {
    return value_text_safe(run, p.data, p.length, safe, out);
}

static bool given(Value v) {
    return v.type != V_MISSING && v.type != V_NONE;
}

/* The first and last character of a text. */
static uint32_t first_char(Piece p, size_t *bytes) {
    uint32_t code = 0;
    int n = utf8_decode(p.data, p.length, &code);
    *bytes = n > 0 ? (size_t)n : p.length;
    return code;
}

static uint32_t last_char(Piece p, size_t *bytes) {
    size_t at = p.length - 1;
    while (at > 0 && ((unsigned char)p.data[at] & 0xC0) == 0x80) at--;
    *bytes = p.length - at;
    uint32_t code = 0;
    utf8_decode(p.data + at, *bytes, &code);
    return code;
}

static bool is_space(uint32_t code) {
    return code < 128 ? (code >= 9 && code <= 13) || (code >= 28 && code <= 32)
                      : (jinja_char_class(code) & CHAR_SPACE) != 0;
}

/* ---- strip ---- */

static bool in_set(const String *set, uint32_t code, const char *bytes, size_t n) {
    return set ? memmem(set->data, set->length, bytes, n) != NULL : is_space(code);
}

static bool strip(Run *run, Value self, Value chars, bool left, bool right, Value *out) {
    const String *set = NULL;
    if (given(chars) && !arg_text(run, chars, "strip arg", &set)) return false;
    Piece p = {self.string->data, self.string->length};
    size_t n = 0;
    while (left && p.length) {
        uint32_t code = first_char(p, &n);
        if (!in_set(set, code, p.data, n)) break;
        p.data += n;
        p.length -= n;
    }
    while (right && p.length) {
        uint32_t code = last_char(p, &n);
        if (!in_set(set, code, p.data + p.length - n, n)) break;
        p.length -= n;
    }
    return make(run, p, self.string->safe, out);
}

static bool str_strip(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return strip(run, self, argv[0], true, true, out);
}
static bool str_lstrip(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return strip(run, self, argv[0], true, false, out);
}
static bool str_rstrip(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return strip(run, self, argv[0], false, true, out);
}

/* ---- split ---- */

typedef struct Splitter {
    Run *run;
    List *parts;
    bool safe;
} Splitter;

static bool add_part(Splitter *s, const char *data, size_t length) {
    Value v;
    return make(s->run, (Piece){data, length}, s->safe, &v) && value_list_add(s->run, s->parts, v);
}

static bool split_space(Splitter *s, Piece p, int64_t max) {
    size_t n;
    for (;;) {
        while (p.length && is_space(first_char(p, &n))) {
            p.data += n;
            p.length -= n;
        }
        if (!p.length) return true;
        if (max-- == 0) return add_part(s, p.data, p.length);
        size_t word = 0;
        Piece rest = p;
        while (rest.length && !is_space(first_char(rest, &n))) {
            rest.data += n;
            rest.length -= n;
            word += n;
        }
        if (!add_part(s, p.data, word)) return false;
        p = rest;
    }
}

static bool rsplit_space(Splitter *s, Piece p, int64_t max) {
    size_t n;
    for (;;) {
        while (p.length && is_space(last_char(p, &n))) p.length -= n;
        if (!p.length) return true;
        if (max-- == 0) return add_part(s, p.data, p.length);
        size_t end = p.length;
        while (p.length && !is_space(last_char(p, &n))) p.length -= n;
        if (!add_part(s, p.data + p.length, end - p.length)) return false;
    }
}

static bool split_by(Splitter *s, Piece p, const String *sep, int64_t max) {
    const char *at;
    while (max-- != 0 && (at = memmem(p.data, p.length, sep->data, sep->length))) {
        size_t n = (size_t)(at - p.data);
        if (!add_part(s, p.data, n)) return false;
        p.data += n + sep->length;
        p.length -= n + sep->length;
    }
    return add_part(s, p.data, p.length);
}

/* The last match of sep in p, or NULL. */
static const char *find_back(Piece p, const char *sep, size_t length) {
    if (p.length < length) return NULL;
    for (size_t at = p.length - length + 1; at-- > 0;)
        if (memcmp(p.data + at, sep, length) == 0) return p.data + at;
    return NULL;
}

static bool rsplit_by(Splitter *s, Piece p, const String *sep, int64_t max) {
    const char *at;
    while (max-- != 0 && (at = find_back(p, sep->data, sep->length))) {
        size_t n = (size_t)(at - p.data);
        if (!add_part(s, at + sep->length, p.length - n - sep->length)) return false;
        p.length = n;
    }
    return add_part(s, p.data, p.length);
}

static void reverse_list(List *list) {
    for (size_t i = 0; i < list->n / 2; i++) {
        Value v = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = v;
    }
}

static bool split(Run *run, Value self, const Value *argv, bool from_right, Value *out) {
    const String *sep = NULL;
    int64_t max = -1;
    Piece p = {self.string->data, self.string->length};
    Splitter s = {run, value_list_new(run, 0), self.string->safe};
    if (!s.parts || (given(argv[0]) && !arg_text(run, argv[0], "separator", &sep))) return false;
    if (argv[1].type != V_MISSING && !arg_int(run, argv[1], "maxsplit", &max)) return false;
    if (sep && sep->length == 0) return run_fail(run, "empty separator");
    bool ok;
    if (from_right) {
        ok = sep ? rsplit_by(&s, p, sep, max) : rsplit_space(&s, p, max);
        reverse_list(s.parts);
    } else
        ok = sep ? split_by(&s, p, sep, max) : split_space(&s, p, max);
    *out = value_list(s.parts);
    return ok;
}

static bool str_split(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return split(run, self, argv, false, out);
}
static bool str_rsplit(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return split(run, self, argv, true, out);
}

static bool is_line_end(uint32_t c) {
    return c == '\n' || c == '\r' || c == 0x0B || c == 0x0C || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

static bool str_splitlines(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Piece p = {self.string->data, self.string->length};
    Splitter s = {run, value_list_new(run, 0), self.string->safe};
    int64_t keep = 0;
    if (!s.parts || (argv[0].type != V_MISSING && !arg_int(run, argv[0], "keepends", &keep))) return false;
    while (p.length) {
        size_t line = 0, end = 0, n;
        while (line < p.length) {
            uint32_t c = first_char((Piece){p.data + line, p.length - line}, &n);
            if (is_line_end(c)) {
                end = n + (c == '\r' && line + 1 < p.length && p.data[line + 1] == '\n');
                break;
            }
            line += n;
        }
        if (!add_part(&s, p.data, line + (keep ? end : 0))) return false;
        p.data += line + end;
        p.length -= line + end;
    }
    *out = value_list(s.parts);
    return true;
}

static bool partition(Run *run, Value self, Value arg, bool last, Value *out) {
    const String *sep;
    if (!arg_text(run, arg, "separator", &sep)) return false;
    if (sep->length == 0) return run_fail(run, "empty separator");
    Piece p = {self.string->data, self.string->length};
    const char *at = last ? find_back(p, sep->data, sep->length) : memmem(p.data, p.length, sep->data, sep->length);
    Splitter s = {run, value_list_new(run, 3), self.string->safe};
    if (!s.parts) return false;
    *out = value_tuple(s.parts);
    if (!at) { /* the whole, and two empty parts on the side that was looked for last */
        if (!last && !add_part(&s, p.data, p.length)) return false;
        for (int i = 0; i < 2; i++)
            if (!add_part(&s, "", 0)) return false;
        return !last || add_part(&s, p.data, p.length);
    }
    size_t n = (size_t)(at - p.data);
    return add_part(&s, p.data, n) && add_part(&s, at, sep->length) &&
           add_part(&s, at + sep->length, p.length - n - sep->length);
}

static bool str_partition(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return partition(run, self, argv[0], false, out);
}
static bool str_rpartition(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return partition(run, self, argv[0], true, out);
}

/* ---- find ---- */

/* self[start:stop], and where it starts in characters; *outside: start lies past the end, so nothing is ever found. */
static bool window(Run *run, Value self, Value start, Value stop, Value *out, int64_t *at, bool *outside) {
    int64_t n = (int64_t)self.string->chars;
    *at = 0;
    if (given(start) && !arg_int(run, start, "slice indices", at)) return false;
    if (*at < 0) *at = *at + n < 0 ? 0 : *at + n;
    *outside = *at > n;
    if (*at == 0 && !given(stop)) {
        *out = self;
        return true;
    }
    return jinja_slice(run, self, start, stop, (Value){.type = V_MISSING}, out);
}

/* Where argv[0] is inside of self[argv[1]:argv[2]], -1 for nowhere. */
static bool find(Run *run, Value self, const Value *argv, bool last, int64_t *out) {
    const String *what;
    Value piece;
    int64_t start;
    bool outside;
    if (!arg_text(run, argv[0], "must be str: the substring", &what) ||
        !window(run, self, argv[1], argv[2], &piece, &start, &outside) || !run_charge(run, self.string->length / 64))
        return false;
    const String *s = piece.string;
    const char *at = last           ? find_back((Piece){s->data, s->length}, what->data, what->length)
                     : what->length ? memmem(s->data, s->length, what->data, what->length)
                                    : s->data;
    *out = !at || outside ? -1 : start + (int64_t)utf8_count(s->data, (size_t)(at - s->data));
    return true;
}

static bool str_find(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t at;
    if (!find(run, self, argv, false, &at)) return false;
    *out = value_int(at);
    return true;
}
static bool str_rfind(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t at;
    if (!find(run, self, argv, true, &at)) return false;
    *out = value_int(at);
    return true;
}
static bool str_index(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    if (!str_find(run, self, argv, args, out)) return false;
    return out->integer >= 0 || run_fail(run, "substring not found");
}
static bool str_rindex(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    if (!str_rfind(run, self, argv, args, out)) return false;
    return out->integer >= 0 || run_fail(run, "substring not found");
}

static bool str_count(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    const String *what;
    Value piece;
    int64_t start, n = 0;
    bool outside;
    if (!arg_text(run, argv[0], "must be str: the substring", &what) ||
        !window(run, self, argv[1], argv[2], &piece, &start, &outside) || !run_charge(run, self.string->length / 64))
        return false;
    const String *s = piece.string;
    if (what->length == 0)
        n = outside ? 0 : (int64_t)s->chars + 1;
    else {
        Piece p = {s->data, s->length};
        for (const char *at; (at = memmem(p.data, p.length, what->data, what->length)); n++) {
            p.length -= (size_t)(at - p.data) + what->length;
            p.data = at + what->length;
        }
    }
    *out = value_int(n);
    return true;
}

static bool has_end(Run *run, const String *s, Value what, bool at_start, bool *out) {
    const String *end;
    if (!arg_text(run, what, at_start ? "startswith arg" : "endswith arg", &end)) return false;
    const char *from = at_start ? s->data : s->data + s->length - end->length;
    *out = end->length <= s->length && memcmp(from, end->data, end->length) == 0;
    return true;
}

static bool ends(Run *run, Value self, const Value *argv, bool at_start, Value *out) {
    Value piece;
    int64_t start;
    bool outside, found = false;
    if (!window(run, self, argv[1], argv[2], &piece, &start, &outside)) return false;
    if (argv[0].type != V_TUPLE) {
        if (!has_end(run, piece.string, argv[0], at_start, &found)) return false;
    } else {
        for (size_t i = 0; i < argv[0].list->n && !found; i++)
            if (!has_end(run, piece.string, argv[0].list->items[i], at_start, &found)) return false;
    }
    *out = value_bool(found && !outside);
    return true;
}

static bool str_startswith(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return ends(run, self, argv, true, out);
}
static bool str_endswith(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return ends(run, self, argv, false, out);
}

static bool str_removeprefix(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    bool found;
    if (!has_end(run, self.string, argv[0], true, &found)) return false;
    size_t n = found ? argv[0].string->length : 0;
    return make(run, (Piece){self.string->data + n, self.string->length - n}, self.string->safe, out);
}
static bool str_removesuffix(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    bool found;
    if (!has_end(run, self.string, argv[0], false, &found)) return false;
    size_t n = found ? argv[0].string->length : 0;
    return make(run, (Piece){self.string->data, self.string->length - n}, self.string->safe, out);
}

/* ---- replace and join ---- */

/* An empty `old` matches before every character and at the end. */
static void replace_between(Buffer *b, const String *s, const String *fresh, int64_t max) {
    size_t at = 0;
    while (at < s->length) {
        if (max-- == 0) break;
        size_t n;
        first_char((Piece){s->data + at, s->length - at}, &n);
        buffer_append(b, fresh->data, fresh->length);
        buffer_append(b, s->data + at, n);
        at += n;
    }
    if (at < s->length)
        buffer_append(b, s->data + at, s->length - at);
    else if (max != 0)
        buffer_append(b, fresh->data, fresh->length);
}

static bool replace_bounded(Run *run, const String *s, const String *old, const String *fresh, int64_t max) {
    size_t matches = old->length ? s->length / old->length : s->chars + 1, bytes;
    if (max >= 0 && (uint64_t)max < matches) matches = (size_t)max;
    if (!__builtin_mul_overflow(matches, fresh->length, &bytes) && bytes <= run->heap.limit) return true;
    /* the worst case is too much: count what is really there */
    Piece p = {s->data, s->length};
    size_t found = old->length ? 0 : matches;
    for (const char *at; old->length && found < matches && (at = memmem(p.data, p.length, old->data, old->length));
         found++) {
        p.length -= (size_t)(at - p.data) + old->length;
        p.data = at + old->length;
    }
    if (!__builtin_mul_overflow(found, fresh->length, &bytes) && bytes <= run->heap.limit) return true;
    return run_fail(run, "replace() would make a text of more than %zu MB", run->heap.limit >> 20);
}

static bool str_replace(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    const String *old, *fresh;
    int64_t max = -1;
    Value escaped = argv[1];
    if (!arg_text(run, argv[0], "replace() argument 1", &old)) return false;
    if (self.string->safe && !value_escape(run, argv[1], &escaped)) return false;
    if (!arg_text(run, escaped, "replace() argument 2", &fresh)) return false;
    if (argv[2].type != V_MISSING && !arg_int(run, argv[2], "replace()", &max)) return false;
    if (!replace_bounded(run, self.string, old, fresh, max)) return false;
    Buffer b = {0};
    Piece p = {self.string->data, self.string->length};
    const char *at;
    if (old->length == 0) {
        if (p.length || max != 0) replace_between(&b, self.string, fresh, max);
        return value_from_buffer(run, &b, self.string->safe, out);
    }
    while (max-- != 0 && (at = memmem(p.data, p.length, old->data, old->length))) {
        size_t n = (size_t)(at - p.data);
        buffer_append(&b, p.data, n);
        buffer_append(&b, fresh->data, fresh->length);
        p.data += n + old->length;
        p.length -= n + old->length;
    }
    buffer_append(&b, p.data, p.length);
    return value_from_buffer(run, &b, self.string->safe, out);
}

static bool str_join(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Iterator *it = value_iterate(run, argv[0]);
    Buffer b = {0};
    Value v;
    int got = it ? 1 : -1;
    for (size_t i = 0; got > 0 && (got = iterator_next(run, it, &v)) > 0; i++) {
        if (self.string->safe && !value_escape(run, v, &v))
            got = -1;
        else if (v.type != V_STRING) {
            run_error(run, "sequence item %zu: expected str instance, %s found", i, value_type_name(v));
            got = -1;
        } else {
            if (i) buffer_append(&b, self.string->data, self.string->length);
            buffer_append(&b, v.string->data, v.string->length);
            if (b.length > run->heap.limit && !run_fail(run, "join() makes a text that is too long")) got = -1;
        }
    }
    if (got == 0) return value_from_buffer(run, &b, self.string->safe, out);
    buffer_clear(&b);
    return false;
}

/* ---- padding ---- */

static bool pad(Run *run, Value self, int64_t left, int64_t right, Value fill, Value *out) {
    const String *c = NULL;
    Value escaped = fill;
    if (left < 0) left = 0;
    if (right < 0) right = 0;
    if (fill.type != V_MISSING) {
        if (self.string->safe && !value_escape(run, fill, &escaped)) return false;
        if (escaped.type != V_STRING || escaped.string->chars != 1)
            return run_fail(run, "The fill character must be exactly one character long");
        c = escaped.string;
    }
    if (left + right > (int64_t)(run->heap.limit / 8)) return run_memory(run);
    Buffer b = {0};
    for (int64_t i = 0; i < left; i++) buffer_append(&b, c ? c->data : " ", c ? c->length : 1);
    buffer_append(&b, self.string->data, self.string->length);
    for (int64_t i = 0; i < right; i++) buffer_append(&b, c ? c->data : " ", c ? c->length : 1);
    return value_from_buffer(run, &b, self.string->safe, out);
}

static bool pad_width(Run *run, Value self, Value width, int64_t *out) {
    if (!arg_int(run, width, "width", out)) return false;
    *out = *out > (int64_t)self.string->chars ? *out - (int64_t)self.string->chars : 0;
    return true;
}

static bool str_ljust(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t n;
    return pad_width(run, self, argv[0], &n) && pad(run, self, 0, n, argv[1], out);
}
static bool str_rjust(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t n;
    return pad_width(run, self, argv[0], &n) && pad(run, self, n, 0, argv[1], out);
}
static bool str_center(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t n;
    if (!pad_width(run, self, argv[0], &n)) return false;
    int64_t left = n / 2 + (n & (n + (int64_t)self.string->chars) & 1); /* CPython's choice of the odd blank */
    return pad(run, self, left, n - left, argv[1], out);
}

static bool str_zfill(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    const String *s = self.string;
    int64_t n;
    if (!pad_width(run, self, argv[0], &n)) return false;
    if (n > (int64_t)(run->heap.limit / 8)) return run_memory(run);
    size_t sign = s->length && (s->data[0] == '+' || s->data[0] == '-');
    Buffer b = {0};
    buffer_append(&b, s->data, sign);
    for (int64_t i = 0; i < n; i++) buffer_byte(&b, '0');
    buffer_append(&b, s->data + sign, s->length - sign);
    return value_from_buffer(run, &b, s->safe, out);
}

static bool str_expandtabs(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t tab = 8, column = 0;
    if (argv[0].type != V_MISSING && !arg_int(run, argv[0], "tabsize", &tab)) return false;
    if (tab > 1 << 16) return run_fail(run, "tabsize is too large");
    Buffer b = {0};
    for (size_t i = 0; i < self.string->length; i++) {
        char c = self.string->data[i];
        if (c == '\t') {
            for (int64_t n = tab > 0 ? tab - column % tab : 0; n > 0; n--, column++) buffer_byte(&b, ' ');
            if (b.length > run->heap.limit) break;
            continue;
        }
        buffer_byte(&b, c);
        if (((unsigned char)c & 0xC0) != 0x80) column++;
        if (c == '\n' || c == '\r') column = 0;
    }
    return value_from_buffer(run, &b, self.string->safe, out);
}

/* ---- format ---- */

static bool str_format(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    return jinja_format_method(run, self.string, args, out);
}

static bool str_format_map(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    if (argv[0].type != V_DICT) return run_fail(run, "format_map() needs a mapping");
    const Dict *d = argv[0].dict;
    const String **names = run_take(run, d->n + 1, sizeof *names);
    if (!names) return false;
    size_t n = 0;
    Value *values = run_take(run, d->n + 1, sizeof *values);
    if (!values) return false;
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->keys[i].type != V_STRING) continue;
        names[n] = d->keys[i].string;
        values[n++] = d->values[i];
    }
    Args by_name = {.names = names, .keywords = values, .n_keywords = n};
    return jinja_format_method(run, self.string, &by_name, out);
}

static bool str_refused(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)argv, (void)args, (void)out;
    return run_fail(run, "encode(), maketrans() and translate() are not supported in chat templates");
}

static const Function METHODS[] = {
    {{"strip", "/chars", 0}, str_strip},
    {{"lstrip", "/chars", 0}, str_lstrip},
    {{"rstrip", "/chars", 0}, str_rstrip},
    {{"split", "sep,maxsplit", 0}, str_split},
    {{"rsplit", "sep,maxsplit", 0}, str_rsplit},
    {{"splitlines", "keepends", 0}, str_splitlines},
    {{"partition", "/sep", 1}, str_partition},
    {{"rpartition", "/sep", 1}, str_rpartition},
    {{"find", "/sub,start,end", 1}, str_find},
    {{"rfind", "/sub,start,end", 1}, str_rfind},
    {{"index", "/sub,start,end", 1}, str_index},
    {{"rindex", "/sub,start,end", 1}, str_rindex},
    {{"count", "/sub,start,end", 1}, str_count},
    {{"startswith", "/prefix,start,end", 1}, str_startswith},
    {{"endswith", "/suffix,start,end", 1}, str_endswith},
    {{"removeprefix", "/prefix", 1}, str_removeprefix},
    {{"removesuffix", "/suffix", 1}, str_removesuffix},
    {{"replace", "/old,new,count", 2}, str_replace},
    {{"join", "/iterable", 1}, str_join},
    {{"ljust", "/width,fillchar", 1}, str_ljust},
    {{"rjust", "/width,fillchar", 1}, str_rjust},
    {{"center", "/width,fillchar", 1}, str_center},
    {{"zfill", "/width", 1}, str_zfill},
    {{"expandtabs", "tabsize", 0}, str_expandtabs},
    {{"format", "*", 0}, str_format},
    {{"format_map", "/mapping", 1}, str_format_map},
    {{"encode", "*", 0}, str_refused},
    {{"maketrans", "*", 0}, str_refused},
    {{"translate", "*", 0}, str_refused},
};

FunctionTable jinja_string_methods(void) {
    return (FunctionTable){METHODS, COUNT(METHODS)};
}
