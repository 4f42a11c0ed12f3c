/* An entry is 16 or 24 bytes in an array that doubles, and points at texts that the reader has copied anyway. Taking
 * them while the file is read makes their order in the file indifferent: the vocabulary may come after the merges. */
#include "text/model_lists.h"
#include "base/memory.h"

#include <string.h>

/* "token": id */
static bool take_entry(void *context, const JsonMember *child, Error *err) {
    ModelLists *l = context;
    const JsonValue *id = &child->value;
    if (id->type != JSON_INT || !(id->number >= 0 && id->number < VOCAB_MAX_ID))
        return error_set(err, "model.vocab: \"%.100s\" has no valid id", child->key);
    VocabEntry *entries = mem_room(l->entries, l->n_entries, &l->entries_capacity, sizeof *entries);
    if (!entries) return error_memory(err, "the vocabulary");
    l->entries = entries;
    l->entries[l->n_entries++] = (VocabEntry){child->key, child->key_length, (int32_t)id->number};
    return true;
}

/* "a b", or ["a", "b"]. */
static bool merge_parts(const JsonValue *v, MergeText *m) {
    if (v->type == JSON_STRING) {
        const char *space = memchr(v->text, ' ', v->length);
        if (!space) return false;
        uint32_t left = (uint32_t)(space - v->text);
        *m = (MergeText){{v->text, space + 1}, {left, v->length - left - 1}};
        return memchr(m->text[1], ' ', m->length[1]) == NULL;
    }
    if (v->type != JSON_ARRAY || v->length != 2) return false;
    const JsonValue *left = &v->items[0], *right = &v->items[1];
    *m = (MergeText){{left->text, right->text}, {left->length, right->length}};
    return left->type == JSON_STRING && right->type == JSON_STRING;
}

static bool take_merge(void *context, const JsonMember *child, Error *err) {
    ModelLists *l = context;
    MergeText *merges = mem_room(l->merges, l->n_merges, &l->merges_capacity, sizeof *merges);
    if (!merges) return error_memory(err, "merges");
    l->merges = merges;
    if (!merge_parts(&child->value, &l->merges[l->n_merges]))
        return error_set(err, "model.merges[%zu] is not a pair of tokens", l->n_merges);
    l->n_merges++;
    return true;
}

void model_lists_taps(ModelLists *lists, JsonTap taps[MODEL_TAPS]) {
    taps[0] = (JsonTap){"model", "vocab", '{', take_entry, lists};
    taps[1] = (JsonTap){"model", "merges", '[', take_merge, lists};
}

void model_lists_clear(ModelLists *lists) {
    mem_free(lists->entries);
    mem_free(lists->merges);
    *lists = (ModelLists){0};
}
