/* A blueprint: what a model is, as plain data. Layer by layer it says which norms stand where, which mixer with which
 * fields, which feed-forward, and which tensor names hold the weights. A family turns config.json into one; the decoder
 * runs any.
 *
 * Tensor names are templates: '*' stands for the number of the layer. A module's weight is NAME.weight, its bias
 * NAME.bias. */
#ifndef LOCKSTEP_MODEL_BLUEPRINT_H
#define LOCKSTEP_MODEL_BLUEPRINT_H

#include "math/ops.h"
#include "math/rope.h"
#include "model/config.h"

/* A mechanism is one file under mixers/ or ffn/: mechanism.h. */
typedef struct Mechanism Mechanism;
typedef struct Family Family;

typedef struct LinearSpec {
    const char *name;
    bool bias;
} LinearSpec;

/* One rotary table and where it came from. longrope has two: a prefix of at most `boundary` tokens uses `table` for all
 * its positions, a longer one `long_table`. */
typedef struct RopeSpec {
    RopeTable table;
    RopeTable long_table; /* inv_freq NULL: there is none */
    int boundary;         /* 0 without long_table; equal in all ropes of a blueprint that have one */
    const char *rule;     /* "default", "linear", ...: rope_rules.h; static text */
    double theta, factor;
} RopeSpec;

typedef struct AttentionSpec {
    int n_heads, n_kv_heads, head_dim;
    int rope;    /* index into Blueprint.ropes */
    int window;  /* a row at p sees p - window + 1 .. p; 0: all before it */
    float scale; /* of the scores */
    LinearSpec q, k, v, o;
} AttentionSpec;

typedef struct GatedMlpSpec {
    int width;
    Activation activation; /* of the gate */
    LinearSpec gate, up, down;
} GatedMlpSpec;

typedef struct LayerSpec {
    const char *mixer_norm, *ffn_norm; /* before each; rms, weight [hidden] */
    const Mechanism *mixer;
    AttentionSpec attention; /* of mixer_attention */
    const Mechanism *ffn;
    GatedMlpSpec gated_mlp; /* of ffn_gated_mlp */
} LayerSpec;

/* What config.json says about an output head that shares the embedding's weights. */
typedef enum TieRule {
    TIE_UNSAID, /* tied when the checkpoint has no head */
    TIE_YES,    /* a head that differs from the embedding is used all the same, with a warning */
    TIE_NO,     /* the checkpoint must have a head */
} TieRule;

typedef struct Blueprint {
    int hidden, vocab, n_layers;
    int max_context;          /* positions that the config allows */
    const char *context_note; /* why no more than that, when there is more to say; else NULL */
    float norm_eps;
    TieRule tie;
    LinearSpec embedding, head;
    const char *final_norm;
    LayerSpec *layers; /* [n_layers]; owned */
    RopeSpec *ropes;   /* [n_ropes]; owned, with their tables */
    int n_ropes;
} Blueprint;

/* A family: one page that knows one kind of config.json. */
struct Family {
    const char *name;
    const char *const *model_types;     /* model_type in config.json; NULL-terminated, like the others */
    const char *const *irrelevant_keys; /* of config.json, known not to matter; dotted inside a section */
    const char *const *skipped_tensors; /* name templates of tensors that the forward pass does not need */
    /* Fills the blueprint from the config. Mistakes stick in the config (config_fail); false when there is one. On
     * failure the caller clears what was filled. */
    bool (*blueprint)(const Config *c, Blueprint *out);
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

/* Whole blueprint from the config, every key accounted for. */
bool blueprint_read(const JsonValue *config, const Family *family, const char *const *ignore, int n_ignore,
                    Blueprint *out, Error *err);

#endif
