/* EXAONE 3 and 3.5 (arXiv:2412.04862): llama under GPT-2's names. The reference is mlx-lm; transformers has none. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"exaone", NULL};

static const char *const irrelevant_keys[] = {"embed_dropout", NULL};

static const char *const skipped_tensors[] = {"*.attn.attention.rotary.inv_freq", "*.rotary_emb.inv_freq", NULL};

static const NameRoot roots[] = {{"transformer.", ""}, {NULL, NULL}};

static void rename_layer(LayerSpec *layer) {
    layer->mixer_norm.weight = "model.h.*.ln_1.weight";
    layer->ffn_norm.weight = "model.h.*.ln_2.weight";
    layer->attention.q.name = "model.h.*.attn.attention.q_proj";
    layer->attention.k.name = "model.h.*.attn.attention.k_proj";
    layer->attention.v.name = "model.h.*.attn.attention.v_proj";
    layer->attention.o.name = "model.h.*.attn.attention.out_proj";
    layer->mlp.gate.name = "model.h.*.mlp.c_fc_0";
    layer->mlp.up.name = "model.h.*.mlp.c_fc_1";
    layer->mlp.down.name = "model.h.*.mlp.c_proj";
}

static bool exaone_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5};
    if (!standard_blueprint(c, &defaults, b)) return false;
    b->embedding.name = "model.wte";
    b->final_norm.weight = "model.ln_f.weight";
    for (int i = 0; i < b->n_layers; i++) rename_layer(&b->layers[i]);
    return config_ok(c);
}

const Family family_exaone = {"exaone", model_types, irrelevant_keys, skipped_tensors, exaone_blueprint, roots};
