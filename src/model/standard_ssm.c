/* How Mamba-2 mixers are laid out in their tensors, in every family that has them. */
#include "model/standard.h"

static LinearSpec part(const SsmNames *n, bool bias, int64_t all, int64_t from, int64_t take) {
    return (LinearSpec){.name = n->in, .bias = bias, .rows = {all, from, take, take}};
}

static ConvSpec conv(const SsmNames *n, bool bias, int64_t all, int64_t from) {
    return (ConvSpec){.name = n->conv, .bias = bias ? n->conv_bias : NULL, .total = all, .from = from};
}

void standard_ssm(SsmSpec *m, const SsmNames *n, bool proj_bias, bool conv_bias, float eps) {
    int64_t inner = (int64_t)m->heads * m->head_dim, shared = (int64_t)m->groups * m->state;
    int64_t mixed = inner + 2 * shared, all = inner + mixed + m->heads;
    m->z = part(n, proj_bias, all, 0, inner);
    m->x = part(n, proj_bias, all, inner, inner);
    m->b = part(n, proj_bias, all, 2 * inner, shared);
    m->c = part(n, proj_bias, all, 2 * inner + shared, shared);
    m->dt = part(n, proj_bias, all, inner + mixed, m->heads);
    m->x_conv = conv(n, conv_bias, mixed, 0);
    m->b_conv = conv(n, conv_bias, mixed, inner);
    m->c_conv = conv(n, conv_bias, mixed, inner + shared);
    m->o = (LinearSpec){.name = n->out, .bias = proj_bias};
    m->a_log = n->a_log;
    m->dt_bias = n->dt_bias;
    m->d = n->d;
    if (n->norm) m->norm = standard_rms(n->norm, eps);
}

void standard_ssm_limits(const Config *c, SsmSpec *m) {
    const JsonValue *limits = config_array(c, "time_step_limit", 2);
    double low = 0, high = 0;
    if (!limits) return;
    const JsonValue *last = json_item(limits, 1);
    if (!json_number(json_item(limits, 0), &low)) config_fail(c, "\"time_step_limit\" has no number first");
    if (!json_number(last, &high)) high = 0; /* Infinity, which some savers write */
    m->dt_min = (float)low;
    m->dt_max = high < 1e30 ? (float)high : 0;
}
