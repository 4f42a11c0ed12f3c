/* Binding: every weight that a blueprint names is found in the checkpoint once, its shape checked, and only when all of
 * them are right is memory taken. The step never looks a name up. */
#ifndef LOCKSTEP_MODEL_BIND_H
#define LOCKSTEP_MODEL_BIND_H

#include "base/arena.h"
#include "math/linear.h"
#include "model/blueprint.h"
#include "model/published.h"

typedef struct Norm {
    const float *weight, *bias; /* NULL: none */
} Norm;

typedef struct Conv {
    const float *weights; /* [kernel][channels] */
    const float *bias;    /* [channels] or NULL */
} Conv;

typedef struct AttentionWeights {
    const Linear *q, *k, *v, *o, *gate;
    Norm q_norm, k_norm, v_norm, o_norm;
    const float *sinks, *q_gain, *k_grid, *v_grid, *second_weight, *second_bias;
    Conv k_conv, v_conv;
    Norm head_norm;
    const Linear *index_q, *index_k;
    Norm index_q_norm, index_k_norm;
} AttentionWeights;

typedef struct IndexWeights {
    const Linear *q, *k, *weights;
    Norm k_norm;
} IndexWeights;

typedef struct MlaWeights {
    const Linear *q_a, *q, *kv_a, *k_rope, *gate, *o;
    const Linear **embed_q, **unembed; /* [n_heads] */
    Norm q_norm, kv_norm;
    IndexWeights index;
} MlaWeights;

typedef struct PoolWeights {
    const Linear *kv, *gate;
    const float *bias;
    Norm norm;
} PoolWeights;

typedef struct CompressedWeights {
    const Linear *q_a, *q, *kv, *o;
    const Linear **o_a; /* [n_groups] */
    Norm q_a_norm, q_norm, kv_norm;
    const float *sinks;
    PoolWeights pool, index_pool;
    IndexWeights index;
} CompressedWeights;

typedef struct HyperWeights {
    const Linear *fn;
    const float *base, *scale;
} HyperWeights;

typedef struct SsmWeights {
    const Linear *z, *x, *b, *c, *dt_down, *dt, *o;
    Conv x_conv, b_conv, c_conv;
    const float *rate, *dt_bias, *d; /* rate: -exp(a_log) */
    Norm norm, dt_norm, b_norm, c_norm;
} SsmWeights;

typedef struct ShortConvWeights {
    const Linear *b, *c, *x, *o;
    Conv conv;
} ShortConvWeights;

typedef struct DeltaWeights {
    const Linear *q, *k, *v, *o, *a_down, *a, *z_down, *z, *b;
    Conv q_conv, k_conv, v_conv;
    const float *rate, *dt_bias; /* rate: -exp(a_log) */
    Norm norm;
} DeltaWeights;

typedef struct Mamba1Weights {
    const Linear *x, *z, *o, *dt_down, *b, *c, *dt;
    Conv conv;
    Norm dt_norm, b_norm, c_norm;
    const float *rate, *skip; /* rate: -exp(a_log), [d_state][channels] */
} Mamba1Weights;

typedef struct LightningWeights {
    const Linear *q, *k, *v, *gate, *o;
    Norm q_norm, k_norm, norm;
    const float *decay; /* [heads] */
} LightningWeights;

typedef struct RglruWeights {
    const Linear *x, *y, *o, **x_gate, **a_gate; /* gates: [heads] */
    Conv conv;
    const float *x_gate_bias, *a_gate_bias, *rate;
} RglruWeights;

typedef struct LatentWeights {
    const Linear *down, *up; /* NULL: none */
} LatentWeights;

typedef struct Rwkv7Weights {
    const Linear *r, *k, *v, *o;
    LatentWeights decay, correct, first, gate;
    const float *mix_r, *mix_k, *mix_v, *mix_decay, *mix_correct, *mix_gate;
    const float *k_unit, *k_correct, *bonus;
    Norm norm;
} Rwkv7Weights;

typedef struct ChannelMixWeights {
    const Linear *key, *value;
    const float *mix;
} ChannelMixWeights;

typedef struct ResidualWeights {
    Norm norm;
    const Linear *proj;
} ResidualWeights;

typedef struct ClassifierWeights {
    const Linear *dense, *score; /* dense NULL: none */
    Norm norm;
} ClassifierWeights;

typedef struct MlpWeights {
    const Linear *gate, *up, *down;
    Norm inner;
    const float *alpha_p, *alpha_n, *beta, *eps; /* of xIELU; NULL: another activation */
} MlpWeights;

typedef struct ExpertsWeights {
    const Linear *router, *shared_gate, *mix;
    const float *correction;
    const int32_t *by_token;           /* NULL: the router chooses */
    const Linear **gate, **up, **down; /* [experts] */
    const Linear *latent_in, *latent_out;
    Norm latent_norm, latent_in_norm, each_norm;
    const float *expert_scale;
    MlpWeights shared;
    Norm router_norm, input_norm, dense_out, experts_out;
} ExpertsWeights;

/* The weights of a layer, beside its LayerSpec. The Linears and vectors belong to the Weights that made them. */
typedef struct LayerWeights {
    Norm enter_norm, mixer_norm, ffn_norm, mixer_out, ffn_out, mid_norm, output_norm;
    ResidualWeights mixer_residual, ffn_residual;
    AttentionWeights attention;
    MlaWeights mla;
    CompressedWeights compressed;
    DeltaWeights delta;
    ShortConvWeights short_conv;
    SsmWeights ssm;
    Mamba1Weights mamba1;
    LightningWeights lightning;
    RglruWeights rglru;
    Rwkv7Weights rwkv7;
    ChannelMixWeights channel_mix;
    MlpWeights mlp;
    ExpertsWeights experts;
    const Linear *per_layer_gate, *per_layer_out;
    Norm per_layer_norm;
    const Linear *mixer_matrix, *ffn_matrix;
    const Linear *laurel_left, *laurel_right;
    Norm laurel_norm;
    const Linear *altup_router, *altup_predict, *altup_correct;
    Norm altup_norm;
    const float *altup_scale;
    HyperWeights hyper_mixer, hyper_ffn;
    const float *mixer_gate, *ffn_gate;
    const float *scalar, *skip;
} LayerWeights;

typedef struct Weights {
    LayerWeights *layers;
    const Linear *embedding, *head; /* the same one when tied; head NULL: there is none */
    const Linear *positions, *token_types;
    Norm embedding_norm, final_norm;
    ResidualWeights out_residual;
    const float *logit_gain;
    ClassifierWeights classifier;
    const Linear *per_layer_embedding, *per_layer_projection;
    const Linear **altup_embed, **altup_unembed; /* [streams - 1] */
    const Linear **ngram_tables, **ngram_projections;
    Norm per_layer_norm;
    HyperWeights hyper_end;
    float embedding_scale; /* as it is to be used */
    Linear **linears;      /* all that are owned, in the order of binding */
    float **vectors;
    void **copies; /* float weights that do not lie in the file as they are used */
    int n_linears, n_vectors, n_copies;
    size_t bytes_again; /* of matrices that a step reads again in later layers */
    char **formats;     /* of each linear, for inspect: "affine 4-bit g64" */
    char **skipped;     /* names of tensors that the family does not use; owned */
    int n_skipped;
    char *quantization; /* how a published checkpoint is quantised, in words; NULL: none. Owned */
    Arena arena;        /* lists of experts */
} Weights;

typedef struct Binder Binder;

/* Asks for module `spec` of layer `layer` (-1: outside the layers) as a [rows, cols] matrix, with its bias if it has
 * one. *out is set when memory is taken. Nothing to do for a spec without a name. Errors name the tensor, the expected
 * and the found shape. */
bool bind_linear(Binder *b, const LinearSpec *spec, int layer, int64_t rows, int64_t cols, const Linear **out);
/* The same for one of several modules outside the layers, whose numbers stand for '#'. */
bool bind_numbered(Binder *b, const LinearSpec *spec, int number, int64_t rows, int64_t cols, const Linear **out);
/* Asks for `n` experts of [rows, cols] each, in whichever of the forms the checkpoint has: a form with '#' in its name
 * has a tensor per expert, one without has them stacked [n, rows, cols]. forms: ended by one without a name. *out: [n].
 */
bool bind_experts(Binder *b, const LinearSpec *forms, int layer, int n, int64_t rows, int64_t cols,
                  const Linear ***out);
/* Asks for a float tensor of n values, as [n] or any shape with that many values; copied to f32, `plus` added. */
bool bind_vector(Binder *b, const char *name, int layer, int64_t n, float plus, const float **out);
/* Asks for a tensor of n whole numbers from 0 to limit - 1. */
bool bind_ids(Binder *b, const char *name, int layer, int64_t n, int limit, const int32_t **out);
/* A convolution over time of `channels` channels, in either layout's order; laid out [kernel][channels]. */
bool bind_conv(Binder *b, const ConvSpec *spec, int layer, int channels, int kernel, Conv *out);
/* The rates at which a state fades, formed of a tensor [channels, dims] (dims 1: [channels]); laid out
 * [dims][channels]. */
typedef enum RateForm {
    RATE_NONE,
    RATE_EXP,      /* -exp(value) */
    RATE_SOFTPLUS, /* -8 softplus(value) */
} RateForm;
bool bind_rates(Binder *b, RateForm form, const char *name, int layer, int channels, int dims, const float **out);
/* A norm over n values. */
bool bind_norm(Binder *b, const NormSpec *spec, int layer, int64_t n, Norm *out);
/* A norm over each of n heads with weights of its own: one tensor [n * dim], or, with '#' in its name, one per head. */
bool bind_head_norms(Binder *b, const NormSpec *spec, int layer, int n, int64_t dim, Norm *out);
/* Room for n floats that a mechanism forms from its spec alone, for as long as the weights live. NULL: out of memory.
 */
float *bind_floats(Binder *b, int n);
/* A spec that cannot be: "model.layers.3...: reason". Returns false. */
bool bind_fail(Binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int bind_hidden(const Binder *b);
int bind_vocab(const Binder *b);

/* ignored: --ignore-config, of which those of quantization_config are asked for here. */
bool weights_bind(const Names *names, const Blueprint *blueprint, const Family *family, const IgnoredKeys *ignored,
                  Pool *pool, Weights *out, Error *err);
void weights_clear(Weights *w);

#endif
