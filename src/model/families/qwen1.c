/* Qwen 1 (Bai et al., arXiv:2309.16609): llama with biases on q, k and v, which lie in one matrix, and an mlp whose w2
 * is the gate and whose width is half of what the config says. The reference is mlx-lm. Past seq_length the original
 * code stretches its rotary base and its scores with the length of the prompt, and mlx-lm does neither: the context
 * ends there. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"qwen", NULL};

static const char *const irrelevant_keys[] = {"attn_dropout_prob",
                                              "emb_dropout_prob", /* of training */
                                              "bf16",
                                              "fp16",
                                              "fp32",
                                              "softmax_in_fp32",
                                              "onnx_safe",
                                              "use_flash_attn",
                                              "use_cache_quantization",
                                              "use_cache_kernel",
                                              "tokenizer_type",
                                              "scale_attn_weights", /* always */
                                              "use_dynamic_ntk",
                                              "use_logn_attn", /* past seq_length */
                                              NULL};

static const char *const skipped_tensors[] = {"*.rotary_emb.inv_freq", "*.attn.masked_bias", NULL};

static const NameRoot roots[] = {{"transformer.", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    int channels = config_size_or(c, "kv_channels", a.head_dim);
    if (channels != a.head_dim)
        config_fail(c, "\"kv_channels\" is %d, expected hidden_size / num_attention_heads, %d", channels, a.head_dim);
    standard_fuse_qkv(&a, "model.h.*.attn.c_attn");
    a.q.bias = a.k.bias = a.v.bias = true;
    a.o.name = "model.h.*.attn.c_proj";
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    int twice = config_size_or(c, "intermediate_size", 11008);
    MlpSpec m = standard_mlp(c, d, twice / 2);
    m.gate.name = "model.h.*.mlp.w2";
    m.up.name = "model.h.*.mlp.w1";
    m.down.name = "model.h.*.mlp.c_proj";
    return m;
}

static bool read_rope(const Config *c, Blueprint *b, int head_dim) {
    Config none = {c->record, NULL, ""};
    double base = config_number_or(c, "rotary_emb_base", config_number_or(c, "rope_theta", 10000));
    RopeInput in = {.theta = base, .dims = head_dim, .max_position = b->max_context};
    if (config_number_or(c, "rotary_pct", 1) != 1)
        return config_fail(c, "\"rotary_pct\" is not 1, which no reference runs for this family");
    return rope_read(&none, &in, &b->ropes[0]);
}

static bool qwen1_blueprint(const Config *c, Blueprint *b) {
    bool bias = !config_bool_or(c, "no_bias", true);
    const StandardDefaults defaults = {.max_position = 8192, .tie = TIE_NO, .attention_bias = bias, .mlp_bias = bias};
    standard_model(c, &defaults, b);
    int length = config_size_or(c, "seq_length", b->max_context);
    if (length < b->max_context) b->max_context = length;
    b->embedding.name = "model.wte";
    b->head.bias = bias;
    b->final_norm.weight = "model.ln_f.weight";
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults);
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    layer.mixer_norm.weight = "model.h.*.ln_1.weight";
    layer.ffn_norm.weight = "model.h.*.ln_2.weight";
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    return read_rope(c, b, attention.head_dim) && config_ok(c);
}

const Family family_qwen1 = {"qwen1", model_types, irrelevant_keys, skipped_tensors, qwen1_blueprint, roots};
