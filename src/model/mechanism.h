/* A mechanism: one way to mix positions or to transform a row, with its weights. One file each under mixers/ and ffn/;
 * a new one adds its fields to LayerSpec, its weights to LayerWeights, and a line at the end of this header. */
#ifndef LOCKSTEP_MODEL_MECHANISM_H
#define LOCKSTEP_MODEL_MECHANISM_H

#include "model/bind.h"
#include "model/step.h"

struct Mechanism {
    const char *name;
    /* Checks what the spec says (as the config's mistake when it cannot be), and asks for the weights. */
    bool (*bind)(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out);
    /* x, out [rows][hidden]. Rows that fail are marked (step_fail) and their outputs zeroed. False: out of memory. */
    bool (*run)(Step *s, int layer, const float *x, float *out);

    /* The rest is a mixer's; NULL for a feed-forward. */

    /* A mixer's run in two halves, for the last layer of a prompt that keeps a state, where most rows are done once
     * later rows can see them: what a row leaves in its sequence's state, and what it reads there. A mixer that leaves
     * nothing (keys and values of another layer) has no store. */
    bool (*store)(Step *s, int layer, const float *x);
    bool (*read)(Step *s, int layer, const float *x, float *out);
    /* What a sequence keeps for this layer; `out` is zeroed before. */
    void (*state)(const LayerSpec *spec, KvFormat kv, LayerShape *out);
    /* Further kinds of keys that it keeps, from 1 to STEP_KINDS - 1 (step_side); NULL: none. */
    void (*side_state)(const LayerSpec *spec, KvFormat kv, int kind, LayerShape *out);
    /* What kind of layer this is, for reports: "full", "sliding". */
    const char *(*kind)(const LayerSpec *spec);

    /* One line for inspect, without newline; equal layers are grouped by it. */
    void (*describe)(const LayerSpec *spec, Buffer *out);
};

extern const Mechanism mixer_attention, mixer_mla, mixer_compressed, mixer_delta, mixer_short_conv, mixer_mamba1,
    mixer_mamba2, mixer_lightning, mixer_matrix, mixer_conv_gate, mixer_ssm_beside_attention, mixer_rglru, mixer_rwkv7,
    mixer_channel_mix;
extern const Mechanism ffn_mlp, ffn_experts, ffn_mlp_beside_experts, ffn_shortcut_begin, ffn_shortcut_end, ffn_matrix;

#endif
