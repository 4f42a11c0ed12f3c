/* nanochat (Karpathy, 2025): norms without weights, of the embeddings too, and of queries and keys after their
 * rotation, which turns the other way round; a squared relu without a gate; a soft cap on logits. The reference is
 * transformers; mlx-lm has its own names, reads neither rms_norm_eps (it has 1e-5) nor final_logit_softcapping (15). */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"nanochat", NULL};

static const NameRoot roots[] = {{"model.", ""}, {"transformer.", ""}, {NULL, NULL}};

static LayerSpec read_layer(const Config *c, const StandardDefaults *d, int hidden, float eps) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.q.name = "model.layers.*.self_attn.q_proj|model.h.*.attn.c_q";
    a.k.name = "model.layers.*.self_attn.k_proj|model.h.*.attn.c_k";
    a.v.name = "model.layers.*.self_attn.v_proj|model.h.*.attn.c_v";
    a.o.name = "model.layers.*.self_attn.o_proj|model.h.*.attn.c_proj";
    a.q_norm.norm = a.k_norm.norm = standard_rms(NULL, eps);
    a.norm_after_rope = true;
    MlpSpec m = standard_mlp(c, d, config_size(c, "intermediate_size"));
    m.gate = (LinearSpec){0};
    m.up = (LinearSpec){.name = "model.layers.*.mlp.fc1|model.h.*.mlp.c_fc"};
    m.down = (LinearSpec){.name = "model.layers.*.mlp.fc2|model.h.*.mlp.c_proj"};
    LayerSpec layer = standard_layer(&a, &m, eps);
    layer.mixer_norm = layer.ffn_norm = standard_rms(NULL, eps);
    return layer;
}

static bool nanochat_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.act = "relu2", .tie = TIE_NO};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embed_tokens|model.wte";
    b->embedding_norm = b->final_norm = standard_rms(NULL, b->final_norm.eps);
    b->logit_softcap = (float)config_number_unless_null(c, "final_logit_softcapping", 15);
    LayerSpec layer = read_layer(c, &defaults, b->hidden, b->final_norm.eps);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    if (!standard_rope(c, &defaults, b, 0, layer.attention.head_dim, false)) return false;
    rope_turn_backwards(&b->ropes[0]);
    return config_ok(c);
}

const Family family_nanochat = {"nanochat", model_types, NULL, standard_skipped_tensors, nanochat_blueprint, roots};
