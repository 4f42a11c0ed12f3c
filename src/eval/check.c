/* The exactness probe. A run is compared with its reference by bytes of all logits. When one differs, reference and run
 * are made once more with a tap on every intermediate value: the first operation whose row hashes apart is where to
 * look.
 *
 * The instruction set is chosen for the whole process and the pool belongs to the caller's model, so both are put back
 * at the end. */
#include "eval/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "eval/trace.h"
#include "math/kernels.h"
#include "engine/score.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 17, MAX_RUN_TEXT = 96 };

typedef struct Variant {
    const char *isa;
    int threads;
    KvFormat kv;
    const int *chunks; /* NULL: whole */
    int n_chunks;
    int width;
    bool vary_width;
    bool whole; /* of an encoder: nothing is cut, and unrelated texts are whole as well */
    int n_ids;  /* of the first ones; 0: all */
} Variant;

/* One operation of the reference: a hash per position and side of a rotary boundary. */
typedef struct Seen {
    int layer;
    const char *kind, *operation;
    uint64_t *hashes; /* [2][n_ids] */
} Seen;

typedef struct Probe {
    Model *model;
    const CheckOptions *options;
    int32_t *ids;
    int n_ids, values, labels;
    /* [n_ids][values], of logits or, of an encoder, of vectors; of a sequence classifier with the logits that its head
     * makes of each row behind it. */
    float *reference, *logits;
    float *classified; /* [n_ids][labels] */
    Pool *pools[2];
    LayerShape *layers; /* the model's, with the cache format of the run */
    StateShape shape;
    int run, n_runs;
    CheckReport report;

    Seen *seen; /* of the tapped reference, by operation in the order of a step */
    int n_seen, at;
    size_t seen_capacity;
    bool recording, out_of_memory, found;
    int side, row, first, n;
} Probe;

static const int one[] = {1}, five_four_three[] = {5, 4, 3};

static void describe(const Variant *v, char out[MAX_RUN_TEXT]) {
    int n = snprintf(out, MAX_RUN_TEXT, "%s, %d thread%s, kv %s, ", v->isa, v->threads, v->threads > 1 ? "s" : "",
                     kv_format_name(v->kv));
    const char *cut = v->whole          ? "whole texts"
                      : !v->chunks      ? "whole prompt"
                      : v->n_chunks > 1 ? "chunks 5,4,3"
                                        : "token by token";
    n += snprintf(out + n, (size_t)(MAX_RUN_TEXT - n), "%s", cut);
    if (v->vary_width)
        snprintf(out + n, (size_t)(MAX_RUN_TEXT - n), ", widths 1 to %d", v->width);
    else if (v->width > 1)
        snprintf(out + n, (size_t)(MAX_RUN_TEXT - n), ", width %d", v->width);
}

typedef struct Keep {
    const Probe *probe;
    float *out;
} Keep;

static bool keep_logits(void *context, int first, int n, const float *logits, Error *err) {
    const Keep *keep = context;
    const Probe *p = keep->probe;
    size_t labels = (size_t)p->labels, each = (size_t)p->values - labels;
    float *out = keep->out + (size_t)first * (size_t)p->values;
    if (labels && !model_classify(p->model, logits, n, p->classified, err)) return false;
    for (int i = 0; i < n; i++) {
        memcpy(out, logits + (size_t)i * each, each * sizeof *out);
        if (labels) memcpy(out + each, p->classified + (size_t)i * labels, labels * sizeof *out);
        out += p->values;
    }
    return true;
}

/* ---- one run ---- */

static int variant_ids(const Probe *p, const Variant *v) {
    return v->n_ids && v->n_ids < p->n_ids ? v->n_ids : p->n_ids;
}

static bool run_variant(Probe *p, const Variant *v, float *out, TraceOptions extra, Error *err) {
    if (!kernels_select(v->isa, err)) return false;
    model_set_pool(p->model, p->pools[v->threads - 1]);
    for (int i = 0; i < p->shape.n_layers; i++)
        if (!p->layers[i].exact) p->layers[i].kv.format = v->kv;
    TraceOptions o = extra;
    int whole = p->n_ids;
    o.ids = p->ids;
    o.n_ids = variant_ids(p, v);
    o.chunks = v->chunks ? v->chunks : &whole;
    o.n_chunks = v->chunks ? v->n_chunks : 1;
    o.width = v->width;
    o.vary_width = v->vary_width;
    o.state_shape = &p->shape;
    Keep keep = {p, out};
    return trace_run(p->model, &o, keep_logits, &keep, err);
}

static void announce(Probe *p, const Variant *v) {
    char text[MAX_RUN_TEXT];
    describe(v, text);
    if (p->options->progress) p->options->progress(p->options->context, p->run, p->n_runs, text);
    p->run++;
}

/* ---- where a difference begins ---- */

static void note_step(void *context, int side, int row, int first, int n) {
    Probe *p = context;
    p->side = side;
    p->row = row;
    p->first = first;
    p->n = n;
    p->at = 0;
}

static Seen *seen_at(Probe *p, int layer, const char *kind, const char *operation) {
    if (p->at < p->n_seen) return &p->seen[p->at];
    Seen *seen = mem_room(p->seen, (size_t)p->n_seen, &p->seen_capacity, sizeof *seen);
    if (!seen) return NULL;
    p->seen = seen;
    uint64_t *hashes = mem_zeroed(2 * (size_t)p->n_ids, sizeof *hashes);
    if (!hashes) return NULL;
    p->seen[p->n_seen] = (Seen){layer, kind, operation, hashes};
    return &p->seen[p->n_seen++];
}

static void append(Probe *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(Probe *p, const char *format, ...) {
    size_t used = strlen(p->report.difference);
    va_list args;
    va_start(args, format);
    vsnprintf(p->report.difference + used, sizeof p->report.difference - used, format, args);
    va_end(args);
}

static void append_place(Probe *p, int position, const Seen *seen) {
    append(p, "; first at position %d%s in ", position, p->side ? " (long rotary table)" : "");
    if (seen->layer >= 0) append(p, "layer %d (%s), ", seen->layer, seen->kind);
    append(p, "%s", seen->operation);
}

static void tap(void *context, int layer, const char *kind, const char *operation, const float *values, int rows,
                int cols) {
    Probe *p = context;
    Seen *seen = p->recording || p->at < p->n_seen ? seen_at(p, layer, kind, operation) : NULL;
    (void)rows;
    if (p->recording && !seen) p->out_of_memory = true;
    if (!seen || p->found) return;
    for (int i = 0; i < p->n; i++) {
        uint64_t hash = logits_hash(values + (size_t)(p->row + i) * (size_t)cols, (size_t)cols);
        uint64_t *kept = &seen->hashes[p->side * p->n_ids + p->first + i];
        if (p->recording) {
            *kept = hash;
        } else if (*kept != hash) {
            p->found = true;
            append_place(p, p->first + i, seen);
            return;
        }
    }
    p->at++;
}

static bool tapped_run(Probe *p, const Variant *v, bool recording, Error *err) {
    TraceOptions extra = {.all_logits = true, .before_step = note_step, .hook_context = p};
    p->recording = recording;
    model_set_tap(p->model, tap, p);
    bool ok = run_variant(p, v, p->logits, extra, err);
    model_set_tap(p->model, NULL, NULL);
    return ok && (!p->out_of_memory || error_memory(err, "the operations of a run"));
}

static int first_difference(const Probe *p, int n_ids) {
    for (int i = 0; i < n_ids; i++) {
        size_t at = (size_t)i * (size_t)p->values;
        if (memcmp(p->reference + at, p->logits + at, (size_t)p->values * sizeof(float)) != 0) return i;
    }
    return -1;
}

static bool locate(Probe *p, const Variant *reference, const Variant *v, int position, Error *err) {
    char text[MAX_RUN_TEXT];
    describe(v, text);
    p->report.exact = false;
    p->report.difference[0] = 0;
    append(p, "%s: the %s of position %d differ", text, model_has_head(p->model) ? "logits" : "values", position);
    bool ok = tapped_run(p, reference, true, err) && tapped_run(p, v, false, err);
    if (ok && !p->found) append(p, "; the same run with every operation watched does not differ");
    for (int i = 0; i < p->n_seen; i++) mem_free(p->seen[i].hashes);
    mem_free(p->seen);
    p->seen = NULL;
    return ok;
}

/* ---- the matrix ---- */

/* Runs one variant against the reference; *go_on becomes false at a difference. */
static bool try_variant(Probe *p, const Variant *reference, const Variant *v, bool *go_on, Error *err) {
    announce(p, v);
    if (!run_variant(p, v, p->logits, (TraceOptions){0}, err)) return false;
    p->report.runs++;
    int position = first_difference(p, variant_ids(p, v));
    if (position < 0) return true;
    *go_on = false;
    return locate(p, reference, v, position, err);
}

/* What is tried of one instruction set on 1 or 2 threads with one cache format. The best one of this machine, on 2
 * threads, is what answers will come from. Where that is another, the scalar kernels serve as the definition, and being
 * slow are run in few ways. */
typedef struct Effort {
    bool none;
    bool every_width; /* each width by itself; else one run through all of them */
    int width_ids;    /* of runs token by token beside others, which are the longest; 0: all */
} Effort;

static Effort effort_of(const Probe *p, const char *isa, int threads, bool own) {
    const char *best = kernels_available()[0];
    bool is_best = strcmp(isa, best) == 0, is_definition = !is_best && strcmp(isa, "scalar") == 0;
    Effort e = {.none = threads == 1 ? !own || is_definition : !own && is_definition};
    e.every_width = own && !is_definition && (p->options->every_width || (is_best && threads == 2));
    bool fewer = !p->options->every_width && (e.every_width || is_definition) && !model_is_encoder(p->model);
    if (fewer) e.width_ids = MAX_WIDTH;
    return e;
}

static bool try_widths(Probe *p, const Variant *reference, Variant v, bool every_width, bool *go_on, Error *err) {
    if (!every_width && v.whole) {
        v.width = MAX_WIDTH;
        return try_variant(p, reference, &v, go_on, err);
    }
    if (!every_width) {
        v.chunks = one;
        v.n_chunks = 1;
        v.width = MAX_WIDTH;
        v.vary_width = true;
        return try_variant(p, reference, &v, go_on, err);
    }
    for (v.width = 1; v.width <= MAX_WIDTH && *go_on; v.width++) {
        bool single = v.width % 2 && !v.whole; /* unrelated rows beside a single one, or beside a whole prompt */
        v.chunks = single ? one : NULL;
        v.n_chunks = single;
        if (!try_variant(p, reference, &v, go_on, err)) return false;
    }
    return true;
}

/* Whole, in chunks, token by token, and beside others. */
static bool try_cuts(Probe *p, const Variant *reference, Variant v, const Effort *e, bool *go_on, Error *err) {
    v.width = 1;
    if (!try_variant(p, reference, &v, go_on, err)) return false;
    v.chunks = five_four_three;
    v.n_chunks = 3;
    if (!v.whole && *go_on && !try_variant(p, reference, &v, go_on, err)) return false;
    if (v.whole) v.chunks = NULL;
    v.n_ids = e->width_ids;
    return !*go_on || try_widths(p, reference, v, e->every_width, go_on, err);
}

/* One cache format: the reference, then instruction sets times threads. As all runs must equal it, it does not matter
 * which one the reference is: token by token is the definition, and a whole prompt costs the scalar kernels half. */
static bool try_format(Probe *p, KvFormat kv, bool own, bool *go_on, Error *err) {
    bool whole = model_is_encoder(p->model);
    Variant reference = {.isa = "scalar", .threads = 1, .kv = kv, .width = 1, .whole = whole};
    if (own && !whole) {
        reference.chunks = one;
        reference.n_chunks = 1;
    }
    announce(p, &reference);
    if (!run_variant(p, &reference, p->reference, (TraceOptions){0}, err)) return false;
    for (const char *const *isa = kernels_available(); *isa; isa++) {
        for (int threads = 2; threads >= 1 && *go_on; threads--) {
            Effort e = effort_of(p, *isa, threads, own);
            Variant v = {.isa = *isa, .threads = threads, .kv = kv, .whole = whole};
            if (!e.none && !try_cuts(p, &reference, v, &e, go_on, err)) return false;
        }
    }
    return true;
}

static int count_format(const Probe *p, bool own) {
    int n = 1;
    for (const char *const *isa = kernels_available(); *isa; isa++) {
        for (int threads = 2; threads >= 1; threads--) {
            Effort e = effort_of(p, *isa, threads, own);
            int cuts = model_is_encoder(p->model) ? 1 : 2;
            if (!e.none) n += cuts + (e.every_width ? MAX_WIDTH : 1);
        }
    }
    return n;
}

static const KvFormat formats[] = {KV_I16, KV_F32, KV_F16, KV_BF16};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool try_all(Probe *p, Error *err) {
    KvFormat own = model_numeric(p->model)->kv;
    bool go_on = true;
    if (!try_format(p, own, true, &go_on, err)) return false;
    for (int i = 0; i < FORMATS && go_on && !model_is_encoder(p->model); i++) /* which stores nothing */
        if (formats[i] != own && !try_format(p, formats[i], false, &go_on, err)) return false;
    return true;
}

static bool probe_open(Probe *p, Error *err) {
    const CheckOptions *o = p->options;
    const StateShape *shape = model_state_shape(p->model);
    int n = o->ids ? o->n_ids : CHECK_IDS;
    p->labels = model_labels(p->model);
    p->values = trace_values(p->model, &(TraceOptions){0}) + p->labels;
    p->n_ids = n < model_context(p->model) ? n : model_context(p->model);
    p->ids = mem_zeroed((size_t)p->n_ids, sizeof *p->ids);
    p->reference = mem_zeroed((size_t)p->n_ids * (size_t)p->values, sizeof *p->reference);
    p->logits = mem_zeroed((size_t)p->n_ids * (size_t)p->values, sizeof *p->logits);
    p->classified = mem_zeroed((size_t)p->n_ids * (size_t)p->labels, sizeof *p->classified);
    p->layers = mem_array((size_t)shape->n_layers, sizeof *p->layers);
    if (!p->ids || !p->reference || !p->logits || !p->classified || !p->layers)
        return error_memory(err, "the logits of a check");
    for (int i = 0; i < p->n_ids; i++)
        p->ids[i] = o->ids ? o->ids[i] : (int32_t)(rng_uniform(7, 0, (uint64_t)i) * model_vocab_size(p->model));
    memcpy(p->layers, shape->layers, (size_t)shape->n_layers * sizeof *p->layers);
    p->shape = (StateShape){shape->n_layers, p->layers};
    p->n_runs = count_format(p, true);
    if (!model_is_encoder(p->model)) p->n_runs += (FORMATS - 1) * count_format(p, false);
    p->report.exact = true;
    return (p->pools[0] = pool_new(1, err)) != NULL && (p->pools[1] = pool_new(2, err)) != NULL;
}

bool check_run(Model *m, const CheckOptions *o, CheckReport *out, Error *err) {
    Probe p = {.model = m, .options = o};
    Pool *pool = model_pool(m);
    const char *isa = kernels_name();
    bool ok = probe_open(&p, err) && try_all(&p, err);
    model_set_pool(m, pool);
    kernels_select(isa, NULL);
    pool_free(p.pools[0]);
    pool_free(p.pools[1]);
    mem_free(p.layers);
    mem_free(p.ids);
    mem_free(p.reference);
    mem_free(p.logits);
    mem_free(p.classified);
    if (ok) *out = p.report;
    return ok;
}
