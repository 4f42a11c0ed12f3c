/* Attention: softmax(q k^T scale) v over the positions a row sees, with grouped key-value heads, and around it whatever
 * its spec names: norms, rotary positions, a window or chunk, sinks, a soft cap, an output gate. Keys and values of all
 * rows are written before any row attends, so that a row of a prefill chunk finds those of the rows before it where it
 * would find them after a step of its own. */
#include "math/rope.h"
#include "model/mechanism.h"
#include "model/mixers/block_index.h"
#include "model/mixers/block_pattern.h"
#include "model/mixers/heads.h"
#include "model/mixers/kv_conv.h"
#include "model/mixers/position_scale.h"

#include <string.h>

enum { MAX_HEAD_DIM = 1024 /* of math/attend.c */ };

static int value_dim(const AttentionSpec *a) {
    return a->v_dim ? a->v_dim : a->head_dim;
}

/* ---- binding ---- */

static bool check_spec(Binder *b, const AttentionSpec *a) {
    if (a->n_heads < 1 || a->n_kv_heads < 1 || a->n_heads % a->n_kv_heads)
        return bind_fail(b, "config.json: %d attention heads do not divide over %d key-value heads", a->n_heads,
                         a->n_kv_heads);
    if (a->head_dim > MAX_HEAD_DIM || value_dim(a) > MAX_HEAD_DIM ||
        (int64_t)a->n_heads * a->head_dim > CONFIG_MAX_SIZE || (int64_t)a->n_heads * value_dim(a) > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: %d heads of %d dims are more than any model has", a->n_heads, a->head_dim);
    return true;
}

static bool bind_head_norm(Binder *b, const HeadNormSpec *spec, int layer, int heads, int dim, Norm *out) {
    if (spec->span == SPAN_EVERY_HEAD) return bind_head_norms(b, &spec->norm, layer, heads, dim, out);
    return bind_norm(b, &spec->norm, layer, spec->span == SPAN_HEAD ? dim : (int64_t)heads * dim, out);
}

static bool bind_keys_values(Binder *b, const AttentionSpec *a, int layer, AttentionWeights *w) {
    int64_t hidden = bind_hidden(b);
    if (a->shared) return true;
    return (a->borrows || bind_linear(b, &a->k, layer, (int64_t)a->n_kv_heads * a->head_dim, hidden, &w->k)) &&
           (a->borrows || a->v_is_k ||
            bind_linear(b, &a->v, layer, (int64_t)a->n_kv_heads * value_dim(a), hidden, &w->v)) &&
           bind_head_norm(b, &a->k_norm, layer, a->n_kv_heads, a->head_dim, &w->k_norm) &&
           bind_head_norm(b, &a->v_norm, layer, a->n_kv_heads, value_dim(a), &w->v_norm) &&
           bind_vector(b, a->k_grid, layer, 1, 0, &w->k_grid) && bind_vector(b, a->v_grid, layer, 1, 0, &w->v_grid) &&
           kv_conv_bind(b, a, layer, a->n_kv_heads * a->head_dim, a->n_kv_heads * value_dim(a), w);
}

static bool attention_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const AttentionSpec *a = &spec->attention;
    AttentionWeights *w = &out->attention;
    int64_t hidden = bind_hidden(b), mixed = (int64_t)a->n_heads * value_dim(a);
    int64_t gate = a->gate_kind == GATE_HEAD ? a->n_heads : mixed;
    if (!check_spec(b, a)) return false;
    return bind_linear(b, &a->q, layer, (int64_t)a->n_heads * a->head_dim, hidden, &w->q) &&
           bind_head_norm(b, &a->q_norm, layer, a->n_heads, a->head_dim, &w->q_norm) &&
           bind_keys_values(b, a, layer, w) && bind_linear(b, &a->gate, layer, gate, hidden, &w->gate) &&
           bind_vector(b, a->sinks, layer, a->n_heads, 0, &w->sinks) &&
           bind_vector(b, a->q_gain, layer, a->n_heads, 0, &w->q_gain) &&
           bind_vector(b, a->second.weight, layer, (int64_t)a->n_heads * a->head_dim, 0, &w->second_weight) &&
           bind_vector(b, a->second.bias, layer, a->n_heads, 0, &w->second_bias) &&
           bind_norm(b, &a->head_norm, layer, value_dim(a), &w->head_norm) && block_index_bind(b, a, layer, w) &&
           bind_norm(b, &a->o_norm, layer, mixed, &w->o_norm) && bind_linear(b, &a->o, layer, hidden, mixed, &w->o);
}

/* ---- queries, keys and values ---- */

static void norm_heads(const Step *s, const HeadNormSpec *spec, const Norm *norm, float *x, int heads, int dim) {
    if (spec->span == SPAN_ALL)
        step_norm(s, &spec->norm, norm, x, x, s->n, heads * dim);
    else if (spec->span == SPAN_HEAD)
        step_norm(s, &spec->norm, norm, x, x, s->n * heads, dim);
    else if (spec->norm.kind == NORM_RMS)
        ops_rms_norm_heads(s->pool, x, norm->weight, spec->norm.eps, x, s->n, heads, dim);
    else if (spec->norm.kind == NORM_LAYER)
        ops_layer_norm_heads(s->pool, x, norm->weight, norm->bias, spec->norm.eps, x, s->n, heads, dim);
}

static void rotate(const Step *s, const AttentionSpec *a, float *x, int heads) {
    if (a->rope == NO_ROPE) return;
    const RopeAngles *angles = &s->angles[a->rope];
    rope_rotate(s->pool, &s->blueprint->ropes[a->rope].table, angles->cos, angles->sin, x, s->n, heads, a->head_dim);
}

static void clip(const AttentionSpec *a, float *x, size_t n) {
    if (a->clip == 0) return;
    for (size_t i = 0; i < n; i++) x[i] = x[i] > a->clip ? a->clip : x[i] < -a->clip ? -a->clip : x[i];
}

/* Norm, limits and rotation of queries or keys, in the layer's order. */
static void norm_and_rotate(const Step *s, const AttentionSpec *a, const HeadNormSpec *spec, const Norm *norm, float *x,
                            int heads) {
    if (!a->norm_after_rope) norm_heads(s, spec, norm, x, heads, a->head_dim);
    clip(a, x, (size_t)s->n * (size_t)heads * (size_t)a->head_dim);
    rotate(s, a, x, heads);
    if (a->norm_after_rope) norm_heads(s, spec, norm, x, heads, a->head_dim);
}

/* ---- the cache ---- */

/* Keys and values of all rows into the cache; k and v as they left their linears. */
static bool store_keys_values(Step *s, int layer, float *k, float *v) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    int k_width = a->n_kv_heads * a->head_dim, v_width = a->n_kv_heads * value_dim(a);
    step_tap(s, layer, "k_proj", k, k_width);
    if (a->v_is_k) memcpy(v, k, (size_t)s->n * (size_t)v_width * sizeof *v);
    step_tap(s, layer, "v_proj", v, v_width);
    if (a->kernel && !kv_conv_apply(s, layer, k_width, v_width, &k, &v)) return false;
    norm_and_rotate(s, a, &a->k_norm, &w->k_norm, k, a->n_kv_heads);
    norm_heads(s, &a->v_norm, &w->v_norm, v, a->n_kv_heads, value_dim(a));
    clip(a, v, (size_t)s->n * (size_t)v_width);
    if (a->v_scale != 0) ops_scale(s->pool, v, a->v_scale, v, s->n, v_width);
    heads_round(w->k_grid, k, (size_t)s->n * (size_t)k_width);
    heads_round(w->v_grid, v, (size_t)s->n * (size_t)v_width);
    step_tap(s, layer, "rope k", k, k_width);
    KvShape shape = {KV_F32, a->n_kv_heads, a->head_dim, value_dim(a)};
    if (a->both_ways && !step_open_views(s, &shape)) return false;
    return step_store(s, layer, k, k_width, v, v_width);
}

/* The last position that a row at `position` sees, of a sequence whose last one is `end` - 1. */
static int last_seen(const AttentionSpec *a, int position, int end) {
    if (!a->both_ways) return position;
    return a->window && position < end - a->window ? position + a->window - 1 : end - 1;
}

/* The first position that a row at `position` sees. */
static int first_seen(const AttentionSpec *a, int position) {
    int first = a->window && position >= a->window ? position - a->window + 1 : 0;
    int chunk = a->chunk ? position - position % a->chunk : 0;
    return chunk > first ? chunk : first;
}

/* Over the keys and values of layer `source`: what this one sees of them, or `all` up to the row's own. keys: NULL, or
 * [n][n_heads], of which rows without positions see all. */
static bool attend_rows(Step *s, int layer, int source, bool all, const AttendKeys *keys, const float *q, float *out) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    AttendRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    AttendArgs args = {.n_heads = a->n_heads,
                       .scale = a->scale,
                       .softcap = a->softcap,
                       .sinks = s->weights->layers[layer].attention.sinks};
    size_t k_width = (size_t)a->n_heads * (size_t)a->head_dim, v_width = (size_t)a->n_heads * (size_t)value_dim(a);
    if (!rows) return false;
    for (int r = 0; r < s->n; r++) {
        int position = s->rows[r].position;
        rows[r] = (AttendRow){.view = step_view(s, r, source),
                              .first = all ? 0 : first_seen(a, position),
                              .position = last_seen(a, position, s->places[r].end),
                              .q = q + (size_t)r * k_width,
                              .out = out + (size_t)r * v_width};
        if (keys && keys[(size_t)r * (size_t)a->n_heads].positions) {
            rows[r].keys = keys + (size_t)r * (size_t)a->n_heads;
            rows[r].keys_per_head = true;
        }
    }
    if (a->blocks.block && !block_pattern_apply(&a->blocks, s, a->n_heads, rows)) return false;
    return attend(&args, rows, s->n, s->pool, s->arena);
}

/* The second reading, mixed into the first. */
static bool read_again(Step *s, int layer, const float *q, float *mixed) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    if (!a->second.weight) return true;
    float *second = step_floats(s, s->n, a->n_heads * value_dim(a)), *gate = step_floats(s, s->n, a->n_heads);
    if (!second || !gate || !attend_rows(s, layer, a->second.layer, true, NULL, q, second)) return false;
    heads_dot(s, q, w->second_weight, w->second_bias, gate, a->n_heads, a->head_dim);
    ops_act(s->pool, ACT_SIGMOID, gate, gate, s->n, a->n_heads);
    heads_mix(s, gate, second, mixed, a->n_heads, value_dim(a));
    return true;
}

/* What the rows see, rotated queries in. */
static bool read_rows(Step *s, int layer, const AttendKeys *keys, float *q, float *mixed) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    int source = a->shared ? a->donor : layer, kv = a->n_kv_heads;
    if (a->tiled && !heads_reorder(s, ORDER_GROUPED, q, a->n_heads, kv, a->head_dim)) return false;
    if (!attend_rows(s, layer, source, false, keys, q, mixed) || !read_again(s, layer, q, mixed)) return false;
    return !a->tiled || heads_reorder(s, ORDER_TILED, mixed, a->n_heads, kv, value_dim(a));
}

/* ---- what comes out ---- */

/* x: the mixer's input. */
static bool apply_gate(Step *s, int layer, const float *x, float *mixed) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    int mixed_width = a->n_heads * value_dim(a), width = a->gate_kind == GATE_HEAD ? a->n_heads : mixed_width;
    if (a->gate_kind == GATE_NONE) return true;
    float *gate = step_floats(s, s->n, width);
    LinearJob job = {.w = s->weights->layers[layer].attention.gate, .y = gate};
    if (!gate || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "gate")) return false;
    if (a->gate_kind == GATE_ELEMENT) {
        ops_act_mul(s->pool, a->gate_act, gate, mixed, mixed, s->n, width);
    } else {
        ops_act(s->pool, a->gate_act, gate, gate, s->n, width);
        heads_gate(s, gate, mixed, a->n_heads, value_dim(a));
    }
    step_tap(s, layer, "gated attention", mixed, mixed_width);
    return true;
}

/* q as it left its linear; what the rows see, through gate and output projection. */
static bool read_values(Step *s, int layer, const float *x, float *q, float *out) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    int q_width = a->n_heads * a->head_dim, width = a->n_heads * value_dim(a);
    float *mixed = step_floats(s, s->n, width);
    AttendKeys *keys = NULL;
    step_tap(s, layer, "q_proj", q, q_width);
    norm_and_rotate(s, a, &a->q_norm, &w->q_norm, q, a->n_heads);
    heads_scale(s, w->q_gain, q, a->n_heads, a->head_dim);
    position_scale_apply(&a->position_scale, s, q, q_width);
    step_tap(s, layer, "rope q", q, q_width);
    if (!mixed || !block_index_choose(s, layer, x, &keys) || !read_rows(s, layer, keys, q, mixed)) return false;
    step_zero_failed(s, mixed, width);
    step_tap(s, layer, "attention", mixed, width);
    step_norm(s, &a->head_norm, &w->head_norm, mixed, mixed, s->n * a->n_heads, value_dim(a));
    if (!apply_gate(s, layer, x, mixed)) return false;
    step_norm(s, &a->o_norm, &w->o_norm, mixed, mixed, s->n, width);
    LinearJob o = {.w = w->o, .y = out};
    if (!step_linear(s, &o, 1, mixed, width, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

/* ---- the mechanism ---- */

/* Keys and values on loan between layers; which ones a layer takes is settled by the order of layers. */
static void lend(Step *s, const AttentionSpec *a, float *k, float *v) {
    size_t k_size = (size_t)s->n * (size_t)a->n_kv_heads * (size_t)a->head_dim * sizeof *k;
    size_t v_size = (size_t)s->n * (size_t)a->n_kv_heads * (size_t)value_dim(a) * sizeof *v;
    memcpy(a->lends ? s->lent_k : k, a->lends ? k : s->lent_k, k_size);
    memcpy(a->lends ? s->lent_v : v, a->lends ? v : s->lent_v, v_size);
}

/* q, k and v as far as the layer has them and the caller wants them, in one region. */
static bool project(Step *s, int layer, const float *x, float *q, float *k, float *v) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    LinearJob jobs[3];
    int n = 0;
    if (q) jobs[n++] = (LinearJob){.w = w->q, .y = q};
    if (k && w->k) jobs[n++] = (LinearJob){.w = w->k, .y = k};
    if (v && w->v) jobs[n++] = (LinearJob){.w = w->v, .y = v};
    if (n && !step_linear(s, jobs, n, x, s->blueprint->hidden, layer, "q_proj")) return false;
    if (k && (a->lends || a->borrows)) lend(s, a, k, v);
    return true;
}

static bool attention_run(Step *s, int layer, const float *x, float *out) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    float *q = step_floats(s, s->n, a->n_heads * a->head_dim), *k = NULL, *v = NULL;
    if (!a->shared) {
        k = step_floats(s, s->n, a->n_kv_heads * a->head_dim);
        v = step_floats(s, s->n, a->n_kv_heads * value_dim(a));
        if (!k || !v) return false;
    }
    return q && project(s, layer, x, q, k, v) && (a->shared || store_keys_values(s, layer, k, v)) &&
           block_index_store(s, layer, x) && read_values(s, layer, x, q, out);
}

static bool attention_store(Step *s, int layer, const float *x) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    float *k = step_floats(s, s->n, a->n_kv_heads * a->head_dim);
    float *v = step_floats(s, s->n, a->n_kv_heads * value_dim(a));
    return k && v && project(s, layer, x, NULL, k, v) && store_keys_values(s, layer, k, v) &&
           block_index_store(s, layer, x);
}

static bool attention_read(Step *s, int layer, const float *x, float *out) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    float *q = step_floats(s, s->n, a->n_heads * a->head_dim);
    return q && project(s, layer, x, q, NULL, NULL) && read_values(s, layer, x, q, out);
}

static void attention_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const AttentionSpec *a = &spec->attention;
    if (a->shared || a->both_ways) return;
    *out = (LayerShape){.kv = {kv, a->n_kv_heads, a->head_dim, value_dim(a)}, .window = a->window, .chunk = a->chunk};
    if (a->kernel) out->recurrent = kv_conv_state(a->kernel, a->n_kv_heads * a->head_dim, a->n_kv_heads * value_dim(a));
}

static void attention_side_state(const LayerSpec *spec, KvFormat kv, int kind, LayerShape *out) {
    const BlockIndexSpec *i = &spec->attention.block_index;
    (void)kv;
    if (kind == STEP_INDEX && i->n_chosen) *out = (LayerShape){.kv = {KV_F32, 1, i->head_dim, 0}, .exact = true};
}

static const char *attention_kind(const LayerSpec *spec) {
    return spec->attention.window ? "sliding" : spec->attention.chunk ? "chunked" : "full";
}

static void attention_describe(const LayerSpec *spec, Buffer *out) {
    const AttentionSpec *a = &spec->attention;
    buffer_printf(out, "attention: %d heads, %d key-value heads, %d dims", a->n_heads, a->n_kv_heads, a->head_dim);
    if (value_dim(a) != a->head_dim) buffer_printf(out, " (values %d)", value_dim(a));
    if (a->both_ways) buffer_text(out, ", both ways");
    if (a->window) buffer_printf(out, ", window %d%s", a->window, a->both_ways ? " on either side" : "");
    if (a->chunk) buffer_printf(out, ", chunks of %d", a->chunk);
    if (a->blocks.block)
        buffer_printf(out, ", the last %d blocks of %d and every %d-th", a->blocks.local, a->blocks.block,
                      a->blocks.stride);
    if (a->block_index.n_chosen)
        buffer_printf(out, ", %d blocks of %d that an index of %d dims chooses, the last %d among them",
                      a->block_index.n_chosen, a->block_index.block, a->block_index.head_dim, a->block_index.n_local);
    if (a->tiled) buffer_text(out, ", key-value heads in turn");
    if (a->kernel) buffer_printf(out, ", keys and values convolved over %d positions", a->kernel);
    if (a->k_grid) buffer_text(out, ", 8-bit keys and values");
    if (a->second.weight) buffer_printf(out, ", with a second reading of layer %d", a->second.layer);
    if (a->rope == NO_ROPE) buffer_text(out, ", no rope");
    if (a->q.bias) buffer_text(out, ", biases");
    if (a->q_norm.norm.kind != NORM_NONE) buffer_text(out, ", q and k norms");
    if (a->sinks) buffer_text(out, ", sinks");
    if (a->softcap != 0) buffer_printf(out, ", soft cap %g", (double)a->softcap);
    if (a->gate_kind != GATE_NONE) buffer_text(out, ", output gate");
    if (a->shared) buffer_printf(out, ", keys and values of layer %d", a->donor);
}

const Mechanism mixer_attention = {.name = "attention",
                                   .bind = attention_bind,
                                   .run = attention_run,
                                   .store = attention_store,
                                   .read = attention_read,
                                   .state = attention_state,
                                   .side_state = attention_side_state,
                                   .kind = attention_kind,
                                   .describe = attention_describe};
