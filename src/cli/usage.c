/* The one way to say that a command line is wrong: one line what, one line how. */
#include "cli/commands.h"

#include <stdarg.h>
#include <stdio.h>

int wrong_usage(const Command *c, const char *format, ...) {
    char message[1024];
    Buffer usage = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    command_usage(c, &usage);
    fprintf(stderr, "lockstep %s: %s\n%s", c->name, message, buffer_string(&usage));
    buffer_clear(&usage);
    return EXIT_WRONG_USAGE;
}
