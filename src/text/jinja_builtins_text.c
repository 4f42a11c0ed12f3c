/* Filters over text, and tojson as transformers defines it: json.dumps, without the HTML escapes of jinja2's own. */
#define _GNU_SOURCE
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"
#include "text/jinja_wrap.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool truth_or(Value v, bool missing) {
    return v.type == V_MISSING ? missing : value_truth(v);
}

/* Calls the method of that name of str(v) (or of v, when it is a string). */
static bool call_method(Run *run, Value v, const char *name, const Value *argv, size_t n, Value *out) {
    Value method;
    String text = {name, strlen(name), strlen(name), false};
    Args args = {.positional = argv, .n = n};
    return value_soft_str(run, v, &v) && jinja_getattr(run, v, &text, &method) && jinja_call(run, method, &args, out);
}

static bool filter_upper(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return call_method(run, v, "upper", NULL, 0, out);
}
static bool filter_lower(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return call_method(run, v, "lower", NULL, 0, out);
}
static bool filter_capitalize(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return call_method(run, v, "capitalize", NULL, 0, out);
}

static bool filter_string(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return value_soft_str(run, v, out);
}

static bool filter_trim(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return call_method(run, v, "strip", argv, argv[0].type != V_MISSING, out);
}

static bool filter_center(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Value width = argv[0].type == V_MISSING ? value_int(80) : argv[0];
    return call_method(run, v, "center", &width, 1, out);
}

static bool filter_replace(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Value call[3] = {argv[0], argv[1], argv[2]};
    if (call[2].type == V_MISSING || call[2].type == V_NONE) call[2] = value_int(-1);
    if (!run->autoescape)
        return value_str(run, v, &v) && value_str(run, call[0], &call[0]) && value_str(run, call[1], &call[1]) &&
               call_method(run, v, "replace", call, 3, out);
    bool safe_old = call[0].type == V_STRING && call[0].string->safe,
         safe_new = call[1].type == V_STRING && call[1].string->safe;
    bool safe = v.type == V_STRING && v.string->safe;
    if (safe_old || (safe_new && !safe) ? !value_escape(run, v, &v) : !value_soft_str(run, v, &v)) return false;
    return value_soft_str(run, call[0], &call[0]) && value_soft_str(run, call[1], &call[1]) &&
           call_method(run, v, "replace", call, 3, out);
}

/* value % args, or % kwargs */
static bool filter_format(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    Value with;
    if (args->n && args->n_keywords)
        return run_fail(run, "can't handle positional and keyword arguments at the same time");
    if (args->n_keywords) {
        Dict *d = value_dict_new(run, (uint32_t)args->n_keywords);
        if (!d) return false;
        for (size_t i = 0; i < args->n_keywords; i++)
            if (!value_dict_set(run, d, value_string(args->names[i]), args->keywords[i])) return false;
        with = (Value){.type = V_DICT, .dict = d};
    } else {
        List *list = value_list_new(run, args->n);
        if (!list) return false;
        for (size_t i = 0; i < args->n; i++) list->items[list->n++] = args->positional[i];
        with = value_tuple(list);
    }
    return value_soft_str(run, v, &v) && jinja_percent(run, v.string, with, out);
}

/* ---- title: words begin after blanks, hyphens and opening brackets ---- */

static bool is_word_break(uint32_t code) {
    return code == '-' || code == '(' || code == '{' || code == '[' || code == '<' ||
           (jinja_char_class(code) & CHAR_SPACE);
}

/* One run of word or of break characters: its first character upper case, the others lower. */
static bool title_part(Run *run, Buffer *b, const char *s, size_t n) {
    uint32_t code;
    int first = utf8_decode(s, n, &code);
    if (first <= 0) return true;
    String head = {s, (size_t)first, 1, false}, tail = {s + first, n - (size_t)first, 0, false};
    Value v;
    if (!jinja_case(run, &head, CASE_UPPER, &v) || !value_print(run, b, v) || !jinja_case(run, &tail, CASE_LOWER, &v))
        return false;
    return value_print(run, b, v);
}

static bool filter_title(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer b = {0};
    if (!value_soft_str(run, v, &v)) return false;
    const String *s = v.string;
    size_t from = 0;
    bool in_break = false;
    for (size_t i = 0; i < s->length;) {
        uint32_t code;
        int n = utf8_decode(s->data + i, s->length - i, &code);
        if (n <= 0) break;
        if (is_word_break(code) != in_break) {
            if (!title_part(run, &b, s->data + from, i - from)) break;
            from = i;
            in_break = !in_break;
        }
        i += (size_t)n;
    }
    if (!run->failed && title_part(run, &b, s->data + from, s->length - from))
        return value_from_buffer(run, &b, false, out);
    buffer_clear(&b);
    return false;
}

/* ---- lines ---- */

static bool indention(Run *run, Value width, Value *out) {
    int64_t n = 4;
    if (width.type == V_STRING) {
        *out = width;
        return true;
    }
    if (width.type != V_MISSING && !value_as_int(width, &n))
        return run_fail(run, "can't multiply sequence by non-int of type '%s'", value_type_name(width));
    Value blank;
    return value_text_ref(run, " ", 1, &blank) && jinja_binary(run, T_MUL, blank, value_int(n), out);
}

static bool filter_indent(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Value indent, lines;
    bool first = truth_or(argv[1], false), blank = truth_or(argv[2], false);
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type != V_STRING) return run_fail(run, "the filter 'indent' needs a string, not %s", value_type_name(v));
    if (!indention(run, argv[0], &indent)) return false;
    bool safe = v.string->safe;
    Value newline;
    if (!value_text_ref(run, "\n", 1, &newline) || !jinja_binary(run, T_ADD, v, newline, &v)) return false;
    if (!call_method(run, v, "splitlines", NULL, 0, &lines)) return false;
    Buffer b = {0};
    for (size_t i = 0; i < lines.list->n; i++) {
        const String *line = lines.list->items[i].string;
        if (i) buffer_byte(&b, '\n');
        if (i ? blank || line->length : first) buffer_append(&b, indent.string->data, indent.string->length);
        buffer_append(&b, line->data, line->length);
        if (b.length > run->heap.limit && !run_memory(run)) break;
    }
    if (!run->failed) return value_from_buffer(run, &b, safe, out);
    buffer_clear(&b);
    return false;
}

static bool filter_truncate(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t length = 255, leeway = 5, n;
    Value end = argv[2], missing = {.type = V_MISSING}, head, cut[2];
    if (end.type == V_MISSING && !value_text_ref(run, "...", 3, &end)) return false;
    if (argv[0].type != V_MISSING && !arg_int(run, argv[0], "length", &length)) return false;
    if (argv[3].type != V_MISSING && argv[3].type != V_NONE && !arg_int(run, argv[3], "leeway", &leeway)) return false;
    if (end.type != V_STRING) return run_fail(run, "truncate: end must be a string");
    int64_t end_chars = (int64_t)end.string->chars;
    if (length < end_chars)
        return run_fail(run, "expected length >= %lld, got %lld", (long long)end_chars, (long long)length);
    if (leeway < 0) return run_fail(run, "expected leeway >= 0, got %lld", (long long)leeway);
    *out = v;
    if (!value_length(run, v, &n)) return false;
    if (n <= length || n - length <= leeway) return true;
    if (v.type != V_STRING) return run_fail(run, "the filter 'truncate' needs a string, not %s", value_type_name(v));
    if (!jinja_slice(run, v, missing, value_int(length - end_chars), missing, &head)) return false;
    if (!truth_or(argv[1], false)) {
        if (!value_text_ref(run, " ", 1, &cut[0])) return false;
        cut[1] = value_int(1);
        Value parts;
        if (!call_method(run, head, "rsplit", cut, 2, &parts)) return false;
        head = parts.list->items[0];
    }
    return jinja_binary(run, T_ADD, head, end, out);
}

static bool filter_wordcount(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    if (!value_soft_str(run, v, &v)) return false;
    const String *s = v.string;
    int64_t words = 0;
    bool in_word = false;
    for (size_t i = 0; i < s->length;) {
        uint32_t code;
        int n = utf8_decode(s->data + i, s->length - i, &code);
        bool word = n > 0 && (code == '_' || (jinja_char_class(code) & CHAR_ALNUM));
        words += word && !in_word;
        in_word = word;
        i += n > 0 ? (size_t)n : 1;
    }
    *out = value_int(words);
    return true;
}

static bool filter_wordwrap(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t width = 79;
    Value joint = argv[2], lines;
    bool long_words = truth_or(argv[1], true), hyphens = truth_or(argv[3], true);
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type != V_STRING) return run_fail(run, "the filter 'wordwrap' needs a string, not %s", value_type_name(v));
    if (argv[0].type != V_MISSING && !arg_int(run, argv[0], "width", &width)) return false;
    if ((joint.type == V_MISSING || joint.type == V_NONE) && !value_text_ref(run, "\n", 1, &joint)) return false;
    if (joint.type != V_STRING) return run_fail(run, "wrapstring must be a string");
    if (!call_method(run, v, "splitlines", NULL, 0, &lines)) return false;
    Buffer b = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < lines.list->n; i++) {
        if (i) buffer_append(&b, joint.string->data, joint.string->length);
        ok = jinja_wrap(run, lines.list->items[i].string, width, long_words, hyphens, joint.string, &b);
    }
    if (ok) return value_from_buffer(run, &b, false, out);
    buffer_clear(&b);
    return false;
}

/* ---- URLs ---- */

static void quote(Buffer *b, const String *s, bool query) {
    for (size_t i = 0; i < s->length; i++) {
        unsigned char c = (unsigned char)s->data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("_.-~", c);
        if (c && (plain || (c == '/' && !query)))
            buffer_byte(b, (char)c);
        else if (c == ' ' && query)
            buffer_byte(b, '+');
        else
            buffer_printf(b, "%%%02X", c);
    }
}

static bool quote_pairs(Run *run, Buffer *b, Value v) {
    Iterator *it;
    if (v.type == V_DICT) {
        View *view = run_take(run, 1, sizeof *view);
        if (!view) return false;
        *view = (View){v.dict, VIEW_ITEMS};
        v = (Value){.type = V_VIEW, .view = view};
    }
    if (!(it = value_iterate(run, v))) return false;
    Value item;
    int got;
    for (size_t i = 0; (got = iterator_next(run, it, &item)) > 0; i++) {
        List *pair;
        Value key, value;
        if (!value_to_list(run, item, &pair)) return false;
        if (pair->n != 2) return run_fail(run, "urlencode needs pairs of a key and a value");
        if (!value_str(run, pair->items[0], &key) || !value_str(run, pair->items[1], &value)) return false;
        if (i) buffer_byte(b, '&');
        quote(b, key.string, true);
        buffer_byte(b, '=');
        quote(b, value.string, true);
    }
    return got == 0;
}

static bool filter_urlencode(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer b = {0};
    bool ok = true;
    if (v.type == V_STRING || !value_iterable(v)) {
        ok = value_str(run, v, &v);
        if (ok) quote(&b, v.string, false);
    } else
        ok = quote_pairs(run, &b, v);
    if (ok) return value_from_buffer(run, &b, false, out);
    buffer_clear(&b);
    return false;
}

/* ---- tojson ---- */

static const char *c_text(Run *run, Value v, const char *what) {
    if (v.type != V_STRING) {
        run_error(run, "tojson: %s must be a string, not %s", what, value_type_name(v));
        return NULL;
    }
    if (memchr(v.string->data, 0, v.string->length)) {
        run_error(run, "tojson: %s holds a NUL", what);
        return NULL;
    }
    Value copy;
    return value_text(run, v.string->data, v.string->length, &copy) ? copy.string->data : NULL;
}

static bool json_separators(Run *run, Value v, JsonStyle *style) {
    List *pair;
    if (!value_to_list(run, v, &pair)) return false;
    if (pair->n != 2) return run_fail(run, "tojson: separators must be two strings");
    style->item_sep = c_text(run, pair->items[0], "a separator");
    style->key_sep = style->item_sep ? c_text(run, pair->items[1], "a separator") : NULL;
    return style->key_sep != NULL;
}

/* indent: a number of blanks or a text; *out stays NULL for one line. */
static bool json_indent(Run *run, Value v, const char **out) {
    int64_t n;
    *out = NULL;
    if (v.type == V_MISSING || v.type == V_NONE) return true;
    if (v.type == V_STRING) return (*out = c_text(run, v, "indent")) != NULL;
    if (!arg_int(run, v, "indent", &n)) return false;
    if (n > 1000) return run_fail(run, "tojson: indent is too large");
    if (n < 0) n = 0;
    char *blanks = run_take(run, (size_t)n + 1, 1);
    if (!blanks) return false;
    memset(blanks, ' ', (size_t)n);
    *out = blanks;
    return true;
}

static bool filter_tojson(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    JsonStyle style = {.ensure_ascii = truth_or(argv[0], false), .sort_keys = truth_or(argv[3], false), .indent = -1};
    const char *indent;
    if (!json_indent(run, argv[1], &indent)) return false;
    style.item_sep = indent ? "," : ", ";
    style.key_sep = ": ";
    if (argv[2].type != V_MISSING && argv[2].type != V_NONE && !json_separators(run, argv[2], &style)) return false;
    Buffer b = {0};
    if (value_json(run, &b, v, &style, indent, 0)) return value_from_buffer(run, &b, false, out);
    buffer_clear(&b);
    return false;
}

static const FilterDef FILTERS[] = {
    {{"capitalize", "", 0}, filter_capitalize},
    {{"center", "width", 0}, filter_center},
    {{"format", "*", 0}, filter_format},
    {{"indent", "width,first,blank", 0}, filter_indent},
    {{"lower", "", 0}, filter_lower},
    {{"pprint", "", 0}, jinja_pprint},
    {{"replace", "old,new,count", 2}, filter_replace},
    {{"string", "", 0}, filter_string},
    {{"title", "", 0}, filter_title},
    {{"tojson", "ensure_ascii,indent,separators,sort_keys", 0}, filter_tojson},
    {{"trim", "chars", 0}, filter_trim},
    {{"truncate", "length,killwords,end,leeway", 0}, filter_truncate},
    {{"upper", "", 0}, filter_upper},
    {{"urlencode", "", 0}, filter_urlencode},
    {{"wordcount", "", 0}, filter_wordcount},
    {{"wordwrap", "width,break_long_words,wrapstring,break_on_hyphens", 0}, filter_wordwrap},
};

FilterTable jinja_text_filters(void) {
    return (FilterTable){FILTERS, COUNT(FILTERS)};
}
