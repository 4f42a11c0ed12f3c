/* The list of calls that readers fill. */
#include "text/toolcall.h"
#include "base/memory.h"

Call *calls_push(CallList *l) {
    if (l->n == l->capacity) {
        Call *items = mem_resize(l->items, l->capacity * 2 + 2, sizeof *items);
        if (!items) {
            l->failed = true;
            return NULL;
        }
        l->items = items;
        l->capacity = l->capacity * 2 + 2;
    }
    l->items[l->n] = (Call){0};
    return &l->items[l->n++];
}

void calls_reset(CallList *l) {
    while (l->n > 0) {
        Call *c = &l->items[--l->n];
        buffer_clear(&c->name);
        buffer_clear(&c->id);
        buffer_clear(&c->arguments);
    }
}

void calls_clear(CallList *l) {
    calls_reset(l);
    mem_free(l->items);
    *l = (CallList){0};
}
