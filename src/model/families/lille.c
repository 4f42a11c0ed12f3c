/* Lille 130M: llama with q, k and v in one matrix, each norm kept inside its half, neighbouring pairs rotated, and an
 * mlp width that follows from the embedding's. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"lille-130m", NULL};

static const char *const skipped_tensors[] = {"*rotary_emb*", NULL};

static const NameRoot roots[] = {{"transformer.", ""}, {NULL, NULL}};

/* The multiple of 256 nearest to 8/3 of the width; of two, the one with an even quotient. */
static int mlp_width(int hidden) {
    return 256 * (int)rint(floor(8.0 * hidden / 3) / 256);
}

static bool lille_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .tie = TIE_YES};
    standard_model(c, &defaults, b);
    b->max_context = config_size(c, "block_size");
    b->embedding.name = "model.tok_embeddings";
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    attention.n_kv_heads = config_size(c, "n_kv_heads");
    standard_fuse_qkv(&attention, "model.layers.*.attention.qkv_proj");
    attention.o.name = "model.layers.*.attention.out_proj";
    MlpSpec mlp = standard_mlp(c, &defaults, mlp_width(b->hidden));
    standard_feed_forward(&mlp);
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    layer.mixer_norm.weight = "model.layers.*.attention.norm.weight";
    layer.ffn_norm.weight = "model.layers.*.feed_forward.norm.weight";
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    return standard_rope(c, &defaults, b, 0, attention.head_dim, true) && config_ok(c);
}

const Family family_lille = {"lille", model_types, NULL, skipped_tensors, lille_blueprint, roots};
