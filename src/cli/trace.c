/* lockstep trace: the logits after every prefix, into a file that `compare` and numpy read. */
#include "eval/trace.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "engine/clock.h"

#include <stdlib.h>

static bool parse_chunks(const char *text, int **out, int *n, Error *err) {
    IdList list = {0};
    bool ok = input_ids("--chunks", text, &list, err);
    int *chunks = ok ? mem_array(list.n, sizeof *chunks) : NULL;
    if (ok && !chunks) ok = error_memory(err, "--chunks");
    if (ok && list.n == 0) ok = error_set(err, "--chunks: the list is empty");
    for (size_t i = 0; ok && i < list.n; i++) {
        chunks[i] = list.ids[i];
        if (chunks[i] < 1) ok = error_set(err, "--chunks: %d: a step has at least one row", chunks[i]);
    }
    if (ok) {
        *out = chunks;
        *n = (int)list.n;
    } else {
        mem_free(chunks);
    }
    id_list_clear(&list);
    return ok;
}

/* Steps that the trace takes, each of which reads all weights once. */
static int count_steps(const TraceOptions *o) {
    int steps = 0;
    for (int at = 0; at < o->n_ids; steps++) at += o->chunks ? o->chunks[steps % o->n_chunks] : TRACE_CHUNK;
    return steps;
}

static bool trace(const Args *args, const IdList *ids, Error *err) {
    Loaded loaded;
    int *chunks = NULL;
    TraceOptions o = {.ids = ids->ids, .n_ids = (int)ids->n, .width = args_int(args, FLAG_WIDTH, 1)};
    uint64_t hash;
    const char *list = args_text(args, FLAG_CHUNKS);
    if (list && !parse_chunks(list, &chunks, &o.n_chunks, err)) return false;
    o.chunks = chunks;
    bool ok = setup_load(args, LOAD_NOT, LOAD_NOT, &loaded, err);
    if (ok) {
        double started = clock_seconds();
        Buffer part = {0};
        buffer_printf(&part, "%s.part", args_text(args, FLAG_OUT));
        interrupt_removes(part.data);
        ok = trace_write(loaded.model, &o, args_text(args, FLAG_OUT), &hash, err);
        interrupt_removes(NULL);
        buffer_clear(&part);
        if (ok) report_verbose(&loaded, args, hash, count_steps(&o), clock_seconds() - started);
        loaded_close(&loaded);
    }
    mem_free(chunks);
    return ok;
}

int command_trace(const Args *args) {
    Error err;
    IdList ids = {0};
    bool given;
    if (!args_has(args, FLAG_OUT)) return wrong_usage(args->command, "-o is missing");
    bool ok = input_ids_flags(args, &ids, &given, &err);
    if (ok && !given) return wrong_usage(args->command, "give one of --ids and --ids-file");
    ok = ok && trace(args, &ids, &err);
    id_list_clear(&ids);
    return ok ? 0 : complain(&err);
}
