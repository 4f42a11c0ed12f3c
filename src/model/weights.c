/* The binder's second half: what a whole model asks for, what is left over, and then the plan carried out. Integer
 * weights are laid out as tiles and their file pages let go; float weights stay mapped, or are copied where the step
 * needs them in another order than the file has. */
#include "base/log.h"
#include "base/memory.h"
#include "math/format_rows.h"
#include "model/bind_plan.h"
#include "model/mechanism.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the head ---- */

static bool same_tensor(const Tensor *a, const Tensor *b) {
    if (!a || !b) return a == b;
    return a->dtype == b->dtype && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

static bool same_weight(const LinearPlan *a, const LinearPlan *b) {
    bool same =
        a->source.format == b->source.format && a->source.bits == b->source.bits && a->source.group == b->source.group;
    for (int i = 0; i < PLAN_PARTS; i++) same = same && same_tensor(a->parts[i], b->parts[i]);
    return same;
}

/* A head beside tied embeddings: an equal copy ties, a different one is used, as in transformers 5 (mlx-lm drops it).
 */
static bool bind_head(Binder *b, Weights *w) {
    const Blueprint *p = b->blueprint;
    LinearPlan embedding = b->linears[0], head = {.out = &w->head};
    char name[NAME_MAX_BYTES];
    const char *suffix = p->head.bare ? "" : ".weight";
    if (!p->head.name) return true;
    bool present = names_expand(b->names, p->head.name, -1, -1, suffix, name);
    if (!present && p->tie == TIE_NO)
        return bind_fail(b, "%s: has no tensor \"%s%s\", though config.json says that it is not tied to the embedding",
                         checkpoint_folder(b->names->checkpoint), name, suffix);
    if (!present && !p->head.bias) return true;
    if (!present) /* the embedding's weights, with a bias of its own */
        return bind_plan_weight(b, &p->embedding, -1, -1, p->vocab, p->hidden, &head) &&
               bind_plan_bias(b, &p->head, -1, -1, &head) && bind_add_linear(b, &head);
    if (p->head.bias) return bind_linear(b, &p->head, -1, p->vocab, p->hidden, &w->head);
    if (!bind_plan_weight(b, &p->head, -1, -1, p->vocab, p->hidden, &head)) return false;
    if (p->tie == TIE_YES && same_weight(&embedding, &head)) return true;
    b->head_warned = p->tie == TIE_YES;
    return bind_add_linear(b, &head);
}

/* ---- what is left over ---- */

static int compare_pointers(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const Tensor *const *)a, y = (uintptr_t) * (const Tensor *const *)b;
    return x < y ? -1 : x > y;
}

/* A tensor of the layers that predict further tokens. */
static bool is_extra(const Binder *b, const char *name) {
    const Blueprint *p = b->blueprint;
    char prefix[NAME_MAX_BYTES], *end;
    if (p->n_extra_layers == 0) return false;
    names_expand(b->names, "model.layers.", -1, -1, "", prefix);
    if (strncmp(name, prefix, strlen(prefix)) != 0) return false;
    unsigned long layer = strtoul(name + strlen(prefix), &end, 10);
    return *end == '.' && layer >= (unsigned long)p->n_layers &&
           layer - (unsigned long)p->n_layers < (unsigned long)p->n_extra_layers;
}

/* Ranges of inputs and of keys and values, which published forms round to and weights alone do not need. */
static bool is_activation_scale(const char *name) {
    static const char *const endings[] = {".input_scale",      ".input_zero_point", ".input_global_scale",
                                          ".activation_scale", ".output_scale",     ".k_scale",
                                          ".v_scale",          ".q_scale",          ".kv_scale",
                                          ".k_zero_point",     ".v_zero_point",     ".output_zero_point"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && strcmp(name + n - m, endings[i]) == 0) return true;
    }
    return false;
}

static bool is_skipped(const Binder *b, const char *name) {
    if (b->quantization.published.method && is_activation_scale(name)) return true;
    for (const char *const *p = b->family->skipped_tensors; p && *p; p++)
        if (name_matches(*p, name)) return true;
    return is_extra(b, name);
}

static bool add_skipped(Binder *b, Weights *w, const char *name) {
    char **list = mem_resize(w->skipped, (size_t)w->n_skipped + 1, sizeof *list);
    if (!list) return error_memory(b->err, "the list of tensors");
    w->skipped = list;
    if (!(list[w->n_skipped] = mem_string(name, strlen(name)))) return error_memory(b->err, "the list of tensors");
    w->n_skipped++;
    return true;
}

/* Every tensor of the checkpoint must have been asked for, or be one that the family skips. */
static bool check_leftovers(Binder *b, Weights *w) {
    const Tensor *extra = NULL;
    int n_extra = 0;
    if (b->n_used) qsort(b->used, (size_t)b->n_used, sizeof *b->used, compare_pointers);
    for (int i = 0; i < checkpoint_count(b->names->checkpoint); i++) {
        const Tensor *t = checkpoint_tensor(b->names->checkpoint, i);
        if (b->n_used && bsearch(&t, b->used, (size_t)b->n_used, sizeof t, compare_pointers)) continue;
        if (is_skipped(b, t->name)) {
            if (!add_skipped(b, w, t->name)) return false;
        } else if (n_extra++ == 0) {
            extra = t;
        }
    }
    if (!extra) return true;
    char found[160];
    tensor_shape_text(extra, found, sizeof found);
    if (n_extra == 1)
        return bind_fail(b, "%s: tensor \"%.200s\" %s has no place in this %s model as config.json describes it",
                         extra->file, extra->name, found, b->family->name);
    return bind_fail(
        b, "%s: tensor \"%.200s\" %s and %d others have no place in this %s model as config.json describes it",
        extra->file, extra->name, found, n_extra - 1, b->family->name);
}

/* ---- the whole plan ---- */

static bool plan_per_layer(Binder *b, Weights *w) {
    const PerLayerSpec *p = &b->blueprint->per_layer;
    int64_t all = (int64_t)p->width * b->blueprint->n_layers;
    if (p->width == 0) return true;
    return bind_linear(b, &p->embedding, -1, p->vocab, all, &w->per_layer_embedding) &&
           bind_linear(b, &p->projection, -1, all, b->blueprint->hidden, &w->per_layer_projection) &&
           bind_norm(b, &p->norm, -1, p->width, &w->per_layer_norm);
}

static bool plan_layer_input(Binder *b, int i, LayerWeights *w) {
    const PerLayerSpec *p = &b->blueprint->per_layer;
    int hidden = b->blueprint->hidden;
    if (p->width == 0) return true;
    return bind_linear(b, &p->gate, i, p->width, hidden, &w->per_layer_gate) &&
           bind_linear(b, &p->out, i, hidden, p->width, &w->per_layer_out) &&
           bind_norm(b, &p->out_norm, i, hidden, &w->per_layer_norm);
}

static bool plan_ngrams(Binder *b, Weights *w) {
    const NgramSpec *g = &b->blueprint->ngram;
    int n = ngram_count(g);
    if (n == 0) return true;
    w->ngram_tables = arena_array(&w->arena, (size_t)n, sizeof *w->ngram_tables);
    w->ngram_projections = arena_array(&w->arena, (size_t)n, sizeof *w->ngram_projections);
    if (!w->ngram_tables || !w->ngram_projections) return error_memory(b->err, "the n-grams");
    for (int i = 0; i < n; i++)
        if (!bind_numbered(b, &g->table, i, ngram_rows(g, i), g->dim, &w->ngram_tables[i]) ||
            !bind_numbered(b, &g->projection, i, b->blueprint->hidden, g->dim, &w->ngram_projections[i]))
            return false;
    return true;
}

static bool plan_altup(Binder *b, Weights *w) {
    const AltUpSpec *a = &b->blueprint->altup;
    int64_t hidden = b->blueprint->hidden;
    LinearSpec embed[2] = {a->embed}, unembed[2] = {a->unembed};
    if (a->n == 0) return true;
    if (a->n < 2 || a->n > ALTUP_MAX || a->active < 0 || a->active >= a->n)
        return bind_fail(b, "config.json: %d hidden streams, of which %d is computed, cannot be", a->n, a->active);
    return bind_experts(b, embed, -1, a->n - 1, hidden, hidden, &w->altup_embed) &&
           bind_experts(b, unembed, -1, a->n - 1, hidden, hidden, &w->altup_unembed);
}

static bool plan_layer_altup(Binder *b, int i, const LaurelSpec *l, LayerWeights *w) {
    const AltUpSpec *a = &b->blueprint->altup;
    int64_t hidden = b->blueprint->hidden, n = a->n;
    if (l->rank && !(bind_linear(b, &l->left, i, l->rank, hidden, &w->laurel_left) &&
                     bind_linear(b, &l->right, i, hidden, l->rank, &w->laurel_right) &&
                     bind_norm(b, &l->norm, i, hidden, &w->laurel_norm)))
        return false;
    if (n == 0) return true;
    return bind_norm(b, &a->router_norm, i, hidden, &w->altup_norm) &&
           bind_linear(b, &a->router, i, n, hidden, &w->altup_router) &&
           bind_linear(b, &a->predict, i, n * n, n, &w->altup_predict) &&
           bind_linear(b, &a->correct, i, n, n, &w->altup_correct) &&
           bind_vector(b, a->correct_scale, i, hidden, 0, &w->altup_scale);
}

static bool plan_residual(Binder *b, const ResidualSpec *r, int layer, ResidualWeights *w) {
    int n = residual_blocks(b->blueprint);
    if (n == 0) return true;
    if (n > BLOCKS_MAX)
        return bind_fail(b, "config.json: residuals of %d blocks of layers are more than the %d that there may be", n,
                         BLOCKS_MAX);
    return bind_norm(b, &r->norm, layer, b->blueprint->hidden, &w->norm) &&
           bind_linear(b, &r->proj, layer, 1, b->blueprint->hidden, &w->proj);
}

static bool plan_hyper(Binder *b, const HyperNames *names, int layer, int mixes, int scales, HyperWeights *w) {
    const HyperSpec *h = &b->blueprint->hyper;
    if (h->n == 0 || !names->fn.name) return true;
    if (h->n > HYPER_MAX || h->rounds < 1 || (int64_t)h->n * b->blueprint->hidden > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: %d hidden streams, mixed in %d rounds, are not possible here (at most %d)",
                         h->n, h->rounds, HYPER_MAX);
    return bind_linear(b, &names->fn, layer, mixes, (int64_t)h->n * b->blueprint->hidden, &w->fn) &&
           bind_vector(b, names->base, layer, mixes, 0, &w->base) &&
           bind_vector(b, names->scale, layer, scales, 0, &w->scale);
}

static bool plan_layer_hyper(Binder *b, int i, LayerWeights *w) {
    const HyperSpec *h = &b->blueprint->hyper;
    int mixes = h->n > HYPER_MAX ? 1 : (2 + h->n) * h->n;
    return plan_hyper(b, &h->mixer, i, mixes, 3, &w->hyper_mixer) && plan_hyper(b, &h->ffn, i, mixes, 3, &w->hyper_ffn);
}

static bool plan_layer(Binder *b, int layer, LayerWeights *w) {
    const LayerSpec *spec = &b->blueprint->layers[layer];
    int hidden = b->blueprint->hidden, i = layer - spec->names_back;
    b->repeats = spec->names_back != 0;
    return bind_norm(b, &spec->enter_norm, i, hidden, &w->enter_norm) &&
           bind_norm(b, &spec->mixer_norm, i, hidden, &w->mixer_norm) &&
           bind_norm(b, &spec->ffn_norm, i, hidden, &w->ffn_norm) &&
           bind_norm(b, &spec->mixer_out, i, hidden, &w->mixer_out) &&
           bind_norm(b, &spec->ffn_out, i, hidden, &w->ffn_out) &&
           bind_norm(b, &spec->mid_norm, i, hidden, &w->mid_norm) &&
           bind_norm(b, &spec->output_norm, i, hidden, &w->output_norm) &&
           bind_vector(b, spec->scalar, i, 1, 0, &w->scalar) && bind_vector(b, spec->skip, i, 1, 0, &w->skip) &&
           bind_vector(b, spec->mixer_gate.gate, i, hidden, 0, &w->mixer_gate) &&
           bind_vector(b, spec->ffn_gate.gate, i, hidden, 0, &w->ffn_gate) &&
           (!spec->mixer || spec->mixer->bind(b, spec, i, w)) && (!spec->ffn || spec->ffn->bind(b, spec, i, w)) &&
           plan_residual(b, &spec->mixer_residual, i, &w->mixer_residual) &&
           plan_residual(b, &spec->ffn_residual, i, &w->ffn_residual) && plan_layer_input(b, i, w) &&
           plan_layer_altup(b, i, &spec->laurel, w) && plan_layer_hyper(b, i, w);
}

static bool plan_classifier(Binder *b, ClassifierWeights *w) {
    const ClassifierSpec *c = &b->blueprint->classifier;
    int64_t hidden = b->blueprint->hidden;
    if (c->n_labels == 0) return true;
    return bind_linear(b, &c->dense, -1, hidden, hidden, &w->dense) && bind_norm(b, &c->norm, -1, hidden, &w->norm) &&
           bind_linear(b, &c->score, -1, c->n_labels, hidden, &w->score);
}

static bool plan_all(Binder *b, Weights *w) {
    const Blueprint *p = b->blueprint;
    if (!bind_linear(b, &p->embedding, -1, p->vocab, p->hidden, &w->embedding) ||
        !bind_linear(b, &p->positions, -1, p->n_positions, p->hidden, &w->positions) ||
        !bind_linear(b, &p->token_types, -1, p->n_token_types, p->hidden, &w->token_types) ||
        !bind_norm(b, &p->embedding_norm, -1, p->hidden, &w->embedding_norm) ||
        !bind_norm(b, &p->final_norm, -1, p->hidden, &w->final_norm) ||
        !bind_vector(b, p->logit_gain, -1, 1, 0, &w->logit_gain) || !plan_per_layer(b, w) || !plan_ngrams(b, w) ||
        !plan_altup(b, w) || !plan_residual(b, &p->out_residual, -1, &w->out_residual))
        return false;
    for (int i = 0; i < p->n_layers; i++)
        if (!plan_layer(b, i, &w->layers[i])) return false;
    return plan_hyper(b, &p->hyper.end, -1, p->hyper.n, 1, &w->hyper_end) && bind_head(b, w) &&
           plan_classifier(b, &w->classifier) && check_leftovers(b, w);
}

/* ---- taking memory ---- */

/* n values of a float tensor from value `first` on. */
static void read_floats(const Tensor *t, int64_t first, int64_t n, float *out) {
    WeightSource source = {.format = bind_float_format(t->dtype),
                           .rows = 1,
                           .cols = n,
                           .codes = t->data + (uint64_t)first * dtype_bytes(t->dtype)};
    weight_row(&source, 0, out);
}

/* [channels][kernel], as both layouts have it whatever their shape, to [kernel][channels]. */
static float *turn_conv(float *values, int channels, int each, int kernel) {
    float *turned = mem_array((size_t)channels * (size_t)kernel, sizeof *turned);
    for (int c = 0; turned && c < channels; c++)
        for (int k = 0; k < kernel; k++) turned[k * channels + c] = values[c / each * kernel + k];
    mem_free(values);
    return turned;
}

/* Whole numbers, which bind_ids has checked. */
static bool load_ids(const VectorPlan *plan, Weights *w, Error *err) {
    int32_t *ids = mem_array((size_t)plan->n, sizeof *ids);
    size_t bytes = dtype_bytes(plan->tensor->dtype);
    if (!ids) return error_memory(err, "a table of experts");
    for (int64_t i = 0; i < plan->n; i++) /* little-endian, and small */
        memcpy(&ids[i], plan->tensor->data + (size_t)i * bytes, sizeof *ids);
    w->copies[w->n_copies++] = ids;
    *plan->ids = ids;
    return true;
}

/* A vector, or what a plan adds to the last one. */
static bool load_vector(const VectorPlan *plan, Weights *w, Pool *pool, Error *err) {
    size_t total = (size_t)(plan->total ? plan->total : plan->n);
    float *values = plan->at ? w->vectors[w->n_vectors - 1] + plan->at : mem_array(total, sizeof *values);
    if (!values) return error_memory(err, "a norm");
    read_floats(plan->tensor, plan->from, plan->n, values);
    for (int64_t i = 0; plan->plus != 0 && i < plan->n; i++) values[i] += plan->plus;
    if (plan->at) return true;
    if (plan->kernel && !(values = turn_conv(values, plan->channels, plan->each, plan->kernel)))
        return error_memory(err, "a convolution");
    if (plan->rates) {
        ops_act(pool, plan->rates == RATE_EXP ? ACT_EXP : ACT_SOFTPLUS, values, values, plan->kernel, plan->channels);
        ops_scale(pool, values, plan->rates == RATE_EXP ? -1 : -8, values, plan->kernel, plan->channels);
    }
    *plan->out = w->vectors[w->n_vectors++] = values;
    return true;
}

/* The bias of the rows that are taken. In place: row i comes from no earlier row than i. */
static float *read_bias(const LinearPlan *plan) {
    const RowSlice *r = &plan->rows;
    int64_t there = plan->transposed ? plan->source.cols : plan->source.rows;
    float *values = mem_array((size_t)there, sizeof *values);
    if (values) read_floats(plan->bias, there * plan->slot, there, values);
    for (int64_t i = 0; values && i < r->total; i++)
        values[i] = values[r->from + i / r->take * r->period + i % r->take];
    return values;
}

/* Of a published form: the rows that are taken, and then, of a transposed block, its columns. */
static bool arrange_packed(const LinearPlan *plan, Pool *pool, WeightSource *out, void **copy, char note[PACKED_NOTE],
                           Error *err) {
    const RowSlice *r = &plan->rows;
    RowPick pick = {r->total, r->from, r->take, r->period};
    RowPick inputs = {plan->n_inputs, plan->first_input, plan->n_inputs, 0};
    PackedSource packed = plan->packed;
    WeightSource block;
    void *made = NULL, *picked;
    *copy = NULL;
    if (plan->ternary && !packed_ternarise(&plan->source, &packed, &made, err)) return false;
    bool ok = packed_pick(&packed, plan->transposed ? &inputs : &pick, pool, &block, &picked, note, err);
    mem_free(made);
    if (!ok) return false;
    if (!plan->transposed) {
        *out = block;
        *copy = picked;
        return true;
    }
    ok = weight_columns_pick(&block, &pick, out, copy, err);
    mem_free(picked);
    if (!note[0]) snprintf(note, PACKED_NOTE, "inputs and outputs change places");
    return ok;
}

/* The matrix as the step reads it; *copy: what had to be copied for that. */
static bool arrange(const LinearPlan *plan, Pool *pool, WeightSource *out, void **copy, char note[PACKED_NOTE],
                    Error *err) {
    const RowSlice *r = &plan->rows;
    RowPick pick = {r->total, r->from, r->take, r->period};
    RowPick inputs = {plan->n_inputs, plan->first_input, plan->n_inputs, 0};
    WeightSource block;
    if (plan->packed.rows || plan->ternary) return arrange_packed(plan, pool, out, copy, note, err);
    if (plan->unit_rows && weight_is_float(&plan->source)) return weight_unit_rows(&plan->source, out, copy, err);
    if (!plan->transposed) return weight_rows_pick(&plan->source, &pick, out, copy, err);
    return weight_rows_pick(&plan->source, &inputs, &block, copy, err) && /* they lie together: no copy */
           weight_columns_pick(&block, &pick, out, copy, err);
}

static void release_file_pages(const LinearPlan *plan) {
    for (int i = 0; i < PLAN_PARTS; i++) {
        const Tensor *t = plan->parts[i];
        if (!t) continue;
        uint64_t each = t->bytes / (uint64_t)plan->n_slots;
        mapping_release(t->data + each * (uint64_t)plan->slot, each);
    }
}

/* "int 4-bit g128 (gptq)", "f32 (gptq: why no integers)". */
static bool name_format(const LinearPlan *plan, const char *format, const char *note, char **out, Error *err) {
    Buffer text = {0};
    buffer_text(&text, format);
    if (plan->origin) buffer_printf(&text, " (%s%s%s)", plan->origin, note[0] ? ": " : "", note);
    *out = text.failed ? NULL : mem_string(buffer_string(&text), text.length);
    buffer_clear(&text);
    return *out || error_memory(err, "a name");
}

static bool load_linear(const LinearPlan *plan, Weights *w, Pool *pool, Error *err) {
    char format[64], note[PACKED_NOTE] = "";
    WeightSource source;
    void *copy = NULL;
    float *bias = plan->bias ? read_bias(plan) : NULL;
    if (plan->bias && !bias) return error_memory(err, "a bias");
    Linear *linear = arrange(plan, pool, &source, &copy, note, err) ? linear_new(&source, bias, pool, err) : NULL;
    mem_free(bias);
    bool borrowed = linear && copy && !linear_is_integer(linear);
    if (borrowed) w->copies[w->n_copies++] = copy;
    if (!borrowed) mem_free(copy);
    if (!linear) return error_prefix(err, "%s", plan->parts[0]->name);
    w->linears[w->n_linears] = linear;
    weight_format_name(&source, format, sizeof format);
    w->n_linears++;
    if (!name_format(plan, format, note, &w->formats[w->n_linears - 1], err)) return false;
    *plan->out = linear;
    bool mapped = source.format == WEIGHT_FP8 && plan->packed.rows; /* perhaps: codes that lie as they are used */
    if ((copy && !mapped) || linear_is_integer(linear)) release_file_pages(plan);
    return true;
}

static bool load_all(const Binder *b, Weights *w, Pool *pool, Error *err) {
    w->linears = mem_zeroed((size_t)b->n_linears, sizeof *w->linears);
    w->formats = mem_zeroed((size_t)b->n_linears, sizeof *w->formats);
    w->copies = mem_zeroed((size_t)(b->n_linears + b->n_vectors), sizeof *w->copies);
    w->vectors = mem_zeroed((size_t)b->n_vectors, sizeof *w->vectors);
    if (!w->linears || !w->formats || !w->copies || !w->vectors) return error_memory(err, "the list of weights");
    for (int i = 0; i < b->n_vectors; i++)
        if (!(b->vectors[i].ids ? load_ids(&b->vectors[i], w, err) : load_vector(&b->vectors[i], w, pool, err)))
            return false;
    for (int i = 0; i < b->n_linears; i++) {
        const LinearPlan *plan = &b->linears[i];
        if (plan->same_as) {
            *plan->out = *b->linears[plan->same_as - 1].out;
            w->bytes_again += linear_bytes(*plan->out);
        } else if (!load_linear(plan, w, pool, err)) {
            return false;
        }
    }
    if (!w->head && b->blueprint->head.name) w->head = w->embedding;
    return true;
}

/* Gemma 3 multiplies by sqrt(hidden) in the type in which the embedding, or its scales, are stored. */
static float embedding_scale(const Binder *b) {
    const LinearPlan *e = &b->linears[0];
    const Tensor *said = e->parts[1] ? e->parts[1] : e->parts[0];
    float scale = b->blueprint->embedding_scale == 0 ? 1 : b->blueprint->embedding_scale;
    bool rounded =
        b->blueprint->embedding_scale_bf16 || (b->blueprint->embedding_scale_stored && said->dtype == DTYPE_BF16);
    if (!rounded) return scale;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u; /* half to even */
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

void weights_clear(Weights *w) {
    for (int i = 0; i < w->n_linears; i++) {
        linear_free(w->linears[i]);
        mem_free(w->formats[i]);
    }
    for (int i = 0; i < w->n_vectors; i++) mem_free(w->vectors[i]);
    for (int i = 0; i < w->n_copies; i++) mem_free(w->copies[i]);
    for (int i = 0; i < w->n_skipped; i++) mem_free(w->skipped[i]);
    mem_free(w->linears);
    mem_free(w->formats);
    mem_free(w->quantization);
    mem_free(w->vectors);
    mem_free(w->copies);
    mem_free(w->skipped);
    mem_free(w->layers);
    arena_clear(&w->arena);
    *w = (Weights){0};
}

static bool keep_note(const Binder *b, Weights *w) {
    const Published *p = &b->quantization.published;
    if (!p->method) return true;
    w->quantization = mem_string(p->note, strlen(p->note));
    return w->quantization || error_memory(b->err, "a name");
}

bool weights_bind(const Names *names, const Blueprint *blueprint, const Family *family, const IgnoredKeys *ignored,
                  Pool *pool, Weights *out, Error *err) {
    Error local;
    Binder b = {.names = names, .blueprint = blueprint, .family = family, .weights = out, .err = err ? err : &local};
    *out = (Weights){0}; /* plans point into it */
    arena_init(&out->arena);
    out->layers = mem_zeroed((size_t)blueprint->n_layers, sizeof *out->layers);
    bool ok = out->layers || error_memory(err, "the layers");
    ok = ok && quantization_read(checkpoint_config(names->checkpoint), ignored, &b.quantization, b.err) &&
         plan_all(&b, out) && load_all(&b, out, pool, b.err) && keep_note(&b, out);
    if (ok) out->embedding_scale = embedding_scale(&b);
    if (ok && b.head_warned)
        log_warn("%s.weight differs from the embedding although config.json ties them; it is used",
                 blueprint->head.name);
    quantization_clear(&b.quantization);
    mem_free(b.linears);
    mem_free(b.vectors);
    mem_free(b.used);
    if (!ok) weights_clear(out);
    return ok;
}
