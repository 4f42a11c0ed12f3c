/* An entry is 16 bytes in an array that doubles and its text in an arena. Taking them while the file is read makes
 * their order in the file indifferent: the vocabulary may come after the merges. */
#include "text/model_lists.h"
#include "base/memory.h"

#include <string.h>

/* Room for one more; false when out of memory. */
static bool make_room(void **items, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return true;
    size_t wanted = *capacity ? *capacity * 2 : 1024;
    void *grown = mem_resize(*items, wanted, size);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

/* "token": id */
static bool take_entry(void *context, const JsonMember *child, Error *err) {
    ModelLists *l = context;
    int64_t id;
    if (!json_int(&child->value, &id) || id < 0 || id >= VOCAB_MAX_ID)
        return error_set(err, "model.vocab: \"%.100s\" has no valid id", child->key);
    void *entries = l->entries;
    char *text = arena_aligned(&l->texts, child->key_length + 1, 1, 1);
    if (!text || !make_room(&entries, l->n_entries, &l->entries_capacity, sizeof *l->entries))
        return error_memory(err, "the vocabulary");
    memcpy(text, child->key, child->key_length + 1);
    l->entries = entries;
    l->entries[l->n_entries++] = (VocabEntry){text, child->key_length, (int32_t)id};
    return true;
}

/* "a b", or ["a", "b"]. */
static bool merge_parts(const JsonValue *v, const char *part[2], uint32_t length[2]) {
    if (v->type == JSON_STRING) {
        const char *space = memchr(v->text, ' ', v->length);
        if (!space) return false;
        part[0] = v->text;
        part[1] = space + 1;
        length[0] = (uint32_t)(space - v->text);
        length[1] = v->length - length[0] - 1;
        return memchr(part[1], ' ', length[1]) == NULL;
    }
    if (v->type != JSON_ARRAY || v->length != 2) return false;
    for (int i = 0; i < 2; i++) {
        part[i] = v->items[i].text;
        length[i] = v->items[i].length;
    }
    return v->items[0].type == JSON_STRING && v->items[1].type == JSON_STRING;
}

static bool take_merge(void *context, const JsonMember *child, Error *err) {
    ModelLists *l = context;
    const char *part[2];
    MergeText m;
    if (!merge_parts(&child->value, part, m.length))
        return error_set(err, "model.merges[%zu] is not a pair of tokens", l->n_merges);
    void *merges = l->merges;
    char *text = arena_aligned(&l->texts, (size_t)m.length[0] + m.length[1] + 1, 1, 1);
    if (!text || !make_room(&merges, l->n_merges, &l->merges_capacity, sizeof *l->merges))
        return error_memory(err, "merges");
    memcpy(text, part[0], m.length[0]);
    memcpy(text + m.length[0], part[1], m.length[1]);
    m.text = text;
    l->merges = merges;
    l->merges[l->n_merges++] = m;
    return true;
}

void model_lists_init(ModelLists *lists, JsonTap taps[MODEL_TAPS]) {
    *lists = (ModelLists){0};
    arena_init(&lists->texts);
    taps[0] = (JsonTap){"model", "vocab", '{', take_entry, lists};
    taps[1] = (JsonTap){"model", "merges", '[', take_merge, lists};
}

void model_lists_clear(ModelLists *lists) {
    arena_clear(&lists->texts);
    mem_free(lists->entries);
    mem_free(lists->merges);
    *lists = (ModelLists){0};
}
