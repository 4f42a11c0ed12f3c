/* lockstep check: the exactness probe on a model, before someone relies on it. */
#include "eval/check.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/setup.h"

#include <stdio.h>

static void show_run(void *context, int run, int n_runs, const char *what) {
    (void)context;
    char line[256];
    snprintf(line, sizeof line, "check: %s,", what);
    progress_show(line, run + 1, n_runs);
}

static void print_report(const CheckReport *report) {
    Buffer out = {0};
    if (report->exact)
        buffer_printf(&out, "exact: %d runs, no byte differs\n", report->runs);
    else
        buffer_printf(&out, "not exact: %s\n", report->difference);
    progress_clear();
    output_buffer(&out);
    buffer_clear(&out);
}

int command_check(const Args *args) {
    Error err;
    Loaded loaded;
    IdList ids = {0};
    bool given;
    CheckReport report = {0};
    bool ok = input_ids_flags(args, &ids, &given, &err);
    if (ok && (ok = setup_load(args, LOAD_NOT, LOAD_NOT, &loaded, &err))) {
        CheckOptions o = {.ids = given ? ids.ids : NULL, .n_ids = (int)ids.n, .progress = show_run};
        ok = check_run(loaded.model, &o, &report, &err);
        if (ok) print_report(&report);
        loaded_close(&loaded);
    }
    id_list_clear(&ids);
    if (!ok) return complain(&err);
    return report.exact ? 0 : 1;
}
