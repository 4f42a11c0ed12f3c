/* lockstep import: a GGUF file becomes a checkpoint folder, once, so that nothing else has to know GGUF. */
#include "convert/import_gguf.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#include <stdio.h>

static bool show_progress(void *context, uint64_t done, uint64_t total) {
    (void)context;
    enum { MEGABYTE = 1000000 };
    progress_show("import: MB", (long long)(done / MEGABYTE), (long long)(total / MEGABYTE));
    return !interrupt_noted();
}

static void show_line(void *context, const char *line) {
    (void)context;
    progress_clear();
    fprintf(stderr, "%s\n", line);
}

int command_import(const Args *args) {
    Error err;
    const char *folder = args_text(args, FLAG_OUT);
    ImportOptions o = {.mlx = args_has(args, FLAG_MLX),
                       .force = args_has(args, FLAG_FORCE),
                       .progress = show_progress,
                       .log = show_line};
    if (!folder) return wrong_usage(args->command, "-o is missing");
    interrupt_catch(true); /* so that Ctrl-C, too, leaves nothing half-written */
    bool ok = import_gguf(args->positional[0], folder, &o, &err);
    progress_clear();
    if (ok) return 0;
    int status = complain(&err);
    return interrupt_noted() ? EXIT_INTERRUPTED : status;
}
