/* MiniCPM: llama whose embeddings, halves of layers and logits are scaled. The file has the factors, config.json what
 * they come of. */
#include "convert/gguf_config.h"

#include <math.h>

static const ConfigField fields[] = {{"embedding_scale", "scale_emb", FIELD_NUMBER, true},
                                     {"residual_scale", NULL, FIELD_KNOWN, true},
                                     {"logit_scale", NULL, FIELD_KNOWN, true},
                                     {0}};

static bool write_minicpm(const GgufModel *m, Buffer *out, Error *err) {
    double residual, logits;
    if (!gguf_model_number(m, "residual_scale", 0, &residual, err) ||
        !gguf_model_number(m, "logit_scale", 0, &logits, err))
        return false;
    double base = logits > 0 ? (double)m->size[SIZE_HIDDEN] / logits : 0;
    if (!(base >= 1 && base < 1 << 30) || fabs(base - round(base)) > 1e-3)
        return error_set(err, "metadata %s.logit_scale is %g, which no \"dim_model_base\" gives", m->arch->name,
                         logits);
    gguf_config_number(out, "scale_depth", residual * sqrt((double)m->n_layers));
    gguf_config_count(out, "dim_model_base", (int64_t)round(base));
    return true;
}

const Architecture gguf_minicpm = {
    .name = "minicpm",
    .model_type = "minicpm",
    .class_name = "MiniCPMForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .permuted = true,
    .write = write_minicpm,
};
