/* The form of a list is that of its first item; an item of another form is refused by its place. */
#include "serve/inputs.h"
#include "base/memory.h"
#include "text/affixes.h"

#include <inttypes.h>
#include <stdio.h>

static bool out_of_memory(ApiError *err) {
    return api_refuse(err, 500, NULL, "out of memory");
}

bool inputs_read_ids(const JsonValue *list, const char *name, int vocab, IdList *out, ApiError *err) {
    for (uint32_t i = 0; i < list->length; i++) {
        const JsonValue *v = json_item(list, i);
        int64_t id;
        if (v->type != JSON_INT || !json_int(v, &id))
            return api_refuse(err, 400, name, "'%s': item %u must be the id of a token", name, i);
        if (id < 0 || id >= vocab)
            return api_refuse(err, 400, name, "'%s': item %u is %" PRId64 ", outside the vocabulary (0 to %d)", name, i,
                              id, vocab - 1);
        if (!id_list_push(out, (int32_t)id)) return out_of_memory(err);
    }
    return true;
}

static bool read_item(const JsonValue *v, const char *name, int vocab, Input *out, ApiError *err) {
    if (v->type == JSON_STRING) {
        out->text = v->text;
        out->n_text = v->length;
        return true;
    }
    if (v->type == JSON_ARRAY) return inputs_read_ids(v, name, vocab, &out->ids, err);
    return api_refuse(err, 400, name, "'%s' must be a text, a list of texts, a list of token ids, or a list of those",
                      name);
}

bool inputs_read(const JsonValue *v, const char *name, int most, int vocab, Inputs *out, ApiError *err) {
    if (!v) return api_refuse(err, 400, name, "'%s' is missing", name);
    if (v->type == JSON_ARRAY && v->length == 0) return api_refuse(err, 400, name, "'%s' is empty", name);
    bool many = v->type == JSON_ARRAY && json_item(v, 0)->type != JSON_INT;
    uint32_t n = many ? v->length : 1;
    if (n > (uint32_t)most) return api_refuse(err, 400, name, "'%s' has %u items: at most %d", name, n, most);
    if (!(out->items = mem_zeroed(n, sizeof *out->items))) return out_of_memory(err);
    out->n = (int)n;
    for (uint32_t i = 0; i < n; i++) {
        char place[64];
        snprintf(place, sizeof place, many ? "%s[%u]" : "%s", name, i);
        if (!read_item(many ? json_item(v, i) : v, place, vocab, &out->items[i], err)) return false;
    }
    return true;
}

bool inputs_encode(Inputs *in, const ServedModel *m, bool special, ApiError *err) {
    const Tokenizer *t = m->loaded.tokenizer;
    IdList around = {0};
    size_t n_before = 0;
    Error why = {""};
    bool ok = true;
    if (t && special) ok = affixes_find(t, &around, &n_before, &why);
    for (int i = 0; ok && i < in->n; i++) {
        Input *item = &in->items[i];
        if (!item->text) continue;
        if (!t) {
            ok = error_set(&why, "the model '%s' has no tokenizer: give ids of tokens", m->name);
            break;
        }
        item->n_before = n_before;
        item->n_after = around.n - n_before;
        ok = tokenizer_encode(t, item->text, item->n_text, special ? ENCODE_SPECIAL : 0, &item->ids, &why);
    }
    id_list_clear(&around);
    return ok || api_refuse_error(err, 400, NULL, &why);
}

void inputs_clear(Inputs *in) {
    for (int i = 0; i < in->n; i++) id_list_clear(&in->items[i].ids);
    mem_free(in->items);
    *in = (Inputs){0};
}
