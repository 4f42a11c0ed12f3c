/* Gemma 4: heads and ropes of full layers differ from those of sliding ones; full layers without a tensor of values
 * take their keys for them; the last layers may share keys and values and be twice as wide, layers may have inputs of
 * their own, and experts, gate and up in one tensor, may run beside the dense mlp. That only some pairs of a full
 * layer's head turn is said by rope_freqs.weight: the others are divided by 1e30. Norms are stored whole. */
#include "convert/gguf_config.h"

#include <string.h>

static const TensorRule layer_rules[] = {
    {"blk.*.layer_output_scale.weight", "model.layers.*.layer_scalar", SIZE_ONE, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_gate", "model.layers.*.mlp.gate_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.mlp.up_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.mlp.down_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule expert_rules[] = {
    {"blk.*.ffn_gate_inp", "model.layers.*.router.proj", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate_inp.scale", "model.layers.*.router.scale", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ffn_down_exps.scale", "model.layers.*.router.per_expert_scale", SIZE_EXPERTS, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ffn_gate_up_exps", "model.layers.*.experts.switch_glu", SIZE_ANY, SIZE_HIDDEN, 0, RULE_GATE_UP, 0},
    {"blk.*.ffn_gate_exps", "model.layers.*.experts.switch_glu.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_up_exps", "model.layers.*.experts.switch_glu.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_STACKED,
     0},
    {"blk.*.ffn_down_exps", "model.layers.*.experts.switch_glu.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0,
     RULE_STACKED, 0},
    {"blk.*.post_ffw_norm_1", "model.layers.*.post_feedforward_layernorm_1", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.pre_ffw_norm_2", "model.layers.*.pre_feedforward_layernorm_2", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_ffw_norm_2", "model.layers.*.post_feedforward_layernorm_2", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {
    {"attention.key_length_swa", "head_dim", FIELD_SIZE, true},
    {"attention.value_length_swa", NULL, FIELD_KNOWN, false},
    {"attention.key_length", "global_head_dim", FIELD_SIZE, true},
    {"attention.sliding_window", "sliding_window", FIELD_SIZE, true},
    {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, true},
    {"attention.shared_kv_layers", "num_kv_shared_layers", FIELD_COUNT, false},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", FIELD_COUNT, true},
    {"final_logit_softcapping", "final_logit_softcapping", FIELD_NUMBER, false},
    {"expert_count", "num_experts", FIELD_COUNT, false},
    {"expert_used_count", "top_k_experts", FIELD_COUNT, false},
    {"expert_feed_forward_length", "moe_intermediate_size", FIELD_COUNT, false},
    {"rope.freq_base_swa", NULL, FIELD_KNOWN, false},
    {"rope.dimension_count_swa", NULL, FIELD_KNOWN, false},
    {0}};

static bool is_sliding(const GgufModel *m, int64_t layer) {
    return gguf_layer_value(m, "attention.sliding_window_pattern", layer, 0) != 0;
}

/* The first layer of a kind; -1: none. */
static int64_t first_of(const GgufModel *m, bool sliding) {
    for (int64_t i = 0; i < m->n_layers; i++)
        if (is_sliding(m, i) == sliding) return i;
    return -1;
}

static bool read_experts(GgufModel *m, Error *err) {
    if (gguf_layer_value(m, "expert_count", 0, 0) == 0) return true;
    return gguf_model_size(m, "expert_count", 0, &m->size[SIZE_EXPERTS], err) &&
           gguf_model_size(m, "expert_feed_forward_length", 0, &m->size[SIZE_EXPERT_FFN], err);
}

static bool read_gemma4(GgufModel *m, Error *err) {
    int64_t full, sliding, turned;
    double width = gguf_layer_value(m, "feed_forward_length", 0, 0), heads;
    if (!gguf_model_size(m, "attention.head_count", 0, &m->n_heads, err) || !read_experts(m, err) ||
        !gguf_model_size(m, "attention.key_length", 0, &full, err) ||
        !gguf_model_size(m, "attention.key_length_swa", 0, &sliding, err) ||
        !gguf_model_size(m, "rope.dimension_count_swa", sliding, &turned, err) ||
        !gguf_model_number(m, "rope.freq_base", 1e6, &m->rope_theta, err))
        return false;
    int64_t at = first_of(m, true);
    heads = gguf_layer_value(m, "attention.head_count_kv", at < 0 ? 0 : at, (double)m->n_heads);
    if (!(width >= 1 && width < 1 << 30) || !(heads >= 1 && heads < 1 << 16))
        return error_set(err, "has no usable metadata %s.feed_forward_length or attention.head_count_kv",
                         m->arch->name);
    if (turned != sliding)
        return error_set(err, "rotates %d of %d values of a sliding head", (int)turned, (int)sliding);
    m->size[SIZE_FFN] = (int64_t)width;
    m->n_kv_heads = (int64_t)heads;
    return true;
}

/* ---- config.json ---- */

/* Which part of a full layer's pairs turns: those whose factor is 1, all others standing still. */
static bool turning_part(const GgufModel *m, double *part, Error *err) {
    const GgufTensor *t = gguf_find_tensor(m->file, "rope_freqs.weight");
    int64_t dims, n = 0;
    *part = 1;
    if (!t) return true;
    if (!gguf_model_size(m, "attention.key_length", 0, &dims, err)) return false;
    if (t->type != GGML_F32 || t->n_dims != 1 || t->shape[0] != dims / 2)
        return error_set(err, "rope_freqs.weight does not hold one F32 per pair of a full layer's head");
    for (int64_t i = 0; i < dims / 2; i++) {
        float f;
        memcpy(&f, t->data + 4 * i, 4);
        if (f == 1 && n == i)
            n++;
        else if (!(f >= 1e20f))
            return error_set(err, "rope_freqs.weight holds %g, neither 1 nor so much that a pair stands still",
                             (double)f);
    }
    *part = (double)n / ((double)dims / 2);
    return n > 0 || error_set(err, "rope_freqs.weight turns no pair");
}

static bool write_ropes(const GgufModel *m, Buffer *out, Error *err) {
    double part, local;
    if (!turning_part(m, &part, err) || !gguf_model_number(m, "rope.freq_base_swa", 10000, &local, err)) return false;
    buffer_text(out, "  \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "
                     "\"partial_rotary_factor\": ");
    gguf_number_repr(part, out);
    buffer_text(out, ", \"rope_theta\": ");
    gguf_number_repr(m->rope_theta, out);
    buffer_text(out, "}, \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": ");
    gguf_number_repr(local, out);
    buffer_text(out, "}},\n");
    return true;
}

/* Values taken from the keys, where the first full layer has none; only then may full layers have fewer heads. */
static bool write_full_heads(const GgufModel *m, Buffer *out, Error *err) {
    int64_t at = first_of(m, false);
    double heads = gguf_layer_value(m, "attention.head_count_kv", at, (double)m->n_kv_heads);
    bool from_keys = at >= 0 && !gguf_layer_tensor(m, at, "attn_v.weight");
    buffer_printf(out, "  \"attention_k_eq_v\": %s,\n", from_keys ? "true" : "false");
    if (at >= 0 && from_keys) gguf_config_count(out, "num_global_key_value_heads", (int64_t)heads);
    return at < 0 || from_keys || heads == (double)m->n_kv_heads ||
           error_set(err, "has full layers with %g key-value heads and values of their own, which Gemma 4 has not",
                     heads);
}

static bool write_gemma4(const GgufModel *m, Buffer *out, Error *err) {
    double last = gguf_layer_value(m, "feed_forward_length", m->n_layers - 1, (double)m->size[SIZE_FFN]);
    buffer_printf(out, "  \"use_double_wide_mlp\": %s,\n", last == 2 * (double)m->size[SIZE_FFN] ? "true" : "false");
    buffer_printf(out, "  \"enable_moe_block\": %s,\n", m->size[SIZE_EXPERTS] ? "true" : "false");
    gguf_config_layer_vocabulary(m, out);
    gguf_config_layer_types(m, "attention.sliding_window_pattern", 6, "sliding_attention", "full_attention", out);
    return write_full_heads(m, out, err) && write_ropes(m, out, err);
}

const Architecture gguf_gemma4 = {
    .name = "gemma4",
    .model_type = "gemma4_text",
    .class_name = "Gemma4ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms_around, gguf_rules_layer_inputs, layer_rules, expert_rules},
    .fields = fields,
    .constants = "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n",
    .mixed = true,
    .own_heads = true,
    .own_rope = true,
    .read = read_gemma4,
    .write = write_gemma4,
};
