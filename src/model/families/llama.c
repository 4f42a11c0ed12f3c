/* Llama (Touvron et al., arXiv:2302.13971): rms norm before each half of a layer, grouped-query attention with rotary
 * positions, a silu-gated mlp. The reference is transformers' LlamaForCausalLM; `sliding_window` with `layer_types`
 * follows mlx-lm. */
#include "model/mechanism.h"
#include "model/rope_rules.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"llama", NULL};

static const char *const irrelevant_keys[] = {"is_llama_config",        /* SmolLM */
                                              "pretraining_tp",         /* how training split its matrices */
                                              "rope_scaling.finetuned", /* older yarn configs */
                                              NULL};

static const char *const skipped_tensors[] = {"model.layers.*.self_attn.rotary_emb.inv_freq", NULL};

/* The window of each layer: layer_types says which have one. Without it both references see all positions. */
static void read_windows(const Config *c, Blueprint *b) {
    int window = config_size_or(c, "sliding_window", 0);
    const JsonValue *types = config_array(c, "layer_types", b->n_layers);
    for (int i = 0; types && i < b->n_layers; i++) {
        const JsonValue *type = json_item(types, (uint32_t)i);
        if (json_equals(type, "sliding_attention")) {
            b->layers[i].attention.window = window;
            if (!window) config_fail(c, "\"layer_types\" has sliding_attention, but there is no \"sliding_window\"");
        } else if (!json_equals(type, "full_attention")) {
            config_fail(c, "\"layer_types\" item %d is neither full_attention nor sliding_attention", i);
        }
    }
}

static AttentionSpec read_attention(const Config *c, int hidden) {
    AttentionSpec a = {.n_heads = config_size(c, "num_attention_heads")};
    bool bias = config_bool_or(c, "attention_bias", false);
    a.n_kv_heads = config_size_or(c, "num_key_value_heads", a.n_heads);
    a.head_dim = config_size_or(c, "head_dim", hidden / a.n_heads);
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    a.q = (LinearSpec){"model.layers.*.self_attn.q_proj", bias};
    a.k = (LinearSpec){"model.layers.*.self_attn.k_proj", bias};
    a.v = (LinearSpec){"model.layers.*.self_attn.v_proj", bias};
    a.o = (LinearSpec){"model.layers.*.self_attn.o_proj", bias};
    if (!config_has(c, "head_dim") && hidden % a.n_heads)
        config_fail(c,
                    "\"hidden_size\" %d is not divisible by \"num_attention_heads\" %d, and there is no \"head_dim\"",
                    hidden, a.n_heads);
    return a;
}

static GatedMlpSpec read_mlp(const Config *c) {
    bool bias = config_bool_or(c, "mlp_bias", false);
    const char *act = config_string_or(c, "hidden_act", "silu");
    if (strcmp(act, "silu") != 0) config_fail(c, "\"hidden_act\" is \"%.40s\"; known for llama: silu", act);
    return (GatedMlpSpec){config_size(c, "intermediate_size"),
                          ACT_SILU,
                          {"model.layers.*.mlp.gate_proj", bias},
                          {"model.layers.*.mlp.up_proj", bias},
                          {"model.layers.*.mlp.down_proj", bias}};
}

static bool read_rope(const Config *c, Blueprint *b, int head_dim) {
    Config section = rope_section(c);
    bool interleaved = config_bool_or(c, "rope_interleaved", false);
    RopeInput in = {.theta = config_number_or(c, "rope_theta", 10000),
                    .dims = head_dim,
                    .max_position = b->max_context,
                    .original = config_size_or(c, "original_max_position_embeddings", 0),
                    .interleaved = config_bool_or(c, "rope_traditional", interleaved)};
    if (!config_ok(c) || !rope_read(&section, &in, &b->ropes[0])) return false;
    b->context_note = rope_context_note(&b->ropes[0]);
    return true;
}

static TieRule read_tie(const Config *c) {
    if (!config_has(c, "tie_word_embeddings")) return TIE_UNSAID; /* the references' defaults differ */
    return config_bool_or(c, "tie_word_embeddings", false) ? TIE_YES : TIE_NO;
}

static bool llama_blueprint(const Config *c, Blueprint *b) {
    b->hidden = config_size(c, "hidden_size");
    b->vocab = config_size(c, "vocab_size");
    b->max_context = config_size_or(c, "max_position_embeddings", 2048);
    b->norm_eps = (float)config_number_or(c, "rms_norm_eps", 1e-6);
    b->tie = read_tie(c);
    b->embedding = (LinearSpec){"model.embed_tokens", false};
    b->head = (LinearSpec){"lm_head", false};
    b->final_norm = "model.norm.weight";

    AttentionSpec attention = read_attention(c, b->hidden);
    GatedMlpSpec mlp = read_mlp(c);
    int n_layers = config_size(c, "num_hidden_layers");
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++)
        b->layers[i] = (LayerSpec){.mixer_norm = "model.layers.*.input_layernorm.weight",
                                   .ffn_norm = "model.layers.*.post_attention_layernorm.weight",
                                   .mixer = &mixer_attention,
                                   .attention = attention,
                                   .ffn = &ffn_gated_mlp,
                                   .gated_mlp = mlp};
    read_windows(c, b);
    return read_rope(c, b, attention.head_dim) && config_ok(c);
}

const Family family_llama = {"llama", model_types, irrelevant_keys, skipped_tensors, llama_blueprint};
