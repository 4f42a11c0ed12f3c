/* Names stand inside of JSON without escapes and before brackets, quotes and white space that end them, and arguments
 * are an object to whoever reads calls. So both are held to that before a grammar or a template sees them. The names
 * are those of OpenAI and Anthropic, and a few characters more that stand in names of MCP servers' tools. */
#include "text/toolcall_check.h"
#include "text/toolcall_schema.h"

#include <string.h>

enum { MOST_NAME = 128 };

static bool may_stand(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_-./:", c));
}

static bool check_name(const JsonValue *name, Error *err) {
    bool ok = json_string(name) && name->length > 0 && name->length <= MOST_NAME;
    for (uint32_t i = 0; ok && i < name->length; i++) ok = may_stand(name->text[i]);
    return ok || error_set(err, "its name must be 1 to %d of the characters a-z, A-Z, 0-9, _ - . / :", MOST_NAME);
}

bool tool_check(const JsonValue *name, const JsonValue *parameters, Error *err) {
    if (!check_name(name, err)) return false;
    if (!parameters || parameters->type == JSON_NULL) return true;
    unsigned types = parameters->type == JSON_OBJECT ? schema_types((Schema){parameters, parameters}) : 0;
    return (types & TYPE_OBJECT) ||
           error_set(err, "the schema of its parameters must be one of an object (\"type\": \"object\")");
}
