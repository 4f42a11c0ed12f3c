/* A mixture of experts: the router scores all experts for each row, a few are chosen, and their outputs are added with
 * the router's weights, in the order of rank. Rows that chose the same expert go through it together; that is
 * scheduling and changes no byte, for every row's products and its sum are its own.
 *
 * A pair is one row with one of its experts. Pairs are sorted by expert, so that each expert's inputs and outputs lie
 * together. */
#include "model/ffn/experts.h"
#include "model/ffn/mlp.h"
#include "model/mechanism.h"

#include <math.h>
#include <string.h>

enum { ROUTE_ROWS = 16, SUM_ROWS = 4 };

/* ---- binding ---- */

/* What one expert reads and gives. */
static int expert_dim(const ExpertsSpec *e, int hidden) {
    return e->latent ? e->latent : hidden;
}

bool experts_bind(Binder *b, const LayerSpec *layer_spec, int layer, LayerWeights *out) {
    const ExpertsSpec *e = &layer_spec->experts;
    ExpertsWeights *w = &out->experts;
    int n = e->rule.n_experts, own = n - e->n_identity, hidden = bind_hidden(b);
    int dim = expert_dim(e, hidden);
    if (e->rule.n_chosen < 1 || e->rule.n_chosen > n)
        return bind_fail(b, "config.json: %d experts are to be chosen of %d", e->rule.n_chosen, n);
    return bind_linear(b, &e->router, layer, n, hidden, &w->router) &&
           bind_vector(b, e->correction, layer, n, 0, &w->correction) &&
           bind_ids(b, e->by_token, layer, (int64_t)bind_vocab(b) * e->rule.n_chosen, n, &w->by_token) &&
           bind_vector(b, e->expert_scale, layer, n, 0, &w->expert_scale) &&
           bind_linear(b, &e->latent_in, layer, dim, hidden, &w->latent_in) &&
           bind_linear(b, &e->latent_out, layer, hidden, dim, &w->latent_out) &&
           bind_norm(b, &e->latent_norm, layer, dim, &w->latent_norm) &&
           bind_norm(b, &e->latent_in_norm, layer, dim, &w->latent_in_norm) &&
           bind_norm(b, &e->each_norm, layer, dim, &w->each_norm) &&
           bind_experts(b, e->gate, layer, own, e->expert.width, dim, &w->gate) &&
           bind_experts(b, e->up, layer, own, e->expert.width, dim, &w->up) &&
           bind_experts(b, e->down, layer, own, dim, e->expert.width, &w->down) &&
           (e->shared.width == 0 || mlp_bind(b, &e->shared, layer, &w->shared)) &&
           bind_linear(b, &e->shared_gate, layer, 1, hidden, &w->shared_gate) &&
           bind_linear(b, &e->mix, layer, 2, hidden, &w->mix);
}

/* ---- who goes where ---- */

typedef struct Routes {
    int n_pairs, n_used; /* experts that some row chose */
    int n_own;           /* those of them that have weights: the first */
    int *ids;            /* [rows][chosen] expert of a row by rank */
    float *weights;      /* [rows][chosen] */
    int *pair;           /* [rows][chosen] where that pair lies among the sorted ones */
    int *rows;           /* [pairs] row of each sorted pair */
    int *used;           /* [n_used] experts, ascending */
    int *first;          /* [n_used + 1] their pairs are [first[i], first[i + 1]) */
} Routes;

typedef struct RouteJob {
    const Step *step;
    const RouterRule *rule;
    const ExpertsWeights *weights;
    const float *logits;
    Routes *routes;
    float *scratch; /* [threads][router_scratch] */
} RouteJob;

/* The experts of a row's token; one that came as an embedding may have no token. */
static void take_experts(const RouteJob *job, int row, int *ids) {
    int32_t token = job->step->rows[row].token;
    size_t k = (size_t)job->rule->n_chosen, at = token < 0 || token >= job->step->blueprint->vocab ? 0 : (size_t)token;
    for (size_t rank = 0; rank < k; rank++) ids[rank] = job->weights->by_token[at * k + rank];
}

static void route_task(void *context, int task, int thread) {
    const RouteJob *job = context;
    size_t k = (size_t)job->rule->n_chosen, n = (size_t)job->rule->n_experts;
    float *scratch = job->scratch + (size_t)thread * router_scratch(job->rule);
    for (int r = task * ROUTE_ROWS; r < (task + 1) * ROUTE_ROWS && r < job->step->n; r++) {
        const float *logits = job->logits + (size_t)r * n;
        int *ids = job->routes->ids + (size_t)r * k;
        float *weights = job->routes->weights + (size_t)r * k;
        if (job->weights->by_token) {
            take_experts(job, r, ids);
            router_weigh(job->rule, logits, scratch, ids, weights);
        } else {
            router_choose(job->rule, logits, job->weights->correction, scratch, ids, weights);
        }
    }
}

/* Pairs by expert, within an expert by row: a counting sort. */
static void sort_pairs(Routes *t, int n_rows, int n_experts, int k, int *count) {
    memset(count, 0, (size_t)n_experts * sizeof *count);
    for (int i = 0; i < n_rows * k; i++) count[t->ids[i]]++;
    for (int e = 0, at = 0; e < n_experts; e++) {
        int n = count[e];
        count[e] = at;
        if (n == 0) continue;
        t->used[t->n_used] = e;
        t->first[t->n_used++] = at;
        at += n;
    }
    t->n_pairs = n_rows * k;
    t->first[t->n_used] = t->n_pairs;
    for (int i = 0; i < t->n_pairs; i++) {
        int at = count[t->ids[i]]++;
        t->pair[i] = at;
        t->rows[at] = i / k;
    }
}

static bool route(Step *s, const ExpertsSpec *e, const ExpertsWeights *w, const float *logits, Routes *out) {
    size_t pairs = (size_t)s->n * (size_t)e->rule.n_chosen, n = (size_t)e->rule.n_experts;
    int *count = arena_array(s->arena, n, sizeof *count);
    Routes t = {.ids = arena_array(s->arena, pairs, sizeof *t.ids),
                .weights = arena_array(s->arena, pairs, sizeof *t.weights),
                .pair = arena_array(s->arena, pairs, sizeof *t.pair),
                .rows = arena_array(s->arena, pairs, sizeof *t.rows),
                .used = arena_array(s->arena, n, sizeof *t.used),
                .first = arena_array(s->arena, n + 1, sizeof *t.first)};
    size_t scratch = (size_t)pool_threads(s->pool) * router_scratch(&e->rule);
    RouteJob job = {s, &e->rule, w, logits, &t, arena_array(s->arena, scratch, sizeof(float))};
    if (!count || !t.ids || !t.weights || !t.pair || !t.rows || !t.used || !t.first || !job.scratch) return false;
    pool_run(s->pool, route_task, &job, (s->n + ROUTE_ROWS - 1) / ROUTE_ROWS);
    sort_pairs(&t, s->n, e->rule.n_experts, e->rule.n_chosen, count);
    for (t.n_own = t.n_used; t.n_own > 0 && t.used[t.n_own - 1] >= e->rule.n_experts - e->n_identity;) t.n_own--;
    *out = t;
    return true;
}

/* ---- through the experts ---- */

/* Every job is one matrix of one expert, for all rows that chose it. */
static bool apply_experts(Step *s, const LinearJob *jobs, int n_jobs) {
    for (int i = 0; i < n_jobs; i++) s->counts.expert_tiles += (uint64_t)linear_tiles(jobs[i].w);
    return linear_apply(jobs, n_jobs, s->pool, s->arena);
}

/* Fails the rows of pairs [first, first + n) whose inputs are not finite. */
static void fail_bad_pairs(Step *s, int layer, const Activations *a, const int *rows, int n, const char *operation) {
    if (activations_first_bad(a) < 0) return;
    for (int i = 0; i < n; i++)
        if (activations_bad(a, i)) step_fail(s, rows[i], layer, operation);
}

/* The inputs of one expert: rows of x, or those multiplied by the router's weights. */
static Activations *expert_inputs(Step *s, const ExpertsSpec *e, const Routes *t, int i, Activations *all,
                                  const float *x) {
    int n = t->first[i + 1] - t->first[i], dim = expert_dim(e, s->blueprint->hidden);
    const int *rows = t->rows + t->first[i];
    if (!e->weigh_inputs) return activations_select(s->arena, all, rows, n);
    float *weighed = step_floats(s, n, dim);
    for (int j = 0; weighed && j < n; j++) {
        size_t at = (size_t)rows[j] * (size_t)e->rule.n_chosen, rank = 0;
        while (t->ids[at + rank] != t->used[i]) rank++;
        for (int c = 0; c < dim; c++)
            weighed[(size_t)j * (size_t)dim + (size_t)c] =
                x[(size_t)rows[j] * (size_t)dim + (size_t)c] * t->weights[at + rank];
    }
    return weighed ? activations_new(s->arena, weighed, n, dim, s->numeric->activation_bits) : NULL;
}

/* gate and up of all pairs [pairs][width]; gate NULL when there is none. */
static bool experts_in(Step *s, int layer, const Routes *t, const float *x, float *gate, float *up) {
    const ExpertsSpec *e = &s->blueprint->layers[layer].experts;
    const ExpertsWeights *w = &s->weights->layers[layer].experts;
    LinearJob *jobs = arena_array(s->arena, (size_t)t->n_own * 2, sizeof *jobs);
    Activations *all =
        activations_new(s->arena, x, s->n, expert_dim(e, s->blueprint->hidden), s->numeric->activation_bits);
    int n_jobs = 0;
    if (!jobs || !all) return false;
    for (int i = 0; i < t->n_own; i++) {
        size_t at = (size_t)t->first[i] * (size_t)e->expert.width;
        Activations *in = expert_inputs(s, e, t, i, all, x);
        if (!in) return false;
        if (gate) jobs[n_jobs++] = (LinearJob){w->gate[t->used[i]], in, gate + at};
        jobs[n_jobs++] = (LinearJob){w->up[t->used[i]], in, up + at};
    }
    if (!apply_experts(s, jobs, n_jobs)) return false;
    for (int i = 0, j = gate ? 1 : 0; i < t->n_own; i++, j += gate ? 2 : 1)
        fail_bad_pairs(s, layer, jobs[j].x, t->rows + t->first[i], t->first[i + 1] - t->first[i], "experts");
    return true;
}

/* Experts without weights give the rows of x back. */
static void give_back(const Routes *t, const float *x, size_t dim, float *out) {
    for (int i = t->first[t->n_own]; i < t->n_pairs; i++)
        memcpy(out + (size_t)i * dim, x + (size_t)t->rows[i] * dim, dim * sizeof *out);
}

/* up [pairs][width] -> out [pairs][dim] */
static bool experts_out(Step *s, int layer, const Routes *t, const float *up, float *out) {
    const ExpertsSpec *e = &s->blueprint->layers[layer].experts;
    const Linear **down = s->weights->layers[layer].experts.down;
    LinearJob *jobs = arena_array(s->arena, (size_t)t->n_own, sizeof *jobs);
    size_t dim = (size_t)expert_dim(e, s->blueprint->hidden), width = (size_t)e->expert.width;
    if (!jobs) return false;
    for (int i = 0; i < t->n_own; i++) {
        size_t at = (size_t)t->first[i];
        Activations *in = activations_new(s->arena, up + at * width, t->first[i + 1] - t->first[i], e->expert.width,
                                          s->numeric->activation_bits);
        if (!in) return false;
        jobs[i] = (LinearJob){down[t->used[i]], in, out + at * dim};
    }
    if (!apply_experts(s, jobs, t->n_own)) return false;
    for (int i = 0; i < t->n_own; i++)
        fail_bad_pairs(s, layer, jobs[i].x, t->rows + t->first[i], t->first[i + 1] - t->first[i], "experts down");
    return true;
}

typedef struct SumJob {
    const Routes *routes;
    const float *pairs; /* [pairs][dim] */
    float *out;         /* [rows][dim] */
    int n_rows, dim, k;
    float scale;
    bool weighed; /* the weights are in the pairs already */
} SumJob;

/* out = scale * sum over ranks of weight * pair, in ascending rank from +0. */
static void sum_task(void *context, int task, int thread) {
    const SumJob *job = context;
    size_t dim = (size_t)job->dim;
    (void)thread;
    for (int r = task * SUM_ROWS; r < (task + 1) * SUM_ROWS && r < job->n_rows; r++) {
        float *out = job->out + (size_t)r * dim;
        memset(out, 0, dim * sizeof *out);
        for (int rank = 0; rank < job->k; rank++) {
            size_t i = (size_t)r * (size_t)job->k + (size_t)rank;
            const float *from = job->pairs + (size_t)job->routes->pair[i] * dim;
            float weight = job->weighed ? 1 : job->routes->weights[i];
            for (size_t c = 0; c < dim; c++) out[c] += weight * from[c];
        }
        for (size_t c = 0; c < dim && job->scale != 1; c++) out[c] *= job->scale;
    }
}

/* ---- the whole ---- */

/* The weighed sum over the chosen experts' outputs: x, out [rows][dim]. */
static bool run_chosen(Step *s, int layer, const Routes *t, const float *x, float *out) {
    const ExpertsSpec *e = &s->blueprint->layers[layer].experts;
    bool gated = s->weights->layers[layer].experts.gate != NULL;
    int dim = expert_dim(e, s->blueprint->hidden);
    float *up = step_floats(s, t->n_pairs, e->expert.width), *pairs = step_floats(s, t->n_pairs, dim);
    float *gate = gated ? step_floats(s, t->n_pairs, e->expert.width) : NULL;
    if (!up || !pairs || (gated && !gate) || !experts_in(s, layer, t, x, gate, up)) return false;
    mlp_activate(s, &e->expert, gate, up, t->first[t->n_own]);
    if (!experts_out(s, layer, t, up, pairs)) return false;
    give_back(t, x, (size_t)dim, pairs);
    step_norm(s, &e->each_norm, &s->weights->layers[layer].experts.each_norm, pairs, pairs, t->n_pairs, dim);
    SumJob sum = {
        t, pairs, out, s->n, dim, e->rule.n_chosen, e->routed_scale == 0 ? 1 : e->routed_scale, e->weigh_inputs};
    pool_run(s->pool, sum_task, &sum, (s->n + SUM_ROWS - 1) / SUM_ROWS);
    return true;
}

/* The same of experts that work in a latent space: x, out [rows][hidden]. */
static bool run_latent(Step *s, int layer, const Routes *t, const float *x, float *out) {
    const ExpertsSpec *e = &s->blueprint->layers[layer].experts;
    const ExpertsWeights *w = &s->weights->layers[layer].experts;
    float *in = step_floats(s, s->n, e->latent), *sum = step_floats(s, s->n, e->latent);
    LinearJob down = {.w = w->latent_in, .y = in}, up = {.w = w->latent_out, .y = out};
    if (!in || !sum || !step_linear(s, &down, 1, x, s->blueprint->hidden, layer, "latent experts")) return false;
    step_norm(s, &e->latent_in_norm, &w->latent_in_norm, in, in, s->n, e->latent);
    if (!run_chosen(s, layer, t, in, sum)) return false;
    step_norm(s, &e->latent_norm, &w->latent_norm, sum, sum, s->n, e->latent);
    return step_linear(s, &up, 1, sum, e->latent, layer, "latent experts out");
}

bool experts_routed(Step *s, int layer, const float *router_x, const float *x, float *out) {
    const ExpertsSpec *e = &s->blueprint->layers[layer].experts;
    const ExpertsWeights *w = &s->weights->layers[layer].experts;
    float *logits = step_floats(s, s->n, e->rule.n_experts);
    LinearJob router = {.w = w->router, .y = logits};
    Routes t;
    if (!logits || !step_linear(s, &router, 1, router_x, s->blueprint->hidden, layer, "router")) return false;
    if (e->router_softcap != 0) ops_softcap(s->pool, logits, e->router_softcap, logits, s->n, e->rule.n_experts);
    step_tap(s, layer, "router", logits, e->rule.n_experts);
    if (!route(s, e, w, logits, &t)) return false;
    s->counts.experts += (uint64_t)t.n_own;
    for (int i = 0; i < t.n_pairs && w->expert_scale; i++) t.weights[i] *= w->expert_scale[t.ids[i]];
    if (!(e->latent ? run_latent : run_chosen)(s, layer, &t, x, out)) return false;
    step_zero_failed(s, out, s->blueprint->hidden);
    step_tap(s, layer, "experts", out, s->blueprint->hidden);
    return true;
}

/* Row r of y times factors[r * stride]. */
static void scale_rows(const Step *s, const float *factors, int stride, float *y) {
    int hidden = s->blueprint->hidden;
    for (int r = 0; r < s->n; r++) {
        float *row = y + (size_t)r * (size_t)hidden;
        ops_scale(s->pool, row, factors[(size_t)r * (size_t)stride], row, 1, hidden);
    }
}

/* out, the routed sum, and y, the shared one, weighed as the layer says. */
static bool weigh_shared(Step *s, int layer, const float *x, float *out, float *y) {
    const ExpertsWeights *w = &s->weights->layers[layer].experts;
    float *gate = step_floats(s, s->n, 2);
    LinearJob job = {.w = w->mix ? w->mix : w->shared_gate, .y = gate};
    if (!job.w) return true;
    if (!gate || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "shared gate")) return false;
    if (w->mix) {
        for (int r = 0; r < s->n; r++) ops_softmax(gate + 2 * (size_t)r, gate + 2 * (size_t)r, 2);
        scale_rows(s, gate, 2, out);
        scale_rows(s, gate + 1, 2, y);
    } else {
        ops_act(s->pool, ACT_SIGMOID, gate, gate, s->n, 1);
        scale_rows(s, gate, 1, y);
    }
    return true;
}

/* The expert that every row goes through, added to out. */
static bool add_shared(Step *s, int layer, const float *x, float *out) {
    const ExpertsSpec *e = &s->blueprint->layers[layer].experts;
    float *y = step_floats(s, s->n, s->blueprint->hidden);
    if (!y || !mlp_run(s, &e->shared, &s->weights->layers[layer].experts.shared, layer, x, y)) return false;
    if (!weigh_shared(s, layer, x, out, y)) return false;
    ops_add(s->pool, out, y, out, s->n, s->blueprint->hidden);
    return true;
}

static bool experts_run(Step *s, int layer, const float *x, float *out) {
    if (!experts_routed(s, layer, x, x, out)) return false;
    return s->blueprint->layers[layer].experts.shared.width == 0 || add_shared(s, layer, x, out);
}

static void experts_describe(const LayerSpec *spec, Buffer *out) {
    const ExpertsSpec *e = &spec->experts;
    buffer_printf(out, "%d experts, %d chosen, each a ", e->rule.n_experts, e->rule.n_chosen);
    mlp_describe(&e->expert, out);
    if (e->latent) buffer_printf(out, ", in a latent space of %d", e->latent);
    if (e->n_identity) buffer_printf(out, ", but the last %d give their input back", e->n_identity);
    if (e->shared.width) {
        buffer_text(out, ", and a shared ");
        mlp_describe(&e->shared, out);
    }
}

const Mechanism ffn_experts = {
    .name = "experts", .bind = experts_bind, .run = experts_run, .describe = experts_describe};
