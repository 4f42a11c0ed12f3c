/* A model as its users see it: loading, one step over any rows, and what inspect says. The step checks its rows before
 * anything runs, so that a mistake of one caller leaves every state as it was. */
#include "model/model.h"
#include "base/memory.h"
#include "model/describe.h"
#include "model/mechanism.h"

#include <limits.h>
#include <string.h>

struct Model {
    Names names;
    const Family *family;
    Blueprint blueprint;
    Weights weights;
    NumericSettings numeric;
    int context;
    int boundary; /* INT_MAX: none */
    LayerShape *layer_shapes;
    StateShape state_shape;
    char **ignored; /* --ignore-config, for inspect */
    int n_ignored;
    size_t step_bytes;
    ModelCounts counts;
    Pool *pool;
    Arena arena;
    ArenaMark empty;
    ModelTap *tap;
    void *tap_context;
};

static bool set_context(Model *m, int wanted, Error *err) {
    int max = m->blueprint.max_context;
    const char *note = m->blueprint.context_note;
    if (wanted < 0) return error_set(err, "a context of %d positions is not possible", wanted);
    if (wanted > max)
        return error_set(
            err, "a context of %d is more than the %d positions that config.json allows (max_position_embeddings)%s%s",
            wanted, max, note ? ": " : "", note ? note : "");
    m->context = wanted ? wanted : max;
    m->boundary = blueprint_boundary(&m->blueprint) ? blueprint_boundary(&m->blueprint) : INT_MAX;
    return true;
}

static bool make_state_shape(Model *m, Error *err) {
    int n = m->blueprint.n_layers, kinds = 1;
    KvFormat kv = m->numeric.kv;
    m->layer_shapes = mem_zeroed(STEP_KINDS * (size_t)n, sizeof *m->layer_shapes);
    if (!m->layer_shapes) return error_memory(err, "the layers");
    for (int i = 0; i < n; i++) {
        const LayerSpec *spec = &m->blueprint.layers[i];
        if (spec->mixer && spec->mixer->state) spec->mixer->state(spec, kv, &m->layer_shapes[i]);
        for (int k = 1; k < STEP_KINDS && spec->mixer && spec->mixer->side_state; k++)
            spec->mixer->side_state(spec, kv, k, &m->layer_shapes[k * n + i]);
        if (i == 0) ngram_state(&m->blueprint.ngram, &m->layer_shapes[STEP_INDEX * n]);
        for (int k = 1; k < STEP_KINDS; k++)
            if (m->layer_shapes[k * n + i].kv.heads > 0 && k >= kinds) kinds = k + 1;
    }
    m->state_shape = (StateShape){kinds * n, m->layer_shapes};
    return true;
}

static bool keep_ignored(Model *m, const ModelOptions *o, Error *err) {
    m->ignored = mem_zeroed((size_t)o->n_ignore_config, sizeof *m->ignored);
    if (!m->ignored) return error_memory(err, "the options");
    for (; m->n_ignored < o->n_ignore_config; m->n_ignored++) {
        const char *key = o->ignore_config[m->n_ignored];
        if (!(m->ignored[m->n_ignored] = mem_string(key, strlen(key)))) return error_memory(err, "the options");
    }
    return true;
}

/* Of the experts of a layer, those that a row does not choose; all have the same size. */
static size_t count_idle_bytes(const Blueprint *b, const Weights *w, int layer) {
    const RouterRule *rule = &b->layers[layer].experts.rule;
    const Linear *const *const parts[] = {w->layers[layer].experts.gate, w->layers[layer].experts.up,
                                          w->layers[layer].experts.down};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i]) bytes += linear_bytes(parts[i][0]) * (size_t)(rule->n_experts - rule->n_chosen);
    return bytes;
}

/* All other linears are read by a step; the embedding only when it is the head as well, of the n-grams' a row each. */
static size_t count_step_bytes(const Blueprint *b, const Weights *w) {
    size_t bytes = w->bytes_again;
    for (int i = 0; i < ngram_count(&b->ngram); i++) bytes -= linear_bytes(w->ngram_tables[i]);
    for (int i = 0; i < w->n_linears; i++)
        if (w->linears[i] != w->embedding || w->embedding == w->head) bytes += linear_bytes(w->linears[i]);
    for (int i = 0; i < b->n_layers; i++) bytes -= count_idle_bytes(b, w, i);
    return bytes;
}

Model *model_load(const Checkpoint *checkpoint, const ModelOptions *o, Pool *pool, Error *err) {
    const JsonValue *config = checkpoint_config(checkpoint);
    IgnoredKeys ignored = {o->ignore_config, o->n_ignore_config};
    Model *m = mem_zeroed(1, sizeof *m);
    if (!m) {
        error_memory(err, "a model");
        return NULL;
    }
    m->numeric = o->numeric;
    m->pool = pool;
    arena_init(&m->arena);
    m->empty = arena_mark(&m->arena);
    m->family = family_find(config, err);
    if (m->family) m->names = names_find_root(checkpoint, m->family->roots);
    bool ok = m->family && keep_ignored(m, o, err) &&
              blueprint_read(config, m->family, &m->names, o->ignore_config, o->n_ignore_config, &m->blueprint, err) &&
              set_context(m, o->context, err) && make_state_shape(m, err) &&
              weights_bind(&m->names, &m->blueprint, m->family, &ignored, pool, &m->weights, err);
    if (!ok) {
        model_free(m);
        return NULL;
    }
    m->step_bytes = count_step_bytes(&m->blueprint, &m->weights);
    return m;
}

void model_free(Model *m) {
    if (!m) return;
    for (int i = 0; i < m->n_ignored; i++) mem_free(m->ignored[i]);
    mem_free(m->ignored);
    mem_free(m->layer_shapes);
    weights_clear(&m->weights);
    blueprint_clear(&m->blueprint);
    arena_clear(&m->arena);
    mem_free(m);
}

int model_vocab_size(const Model *m) {
    return m->blueprint.vocab;
}

int model_context(const Model *m) {
    return m->context;
}

int model_max_context(const Model *m) {
    return m->blueprint.max_context;
}

int model_side(const Model *m, int n_tokens) {
    return n_tokens > m->boundary;
}

int model_boundary(const Model *m) {
    return m->boundary;
}

const StateShape *model_state_shape(const Model *m) {
    return &m->state_shape;
}

const NumericSettings *model_numeric(const Model *m) {
    return &m->numeric;
}

size_t model_step_bytes(const Model *m) {
    return m->step_bytes;
}

bool model_fault_error(const RowFault *f, int position, Error *err) {
    if (f->layer < 0) return error_set(err, "position %d: a value that is not finite in %s", position, f->operation);
    return error_set(err, "position %d: a value that is not finite in layer %d, %s", position, f->layer, f->operation);
}

bool model_has_head(const Model *m) {
    return m->weights.head != NULL;
}

bool model_purpose(const Checkpoint *checkpoint, const ModelOptions *o, ModelPurpose *out, Error *err) {
    const JsonValue *config = checkpoint_config(checkpoint);
    const Family *family = family_find(config, err);
    Blueprint b = {0};
    if (!family) return false;
    Names names = names_find_root(checkpoint, family->roots);
    if (!blueprint_read(config, family, &names, o->ignore_config, o->n_ignore_config, &b, err)) return false;
    *out = (ModelPurpose){b.head.name != NULL, b.classifier.n_labels};
    blueprint_clear(&b);
    return true;
}

bool model_needs_head(const Model *m, Error *err) {
    if (model_labels(m))
        return error_set(err,
                         "this %s model has a sequence classifier and no output head: it scores pairs of texts "
                         "(lockstep rerank)",
                         m->family->name);
    return model_has_head(m) ||
           error_set(err, "this %s model has no output head: it gives a vector of each text (lockstep embed)",
                     m->family->name);
}

bool model_is_encoder(const Model *m) {
    return m->blueprint.encoder;
}

int model_hidden_size(const Model *m) {
    return m->blueprint.hidden;
}

int model_token_types(const Model *m) {
    return m->weights.token_types ? m->blueprint.n_token_types : 1;
}

int model_labels(const Model *m) {
    return m->blueprint.classifier.n_labels;
}

ClassifierPool model_classifier_pool(const Model *m) {
    return m->blueprint.classifier.pool;
}

int32_t model_classifier_padding(const Model *m) {
    return m->blueprint.classifier.pad_token;
}

/* What the last step gave is borrowed from the arena and may be what is classified: so it stays. */
bool model_classify(Model *m, const float *vectors, int n, float *logits, Error *err) {
    ArenaMark before = arena_mark(&m->arena);
    ClassifierJob job = {&m->blueprint, &m->weights, &m->numeric, m->pool, &m->arena, vectors, n};
    bool finite = ops_all_finite(vectors, n * m->blueprint.hidden);
    bool ok = !finite || classifier_run(&job, logits);
    arena_rewind(&m->arena, before);
    if (!ok) return error_memory(err, "the logits of a classifier");
    finite = finite && ops_all_finite(logits, n * model_labels(m));
    return finite || error_set(err, "a value that is not finite in the classifier");
}

ModelCounts model_counts(const Model *m) {
    return m->counts;
}

const char *model_family(const Model *m) {
    return m->family->name;
}

void model_set_pool(Model *m, Pool *pool) {
    m->pool = pool;
}

Pool *model_pool(const Model *m) {
    return m->pool;
}

void model_set_tap(Model *m, ModelTap *tap, void *context) {
    m->tap = tap;
    m->tap_context = context;
}

void model_describe(const Model *m, int context, Buffer *out) {
    DescribeInput in = {.family = m->family,
                        .blueprint = &m->blueprint,
                        .weights = &m->weights,
                        .numeric = &m->numeric,
                        .state_shape = &m->state_shape,
                        .ignored = m->ignored,
                        .n_ignored = m->n_ignored,
                        .context = context};
    describe_model(&in, out);
}

/* ---- the step ---- */

/* Rather an error than logits of no prefix: the caller restarts a state before it crosses. */
static bool check_side(const Model *m, const Row *row, Error *err) {
    static const char *const names[] = {"short", "long"};
    int side = state_side(row->state), own = model_side(m, row->position + 1);
    if (own == side || (own < side && !row->wants_logits)) return true;
    return error_set(err, "position %d needs the %s rotary table, and its sequence was computed with the %s one",
                     row->position, names[own], names[side > 0]);
}

/* A sequence's rows follow one another, from its length on, within the context. */
static bool check_row(const Model *m, const Row *rows, int r, Error *err) {
    const Row *row = &rows[r];
    bool follows = r > 0 && rows[r - 1].state == row->state;
    int expected = follows ? rows[r - 1].position + 1 : state_length(row->state);
    if (state_spoiled(row->state))
        return error_set(err, "row %d continues a sequence of which a step failed; it must be restarted", r);
    if (row->position != expected)
        return error_set(err, "row %d of the step is at position %d, expected %d", r, row->position, expected);
    if (row->position >= m->context)
        return error_set(err, "position %d is past the context of %d", row->position, m->context);
    if (row->token_type < 0 || row->token_type >= model_token_types(m))
        return error_set(err, "token type %d is not one of the %d of this model", row->token_type,
                         model_token_types(m));
    if (!row->embedding && (row->token < 0 || row->token >= m->blueprint.vocab))
        return error_set(err, "token id %d is outside the vocabulary of %d", (int)row->token, m->blueprint.vocab);
    return check_side(m, row, err);
}

static bool is_last_of_state(const Row *rows, int n_rows, int r) {
    return r + 1 == n_rows || rows[r + 1].state != rows[r].state;
}

static bool reserve_states(const Row *rows, int n_rows, Error *err) {
    for (int r = 0; r < n_rows; r++)
        if (is_last_of_state(rows, n_rows, r) && !state_reserve(rows[r].state, rows[r].position + 1, err)) return false;
    return true;
}

/* A failed sequence keeps its old length, and so does one of an encoder, of which nothing is kept. */
static void advance_states(const Model *m, const Row *rows, int n_rows, const RowFault *faults) {
    for (int r = 0; r < n_rows && !m->blueprint.encoder; r++) {
        if (!is_last_of_state(rows, n_rows, r)) continue;
        if (faults[r].failed) {
            state_spoil(rows[r].state);
            continue;
        }
        state_set_length(rows[r].state, rows[r].position + 1);
        state_trim(rows[r].state, rows[r].position + 1);
    }
}

/* Which sequence each row is of, and where that ends; how many sequences. */
static int place_rows(const Row *rows, int n_rows, RowPlace *places) {
    int n = 0;
    for (int r = n_rows - 1; r >= 0; r--) {
        bool last = is_last_of_state(rows, n_rows, r);
        n += last;
        places[r] = (RowPlace){-n, last ? rows[r].position + 1 : places[r + 1].end};
    }
    for (int r = 0; r < n_rows; r++) places[r].sequence += n;
    return n;
}

static bool run_step(Model *m, const Row *rows, int n_rows, bool headless, const float **out, RowFault *faults,
                     Error *err) {
    if (n_rows <= 0) return error_set(err, "a step without rows");
    for (int r = 0; r < n_rows; r++)
        if (!check_row(m, rows, r, err)) return false;
    if (!reserve_states(rows, n_rows, err)) return false;

    arena_rewind(&m->arena, m->empty);
    int *positions = arena_array(&m->arena, (size_t)n_rows, sizeof *positions);
    RowPlace *places = arena_array(&m->arena, (size_t)n_rows, sizeof *places);
    if (!positions || !places) return error_memory(err, "a step");
    for (int r = 0; r < n_rows; r++) {
        positions[r] = rows[r].position;
        faults[r] = (RowFault){false, -1, NULL};
    }
    Step step = {.blueprint = &m->blueprint,
                 .weights = &m->weights,
                 .numeric = &m->numeric,
                 .pool = m->pool,
                 .arena = &m->arena,
                 .rows = rows,
                 .n = n_rows,
                 .positions = positions,
                 .places = places,
                 .n_sequences = place_rows(rows, n_rows, places),
                 .faults = faults,
                 .tap = m->tap,
                 .tap_context = m->tap_context};
    const float *result;
    if (!decoder_run(&step, headless, &result)) {
        for (int r = 0; r < n_rows; r++) state_spoil(rows[r].state);
        return error_memory(err, "a step");
    }
    *out = result;
    m->counts.experts += step.counts.experts;
    m->counts.expert_tiles += step.counts.expert_tiles;
    advance_states(m, rows, n_rows, faults);
    return true;
}

bool model_step(Model *m, const Row *rows, int n_rows, const float **logits, RowFault *faults, Error *err) {
    return model_needs_head(m, err) && run_step(m, rows, n_rows, false, logits, faults, err);
}

bool model_step_vectors(Model *m, const Row *rows, int n_rows, const float **vectors, RowFault *faults, Error *err) {
    return run_step(m, rows, n_rows, true, vectors, faults, err);
}
