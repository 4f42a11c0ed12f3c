/* JSON as Python reads and writes it, because checkpoints hold Python's JSON: integers of any size, NaN, Infinity and
 * -Infinity, int and float told apart. One reader into a tree in one arena, one writer.
 *
 * Strings are valid UTF-8 with a NUL after them (a lone \u surrogate is read as U+FFFD); they may also hold NULs. */
#ifndef LOCKSTEP_BASE_JSON_H
#define LOCKSTEP_BASE_JSON_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

typedef enum JsonType { JSON_NULL, JSON_BOOL, JSON_INT, JSON_FLOAT, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonType;

typedef struct JsonValue JsonValue;
typedef struct JsonMember JsonMember;

struct JsonValue {
    JsonType type;
    uint32_t length;  /* bytes of `text`; or number of items or members */
    const char *text; /* STRING: its bytes. INT, FLOAT: the number as written. */
    union {
        bool boolean;
        double number; /* INT, FLOAT: nearest double */
        JsonValue *items;
        JsonMember *members; /* in the order of the text */
    };
};

struct JsonMember {
    const char *key;
    uint32_t key_length;
    JsonValue value;
};

typedef struct JsonDoc JsonDoc;

enum {
    JSON_UNIQUE_KEYS = 1, /* a duplicate key is an error (safetensors headers); otherwise the last one wins */
};

/* Parses the whole text, of which the document keeps nothing but copies. Errors name line and column. Nesting is
 * limited to 512 levels. NULL on failure. */
JsonDoc *json_parse(const char *text, size_t length, unsigned flags, Error *err);
/* The same on a file; errors start with the path. */
JsonDoc *json_parse_file(const char *path, unsigned flags, Error *err);

/* A container of hundreds of thousands of children, which shall not become values one and all: the children of
 * root[outer][key], where that opens with `open`, go one after the other to `take`, and in the document the container
 * is empty. A child's strings live as long as the document, its items and members until `take` returns; `key` is NULL
 * in an array. A repeated key is not noticed, but such a container may stand only once. `take` returns false with *err.
 */
typedef struct JsonTap {
    const char *outer, *key;
    char open; /* '[' or '{' */
    bool (*take)(void *context, const JsonMember *child, Error *err);
    void *context;
} JsonTap;
JsonDoc *json_parse_tapped(const char *text, size_t length, const JsonTap *taps, size_t n_taps, Error *err);
JsonDoc *json_parse_file_tapped(const char *path, const JsonTap *taps, size_t n_taps, Error *err);
void json_free(JsonDoc *doc);
const JsonValue *json_root(const JsonDoc *doc);

/* Member `key` of an object; NULL when absent or when `v` is NULL or no object. */
const JsonValue *json_get(const JsonValue *v, const char *key);
/* As json_get, but a member that is null counts as absent. */
const JsonValue *json_get_set(const JsonValue *v, const char *key);
/* Item i of an array, else NULL. */
const JsonValue *json_item(const JsonValue *v, uint32_t i);
/* The text of a string, else NULL. */
const char *json_string(const JsonValue *v);
bool json_equals(const JsonValue *v, const char *text); /* v is that string */
/* An INT, or a FLOAT with an integral value, inside int64: true and *out. */
bool json_int(const JsonValue *v, int64_t *out);
bool json_number(const JsonValue *v, double *out);
bool json_bool(const JsonValue *v, bool *out);

/* json.dumps(v, ensure_ascii=..., indent=..., separators=..., sort_keys=...). */
typedef struct JsonStyle {
    bool ensure_ascii, sort_keys;
    int indent;                     /* -1: one line */
    const char *item_sep, *key_sep; /* NULL: Python's defaults for that indent */
} JsonStyle;
void json_write(Buffer *out, const JsonValue *v, const JsonStyle *style);        /* style NULL: one line, UTF-8 kept */
void json_write_string(Buffer *out, const char *s, size_t n, bool ensure_ascii); /* with the quotes */
void json_write_double(Buffer *out, double d); /* Python's repr: 1e+16, 0.1, 100.0, NaN, Infinity */

#endif
