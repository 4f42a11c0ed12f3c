/* A growing list of ids: what encoding gives and decoding takes. One file, because every model file appends to one. */
#include "text/tokenizer.h"
#include "base/memory.h"

#include <string.h>

bool id_list_append(IdList *list, const int32_t *ids, size_t n) {
    if (n > list->capacity - list->n) {
        size_t wanted, capacity = list->capacity ? list->capacity : 32;
        if (__builtin_add_overflow(list->n, n, &wanted) || wanted > PTRDIFF_MAX / sizeof *ids) return false;
        while (capacity < wanted) capacity *= 2;
        int32_t *grown = mem_resize(list->ids, capacity, sizeof *grown);
        if (!grown) return false;
        list->ids = grown;
        list->capacity = capacity;
    }
    if (n) memcpy(list->ids + list->n, ids, n * sizeof *ids);
    list->n += n;
    return true;
}

bool id_list_push(IdList *list, int32_t id) {
    if (list->n == list->capacity) return id_list_append(list, &id, 1);
    list->ids[list->n++] = id;
    return true;
}

void id_list_clear(IdList *list) {
    mem_free(list->ids);
    *list = (IdList){0};
}
