/* How Mamba-2 mixers are laid out in their tensors, in every family that has them; and the keys of config.json that
 * Bamba brought and others took over. */
#include "model/standard.h"

/* in_proj holds z, x, B, C and dt one after the other, conv1d x, B and C. */
static LinearSpec part(bool bias, int64_t all, int64_t from, int64_t take) {
    return (LinearSpec){.name = "model.layers.*.mixer.in_proj|model.layers.*.mamba.in_proj",
                        .bias = bias,
                        .rows = {all, from, take, take}};
}

static ConvSpec conv(bool bias, int64_t all, int64_t from) {
    const char *bias_name = "model.layers.*.mixer.conv1d.bias|model.layers.*.mamba.conv1d.bias";
    return (ConvSpec){.name = "model.layers.*.mixer.conv1d.weight|model.layers.*.mamba.conv1d.weight",
                      .bias = bias ? bias_name : NULL,
                      .total = all,
                      .from = from};
}

void standard_ssm(SsmSpec *m, bool proj_bias, bool conv_bias, float eps) {
    int64_t inner = (int64_t)m->heads * m->head_dim, shared = (int64_t)m->groups * m->state;
    int64_t mixed = inner + 2 * shared, all = inner + mixed + m->heads;
    m->z = part(proj_bias, all, 0, inner);
    m->x = part(proj_bias, all, inner, inner);
    m->b = part(proj_bias, all, 2 * inner, shared);
    m->c = part(proj_bias, all, 2 * inner + shared, shared);
    m->dt = part(proj_bias, all, inner + mixed, m->heads);
    m->x_conv = conv(conv_bias, mixed, 0);
    m->b_conv = conv(conv_bias, mixed, inner);
    m->c_conv = conv(conv_bias, mixed, inner + shared);
    m->o = (LinearSpec){.name = "model.layers.*.mixer.out_proj|model.layers.*.mamba.out_proj", .bias = proj_bias};
    m->a_log = "model.layers.*.mixer.A_log|model.layers.*.mamba.A_log";
    m->dt_bias = "model.layers.*.mixer.dt_bias|model.layers.*.mamba.dt_bias";
    m->d = "model.layers.*.mixer.D|model.layers.*.mamba.D";
    m->norm = standard_rms("model.layers.*.mixer.norm.weight|model.layers.*.mamba.norm.weight", eps);
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

SsmSpec standard_bamba_ssm(const Config *c, int hidden, int width, float eps) {
    SsmSpec m = {.heads = config_size_or(c, "mamba_n_heads", 128),
                 .state = config_size_or(c, "mamba_d_state", 256),
                 .groups = config_size_or(c, "mamba_n_groups", 1),
                 .kernel = config_size_or(c, "mamba_d_conv", 4)};
    int64_t expanded = (int64_t)config_size_or(c, "mamba_expand", 2) * hidden, inner = width ? width : expanded;
    const JsonValue *said = config_whole(c, "mamba_d_head"); /* "auto" too */
    bool told = said && said->type != JSON_STRING;
    int64_t head_dim = told ? config_size_or(c, "mamba_d_head", 1) : inner / m.heads;
    if (head_dim < 1 || (!told && inner % m.heads))
        config_fail(c, "%d heads of mamba do not divide a width of %lld", m.heads, (long long)inner);
    if (head_dim > CONFIG_MAX_SIZE) config_fail(c, "a width of mamba of %lld is larger than any", (long long)inner);
    m.head_dim = head_dim < 1 || head_dim > CONFIG_MAX_SIZE ? 1 : (int)head_dim;
    if (standard_activation(c, "hidden_act", "silu") != ACT_SILU)
        config_fail(c, "\"hidden_act\" is not silu, which all references run Mamba 2 with");
    standard_ssm(&m, config_bool_or(c, "mamba_proj_bias", false), config_bool_or(c, "mamba_conv_bias", true), eps);
    standard_ssm_limits(c, &m);
    return m;
}
