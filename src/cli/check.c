/* lockstep check: the exactness probe on a model, before someone relies on it. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/probe.h"
#include "cli/setup.h"

static void print_report(const CheckReport *report) {
    Buffer out = {0};
    if (report->exact)
        buffer_printf(&out, "exact: %d runs, no byte differs\n", report->runs);
    else
        buffer_printf(&out, "not exact: %s\n", report->difference);
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
        ok = probe_run(loaded.model, (CheckOptions){.ids = given ? ids.ids : NULL, .n_ids = (int)ids.n}, &report, &err);
        if (ok) print_report(&report);
        loaded_close(&loaded);
    }
    id_list_clear(&ids);
    if (!ok) return complain(&err);
    return report.exact ? 0 : 1;
}
