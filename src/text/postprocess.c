/* BertProcessing and RobertaProcessing are templates, too; ByteLevel adds nothing. Only the form for one text is read:
 * pairs are for classifiers. */
#include "text/postprocess.h"
#include "text/component.h"

#include <string.h>

static bool add(Postprocessor *p, int32_t item, Error *err) {
    return id_list_push(&p->items, item) || error_memory(err, "the post-processor");
}

/* The ids of {"SpecialToken": {"id": name}} in the "special_tokens" of the template. */
static bool add_special(Postprocessor *p, const JsonValue *specials, const JsonValue *token, Error *err) {
    const char *name = json_string(json_get(token, "id"));
    if (!name) return error_set(err, "a SpecialToken without \"id\"");
    const JsonValue *ids = json_get(json_get(specials, name), "ids");
    if (!ids || ids->type != JSON_ARRAY) return error_set(err, "the special token \"%s\" has no \"ids\"", name);
    for (uint32_t i = 0; i < ids->length; i++) {
        int64_t id;
        if (!json_int(&ids->items[i], &id) || id < 0 || id > INT32_MAX)
            return error_set(err, "the special token \"%s\" has a bad id", name);
        if (!add(p, (int32_t)id, err)) return false;
    }
    return true;
}

static bool load_template(Postprocessor *p, const JsonValue *v, Error *err) {
    const JsonValue *single = json_get(v, "single"), *specials = json_get(v, "special_tokens");
    if (!single || single->type != JSON_ARRAY) return error_set(err, "\"single\" is not an array");
    for (uint32_t i = 0; i < single->length; i++) {
        const JsonValue *special = json_get(&single->items[i], "SpecialToken"),
                        *text = json_get(&single->items[i], "Sequence");
        if (special ? !add_special(p, specials, special, err) : !text || !add(p, TEMPLATE_TEXT, err)) {
            return special || text ? false : error_set(err, "\"single\" holds something unknown");
        }
    }
    return add(p, TEMPLATE_END, err);
}

/* "sep" and "cls": [token, id]. */
static bool load_pair(const JsonValue *v, const char *key, int32_t *out, Error *err) {
    int64_t id;
    if (!json_int(json_item(json_get(v, key), 1), &id) || id < 0 || id > INT32_MAX)
        return error_set(err, "\"%s\" is not a token and its id", key);
    *out = (int32_t)id;
    return true;
}

static bool load_bert(Postprocessor *p, const JsonValue *v, Error *err) {
    int32_t cls = 0, sep = 0;
    return load_pair(v, "cls", &cls, err) && load_pair(v, "sep", &sep, err) && add(p, cls, err) &&
           add(p, TEMPLATE_TEXT, err) && add(p, sep, err) && add(p, TEMPLATE_END, err);
}

bool postprocessor_set(Postprocessor *p, int32_t before, int32_t behind, Error *err) {
    *p = (Postprocessor){0};
    if (before < 0 && behind < 0) return true;
    return (before < 0 || add(p, before, err)) && add(p, TEMPLATE_TEXT, err) && (behind < 0 || add(p, behind, err)) &&
           add(p, TEMPLATE_END, err);
}

static bool load_component(void *to, const JsonValue *v, Error *err) {
    Postprocessor *p = to;
    const char *type = component_type(v, "a post-processor", err);
    if (!type) return false;
    if (strcmp(type, "Sequence") == 0) return component_sequence(v, "processors", load_component, p, err);
    if (strcmp(type, "ByteLevel") == 0) return true;
    bool template = strcmp(type, "TemplateProcessing") == 0;
    if (p->items.n && strcmp(type, "ByteLevel") != 0) { /* the reference then does something else than it says */
        return error_set(err, "a Sequence with more than one template is not supported");
    }
    if (template || strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        return (template ? load_template(p, v, err) : load_bert(p, v, err)) || error_prefix(err, "%s", type);
    }
    return component_unknown("post-processor", type, err);
}

bool postprocessor_load(Postprocessor *p, const JsonValue *v, Error *err) {
    *p = (Postprocessor){0};
    if (!v || v->type == JSON_NULL) return true;
    if (load_component(p, v, err)) return true;
    postprocessor_clear(p);
    return error_prefix(err, "post_processor");
}

void postprocessor_clear(Postprocessor *p) {
    id_list_clear(&p->items);
}

bool postprocess(const Postprocessor *p, IdList *ids, size_t start, Error *err) {
    IdList result = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < p->items.n; i++) {
        int32_t item = p->items.ids[i];
        if (item == TEMPLATE_TEXT) {
            ok = ids->n == start || id_list_append(&result, ids->ids + start, ids->n - start);
        } else if (item == TEMPLATE_END) {
            ids->n = start;
            ok = id_list_append(ids, result.ids, result.n);
            result.n = 0;
        } else {
            ok = id_list_push(&result, item);
        }
    }
    id_list_clear(&result);
    return ok || error_memory(err, "ids");
}
