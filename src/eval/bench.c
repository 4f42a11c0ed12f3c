/* The measurements alternate within each repetition, so that a machine that slows down slows all of them, and medians
 * are taken over the repetitions. Depths are the peers': a prompt from an empty context with logits for its last row
 * only (llama-bench -p), single tokens from an empty context (llama-bench -n), and sequences with a prompt of 128 each
 * that decode 64 tokens together (llama-batched-bench -npp 128 -ntg 64). Decoding is greedy and the choice is in the
 * time. */
#include "eval/bench.h"
#include "base/memory.h"
#include "base/rng.h"
#include "engine/clock.h"
#include "engine/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_ROWS = 512, READ_PASSES = 4, READ_TASK_BYTES = 1 << 20, MAX_REPS = 1000 };

typedef struct Bench {
    Model *model;
    const BenchOptions *options;
    Row rows[STEP_ROWS];
    RowFault faults[STEP_ROWS];
    State **states; /* the widest batch's, each with its prompt */
    int32_t *last;  /* the token each of them decodes next */
    int n_states;
    uint64_t *words; /* what the read loop reads */
    size_t n_words;
    uint64_t *sums;                                   /* one per thread, a cache line apart */
    double *prefill, *decode, *decode_shallow, *read; /* seconds, one per repetition */
    double *batch[BENCH_BATCHES];
    ModelCounts prompt_counts;
    int done, n_measurements;
} Bench;

/* Ids spread over the vocabulary: which they are does not matter to the time, and they are the same every time. */
static int32_t bench_id(const Bench *b, uint32_t sequence, int position) {
    uint32_t counter[4] = {(uint32_t)position, sequence, 0, 0}, key[2] = {0, 0}, words[4];
    rng_philox(counter, key, words);
    return (int32_t)(words[0] % (uint32_t)model_vocab_size(b->model));
}

static bool bench_step(Bench *b, int n, const float **logits, Error *err) {
    if (!model_step(b->model, b->rows, n, logits, b->faults, err)) return false;
    for (int i = 0; i < n; i++)
        if (b->faults[i].failed)
            return error_set(err, "position %d: layer %d, %s gave a value that is not finite", b->rows[i].position,
                             b->faults[i].layer, b->faults[i].operation);
    return true;
}

/* Runs a prompt of n tokens from position 0; *next gets the greedy token. */
static bool prompt_run(Bench *b, State *state, uint32_t sequence, int n, int32_t *next, Error *err) {
    const float *logits = NULL;
    state_restart(state, model_side(b->model, n));
    for (int at = 0; at < n;) {
        int count = n - at < STEP_ROWS ? n - at : STEP_ROWS;
        for (int i = 0; i < count; i++)
            b->rows[i] = (Row){.state = state,
                               .position = at + i,
                               .token = bench_id(b, sequence, at + i),
                               .wants_logits = at + i + 1 == n};
        if (!bench_step(b, count, &logits, err)) return false;
        at += count;
    }
    *next = logits_argmax(logits, model_vocab_size(b->model));
    return true;
}

/* One step of n sequences; their next tokens replace `last`. */
static bool decode_step(Bench *b, State *const *states, int32_t *last, int n, Error *err) {
    const float *logits = NULL;
    size_t vocab = (size_t)model_vocab_size(b->model);
    for (int i = 0; i < n; i++)
        b->rows[i] =
            (Row){.state = states[i], .position = state_length(states[i]), .token = last[i], .wants_logits = true};
    if (!bench_step(b, n, &logits, err)) return false;
    for (int i = 0; i < n; i++) last[i] = logits_argmax(logits + (size_t)i * vocab, (int)vocab);
    return true;
}

static bool measure_prefill(Bench *b, double *seconds, Error *err) {
    int32_t next;
    State *state = state_new(model_state_shape(b->model), err);
    if (!state) return false;
    ModelCounts before = model_counts(b->model);
    double started = clock_seconds();
    bool ok = prompt_run(b, state, 0, b->options->prompt, &next, err);
    *seconds = clock_seconds() - started;
    ModelCounts after = model_counts(b->model);
    b->prompt_counts = (ModelCounts){after.experts - before.experts, after.expert_tiles - before.expert_tiles};
    state_free(state);
    return ok;
}

static int shallow_steps(const BenchOptions *o) {
    return o->decode < BENCH_DEPTH ? o->decode : BENCH_DEPTH;
}

static bool measure_decode(Bench *b, double *seconds, double *shallow, Error *err) {
    int32_t last = bench_id(b, 0, 0);
    State *state = state_new(model_state_shape(b->model), err);
    bool ok = state != NULL;
    double started = clock_seconds();
    for (int i = 0; ok && i < b->options->decode; i++) {
        ok = decode_step(b, &state, &last, 1, err);
        *seconds = clock_seconds() - started;
        if (i + 1 == shallow_steps(b->options)) *shallow = *seconds;
    }
    state_free(state);
    return ok;
}

/* Puts sequence i at the end of its prompt: cut back after an earlier repetition, or run afresh. */
static bool batch_prepare(Bench *b, int i, Error *err) {
    if (b->states[i] && state_cut(b->states[i], BENCH_DEPTH)) {
        b->last[i] = bench_id(b, (uint32_t)i, BENCH_DEPTH);
        return true;
    }
    state_free(b->states[i]);
    b->states[i] = state_new(model_state_shape(b->model), err);
    int32_t next;
    if (!b->states[i] || !prompt_run(b, b->states[i], (uint32_t)i, BENCH_DEPTH, &next, err)) return false;
    b->last[i] = bench_id(b, (uint32_t)i, BENCH_DEPTH);
    return true;
}

static bool measure_batch(Bench *b, int width, double *seconds, Error *err) {
    for (int i = 0; i < width; i++)
        if (!batch_prepare(b, i, err)) return false;
    double started = clock_seconds();
    for (int step = 0; step < BENCH_BATCH_STEPS; step++)
        if (!decode_step(b, b->states, b->last, width, err)) return false;
    *seconds = clock_seconds() - started;
    return true;
}

/* Four chains written out, so that the adds do not wait for one another: the loop goes as fast as memory gives. */
static void read_task(void *context, int task, int thread) {
    Bench *b = context;
    size_t per_task = READ_TASK_BYTES / sizeof(uint64_t), first = (size_t)task * per_task;
    size_t end = first + per_task < b->n_words ? first + per_task : b->n_words;
    uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    const uint64_t *w = b->words;
    size_t i = first;
    for (; i + 8 <= end; i += 8) {
        s0 += w[i] + w[i + 4];
        s1 += w[i + 1] + w[i + 5];
        s2 += w[i + 2] + w[i + 6];
        s3 += w[i + 3] + w[i + 7];
    }
    for (; i < end; i++) s0 += w[i];
    b->sums[thread * 8] += s0 + s1 + s2 + s3;
}

static void measure_read(Bench *b, double *seconds) {
    int n_tasks = (int)((b->n_words * sizeof(uint64_t) + READ_TASK_BYTES - 1) / READ_TASK_BYTES);
    double started = clock_seconds();
    for (int i = 0; i < READ_PASSES; i++) pool_run(model_pool(b->model), read_task, b, n_tasks);
    *seconds = (clock_seconds() - started) / READ_PASSES;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static bool announce(Bench *b, const char *what, Error *err) {
    const BenchOptions *o = b->options;
    if (!o->progress || o->progress(o->context, b->done++, b->n_measurements, what)) return true;
    return error_set(err, "stopped");
}

static bool bench_repetition(Bench *b, int rep, Error *err) {
    const BenchOptions *o = b->options;
    char what[64];
    if (o->prompt > 0) {
        snprintf(what, sizeof what, "prefill of %d", o->prompt);
        if (!announce(b, what, err) || !measure_prefill(b, &b->prefill[rep], err)) return false;
    }
    if (o->decode > 0) {
        snprintf(what, sizeof what, "decode of %d", o->decode);
        if (!announce(b, what, err) || !measure_decode(b, &b->decode[rep], &b->decode_shallow[rep], err)) return false;
        if (!announce(b, "plain read", err)) return false;
        measure_read(b, &b->read[rep]);
    }
    for (int i = 0; i < o->n_batches; i++) {
        snprintf(what, sizeof what, "%d together", o->batches[i]);
        if (!announce(b, what, err) || !measure_batch(b, o->batches[i], &b->batch[i][rep], err)) return false;
    }
    return true;
}

/* The first steps touch every weight, and grow the scratch memory, before anything is timed. */
static bool bench_warm_up(Bench *b, Error *err) {
    const BenchOptions *o = b->options;
    int n = o->prompt > 0 && o->prompt < 64 ? o->prompt : o->prompt > 0 ? 64 : 1;
    int32_t last;
    State *state = state_new(model_state_shape(b->model), err);
    bool ok = state && prompt_run(b, state, 0, n, &last, err);
    int end = n + 4 < model_context(b->model) ? n + 4 : model_context(b->model);
    if (model_side(b->model, end) != model_side(b->model, n)) end = model_boundary(b->model);
    for (int i = n; ok && i < end && o->decode > 0; i++) ok = decode_step(b, &state, &last, 1, err);
    state_free(state);
    return ok;
}

static void bench_results(Bench *b, BenchResult *out) {
    const BenchOptions *o = b->options;
    double bytes = (double)model_step_bytes(b->model);
    BenchResult r = {.prompt_counts = b->prompt_counts};
    if (o->prompt > 0) r.prefill_tps = o->prompt / median(b->prefill, o->reps);
    if (o->decode > 0) {
        r.decode_tps = o->decode / median(b->decode, o->reps);
        r.decode_gbps = bytes * shallow_steps(o) / median(b->decode_shallow, o->reps) / 1e9;
        r.read_gbps = (double)(b->n_words * sizeof(uint64_t)) / median(b->read, o->reps) / 1e9;
    }
    for (int i = 0; i < o->n_batches; i++)
        r.batch_tps[i] = (double)o->batches[i] * BENCH_BATCH_STEPS / median(b->batch[i], o->reps);
    *out = r;
}

/* A sequence that crosses is read again from its start, and that is no longer the time of a token. */
static bool bench_one_side(const Bench *b, int from, int to, Error *err) {
    int boundary = model_boundary(b->model);
    if (from > boundary || to <= boundary) return true;
    return error_set(err, "decoding from %d to %d tokens would cross %d, where this model's rotary tables change", from,
                     to, boundary);
}

static bool bench_check(Bench *b, Error *err) {
    const BenchOptions *o = b->options;
    int context = model_context(b->model);
    for (int i = 0; i < o->n_batches; i++) {
        if (o->batches[i] < 1 || o->batches[i] > STEP_ROWS)
            return error_set(err, "a batch of %d: it must be from 1 to %d", o->batches[i], STEP_ROWS);
        if (o->batches[i] > b->n_states) b->n_states = o->batches[i];
    }
    int deepest = o->n_batches > 0 ? BENCH_DEPTH + BENCH_BATCH_STEPS : 0;
    if (o->prompt > deepest) deepest = o->prompt;
    if (o->decode > deepest) deepest = o->decode;
    if (deepest > context)
        return error_set(err, "this bench needs %d positions, the context holds %d", deepest, context);
    if (!bench_one_side(b, 1, o->decode, err)) return false;
    if (o->n_batches > 0 && !bench_one_side(b, BENCH_DEPTH, BENCH_DEPTH + BENCH_BATCH_STEPS, err)) return false;
    if (o->reps < 1 || o->reps > MAX_REPS) return error_set(err, "repetitions must be from 1 to %d", MAX_REPS);
    return true;
}

static bool bench_allocate(Bench *b, Error *err) {
    size_t reps = (size_t)b->options->reps;
    b->n_measurements =
        b->options->reps * ((b->options->prompt > 0) + 2 * (b->options->decode > 0) + b->options->n_batches);
    b->n_words = model_step_bytes(b->model) / sizeof(uint64_t) + 1;
    b->states = mem_zeroed((size_t)b->n_states, sizeof *b->states);
    b->last = mem_zeroed((size_t)b->n_states, sizeof *b->last);
    b->sums = mem_zeroed((size_t)pool_threads(model_pool(b->model)) * 8, sizeof *b->sums);
    b->prefill = mem_zeroed(reps, sizeof(double));
    b->decode = mem_zeroed(reps, sizeof(double));
    b->decode_shallow = mem_zeroed(reps, sizeof(double));
    b->read = mem_zeroed(reps, sizeof(double));
    bool ok = b->states && b->last && b->sums && b->prefill && b->decode && b->decode_shallow && b->read;
    for (int i = 0; i < b->options->n_batches; i++) ok = (b->batch[i] = mem_zeroed(reps, sizeof(double))) && ok;
    if (ok && b->options->decode > 0) {
        b->words = mem_map(b->n_words * sizeof(uint64_t));
        if (b->words) memset(b->words, 1, b->n_words * sizeof(uint64_t)); /* else all pages are one page of zeros */
        ok = b->words != NULL;
    }
    return ok || error_memory(err, "bench");
}

static void bench_free(Bench *b) {
    for (int i = 0; i < b->n_states && b->states; i++) state_free(b->states[i]);
    for (int i = 0; i < BENCH_BATCHES; i++) mem_free(b->batch[i]);
    mem_free(b->states);
    mem_free(b->last);
    mem_free(b->sums);
    mem_free(b->prefill);
    mem_free(b->decode);
    mem_free(b->decode_shallow);
    mem_free(b->read);
    if (b->words) mem_unmap(b->words, b->n_words * sizeof(uint64_t));
    mem_free(b);
}

bool bench_run(Model *m, const BenchOptions *o, BenchResult *out, Error *err) {
    Bench *b = mem_zeroed(1, sizeof *b);
    if (!b) return error_memory(err, "bench");
    b->model = m;
    b->options = o;
    bool ok = bench_check(b, err) && bench_allocate(b, err) && bench_warm_up(b, err);
    for (int rep = 0; ok && rep < o->reps; rep++) ok = bench_repetition(b, rep, err);
    if (ok) bench_results(b, out);
    bench_free(b);
    return ok;
}
