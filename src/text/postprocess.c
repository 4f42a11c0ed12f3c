/* BertProcessing and RobertaProcessing are templates, too; ByteLevel adds nothing. */
#include "text/postprocess.h"
#include "text/component.h"

#include <string.h>

static bool add(Postprocessor *p, int32_t item, Error *err) {
    return id_list_push(&p->items, item) || error_memory(err, "the post-processor");
}

static bool add_pair(Postprocessor *p, int32_t item, int32_t type, Error *err) {
    return (id_list_push(&p->pair, item) && id_list_push(&p->pair_types, type)) ||
           error_memory(err, "the post-processor");
}

/* One item of the template for a text (type < 0), or for a pair. */
static bool add_item(Postprocessor *p, int32_t item, int32_t type, Error *err) {
    return type < 0 ? add(p, item, err) : add_pair(p, item, type, err);
}

/* The ids of {"SpecialToken": {"id": name}} in the "special_tokens" of the template. */
static bool add_special(Postprocessor *p, const JsonValue *specials, const JsonValue *token, int32_t type, Error *err) {
    const char *name = json_string(json_get(token, "id"));
    if (!name) return error_set(err, "a SpecialToken without \"id\"");
    const JsonValue *ids = json_get(json_get(specials, name), "ids");
    if (!ids || ids->type != JSON_ARRAY) return error_set(err, "the special token \"%s\" has no \"ids\"", name);
    for (uint32_t i = 0; i < ids->length; i++) {
        int64_t id;
        if (!json_int(&ids->items[i], &id) || id < 0 || id > INT32_MAX)
            return error_set(err, "the special token \"%s\" has a bad id", name);
        if (!add_item(p, (int32_t)id, type, err)) return false;
    }
    return true;
}

static bool load_single(Postprocessor *p, const JsonValue *v, Error *err) {
    const JsonValue *single = json_get(v, "single"), *specials = json_get(v, "special_tokens");
    if (!single || single->type != JSON_ARRAY) return error_set(err, "\"single\" is not an array");
    for (uint32_t i = 0; i < single->length; i++) {
        const JsonValue *special = json_get(&single->items[i], "SpecialToken"),
                        *text = json_get(&single->items[i], "Sequence");
        if (special ? !add_special(p, specials, special, -1, err) : !text || !add(p, TEMPLATE_TEXT, err)) {
            return special || text ? false : error_set(err, "\"single\" holds something unknown");
        }
    }
    return add(p, TEMPLATE_END, err);
}

/* An item of "pair": {"Sequence" or "SpecialToken": {"id": ..., "type_id": ...}}. */
static bool load_pair_item(Postprocessor *p, const JsonValue *item, const JsonValue *specials, Error *err) {
    const JsonValue *special = json_get(item, "SpecialToken"), *text = json_get(item, "Sequence");
    const JsonValue *token = special ? special : text;
    int64_t type = 0;
    if (!token) return error_set(err, "\"pair\" holds something unknown");
    if (!json_int(json_get(token, "type_id"), &type) || type < 0 || type > INT32_MAX)
        return error_set(err, "\"pair\" has an item without a \"type_id\"");
    if (special) return add_special(p, specials, special, (int32_t)type, err);
    bool second = json_equals(json_get(text, "id"), "B");
    if (!second && !json_equals(json_get(text, "id"), "A"))
        return error_set(err, "\"pair\" has a Sequence that is neither \"A\" nor \"B\"");
    return add_pair(p, second ? TEMPLATE_SECOND : TEMPLATE_TEXT, (int32_t)type, err);
}

static bool load_template(Postprocessor *p, const JsonValue *v, Error *err) {
    const JsonValue *pair = json_get_set(v, "pair"), *specials = json_get(v, "special_tokens");
    if (!load_single(p, v, err)) return false;
    if (pair && pair->type != JSON_ARRAY) return error_set(err, "\"pair\" is not an array");
    for (uint32_t i = 0; pair && i < pair->length; i++)
        if (!load_pair_item(p, json_item(pair, i), specials, err)) return false;
    return true;
}

/* "sep" and "cls": [token, id]. */
static bool load_token(const JsonValue *v, const char *key, int32_t *out, Error *err) {
    int64_t id;
    if (!json_int(json_item(json_get(v, key), 1), &id) || id < 0 || id > INT32_MAX)
        return error_set(err, "\"%s\" is not a token and its id", key);
    *out = (int32_t)id;
    return true;
}

/* Between the texts of a pair RoBERTa has two of the ending token, and all of one type. */
static bool load_bert(Postprocessor *p, const JsonValue *v, bool roberta, Error *err) {
    int32_t cls = 0, sep = 0, type = roberta ? 0 : 1;
    return load_token(v, "cls", &cls, err) && load_token(v, "sep", &sep, err) && add(p, cls, err) &&
           add(p, TEMPLATE_TEXT, err) && add(p, sep, err) && add(p, TEMPLATE_END, err) && add_pair(p, cls, 0, err) &&
           add_pair(p, TEMPLATE_TEXT, 0, err) && add_pair(p, sep, 0, err) && (!roberta || add_pair(p, sep, 0, err)) &&
           add_pair(p, TEMPLATE_SECOND, type, err) && add_pair(p, sep, type, err);
}

/* What stands where nothing is said: one text after the other. */
static bool load_plain_pair(Postprocessor *p, Error *err) {
    return add_pair(p, TEMPLATE_TEXT, 0, err) && add_pair(p, TEMPLATE_SECOND, 1, err);
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
    bool template = strcmp(type, "TemplateProcessing") == 0, roberta = strcmp(type, "RobertaProcessing") == 0;
    if (p->items.n && strcmp(type, "ByteLevel") != 0) { /* the reference then does something else than it says */
        return error_set(err, "a Sequence with more than one template is not supported");
    }
    if (template || roberta || strcmp(type, "BertProcessing") == 0) {
        return (template ? load_template(p, v, err) : load_bert(p, v, roberta, err)) || error_prefix(err, "%s", type);
    }
    return component_unknown("post-processor", type, err);
}

bool postprocessor_load(Postprocessor *p, const JsonValue *v, Error *err) {
    *p = (Postprocessor){0};
    bool none = !v || v->type == JSON_NULL, ok = none || load_component(p, v, err);
    if (ok && p->items.n == 0) ok = load_plain_pair(p, err);
    if (ok) return true;
    postprocessor_clear(p);
    return error_prefix(err, "post_processor");
}

void postprocessor_clear(Postprocessor *p) {
    id_list_clear(&p->items);
    id_list_clear(&p->pair);
    id_list_clear(&p->pair_types);
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

size_t postprocessor_pair_added(const Postprocessor *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->pair.n; i++) n += p->pair.ids[i] >= 0;
    return n;
}

bool postprocess_pair(const Postprocessor *p, const IdList *first, const IdList *second, IdList *ids, IdList *types,
                      Error *err) {
    bool ok = true;
    for (size_t i = 0; ok && i < p->pair.n; i++) {
        int32_t item = p->pair.ids[i];
        const IdList one = {&item, 1, 1};
        const IdList *from = item == TEMPLATE_TEXT ? first : item == TEMPLATE_SECOND ? second : &one;
        ok = from->n == 0 || id_list_append(ids, from->ids, from->n);
        for (size_t j = 0; ok && j < from->n; j++) ok = id_list_push(types, p->pair_types.ids[i]);
    }
    return ok || error_memory(err, "ids");
}
