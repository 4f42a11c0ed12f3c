/* Making vectors. A step takes rows of one text after the other until it is full: of an encoder whole texts only, since
 * their rows see each other; a decoder's text may go on in the next step. Rows that pooling does not want leave the
 * step early, as in any prefill. */
#include "engine/embed.h"
#include "base/memory.h"
#include "engine/cross_encoder.h"
#include "text/affixes.h"
#include "text/normalize.h"

#include <string.h>

enum { STEP_ROWS = 512, MAX_PARTS = 128, MAX_DECODER_PARTS = 32, KEEP_STATE_BYTES = 64 << 20 };

/* Rows [first, first + n) of one text in a step. */
typedef struct Part {
    int text, first, n;
} Part;

struct Embedder {
    Model *model;
    const Tokenizer *tokenizer;
    EmbedPlan plan;
    Normalizer lower;
    State *states[MAX_PARTS]; /* of the parts of a step; NULL: not needed yet */
    Part parts[MAX_PARTS];
    int n_parts;
    Row *rows;
    RowFault *faults;
    int row_capacity;
    Pooling pooling; /* of the text in progress */
    float *pooled;   /* [MAX_PARTS][n_modes * hidden]: of the texts that a step completes */
    Arena arena;
    ArenaMark empty;
};

static bool make_lower(Embedder *e, Error *err) {
    if (!e->plan.lower_case) return true;
    return normalizer_add(&e->lower, (NormalizerStep){.kind = NORMALIZE_LOWERCASE}) ||
           error_memory(err, "a normalizer");
}

bool embedder_plan_read(const char *folder, Model *m, EmbedPlan *out, Error *err) {
    if (model_labels(m)) return cross_encoder_plan_read(folder, m, out, err);
    return embed_plan_read(folder, model_hidden_size(m), model_is_encoder(m), model_pool(m), out, err);
}

Embedder *embedder_new(const char *folder, Model *m, const Tokenizer *tokenizer, Error *err) {
    Embedder *e = mem_zeroed(1, sizeof *e);
    int hidden = model_hidden_size(m);
    if (!e) {
        error_memory(err, "an embedder");
        return NULL;
    }
    e->model = m;
    e->tokenizer = tokenizer;
    arena_init(&e->arena);
    e->empty = arena_mark(&e->arena);
    if (!embedder_plan_read(folder, m, &e->plan, err) || !make_lower(e, err)) {
        embedder_free(e);
        return NULL;
    }
    size_t width = (size_t)e->plan.pool.n_modes * (size_t)hidden;
    e->pooling = (Pooling){.spec = &e->plan.pool, .dims = hidden};
    e->pooling.sums = mem_array(pooling_floats(hidden), sizeof(float));
    e->pooled = mem_array(MAX_PARTS * width, sizeof(float));
    if (!e->pooling.sums || !e->pooled) {
        error_memory(err, "an embedder");
        embedder_free(e);
        return NULL;
    }
    return e;
}

void embedder_free(Embedder *e) {
    if (!e) return;
    for (int i = 0; i < MAX_PARTS; i++) state_free(e->states[i]);
    embed_plan_clear(&e->plan);
    normalizer_clear(&e->lower);
    mem_free(e->rows);
    mem_free(e->faults);
    mem_free(e->pooling.sums);
    mem_free(e->pooled);
    arena_clear(&e->arena);
    mem_free(e);
}

int embedder_size(const Embedder *e) {
    return e->plan.size;
}

int embedder_max_tokens(const Embedder *e) {
    int context = model_context(e->model), said = e->plan.max_tokens;
    return said && said < context ? said : context;
}

const EmbedPlan *embedder_plan(const Embedder *e) {
    return &e->plan;
}

bool embedder_scores_pairs(const Embedder *e) {
    return e->plan.n_labels > 0;
}

bool embedder_needs_vectors(const Embedder *e, Error *err) {
    return !embedder_scores_pairs(e) ||
           error_set(err, "this model is a cross-encoder: it scores pairs of texts (lockstep rerank, /v1/rerank), and "
                          "gives no vectors");
}

/* ---- text to ids ---- */

/* As truncation does: the text loses its end, the special tokens stay. */
static bool cut_ids(const Embedder *e, IdList *ids, Error *err) {
    IdList bare = {0};
    size_t max = (size_t)embedder_max_tokens(e), before;
    bool ok = affixes_find(e->tokenizer, &bare, &before, err);
    if (ok && bare.n >= max)
        ok = error_set(err, "%zu tokens are too few for a text: its special ones are %zu", max, bare.n);
    if (ok && ids->n > max) {
        size_t after = bare.n - before;
        memmove(ids->ids + max - after, ids->ids + ids->n - after, after * sizeof *ids->ids);
        ids->n = max;
    }
    id_list_clear(&bare);
    return ok;
}

static bool encode_joined(const Embedder *e, const char *prompt, const char *text, size_t n, unsigned flags,
                          IdList *out, Error *err) {
    Buffer joined = {0};
    NormalizeScratch scratch = {0};
    size_t origin = 0;
    if (prompt) buffer_text(&joined, prompt);
    buffer_append(&joined, text, n);
    bool ok = !joined.failed || error_memory(err, "a text");
    if (ok && e->lower.n) ok = normalize(&e->lower, &scratch, &joined, &origin, err);
    ok = ok && tokenizer_encode(e->tokenizer, buffer_string(&joined), joined.length, flags, out, err);
    normalize_scratch_clear(&scratch);
    buffer_clear(&joined);
    return ok;
}

/* The prompt's ids, without a special token that would end it. */
static bool count_prompt(const Embedder *e, const char *prompt, int *out, Error *err) {
    IdList ids = {0};
    if (!encode_joined(e, prompt, "", 0, ENCODE_SPECIAL, &ids, err)) return false;
    bool ends = ids.n > 0 && tokenizer_is_special(e->tokenizer, ids.ids[ids.n - 1]);
    *out = (int)ids.n - ends;
    id_list_clear(&ids);
    return true;
}

static bool needs_tokenizer(const Embedder *e, Error *err) {
    return e->tokenizer || error_set(err, "there is no tokenizer, so texts have to be given as ids");
}

bool embedder_encode(const Embedder *e, const char *prompt, const char *text, size_t n, IdList *ids, int *n_prompt,
                     size_t *n_whole, Error *err) {
    IdList own = {0};
    int left_out = 0;
    if (!embedder_needs_vectors(e, err) || !needs_tokenizer(e, err)) return false;
    bool ok = encode_joined(e, prompt, text, n, ENCODE_SPECIAL, &own, err);
    size_t whole = own.n;
    ok = ok && (whole <= (size_t)embedder_max_tokens(e) || cut_ids(e, &own, err));
    if (ok && prompt && *prompt && e->plan.without_prompt) ok = count_prompt(e, prompt, &left_out, err);
    if (ok && own.n > 0 && left_out >= (int)own.n)
        ok = error_set(err, "the text has nothing after its prompt, which this model leaves out");
    if (ok && !id_list_append(ids, own.ids, own.n)) ok = error_memory(err, "a text's ids");
    if (ok) *n_prompt = left_out;
    if (ok) *n_whole = whole;
    id_list_clear(&own);
    return ok;
}

bool embedder_encode_side(const Embedder *e, const char *prompt, const char *text, size_t n, IdList *ids, Error *err) {
    return needs_tokenizer(e, err) && encode_joined(e, prompt, text, n, 0, ids, err);
}

/* What a classifier of the last row does not read: padding tokens that the pair ends in. */
static size_t trailing_padding(const Embedder *e, const IdList *ids, size_t start) {
    int32_t padding = model_classifier_padding(e->model);
    size_t n = 0;
    if (model_classifier_pool(e->model) != CLASSIFIER_LAST || padding < 0) return 0;
    while (ids->n - n > start + 1 && ids->ids[ids->n - n - 1] == padding) n++;
    return n;
}

bool embedder_encode_pair(const Embedder *e, const IdList *first, const IdList *second, IdList *ids, IdList *types,
                          size_t *n_cut, Error *err) {
    size_t start = ids->n, types_start = types->n, max = (size_t)embedder_max_tokens(e);
    if (!needs_tokenizer(e, err) || !tokenizer_pair(e->tokenizer, first, second, max, ids, types, n_cut, err))
        return false;
    size_t padding = trailing_padding(e, ids, start);
    ids->n -= padding;
    types->n -= padding;
    bool typed = !e->plan.one_type && model_token_types(e->model) > 1;
    for (size_t i = types_start; i < types->n && !typed; i++) types->ids[i] = 0;
    return true;
}

/* ---- a step ---- */

typedef struct Run {
    Embedder *e;
    const EmbedInput *inputs;
    int n;
    int text, at; /* where the next step begins */
    float *out;
    Error *err;
} Run;

static bool check_inputs(const Run *r) {
    int max = embedder_max_tokens(r->e), vocab = model_vocab_size(r->e->model);
    for (int i = 0; i < r->n; i++) {
        const EmbedInput *in = &r->inputs[i];
        if (in->n < 1) return error_set(r->err, "text %d has no tokens", i);
        if (in->n > max)
            return error_set(r->err, "text %d has %d tokens, more than the %d that this model takes", i, in->n, max);
        if (in->n_prompt < 0 || in->n_prompt >= in->n)
            return error_set(r->err, "text %d has nothing after its prompt of %d tokens", i, in->n_prompt);
        for (int j = 0; j < in->n; j++)
            if (in->ids[j] < 0 || in->ids[j] >= vocab)
                return error_set(r->err, "text %d: token id %d is outside the vocabulary of %d", i, (int)in->ids[j],
                                 vocab);
    }
    return true;
}

/* Which rows the next step has. */
static int choose_parts(Run *r) {
    Embedder *e = r->e;
    bool whole = model_is_encoder(e->model);
    int rows = 0, most = whole ? MAX_PARTS : MAX_DECODER_PARTS;
    for (e->n_parts = 0; r->text < r->n && e->n_parts < most; r->text++, r->at = 0) {
        int n = r->inputs[r->text].n - r->at, room = STEP_ROWS - rows;
        if (whole && rows > 0 && n > room) break;
        if (!whole && n > room) n = room;
        if (n == 0) break;
        e->parts[e->n_parts++] = (Part){r->text, r->at, n};
        rows += n;
        r->at += n;
        if (r->at < r->inputs[r->text].n) break;
    }
    return rows;
}

static bool reserve_rows(Embedder *e, int n, Error *err) {
    if (n <= e->row_capacity) return true;
    int capacity = n < STEP_ROWS ? STEP_ROWS : n;
    Row *rows = mem_resize(e->rows, (size_t)capacity, sizeof *rows);
    if (rows) e->rows = rows;
    RowFault *faults = rows ? mem_resize(e->faults, (size_t)capacity, sizeof *faults) : NULL;
    if (!faults) return error_memory(err, "the rows of a step");
    e->faults = faults;
    e->row_capacity = capacity;
    return true;
}

/* An empty state for part i, unless it goes on with a text, which then is part 0. */
static bool ready_state(Run *r, int i) {
    Embedder *e = r->e;
    const Part *p = &e->parts[i];
    if (p->first > 0) return true;
    if (e->states[i] && state_bytes(e->states[i]) > KEEP_STATE_BYTES) {
        state_free(e->states[i]);
        e->states[i] = NULL;
    }
    if (!e->states[i] && !(e->states[i] = state_new(model_state_shape(e->model), r->err))) return false;
    state_restart(e->states[i], model_side(e->model, r->inputs[p->text].n));
    return true;
}

static bool fill_rows(Run *r) {
    Embedder *e = r->e;
    Row *row = e->rows;
    for (int i = 0; i < e->n_parts; i++) {
        const Part *p = &e->parts[i];
        const EmbedInput *in = &r->inputs[p->text];
        if (!ready_state(r, i)) return false;
        for (int at = p->first; at < p->first + p->n; at++)
            *row++ = (Row){.state = e->states[i],
                           .position = at,
                           .token = in->ids[at],
                           .token_type = in->types ? in->types[at] : 0,
                           .wants_logits = pooling_wants(&e->plan.pool, in->n_prompt, in->n, at)};
    }
    return true;
}

static bool check_faults(const Run *r, int n_rows) {
    for (int i = 0, part = 0, before = 0; i < n_rows; i++) {
        const RowFault *f = &r->e->faults[i];
        while (i - before >= r->e->parts[part].n) before += r->e->parts[part++].n;
        if (f->failed)
            return model_fault_error(f, r->e->rows[i].position, r->err) ||
                   error_prefix(r->err, "text %d", r->e->parts[part].text);
    }
    return true;
}

/* ---- from rows to vectors ---- */

static bool run_stage(Embedder *e, const EmbedStage *s, const float *x, int n, float *y, Error *err) {
    Pool *pool = model_pool(e->model);
    if (s->kind == STAGE_CLASSIFIER) return model_classify(e->model, x, n, y, err);
    if (s->kind == STAGE_ACT) {
        ops_act(pool, s->act, x, y, n, s->outputs);
    } else if (s->kind == STAGE_UNIT) {
        for (int i = 0; i < n; i++)
            pooling_unit(x + (size_t)i * (size_t)s->inputs, y + (size_t)i * (size_t)s->inputs, s->inputs);
    } else if (s->kind == STAGE_LAYER_NORM) {
        ops_layer_norm(pool, x, s->weight, s->bias, 1e-5f, y, n, s->inputs);
    } else {
        LinearJob job = {s->linear, activations_new(&e->arena, x, n, s->inputs, 16), y};
        if (!job.x || !linear_apply(&job, 1, pool, &e->arena)) return error_memory(err, "the vectors");
        if (s->act != ACT_NONE) ops_act(pool, s->act, y, y, n, s->outputs);
        if (s->residual) ops_add(pool, y, x, y, n, s->outputs);
    }
    return true;
}

/* The stages over n pooled vectors, into out [n][size]. */
static bool run_stages(Embedder *e, int n, float *out, Error *err) {
    const float *x = e->pooled;
    arena_rewind(&e->arena, e->empty);
    for (int i = 0; i < e->plan.n_stages; i++) {
        const EmbedStage *s = &e->plan.stages[i];
        float *y = arena_array(&e->arena, (size_t)n * (size_t)s->outputs, sizeof *y);
        if (!y) return error_memory(err, "the vectors");
        if (!run_stage(e, s, x, n, y, err)) return false;
        x = y;
    }
    memcpy(out, x, (size_t)n * (size_t)e->plan.size * sizeof *out);
    return true;
}

/* Pools what a step gave. vectors: of the wanted rows, in order. */
static bool take_vectors(Run *r, const float *vectors) {
    Embedder *e = r->e;
    Pooling *pool = &e->pooling;
    size_t width = (size_t)pool->dims * (size_t)pool->spec->n_modes;
    const Row *row = e->rows;
    int done = 0;
    for (int i = 0; i < e->n_parts; i++) {
        const Part *p = &e->parts[i];
        const EmbedInput *in = &r->inputs[p->text];
        pool->first = in->n_prompt;
        pool->end = in->n;
        if (p->first == 0) pooling_begin(pool);
        for (int j = 0; j < p->n; j++, row++) {
            if (!row->wants_logits) continue;
            pooling_add(pool, row->position, vectors);
            vectors += pool->dims;
        }
        if (p->first + p->n == in->n) pooling_finish(pool, e->pooled + (size_t)done++ * width);
    }
    int first = r->text - done; /* those completed end where the next step begins */
    return done == 0 || run_stages(e, done, r->out + (size_t)first * (size_t)e->plan.size, r->err);
}

/* A text that goes on is part 0 of the next step. */
static void carry_state(Embedder *e) {
    State *last = e->states[e->n_parts - 1];
    e->states[e->n_parts - 1] = e->states[0];
    e->states[0] = last;
}

static bool run_step(Run *r) {
    Embedder *e = r->e;
    const float *vectors;
    int n = choose_parts(r);
    bool ok = reserve_rows(e, n, r->err) && fill_rows(r) &&
              model_step_vectors(e->model, e->rows, n, &vectors, e->faults, r->err) && check_faults(r, n) &&
              take_vectors(r, vectors);
    if (ok && r->at > 0) carry_state(e);
    return ok;
}

bool embedder_run(Embedder *e, const EmbedInput *inputs, int n, float *out, EmbedProgress *progress, void *context,
                  Error *err) {
    Error local;
    Run r = {.e = e, .inputs = inputs, .n = n, .out = out, .err = err ? err : &local};
    if (!check_inputs(&r)) return false;
    while (r.text < n) {
        if (!run_step(&r)) return false;
        if (progress && !progress(context, r.text, n)) return error_set(r.err, "stopped");
    }
    return true;
}
