/* Reading what commands take. Standard input is read through its descriptor and not by opening /dev/stdin, which fails
 * for a socket and starts a redirected file from its beginning again. */
#define _POSIX_C_SOURCE 200809L
#include "cli/input.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool is_stdin(const char *path) {
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0;
}

static bool read_all(int file, const char *name, Buffer *out, Error *err) {
    enum { PIECE = 1 << 16 };
    for (;;) {
        if (!buffer_reserve(out, PIECE)) return error_memory(err, name);
        ssize_t n = read(file, out->data + out->length, PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set(err, "%s: cannot read: %s", name, strerror(errno));
        if (n == 0) break;
        out->length += (size_t)n;
    }
    out->data[out->length] = 0;
    return true;
}

bool input_file(const char *path, Buffer *out, Error *err) {
    if (is_stdin(path)) return read_all(STDIN_FILENO, "standard input", out, err);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return error_set(err, "%s: cannot open: %s", path, strerror(errno));
    bool ok = read_all(file, path, out, err);
    close(file);
    return ok;
}

bool input_text(const char *path, Buffer *out, Error *err) {
    size_t before = out->length;
    if (!input_file(path, out, err)) return false;
    size_t good = utf8_valid(out->data + before, out->length - before);
    if (before + good == out->length) return true;
    return error_set(err, "%s: not UTF-8: byte %zu is 0x%02x", is_stdin(path) ? "standard input" : path, good,
                     (unsigned char)out->data[before + good]);
}

bool input_json(const char *path, JsonDoc **out, Error *err) {
    Buffer text = {0};
    bool ok = input_file(path, &text, err);
    if (ok) {
        JsonDoc *doc = json_parse(text.data, text.length, 0, err);
        if (doc)
            *out = doc;
        else
            ok = error_prefix(err, "%s", path);
    }
    buffer_clear(&text);
    return ok;
}

bool input_array(const char *flag, const char *path, JsonDoc **out, Error *err) {
    JsonDoc *doc = NULL;
    if (!path) return true;
    if (!input_json(path, &doc, err)) return false;
    if (json_root(doc)->type != JSON_ARRAY) {
        json_free(doc);
        return error_set(err, "%s %s: it must hold a JSON array", flag, path);
    }
    *out = doc;
    return true;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One id: digits of a number that fits int32. */
static const char *read_id(const char *p, int32_t *id) {
    int64_t value = 0;
    const char *start = p;
    bool negative = *p == '-';
    p += negative;
    const char *digits = p;
    for (; *p >= '0' && *p <= '9'; p++)
        if ((value = value * 10 + (*p - '0')) > INT32_MAX) return start;
    if (p == digits) return start;
    *id = (int32_t)(negative ? -value : value);
    return p;
}

bool input_ids(const char *what, const char *text, IdList *out, Error *err) {
    const char *p = text;
    while (is_space(*p)) p++;
    bool bracket = *p == '[', comma = false;
    p += bracket;
    for (;;) {
        while (is_space(*p)) p++;
        if (!*p || *p == ']') break;
        int32_t id;
        const char *end = read_id(p, &id);
        if (end == p) break;
        if (!id_list_push(out, id)) return error_memory(err, "a list of ids");
        for (p = end, comma = false; is_space(*p) || (*p == ',' && !comma); p++) comma = comma || *p == ',';
    }
    if (bracket && *p == ']' && !comma)
        for (p++; is_space(*p); p++) {}
    else if (bracket)
        return error_set(err, "%s: the list of ids does not end with ]", what);
    if (*p || comma)
        return error_set(err, "%s: \"%.20s\" at byte %zu: ids are whole numbers separated by commas", what, p,
                         (size_t)(p - text));
    return true;
}

bool input_ids_flags(const Args *args, IdList *out, bool *given, Error *err) {
    const char *ids = args_text(args, FLAG_IDS), *path = args_text(args, FLAG_IDS_FILE);
    *given = ids || path;
    if (ids && path) return error_set(err, "--ids and --ids-file: give one of them");
    if (ids) return input_ids("--ids", ids, out, err);
    if (!path) return true;
    Buffer text = {0};
    bool ok = input_text(path, &text, err) && input_ids(path, text.data, out, err);
    buffer_clear(&text);
    return ok;
}

bool input_lines(const char *path, InputLine *line, void *context, Error *err) {
    Buffer text = {0};
    bool ok = input_file(path, &text, err);
    for (size_t at = 0; ok && at < text.length;) {
        const char *end = memchr(text.data + at, '\n', text.length - at);
        size_t n = end ? (size_t)(end - text.data) - at : text.length - at;
        ok = line(context, text.data + at, n, err);
        at += n + 1;
    }
    buffer_clear(&text);
    return ok;
}
