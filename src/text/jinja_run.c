/* The means of one rendering: memory in small pieces of an arena, the error, and the counters that end a hostile
 * template: steps, depth and bytes. */
#include "text/jinja_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 32 << 10 };

void jinja_heap_init(JinjaHeap *heap, size_t limit) {
    *heap = (JinjaHeap){.limit = limit};
    arena_init(&heap->arena);
}

void jinja_heap_clear(JinjaHeap *heap) {
    arena_clear(&heap->arena);
    heap->at = heap->end = NULL;
}

void *jinja_heap_take(JinjaHeap *heap, size_t bytes) {
    if (bytes > heap->limit - heap->used) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > (size_t)(heap->end - heap->at)) {
        size_t chunk = bytes > CHUNK / 4 ? bytes : CHUNK;
        char *p = arena_array(&heap->arena, chunk, 1);
        if (!p) return NULL;
        if (chunk == bytes) {
            heap->used += bytes < heap->limit - heap->used ? bytes : heap->limit - heap->used;
            memset(p, 0, bytes);
            return p;
        }
        heap->at = p;
        heap->end = p + chunk;
    }
    void *p = heap->at;
    heap->at += bytes;
    heap->used += bytes < heap->limit - heap->used ? bytes : heap->limit - heap->used;
    memset(p, 0, bytes);
    return p;
}

/* ---- errors and limits ---- */

void run_error(Run *run, const char *format, ...) {
    if (run->failed) return;
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->failed = true;
    error_set(run->err, "%s", text);
}

bool run_memory(Run *run) {
    if (run->heap.limit - run->heap.used < (1u << 20))
        return run_fail(run, "the template needs more than %zu MB of memory; it was stopped", run->heap.limit >> 20);
    return run_fail(run, "out of memory while rendering the chat template");
}

bool run_charge(Run *run, uint64_t steps) {
    if (steps <= run->step_limit - run->steps) {
        run->steps += steps;
        return true;
    }
    return run_fail(run, "the template ran for more than %llu steps; it was stopped",
                    (unsigned long long)run->step_limit);
}

bool run_enter(Run *run) {
    if (run->depth >= run->depth_limit)
        return run_fail(run, "the template nests deeper than %d levels (endless recursion?)", run->depth_limit);
    run->depth++;
    return true;
}

void run_leave(Run *run) {
    run->depth--;
}

void *run_take(Run *run, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        run_memory(run);
        return NULL;
    }
    void *p = jinja_heap_take(&run->heap, bytes);
    if (!p) run_memory(run);
    return p;
}
