/* One sentence for the person: what went wrong, where, and what to do.
 *
 * Every function that can fail takes `Error *err` last and returns false or NULL. `err` may be NULL.
 * On failure outputs are untouched and nothing leaks. */
#ifndef LOCKSTEP_BASE_ERROR_H
#define LOCKSTEP_BASE_ERROR_H

#include <stdbool.h>

typedef struct Error {
    char text[1024];
} Error;

/* Sets the message and returns false, so that a caller can write `return error_set(err, ...)`. A text that is
 * too long is cut at a character boundary; control characters become '?', since messages quote files. */
bool error_set(Error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "what: " before the message already there; returns false. */
bool error_prefix(Error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "out of memory", with what was wanted; returns false. */
bool error_memory(Error *err, const char *what);

#endif
