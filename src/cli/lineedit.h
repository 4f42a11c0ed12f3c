/* A line from the person at the terminal: editing, history, pasted text with newlines, Ctrl-C. */
#ifndef LOCKSTEP_CLI_LINEEDIT_H
#define LOCKSTEP_CLI_LINEEDIT_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct LineEdit LineEdit;

typedef enum LineResult {
    LINE_TEXT,
    LINE_END,             /* Ctrl-D, or the terminal is gone */
    LINE_INTERRUPTED,     /* Ctrl-C with text on the line: it is thrown away */
    LINE_INTERRUPT_EMPTY, /* Ctrl-C on an empty line */
} LineResult;

/* Reads the history of earlier sessions. Standard input must be a terminal. */
LineEdit *lineedit_new(Error *err);
/* Writes the history and puts the terminal back. */
void lineedit_free(LineEdit *e);
/* Reads one line, without its newline, into out (replaced). The prompt is borrowed until the next call. */
LineResult lineedit_read(LineEdit *e, const char *prompt, Buffer *out);
/* Adds an entry, which may have several lines. */
void lineedit_remember(LineEdit *e, const char *text);

#endif
