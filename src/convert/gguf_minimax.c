/* MiniMax M2: norms over all queries and all keys, part of each head rotated, experts chosen by sigmoid scores with a
 * correction. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.gate", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.exp_probs_b.bias", "model.layers.*.block_sparse_moe.e_score_correction_bias", SIZE_EXPERTS, SIZE_NONE, 0,
     RULE_WHOLE, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"expert_count", "num_local_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", NULL, FIELD_KNOWN, false},
                                     {"expert_gating_func", NULL, FIELD_KNOWN, false},
                                     {0}};

/* Experts are as wide as config.json's intermediate_size. */
static bool read_minimax(GgufModel *m, Error *err) {
    m->size[SIZE_FFN] = m->size[SIZE_EXPERT_FFN];
    return gguf_layer_value(m, "expert_gating_func", 0, 2) == 2 ||
           error_set(err, "scores experts by a function that MiniMax has not (%s.expert_gating_func)", m->arch->name);
}

/* mlx-lm wants to see them. */
static bool write_minimax(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    gguf_config_count(out, "rotary_dim", m->rotated);
    buffer_text(out, "  \"shared_intermediate_size\": 0,\n");
    return true;
}

const Architecture gguf_minimax_m2 = {
    .name = "minimax-m2",
    .model_type = "minimax_m2",
    .class_name = "MiniMaxM2ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_whole_norms, rules,
              gguf_rules_block_experts},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n  \"use_qk_norm\": true,\n  \"scoring_func\": \"sigmoid\",\n",
    .partial = true,
    .read = read_minimax,
    .write = write_minimax,
};
