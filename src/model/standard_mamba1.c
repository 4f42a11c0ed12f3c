/* What the families with Mamba 1 mixers have in common: Mamba and FalconMamba, whose layers are nothing else, and
 * Jamba.
 */
#include "model/mechanism.h"
#include "model/standard.h"

int standard_mamba1_rank(const Config *c, const char *key) {
    const JsonValue *value = config_whole(c, key);
    return !value || json_equals(value, "auto") ? 0 : config_size_or(c, key, 0);
}

/* in_proj holds x, then z; x_proj the step size's latent, then b, then c. */
static void put_projections(Mamba1Spec *m, bool bias) {
    int64_t wide = m->channels, all = m->rank + 2 * (int64_t)m->d_state;
    m->x = m->z = (LinearSpec){.name = "model.layers.*.mixer.in_proj|model.layers.*.mamba.in_proj", .bias = bias};
    m->x.rows = (RowSlice){2 * wide, 0, wide, wide};
    m->z.rows = (RowSlice){2 * wide, wide, wide, wide};
    m->o = (LinearSpec){.name = "model.layers.*.mixer.out_proj|model.layers.*.mamba.out_proj", .bias = bias};
    m->dt_down = m->b = m->c = (LinearSpec){.name = "model.layers.*.mixer.x_proj|model.layers.*.mamba.x_proj"};
    m->dt_down.rows = (RowSlice){all, 0, m->rank, m->rank};
    m->b.rows = (RowSlice){all, m->rank, m->d_state, m->d_state};
    m->c.rows = (RowSlice){all, m->rank + m->d_state, m->d_state, m->d_state};
    m->dt = (LinearSpec){.name = "model.layers.*.mixer.dt_proj|model.layers.*.mamba.dt_proj", .bias = true};
}

Mamba1Spec standard_mamba1(const Config *c, int hidden, Mamba1Spec sizes, bool bias, bool conv_bias) {
    Mamba1Spec m = sizes;
    const char *conv_bias_name = "model.layers.*.mixer.conv1d.bias|model.layers.*.mamba.conv1d.bias";
    const char *act = config_string_or(c, "hidden_act", "silu");
    if (standard_activation(c, "hidden_act", "silu") != ACT_SILU)
        config_fail(c, "\"hidden_act\" is \"%.40s\"; the references run Mamba with silu", act);
    if (m.rank == 0) m.rank = hidden / 16 + (hidden % 16 != 0);
    put_projections(&m, bias);
    m.conv = (ConvSpec){.name = "model.layers.*.mixer.conv1d.weight|model.layers.*.mamba.conv1d.weight",
                        .bias = conv_bias ? conv_bias_name : NULL,
                        .total = m.channels};
    m.a_log = "model.layers.*.mixer.A_log|model.layers.*.mamba.A_log";
    m.skip = "model.layers.*.mixer.D|model.layers.*.mamba.D";
    return m;
}
