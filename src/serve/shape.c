/* Every way to ask for a form is one line here; of several at once the request is refused, since one would be lost. */
#include "serve/shape.h"

#include <string.h>

static bool made(Grammar *g, const char *param, const Error *why, Grammar **out, ApiError *err) {
    if (g && *out) {
        grammar_free(g);
        return api_refuse(err, 400, param, "'%s': two forms of the answer are asked for at once", param);
    }
    if (g) *out = g;
    return g || api_refuse_error(err, 400, param, why);
}

static bool from_schema(const JsonValue *schema, const char *param, Grammar **out, ApiError *err) {
    Error why = {""};
    return made(grammar_from_schema(schema, &why), param, &why, out, err);
}

static bool from_object(const char *param, Grammar **out, ApiError *err) {
    Error why = {""};
    return made(grammar_from_json_object(&why), param, &why, out, err);
}

/* {"type": "text" | "json_object" | "json_schema", ...}; the schema stands in "json_schema", or (responses) beside the
 * type. */
static bool from_format(const JsonValue *format, const char *param, Grammar **out, ApiError *err) {
    const JsonValue *type = json_get(format, "type"), *inner = json_get(format, "json_schema");
    const JsonValue *schema = json_get_set(inner ? inner : format, "schema");
    if (json_equals(type, "text")) return true;
    if (json_equals(type, "json_object"))
        return schema ? from_schema(schema, param, out, err) : from_object(param, out, err);
    if (!json_equals(type, "json_schema"))
        return api_refuse(err, 400, param, "'%s.type' must be text, json_object or json_schema", param);
    if (!schema) return api_refuse(err, 400, param, "'%s' must have a schema", param);
    return from_schema(schema, param, out, err);
}

/* Ollama: "json", or a schema. */
static bool from_ollama(const JsonValue *format, Grammar **out, ApiError *err) {
    if (format->type == JSON_STRING && format->length == 0) return true;
    if (json_equals(format, "json")) return from_object("format", out, err);
    if (format->type == JSON_OBJECT) return from_schema(format, "format", out, err);
    return api_refuse(err, 400, "format", "'format' must be \"json\" or a schema");
}

static bool from_guides(const Fields *f, Grammar **out, ApiError *err) {
    Error why = {""};
    if (f->guided_json && !from_schema(f->guided_json, "guided_json", out, err)) return false;
    if (f->guided_choice && !made(grammar_from_choices(f->guided_choice, &why), "guided_choice", &why, out, err))
        return false;
    if (f->guided_regex &&
        !made(grammar_from_regex(f->guided_regex, strlen(f->guided_regex), &why), "guided_regex", &why, out, err))
        return false;
    return !f->guided_grammar || made(grammar_from_gbnf(f->guided_grammar, strlen(f->guided_grammar), &why),
                                      "guided_grammar", &why, out, err);
}

bool shape_grammar(const Fields *f, Grammar **out, ApiError *err) {
    const JsonValue *format = json_get_set(f->text, "format"), *output = json_get_set(f->output_config, "format");
    Grammar *g = NULL;
    bool ok = (!f->response_format || from_format(f->response_format, "response_format", &g, err)) &&
              (!format || from_format(format, "text.format", &g, err)) &&
              (!output || from_format(output, "output_config.format", &g, err)) &&
              (!f->output_format || from_format(f->output_format, "output_format", &g, err)) &&
              (!f->format || from_ollama(f->format, &g, err)) && from_guides(f, &g, err);
    if (ok)
        *out = g;
    else
        grammar_free(g);
    return ok;
}
