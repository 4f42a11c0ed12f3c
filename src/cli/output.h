/* Standard output, and what goes to stderr beside it. A reader that went away ends the program quietly; a disk that is
 * full is an error. */
#ifndef LOCKSTEP_CLI_OUTPUT_H
#define LOCKSTEP_CLI_OUTPUT_H

#include "base/buffer.h"
#include "base/error.h"

/* Writes and flushes. False when nobody reads any more, or the write failed: stop working then. */
bool output_write(const char *text, size_t n);
bool output_text(const char *text);
bool output_buffer(const Buffer *b); /* a failed buffer is an error that output_finish reports */
bool output_byte(char c);
/* A newline after a text that must otherwise be written exactly: only on a terminal, where its prompt would follow. */
void output_line_end(const Buffer *text);

/* {"error": "..."} on a line of its own: what stands in the place of a result of --jsonl. */
bool output_error_line(const Error *error);

/* The exit status: `status`, or 1 with a message when a write failed for another reason than a closed pipe. */
int output_finish(int status);

/* "lockstep: message" on stderr; returns 1, the exit status. */
int complain(const Error *err);

/* A line on stderr that is drawn over, only where stderr is a terminal: "what 12/345". total 0 shows `what` alone. */
void progress_show(const char *what, long long done, long long total);
void progress_clear(void);

/* The escape sequence where `file_descriptor` is a terminal that may show colour (NO_COLOR, TERM=dumb), else "". */
const char *style(int file_descriptor, const char *sequence);
#define STYLE_DIM "\033[2m"
#define STYLE_BOLD "\033[1m"
#define STYLE_OFF "\033[0m"

#endif
