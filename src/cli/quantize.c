/* lockstep quantize: a float checkpoint becomes a quantised one, as mlx_lm.convert would write it. */
#include "convert/quantize.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "math/kernels.h"

#include <stdio.h>

static bool show_progress(void *context, uint64_t done, uint64_t total) {
    (void)context;
    enum { MEGABYTE = 1000000 };
    progress_show("quantize: MB", (long long)(done / MEGABYTE), (long long)(total / MEGABYTE));
    return !interrupt_noted();
}

static void show_line(void *context, const char *line) {
    (void)context;
    progress_clear();
    fprintf(stderr, "%s\n", line);
}

int command_quantize(const Args *args) {
    Error err;
    const char *folder = args_text(args, FLAG_OUT);
    int threads = args_int(args, FLAG_THREADS, 0);
    QuantizeOptions o = {.mode = args_text(args, FLAG_MODE),
                         .bits = args_int(args, FLAG_BITS, 0),
                         .group = args_int(args, FLAG_GROUP, 0),
                         .recipe = args_text(args, FLAG_RECIPE),
                         .progress = show_progress,
                         .log = show_line};
    if (!folder) return wrong_usage(args->command, "-o is missing");
    interrupt_catch(true); /* so that Ctrl-C stops between two tensors' rows, and the next run goes on */
    bool ok = kernels_select(args_text(args, FLAG_ISA), &err);
    ok = ok && (o.pool = pool_new(threads ? threads : pool_cpus(), &err));
    ok = ok && quantize_folder(args->positional[0], folder, &o, &err);
    pool_free(o.pool);
    progress_clear();
    if (ok) return 0;
    int status = complain(&err);
    return interrupt_noted() ? EXIT_INTERRUPTED : status;
}
