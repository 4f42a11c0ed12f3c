/* What the user hands over: files (where - and /dev/stdin are standard input), lists of numbers, JSON. */
#ifndef LOCKSTEP_CLI_INPUT_H
#define LOCKSTEP_CLI_INPUT_H

#include "base/json.h"
#include "cli/flags.h"
#include "text/tokenizer.h"

/* Appends the whole file; errors start with its name. */
bool input_file(const char *path, Buffer *out, Error *err);
/* The same, and it must be UTF-8: the error gives the first offending byte. */
bool input_text(const char *path, Buffer *out, Error *err);
bool input_json(const char *path, JsonDoc **out, Error *err);
/* The array in the file that a flag names; *out stays as it is where the flag is not given (path NULL). */
bool input_array(const char *flag, const char *path, JsonDoc **out, Error *err);

/* "1,2,3", also with spaces, newlines and brackets. `what` starts the error. */
bool input_ids(const char *what, const char *text, IdList *out, Error *err);
/* The ids of --ids or --ids-file; an error when both or an unreadable one is given, and *given tells whether either
 * was. */
bool input_ids_flags(const Args *args, IdList *out, bool *given, Error *err);

/* Calls `line` with each line of a file, without its newline. False when it does or the file can not be read. */
typedef bool InputLine(void *context, const char *text, size_t n, Error *err);
bool input_lines(const char *path, InputLine *line, void *context, Error *err);

#endif
