/* What most families have in common: how config.json spells sizes, norms, attention, rope and feed-forward, and the
 * names of the tensors as Hugging Face and MLX write them. A family's page fills a blueprint with this and then says
 * how it differs. */
#ifndef LOCKSTEP_MODEL_STANDARD_H
#define LOCKSTEP_MODEL_STANDARD_H

#include "model/blueprint.h"
#include "model/rope_rules.h"

/* The defaults of a family, where its config may leave keys out. Zero: the key must be there, or the usual default. */
typedef struct StandardDefaults {
    double norm_eps;               /* of the key rms_norm_eps or layer_norm_eps ...; 0: 1e-6 */
    double theta;                  /* of rope_theta; 0: 10000 */
    int max_position;              /* of max_position_embeddings, n_positions; 0: 2048 */
    const char *act;               /* of hidden_act ...; NULL: "silu" */
    TieRule tie;                   /* when tie_word_embeddings is absent; TIE_UNSAID: the checkpoint decides */
    bool attention_bias, mlp_bias; /* of these keys */
    int vocab, heads;              /* of vocab_size, num_attention_heads */
    int kv_heads;                  /* of num_key_value_heads; 0, or the key null: as many as heads */
    int head_dim;                  /* of head_dim; 0: hidden / heads */
} StandardDefaults;

/* An rms norm before each half, full attention with one rope table over whole heads, a gated mlp, final norm, head: all
 * of it read and filled in. Mistakes stick in the config; false when there is one. */
bool standard_blueprint(const Config *c, const StandardDefaults *d, Blueprint *b);

/* The same without its ropes, which the caller fills. */
bool standard_layers(const Config *c, const StandardDefaults *d, Blueprint *b, int n_ropes);

/* Its parts, for families that are put together otherwise. */
void standard_model(const Config *c, const StandardDefaults *d, Blueprint *b); /* all but layers and ropes */
AttentionSpec standard_attention(const Config *c, const StandardDefaults *d, int hidden);
MlpSpec standard_mlp(const Config *c, const StandardDefaults *d,
                     int width);        /* names mlp.gate_proj, up_proj, down_proj */
void standard_feed_forward(MlpSpec *m); /* names feed_forward.gate_proj ... instead */
LayerSpec standard_layer(const AttentionSpec *a, const MlpSpec *m, float eps); /* both norms rms, before each half */
/* Layer norms in place of the rms norms of a standard blueprint, under the same names; `plus` added to their weights.
 */
void standard_layer_norms(Blueprint *b, bool bias, float plus);
/* The norms after each half instead (post_attention_layernorm, post_feedforward_layernorm). */
void standard_norm_after(LayerSpec *layer);
/* Norms before and after each half (input_, post_attention_, pre_feedforward_, post_feedforward_layernorm), with `plus`
 * added to their weights. */
void standard_norm_around(LayerSpec *layer, float plus);
/* rms norms of queries and keys: self_attn.q_norm, k_norm */
void standard_head_norms(AttentionSpec *a, HeadNormSpan span, float eps);
/* Fills b->ropes[index] from rope_theta and rope_scaling (or rope_parameters) of c. */
bool standard_rope(const Config *c, const StandardDefaults *d, Blueprint *b, int index, int dims, bool interleaved);
/* The same for rope 0 and the part of a head that partial_rotary_factor says, or `factor` where it is absent. */
bool standard_partial_rope(const Config *c, const StandardDefaults *d, Blueprint *b, double factor, bool interleaved);
/* Fills ropes[0] for full layers and ropes[1] for sliding ones, after the layers say which they have. Older configs
 * have one rope_scaling, which is for full layers alone; newer ones have a section per kind in rope_parameters, which
 * may rotate part of a head. Thetas: where no section has its own. */
bool standard_kind_ropes(const Config *c, Blueprint *b, int head_dim, double full_theta, double sliding_theta);
/* Fills b->ropes[index] with the rope of one kind of layer ("full_attention"), whose settings are a section of
 * rope_parameters; without any, theta. `partial`: the part of a head that is rotated when nothing says it. */
bool standard_kind_rope(const Config *c, Blueprint *b, int index, const char *kind, double theta, double partial,
                        int head_dim);
/* The count of layers: num_hidden_layers, n_layers, num_layers, n_layer. */
int standard_layer_count(const Config *c);
/* The labels of a sequence classifier, which architectures names; 0: the model is none. */
int standard_labels(const Config *c);
/* How many layers after those predict further tokens: num_nextn_predict_layers or num_mtp_layers. */
int standard_extra_layers(const Config *c, int otherwise);
TieRule standard_tie(const Config *c, TieRule when_absent);
/* For the text model c inside `root`: where c says nothing about the head, root does. */
void standard_root_tie(const Config *c, const Config *root, Blueprint *b);
NormSpec standard_rms(const char *weight, float eps);
NormSpec standard_layer_norm(const char *weight, const char *bias, float eps); /* bias NULL: none */
/* Matrices that a checkpoint keeps in one; biases stay as they are. Rows [from, from + n) of `total`: */
void standard_take_rows(LinearSpec *spec, const char *name, int64_t total, int64_t from, int64_t n);
/* All queries, then all keys, then all values. */
void standard_fuse_qkv(AttentionSpec *a, const char *name);
/* For each key-value head its queries, its key and its value. */
void standard_fuse_qkv_groups(AttentionSpec *a, const char *name);
/* The gate, then up. */
void standard_fuse_gate_up(MlpSpec *m, const char *name);
/* "silu", "gelu", "gelu_pytorch_tanh" ... under `key` */
Activation standard_activation(const Config *c, const char *key, const char *fallback);

/* Experts of one mlp width each, named as most families do: MLX's BASE.switch_mlp.gate_proj or BASE.experts.gate_proj
 * (stacked), one tensor per expert (BASE.experts.#.gate_proj), and transformers' fused BASE.experts.gate_up_proj
 * [experts, 2 width, hidden]. The router is BASE.gate. rule and shared are left for the family. */
typedef enum ExpertNames {
    EXPERTS_IN_MLP,
    EXPERTS_IN_BLOCK_SPARSE_MOE, /* tensors per expert: w1, w2, w3 */
    EXPERTS_IN_FEED_FORWARD
} ExpertNames; /* BASE: mlp, block_sparse_moe, feed_forward */
ExpertsSpec standard_experts(ExpertNames names, int width, Activation act);
/* What every row goes through, n times the width of one expert, or none: mlp's activation and biases, names
 * mlp.shared_experts.gate_proj ... */
MlpSpec standard_shared_experts(const Config *c, const MlpSpec *mlp, int width, int n);
/* Qwen's: one of shared_expert_intermediate_size (or `width`), mlp.shared_expert, whose output a gate multiplies. */
void standard_gated_shared_expert(const Config *c, const MlpSpec *mlp, int width, ExpertsSpec *e);
/* Whether a layer has experts, as Qwen says it: every decoder_sparse_step-th has, unless mlp_only_layers names it. */
bool standard_sparse_layer(const Config *c, int layer);
/* The same where mlp_layer_types says it ("sparse", "dense"); `otherwise` where the list is absent. */
bool standard_has_experts(const Config *c, int n_layers, int layer, bool otherwise);
/* Makes the layer's feed-forward these experts. */
void standard_use_experts(LayerSpec *layer, const ExpertsSpec *e);

/* Experts as DeepSeek-V3 has them, and all that took its router over: sigmoid scores, a correction that counts for the
 * choice alone, groups kept by the sum of their best two, weights renormalised and scaled; in mlp. The counts are
 * n_routed_experts (or num_experts, num_local_experts) and n_shared_experts (or num_shared_experts). */
typedef struct CorrectedDefaults {
    int n_experts, n_chosen, width, n_shared;
    double scale;
    bool renormalise;
} CorrectedDefaults;
ExpertsSpec standard_corrected_experts(const Config *c, const CorrectedDefaults *d, const MlpSpec *mlp);

/* Multi-head latent attention as DeepSeek spells it, for layers whose names begin with "model.layers.*.self_attn."; the
 * latents' norms have norm_eps. Defaults stand for absent keys. Without head-wise tensors (MLX's embed_q and
 * unembed_out) they are taken from kv_b_proj. The scale of the scores has yarn's mscale_all_dim in it. */
typedef struct MlaDefaults {
    int q_rank, kv_rank, nope_dim, rope_dim, v_dim;
    float norm_eps; /* 0: 1e-6 */
} MlaDefaults;
MlaSpec standard_mla(const Config *c, const MlaDefaults *d);
/* The index of its sparse form: index_n_heads, index_head_dim, index_topk (at most `context`), in self_attn.indexer.
 * Its rope is left for the family. */
IndexSpec standard_index(const Config *c, int n_heads, int context);

/* The last `shared` layers read what the last layer of their own kind (rope and window) before them stores; a mistake
 * where there is none, or where it has other widths. */
bool standard_share_keys(const Config *c, Blueprint *b, int shared);
/* Per-layer inputs as Gemma names them; width 0 where the config says so. */
PerLayerSpec standard_per_layer(const Config *c, const Blueprint *b, int width_default, int vocab_default);

/* A Mamba-2 mixer under the names that its families share ("model.layers.*.mixer." or "model.layers.*.mamba."): fills
 * what follows from m's sizes. */
void standard_ssm(SsmSpec *m, bool proj_bias, bool conv_bias, float eps);
/* dt's limits, from time_step_limit. */
void standard_ssm_limits(const Config *c, SsmSpec *m);
/* The whole of it from the keys of Bamba: mamba_n_heads, mamba_d_head, ... width: of all heads where mamba_d_head is
 * "auto"; 0: mamba_expand times hidden. */
SsmSpec standard_bamba_ssm(const Config *c, int hidden, int width, float eps);

/* A layer of PLaMo 2 and 3: fused matrices, and norms before and after each half that are kept less an offset each. The
 * norm alone, for others of theirs. */
LayerSpec standard_plamo_layer(AttentionSpec *a, MlpSpec *m, float eps);
NormSpec standard_plamo_norm(const char *weight, float eps, double plus);

/* A Mamba 1 mixer under the names that its families share ("model.layers.*.mixer." or "model.layers.*.mamba."); the
 * sizes are there before, the projections' biases and the convolution's are said. rank 0: hidden / 16, rounded up. */
Mamba1Spec standard_mamba1(const Config *c, int hidden, Mamba1Spec sizes, bool bias, bool conv_bias);
/* The number under `key`, or 0 for "auto" and when it is absent. */
int standard_mamba1_rank(const Config *c, const char *key);

/* Ling (inclusionAI), whose pages share its router, its groups of layers and its lightning attention. */
/* Whether a layer has the attention that ends a group of layer_group_size (or `size`) layers; the last layers, of no
 * whole group, have it too. */
bool standard_ling_ends_group(const Config *c, int n_layers, int layer, int size);
/* Experts scored by score_function (`score` where it is absent), with a correction where
 * moe_router_enable_expert_bias (`correction`) says so, and the shared ones. */
ExpertsSpec standard_ling_experts(const Config *c, const MlpSpec *mlp, const char *score, bool correction);
/* Lightning attention under "model.layers.*.attention."; slope_scale is left for the family, the rope is ropes[1]. */
LightningSpec standard_ling_lightning(const Config *c, int heads, int head_dim, bool head_norms, float eps);

typedef enum LayerKind { LAYER_FULL, LAYER_SLIDING, LAYER_CHUNKED, LAYER_LINEAR } LayerKind;
/* Item `layer` of layer_types; `fallback` where the list is absent. Sections may have other kinds: those are mistakes.
 */
LayerKind standard_layer_kind(const Config *c, int n_layers, int layer, LayerKind fallback);
/* Every pattern-th layer is full, the others slide. */
LayerKind standard_pattern_kind(int layer, int pattern);
/* A sliding layer sees `window` positions, a full one all. A mistake: window 0 for a sliding layer, another kind. */
bool standard_set_window(const Config *c, Blueprint *b, int layer, LayerKind kind, int window);

/* Whether a list of whole numbers has n in it; NULL has nothing. */
bool standard_lists(const JsonValue *list, int n);

/* Tensors that no forward pass needs; and, of multimodal checkpoints, where they keep their text model and what it does
 * not need. */
extern const char *const standard_skipped_tensors[];
extern const NameRoot standard_wrapper_roots[];
extern const char *const standard_wrapper_skipped_tensors[];

#endif
