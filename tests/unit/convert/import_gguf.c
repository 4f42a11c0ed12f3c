/* The import: every weight of a file that holds all types comes back bit for bit from the checkpoint that is written;
 * what is refused, and that a refusal, a full disk, a lack of memory or a stop leaves nothing behind. */
#define _GNU_SOURCE
#include "convert/import_gguf.h"
#include "base/memory.h"
#include "convert/gguf_blocks.h"
#include "convert/gguf_model.h"
#include "file/checkpoint.h"
#include "file/gguf.h"
#include "support/folder.h"
#include "support/gguf_build.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static TestFolder folder;
static char said[8192];

static int make(void **state) {
    (void)state;
    test_folder_make(&folder);
    said[0] = 0;
    return 0;
}

static int clear(void **state) {
    (void)state;
    test_folder_remove(&folder);
    return 0;
}

static void note(void *context, const char *line) {
    (void)context;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const ImportOptions noted = {.log = note}, noted_mlx = {.log = note, .mlx = true};

/* ---- reading the checkpoint back, by its documented layout alone ---- */

static uint32_t code_at(const uint8_t *row, int bits, int64_t k) {
    uint32_t code = 0;
    for (int b = 0; b < bits; b++) {
        int64_t bit = k * bits + b;
        code |= (uint32_t)(row[bit / 8] >> bit % 8 & 1) << b;
    }
    return code;
}

static float float_at(const Tensor *t, int64_t i) {
    uint32_t bits = 0;
    float f;
    memcpy(&bits, t->data + i * (int64_t)dtype_bytes(t->dtype), dtype_bytes(t->dtype));
    if (t->dtype == DTYPE_F16) return half_to_float((uint16_t)bits);
    if (t->dtype == DTYPE_BF16) bits <<= 16;
    memcpy(&f, &bits, 4);
    return f;
}

static const Tensor *part(const Checkpoint *c, const char *module, const char *suffix) {
    char name[200];
    snprintf(name, sizeof name, "%s%s", module, suffix);
    return checkpoint_find(c, name);
}

static void six_bit_pair(const uint8_t *s, int64_t j, int *scale, int *min) {
    uint32_t low_scale = s[j % 4] & 63, low_min = s[j % 4 + 4] & 63;
    *scale = j < 4 ? (int)low_scale : (s[j + 4] & 15) + (s[j - 4] >> 6) * 16;
    *min = j < 4 ? (int)low_min : (s[j + 4] >> 4) + (s[j] >> 6) * 16;
}

static float super_block_value(const Checkpoint *c, const char *module, const char *mode, uint32_t code, int64_t r,
                               int64_t k, int64_t cols) {
    const Tensor *s = part(c, module, ".scales"), *d = part(c, module, ".d"), *dmin = part(c, module, ".dmin");
    const uint8_t *row = s->data + r * s->shape[1];
    int64_t block = k / 256, j = k % 256 / 16;
    int scale, min = 0, offset = 0;
    if (mode[1] == '2') {
        scale = row[k / 16] & 15;
        min = row[k / 16] >> 4;
    } else if (mode[1] == '3') {
        const uint8_t *p = row + block * 12;
        scale = (p[j % 8] >> (j < 8 ? 0 : 4) & 15) + (p[8 + j % 4] >> 2 * (j / 4) & 3) * 16 - 32;
        offset = 4;
    } else if (mode[1] == '6') {
        assert_int_equal(s->dtype, DTYPE_I8);
        scale = (int8_t)row[k / 16];
        offset = 32;
    } else {
        six_bit_pair(row + block * 12, j / 2, &scale, &min);
    }
    float w = float_at(d, r * (cols / 256) + block) * (float)scale * (float)((int)code - offset);
    return dmin ? w - float_at(dmin, r * (cols / 256) + block) * (float)min : w;
}

static float value_at(const Checkpoint *c, const char *module, int64_t r, int64_t k, int64_t cols) {
    const Tensor *w = part(c, module, ".weight"), *s = part(c, module, ".scales"), *b = part(c, module, ".biases");
    if (!s) return float_at(w, r * cols + k);
    const JsonValue *all = json_get(checkpoint_config(c), "quantization"), *own = json_get(all, module);
    int64_t bits = 0, group = 0;
    assert_true(json_int(json_get(own ? own : all, "bits"), &bits));
    assert_true(json_int(json_get(own ? own : all, "group_size"), &group));
    const char *mode = json_string(json_get(own ? own : all, "mode"));
    assert_int_equal(w->shape[1], cols * bits / 32);
    uint32_t code = code_at(w->data + r * w->shape[1] * 4, (int)bits, k);
    if (strcmp(mode, "affine") != 0) return super_block_value(c, module, mode, code, r, k, cols);
    int64_t g = r * (cols / group) + k / group;
    return fmaf((float)code, float_at(s, g), float_at(b, g));
}

/* Row r of the checkpoint as a row of the file, for heads of `size` rows. */
static int64_t interleaved(int64_t r, int64_t size) {
    int64_t half = r % size / (size / 2), i = r % (size / 2);
    return r / size * size + 2 * i + half;
}

static void check_module(const Checkpoint *c, const Gguf *g, const char *from, const char *module, bool rotary) {
    char name[100];
    snprintf(name, sizeof name, "%s.weight", from);
    const GgufTensor *t = gguf_find_tensor(g, name);
    int64_t rows = t->shape[1], cols = t->shape[0];
    float expected[256];
    const Tensor *weight = part(c, module, ".weight");
    bool widened = weight->dtype == DTYPE_F16 && t->type != GGML_F16;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = rotary ? interleaved(r, 32) : r;
        assert_true(gguf_dequantize_row(t->type, t->data + t->bytes / (uint64_t)rows * (uint64_t)at, cols, expected));
        for (int64_t k = 0; k < cols; k++) {
            float e = widened ? half_to_float(half_from_float(expected[k])) : expected[k];
            float v = value_at(c, module, r, k, cols);
            if (v != e) fail_msg("%s [%d, %d]: %.9g, not %.9g", module, (int)r, (int)k, (double)v, (double)e);
        }
    }
}

static const char *const modules[][2] = {
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"}, {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

static void check_all_modules(const Checkpoint *c, const Gguf *g, bool interleaves) {
    check_module(c, g, "token_embd", "model.embed_tokens", false);
    check_module(c, g, "output", "lm_head", false);
    for (int layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
            char from[40], to[60];
            snprintf(from, sizeof from, "blk.%d.%s", layer, modules[i][0]);
            snprintf(to, sizeof to, "model.layers.%d.%s", layer, modules[i][1]);
            check_module(c, g, from, to, interleaves && i < 2);
        }
}

static void check_vectors(const Checkpoint *c, const Gguf *g) {
    const GgufTensor *q = gguf_find_tensor(g, "blk.1.attn_q.bias"),
                     *norm = gguf_find_tensor(g, "blk.1.ffn_norm.weight");
    const Tensor *bias = checkpoint_find(c, "model.layers.1.self_attn.q_proj.bias");
    for (int64_t r = 0; r < 64; r++) assert_memory_equal(bias->data + 4 * r, q->data + 4 * interleaved(r, 32), 4);
    const Tensor *after = checkpoint_find(c, "model.layers.1.post_attention_layernorm.weight");
    assert_int_equal(after->n_dims, 1);
    assert_memory_equal(after->data, norm->data, norm->bytes);
    const Tensor *zeros = checkpoint_find(c, "model.layers.0.self_attn.o_proj.bias");
    assert_int_equal(zeros->shape[0], 256);
    for (uint64_t i = 0; i < zeros->bytes; i++) assert_int_equal(zeros->data[i], 0);
    assert_non_null(strstr(said, "model.layers.0.self_attn.o_proj: its bias is not in the file, zeros are written\n"));
}

static void check_import(const ImportOptions *options, int n_tensors) {
    Error err = {""};
    const char *out = test_path(&folder, "out");
    if (!import_gguf("tests/data/gguf/mixed.gguf", out, options, &err)) fail_msg("%s", err.text);
    Checkpoint *c = checkpoint_open(out, &err);
    Gguf *g = gguf_open("tests/data/gguf/mixed.gguf", &err);
    assert_non_null(c);
    assert_int_equal(checkpoint_count(c), n_tensors);
    check_all_modules(c, g, true);
    check_vectors(c, g);
    gguf_close(g);
    checkpoint_close(c);
    assert_int_equal(test_entries(&folder), 1);
}

static void every_type_is_carried_over_exactly(void **state) {
    (void)state;
    check_import(&noted, 3 + 3 + 5 + (4 + 3 + 3 + 3 + 4 + 4 + 3) + (4 + 3 + 3 + 1 + 1 + 4 + 1) + 4 + 4);
    assert_null(strstr(said, "widened"));
}

/* Those of fewer than 32 values per scale as floats, the others as codes. */
static void types_that_are_looked_up_are_exact(void **state) {
    const char *file = "tests/goldens/gguf/qwen3-iq/model.gguf";
    const ImportOptions *const options[] = {&noted, &noted_mlx};
    (void)state;
    for (int i = 0; i < 2; i++) {
        Error err = {""};
        said[0] = '\0';
        if (!import_gguf(file, test_path(&folder, i ? "mlx" : "out"), options[i], &err)) fail_msg("%s", err.text);
        Checkpoint *c = checkpoint_open(test_path(&folder, i ? "mlx" : "out"), &err);
        Gguf *g = gguf_open(file, &err);
        assert_non_null(c);
        check_all_modules(c, g, false);
        assert_int_equal(part(c, "model.layers.0.mlp.up_proj", ".weight")->dtype, DTYPE_F32);
        assert_non_null(strstr(said, "model.layers.0.mlp.up_proj: IQ2_XS widened to F32, its scales are of fewer"));
        assert_non_null(strstr(said, "model.layers.1.self_attn.q_proj: IQ2_S widened"));
        assert_non_null(strstr(said, "model.layers.1.self_attn.v_proj: IQ1_M widened"));
        assert_null(strstr(said, "IQ4"));
        const JsonValue *why = json_get(json_get(checkpoint_config(c), "quantization"), "widened");
        assert_int_equal(why->length, 3);
        assert_true(json_equals(json_get(why, "model.layers.1.self_attn.v_proj"),
                                "IQ1_M, whose scales are of fewer than 32 values"));
        assert_int_equal(part(c, "model.embed_tokens", ".scales")->dtype, DTYPE_F16);
        assert_int_equal(part(c, "lm_head", ".scales")->shape[1], 2); /* of 128 inputs */
        gguf_close(g);
        checkpoint_close(c);
    }
}

static void mlx_gets_what_it_can_load(void **state) {
    (void)state;
    check_import(&noted_mlx, 1 + 3 + 5 + (1 + 1 + 3 + 3 + 3 + 3 + 3) + (3 + 3 + 1 + 1 + 1 + 1 + 1) + 4 + 4);
    assert_non_null(strstr(said, "model.embed_tokens: Q6_K widened to F16, MLX has no groups of 16\n"));
    assert_non_null(strstr(said, "model.layers.0.mlp.gate_proj: scales of Q5_K widened to F32"));
    assert_null(strstr(said, "Q4_0"));
}

/* ---- one small model in the making ---- */

/* A llama of F32 with these changes made to it by `change`; imported. */
static bool import_built(void (*change)(GgufBuild *), const char *skip, Error *err) {
    GgufBuild b;
    build_begin(&b);
    build_llama_keys(&b);
    if (change) change(&b);
    build_llama_tensors(&b, skip);
    build_write(&b, &folder, "m.gguf");
    build_clear(&b);
    return import_gguf(test_path(&folder, "m.gguf"), test_path(&folder, "out"), &noted, err);
}

static void pre_smollm(GgufBuild *b) {
    build_text(b, "tokenizer.ggml.pre", "smollm");
}

static Checkpoint *built_checkpoint(void (*change)(GgufBuild *), const char *skip) {
    Error err = {""};
    if (!import_built(change, skip, &err)) fail_msg("%s", err.text);
    Checkpoint *c = checkpoint_open(test_path(&folder, "out"), &err);
    if (!c) fail_msg("%s", err.text);
    return c;
}

static void refuses(void (*change)(GgufBuild *), const char *skip, const char *says) {
    Error err = {""};
    assert_false(import_built(change, skip, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_non_null(strstr(err.text, "m.gguf: "));
    assert_int_equal(test_entries(&folder), 1); /* m.gguf */
}

static double config_number(const Checkpoint *c, const char *key) {
    double v = -1;
    assert_true(json_number(json_get(checkpoint_config(c), key), &v));
    return v;
}

static void config_says_what_the_file_says(void **state) {
    (void)state;
    Checkpoint *c = built_checkpoint(pre_smollm, NULL);
    const JsonValue *config = checkpoint_config(c);
    assert_true(json_equals(json_get(config, "model_type"), "llama"));
    assert_true(config_number(c, "hidden_size") == 64);
    assert_true(config_number(c, "intermediate_size") == 32);
    assert_true(config_number(c, "num_hidden_layers") == 1);
    assert_true(config_number(c, "num_attention_heads") == 2);
    assert_true(config_number(c, "num_key_value_heads") == 1);
    assert_true(config_number(c, "head_dim") == 16);
    assert_true(config_number(c, "vocab_size") == 8);
    assert_true(config_number(c, "max_position_embeddings") == 128);
    assert_true(config_number(c, "rope_theta") == 10000);
    assert_string_equal(json_get(config, "rms_norm_eps")->text, "1e-05"); /* not 9.99999974e-06 */
    bool tied = false, bias = true;
    assert_true(json_bool(json_get(config, "tie_word_embeddings"), &tied) && tied);
    assert_true(json_bool(json_get(config, "attention_bias"), &bias) && !bias);
    assert_null(json_get(config, "quantization"));
    assert_null(json_get(config, "rope_scaling"));
    checkpoint_close(c);
    assert_string_equal(said, "");
}

static void add_yarn(GgufBuild *b) {
    pre_smollm(b);
    build_text(b, "llama.rope.scaling.type", "yarn");
    build_f32(b, "llama.rope.scaling.factor", 4);
    build_u32(b, "llama.rope.scaling.original_context_length", 32);
}

static void add_linear(GgufBuild *b) {
    pre_smollm(b);
    build_text(b, "llama.rope.scaling.type", "linear");
    build_f32(b, "llama.rope.scaling.factor", 2.5f);
}

/* Llama 3's factors by its published rule, in double. */
static void add_freqs(GgufBuild *b, double factor, double error) {
    float freqs[8];
    for (int i = 0; i < 8; i++) {
        double wavelength = 2 * 3.14159265358979 * pow(500000, i / 8.0);
        double smooth = (8192 / wavelength - 1) / 3;
        double f = smooth > 1 ? 1 : smooth < 0 ? factor : 1 / ((1 - smooth) / factor + smooth);
        freqs[i] = (float)(f * (i == 5 ? 1 + error : 1));
    }
    pre_smollm(b);
    build_f32(b, "llama.rope.freq_base", 500000);
    build_tensor(b, "rope_freqs.weight", GGML_F32, 0, 8, freqs, 32);
}

static void add_llama3(GgufBuild *b) {
    add_freqs(b, 32, 0);
}

/* Not one of the published rules: kept as they are, for every length. */
static void add_other_freqs(GgufBuild *b) {
    static const float freqs[8] = {1, 1, 1.5f, 2, 2.25f, 3, 4, 5};
    pre_smollm(b);
    build_tensor(b, "rope_freqs.weight", GGML_F32, 0, 8, freqs, 32);
}

static void add_long(GgufBuild *b) {
    static const float few[8] = {1, 1, 1, 1, 1, 1, 1, 1.25f}, many[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    pre_smollm(b);
    build_u32(b, "llama.rope.scaling.original_context_length", 16);
    build_f32(b, "llama.rope.scaling.attn_factor", 1.3228756189346313f); /* sqrt(1 + ln(128 / 16) / ln 16) */
    build_tensor(b, "rope_factors_short.weight", GGML_F32, 0, 8, few, 32);
    build_tensor(b, "rope_factors_long.weight", GGML_F32, 0, 8, many, 32);
}

static void add_zero_freqs(GgufBuild *b) {
    static const float freqs[8] = {1, 1, 1, 1, 0, 1, 1, 1};
    pre_smollm(b);
    build_tensor(b, "rope_freqs.weight", GGML_F32, 0, 8, freqs, 32);
}

static void check_scaling(void (*change)(GgufBuild *), const char *expected) {
    Checkpoint *c = built_checkpoint(change, NULL);
    Buffer text = {0};
    json_write(&text, json_get(checkpoint_config(c), "rope_scaling"), NULL);
    assert_string_equal(text.data, expected);
    buffer_clear(&text);
    checkpoint_close(c);
    test_folder_remove(&folder);
    test_folder_make(&folder);
}

static void rope_rules_are_recognised(void **state) {
    (void)state;
    check_scaling(add_yarn, "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 32}");
    check_scaling(add_linear, "{\"rope_type\": \"linear\", \"factor\": 2.5}");
    check_scaling(add_llama3, "{\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, "
                              "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}");
    check_scaling(add_other_freqs,
                  "{\"rope_type\": \"longrope\", \"short_factor\": [1.0, 1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 5.0], "
                  "\"long_factor\": [1.0, 1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 5.0], \"attention_factor\": 1.0, "
                  "\"original_max_position_embeddings\": 128}");
    check_scaling(add_long,
                  "{\"rope_type\": \"longrope\", \"short_factor\": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.25], "
                  "\"long_factor\": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "
                  "\"original_max_position_embeddings\": 16}");
    refuses(add_zero_freqs, NULL, "rope_freqs.weight holds a factor that is not above 0");
}

#define CHANGE(name, ...)            \
    static void name(GgufBuild *b) { \
        pre_smollm(b);               \
        __VA_ARGS__;                 \
    }
CHANGE(bad_longrope, build_text(b, "llama.rope.scaling.type", "longrope"))
CHANGE(bad_scaling, build_text(b, "llama.rope.scaling.type", "dynamic"))
CHANGE(bad_attn_factor, build_f32(b, "llama.rope.scaling.attn_factor", 0.5f))
CHANGE(bad_partial, build_u32(b, "llama.rope.dimension_count", 8))
CHANGE(bad_key, build_u32(b, "llama.attention.sliding_window", 64))
CHANGE(bad_experts, build_u32(b, "llama.expert_count", 8))
CHANGE(bad_expert, build_tensor(b, "blk.0.ffn_gate_exps.weight", GGML_F32, 8, 8, NULL, 256))
CHANGE(bad_expert_old, build_tensor(b, "blk.0.ffn_up.3.weight", GGML_F32, 8, 8, NULL, 256))
CHANGE(bad_place, build_tensor(b, "blk.1.attn_q.weight", GGML_F32, 8, 8, NULL, 256))
CHANGE(bad_unknown, build_tensor(b, "blk.0.attn_q_norm.weight", GGML_F32, 0, 8, NULL, 32))
CHANGE(bad_bias, build_tensor(b, "output_norm.bias", GGML_F32, 0, 64, NULL, 256))
CHANGE(bad_split, build_u32(b, "split.count", 3))
CHANGE(bad_vocab_size, build_u32(b, "llama.vocab_size", 9))
CHANGE(bad_type, build_tensor(b, "blk.0.attn_q.weight", 40, 32, 64, NULL, 32 * 36))
CHANGE(bad_vector, build_tensor(b, "output_norm.weight", GGML_Q8_0, 0, 64, NULL, 68))
CHANGE(bad_shape, build_tensor(b, "blk.0.attn_q.weight", GGML_F32, 16, 64, NULL, 4096))
CHANGE(bad_bos, build_u32(b, "tokenizer.ggml.bos_token_id", 8))
CHANGE(bad_adapter, build_text(b, "general.type", "adapter"))

static void add_further(GgufBuild *b) {
    pre_smollm(b);
    build_u32(b, "llama.nextn_predict_layers", 1);
    build_tensor(b, "blk.1.attn_q.weight", GGML_F32, 8, 8, NULL, 256);
    build_tensor(b, "blk.1.nextn.enorm.weight", GGML_F32, 0, 8, NULL, 32);
}

/* block_count counts them; build_llama_keys says 1, so that none would be left. */
static void layers_for_further_tokens_are_left_out(void **state) {
    (void)state;
    refuses(add_further, NULL, "has 1 layers, of which 1 predict further tokens");
    GgufModel m = {.n_layers = 2, .n_extra = 1};
    assert_false(gguf_is_extra(&m, "blk.1.attn_q.weight"));
    assert_true(gguf_is_extra(&m, "blk.2.nextn.enorm.weight"));
    assert_false(gguf_is_extra(&m, "blk.3.attn_q.weight"));
    assert_false(gguf_is_extra(&m, "blk.02.attn_q.weight"));
    assert_false(gguf_is_extra(&m, "blk.2"));
    assert_false(gguf_is_extra(&m, "output.weight"));
}

static void what_has_no_equal_is_refused(void **state) {
    (void)state;
    refuses(bad_longrope, NULL, "says longrope, but has no tensors with its factors");
    refuses(bad_scaling, NULL, "rope scaling \"dynamic\" can not be imported");
    refuses(bad_attn_factor, NULL, "llama.rope.scaling.attn_factor is 0.5");
    refuses(bad_partial, NULL, "rotates 8 of 16 values per head");
    refuses(bad_key, NULL, "metadata \"llama.attention.sliding_window\" is not known");
    refuses(bad_experts, NULL, "tensor \"blk.0.ffn_gate.weight\" has no place in the llama architecture"); /* Mixtral */
    refuses(bad_expert, NULL, "tensor \"blk.0.ffn_gate_exps.weight\" has no place");
    refuses(bad_expert_old, NULL, "tensor \"blk.0.ffn_up.3.weight\" has no place");
    refuses(bad_place, NULL, "tensor \"blk.1.attn_q.weight\" has no place in the llama architecture");
    refuses(bad_unknown, NULL, "tensor \"blk.0.attn_q_norm.weight\" has no place");
    refuses(bad_bias, NULL, "tensor \"output_norm.bias\" has no place");
    refuses(bad_split, NULL, "one of 3 parts");
    refuses(bad_vocab_size, NULL, "says 9 tokens, but token_embd.weight has 8 rows");
    refuses(bad_type, "blk.0.attn_q.weight", "tensor \"blk.0.attn_q.weight\" has the type NVFP4 (40)");
    refuses(bad_vector, "output_norm.weight", "tensor \"output_norm.weight\" has the type Q8_0 (8)");
    refuses(bad_shape, "blk.0.attn_q.weight", "is 16 by 64, the metadata implies 32 by 64");
    refuses(pre_smollm, "blk.0.ffn_up.weight", "has no tensor \"blk.0.ffn_up.weight\"");
    refuses(bad_bos, NULL, "tokenizer.ggml.bos_token_id is not the id of a token");
    refuses(bad_adapter, NULL, "is not a model but an adapter");
    refuses(NULL, NULL, "does not name its pre-tokeniser");
}

static void other_architectures_are_named(void **state) {
    (void)state;
    GgufBuild b;
    Error err;
    build_begin(&b);
    build_text(&b, "general.architecture", "rwkv6");
    build_write(&b, &folder, "q.gguf");
    build_clear(&b);
    assert_false(import_gguf(test_path(&folder, "q.gguf"), test_path(&folder, "out"), NULL, &err));
    assert_non_null(strstr(err.text, "architecture \"rwkv6\" can not be imported yet; known: llama, mistral3,"));
}

/* ---- scales at the edge ---- */

/* Q8_0 of one query row group: every block with scale `half`. */
static void add_q8(GgufBuild *b, uint16_t half) {
    uint8_t blocks[32 * 2 * 34];
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = i % 34 == 0 ? half & 255 : i % 34 == 1 ? half >> 8 : (uint8_t)i;
    pre_smollm(b);
    build_tensor(b, "blk.0.attn_q.weight", GGML_Q8_0, 32, 64, blocks, sizeof blocks);
}

static void q8_at_the_limit(GgufBuild *b) {
    add_q8(b, half_from_float(511.5f)); /* times 128: 65472 */
}

static void q8_past_the_limit(GgufBuild *b) {
    add_q8(b, half_from_float(512.0f));
}

static void q8_infinite(GgufBuild *b) {
    add_q8(b, 0x7C00);
}

static void biases_past_f16_go_to_f32(void **state) {
    (void)state;
    const char *module = "model.layers.0.self_attn.q_proj";
    Checkpoint *c = built_checkpoint(q8_at_the_limit, "blk.0.attn_q.weight");
    assert_int_equal(part(c, module, ".biases")->dtype, DTYPE_F16);
    assert_true(float_at(part(c, module, ".biases"), 5) == -65472.0f);
    assert_string_equal(said, "");
    checkpoint_close(c);
    clear(NULL);
    make(NULL);
    c = built_checkpoint(q8_past_the_limit, "blk.0.attn_q.weight");
    assert_int_equal(part(c, module, ".scales")->dtype, DTYPE_F32);
    assert_int_equal(part(c, module, ".biases")->dtype, DTYPE_F32);
    assert_true(float_at(part(c, module, ".scales"), 5) == 512.0f);
    assert_true(float_at(part(c, module, ".biases"), 5) == -65536.0f);
    assert_non_null(strstr(said, "model.layers.0.self_attn.q_proj: scales of Q8_0 widened to F32, the biases pass"));
    checkpoint_close(c);
    clear(NULL);
    make(NULL);
    refuses(q8_infinite, "blk.0.attn_q.weight", "tensor \"blk.0.attn_q.weight\" has a scale that is not finite");
}

/* ---- leaving nothing behind ---- */

static void an_old_folder_is_kept_unless_forced(void **state) {
    (void)state;
    Error err;
    ImportOptions force = {.force = true};
    const char *gguf = "tests/data/gguf/mixed.gguf";
    char old[300], out[300];
    snprintf(out, sizeof out, "%s", test_path(&folder, "out"));
    snprintf(old, sizeof old, "%s", test_path(&folder, "out/old"));
    mkdir(out, 0777);
    test_write_text(&folder, "out/old", "x");
    assert_false(import_gguf(gguf, out, NULL, &err));
    assert_non_null(strstr(err.text, "is already there"));
    assert_false(import_gguf(gguf, out, &force, &err)); /* no checkpoint: somebody's files */
    assert_non_null(strstr(err.text, "is not replaced"));
    test_write_text(&folder, "out/config.json", "{}");
    mkdir(test_path(&folder, "out/sub"), 0777);
    assert_false(import_gguf(gguf, out, &force, &err));
    assert_true(test_exists(old));
    rmdir(test_path(&folder, "out/sub"));
    mkdir(test_path(&folder, "out/1_Pooling"), 0777); /* a module of sentence-transformers goes with its checkpoint */
    test_write_text(&folder, "out/1_Pooling/config.json", "{}");
    mkdir(test_path(&folder, "out/1_Pooling/more"), 0777);
    assert_false(import_gguf(gguf, out, &force, &err)); /* but not with other things in it */
    assert_true(test_exists(test_path(&folder, "out/1_Pooling/config.json")));
    rmdir(test_path(&folder, "out/1_Pooling/more"));
    assert_true(import_gguf(gguf, out, &force, &err));
    assert_false(test_exists(test_path(&folder, "out/1_Pooling")));
    assert_false(test_exists(old));
    assert_int_equal(test_entries(&folder), 1);
    assert_true(test_exists(test_path(&folder, "out/chat_template.jinja")));
}

static void a_part_folder_left_over_is_replaced(void **state) {
    (void)state;
    Error err = {""};
    mkdir(test_path(&folder, "out.part"), 0777);
    test_write_text(&folder, "out.part/model.safetensors", "half");
    assert_true(import_gguf("tests/data/gguf/mixed.gguf", test_path(&folder, "out/"), NULL, &err));
    assert_int_equal(test_entries(&folder), 1);
    assert_false(import_gguf("tests/data/gguf/mixed.gguf", test_path(&folder, "no/such/out"), NULL, &err));
    assert_non_null(strstr(err.text, "cannot be created"));
    assert_false(import_gguf(test_path(&folder, "absent.gguf"), test_path(&folder, "new"), NULL, &err));
    assert_non_null(strstr(err.text, "No such file"));
}

static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    static const rlim_t sizes[] = {0, 100, 1500, 20000, 100000, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Error err = {""};
        struct rlimit old, limit;
        getrlimit(RLIMIT_FSIZE, &old);
        limit = (struct rlimit){sizes[i], old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
        bool ok = import_gguf("tests/data/gguf/mixed.gguf", test_path(&folder, "out"), NULL, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_false(ok);
        if (!strstr(err.text, "cannot be written: File too large")) fail_msg("%s", err.text);
        assert_int_equal(test_entries(&folder), 0);
    }
}

static bool stop_half_way(void *context, uint64_t done, uint64_t total) {
    (void)total;
    ++*(int *)context;
    return done == 0;
}

static void a_stop_leaves_nothing(void **state) {
    (void)state;
    Error err = {""};
    int calls = 0;
    ImportOptions options = {.progress = stop_half_way, .context = &calls};
    assert_false(import_gguf("tests/data/gguf/mixed.gguf", test_path(&folder, "out"), &options, &err));
    assert_non_null(strstr(err.text, "stopped"));
    assert_int_equal(calls, 2);
    assert_int_equal(test_entries(&folder), 0);
}

static void failing_allocations_leave_nothing(void **state) {
    (void)state;
    char out[300];
    snprintf(out, sizeof out, "%s", test_path(&folder, "out"));
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        Error err = {""};
        mem_fail_after(n);
        done = import_gguf("tests/data/gguf/mixed.gguf", out, NULL, &err);
        mem_fail_after(0);
        if (!done && !strstr(err.text, "memory")) fail_msg("allocation %d: \"%s\"", (int)n, err.text);
        assert_int_equal(test_entries(&folder), done);
    }
    Checkpoint *c = checkpoint_open(out, NULL);
    assert_non_null(c);
    checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_type_is_carried_over_exactly, make, clear),
        cmocka_unit_test_setup_teardown(types_that_are_looked_up_are_exact, make, clear),
        cmocka_unit_test_setup_teardown(mlx_gets_what_it_can_load, make, clear),
        cmocka_unit_test_setup_teardown(config_says_what_the_file_says, make, clear),
        cmocka_unit_test_setup_teardown(rope_rules_are_recognised, make, clear),
        cmocka_unit_test_setup_teardown(layers_for_further_tokens_are_left_out, make, clear),
        cmocka_unit_test_setup_teardown(what_has_no_equal_is_refused, make, clear),
        cmocka_unit_test_setup_teardown(other_architectures_are_named, make, clear),
        cmocka_unit_test_setup_teardown(biases_past_f16_go_to_f32, make, clear),
        cmocka_unit_test_setup_teardown(an_old_folder_is_kept_unless_forced, make, clear),
        cmocka_unit_test_setup_teardown(a_part_folder_left_over_is_replaced, make, clear),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_nothing, make, clear),
        cmocka_unit_test_setup_teardown(a_stop_leaves_nothing, make, clear),
        cmocka_unit_test_setup_teardown(failing_allocations_leave_nothing, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
