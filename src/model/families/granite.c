/* Granite (arXiv:2405.04324), dense, Granite 3 mixtures, and Granite 4, most of whose layers are Mamba-2: llama with
 * four multipliers. The scores are multiplied by attention_multiplier instead of 1 / sqrt(head_dim), and the logits
 * divided by logits_scaling. A mixture weighs its experts by a softmax over those chosen; Hugging Face keeps gate and
 * up of all of them in one tensor. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"granite", "granitemoe", "granitemoehybrid", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "mamba_chunk_size",
                                              "mamba_expand",
                                              "init_method",
                                              "normalization_function",
                                              NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    static const char in[] = "model.layers.*.block_sparse_moe.input_linear";
    int64_t width = mlp->width;
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp->width, mlp->activation);
    e.router.name = "model.layers.*.block_sparse_moe.router.layer";
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX_CHOSEN,
                          .n_experts = config_size_or(c, "num_local_experts", 8),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2)};
    standard_take_rows(&e.gate[1], in, 2 * width, 0, width);
    standard_take_rows(&e.up[1], in, 2 * width, width, width);
    e.down[1].name = "model.layers.*.block_sparse_moe.output_linear";
    return e;
}

/* ---- Granite 4 ---- */

static bool is_mamba(const Config *c, int n_layers, int layer) {
    const JsonValue *types = config_array(c, "layer_types", n_layers);
    const JsonValue *type = types ? json_item(types, (uint32_t)layer) : NULL;
    if (!types || json_equals(type, "mamba")) return true;
    if (!json_equals(type, "attention"))
        config_fail(c, "\"layer_types\" item %d is neither mamba nor attention", layer);
    return false;
}

/* The mlp that every row goes through: alone, or beside experts. */
static MlpSpec read_shared(const Config *c, const MlpSpec *mlp) {
    MlpSpec m = *mlp;
    m.width = config_size_or(c, "shared_intermediate_size", 1024);
    if (config_has_tensor(c, "model.layers.*.mlp.gate_proj.weight", 0)) return m; /* MLX layout without experts */
    standard_take_rows(&m.gate, "model.layers.*.shared_mlp.input_linear", 2 * (int64_t)m.width, 0, m.width);
    standard_take_rows(&m.up, "model.layers.*.shared_mlp.input_linear", 2 * (int64_t)m.width, m.width, m.width);
    m.gate.bare = m.up.bare = false;
    m.down.name = "model.layers.*.shared_mlp.output_linear";
    return m;
}

static void make_hybrid(const Config *c, Blueprint *b) {
    bool mixture = config_number_or(c, "num_local_experts", 8) > 0;
    const char *positions = config_string_or(c, "position_embedding_type", "nope");
    SsmSpec ssm = standard_bamba_ssm(c, b->hidden, 0, b->final_norm.eps);
    ExpertsSpec e = mixture ? read_experts(c, &b->layers[0].mlp) : (ExpertsSpec){0};
    MlpSpec shared = read_shared(c, &b->layers[0].mlp);
    if (!mixture) config_number_or(c, "num_experts_per_tok", 0);
    e.shared = shared;
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *l = &b->layers[i];
        if (strcmp(positions, "rope") != 0) l->attention.rope = NO_ROPE;
        if (is_mamba(c, b->n_layers, i)) l->mixer = &mixer_mamba2;
        l->ssm = ssm;
        l->mlp = shared;
        if (mixture) standard_use_experts(l, &e);
    }
}

static bool granite_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    bool mixture = strcmp(config_string_or(c, "model_type", ""), "granitemoe") == 0;
    if (!standard_blueprint(c, &defaults, b)) return false;
    float scale = (float)config_number_or(c, "attention_multiplier", 1);
    float residual = (float)config_number_or(c, "residual_multiplier", 1);
    double divisor = config_number_or(c, "logits_scaling", 1);
    ExpertsSpec e = mixture ? read_experts(c, &b->layers[0].mlp) : (ExpertsSpec){0};
    b->embedding_scale = (float)config_number_or(c, "embedding_multiplier", 1);
    b->logit_scale = (float)(1 / divisor);
    if (strcmp(config_string_or(c, "model_type", ""), "granitemoehybrid") == 0) make_hybrid(c, b);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].attention.scale = scale;
        b->layers[i].mixer_scale = b->layers[i].ffn_scale = residual;
        if (mixture) standard_use_experts(&b->layers[i], &e);
    }
    if (scale == 0 || residual == 0 || divisor == 0 || b->embedding_scale == 0)
        return config_fail(c, "has a multiplier or \"logits_scaling\" that is 0");
    return config_ok(c);
}

const Family family_granite = {"granite",         model_types, irrelevant_keys, standard_skipped_tensors,
                               granite_blueprint, NULL};
