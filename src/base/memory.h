/* Every heap allocation of lockstep goes through here: one place to account, to limit, and to make the n-th
 * allocation fail in a test. Nothing aborts on failure: the caller gets NULL and says so.
 * Blocks of 4 MB and more are asked for on huge pages. */
#ifndef LOCKSTEP_BASE_MEMORY_H
#define LOCKSTEP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* count * size bytes, zeroed; NULL when the product overflows or memory is out. Zero bytes give a valid pointer. */
void *mem_zeroed(size_t count, size_t size);

/* count * size bytes, uninitialised; otherwise as above. */
void *mem_array(size_t count, size_t size);

/* Resizes p (NULL is empty) to count * size bytes; NULL leaves p as it was. */
void *mem_resize(void *p, size_t count, size_t size);

/* Room for item n of a growing array of *capacity items: the array, perhaps moved and with twice the room; NULL leaves
 * it as it was. */
void *mem_grow(void *items, size_t *capacity, size_t size);
static inline void *mem_room(void *items, size_t n, size_t *capacity, size_t size) {
    return n < *capacity ? items : mem_grow(items, capacity, size);
}

/* 64-byte aligned, uninitialised; freed with mem_free. */
void *mem_aligned(size_t count, size_t size);

char *mem_string(const char *text, size_t length); /* a NUL-terminated copy */
void mem_free(void *p);

/* Whole pages from the system, zeroed, with huge pages asked for; NULL on failure. */
void *mem_map(size_t bytes);
void mem_unmap(void *p, size_t bytes);

/* Bytes that the system and the control group would still give. */
size_t mem_available(void);

/* true and *out = a * b, or false when that overflows. For sizes that come from files and clients. */
bool mem_product(uint64_t a, uint64_t b, uint64_t *out);

/* Test hook: the allocation number `nth` from now (1 is the next) and all after it fail; 0 turns it off. */
void mem_fail_after(uint64_t nth);
/* Allocations made since the start of the process: a steady decode step must not raise it. */
uint64_t mem_count(void);

#endif
