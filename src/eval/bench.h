/* bench: tokens per second of a model, counted as llama-bench and llama-batched-bench count them, beside what the
 * machine's memory gives a plain read loop. */
#ifndef LOCKSTEP_EVAL_BENCH_H
#define LOCKSTEP_EVAL_BENCH_H

#include "model/model.h"

enum {
    BENCH_BATCHES = 16,    /* widths at most */
    BENCH_DEPTH = 128,     /* decode_gbps looks at steps up to this depth; prompt tokens of each sequence of a batch */
    BENCH_BATCH_STEPS = 64 /* tokens each sequence of a batch decodes */
};

/* Called before each measurement with what it is; false stops with an error "stopped". */
typedef bool BenchProgress(void *context, int done, int n, const char *what);

typedef struct BenchOptions {
    int prompt, decode;         /* tokens, 0: not measured; both from an empty context */
    int batches[BENCH_BATCHES]; /* sequences decoding together */
    int n_batches;
    int reps; /* medians over so many */
    BenchProgress *progress;
    void *context;
} BenchOptions;

typedef struct BenchResult {
    double prefill_tps, decode_tps; /* 0: not measured */
    double decode_gbps;             /* bytes of weights read per step * steps per second, at depths up to BENCH_DEPTH */
    double read_gbps;               /* all threads of the pool summing a buffer of that many bytes */
    double batch_tps[BENCH_BATCHES]; /* tokens of all sequences together, per second */
    ModelCounts prompt_counts;       /* of the prompt, the last time */
} BenchResult;

bool bench_run(Model *m, const BenchOptions *o, BenchResult *out, Error *err);

#endif
