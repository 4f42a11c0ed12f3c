/* Qwen3-Next: gated delta rule in three of four layers, attention with a gate in the fourth, experts in all. The file
 * holds every norm but the delta rule's own with 1 added, as the MLX layout does, and A = -exp(A_log). Older files keep
 * q, k, v and z fused key head by key head, as the checkpoint; newer ones have them apart, which is how Qwen 3.5 names
 * them: such a file becomes a Qwen 3.5 mixture, the same computation. Names and config.json are those with which mlx-lm
 * reads Qwen 3.5, too.
 *
 * Files of Qwen 3.5 itself have the value heads in another order: the first of each key head, then the second of each.
 * Rows go back into theirs, and so do the columns of the output where heads are whole blocks. Where a super-block spans
 * heads, all stay as they are and config.json says so. */
#include "convert/gguf_config.h"

#include <math.h>

/* The orders are those of Qwen 3.5, where a model has them. */
static const TensorRule layer_rules[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, 0},
    {"blk.*.ssm_conv1d", "model.layers.*.linear_attn.conv1d", SIZE_ANY, SIZE_ANY, ROWS_OF_VALUES, RULE_CONV, 0},
    {"blk.*.ssm_dt.bias", "model.layers.*.linear_attn.dt_bias", SIZE_ANY, SIZE_NONE, ROWS_OF_VALUE_HEADS, RULE_WHOLE,
     0},
    {"blk.*.ssm_a", "model.layers.*.linear_attn.A_log", SIZE_ANY, SIZE_NONE, ROWS_OF_VALUE_HEADS,
     RULE_WHOLE | RULE_LOG_OF_NEG, 0},
    {"blk.*.ssm_norm", "model.layers.*.linear_attn.norm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.ssm_out", "model.layers.*.linear_attn.out_proj", SIZE_HIDDEN, SIZE_ANY, COLUMNS_OF_VALUES, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule older_rules[] = {
    {"blk.*.ssm_in", "model.layers.*.linear_attn.in_proj_qkvz", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ssm_ba", "model.layers.*.linear_attn.in_proj_ba", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule newer_rules[] = {
    {"blk.*.attn_qkv", "model.layers.*.linear_attn.in_proj_qkv", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_gate", "model.layers.*.linear_attn.in_proj_z", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ssm_ba", "model.layers.*.linear_attn", SIZE_ANY, SIZE_HIDDEN, 0, RULE_B_A, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule apart_rules[] = {
    {"blk.*.attn_qkv", "model.layers.*.linear_attn.in_proj_qkv", SIZE_ANY, SIZE_HIDDEN, ROWS_OF_VALUES, 0, 0},
    {"blk.*.attn_gate", "model.layers.*.linear_attn.in_proj_z", SIZE_ANY, SIZE_HIDDEN, ROWS_OF_VALUES, 0, 0},
    {"blk.*.ssm_beta", "model.layers.*.linear_attn.in_proj_b", SIZE_ANY, SIZE_HIDDEN, ROWS_OF_VALUE_HEADS, 0, 0},
    {"blk.*.ssm_alpha", "model.layers.*.linear_attn.in_proj_a", SIZE_ANY, SIZE_HIDDEN, ROWS_OF_VALUE_HEADS, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {
    {"expert_count", "num_experts", FIELD_SIZE, false},
    {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, false},
    {"expert_feed_forward_length", NULL, FIELD_KNOWN, false},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", FIELD_SIZE, false},
    {"ssm.conv_kernel", "linear_conv_kernel_dim", FIELD_SIZE, true},
    {"ssm.state_size", "linear_key_head_dim", FIELD_SIZE, true},
    {"ssm.group_count", "linear_num_key_heads", FIELD_SIZE, true},
    {"ssm.time_step_rank", "linear_num_value_heads", FIELD_SIZE, true},
    {"ssm.inner_size", NULL, FIELD_KNOWN, true},
    {"full_attention_interval", NULL, FIELD_KNOWN, false},
    {"attention.recurrent_layers", NULL, FIELD_KNOWN, false},
    {"rope.dimension_sections", NULL, FIELD_KNOWN, false}, /* three counts of positions, which are one for text */
    {0}};

static bool has_parts(const GgufModel *m) {
    for (int i = 0; i < gguf_count(m->file); i++) {
        TensorPlace place;
        if (gguf_place(&gguf_qwen3_next_newer, gguf_tensor(m->file, i)->name, &place) && place.rule == &newer_rules[0])
            return true;
    }
    return false;
}

/* Without one, norms would be taken to be stored less one. */
static bool has_delta_rule(const GgufModel *m) {
    for (int64_t i = 0; i < m->n_layers; i++)
        if (gguf_layer_tensor(m, i, "ssm_conv1d.weight")) return true;
    return false;
}

static bool read_next(GgufModel *m, Error *err) {
    int64_t inner;
    if (!gguf_model_size(m, "ssm.group_count", 0, &m->groups, err) ||
        !gguf_model_size(m, "ssm.time_step_rank", 0, &m->value_heads, err) ||
        !gguf_model_size(m, "ssm.inner_size", 0, &inner, err))
        return false;
    if (inner % m->value_heads || m->value_heads % m->groups)
        return error_set(err, "has %d value heads for %d key heads over %d values, which can not be",
                         (int)m->value_heads, (int)m->groups, (int)inner);
    m->value_dim = inner / m->value_heads;
    return has_delta_rule(m) || error_set(err, "has no layer with the delta rule");
}

static bool read_turned(GgufModel *m, Error *err) {
    if (!read_next(m, err)) return false;
    gguf_model_turn(m, false);
    return true;
}

/* Every so manyth layer is full, as the list of layers has it where there is one: mlx-lm reads the number alone. */
static bool write_interval(const GgufModel *m, Buffer *out, Error *err) {
    double interval = gguf_layer_value(m, "full_attention_interval", 0, 4);
    if (gguf_model_find(m, "attention.recurrent_layers")) {
        int64_t first = 0;
        while (first < m->n_layers && gguf_layer_value(m, "attention.recurrent_layers", first, 0) != 0) first++;
        interval = (double)first + 1;
        gguf_config_layer_types(m, "attention.recurrent_layers", 0, "linear_attention", "full_attention", out);
    }
    if (!(interval >= 1 && interval < 1 << 16) || floor(interval) != interval)
        return error_set(err, "metadata %s.full_attention_interval is no number of layers", m->arch->name);
    gguf_config_count(out, "full_attention_interval", (int64_t)interval);
    return true;
}

static bool write_next(const GgufModel *m, Buffer *out, Error *err) {
    gguf_config_count(out, "linear_value_head_dim", m->value_dim);
    if (m->tiled) buffer_text(out, "  \"linear_value_head_order\": \"tiled\",\n");
    return write_interval(m, out, err);
}

#define NEXT_CONSTANTS                                                                          \
    "  \"hidden_act\": \"silu\",\n  \"norm_topk_prob\": true,\n  \"decoder_sparse_step\": 1,\n" \
    "  \"mlp_only_layers\": [],\n"

#define NEXT                                                                                                     \
    .name = "qwen3next", .fields = fields, .expert_width = "moe_intermediate_size", .constants = NEXT_CONSTANTS, \
    .mixed = true, .partial = true, .read = read_next, .write = write_next

const Architecture gguf_qwen3_next_newer = {
    NEXT,
    .model_type = "qwen3_5_moe",
    .root = "language_model.",
    .nested_rope = true,
    .class_name = "Qwen3_5MoeForCausalLM",
    .fits = has_parts,
    .rules = {gguf_rules_model, layer_rules, newer_rules, gguf_rules_head_norms, gguf_rules_experts,
              gguf_rules_shared_expert},
};

const Architecture gguf_qwen3_next = {
    NEXT,
    .model_type = "qwen3_next",
    .class_name = "Qwen3NextForCausalLM",
    .rules = {gguf_rules_model, layer_rules, older_rules, gguf_rules_head_norms, gguf_rules_experts,
              gguf_rules_shared_expert},
};

/* ---- Qwen 3.5 ---- */

const Architecture gguf_qwen3_5 = {
    .name = "qwen35",
    .model_type = "qwen3_5",
    .root = "language_model.",
    .nested_rope = true,
    .class_name = "Qwen3_5ForCausalLM",
    .rules = {gguf_rules_model, layer_rules, apart_rules, gguf_rules_head_norms, gguf_rules_mlp},
    .fields = fields,
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .mixed = true,
    .partial = true,
    .read = read_turned,
    .write = write_next,
};

const Architecture gguf_qwen3_5_moe = {
    .name = "qwen35moe",
    .model_type = "qwen3_5_moe",
    .root = "language_model.",
    .nested_rope = true,
    .class_name = "Qwen3_5MoeForCausalLM",
    .rules = {gguf_rules_model, layer_rules, apart_rules, gguf_rules_head_norms, gguf_rules_experts,
              gguf_rules_shared_expert},
    .fields = fields,
    .expert_width = "moe_intermediate_size",
    .constants = NEXT_CONSTANTS,
    .mixed = true,
    .partial = true,
    .read = read_turned,
    .write = write_next,
};
