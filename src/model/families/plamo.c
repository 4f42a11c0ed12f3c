/* PLaMo 1 (Preferred Networks): one norm, which attention and mlp both read; query head h reads key-value head
 * h modulo their count. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"plamo", NULL};

static const char *const irrelevant_keys[] = {"n_expert", NULL};

static bool plamo_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.tie = TIE_NO};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    int shared = config_size_or(c, "n_shared_head", 8);
    if (attention.n_heads % shared)
        return config_fail(c, "%d attention heads do not divide by \"n_shared_head\" %d", attention.n_heads, shared);
    attention.n_kv_heads = attention.n_heads / shared;
    attention.tiled = true;
    attention.q.name = "model.layers.layers.*.self_attn.q_proj";
    attention.k.name = "model.layers.layers.*.self_attn.k_proj";
    attention.v.name = "model.layers.layers.*.self_attn.v_proj";
    attention.o.name = "model.layers.layers.*.self_attn.o_proj";
    mlp.gate.name = "model.layers.layers.*.mlp.gate_proj";
    mlp.up.name = "model.layers.layers.*.mlp.up_proj";
    mlp.down.name = "model.layers.layers.*.mlp.down_proj";
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    layer.parallel = true;
    layer.mixer_norm.weight = "model.layers.layers.*.norm.weight";
    layer.ffn_norm = (NormSpec){0};
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    bool interleaved = config_bool_or(c, "rope_traditional", false);
    return standard_rope(c, &defaults, b, 0, attention.head_dim, interleaved) && config_ok(c);
}

const Family family_plamo = {"plamo", model_types, irrelevant_keys, standard_skipped_tensors, plamo_blueprint, NULL};
