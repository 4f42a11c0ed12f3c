/* Qwen3-Next and Qwen3.5, dense and mixtures: three layers of gated delta rule, then one of attention whose output a
 * gate multiplies. Checkpoints in the Hugging Face layout store norm weights minus one (but for the delta rule's own
 * norm); the MLX layout stores them whole, and is known by its convolutions, whose last axis is 1.
 *
 * A checkpoint without convolutions (every layer full) is Hugging Face's when it is laid out as transformers nests it;
 * mlx-lm then forgets the one, transformers is right. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {
    "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "prism_hadamard_qwen35", NULL};

static const char *const irrelevant_keys[] = {
    "output_router_logits",  "router_aux_loss_coef",         "mamba_ssm_dtype", /* the state is f32 here */
    "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "vision_config",       "image_token_id",
    "video_token_id",        "vision_start_token_id",        "vision_end_token_id", NULL};

static const char *const skipped_tensors[] = {"mtp.*", "*.mtp.*", "*visual.*", "*vision_tower.*", NULL};

static bool is_next(const Config *c) {
    return strcmp(config_string_or(c, "model_type", ""), "qwen3_next") == 0;
}

/* Packs of Qwen3.5 whose 2-bit weights want some inputs turned by a Hadamard matrix; the binder reads "modules". */
static void read_pack(const Config *root, Blueprint *b) {
    if (strcmp(config_string_or(root, "model_type", ""), "prism_hadamard_qwen35") != 0) return;
    int schema = config_size_or(root, "schema_version", 2);
    const char *names = config_string_or(root, "tensor_namespace", "");
    const char *layout = config_string_or(root, "gdn_activation_layout", "grouped");
    const JsonValue *modules = config_array(root, "modules", -1);
    if (schema > 2 || strcmp(names, schema == 1 ? "mlx-lm-text" : "mlx-vlm-qwen3_5") != 0)
        config_fail(root, "a Hadamard pack of \"schema_version\" %d and \"tensor_namespace\" \"%.40s\" is not known",
                    schema, names);
    if (strcmp(layout, "grouped") != 0)
        config_fail(root, "\"gdn_activation_layout\" is \"%.40s\", known is \"grouped\"", layout);
    if (!modules || modules->length == 0) config_fail(root, "has no \"modules\", which say how weights are packed");
    b->packed = true;
}

/* ---- the mixers ---- */

/* q_proj holds, head by head, the query and then the gate. */
static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden, float eps) {
    AttentionSpec a = standard_attention(c, d, hidden);
    int64_t head = a.head_dim, all = 2 * head * a.n_heads;
    if (!config_bool_or(c, "attn_output_gate", true))
        config_fail(c, "\"attn_output_gate\" is false, which no reference runs");
    a.gate = a.q;
    a.q.rows = (RowSlice){all, 0, head, 2 * head};
    a.gate.rows = (RowSlice){all, head, head, 2 * head};
    a.gate_kind = GATE_ELEMENT;
    a.gate_act = ACT_SIGMOID;
    standard_head_norms(&a, SPAN_HEAD, eps);
    return a;
}

/* Qwen3-Next fuses q, k, v and z key head by key head; Qwen3.5 has q, k and v one after the other. */
static void put_projections(DeltaSpec *d, bool next) {
    int64_t keys = (int64_t)d->k_heads * d->k_dim, values = (int64_t)d->v_heads * d->v_dim;
    int64_t group = d->v_heads / (d->k_heads ? d->k_heads : 1), wide = group * d->v_dim;
    int64_t period = 2 * (int64_t)d->k_dim + 2 * wide, all = period * d->k_heads;
    if (next) {
        d->q = d->k = d->v = d->z = (LinearSpec){.name = "model.layers.*.linear_attn.in_proj_qkvz"};
        d->q.rows = (RowSlice){all, 0, d->k_dim, period};
        d->k.rows = (RowSlice){all, d->k_dim, d->k_dim, period};
        d->v.rows = (RowSlice){all, 2 * d->k_dim, wide, period};
        d->z.rows = (RowSlice){all, 2 * d->k_dim + wide, wide, period};
        d->b = d->a = (LinearSpec){.name = "model.layers.*.linear_attn.in_proj_ba"};
        d->b.rows = (RowSlice){2 * (int64_t)d->v_heads, 0, group, 2 * group};
        d->a.rows = (RowSlice){2 * (int64_t)d->v_heads, group, group, 2 * group};
        return;
    }
    d->q = d->k = d->v = (LinearSpec){.name = "model.layers.*.linear_attn.in_proj_qkv"};
    d->q.rows = (RowSlice){2 * keys + values, 0, keys, keys};
    d->k.rows = (RowSlice){2 * keys + values, keys, keys, keys};
    d->v.rows = (RowSlice){2 * keys + values, 2 * keys, values, values};
    d->z.name = "model.layers.*.linear_attn.in_proj_z";
    d->b.name = "model.layers.*.linear_attn.in_proj_b";
    d->a.name = "model.layers.*.linear_attn.in_proj_a";
}

/* "linear_value_head_order" is ours: an import whose super-blocks span heads leaves them in the file's order. */
static DeltaSpec read_delta(const Config *c, bool next, float eps) {
    DeltaSpec d = {.k_heads = config_size_or(c, "linear_num_key_heads", 16),
                   .v_heads = config_size_or(c, "linear_num_value_heads", 32),
                   .k_dim = config_size_or(c, "linear_key_head_dim", 128),
                   .v_dim = config_size_or(c, "linear_value_head_dim", 128),
                   .kernel = config_size_or(c, "linear_conv_kernel_dim", 4),
                   .o = {.name = "model.layers.*.linear_attn.out_proj"},
                   .a_log = "model.layers.*.linear_attn.A_log",
                   .dt_bias = "model.layers.*.linear_attn.dt_bias",
                   .norm = standard_rms("model.layers.*.linear_attn.norm.weight", eps),
                   .gate_act = ACT_SILU};
    int64_t keys = (int64_t)d.k_heads * d.k_dim, values = (int64_t)d.v_heads * d.v_dim;
    const char *conv = "model.layers.*.linear_attn.conv1d.weight";
    d.q_conv = (ConvSpec){.name = conv, .total = 2 * keys + values, .from = 0};
    d.k_conv = (ConvSpec){.name = conv, .total = 2 * keys + values, .from = keys};
    d.v_conv = (ConvSpec){.name = conv, .total = 2 * keys + values, .from = 2 * keys};
    put_projections(&d, next);
    const char *order = config_string_or(c, "linear_value_head_order", "grouped");
    d.tiled = strcmp(order, "tiled") == 0;
    if (!d.tiled && strcmp(order, "grouped") != 0)
        config_fail(c, "\"linear_value_head_order\" is \"%.40s\", known are grouped and tiled", order);
    return d;
}

/* ---- the feed-forward ---- */

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", 512), mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, "num_experts", is_next(c) ? 512 : 256),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", is_next(c) ? 10 : 8),
                          .renormalise = config_bool_or(c, "norm_topk_prob", true)};
    standard_gated_shared_expert(c, mlp, 512, &e);
    return e;
}

static bool is_mixture(const Config *c) {
    return is_next(c) || config_has(c, "num_experts") || strstr(config_string_or(c, "model_type", ""), "moe") != NULL;
}

/* ---- the whole ---- */

/* Which layers are full: layer_types, else every full_attention_interval-th. */
static void put_mixers(const Config *c, Blueprint *b, const DeltaSpec *d) {
    int interval = config_size_or(c, "full_attention_interval", 4);
    for (int i = 0; i < b->n_layers; i++) {
        LayerKind usual = (i + 1) % interval == 0 ? LAYER_FULL : LAYER_LINEAR;
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, usual);
        if (kind == LAYER_LINEAR) {
            b->layers[i].mixer = &mixer_delta;
            b->layers[i].delta = *d;
        } else if (kind != LAYER_FULL) {
            config_fail(c, "\"layer_types\" item %d is neither full_attention nor linear_attention", i);
        }
    }
}

/* Whether norms are stored minus one: see above. */
static bool norms_are_less_one(const Config *c, const Blueprint *b) {
    for (int i = 0; i < b->n_layers; i++) {
        const Tensor *conv = config_tensor(c, "model.layers.*.linear_attn.conv1d.weight", i);
        if (conv && conv->n_dims == 3) return conv->shape[2] != 1;
    }
    return strncmp(config_tensor_root(c), "language_model.", 15) != 0;
}

static void put_ones(Blueprint *b) {
    b->final_norm.plus = 1;
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *l = &b->layers[i];
        l->mixer_norm.plus = l->ffn_norm.plus = 1;
        l->attention.q_norm.norm.plus = l->attention.k_norm.norm.plus = 1;
    }
}

static bool put_rope(const Config *c, const StandardDefaults *d, Blueprint *b, int head_dim) {
    Config section = rope_section(c);
    int dims = rope_partial_dims(c, &section, head_dim, 0.25);
    return config_ok(c) && standard_rope(c, d, b, 0, dims, false);
}

static bool qwen3_next_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 32768, .theta = 10000};
    Config text = config_text(root), *c = &text;
    standard_model(c, &defaults, b);
    standard_root_tie(c, root, b);
    read_pack(root, b);
    float eps = b->final_norm.eps;
    AttentionSpec attention = read_attention(c, &defaults, b->hidden, eps);
    DeltaSpec delta = read_delta(c, is_next(c), eps);
    bool mixture = is_mixture(c);
    int width = mixture ? config_size_or(c, "intermediate_size", 1) : config_size(c, "intermediate_size");
    MlpSpec mlp = standard_mlp(c, &defaults, width);
    ExpertsSpec experts = {0};
    if (mixture) experts = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, eps);
        if (mixture && standard_sparse_layer(c, i)) standard_use_experts(&b->layers[i], &experts);
    }
    put_mixers(c, b, &delta);
    if (norms_are_less_one(c, b)) put_ones(b);
    return put_rope(c, &defaults, b, attention.head_dim) && config_ok(c);
}

const Family family_qwen3_next = {"qwen3_next",    model_types,          irrelevant_keys,
                                  skipped_tensors, qwen3_next_blueprint, standard_wrapper_roots};
