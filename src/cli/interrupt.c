/* The signal handler does as little as a handler may: count, and leave when nobody looks at the count. Reads are
 * interrupted (no SA_RESTART), so that a prompt waiting for a line notices. */
#define _POSIX_C_SOURCE 200809L
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t catching, noted;

static char half_written[4096]; /* empty: nothing */

/* A third Ctrl-C while one is being ignored is someone who means it. */
enum { PATIENCE = 3 };

static void on_interrupt(int number) {
    (void)number;
    if (catching && ++noted < PATIENCE) return;
    if (half_written[0]) unlink(half_written);
    _exit(EXIT_INTERRUPTED);
}

void interrupt_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void interrupt_catch(bool caught) {
    noted = 0;
    catching = caught;
}

bool interrupt_noted(void) {
    return noted > 0;
}

void interrupt_forget(void) {
    noted = 0;
}

void interrupt_removes(const char *path) {
    size_t n = path ? strlen(path) : 0;
    half_written[0] = 0; /* never a mixture of two names: the first byte is written last */
    if (n == 0 || n >= sizeof half_written) return;
    memcpy(half_written + 1, path + 1, n);
    half_written[0] = path[0];
}
