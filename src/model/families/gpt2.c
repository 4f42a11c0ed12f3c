/* GPT-2 (Radford et al., 2019) and GPT-BigCode (StarCoder 1, arXiv:2301.03988): layer norms, an embedding per position,
 * q, k and v in one matrix, an mlp without a gate. Hugging Face saves GPT-2's matrices as [inputs, outputs], with or
 * without "transformer." before their names. BigCode has one key-value head (multi_query), and its plain gelu in mlx-lm
 * is the tanh form in transformers, which counts; without multi_query its fused matrix goes head by head, as
 * transformers reads it. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"gpt2", "gpt_bigcode", NULL};

static const char *const irrelevant_keys[] = {"attn_pdrop",
                                              "embd_pdrop",
                                              "resid_pdrop", /* of training */
                                              "summary_type",
                                              "summary_use_proj",
                                              "summary_activation",
                                              "summary_proj_to_labels",
                                              "summary_first_dropout", /* of another head */
                                              "n_ctx",                 /* n_positions counts */
                                              "reorder_and_upcast_attn",
                                              "attention_softmax_in_fp32",
                                              "scale_attention_softmax_in_fp32", /* all of it is f32 here */
                                              "inference_runner",
                                              "validate_runner_input",
                                              "pre_allocate_kv_cache",
                                              "max_batch_size",
                                              "max_sequence_length", /* BigCode's own server */
                                              NULL};

static const char *const skipped_tensors[] = {"*.attn.bias", "*.attn.masked_bias", NULL}; /* causal masks */

static const NameRoot roots[] = {{"model.", ""}, {"transformer.", ""}, {"", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden, bool bigcode) {
    static const char fused[] = "model.h.*.attn.c_attn";
    AttentionSpec a = standard_attention(c, d, hidden);
    bool multi_query = bigcode && config_bool_or(c, "multi_query", true);
    if (multi_query) a.n_kv_heads = config_size_or(c, "num_key_value_heads", 1);
    if (bigcode && !multi_query)
        standard_fuse_qkv_groups(&a, fused);
    else
        standard_fuse_qkv(&a, fused);
    a.o.name = "model.h.*.attn.c_proj";
    a.rope = NO_ROPE;
    if (!config_bool_or(c, "scale_attn_weights", true)) a.scale = 1;
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d, int hidden) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "n_inner", 4 * hidden));
    m.gate = (LinearSpec){0};
    m.up.name = "model.h.*.mlp.c_fc";
    m.down.name = "model.h.*.mlp.c_proj";
    return m;
}

static LayerSpec read_layer(const AttentionSpec *a, const MlpSpec *m, float eps) {
    LayerSpec layer = standard_layer(a, m, eps);
    layer.mixer_norm = standard_layer_norm("model.h.*.ln_1.weight", "model.h.*.ln_1.bias", eps);
    layer.ffn_norm = standard_layer_norm("model.h.*.ln_2.weight", "model.h.*.ln_2.bias", eps);
    return layer;
}

static void transpose(AttentionSpec *a, MlpSpec *m) {
    a->q.transposed = a->k.transposed = a->v.transposed = a->o.transposed = true;
    m->up.transposed = m->down.transposed = true;
}

static bool gpt2_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5,
                                              .max_position = 1024,
                                              .act = "gelu_new",
                                              .tie = TIE_YES,
                                              .attention_bias = true,
                                              .mlp_bias = true};
    bool bigcode = strcmp(config_string_or(c, "model_type", ""), "gpt_bigcode") == 0;
    standard_model(c, &defaults, b);
    b->embedding.name = "model.wte";
    b->positions.name = "model.wpe";
    b->n_positions = b->max_context;
    b->final_norm = standard_layer_norm("model.ln_f.weight", "model.ln_f.bias", b->final_norm.eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden, bigcode);
    MlpSpec mlp = read_mlp(c, &defaults, b->hidden);
    bool published = config_has_tensor(c, "transformer.h.*.ln_1.weight|h.*.ln_1.weight", 0);
    if (published && !bigcode) transpose(&attention, &mlp);
    bool by_depth = !bigcode && config_bool_or(c, "scale_attn_by_inverse_layer_idx", false);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 0)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i] = read_layer(&attention, &mlp, b->final_norm.eps);
        if (by_depth) b->layers[i].attention.scale /= (float)(i + 1);
    }
    return config_ok(c);
}

const Family family_gpt2 = {"gpt2", model_types, irrelevant_keys, skipped_tensors, gpt2_blueprint, roots};
