/* GPT-J (Wang and Komatsuzaki, 2021): one layer norm, whose output attention and an mlp without a gate both read;
 * neighbouring pairs of part of each head rotated; biases on the mlp and the head only. The reference is transformers.
 */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"gptj", NULL};

static const char *const irrelevant_keys[] = {"attn_pdrop",
                                              "embd_pdrop",
                                              "resid_pdrop", /* of training */
                                              "summary_type",
                                              "summary_use_proj",
                                              "summary_activation",
                                              "summary_proj_to_labels",
                                              "summary_first_dropout", /* of another head */
                                              "rotary",
                                              "scale_attn_weights", /* always; read by no reference */
                                              "gradient_checkpointing",
                                              NULL};

static const char *const skipped_tensors[] = {"*.attn.bias", "*.attn.masked_bias", NULL}; /* causal masks */

static const NameRoot roots[] = {{"transformer.", ""}, {"model.", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.q.name = "model.h.*.attn.q_proj";
    a.k.name = "model.h.*.attn.k_proj";
    a.v.name = "model.h.*.attn.v_proj";
    a.o.name = "model.h.*.attn.out_proj";
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d, int hidden) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "n_inner", 4 * hidden));
    m.gate = (LinearSpec){0};
    m.up.name = "model.h.*.mlp.fc_in";
    m.down.name = "model.h.*.mlp.fc_out";
    return m;
}

static bool gptj_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .act = "gelu_new", .tie = TIE_NO, .mlp_bias = true};
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps;
    b->embedding.name = "model.wte";
    b->head.bias = true;
    b->final_norm = standard_layer_norm("model.ln_f.weight", "model.ln_f.bias", eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults, b->hidden);
    LayerSpec layer = standard_layer(&attention, &mlp, eps);
    layer.parallel = true;
    layer.mixer_norm = standard_layer_norm("model.h.*.ln_1.weight", "model.h.*.ln_1.bias", eps);
    layer.ffn_norm = (NormSpec){0};
    int dims = config_size_or(c, "rotary_dim", 64);
    if (dims > attention.head_dim)
        return config_fail(c, "\"rotary_dim\" %d is more than the %d dims of a head", dims, attention.head_dim);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    return standard_rope(c, &defaults, b, 0, dims, true) && config_ok(c);
}

const Family family_gptj = {"gptj", model_types, irrelevant_keys, skipped_tensors, gptj_blueprint, roots};
