/* What PLaMo 2 and 3 have in common: norms before and after each half whose weights are kept less an offset of their
 * own, q, k and v in one matrix and gate and up in another. */
#include "model/standard.h"

#include <math.h>

NormSpec standard_plamo_norm(const char *weight, float eps, double plus) {
    NormSpec norm = standard_rms(weight, eps);
    norm.plus = (float)plus;
    return norm;
}

LayerSpec standard_plamo_layer(AttentionSpec *a, MlpSpec *m, float eps) {
    standard_fuse_qkv(a, "model.layers.layers.*.mixer.qkv_proj");
    a->o.name = "model.layers.layers.*.mixer.o_proj";
    standard_fuse_gate_up(m, "model.layers.layers.*.mlp.gate_up_proj");
    m->down.name = "model.layers.layers.*.mlp.down_proj";
    LayerSpec layer = standard_layer(a, m, eps);
    layer.mixer_norm = standard_plamo_norm("model.layers.layers.*.pre_mixer_norm.weight", eps, 1);
    layer.mixer_out = standard_plamo_norm("model.layers.layers.*.post_mixer_norm.weight", eps, 1.0 / 5);
    layer.ffn_norm = standard_plamo_norm("model.layers.layers.*.pre_mlp_norm.weight", eps, 1);
    layer.ffn_out = standard_plamo_norm("model.layers.layers.*.post_mlp_norm.weight", eps, 1 / sqrt(125.0));
    return layer;
}
