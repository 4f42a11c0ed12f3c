/* Error text: formatted once, cut safely, with control characters of quoted input made visible. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* vsnprintf cuts at any byte: drop a torn UTF-8 character, and replace control characters. */
static void tidy(char *text, size_t capacity, int wanted) {
    size_t n = strlen(text);
    if (wanted >= 0 && (size_t)wanted >= capacity) {
        while (n > 0 && ((unsigned char)text[n - 1] & 0xC0) == 0x80) n--;
        if (n > 0 && (unsigned char)text[n - 1] >= 0xC0) n--;
        text[n] = 0;
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) text[i] = '?';
}

bool error_set(Error *err, const char *format, ...) {
    if (!err) return false;
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    tidy(err->text, sizeof err->text, wanted);
    return false;
}

bool error_prefix(Error *err, const char *format, ...) {
    if (!err) return false;
    Error old = *err;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof err->text) {
        tidy(err->text, sizeof err->text, n);
        return false;
    }
    int more = snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old.text);
    tidy(err->text, sizeof err->text, n + more);
    return false;
}

bool error_memory(Error *err, const char *what) {
    return error_set(err, "out of memory for %s", what);
}
