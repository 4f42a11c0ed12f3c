/* The allocator behind everything: malloc with overflow checks, a failure switch for tests and a counter for the
 * allocation guard. Alignment comes from aligned_alloc, whose memory free() takes too. */
#define _GNU_SOURCE
#include "base/memory.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t n_allocations;
static _Atomic uint64_t fail_at; /* 0: never */

static bool may_allocate(void) {
    uint64_t n = atomic_fetch_add_explicit(&n_allocations, 1, memory_order_relaxed) + 1;
    uint64_t limit = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return limit == 0 || n < limit;
}

static bool byte_count(size_t count, size_t size, size_t *bytes) {
    if (__builtin_mul_overflow(count, size, bytes) || *bytes > PTRDIFF_MAX - 64) return false;
    if (*bytes == 0) *bytes = 1;
    return true;
}

/* Large blocks are asked for on huge pages: their first use then costs a fault per 2 MB in place of one per 4 KB, and
 * random reads miss the TLB less. A wish: refused on some systems, and then ordinary pages serve. */
static void *want_huge_pages(void *p, size_t bytes) {
    enum { LARGE = 4 << 20, PAGE = 4096 };
    if (!p || bytes < LARGE) return p;
    uintptr_t start = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE, end = ((uintptr_t)p + bytes) / PAGE * PAGE;
    madvise((void *)start, end - start, MADV_HUGEPAGE); /* fails where pages are larger: start is then no page */
    return p;
}

void *mem_zeroed(size_t count, size_t size) {
    size_t bytes;
    if (!byte_count(count, size, &bytes) || !may_allocate()) return NULL;
    return want_huge_pages(calloc(1, bytes), bytes);
}

void *mem_array(size_t count, size_t size) {
    size_t bytes;
    if (!byte_count(count, size, &bytes) || !may_allocate()) return NULL;
    return want_huge_pages(malloc(bytes), bytes);
}

void *mem_resize(void *p, size_t count, size_t size) {
    size_t bytes;
    if (!byte_count(count, size, &bytes) || !may_allocate()) return NULL;
    return want_huge_pages(realloc(p, bytes), bytes);
}

void *mem_grow(void *items, size_t *capacity, size_t size) {
    size_t more = *capacity ? 2 * *capacity : 16;
    void *grown = more > *capacity ? mem_resize(items, more, size) : NULL;
    if (grown) *capacity = more;
    return grown;
}

void *mem_aligned(size_t count, size_t size) {
    size_t bytes;
    if (!byte_count(count, size, &bytes) || !may_allocate()) return NULL;
    return want_huge_pages(aligned_alloc(64, (bytes + 63) / 64 * 64), bytes);
}

char *mem_string(const char *text, size_t length) {
    char *copy = mem_array(length + 1, 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

void mem_free(void *p) {
    free(p);
}

void *mem_map(size_t bytes) {
    if (!may_allocate()) return NULL;
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

void mem_unmap(void *p, size_t bytes) {
    if (p) munmap(p, bytes ? bytes : 1);
}

bool mem_product(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

void mem_fail_after(uint64_t nth) {
    uint64_t now = atomic_load(&n_allocations);
    atomic_store(&fail_at, nth ? now + nth : 0);
}

uint64_t mem_count(void) {
    return atomic_load_explicit(&n_allocations, memory_order_relaxed);
}

/* The number in a file of one number; UINT64_MAX when there is none ("max"). */
static uint64_t file_number(const char *path) {
    uint64_t value;
    FILE *f = fopen(path, "re");
    if (!f) return UINT64_MAX;
    bool read = fscanf(f, "%" SCNu64, &value) == 1;
    fclose(f);
    return read ? value : UINT64_MAX;
}

static uint64_t system_available(void) {
    char line[128];
    uint64_t kilobytes, found = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return found;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1) found = kilobytes * 1024;
    fclose(f);
    return found;
}

size_t mem_available(void) {
    uint64_t available = system_available(), limit = file_number("/sys/fs/cgroup/memory.max"),
             used = file_number("/sys/fs/cgroup/memory.current");
    if (limit != UINT64_MAX && used != UINT64_MAX) {
        uint64_t left = limit > used ? limit - used : 0;
        if (left < available) available = left;
    }
    return available < SIZE_MAX ? (size_t)available : SIZE_MAX;
}
