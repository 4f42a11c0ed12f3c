/* MiniMax M3 writes arguments as elements inside elements, every tag behind a token of its own:
 * <city>Oslo</city><tags><item>a</item></tags>. Whether an element without children is a text, and one whose children
 * are all called item a list, the tool's schema says. */
#define _GNU_SOURCE
#include "base/json_scan.h"
#include "base/utf8.h"
#include "text/toolcall.h"
#include "text/toolcall_schema.h"

#include <string.h>

enum { MAX_DEPTH = 100, MAX_TAG = 256 };

static const char tag_mark[] = "]<]minimax[>[";
enum { TAG_MARK = sizeof tag_mark - 1 };

typedef struct Reader {
    const char *p, *end;
    Buffer *out;
    int depth;
} Reader;

typedef struct Tag {
    const char *name;
    size_t length;
    bool closes;
} Tag;

static bool read_element(Reader *r, Tag tag, Schema s);

static void skip_space(Reader *r) {
    r->p = json_skip_space(r->p, r->end);
}

static const char *find_mark(const char *p, const char *end) {
    const char *found = memmem(p, (size_t)(end - p), tag_mark, TAG_MARK);
    return found ? found : end;
}

/* The tag that stands at p, and past it. */
static bool read_tag(Reader *r, Tag *tag) {
    const char *p = r->p;
    if (r->end - p < TAG_MARK + 1 || memcmp(p, tag_mark, TAG_MARK) != 0 || p[TAG_MARK] != '<') return false;
    p += TAG_MARK + 1;
    bool closes = p < r->end && *p == '/';
    p += closes;
    size_t room = (size_t)(r->end - p) < MAX_TAG ? (size_t)(r->end - p) : MAX_TAG;
    const char *close = room ? memchr(p, '>', room) : NULL;
    if (!close || close == p) return false;
    *tag = (Tag){p, (size_t)(close - p), closes};
    r->p = close + 1;
    return true;
}

static bool same_name(Tag a, Tag b) {
    return a.length == b.length && memcmp(a.name, b.name, a.length) == 0;
}

static bool is_item(Tag tag) {
    return tag.length == 4 && memcmp(tag.name, "item", 4) == 0;
}

/* The children up to the closing tag of `parent` (whose first child's tag has been read). */
static bool read_children(Reader *r, Tag parent, Tag child, Schema s) {
    bool list = is_item(child) && (schema_types(s) & TYPE_ARRAY);
    buffer_byte(r->out, list ? '[' : '{');
    for (bool first = true;; first = false) {
        if (child.closes) break;
        if (list && !is_item(child)) return false;
        if (!first) buffer_text(r->out, ", ");
        if (!list) {
            json_write_string(r->out, child.name, child.length, false);
            buffer_text(r->out, ": ");
        }
        Schema inner = list ? schema_items(s) : schema_property(s, child.name, child.length);
        if (!read_element(r, child, inner)) return false;
        skip_space(r);
        if (!read_tag(r, &child)) return false;
    }
    buffer_byte(r->out, list ? ']' : '}');
    return same_name(child, parent);
}

/* After the opening tag, up to its closing one. */
static bool read_element(Reader *r, Tag tag, Schema s) {
    const char *from = r->p, *to = find_mark(from, r->end);
    Tag next;
    r->p = to;
    if (r->depth == MAX_DEPTH || !read_tag(r, &next)) return false;
    if (!next.closes) {
        if (json_skip_space(from, to) < to) return false; /* text beside elements */
        r->depth++;
        bool ok = read_children(r, tag, next, s);
        r->depth--;
        return ok;
    }
    unsigned types = schema_types(s);
    if (from == to && types == TYPE_ARRAY)
        buffer_text(r->out, "[]");
    else if (from == to && types == TYPE_OBJECT)
        buffer_text(r->out, "{}");
    else
        schema_write(s, from, (size_t)(to - from), r->out);
    return same_name(next, tag);
}

bool read_nested_arguments(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    if (out->n == 0 || utf8_valid(text, n) < n) return false;
    Call *call = &out->items[out->n - 1];
    Schema s = tool_schema(tools, buffer_string(&call->name), call->name.length);
    Reader r = {.p = text, .end = text + n, .out = &call->arguments};
    buffer_byte(r.out, '{');
    for (bool first = true;; first = false) {
        Tag tag;
        skip_space(&r);
        if (r.p == r.end) break;
        if (!read_tag(&r, &tag) || tag.closes) return false;
        if (!first) buffer_text(r.out, ", ");
        json_write_string(r.out, tag.name, tag.length, false);
        buffer_text(r.out, ": ");
        if (!read_element(&r, tag, schema_property(s, tag.name, tag.length))) return false;
    }
    buffer_byte(r.out, '}');
    return true;
}
