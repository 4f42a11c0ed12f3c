/* ERNIE 4.5 (Baidu, 2025), dense: llama with neighbouring pairs rotated, and with biases everywhere or nowhere. The
 * reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"ernie4_5", NULL};

static const char *const irrelevant_keys[] = {"use_rmsnorm",         "fuse_rms_norm",    "use_flash_attention",
                                              "max_sequence_length", "freeze_embedding", NULL};

static bool ernie4_5_blueprint(const Config *c, Blueprint *b) {
    bool bias = config_bool_or(c, "use_bias", false);
    const StandardDefaults defaults = {.norm_eps = 1e-5,
                                       .theta = 500000,
                                       .max_position = 131072,
                                       .tie = TIE_YES,
                                       .attention_bias = bias,
                                       .mlp_bias = bias,
                                       .vocab = 103424,
                                       .heads = 16,
                                       .kv_heads = 2,
                                       .head_dim = 128};
    if (!standard_blueprint(c, &defaults, b)) return false;
    b->ropes[0].table.interleaved = true;
    if (config_number_or(c, "compression_ratio", 1) != 1)
        return config_fail(c, "\"compression_ratio\" is not 1, which no reference runs");
    return config_ok(c);
}

const Family family_ernie4_5 = {"ernie4_5",         model_types, irrelevant_keys, standard_skipped_tensors,
                                ernie4_5_blueprint, NULL};
