/* A chain of growing blocks. Rewinding only moves the mark back: blocks after it are reused in order. */
#include "base/arena.h"
#include "base/memory.h"

#include <stdint.h>

enum { FIRST_BLOCK = 1 << 20, ALIGN = 64 };

struct ArenaBlock {
    ArenaBlock *next;
    size_t size, used;
    char *data;
};

void arena_init(Arena *arena) {
    arena->first = arena->current = NULL;
}

void arena_clear(Arena *arena) {
    for (ArenaBlock *b = arena->first, *next; b; b = next) {
        next = b->next;
        mem_free(b->data);
        mem_free(b);
    }
    arena_init(arena);
}

static ArenaBlock *block_new(size_t bytes, size_t last) {
    size_t size = last ? last * 2 : FIRST_BLOCK;
    while (size < bytes) size *= 2;
    ArenaBlock *b = mem_zeroed(1, sizeof *b);
    if (!b) return NULL;
    b->data = mem_aligned(size, 1);
    if (!b->data) {
        mem_free(b);
        return NULL;
    }
    b->size = size;
    return b;
}

static size_t round_up(size_t n, size_t align) {
    return (n + align - 1) & ~(align - 1);
}

/* The block that can take `bytes`: the current one, a later kept one, or a new one put right after the current. */
static ArenaBlock *block_for(Arena *arena, size_t bytes, size_t align) {
    ArenaBlock *b = arena->current;
    if (b && b->size >= bytes && round_up(b->used, align) <= b->size - bytes) return b;
    for (ArenaBlock *next = b ? b->next : arena->first; next; next = next->next) {
        next->used = 0;
        if (next->size >= bytes) return next;
    }
    ArenaBlock *fresh = block_new(bytes, b ? b->size : 0);
    if (!fresh) return NULL;
    ArenaBlock **link = b ? &b->next : &arena->first;
    fresh->next = *link;
    *link = fresh;
    return fresh;
}

void *arena_aligned(Arena *arena, size_t count, size_t size, size_t align) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) return NULL;
    ArenaBlock *b = block_for(arena, bytes, align);
    if (!b) return NULL;
    arena->current = b;
    b->used = round_up(b->used, align);
    void *p = b->data + b->used;
    b->used += bytes;
    return p;
}

void *arena_array(Arena *arena, size_t count, size_t size) {
    return arena_aligned(arena, count, size, ALIGN);
}

ArenaMark arena_mark(const Arena *arena) {
    return (ArenaMark){arena->current, arena->current ? arena->current->used : 0};
}

void arena_rewind(Arena *arena, ArenaMark mark) {
    arena->current = mark.block;
    if (mark.block) mark.block->used = mark.used;
}
