/* Values as text: Python's str() and repr(), markupsafe's escape, and json.dumps. Output size is bounded, since a value
 * that contains itself several times over can be exponentially larger than its parts. */
#include "base/decimal.h"
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

#include <math.h>
#include <string.h>

enum { TEXT_LIMIT = 64 << 20 };

static bool check_size(Run *run, const Buffer *b) {
    if (b->failed) return run_memory(run);
    if (b->length > TEXT_LIMIT) return run_fail(run, "a text grows beyond %d MB; it was stopped", TEXT_LIMIT >> 20);
    return run_charge(run, 1);
}

static void print_float(Buffer *b, double d) {
    char text[DECIMAL_MAX];
    if (isnan(d))
        buffer_text(b, "nan");
    else if (isinf(d))
        buffer_text(b, d < 0 ? "-inf" : "inf");
    else
        buffer_append(b, text, decimal_write(d, text));
}

static void repr_char(Buffer *b, uint32_t code, const char *bytes, size_t n, char quote) {
    if (code == (uint32_t)quote || code == '\\')
        buffer_printf(b, "\\%c", (char)code);
    else if (code == '\n')
        buffer_text(b, "\\n");
    else if (code == '\r')
        buffer_text(b, "\\r");
    else if (code == '\t')
        buffer_text(b, "\\t");
    else if (jinja_char_class(code) & CHAR_PRINTABLE)
        buffer_append(b, bytes, n);
    else if (code < 0x100)
        buffer_printf(b, "\\x%02x", code);
    else if (code < 0x10000)
        buffer_printf(b, "\\u%04x", code);
    else
        buffer_printf(b, "\\U%08x", code);
}

static void repr_text(Buffer *b, const String *s) {
    bool single = memchr(s->data, '\'', s->length), dquote = memchr(s->data, '"', s->length);
    char quote = single && !dquote ? '"' : '\'';
    if (s->safe) buffer_text(b, "Markup(");
    buffer_byte(b, quote);
    for (size_t i = 0; i < s->length;) {
        unsigned char c = (unsigned char)s->data[i];
        uint32_t code = c;
        int n = c < 128 ? 1 : utf8_decode(s->data + i, s->length - i, &code);
        if (n <= 0) break;
        if (c >= ' ' && c < 127 && c != '\\' && c != (unsigned char)quote)
            buffer_byte(b, (char)c);
        else
            repr_char(b, code, s->data + i, (size_t)n, quote);
        i += (size_t)n;
    }
    buffer_byte(b, quote);
    if (s->safe) buffer_byte(b, ')');
}

static bool repr_items(Run *run, Buffer *b, const List *list, const char *open, const char *close, int depth) {
    buffer_text(b, open);
    for (size_t i = 0; i < list->n; i++) {
        if (i) buffer_text(b, ", ");
        if (!value_repr(run, b, list->items[i], depth + 1)) return false;
    }
    buffer_text(b, close);
    return true;
}

static bool repr_dict(Run *run, Buffer *b, const Dict *d, int depth) {
    buffer_byte(b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i) buffer_text(b, ", ");
        if (!value_repr(run, b, d->keys[i], depth + 1)) return false;
        buffer_text(b, ": ");
        if (!value_repr(run, b, d->values[i], depth + 1)) return false;
    }
    buffer_byte(b, '}');
    return true;
}

static bool repr_view(Run *run, Buffer *b, Value v, int depth) {
    List *items;
    if (!value_to_list(run, v, &items)) return false;
    buffer_printf(b, "%s(", value_type_name(v));
    if (!repr_items(run, b, items, "[", "]", depth)) return false;
    buffer_byte(b, ')');
    return true;
}

static bool repr_loop(Run *run, Buffer *b, Loop *loop) {
    Value index, length;
    if (jinja_loop_attribute(run, loop, "index", 5, &index) < 0 ||
        jinja_loop_attribute(run, loop, "length", 6, &length) < 0)
        return false;
    buffer_printf(b, "<LoopContext %lld/%lld>", (long long)index.integer, (long long)length.integer);
    return true;
}

/* Objects that Python prints with their address have no text that could be the same. */
static bool repr_object(Run *run, Buffer *b, Value v, int depth) {
    switch (v.type) {
    case V_NAMESPACE:
        buffer_text(b, "<Namespace ");
        if (!repr_dict(run, b, v.dict, depth)) return false;
        buffer_byte(b, '>');
        return true;
    case V_MACRO:
        if (!v.macro->node->name)
            buffer_text(b, "<Macro anonymous>");
        else {
            buffer_text(b, "<Macro ");
            repr_text(b, v.macro->node->name);
            buffer_byte(b, '>');
        }
        return true;
    case V_LOOP: return repr_loop(run, b, v.loop);
    case V_RANGE:
        buffer_printf(b, "range(%lld, %lld", (long long)v.range->start, (long long)v.range->stop);
        if (v.range->step != 1) buffer_printf(b, ", %lld", (long long)v.range->step);
        buffer_byte(b, ')');
        return true;
    case V_SELF: buffer_text(b, "<TemplateReference None>"); return true;
    default: buffer_printf(b, "<%s object>", value_type_name(v)); return true;
    }
}

static bool repr_inner(Run *run, Buffer *b, Value v, int depth) {
    switch (v.type) {
    case V_MISSING:
    case V_UNDEFINED: buffer_text(b, "Undefined"); return true;
    case V_NONE: buffer_text(b, "None"); return true;
    case V_BOOL: buffer_text(b, v.boolean ? "True" : "False"); return true;
    case V_INT: buffer_printf(b, "%lld", (long long)v.integer); return true;
    case V_BIG: buffer_append(b, v.string->data, v.string->length); return true;
    case V_FLOAT: print_float(b, v.number); return true;
    case V_STRING: repr_text(b, v.string); return true;
    case V_LIST: return repr_items(run, b, v.list, "[", "]", depth);
    case V_TUPLE: return repr_items(run, b, v.list, "(", v.list->n == 1 ? ",)" : ")", depth);
    case V_DICT: return repr_dict(run, b, v.dict, depth);
    case V_VIEW: return repr_view(run, b, v, depth);
    default: return repr_object(run, b, v, depth);
    }
}

bool value_repr(Run *run, Buffer *b, Value v, int depth) {
    if (!check_size(run, b) || !run_enter(run) || !repr_inner(run, b, v, depth)) return false;
    run_leave(run);
    return true;
}

bool value_print(Run *run, Buffer *b, Value v) {
    if (v.type == V_UNDEFINED) return true;
    if (v.type != V_STRING) return value_repr(run, b, v, 0);
    buffer_append(b, v.string->data, v.string->length);
    return !b->failed || run_memory(run);
}

bool value_str(Run *run, Value v, Value *out) {
    if (v.type == V_STRING && !v.string->safe) {
        *out = v;
        return true;
    }
    if (v.type == V_STRING) {
        String *s = run_take(run, 1, sizeof *s);
        if (!s) return false;
        *s = *v.string;
        s->safe = false;
        *out = value_string(s);
        return true;
    }
    Buffer b = {0};
    if (value_print(run, &b, v)) return value_from_buffer(run, &b, false, out);
    buffer_clear(&b);
    return false;
}

bool value_soft_str(Run *run, Value v, Value *out) {
    if (v.type != V_STRING) return value_str(run, v, out);
    *out = v;
    return true;
}

bool value_escape(Run *run, Value v, Value *out) {
    if (v.type == V_STRING && v.string->safe) {
        *out = v;
        return true;
    }
    if (!value_str(run, v, &v)) return false;
    const String *s = v.string;
    Buffer b = {0};
    for (size_t i = 0; i < s->length; i++) {
        char c = s->data[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '"'  ? "&#34;"
                             : c == '\'' ? "&#39;"
                                         : NULL;
        if (entity)
            buffer_text(&b, entity);
        else
            buffer_byte(&b, c);
    }
    return value_from_buffer(run, &b, true, out);
}

/* ---- json.dumps ---- */

static void write_newline(Buffer *b, const char *indent, int level) {
    if (!indent) return;
    buffer_byte(b, '\n');
    for (int i = 0; i < level; i++) buffer_text(b, indent);
}

static void write_number(Buffer *b, Value v) {
    if (v.type == V_INT)
        buffer_printf(b, "%lld", (long long)v.integer);
    else if (v.type == V_BIG)
        buffer_append(b, v.string->data, v.string->length);
    else if (isnan(v.number))
        buffer_text(b, "NaN");
    else if (isinf(v.number))
        buffer_text(b, v.number < 0 ? "-Infinity" : "Infinity");
    else
        print_float(b, v.number);
}

static bool write_key(Run *run, Buffer *b, Value key, const JsonStyle *style) {
    switch (key.type) {
    case V_STRING: json_write_string(b, key.string->data, key.string->length, style->ensure_ascii); return true;
    case V_NONE: buffer_text(b, "\"null\""); return true;
    case V_BOOL: buffer_text(b, key.boolean ? "\"true\"" : "\"false\""); return true;
    case V_INT:
    case V_BIG:
    case V_FLOAT:
        buffer_byte(b, '"');
        write_number(b, key);
        buffer_byte(b, '"');
        return true;
    default: return run_fail(run, "keys must be str, int, float, bool or None, not %s", value_type_name(key));
    }
}

static bool write_list(Run *run, Buffer *b, const List *list, const JsonStyle *style, const char *indent, int level) {
    if (list->n == 0) {
        buffer_text(b, "[]");
        return true;
    }
    buffer_byte(b, '[');
    for (size_t i = 0; i < list->n; i++) {
        if (i) buffer_text(b, style->item_sep);
        write_newline(b, indent, level + 1);
        if (!value_json(run, b, list->items[i], style, indent, level + 1)) return false;
    }
    write_newline(b, indent, level);
    buffer_byte(b, ']');
    return true;
}

static bool sorted_order(Run *run, const Dict *d, Value **out) {
    Value *order = run_take(run, d->n, sizeof *order);
    if (!order) return false;
    for (uint32_t i = 0; i < d->n; i++) order[i] = value_int(i);
    *out = order;
    return jinja_sort(run, order, d->keys, d->n, false);
}

static bool write_dict(Run *run, Buffer *b, const Dict *d, const JsonStyle *style, const char *indent, int level) {
    Value *order = NULL;
    if (d->n == 0) {
        buffer_text(b, "{}");
        return true;
    }
    if (style->sort_keys && !sorted_order(run, d, &order)) return false;
    buffer_byte(b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t at = order ? (uint32_t)order[i].integer : i;
        if (i) buffer_text(b, style->item_sep);
        write_newline(b, indent, level + 1);
        if (!write_key(run, b, d->keys[at], style)) return false;
        buffer_text(b, style->key_sep);
        if (!value_json(run, b, d->values[at], style, indent, level + 1)) return false;
    }
    write_newline(b, indent, level);
    buffer_byte(b, '}');
    return true;
}

static bool write_inner(Run *run, Buffer *b, Value v, const JsonStyle *style, const char *indent, int level) {
    switch (v.type) {
    case V_NONE: buffer_text(b, "null"); return true;
    case V_BOOL: buffer_text(b, v.boolean ? "true" : "false"); return true;
    case V_INT:
    case V_BIG:
    case V_FLOAT: write_number(b, v); return true;
    case V_STRING: json_write_string(b, v.string->data, v.string->length, style->ensure_ascii); return true;
    case V_LIST:
    case V_TUPLE: return write_list(run, b, v.list, style, indent, level);
    case V_DICT: return write_dict(run, b, v.dict, style, indent, level);
    default: return run_fail(run, "Object of type %s is not JSON serializable", value_type_name(v));
    }
}

bool value_json(Run *run, Buffer *b, Value v, const JsonStyle *style, const char *indent, int level) {
    if (!check_size(run, b) || !run_enter(run) || !write_inner(run, b, v, style, indent, level)) return false;
    run_leave(run);
    return true;
}
