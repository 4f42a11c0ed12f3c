/* Ctrl-C. Where nothing is caught it ends the program with 130; while something that can be stopped is going on it is
 * only noted, so that the work ends in order. */
#ifndef LOCKSTEP_CLI_INTERRUPT_H
#define LOCKSTEP_CLI_INTERRUPT_H

#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 };

void interrupt_install(void);      /* once, at start: Ctrl-C ends the program */
void interrupt_catch(bool caught); /* true: note it from now on; clears what was noted */
bool interrupt_noted(void);
void interrupt_forget(void);
/* A file that is half-written until told otherwise (NULL): removed when Ctrl-C ends the program. */
void interrupt_removes(const char *path);

#endif
