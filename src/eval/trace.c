/* The trace. Unrelated rows come from sequences of their own that restart at different lengths, half of them before the
 * traced rows of a step and half after, so that positions, page borders, places in the batch and sides of a rotary
 * boundary all vary.
 *
 * Row p is what ids[0..p] alone would give. Where rotary tables change with length, the ids therefore run twice: up to
 * the boundary on the short side, then all of them on the long side, with logits from the boundary on.
 *
 * Logits go to a sink step by step: a trace of thousands of positions does not have to fit in memory. */
#include "eval/trace.h"
#include "base/memory.h"
#include "base/rng.h"
#include "engine/score.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Companion {
    State *state;
    int restart; /* starts again at this length */
    int side;
} Companion;

typedef struct Trace {
    Model *model;
    const TraceOptions *options;
    State *state;
    Companion *companions;
    int n_companions;
    Row *rows;
    RowFault *faults;
} Trace;

static int chunk_at(const Trace *t, int i) {
    const TraceOptions *o = t->options;
    if (model_is_encoder(t->model)) return o->n_ids;
    return o->n_chunks ? o->chunks[i % o->n_chunks] : TRACE_CHUNK;
}

static bool gives_vectors(const Model *m, const TraceOptions *o) {
    return o->vectors || !model_has_head(m);
}

int trace_values(const Model *m, const TraceOptions *o) {
    return gives_vectors(m, o) ? model_hidden_size(m) : model_vocab_size(m);
}

static bool check_options(const Model *m, const TraceOptions *o, Error *err) {
    if (o->n_ids < 1) return error_set(err, "there are no ids to trace");
    if (o->n_ids > model_context(m))
        return error_set(err, "%d ids are more than the context of %d", o->n_ids, model_context(m));
    for (int i = 0; i < o->n_ids; i++)
        if (o->ids[i] < 0 || o->ids[i] >= model_vocab_size(m))
            return error_set(err, "id %d (number %d of the list) is outside the vocabulary of %d", (int)o->ids[i],
                             i + 1, model_vocab_size(m));
    for (int i = 0; i < o->n_chunks; i++)
        if (o->chunks[i] < 1) return error_set(err, "a chunk of %d rows: expected at least 1", o->chunks[i]);
    if (model_is_encoder(m) && o->n_chunks && o->chunks[0] < o->n_ids)
        return error_set(err, "rows of this %s model see all others, so its ids cannot be cut into chunks",
                         model_family(m));
    if (o->width < 0 || o->width > 4096) return error_set(err, "a width of %d: expected 1 to 4096", o->width);
    return true;
}

static void trace_clear(Trace *t) {
    for (int i = 0; t->companions && i < t->n_companions; i++) state_free(t->companions[i].state);
    mem_free(t->companions);
    mem_free(t->rows);
    mem_free(t->faults);
    state_free(t->state);
}

/* The length at which companion i starts again. */
static int companion_length(const Trace *t, int i) {
    int length = 5 + 11 * (i % 6), context = model_context(t->model);
    return length < context ? length : context;
}

/* One that is to grow past a rotary boundary is on the long side from its start, which it may be while it wants no
 * logits; else it stays below. */
static bool companion_open(Trace *t, int i, const StateShape *shape, Error *err) {
    Companion *c = &t->companions[i];
    int boundary = model_boundary(t->model);
    c->restart = companion_length(t, i);
    if (t->options->all_logits && c->restart > boundary) c->restart = boundary;
    c->side = model_side(t->model, c->restart);
    if (!(c->state = state_new(shape, err))) return false;
    state_restart(c->state, c->side);
    return true;
}

/* The most rows that a step has. */
static size_t most_rows(const Trace *t) {
    const TraceOptions *o = t->options;
    int longest = 1;
    for (int i = 0; i < o->n_chunks; i++) longest = o->chunks[i] > longest ? o->chunks[i] : longest;
    if (!o->n_chunks) longest = TRACE_CHUNK;
    if (longest > o->n_ids || model_is_encoder(t->model)) longest = o->n_ids;
    size_t n = (size_t)longest;
    for (int i = 0; i < t->n_companions; i++) n += model_is_encoder(t->model) ? (size_t)companion_length(t, i) : 1;
    return n;
}

static bool trace_open(Trace *t, Error *err) {
    const TraceOptions *o = t->options;
    const StateShape *shape = o->state_shape ? o->state_shape : model_state_shape(t->model);
    t->n_companions = o->width > 1 ? o->width - 1 : 0;
    t->companions = mem_zeroed((size_t)t->n_companions, sizeof *t->companions);
    t->rows = mem_zeroed(most_rows(t), sizeof *t->rows);
    t->faults = mem_zeroed(most_rows(t), sizeof *t->faults);
    if (!t->companions || !t->rows || !t->faults) return error_memory(err, "a trace");
    if (!(t->state = state_new(shape, err))) return false;
    for (int i = 0; i < t->n_companions; i++)
        if (!companion_open(t, i, shape, err)) return false;
    return true;
}

/* Companion i's next row, or all of its rows where they see each other: tokens that depend on nothing but i, the step
 * and their position. How many rows. */
static int companion_rows(Trace *t, int i, int step, bool wanted, Row *rows) {
    Companion *c = &t->companions[i];
    int n = model_is_encoder(t->model) ? c->restart : 1;
    if (state_length(c->state) >= c->restart) state_restart(c->state, c->side);
    for (int j = 0; j < n; j++) {
        int position = state_length(c->state) + j;
        uint32_t counter[4] = {(uint32_t)i, (uint32_t)step, (uint32_t)position, 0}, key[2] = {0x74726163, 0x65};
        uint32_t random[4];
        rng_philox(counter, key, random);
        rows[j] = (Row){.state = c->state,
                        .position = position,
                        .token = (int32_t)(random[0] % (uint32_t)model_vocab_size(t->model)),
                        .wants_logits = wanted};
    }
    return n;
}

/* One step: positions [first, first + n) between the companions. */
static bool trace_step(Trace *t, int step, int first, int n, bool wanted, const float **logits, Error *err) {
    const TraceOptions *o = t->options;
    int mates = o->vary_width ? step % (t->n_companions + 1) : t->n_companions, at = 0, before = 0;
    for (int i = 0; i < mates; i++) {
        if (i == mates / 2) at += n; /* the traced rows are between them */
        at += companion_rows(t, i, step, o->all_logits && wanted, t->rows + at);
        if (i < mates / 2) before = at;
    }
    if (mates == 0) at = n;
    for (int i = 0; i < n; i++)
        t->rows[before + i] =
            (Row){.state = t->state, .position = first + i, .token = o->ids[first + i], .wants_logits = wanted};
    if (o->before_step) o->before_step(o->hook_context, state_side(t->state), before, first, n);
    if (!(gives_vectors(t->model, o) ? model_step_vectors : model_step)(t->model, t->rows, at, logits, t->faults, err))
        return false;
    if (o->all_logits && wanted) *logits += (size_t)before * (size_t)trace_values(t->model, o);
    for (int i = before; i < before + n; i++)
        if (t->faults[i].failed) return model_fault_error(&t->faults[i], t->rows[i].position, err);
    return true;
}

/* The ids on one side: logits of positions [from, end), those before only run. */
static bool trace_side(Trace *t, int side, int *step, TraceSink *sink, void *context, Error *err) {
    int n_ids = t->options->n_ids, boundary = model_boundary(t->model);
    int from = side ? boundary : 0, end = side || n_ids < boundary ? n_ids : boundary;
    state_restart(t->state, side);
    for (int first = 0, n; first < end; first += n, ++*step) {
        const float *logits;
        bool wanted = first >= from;
        int limit = wanted ? end : from;
        n = chunk_at(t, *step);
        if (n > limit - first) n = limit - first;
        if (!trace_step(t, *step, first, n, wanted, &logits, err)) return false;
        if (wanted && !sink(context, first, n, logits, err)) return false;
    }
    return true;
}

bool trace_run(Model *m, const TraceOptions *o, TraceSink *sink, void *context, Error *err) {
    Trace t = {.model = m, .options = o};
    int step = 0;
    if (!check_options(m, o, err)) return false;
    bool ok = trace_open(&t, err);
    for (int side = 0; ok && side <= model_side(m, o->n_ids); side++)
        ok = trace_side(&t, side, &step, sink, context, err);
    trace_clear(&t);
    return ok;
}

/* ---- into a file ---- */

typedef struct FileSink {
    SafetensorsWriter *writer;
    size_t values;
    uint64_t hash;
} FileSink;

static bool write_logits(void *context, int first, int n, const float *logits, Error *err) {
    FileSink *f = context;
    (void)first;
    f->hash = logits_hash(logits + (size_t)(n - 1) * f->values, f->values);
    return safetensors_write(f->writer, logits, (size_t)n * f->values * sizeof *logits, err);
}

/* The writer is gone afterwards, in either case. */
static bool write_all(Model *m, const TraceOptions *o, const char *path, uint64_t *hash, Error *err) {
    size_t values = (size_t)trace_values(m, o);
    const char *name = gives_vectors(m, o) ? "vectors" : "logits";
    Tensor rows = {.name = name, .dtype = DTYPE_F32, .n_dims = 2, .shape = {o->n_ids, (int64_t)values}};
    char bits[16];
    snprintf(bits, sizeof bits, "%d", model_numeric(m)->activation_bits);
    SafetensorsNote notes[] = {
        {"family", model_family(m)}, {"kv", kv_format_name(model_numeric(m)->kv)}, {"activations", bits}};
    FileSink sink = {safetensors_create_noted(path, &rows, 1, notes, 3, err), values, 0};
    if (!sink.writer) return false;
    if (!trace_run(m, o, write_logits, &sink, err)) {
        safetensors_abandon(sink.writer);
        return false;
    }
    *hash = sink.hash;
    return safetensors_finish(sink.writer, err);
}

bool trace_write(Model *m, const TraceOptions *o, const char *path, uint64_t *hash, Error *err) {
    Buffer part = {0};
    struct stat st;
    uint64_t last = 0;
    if (!check_options(m, o, err)) return false;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* renaming over a device would replace it */
        return error_set(err, "%s: is not a plain file, so a trace can not be written there", path);
    buffer_printf(&part, "%s.part", path);
    bool ok = !part.failed || error_memory(err, "a path");
    ok = ok && write_all(m, o, buffer_string(&part), &last, err);
    if (ok && rename(part.data, path) != 0) ok = error_set(err, "%s: cannot be written", path);
    if (!ok && part.data) remove(part.data);
    if (ok && hash) *hash = last;
    buffer_clear(&part);
    return ok;
}
