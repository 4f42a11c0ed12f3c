/* Growth by doubling; the sticky `failed` flag is the one invariant: once set, content no longer changes. */
#include "base/buffer.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void buffer_init(Buffer *b) {
    *b = (Buffer){0};
}

void buffer_clear(Buffer *b) {
    mem_free(b->data);
    buffer_init(b);
}

void buffer_reset(Buffer *b) {
    b->length = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

bool buffer_reserve(Buffer *b, size_t more) {
    if (b->failed) return false;
    if (more < b->capacity - b->length) return true; /* one byte stays free for the NUL */
    size_t wanted;
    if (__builtin_add_overflow(b->length, more, &wanted) || wanted > PTRDIFF_MAX - 1) {
        b->failed = true;
        return false;
    }
    wanted++;
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity < wanted) capacity = capacity > SIZE_MAX / 4 ? wanted : capacity * 2;
    char *data = mem_resize(b->data, capacity, 1);
    if (!data) {
        b->failed = true;
        return false;
    }
    if (!b->data) data[0] = 0;
    b->data = data;
    b->capacity = capacity;
    return true;
}

void buffer_append(Buffer *b, const void *bytes, size_t length) {
    if (length == 0 || !buffer_reserve(b, length)) return;
    memcpy(b->data + b->length, bytes, length);
    b->length += length;
    b->data[b->length] = 0;
}

void buffer_text(Buffer *b, const char *text) {
    buffer_append(b, text, strlen(text));
}

void buffer_byte(Buffer *b, char c) {
    buffer_append(b, &c, 1);
}

void buffer_printf(Buffer *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && buffer_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->length, (size_t)n + 1, format, again);
        b->length += (size_t)n;
    }
    va_end(again);
}

const char *buffer_string(const Buffer *b) {
    return b->data ? b->data : "";
}
