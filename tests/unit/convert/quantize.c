/* Quantising a folder: what is chosen, what stands beside the weights, that it goes on where it was stopped, and what
 * is refused. That the bytes are mlx's is shown by tests/unit/math/encode.c and tests/goldens/quantized.c. */
#define _GNU_SOURCE
#include "convert/quantize.h"
#include "base/memory.h"
#include "convert/mlx_family.h"
#include "file/checkpoint.h"
#include "math/kernels.h"
#include "support/tiny_llama.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

static TestFolder source, results;
static Pool *pool;

static int make(void **state) {
    (void)state;
    TinyLlama t = {.config = ", \"vision_config\": {}, \"_name_or_path\": \"x\", \"eos_token_id\": 2"};
    test_folder_make(&source);
    test_folder_make(&results);
    tiny_write(&source, &t);
    return 0;
}

static int clear(void **state) {
    (void)state;
    test_folder_remove(&source);
    test_folder_remove(&results);
    return 0;
}

static QuantizeOptions with_group(int bits, int group, const char *recipe) {
    return (QuantizeOptions){.bits = bits, .group = group, .recipe = recipe, .pool = pool};
}

static Checkpoint *quantized(const QuantizeOptions *o, const char *name) {
    Error err = {""};
    const char *out = test_path(&results, name);
    if (!quantize_folder(source.path, out, o, &err)) fail_msg("%s", err.text);
    Checkpoint *c = checkpoint_open(out, &err);
    if (!c) fail_msg("%s", err.text);
    return c;
}

static void refused(const QuantizeOptions *o, const char *why) {
    Error err = {""};
    assert_false(quantize_folder(source.path, test_path(&results, "no"), o, &err));
    if (!strstr(err.text, why)) fail_msg("the error is \"%s\", not \"%s\"", err.text, why);
    assert_null(strchr(err.text, '\n'));
    assert_false(test_exists(test_path(&results, "no")));
}

static void assert_shape(const Checkpoint *c, const char *name, DType dtype, int64_t rows, int64_t cols) {
    const Tensor *t = checkpoint_find(c, name);
    if (!t) fail_msg("%s is missing", name);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->shape[0], rows);
    if (cols) assert_int_equal(t->shape[1], cols);
}

static int64_t entry_bits(const Checkpoint *c, const char *module) {
    int64_t n = 0;
    json_int(json_get(json_get(json_get(checkpoint_config(c), "quantization"), module), "bits"), &n);
    return n;
}

/* ---- what is written ---- */

static void matrices_are_packed_and_vectors_stay(void **state) {
    (void)state;
    QuantizeOptions o = with_group(3, 32, NULL);
    test_write_text(&source, "generation_config.json", "{\"eos_token_id\": [5, 6]}");
    test_write_text(&source, "tokenizer.json", "{}");
    test_write_text(&source, "pytorch_model.bin", "old");
    Checkpoint *c = quantized(&o, "a");
    assert_shape(c, "model.embed_tokens.weight", DTYPE_U32, TINY_VOCAB, 3);
    assert_shape(c, "model.layers.1.mlp.up_proj.weight", DTYPE_U32, 48, 3);
    assert_shape(c, "model.layers.1.mlp.up_proj.scales", DTYPE_F32, 48, 1);
    assert_shape(c, "model.layers.1.mlp.up_proj.biases", DTYPE_F32, 48, 1);
    assert_shape(c, "model.layers.1.mlp.down_proj.weight", DTYPE_F32, 32, 48); /* 48 inputs are no groups of 32 */
    assert_shape(c, "model.norm.weight", DTYPE_F32, 32, 0);
    const JsonValue *config = checkpoint_config(c);
    int64_t n = 0;
    assert_true(json_int(json_get(json_get(config, "quantization_config"), "bits"), &n) && n == 3);
    assert_true(json_equals(json_get(json_get(config, "quantization"), "mode"), "affine"));
    assert_true(json_int(json_item(json_get(config, "eos_token_id"), 1), &n) && n == 6);
    assert_null(json_get(config, "vision_config"));
    assert_null(json_get(config, "_name_or_path"));
    assert_true(test_exists(test_path(&results, "a/tokenizer.json")));
    assert_true(test_exists(test_path(&results, "a/model.safetensors.index.json")));
    assert_false(test_exists(test_path(&results, "a/pytorch_model.bin")));
    assert_false(test_exists(test_path(&results, "a/quantize.progress")));
    assert_int_equal(test_entries(&results), 1);
    checkpoint_close(c);
}

static void the_configs_number_format_is_taken(void **state) {
    (void)state;
    QuantizeOptions o = with_group(4, 32, NULL);
    TinyLlama t = {.config = ", \"torch_dtype\": \"bfloat16\""};
    tiny_write(&source, &t);
    Checkpoint *c = quantized(&o, "a");
    assert_shape(c, "model.layers.0.mlp.up_proj.scales", DTYPE_BF16, 48, 1);
    assert_shape(c, "model.norm.weight", DTYPE_BF16, 32, 0);
    checkpoint_close(c);
}

static void a_recipes_first_matching_line_counts(void **state) {
    (void)state;
    test_write_text(&source, "recipe.txt",
                    "# two lines for one module\n*.up_proj keep\n\n*.mlp.* 8   # eight\n*.q_proj 4 32 mxfp4\n");
    QuantizeOptions o = with_group(4, 32, test_path(&source, "recipe.txt"));
    Checkpoint *c = quantized(&o, "a");
    const JsonValue *block = json_get(checkpoint_config(c), "quantization");
    bool on = true;
    assert_shape(c, "model.layers.0.mlp.up_proj.weight", DTYPE_F32, 48, 32);
    assert_shape(c, "model.layers.0.mlp.gate_proj.weight", DTYPE_U32, 48, 8);
    assert_shape(c, "model.layers.0.self_attn.q_proj.scales", DTYPE_U8, 32, 1);
    assert_null(checkpoint_find(c, "model.layers.0.self_attn.q_proj.biases"));
    assert_true(json_bool(json_get(block, "model.layers.0.mlp.up_proj"), &on) && !on);
    assert_int_equal(entry_bits(c, "model.layers.0.mlp.gate_proj"), 8);
    assert_int_equal(entry_bits(c, "model.layers.0.self_attn.q_proj"), 4);
    assert_int_equal(entry_bits(c, "model.embed_tokens"), 0);
    Error err = {""};
    Model *m = model_load(c, &(ModelOptions){.numeric = {KV_I16, 16}}, pool, &err);
    if (!m) fail_msg("%s", err.text);
    model_free(m);
    checkpoint_close(c);
}

/* ---- stopping and going on ---- */

static int stop_after;

static bool stop_early(void *context, uint64_t done, uint64_t total) {
    (void)context;
    assert_true(done <= total);
    return stop_after-- > 0;
}

static void assert_same_file(const char *a, const char *b) {
    size_t n, m;
    char *x = test_read(a, &n), *y = test_read(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void a_stopped_run_goes_on_and_ends_with_the_same_bytes(void **state) {
    (void)state;
    QuantizeOptions whole = with_group(5, 32, NULL), cut = whole, other = with_group(4, 32, NULL);
    Error err;
    checkpoint_close(quantized(&whole, "whole"));
    cut.progress = stop_early;
    int runs = 0;
    for (bool done = false; !done; runs++) {
        stop_after = 3; /* the fourth tensor is written, but not marked as done */
        done = quantize_folder(source.path, test_path(&results, "cut"), &cut, &err);
        assert_true(done || strstr(err.text, "goes on from here"));
        assert_true(done == test_exists(test_path(&results, "cut")));
        assert_true(done != test_exists(test_path(&results, "cut.part")));
    }
    assert_true(runs >= 5);
    assert_same_file(test_path(&results, "cut/model.safetensors"), test_path(&results, "whole/model.safetensors"));
    assert_same_file(test_path(&results, "cut/config.json"), test_path(&results, "whole/config.json"));
    stop_after = 3;
    assert_false(quantize_folder(source.path, test_path(&results, "b"), &cut, &err));
    checkpoint_close(quantized(&other, "b")); /* other settings begin anew */
    checkpoint_close(quantized(&other, "c"));
    assert_same_file(test_path(&results, "b/model.safetensors"), test_path(&results, "c/model.safetensors"));
}

static void a_full_disk_is_one_line_and_the_next_run_goes_on(void **state) {
    (void)state;
    QuantizeOptions o = with_group(8, 32, NULL);
    struct rlimit old, small = {6000, RLIM_INFINITY};
    Error err = {""};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool ok = quantize_folder(source.path, test_path(&results, "a"), &o, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(ok);
    if (!strstr(err.text, "cannot be written")) fail_msg("%s", err.text);
    checkpoint_close(quantized(&o, "a"));
}

static void running_out_of_memory_anywhere_is_an_error(void **state) {
    (void)state;
    QuantizeOptions o = with_group(4, 32, NULL);
    Error err;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        assert_true(n < 2000);
        mem_fail_after(n);
        done = quantize_folder(source.path, test_path(&results, "a"), &o, &err);
        mem_fail_after(0);
        if (!done && !strstr(err.text, "memory")) fail_msg("allocation %d: %s", (int)n, err.text);
    }
}

/* ---- refusals ---- */

static void settings_that_do_not_exist_are_refused(void **state) {
    (void)state;
    QuantizeOptions o = with_group(7, 32, NULL);
    refused(&o, "affine has 2, 3, 4, 5, 6 or 8 bits, not 7");
    o = with_group(4, 48, NULL);
    refused(&o, "groups of 32, 64 or 128, not 48");
    o = with_group(8, 0, NULL);
    o.mode = "mxfp4";
    refused(&o, "mxfp4 has 4 bits in groups of 32, not 8");
    o = with_group(0, 0, "mixed_3_4");
    o.mode = "nvfp4";
    refused(&o, "mixed_3_4 goes with the mode affine only");
    char recipe[300];
    snprintf(recipe, sizeof recipe, "%s/recipe.txt", source.path);
    o = with_group(4, 32, recipe);
    refused(&o, "recipe.txt: No such file");
    test_write_text(&source, "recipe.txt", "*.up_proj 4\n*.q_proj\n");
    refused(&o, "recipe.txt: line 2: a line is PATTERN BITS");
    test_write_text(&source, "recipe.txt", "*.up_proj four\n");
    refused(&o, "line 1: \"four\"");
    test_write_text(&source, "recipe.txt", "*.up_proj 4 128\n");
    refused(&o, "32 inputs do not divide into groups of 128");
}

static void sources_that_are_no_float_checkpoints_are_refused(void **state) {
    (void)state;
    QuantizeOptions o = with_group(4, 32, NULL);
    TinyLlama quantised = {.config = ", \"quantization\": {\"bits\": 4, \"group_size\": 32}"};
    tiny_write(&source, &quantised);
    refused(&o, "is quantised already");
    TinyLlama normed = {.config = ", \"norm_head\": true"}, plain = {.config = ", \"norm_head\": false"};
    tiny_write(&source, &normed);
    refused(&o, "\"norm_head\" is on");
    tiny_write(&source, &plain);
    checkpoint_close(quantized(&o, "plain"));
    Error err;
    assert_false(quantize_folder(test_path(&source, "nowhere"), test_path(&results, "no"), &o, &err));
    assert_non_null(strstr(err.text, "nowhere"));
}

static void a_folder_that_is_there_is_not_written_over(void **state) {
    (void)state;
    QuantizeOptions o = with_group(4, 32, NULL);
    Error err;
    assert_int_equal(mkdir(test_path(&results, "a"), 0777), 0);
    assert_false(quantize_folder(source.path, test_path(&results, "a"), &o, &err));
    assert_non_null(strstr(err.text, "is already there; choose another folder"));
    assert_false(test_exists(test_path(&results, "a.part")));
}

/* ---- names ---- */

static void patterns_match_and_rewrite(void **state) {
    (void)state;
    char out[64];
    int64_t n;
    assert_true(patterns_match("a.*|*.b", "x.b"));
    assert_false(patterns_match("a.*|*.b", "x.bb"));
    assert_false(patterns_match(NULL, "x"));
    assert_true(pattern_rewrite("*.experts.#.w1.weight", "*.switch_mlp.gate_proj.weight",
                                "model.layers.3.experts.12.w1.weight", out, sizeof out, &n));
    assert_string_equal(out, "model.layers.3.switch_mlp.gate_proj.weight");
    assert_int_equal(n, 12);
    assert_false(pattern_rewrite("*.experts.#.w1", "*", "a.experts.x.w1", out, sizeof out, &n));
    assert_false(pattern_rewrite(
        "*", "*", "a name longer than what it is to go into, which holds only sixty-four bytes", out, sizeof out, &n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matrices_are_packed_and_vectors_stay, make, clear),
        cmocka_unit_test_setup_teardown(the_configs_number_format_is_taken, make, clear),
        cmocka_unit_test_setup_teardown(a_recipes_first_matching_line_counts, make, clear),
        cmocka_unit_test_setup_teardown(a_stopped_run_goes_on_and_ends_with_the_same_bytes, make, clear),
        cmocka_unit_test_setup_teardown(a_full_disk_is_one_line_and_the_next_run_goes_on, make, clear),
        cmocka_unit_test_setup_teardown(running_out_of_memory_anywhere_is_an_error, make, clear),
        cmocka_unit_test_setup_teardown(settings_that_do_not_exist_are_refused, make, clear),
        cmocka_unit_test_setup_teardown(sources_that_are_no_float_checkpoints_are_refused, make, clear),
        cmocka_unit_test_setup_teardown(a_folder_that_is_there_is_not_written_over, make, clear),
        cmocka_unit_test(patterns_match_and_rewrite),
    };
    kernels_select(NULL, NULL);
    pool = pool_new(2, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return failed;
}
