/* Bytes that grow: text being built, a file being written. A failed allocation sets `failed` and turns every later
 * append into nothing, so that a caller checks once, at the end. `data` is always NUL-terminated (NULL while empty). */
#ifndef LOCKSTEP_BASE_BUFFER_H
#define LOCKSTEP_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Buffer {
    char *data;
    size_t length, capacity;
    bool failed;
} Buffer;

void buffer_init(Buffer *b);  /* all zero: `Buffer b = {0}` does the same */
void buffer_clear(Buffer *b); /* frees */
void buffer_reset(Buffer *b); /* empties, keeps the memory */
void buffer_append(Buffer *b, const void *bytes, size_t length);
void buffer_text(Buffer *b, const char *text);
void buffer_byte(Buffer *b, char c);
void buffer_printf(Buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buffer_reserve(Buffer *b, size_t more); /* false when out of memory */
const char *buffer_string(const Buffer *b);  /* never NULL */

#endif
