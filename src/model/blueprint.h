/* A blueprint: what a model is, as plain data. Layer by layer it says which norms stand where, which mixer with which
 * fields, which feed-forward, and which tensor names hold the weights. A family turns config.json into one; the decoder
 * runs any. A field left zero means that the mechanism has no such part.
 *
 * Tensor names are templates (names.h). A module's weight is NAME.weight, its bias NAME.bias. */
#ifndef LOCKSTEP_MODEL_BLUEPRINT_H
#define LOCKSTEP_MODEL_BLUEPRINT_H

#include "math/ops.h"
#include "math/rope.h"
#include "math/router.h"
#include "model/classifier.h"
#include "model/config.h"
#include "model/names.h"

/* A mechanism is one file under mixers/ or ffn/: mechanism.h. */
typedef struct Mechanism Mechanism;
typedef struct Family Family;

/* Which rows of a fused tensor make a matrix: output i is row from + (i / take) * period + i % take of `total` rows. */
typedef struct RowSlice {
    int64_t total; /* 0: the tensor is the matrix */
    int64_t from, take, period;
} RowSlice;

/* Several matrices as blocks of rows of one tensor: the i-th begins at row from + i * stride of `total`. */
typedef struct RowBlocks {
    int64_t total; /* 0: no blocks */
    int64_t from, stride;
} RowBlocks;

typedef struct LinearSpec {
    const char *name; /* NULL: there is none */
    bool bias;
    RowSlice rows;
    RowBlocks blocks; /* in a list of experts or heads, in place of `rows` */
    bool transposed;  /* the tensor, or the block, is [inputs, outputs], as GPT-2 saves it */
    bool unit_rows;   /* float rows are divided by their length and rounded to their type again */
    bool bare;        /* the tensor is NAME, and its bias NAME_bias */
} LinearSpec;

enum { EXPERT_FORMS = 4 }; /* of a list of experts or heads, ended by one without a name: bind_experts */

typedef enum NormKind {
    NORM_NONE,
    NORM_RMS,    /* x / sqrt(mean(x^2) + eps) * weight */
    NORM_LAYER,  /* (x - mean) / sqrt(variance + eps) * weight + bias */
    NORM_SCALED, /* x * weight, divided by the root of its mean square: the weight comes first */
    NORM_GAIN,   /* x * weight, one number for all */
} NormKind;

typedef struct NormSpec {
    NormKind kind;
    const char *weight, *bias; /* whole tensor names; NULL: none */
    float eps;
    float plus; /* added to the weight when it is read: 1 where the checkpoint stores weight - 1 */
} NormSpec;

/* One rotary table and where it came from. longrope has two: a prefix of at most `boundary` tokens uses `table` for all
 * its positions, a longer one `long_table`. */
typedef struct RopeSpec {
    RopeTable table;
    RopeTable long_table; /* inv_freq NULL: there is none */
    int boundary;         /* 0 without long_table; equal in all ropes of a blueprint that have one */
    const char *rule;     /* "default", "linear", ...: rope_rules.h; static text */
    double theta, factor;
} RopeSpec;

/* A norm of queries, keys or values between the projection and the scores. */
typedef enum HeadNormSpan {
    SPAN_HEAD,       /* each head by itself, all with one weight [head_dim] */
    SPAN_EVERY_HEAD, /* each head by itself, each with its own: weight [heads, head_dim] or [heads * head_dim] */
    SPAN_ALL,        /* all heads as one vector: weight [heads * head_dim] */
} HeadNormSpan;

typedef struct HeadNormSpec {
    NormSpec norm;
    HeadNormSpan span;
} HeadNormSpec;

typedef enum GateKind {
    GATE_NONE,
    GATE_ELEMENT, /* one value per output of attention */
    GATE_HEAD,    /* one value per head */
} GateKind;

/* Queries at position p are multiplied by 1 + beta * ln(1 + floor((p + offset) / length)). */
typedef struct PositionScale {
    double beta; /* 0: none */
    int length, offset;
} PositionScale;

/* A causal convolution over time, channel by channel: channels [from, from + n) of a tensor [total, 1, kernel] (or
 * [total, kernel, 1]).
 */
typedef struct ConvSpec {
    const char *name; /* whole tensor name; NULL: there is none */
    const char *bias; /* [total]; NULL: none */
    int64_t total, from;
    int each; /* channels, one after the other, that share one of them; 0: 1. Without bias then */
} ConvSpec;

/* Which blocks of positions a head sees, of the blocks up to its row's own: the last `local` of them, and block j where
 * j + head + 1 is a multiple of `stride`. */
typedef struct BlockPattern {
    int block; /* positions; 0: no pattern */
    int local, stride;
} BlockPattern;

/* Which blocks of positions the heads of a key-value head see: those whose index keys answer its index query best, and
 * the last few. The index is rotated as the attention is. */
typedef struct BlockIndexSpec {
    int n_heads, head_dim; /* a head for each key-value head */
    int block, n_chosen;   /* positions of a block, blocks that are seen; n_chosen 0: no index */
    int n_local;           /* blocks at the end that always are */
    LinearSpec q, k;       /* [n_heads * head_dim, hidden], [head_dim, hidden] */
    NormSpec q_norm, k_norm;
} BlockIndexSpec;

/* A second reading of an earlier layer's keys and values, all of them. Per head the result is
 * g * second + (1 - g) * own with g = sigmoid(query . weight + bias), of the rotated query. */
typedef struct SecondReading {
    const char *weight, *bias; /* tensors [n_heads, head_dim], [n_heads]; NULL: there is none */
    int layer;
} SecondReading;

typedef struct AttentionSpec {
    int n_heads, n_kv_heads, head_dim;
    int v_dim;  /* dims of a value; 0: head_dim */
    int rope;   /* index into Blueprint.ropes; NO_ROPE */
    int window; /* a row at p sees p - window + 1 .. p; 0: all before it */
    int chunk;  /* a row at p sees from p - p % chunk on; 0: no such limit */
    BlockPattern blocks;
    BlockIndexSpec block_index;
    bool both_ways; /* of an encoder: a row sees the rows after it too, up to window - 1 away; nothing is kept */
    bool tiled;     /* query head h reads key-value head h % n_kv_heads, not h / (n_heads / n_kv_heads) */
    float scale;    /* of the scores */
    float softcap;  /* scores become cap * tanh(score / cap) */
    float v_scale;  /* of the values; 0: 1 */
    float clip;     /* q, k and v are limited to -clip .. clip, after their norms and before rotation */
    LinearSpec q, k, v, o;
    bool v_is_k; /* values are the keys as projected, before norm and rotation */
    int donor;   /* when shared: the earlier layer whose keys and values are read; this layer stores none */
    bool shared;
    /* Keys and values as the last layer that lends them projected them, normed, rotated and stored by this one. */
    bool lends, borrows;
    HeadNormSpec q_norm, k_norm, v_norm;
    bool norm_after_rope;        /* q_norm and k_norm act on rotated vectors */
    const char *q_gain;          /* tensor [n_heads] that multiplies the heads of normed and rotated queries */
    const char *k_grid, *v_grid; /* tensors [1]: what is stored are multiples of it, from -128 to 127 */
    SecondReading second;
    ConvSpec k_conv, v_conv; /* of keys and values as they were projected, over the last `kernel` positions */
    int kernel;
    PositionScale position_scale;
    const char *sinks;  /* tensor [n_heads]: one more logit per head, without a value */
    NormSpec head_norm; /* of what each head gives, before the gate: [v_dim] */
    LinearSpec gate;    /* from the mixer's input */
    GateKind gate_kind;
    Activation gate_act; /* ACT_SIGMOID */
    NormSpec o_norm;     /* before the output projection, over all heads */
} AttentionSpec;

enum { NO_ROPE = -1 };

/* Which positions a layer of latent attention sees: those whose index keys answer its index queries best. */
typedef struct IndexSpec {
    int n_heads, head_dim;
    int n_chosen;             /* positions a row keeps, at most the context; 0: it sees all */
    bool shared;              /* what the last layer with an index chose; no index of its own */
    int rope;                 /* of the first dims of a head */
    LinearSpec q, k, weights; /* [n_heads * head_dim, q_rank], [head_dim, hidden], [n_heads, hidden] */
    NormSpec k_norm;
} IndexSpec;

/* Multi-head latent attention: keys and values of all heads come from one latent vector per position, which is what the
 * cache holds. */
typedef struct MlaSpec {
    int n_heads, nope_dim, rope_dim, v_dim; /* of a head: dims without and with rotation, dims of its value */
    int q_rank, kv_rank;                    /* q_rank 0: queries come straight from the input */
    int rope;                               /* index into Blueprint.ropes; NO_ROPE */
    float scale;                            /* of the scores */
    float q_scale, kv_scale;                /* of the normed query and key-value latents; 0: 1 */
    LinearSpec q_a, q;                      /* [q_rank, hidden]; [n_heads * (nope_dim + rope_dim), q_rank or hidden] */
    LinearSpec kv_a, k_rope, o;             /* [kv_rank, hidden], [rope_dim, hidden], [hidden, n_heads * v_dim] */
    LinearSpec embed_q[EXPERT_FORMS];       /* per head [kv_rank, nope_dim]: queries into the latent space */
    LinearSpec unembed[EXPERT_FORMS];       /* per head [v_dim, kv_rank]: mixed latents into values */
    NormSpec q_norm, kv_norm;               /* of the latents */
    PositionScale position_scale;
    LinearSpec gate; /* [n_heads, hidden]: its sigmoid multiplies what the heads give */
    bool gate_each;  /* [n_heads * v_dim, hidden] instead: it multiplies value by value */
    IndexSpec index; /* q_rank is not 0 then */
} MlaSpec;

/* How an entry comes of several rows: channel by channel a softmax over their gates weighs their values; then a norm.
 */
typedef struct PoolSpec {
    int every; /* rows that make an entry; 0: none */
    int dim;
    bool overlap;        /* half of the channels [2 * dim] are a row's part in the entry after its own */
    LinearSpec kv, gate; /* [dim or 2 * dim, hidden]; gate without name: every is 1 */
    const char *bias;    /* tensor [every, dim or 2 * dim] added to the gates; NULL: none */
    NormSpec norm;
} PoolSpec;

/* DeepSeek-V4's attention: all heads read one key, which is the value as well, in a window, and beside it entries that
 * each stand for `pool.every` positions, all those complete or those that an index chooses. The last rope_dim dims of
 * a head are rotated, and what was read is rotated back. */
typedef struct CompressedSpec {
    int n_heads, head_dim, rope_dim, q_rank;
    int window;
    int rope;                           /* index into Blueprint.ropes: of the last rope_dim dims */
    float scale;                        /* of the scores */
    LinearSpec q_a, q, kv;              /* [q_rank, hidden], [n_heads * head_dim, q_rank], [head_dim, hidden] */
    NormSpec q_a_norm, q_norm, kv_norm; /* q_norm: of each head */
    const char *sinks;                  /* tensor [n_heads] */
    int n_groups, o_rank;               /* heads in so many groups give o_rank values each */
    LinearSpec o_a[EXPERT_FORMS], o;    /* [o_rank, n_heads * head_dim / n_groups] each, [hidden, n_groups * o_rank] */
    bool rounds;    /* keys, entries and what the index compares are rounded to small float formats */
    PoolSpec pool;  /* every 0: no entries of its own */
    int pool_layer; /* whose entries it reads, of `every` positions: its own or an earlier one's; -1: none */
    int every;
    IndexSpec index; /* n_chosen 0: it reads all entries. k: of entries; else index_pool makes the keys */
    PoolSpec index_pool;
    /* Blocks of entries that one layer's index leaves to those of later layers, which read entries of as many
     * positions:
     */
    int block, n_candidates; /* entries of a block, and blocks; 0: none */
    bool keeps_candidates;   /* this layer's index does not choose from them, but which they are */
    int index_layer;         /* whose index keys it asks: its own or an earlier one's */
} CompressedSpec;

/* Mamba-2 (arXiv:2405.21060): a matrix state per head that decays by one factor per token and head. Queries and keys (C
 * and B) are shared by the heads of a group. */
typedef struct SsmSpec {
    int heads, head_dim, state, groups, kernel;
    LinearSpec z, x, b, c, dt,
        o; /* [heads * head_dim, hidden] twice, [groups * state, hidden] twice, [heads, hidden] */
    ConvSpec x_conv, b_conv, c_conv; /* then silu */
    /* PLaMo 2: b, c and dt come of the convolved x, as in Mamba 1, and are not convolved; each is normed, dt as a
     * latent of `rank`. 0: none of this. */
    int rank;
    LinearSpec dt_down; /* [rank, heads * head_dim]; b and c are [groups * state, heads * head_dim] then */
    NormSpec dt_norm, b_norm, c_norm;                   /* dt: [rank]; b and c: [groups * state] */
    const char *a_log, *dt_bias, *d;                    /* tensors [heads] */
    float dt_min, dt_max;                               /* of softplus(dt + dt_bias) */
    float z_scale, x_scale, b_scale, c_scale, dt_scale; /* of what each projection gives; 0: 1 */
    NormSpec norm;                                      /* of out * silu(z), group by group; NORM_NONE: none */
    bool norm_first;                                    /* of out, and then times silu(z) */
} SsmSpec;

/* Of mixer_ssm_beside_attention, where Mamba-2 and attention read the same rows and what they give is added: scales of
 * what each reads and gives; 0: 1. */
typedef struct BesideSpec {
    float ssm_in, ssm_out, attention_in, attention_out;
} BesideSpec;

/* A gated short convolution (LFM2): out(c * conv(b * x)). */
typedef struct ShortConvSpec {
    int kernel;
    LinearSpec b, c, x, o; /* [hidden, hidden] each */
    ConvSpec conv;
} ShortConvSpec;

/* The gated delta rule: a matrix state per value head, which forgets, corrects what it holds for a key and is asked
 * with a query. */
typedef struct DeltaSpec {
    int k_heads, v_heads, k_dim, v_dim, kernel; /* v_heads is a multiple of k_heads */
    bool tiled;                                 /* value head h has key head h % k_heads, not h / (v_heads / k_heads) */
    LinearSpec q, k, v, o;
    ConvSpec q_conv, k_conv, v_conv; /* after each projection, then silu */
    LinearSpec a_down, a;            /* the decay's input; a_down: it goes through a latent of a_rank */
    LinearSpec z_down, z;            /* the output's gate, likewise with z_rank */
    int a_rank, z_rank;
    LinearSpec b;                /* [v_heads]: how much of a correction is written, after a sigmoid */
    float b_scale;               /* of that sigmoid; 0: 1 */
    const char *a_log, *dt_bias; /* tensors: decay = exp(-exp(a_log) * softplus(a + dt_bias)) */
    float decay_floor;           /* not 0: decay = exp(decay_floor * sigmoid(exp(a_log) * (a + dt_bias))) instead */
    bool decay_each;             /* a decay per key channel and value head, not per value head */
    NormSpec norm;               /* of each head's output, [v_dim] */
    Activation gate_act;         /* of z, which multiplies the normed output */
} DeltaSpec;

/* Mamba 1: a state of d_state values per channel, whose step size, input and output weights the token chooses. */
typedef struct Mamba1Spec {
    int channels, d_state, rank, kernel;
    LinearSpec x, z, o;               /* [channels, hidden], twice; [hidden, channels] */
    ConvSpec conv;                    /* of x, then silu */
    LinearSpec dt_down, b, c;         /* of the convolved x: [rank, channels], [d_state, channels] twice */
    LinearSpec dt;                    /* [channels, rank]: the step size, after a softplus */
    NormSpec dt_norm, b_norm, c_norm; /* of what these three give, before dt */
    const char *a_log, *skip;         /* tensors [channels, d_state], [channels] */
} Mamba1Spec;

/* How fast the heads of lightning attention forget: head h of n has the slope 2^(-8 (h + 1) / n); with SLOPES_SPLIT, as
 * ALiBi (arXiv:2108.12409) has it, only where n is a power of two. Else the first p heads, the power below n, have
 * those of p heads, and the rest every other one of those of 2 p. */
typedef enum SlopeRule { SLOPES_EVEN, SLOPES_SPLIT } SlopeRule;

/* Lightning attention: a matrix state per head, which decays at a rate that is fixed for the head, takes in keys times
 * values and is asked with a query. */
typedef struct LightningSpec {
    int heads, head_dim;
    LinearSpec q, k, v, gate, o; /* [heads * head_dim, hidden], and back */
    Activation act;              /* of q, k and v as they were projected */
    NormSpec q_norm, k_norm;     /* of each head, before rotation: [head_dim] */
    int rope;                    /* index into Blueprint.ropes; NO_ROPE */
    float q_scale;               /* 0: 1 */
    SlopeRule slopes;
    float slope_scale; /* decay = exp(-slope_scale * slope) */
    NormSpec norm;     /* of what the heads give, group by group: [heads * head_dim] */
    int norm_groups;   /* the sigmoid of the gate multiplies its result */
} LightningSpec;

/* The real-gated linear recurrent unit of Griffin: out(act(y(x)) * lru(conv(x(x)))), the unit channel by channel, with
 * two gates of its input, head by head. */
typedef struct RglruSpec {
    int heads, width, kernel; /* width: of all heads */
    LinearSpec x, y, o;       /* [width, hidden], twice; [hidden, width] */
    Activation act;           /* of y */
    ConvSpec conv;
    LinearSpec x_gate[2], a_gate[2]; /* per head [width / heads, width / heads], then a sigmoid; ended by none */
    const char *x_gate_bias, *a_gate_bias, *rate; /* tensors [width]; rate: -8 softplus of it */
} RglruSpec;

/* A projection through a latent: up(act(down(x))). */
typedef struct LatentSpec {
    int rank;
    LinearSpec down, up;
    Activation act;
} LatentSpec;

/* RWKV 7's time mixing (arXiv:2503.14456): a matrix state per head, which fades channel by channel, and whose values
 * for a key are corrected as far as the token says. Every projection reads its own mix of a row and the one before it.
 */
typedef struct Rwkv7Spec {
    int heads, head_dim;                    /* heads * head_dim: hidden */
    LinearSpec r, k, v, o;                  /* [hidden, hidden] */
    LatentSpec decay, correct, first, gate; /* hidden to hidden */
    const char *mix_r, *mix_k, *mix_v;      /* tensors [hidden]: how much of the row before */
    const char *mix_decay, *mix_correct, *mix_gate;
    const char *k_unit, *k_correct, *bonus; /* tensors [hidden]; bonus: how much of the values passes the state by */
    NormSpec norm;                          /* of what each head gives, with its own weights */
    bool lends;                             /* its values are what the layers after it mix with their own, by `first` */
} Rwkv7Spec;

/* RWKV's channel mixing: value(relu(key(mix))^2), where mix is of a row and the one before it. */
typedef struct ChannelMixSpec {
    int hidden, width;
    LinearSpec key, value; /* [width, hidden], [hidden, width] */
    const char *mix;       /* tensor [hidden] */
} ChannelMixSpec;

/* down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate. */
typedef struct MlpSpec {
    int width;
    Activation activation;
    LinearSpec gate, up, down;
    float gate_limit; /* gate at most this, before the activation */
    float act_limit;  /* act(gate) at most this */
    float up_limit;   /* up within -limit .. limit */
    float up_plus;    /* added to up, after its limit */
    float situ;       /* not 0: SiTU in place of the activation, situ * tanh(gate / situ) * sigmoid(gate) */
    float situ_up;    /* up becomes situ_up * tanh(up / situ_up) then; 0: up stays */
    float gate_scale; /* of gate before the activation */
    float out_scale;  /* of the result */
    NormSpec inner;   /* before down, over the width */
    /* tensors [1] of xIELU, the activation then (without a gate); alpha_p NULL: none */
    struct {
        const char *alpha_p, *alpha_n, *beta, *eps;
    } xielu;
    float sparsity; /* the gate keeps what exceeds its row's mean by this many deviations, less that; 0: all */
} MlpSpec;

/* Routed experts: each row goes through the few that the router chooses for it. */
typedef struct ExpertsSpec {
    RouterRule rule; /* how many experts, how many are chosen, and how */
    LinearSpec router;
    float router_softcap; /* logits become cap * tanh(logit / cap); 0: none */
    const char *by_token; /* tensor [vocab, chosen] of whole numbers: a token's experts, which the router only weighs */
    const char *correction; /* tensor [experts] added to the scores for the choice alone */
    /* Where the weights may be, ended by one without a name: bind_experts says how forms are told apart. */
    LinearSpec gate[EXPERT_FORMS], up[EXPERT_FORMS], down[EXPERT_FORMS];
    int latent;                       /* the width in which experts work, in place of the hidden one; 0: none */
    LinearSpec latent_in, latent_out; /* [latent, hidden] of what they read, [hidden, latent] of their weighed sum */
    NormSpec latent_norm;             /* of that sum, before latent_out */
    NormSpec latent_in_norm;          /* of what latent_in gives */
    NormSpec each_norm;               /* of what each expert gives, before it is weighed */
    int n_identity;                   /* the last of the rule's experts give back their input, and have no weights */
    MlpSpec expert;                   /* width, activation, limits of one; its names are not used */
    bool weigh_inputs;                /* an expert's weight multiplies its input, not its output */
    MlpSpec shared;                   /* an expert for every row, added; width 0: none */
    LinearSpec shared_gate;           /* [1, hidden]: the shared one's output is multiplied by its sigmoid */
    LinearSpec mix;                   /* [2, hidden]: its softmax weighs the routed sum and the shared one */
    float routed_scale;               /* of the sum over chosen experts; 0: 1 */
    const char *expert_scale;         /* tensor [experts] that multiplies the weights of those chosen */
    /* Of ffn_mlp_beside_experts, where the dense mlp runs side by side with the experts, and both read the hidden rows:
     */
    NormSpec router_norm, input_norm; /* of what the router and the experts read */
    float router_scale;               /* of the router's input, after its norm */
    NormSpec dense_out, experts_out;  /* of each side's result, before they are added */
} ExpertsSpec;

/* Gemma 3n and 4: every layer has an embedding of its own, of the token and of its place in the model's input, which is
 * gated by the hidden row and added to it after the feed-forward. */
typedef struct PerLayerSpec {
    int width, vocab;                    /* of each layer's embedding; width 0: there is none */
    LinearSpec embedding;                /* [vocab, n_layers * width] */
    LinearSpec projection;               /* [n_layers * width, hidden] */
    NormSpec norm;                       /* of each layer's projection */
    float embedding_scale, hidden_scale; /* of the embedding, and of the projection before its norm */
    LinearSpec gate, out;                /* per layer: [width, hidden], [hidden, width] */
    Activation act;                      /* of the gate */
    NormSpec out_norm;
} PerLayerSpec;

/* Embeddings of n-grams (LongCat-Flash's n-gram form): for every length from 2 to `longest` a few tables, each read at
 * the n-gram that ends at the position, taken as a number in base vocab, modulo the table's rows. What they give is
 * projected and added to the token's own embedding, and the mean of all these is what the layers read. */
typedef struct NgramSpec {
    int longest, tables;          /* tokens of the longest one, 0: there are none; tables per length */
    int rows, dim;                /* of the first table; the i-th has 2 i more rows */
    LinearSpec table, projection; /* names with '#': [rows + 2 #, dim], [hidden, dim] */
} NgramSpec;

/* AltUp (Baykal et al., arXiv:2301.13310): several hidden streams, of which each layer computes one and corrects the
 * others. */
typedef struct AltUpSpec {
    int n, active;             /* streams; 0: there is one, and none of this. Which of them the layers compute */
    LinearSpec embed, unembed; /* name with '#': [hidden, hidden] into and out of stream # + 1 */
    NormSpec router_norm;      /* per layer, as are the following */
    LinearSpec router, predict, correct; /* [n, hidden], [n * n, n], [n, n] */
    const char *correct_scale; /* tensor [hidden] that multiplies what the per-layer input reads; NULL: none */
} AltUpSpec;

/* A learned low-rank residual beside the mixer: both are added to the hidden row, and the sum divided by sqrt(2). */
typedef struct LaurelSpec {
    int rank; /* 0: none */
    LinearSpec left, right;
    NormSpec norm;
} LaurelSpec;

/* Attention over residuals: the hidden rows as they were where blocks of layers began, and as they are now, are mixed
 * with the softmax of proj(norm(each)), which is what a half of a layer reads. */
typedef struct ResidualSpec {
    NormSpec norm;
    LinearSpec proj; /* [1, hidden] */
} ResidualSpec;

/* Which tensors say how hidden streams are mixed: fn [mixes, n * hidden], base [mixes], scale. */
typedef struct HyperNames {
    LinearSpec fn;
    const char *base, *scale;
} HyperNames;

/* Manifold-constrained hyper-connections (Xie et al., arXiv:2512.24880): n hidden streams, of which a half of a layer
 * reads a weighted sum; its result is added to each with a weight, and the streams are mixed by a matrix whose rows and
 * columns sum to 1. All weights come from the streams. */
typedef struct HyperSpec {
    int n;      /* streams; 0: there is one, and none of this */
    int rounds; /* of making rows and columns sum to 1 */
    float eps, norm_eps;
    bool delayed;          /* the weights of a half's sum come from the half before; the first reads stream 0 */
    HyperNames mixer, ffn; /* [(2 + n) * n] mixes: of the sum, of the result, of the matrix; scale [3] */
    HyperNames end;        /* [n] mixes of the sum that the head reads, scale [1]; no name: delayed ones */
} HyperSpec;

/* A half's result y is added to the hidden row x as a x + b y, channel by channel: b = sigmoid(gate / temperature) and
 * a = sqrt(max(sigmoid(-gate / temperature) * (1 + b), 1e-3)). */
typedef struct ResidualGateSpec {
    const char *gate; /* tensor [hidden]; NULL: x + y */
    float temperature;
} ResidualGateSpec;

typedef struct LayerSpec {
    int names_back;      /* '*' in its names is its number less this: layers that run again, or are counted anew */
    NormSpec enter_norm; /* of the hidden rows before all else: what goes on from there */
    NormSpec mixer_norm, ffn_norm; /* before each */
    NormSpec mixer_out, ffn_out;   /* after each, before it is added */
    NormSpec mid_norm;             /* of the hidden rows once the mixer's are added: what goes on from there */
    bool parallel; /* both halves read the layer's input (the mixer's norm where ffn_norm is none) and are added at once
                    */
    float mixer_scale, ffn_scale;          /* of each half's result; 0: 1 */
    float mixer_keep, ffn_keep;            /* of the hidden rows before it is added; 0: 1. Not with `parallel` */
    ResidualGateSpec mixer_gate, ffn_gate; /* not with `parallel` */
    LaurelSpec laurel;
    /* Where Blueprint.residual_block is not 0. */
    ResidualSpec mixer_residual, ffn_residual;
    const Mechanism *mixer;     /* NULL: none */
    AttentionSpec attention;    /* of mixer_attention */
    MlaSpec mla;                /* of mixer_mla */
    CompressedSpec compressed;  /* of mixer_compressed */
    DeltaSpec delta;            /* of mixer_delta */
    ShortConvSpec short_conv;   /* of mixer_short_conv */
    SsmSpec ssm;                /* of mixer_mamba2 */
    BesideSpec beside;          /* of mixer_ssm_beside_attention, which has ssm and attention too */
    Mamba1Spec mamba1;          /* of mixer_mamba1 */
    LightningSpec lightning;    /* of mixer_lightning */
    RglruSpec rglru;            /* of mixer_rglru */
    Rwkv7Spec rwkv7;            /* of mixer_rwkv7 */
    ChannelMixSpec channel_mix; /* of mixer_channel_mix */
    LinearSpec mixer_matrix;    /* of mixer_matrix: [hidden, hidden] */
    const Mechanism *ffn;       /* NULL: none */
    MlpSpec mlp;                /* of ffn_mlp */
    ExpertsSpec experts;        /* of ffn_experts */
    LinearSpec ffn_matrix;      /* of ffn_matrix: [hidden, hidden] */
    const char *scalar;         /* tensor [1] that multiplies the layer's output */
    const char *skip;           /* tensor [1] times the normed embedding, added to the output */
    NormSpec output_norm;       /* of the output, after all else */
} LayerSpec;

/* The head of a sequence classifier (..ForSequenceClassification in transformers): of the vector that stands for a
 * sequence a logit per label, score(norm(act(dense(x)))). */
typedef struct ClassifierSpec {
    int n_labels; /* 0: there is none */
    ClassifierPool pool;
    int pad_token;    /* the padding token's id, which CLASSIFIER_LAST passes over; -1: none */
    LinearSpec dense; /* [hidden, hidden]; name NULL: score reads the vector as it is */
    Activation act;
    NormSpec norm;    /* NORM_LAYER or none; with dense only */
    LinearSpec score; /* [n_labels, hidden] */
} ClassifierSpec;

/* What config.json says about an output head that shares the embedding's weights. */
typedef enum TieRule {
    TIE_UNSAID, /* tied when the checkpoint has no head */
    TIE_YES,    /* a head that differs from the embedding is used all the same, with a warning */
    TIE_NO,     /* the checkpoint must have a head */
} TieRule;

typedef struct Blueprint {
    int hidden, vocab, n_layers;
    int n_extra_layers; /* "model.layers.*" after the last that predict further tokens; skipped where they are there */
    int max_context;    /* positions that the config allows */
    const char *context_note; /* why no more than that, when there is more to say; else NULL */
    TieRule tie;
    bool packed;  /* quantised modules are listed in config.json's "modules", and some want their inputs turned */
    bool encoder; /* its rows see later ones of their sequence: all of a sequence is in one step, and has no next token
                   */
    LinearSpec embedding, head;  /* head name NULL: there is none, and the final norm's rows are all that comes out */
    float embedding_scale;       /* 0: 1 */
    bool embedding_scale_stored; /* that scale is first rounded to bf16 where the embedding, or its scales, are bf16 */
    bool embedding_scale_bf16;   /* it is rounded to bf16 whatever they are */
    LinearSpec positions;        /* a learned embedding per position, added; name NULL: none */
    int n_positions;             /* its rows */
    int position_offset;         /* row of position 0 */
    LinearSpec token_types;      /* the row of a token's type is added to its embedding; name NULL: none */
    int n_token_types;           /* its rows */
    NormSpec embedding_norm, final_norm;
    PerLayerSpec per_layer;
    NgramSpec ngram;
    AltUpSpec altup;
    HyperSpec hyper;
    int residual_block;        /* layers of a block, whose first adds to nothing but zeros; 0: residuals are plain */
    ResidualSpec out_residual; /* of what the final norm reads */
    float head_scale;          /* of the final norm's output; 0: 1 */
    float logit_scale;         /* of the logits; 0: 1 */
    const char *logit_gain;    /* tensor [1] that multiplies the logits, before their soft cap */
    float logit_softcap;       /* after the scale */
    ClassifierSpec classifier; /* in place of a head */
    LayerSpec *layers;         /* [n_layers]; owned */
    RopeSpec *ropes;           /* [n_ropes]; owned, with their tables */
    int n_ropes;
} Blueprint;

/* A family: one page that knows one kind of config.json. */
struct Family {
    const char *name;
    const char *const *model_types; /* model_type in config.json; NULL-terminated, like the others */
    const char *const
        *irrelevant_keys; /* known not to matter; of config.json and of its text_config; dotted in a section */
    const char *const *skipped_tensors; /* patterns (name_matches) of tensors that the forward pass does not need */
    /* Fills the blueprint from the config. Mistakes stick in the config (config_fail); false when there is one. On
     * failure the caller clears what was filled. */
    bool (*blueprint)(const Config *c, Blueprint *out);
    const NameRoot *roots; /* NULL: the text model is at "model." */
};

/* The table of families, made by the Makefile from the files in families/. */
extern const Family *const model_families[];
extern const int model_n_families;

/* Zeroed layers and ropes; false when out of memory, as the config's mistake. */
bool blueprint_allocate(const Config *c, Blueprint *b, int n_layers, int n_ropes);
void blueprint_clear(Blueprint *b);
/* The longest prefix that uses the short rotary tables, where some rope has a long one; else 0. */
int blueprint_boundary(const Blueprint *b);

/* The family of config.json's model_type; an error lists the supported families whose names are nearest. */
const Family *family_find(const JsonValue *config, Error *err);

/* Whole blueprint from the config, every key accounted for. `names` answers what the tensors say about the layout. */
bool blueprint_read(const JsonValue *config, const Family *family, const Names *names, const char *const *ignore,
                    int n_ignore, Blueprint *out, Error *err);

#endif
