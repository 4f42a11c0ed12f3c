/* Gemma 3n: four hidden streams, a low-rank residual beside attention, inputs of each layer's own. The file holds the
 * quantile up to which a gate is cut off, not the share of it; which layers have the window is in newer files, and
 * every fifth of older ones sees all. */
#include "convert/gguf_config.h"

#include <math.h>

static const TensorRule rules[] = {
    {"altup_proj", "model.altup_projections", SIZE_ANY, SIZE_HIDDEN, 0, RULE_APART, 0},
    {"altup_unembd_proj", "model.altup_unembed_projections", SIZE_ANY, SIZE_HIDDEN, 0, RULE_APART, 0},
    {"blk.*.altup_correct_scale.weight", "model.layers.*.altup.correct_output_scale", SIZE_HIDDEN, SIZE_NONE, 0,
     RULE_WHOLE, 0},
    {"blk.*.altup_correct_coef", "model.layers.*.altup.correction_coefs", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.altup_predict_coef", "model.layers.*.altup.prediction_coefs", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.altup_router", "model.layers.*.altup.modality_router", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.altup_router_norm", "model.layers.*.altup.router_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.laurel_l", "model.layers.*.laurel.linear_left", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.laurel_r", "model.layers.*.laurel.linear_right", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.laurel_post_norm", "model.layers.*.laurel.post_laurel_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {
    {"attention.sliding_window", "sliding_window", FIELD_SIZE, true},
    {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
    {"attention.shared_kv_layers", "num_kv_shared_layers", FIELD_COUNT, true},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", FIELD_SIZE, true},
    {"altup.num_inputs", "altup_num_inputs", FIELD_SIZE, true},
    {"altup.active_idx", "altup_active_idx", FIELD_COUNT, true},
    {"activation_sparsity_scale", NULL, FIELD_KNOWN, true},
    {"rope.freq_base_swa", "rope_local_base_freq", FIELD_NUMBER, false},
    {"final_logit_softcapping", "final_logit_softcapping", FIELD_NUMBER, true},
    {0}};

/* The share of a normal distribution below each layer's quantile. */
static bool write_sparsity(const GgufModel *m, Buffer *out, Error *err) {
    buffer_text(out, "  \"activation_sparsity_pattern\": [");
    for (int64_t i = 0; i < m->n_layers; i++) {
        double quantile = gguf_layer_value(m, "activation_sparsity_scale", i, (double)NAN);
        if (isnan(quantile))
            return error_set(err, "metadata %s.activation_sparsity_scale has no number for layer %d", m->arch->name,
                             (int)i);
        if (i) buffer_text(out, ", ");
        gguf_number_repr(0.5 * erfc(-quantile / sqrt(2)), out);
    }
    buffer_text(out, "],\n");
    return true;
}

static bool write_gemma3n(const GgufModel *m, Buffer *out, Error *err) {
    const GgufTensor *left = gguf_find_tensor(m->file, "blk.0.laurel_l.weight");
    if (!left || left->n_dims != 2) return error_set(err, "has no matrix \"blk.0.laurel_l.weight\"");
    gguf_config_count(out, "laurel_rank", left->shape[1]);
    gguf_config_layer_vocabulary(m, out);
    gguf_config_layer_types(m, "attention.sliding_window_pattern", 5, "sliding_attention", "full_attention", out);
    return write_sparsity(m, out, err);
}

const Architecture gguf_gemma3n = {
    .name = "gemma3n",
    .model_type = "gemma3n_text",
    .class_name = "Gemma3nForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms_around, gguf_rules_layer_inputs, gguf_rules_attention,
              gguf_rules_head_norms, gguf_rules_mlp, rules},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "", [BIASES_MLP] = ""},
    .constants = "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n",
    .mixed = true,
    .write = write_gemma3n,
};
