/* Hunyuan-Large and A13B (Tencent, arXiv:2411.02265): pairs of layers share one projection of keys and values, which
 * each norms and rotates for itself; norms of heads after rotation; a fixed stretch of the rotary base; experts weighed
 * by a softmax over all, beside a shared one. The reference is mlx-lm. */
#include "model/standard.h"

static const char *const model_types[] = {"hunyuan", NULL};

static const char *const irrelevant_keys[] = {"norm_type",
                                              "capacity_factor",
                                              "moe_drop_tokens",
                                              "moe_random_routing_dropped_token",
                                              "moe_layer_num_skipped",
                                              "num_media_embeds",
                                              "im_start_id",
                                              "im_end_id",
                                              "im_newline_id",
                                              "image_token_id",
                                              "video_start_id",
                                              "video_end_id",
                                              "text_start_id",
                                              "text_end_id",
                                              "mask_init_id",
                                              "org_vocab_size",
                                              "eod_token_id",
                                              "sep_token_id",
                                              "pool_type",
                                              "pretraining_tp",
                                              "group_limited_greedy", /* published as false; read by no reference */
                                              "cla_share_factor",     /* read where use_cla is on */
                                              NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp, int layer) {
    int width = config_size_each(c, "moe_intermediate_size", layer, mlp->width);
    int n_shared = config_size_each(c, "num_shared_expert", layer, 1);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.router.name = "model.layers.*.mlp.gate.wg";
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size(c, "num_experts"),
                          .n_chosen = config_size_each(c, "moe_topk", layer, 1)};
    if (!config_bool_or(c, "use_mixed_mlp_moe", false)) return e;
    e.shared = standard_shared_experts(c, mlp, mlp->width, n_shared);
    e.shared.gate.name = "model.layers.*.mlp.shared_mlp.gate_proj";
    e.shared.up.name = "model.layers.*.mlp.shared_mlp.up_proj";
    e.shared.down.name = "model.layers.*.mlp.shared_mlp.down_proj";
    return e;
}

static void read_norms(const Config *c, float eps, AttentionSpec *a) {
    if (!config_bool_or(c, "use_qk_norm", false)) return;
    a->q_norm.norm = standard_rms("model.layers.*.self_attn.query_layernorm.weight", eps);
    a->k_norm.norm = standard_rms("model.layers.*.self_attn.key_layernorm.weight", eps);
    a->norm_after_rope = true;
}

static bool hunyuan_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.tie = TIE_YES};
    if (!standard_blueprint(c, &defaults, b)) return false;
    const MlpSpec mlp = b->layers[0].mlp;
    if (b->tie == TIE_NO) b->tie = TIE_UNSAID; /* mlx-lm ties whatever the config says */
    int share = config_bool_or(c, "use_cla", false) ? config_size(c, "cla_share_factor") : 1;
    int n_experts = config_size(c, "num_experts");
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        read_norms(c, b->final_norm.eps, a);
        a->lends = share > 1 && i % share == 0;
        a->borrows = i % share != 0;
        if (n_experts == 1) continue;
        ExpertsSpec e = read_experts(c, &mlp, i);
        standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_hunyuan = {"hunyuan",         model_types, irrelevant_keys, standard_skipped_tensors,
                               hunyuan_blueprint, NULL};
