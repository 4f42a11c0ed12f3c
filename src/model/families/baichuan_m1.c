/* Baichuan-M1 (arXiv:2502.12671): llama with q, k and v in one matrix, keys and values of a head mixed with those of
 * the position before, layers with a window that may have other head counts, and an output head of unit rows. The
 * reference is mlx-lm, which scales the head's rows when it loads them, unless they are quantised. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"baichuan_m1", NULL};

/* Heads of the layers with a window, where they have their own. */
static AttentionSpec read_attention(const Config *c, int hidden, bool windowed) {
    int heads = config_size(c, "num_attention_heads"), kv_heads = config_size_or(c, "num_key_value_heads", heads);
    int own = config_size_or(c, "num_swa_attention_heads", heads);
    int own_kv = config_size_or(c, "num_swa_key_value_heads", kv_heads);
    AttentionSpec a = {.n_heads = windowed ? own : heads,
                       .n_kv_heads = windowed ? own_kv : kv_heads,
                       .window = windowed ? config_size(c, "sliding_window") : 0,
                       .o = {.name = "model.layers.*.self_attn.o_proj"},
                       .kernel = config_size_or(c, "conv_window", 2)};
    if (hidden % a.n_heads) config_fail(c, "\"hidden_size\" %d is not divisible by %d heads", hidden, a.n_heads);
    if (a.kernel != 2) config_fail(c, "\"conv_window\" is %d, which no reference runs; 2 is known", a.kernel);
    a.head_dim = hidden / a.n_heads > 0 ? hidden / a.n_heads : 1;
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    standard_fuse_qkv(&a, "model.layers.*.self_attn.W_pack");
    a.k_conv = (ConvSpec){.name = "model.layers.*.self_attn.conv_k", .total = a.n_kv_heads, .each = a.head_dim};
    a.v_conv = (ConvSpec){.name = "model.layers.*.self_attn.conv_v", .total = a.n_kv_heads, .each = a.head_dim};
    return a;
}

static bool baichuan_m1_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 32768, .tie = TIE_NO};
    standard_model(c, &defaults, b);
    b->head.unit_rows = true;
    AttentionSpec full = read_attention(c, b->hidden, false), windowed = read_attention(c, b->hidden, true);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    const JsonValue *listed = config_array(c, "sliding_window_layers", -1);
    windowed.rope = windowed.head_dim != full.head_dim;
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1 + windowed.rope)) return false;
    for (int i = 0; i < b->n_layers; i++)
        b->layers[i] = standard_layer(standard_lists(listed, i) ? &windowed : &full, &mlp, b->final_norm.eps);
    return standard_rope(c, &defaults, b, 0, full.head_dim, false) &&
           (!windowed.rope || standard_rope(c, &defaults, b, 1, windowed.head_dim, false)) && config_ok(c);
}

const Family family_baichuan_m1 = {"baichuan_m1",         model_types, NULL, standard_skipped_tensors,
                                   baichuan_m1_blueprint, NULL};
