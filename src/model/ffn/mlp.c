/* The feed-forward: down(act(gate(x)) * up(x)) (Shazeer, arXiv:2002.05202), or down(act(up(x))) as it was before gates,
 * with the limits that some families put on its parts. */
#include "model/ffn/mlp.h"
#include "model/mechanism.h"

#include <math.h>

static bool bind_xielu(Binder *b, const MlpSpec *m, int layer, MlpWeights *out) {
    return bind_vector(b, m->xielu.alpha_p, layer, 1, 0, &out->alpha_p) &&
           bind_vector(b, m->xielu.alpha_n, layer, 1, 0, &out->alpha_n) &&
           bind_vector(b, m->xielu.beta, layer, 1, 0, &out->beta) &&
           bind_vector(b, m->xielu.eps, layer, 1, 0, &out->eps);
}

bool mlp_bind(Binder *b, const MlpSpec *m, int layer, MlpWeights *out) {
    int hidden = bind_hidden(b);
    return bind_linear(b, &m->gate, layer, m->width, hidden, &out->gate) &&
           bind_linear(b, &m->up, layer, m->width, hidden, &out->up) &&
           bind_norm(b, &m->inner, layer, m->width, &out->inner) && bind_xielu(b, m, layer, out) &&
           bind_linear(b, &m->down, layer, hidden, m->width, &out->down);
}

static void limit_above(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n && limit != 0; i++) x[i] = x[i] > limit ? limit : x[i];
}

static void limit_up(float *x, size_t n, float limit, float plus) {
    for (size_t i = 0; i < n && limit != 0; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
    for (size_t i = 0; i < n && plus != 0; i++) x[i] += plus;
}

/* Gemma 3n's gate: max(x - (mean + sparsity * deviation), 0) over each row. The row's two sums are in double, in
 * ascending order. */
static void keep_largest(float *x, int rows, int cols, float sparsity) {
    for (int r = 0; r < rows && sparsity != 0; r++) {
        float *row = x + (size_t)r * (size_t)cols;
        double mean = 0, variance = 0;
        for (int i = 0; i < cols; i++) mean += (double)row[i];
        mean /= cols;
        for (int i = 0; i < cols; i++) variance += ((double)row[i] - mean) * ((double)row[i] - mean);
        float cut = (float)(mean + sqrt(variance / cols) * (double)sparsity);
        for (int i = 0; i < cols; i++) row[i] = row[i] - cut < 0 ? 0 : row[i] - cut;
    }
}

/* SiTU (Kimi K3). What it gives is bounded on both sides; small values keep their accuracy. */
static void situ(const Step *s, const MlpSpec *m, float *gate, float *up, int rows) {
    if (m->situ_up != 0) ops_softcap(s->pool, up, m->situ_up, up, rows, m->width);
    ops_act_mul(s->pool, ACT_SIGMOID, gate, up, up, rows, m->width);
    ops_softcap(s->pool, gate, m->situ, gate, rows, m->width);
    ops_mul(s->pool, gate, up, up, rows, m->width);
}

/* NaN passes every limit: it is found where the values go next. */
void mlp_activate(const Step *s, const MlpSpec *m, float *gate, float *up, int rows) {
    size_t n = (size_t)rows * (size_t)m->width;
    if (!gate) {
        ops_act(s->pool, m->activation, up, up, rows, m->width);
        return;
    }
    if (m->situ != 0) {
        situ(s, m, gate, up, rows);
        return;
    }
    if (m->gate_scale != 0) ops_scale(s->pool, gate, m->gate_scale, gate, rows, m->width);
    keep_largest(gate, rows, m->width, m->sparsity);
    limit_above(gate, n, m->gate_limit);
    limit_up(up, n, m->up_limit, m->up_plus);
    if (m->act_limit != 0) {
        ops_act(s->pool, m->activation, gate, gate, rows, m->width);
        limit_above(gate, n, m->act_limit);
        ops_mul(s->pool, gate, up, up, rows, m->width);
    } else {
        ops_act_mul(s->pool, m->activation, gate, up, up, rows, m->width);
    }
}

static void activate(const Step *s, const MlpSpec *m, const MlpWeights *w, float *gate, float *up) {
    if (!w->alpha_p) {
        mlp_activate(s, m, gate, up, s->n);
        return;
    }
    XieluParams p = {*w->alpha_p, *w->alpha_n, *w->beta, *w->eps};
    ops_xielu(s->pool, &p, up, up, s->n, m->width);
}

bool mlp_run(Step *s, const MlpSpec *m, const MlpWeights *w, int layer, const float *x, float *out) {
    int hidden = s->blueprint->hidden;
    float *up = step_floats(s, s->n, m->width), *gate = w->gate ? step_floats(s, s->n, m->width) : NULL;
    LinearJob jobs[] = {{.w = w->up, .y = up}, {.w = w->gate, .y = gate}}, down = {.w = w->down, .y = out};
    if (!up || (w->gate && !gate)) return false;
    if (!step_linear(s, jobs, w->gate ? 2 : 1, x, hidden, layer, "gate_proj")) return false;
    if (gate) step_tap(s, layer, "gate_proj", gate, m->width);
    step_tap(s, layer, "up_proj", up, m->width);
    activate(s, m, w, gate, up);
    step_tap(s, layer, "activation", up, m->width);
    step_norm(s, &m->inner, &w->inner, up, up, s->n, m->width);
    if (!step_linear(s, &down, 1, up, m->width, layer, "down_proj")) return false;
    if (m->out_scale != 0) ops_scale(s->pool, out, m->out_scale, out, s->n, hidden);
    step_tap(s, layer, "down_proj", out, hidden);
    return true;
}

static const char *activation_name(Activation act) {
    static const char *const names[] = {[ACT_NONE] = "linear",
                                        [ACT_SILU] = "silu",
                                        [ACT_GELU] = "gelu",
                                        [ACT_GELU_TANH] = "gelu (tanh)",
                                        [ACT_GELU_QUICK] = "quick gelu",
                                        [ACT_RELU] = "relu",
                                        [ACT_RELU2] = "squared relu",
                                        [ACT_SIGMOID] = "sigmoid",
                                        [ACT_TANH] = "tanh",
                                        [ACT_SOFTPLUS] = "softplus",
                                        [ACT_EXP] = "exp"};
    return names[act];
}

void mlp_describe(const MlpSpec *m, Buffer *out) {
    buffer_printf(out, "%s: width %d, %s%s", m->gate.name ? "gated mlp" : "mlp", m->width,
                  m->xielu.alpha_p ? "xielu"
                  : m->situ != 0   ? "situ"
                                   : activation_name(m->activation),
                  m->up.bias ? ", biases" : "");
}

static bool ffn_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return mlp_bind(b, &spec->mlp, layer, &out->mlp);
}

static bool ffn_run(Step *s, int layer, const float *x, float *out) {
    return mlp_run(s, &s->blueprint->layers[layer].mlp, &s->weights->layers[layer].mlp, layer, x, out);
}

static void ffn_describe(const LayerSpec *spec, Buffer *out) {
    mlp_describe(&spec->mlp, out);
}

const Mechanism ffn_mlp = {.name = "mlp", .bind = ffn_bind, .run = ffn_run, .describe = ffn_describe};
