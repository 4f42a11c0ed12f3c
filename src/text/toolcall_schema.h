/* What the tools of a request say about a call: whether there is such a tool, and of which type an argument is. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_SCHEMA_H
#define LOCKSTEP_TEXT_TOOLCALL_SCHEMA_H

#include "base/buffer.h"
#include "base/json.h"

/* A JSON schema inside the one that $ref refers to. `node` NULL: nothing is known. */
typedef struct Schema {
    const JsonValue *root, *node;
} Schema;

enum {
    TYPE_STRING = 1,
    TYPE_INTEGER = 2,
    TYPE_NUMBER = 4,
    TYPE_BOOLEAN = 8,
    TYPE_NULL = 16,
    TYPE_OBJECT = 32,
    TYPE_ARRAY = 64,
    TYPE_ANY = 127,
};

/* The schema of a tool's arguments. `tools` is an array as in the chat API ({"type": "function", "function": {...}}),
 * of bare functions, or as in the messages API ("input_schema"); NULL: none are known. */
Schema tool_schema(const JsonValue *tools, const char *name, size_t n);
bool tool_is_known(const JsonValue *tools, const char *name, size_t n);

Schema schema_property(Schema s, const char *key, size_t n);
Schema schema_items(Schema s);
unsigned schema_types(Schema s); /* TYPE_ANY where nothing is said */

/* Appends the text as a JSON value of a type that the schema allows: the first that fits of null, number, boolean,
 * object, array (as JSON, or as Python prints them), else as a string. Where nothing is known, a text that is one of
 * those and no string counts as one. */
void schema_write(Schema s, const char *text, size_t n, Buffer *out);
/* The same for text that is not a string: JSON as it is, or as Python prints it; a string when it is neither. */
void schema_write_json(const char *text, size_t n, Buffer *out);

#endif
