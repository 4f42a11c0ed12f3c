/* Bamba (IBM, Princeton and UIUC): Mamba-2 with group by group gated norms, and some layers of attention, of whose
 * heads half is rotated; an mlp in every layer. The reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"bamba", NULL};

static const char *const irrelevant_keys[] = {
    "mamba_chunk_size",   "num_logits_to_keep",
    "z_loss_coefficient", "attn_rotary_emb", /* half a head, as transformers takes it always */
    "use_mamba_kernels",  NULL};

static bool bamba_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-5, .max_position = 262144, .tie = TIE_NO, .heads = 32, .kv_heads = 8};
    standard_model(c, &defaults, b);
    b->final_norm.weight = "model.final_layernorm.weight";
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 14336));
    standard_feed_forward(&mlp);
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    layer.ffn_norm.weight = "model.layers.*.pre_ff_layernorm.weight";
    layer.ssm = standard_bamba_ssm(c, b->hidden, 0, b->final_norm.eps);
    const JsonValue *full = config_array(c, "attn_layer_indices", -1);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i] = layer;
        if (!standard_lists(full, i)) b->layers[i].mixer = &mixer_mamba2;
    }
    return standard_partial_rope(c, &defaults, b, 0.5, false) && config_ok(c);
}

const Family family_bamba = {"bamba", model_types, irrelevant_keys, standard_skipped_tensors, bamba_blueprint, NULL};
