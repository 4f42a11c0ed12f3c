/* What the readers of tokenizer.json's components share. */
#ifndef LOCKSTEP_TEXT_COMPONENT_H
#define LOCKSTEP_TEXT_COMPONENT_H

#include "base/json.h"
#include "text/pattern.h"

/* The component's "type"; NULL and an error that names `what` when there is none. */
const char *component_type(const JsonValue *v, const char *what, Error *err);
/* Optional members: *out stays when the key is absent or null; false and an error when the value is of another type. */
bool component_bool(const JsonValue *v, const char *key, bool *out, Error *err);
bool component_size(const JsonValue *v, const char *key, size_t *out, Error *err);
/* A string that must be there. */
const JsonValue *component_text(const JsonValue *v, const char *key, Error *err);
/* {"String": text} or {"Regex": expression} under "pattern". NULL and an error otherwise. */
Pattern *component_pattern(const JsonValue *v, Error *err);
/* The components of a Sequence, an array under `key`, loaded one after the other into `to`. */
typedef bool ComponentLoader(void *to, const JsonValue *v, Error *err);
bool component_sequence(const JsonValue *v, const char *key, ComponentLoader *load, void *to, Error *err);
/* Always false. */
bool component_unknown(const char *what, const char *type, Error *err);

#endif
