/* A line that says which run it is at: a check takes a minute and more. */
#include "cli/probe.h"
#include "cli/output.h"

#include <stdio.h>

static void show_run(void *context, int run, int n_runs, const char *what) {
    (void)context;
    char line[256];
    snprintf(line, sizeof line, "check: %s,", what);
    progress_show(line, run + 1, n_runs);
}

bool probe_run(Model *m, CheckOptions options, CheckReport *out, Error *err) {
    options.progress = show_run;
    bool ok = check_run(m, &options, out, err);
    progress_clear();
    return ok;
}
