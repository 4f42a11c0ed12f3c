/* lockstep bench: how fast a model is here. */
#include "eval/bench.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "math/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool show_progress(void *context, int done, int n, const char *what) {
    (void)context;
    char line[128];
    snprintf(line, sizeof line, "bench: %s,", what);
    progress_show(line, done + 1, n);
    return !interrupt_noted();
}

static bool parse_batches(const char *text, BenchOptions *o, Error *err) {
    IdList list = {0};
    if (!input_ids("--batch", text, &list, err)) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < list.n; i++) {
        if (list.ids[i] == 0 && list.n == 1) break;
        if (o->n_batches == BENCH_BATCHES)
            ok = error_set(err, "--batch: at most %d numbers", BENCH_BATCHES);
        else
            o->batches[o->n_batches++] = list.ids[i];
    }
    id_list_clear(&list);
    return ok;
}

static void print_json(const BenchOptions *o, const BenchResult *r, const Loaded *loaded) {
    Buffer out = {0};
    const NumericSettings *numeric = model_numeric(loaded->model);
    buffer_printf(&out, "{\"prefill_tps\":%.3f,\"decode_tps\":%.3f,\"decode_gbps\":%.3f,\"read_gbps\":%.3f,\"batch\":{",
                  r->prefill_tps, r->decode_tps, r->decode_gbps, r->read_gbps);
    for (int i = 0; i < o->n_batches; i++)
        buffer_printf(&out, "%s\"%d\":%.3f", i > 0 ? "," : "", o->batches[i], r->batch_tps[i]);
    buffer_printf(&out,
                  "},\"prompt_experts\":%" PRIu64 ",\"prompt_expert_tiles\":%" PRIu64
                  ",\"prompt\":%d,\"decode\":%d,\"reps\":%d,\"step_bytes\":%zu,\"threads\":%d,\"isa\":\"%s\","
                  "\"kv\":\"%s\",\"activations\":%d}\n",
                  r->prompt_counts.experts, r->prompt_counts.expert_tiles, o->prompt, o->decode, o->reps,
                  model_step_bytes(loaded->model), pool_threads(loaded->pool), kernels_name(),
                  kv_format_name(numeric->kv), numeric->activation_bits);
    output_buffer(&out);
    buffer_clear(&out);
}

static void print_table(const BenchOptions *o, const BenchResult *r) {
    Buffer out = {0};
    if (o->prompt > 0) buffer_printf(&out, "prefill of %-6d %10.1f tok/s\n", o->prompt, r->prefill_tps);
    if (r->prompt_counts.experts > 0)
        buffer_printf(&out, "  through %" PRIu64 " experts of all layers and chunks, %" PRIu64 " tiles unpacked\n",
                      r->prompt_counts.experts, r->prompt_counts.expert_tiles);
    if (o->decode > 0)
        buffer_printf(&out, "decode of %-7d %10.1f tok/s  %.1f GB/s of weights; a plain read gets %.1f GB/s\n",
                      o->decode, r->decode_tps, r->decode_gbps, r->read_gbps);
    for (int i = 0; i < o->n_batches; i++)
        buffer_printf(&out, "%3d together       %10.1f tok/s\n", o->batches[i], r->batch_tps[i]);
    output_buffer(&out);
    buffer_clear(&out);
}

int command_bench(const Args *args) {
    Error err;
    Loaded loaded;
    BenchResult result;
    BenchOptions o = {.prompt = args_int(args, FLAG_P, 512),
                      .decode = args_int(args, FLAG_N, 128),
                      .reps = args_int(args, FLAG_REPS, 3),
                      .progress = show_progress};
    const char *batches = args_text(args, FLAG_BATCH);
    if (!parse_batches(batches ? batches : "1,2,4,8", &o, &err)) return complain(&err);
    if (!setup_load(args, LOAD_NOT, LOAD_NOT, &loaded, &err)) return complain(&err);
    interrupt_catch(true);
    bool ok = bench_run(loaded.model, &o, &result, &err);
    progress_clear();
    if (ok && args_has(args, FLAG_JSON))
        print_json(&o, &result, &loaded);
    else if (ok)
        print_table(&o, &result);
    loaded_close(&loaded);
    if (ok) return 0;
    int status = complain(&err);
    return interrupt_noted() ? EXIT_INTERRUPTED : status;
}
