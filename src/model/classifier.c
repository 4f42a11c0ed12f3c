/* The head of a sequence classifier: one vector that stands for a sequence becomes a logit per label,
 * score(norm(act(dense(x)))), of which dense and norm may be missing. It is no part of a step, since pooling may need
 * the rows of several. Invariant: every operation is row by row, so a sequence's logits do not depend on which others
 * are classified with it. */
#include "model/classifier.h"
#include "model/mechanism.h"

static bool apply(const ClassifierJob *job, const Linear *w, const float *x, float *y) {
    LinearJob linear = {w, activations_new(job->arena, x, job->n, linear_cols(w), job->numeric->activation_bits), y};
    return linear.x && linear_apply(&linear, 1, job->pool, job->arena);
}

/* What the last matrix reads, in `to` [n][hidden]. */
static bool head_input(const ClassifierJob *job, float *to) {
    const ClassifierSpec *spec = &job->blueprint->classifier;
    const ClassifierWeights *w = &job->weights->classifier;
    int hidden = job->blueprint->hidden;
    if (!apply(job, w->dense, job->x, to)) return false;
    ops_act(job->pool, spec->act, to, to, job->n, hidden);
    if (spec->norm.kind == NORM_LAYER)
        ops_layer_norm(job->pool, to, w->norm.weight, w->norm.bias, spec->norm.eps, to, job->n, hidden);
    return true;
}

bool classifier_run(const ClassifierJob *job, float *logits) {
    const ClassifierWeights *w = &job->weights->classifier;
    if (!w->dense) return apply(job, w->score, job->x, logits);
    float *y = arena_array(job->arena, (size_t)job->n * (size_t)job->blueprint->hidden, sizeof *y);
    return y && head_input(job, y) && apply(job, w->score, y, logits);
}
