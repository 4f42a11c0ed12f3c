/* Lines on stderr, whole: one write per line, so that threads do not interleave. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic int level = LOG_NORMAL;

void log_set_level(LogLevel l) {
    atomic_store(&level, (int)l);
}

LogLevel log_level(void) {
    return (LogLevel)atomic_load(&level);
}

static void put(const char *head, const char *format, va_list args) {
    char line[1200];
    vsnprintf(line, sizeof line, format, args);
    fprintf(stderr, "%s%s\n", head, line);
}

void log_warn(const char *format, ...) {
    if (log_level() < LOG_NORMAL) return;
    va_list args;
    va_start(args, format);
    put("warning: ", format, args);
    va_end(args);
}

void log_verbose(const char *format, ...) {
    if (log_level() < LOG_VERBOSE) return;
    va_list args;
    va_start(args, format);
    put("", format, args);
    va_end(args);
}
