/* JSON pointers in the fragment of a URI (RFC 6901, section 6), as "$ref" has them. */
#ifndef LOCKSTEP_BASE_JSON_POINTER_H
#define LOCKSTEP_BASE_JSON_POINTER_H

#include "base/json.h"

/* What "#", "#/a/0" or "#/a%20b/c~1d" points to inside of the root; NULL: nothing is there, or it is no such pointer.
 */
const JsonValue *json_pointer(const JsonValue *root, const char *pointer);

#endif
