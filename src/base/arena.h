/* Scratch memory for one step: allocate forward, rewind at the end. Blocks are kept between steps, so a steady
 * decode step takes nothing from the heap. Pointers are 64-byte aligned and die at the rewind. */
#ifndef LOCKSTEP_BASE_ARENA_H
#define LOCKSTEP_BASE_ARENA_H

#include <stddef.h>

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
    ArenaBlock *first, *current;
} Arena;

typedef struct ArenaMark {
    ArenaBlock *block;
    size_t used;
} ArenaMark;

void arena_init(Arena *arena);
void arena_clear(Arena *arena); /* frees everything */

/* count * size bytes, uninitialised; NULL when out of memory or the product overflows. */
void *arena_array(Arena *arena, size_t count, size_t size);
/* The same at a multiple of `align`, a power of two up to 64: for many small things. */
void *arena_aligned(Arena *arena, size_t count, size_t size, size_t align);
ArenaMark arena_mark(const Arena *arena);
void arena_rewind(Arena *arena, ArenaMark mark);

#endif
