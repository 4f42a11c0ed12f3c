/* Loading: families, key and tensor accounting, the output head, quantised overrides, and what is left after a failure.
 */
#include "base/memory.h"
#include "eval/trace.h"
#include "support/golden.h"
#include "support/tiny_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void refuses_with(const TinyLlama *t, const ModelOptions *o, const char *says) {
    TinyModel m;
    Error err = {""};
    tiny_write(&test_folder, t);
    assert_false(tiny_open(&m, &test_folder, o, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void refuses(const TinyLlama *t, const char *says) {
    refuses_with(t, NULL, says);
}

/* Logits of ids 1, 2, 3 of the tiny checkpoint as it now lies in the folder. */
typedef struct Logits {
    float values[3][TINY_VOCAB];
} Logits;

static bool keep(void *context, int first, int n, const float *logits, Error *err) {
    Logits *out = context;
    (void)err;
    memcpy(out->values[first], logits, (size_t)n * sizeof out->values[0]);
    return true;
}

static Logits logits_of(const TinyLlama *t, const ModelOptions *o) {
    static const int32_t ids[] = {1, 2, 3};
    TraceOptions trace = {.ids = ids, .n_ids = 3};
    TinyModel m;
    Error err = {""};
    Logits out;
    tiny_write(&test_folder, t);
    if (!tiny_open(&m, &test_folder, o, &err)) fail_msg("%s", err.text);
    if (!trace_run(m.model, &trace, keep, &out, &err)) fail_msg("%s", err.text);
    tiny_close(&m);
    return out;
}

static void an_unknown_family_gets_the_nearest_ones(void **state) {
    (void)state;
    refuses(&(TinyLlama){.replaced = "model_type", .config = ", \"model_type\": \"lama\""},
            "\"lama\" is not supported yet; supported, nearest first: llama");
    refuses(&(TinyLlama){.replaced = "model_type"}, "has no \"model_type\"");
}

static void every_config_key_is_accounted_for(void **state) {
    static const char *const ignored[] = {"brand_new"};
    ModelOptions o = {.numeric = {KV_F32, 16}, .ignore_config = ignored, .n_ignore_config = 1};
    TinyModel m;
    Buffer text = {0};
    (void)state;
    refuses(&(TinyLlama){.config = ", \"brand_new\": 3"}, "--ignore-config brand_new");
    tiny_write(&test_folder, &(TinyLlama){.config = ", \"brand_new\": 3"});
    assert_true(tiny_open(&m, &test_folder, &o, NULL));
    model_describe(m.model, 64, &text);
    assert_non_null(strstr(buffer_string(&text), "brand_new"));
    buffer_clear(&text);
    tiny_close(&m);
}

static void impossible_sizes_are_refused(void **state) {
    static const char *const cases[][3] = {
        {"hidden_size", ", \"hidden_size\": 33", "not divisible by \"num_attention_heads\" 2"},
        {"hidden_size", ", \"hidden_size\": 0", "\"hidden_size\" is 0, expected"},
        {"hidden_size", "", "has no \"hidden_size\""},
        {"num_key_value_heads", ", \"num_key_value_heads\": 3", "2 attention heads do not divide over 3"},
        {"num_attention_heads",
         ", \"num_attention_heads\": 268435456, \"head_dim\": 268435456, \"num_key_value_heads\": 1",
         "more than any model has"},
        {"num_hidden_layers", ", \"num_hidden_layers\": 4097", "4097 layers are more than any model has"},
        {"vocab_size", ", \"vocab_size\": 41",
         "\"model.embed_tokens.weight\" has shape [40, 32], config.json implies [41, 32]"},
        {"", ", \"hidden_act\": \"mish\"", "\"hidden_act\" is \"mish\""},
        {"", ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]", "no \"sliding_window\""},
        {"", ", \"layer_types\": [\"full_attention\"]", "has 1 items, expected 2"},
        {"", ", \"layer_types\": [\"full_attention\", \"linear\"]", "item 1"},
        {"", ", \"head_dim\": 15", "even number"},
        {"", ", \"rope_scaling\": {\"type\": \"wide\", \"factor\": 2}", "\"wide\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(&(TinyLlama){.replaced = cases[i][0], .config = cases[i][1]}, cases[i][2]);
}

static void the_context_is_what_the_config_allows_at_most(void **state) {
    ModelOptions o = {.numeric = {KV_F32, 16}, .context = 601};
    TinyModel m;
    (void)state;
    refuses_with(&(TinyLlama){0}, &o, "601 is more than the 600 positions");
    refuses_with(&(TinyLlama){.config = ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}"}, &o,
                 "dynamic rope");
    o.context = 100;
    assert_true(tiny_open(&m, &test_folder, &o, NULL));
    assert_int_equal(model_context(m.model), 100);
    assert_int_equal(model_max_context(m.model), 600);
    tiny_close(&m);
}

static void a_missing_extra_or_misshapen_tensor_is_named_with_shapes(void **state) {
    (void)state;
    refuses(&(TinyLlama){.omit = "model.layers.1.mlp.up_proj.weight"},
            "has no tensor \"model.layers.1.mlp.up_proj.weight\", expected with shape [48, 32]");
    refuses(&(TinyLlama){.omit = "model.norm.weight"}, "\"model.norm.weight\", expected with shape [32]");
    refuses(&(TinyLlama){.reshape = "model.layers.0.self_attn.k_proj.weight"},
            "\"model.layers.0.self_attn.k_proj.weight\" has shape [15, 32], config.json implies [16, 32]");
    refuses(&(TinyLlama){.extra = "model.layers.2.strange"}, "tensor \"model.layers.2.strange\" [3] has no place");
    refuses(&(TinyLlama){.extra = "model.layers.0.self_attn.q_proj.bias"},
            "q_proj.bias\" [3] has no place"); /* no attention_bias */
    refuses(&(TinyLlama){.config = ", \"attention_bias\": true"},
            "\"model.layers.0.self_attn.q_proj.bias\", expected with shape [32]");
    refuses(&(TinyLlama){.config = ", \"mlp_bias\": true"},
            "\"model.layers.0.mlp.gate_proj.bias\", expected with shape [48]");
}

static void tensors_that_are_not_needed_are_skipped_and_told(void **state) {
    TinyModel m;
    Buffer text = {0};
    (void)state;
    tiny_write(&test_folder, &(TinyLlama){.extra = "model.layers.1.self_attn.rotary_emb.inv_freq"});
    assert_true(tiny_open(&m, &test_folder, NULL, NULL));
    model_describe(m.model, 64, &text);
    assert_non_null(strstr(buffer_string(&text), "not needed: model.layers.1.self_attn.rotary_emb.inv_freq"));
    buffer_clear(&text);
    tiny_close(&m);
}

/* The four combinations of cases.md, case 23, and those where config.json does not say. */
static void the_head_is_the_checkpoints_or_the_embedding(void **state) {
    static const char tied[] = ", \"tie_word_embeddings\": true", untied[] = ", \"tie_word_embeddings\": false";
    (void)state;
    Logits own = logits_of(&(TinyLlama){.config = untied, .head = TINY_HEAD_OWN}, NULL);
    Logits shared = logits_of(&(TinyLlama){.config = tied, .head = TINY_HEAD_NONE}, NULL);
    assert_memory_not_equal(&own, &shared, sizeof own);
    Logits copy = logits_of(&(TinyLlama){.config = tied, .head = TINY_HEAD_COPY}, NULL);
    assert_memory_equal(&copy, &shared, sizeof own);
    Logits different = logits_of(&(TinyLlama){.config = tied, .head = TINY_HEAD_OWN}, NULL); /* used, with a warning */
    assert_memory_equal(&different, &own, sizeof own);
    refuses(&(TinyLlama){.config = untied, .head = TINY_HEAD_NONE}, "has no tensor \"lm_head.weight\"");

    Logits unsaid = logits_of(&(TinyLlama){.head = TINY_HEAD_NONE}, NULL);
    assert_memory_equal(&unsaid, &shared, sizeof own);
    unsaid = logits_of(&(TinyLlama){.head = TINY_HEAD_OWN}, NULL);
    assert_memory_equal(&unsaid, &own, sizeof own);
}

/* A golden's folder with its config.json changed: `from` becomes `to`. */
static void change_golden(const char *golden, const char *from, const char *to) {
    char path[300];
    snprintf(path, sizeof path, "%s/config.json", golden);
    char *text = test_read(path, NULL), *at = strstr(text, from);
    Buffer changed = {0};
    assert_non_null(at);
    buffer_printf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    test_write(&test_folder, "config.json", changed.data, changed.length);
    snprintf(path, sizeof path, "%s/model.safetensors", golden);
    size_t n;
    char *weights = test_read(path, &n); /* a copy: a link would let the next test write into the golden */
    test_write(&test_folder, "model.safetensors", weights, n);
    free(weights);
    free(text);
    buffer_clear(&changed);
}

static void changed_golden_refuses(const char *golden, const char *from, const char *to, const char *says) {
    TinyModel m;
    Error err = {""};
    change_golden(golden, from, to);
    assert_false(tiny_open(&m, &test_folder, NULL, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void change_refuses(const char *to, const char *says) {
    changed_golden_refuses("tests/goldens/mlx-quant/llama-affine4-g64-bf16", "\"mode\": \"affine\"", to, says);
}

/* A model of 3 layers is one of 2 whose checkpoint has one more, that predicts a further token. */
static void layers_that_predict_further_tokens_are_skipped_and_told(void **state) {
    static const char golden[] = "tests/goldens/mlx/glm4_moe";
    static const char from[] = "\"num_hidden_layers\": 3,\n    \"num_key_value_heads\": 2,\n"
                               "    \"num_nextn_predict_layers\": 0";
    TinyModel m;
    Buffer text = {0};
    Error err = {""};
    (void)state;
    changed_golden_refuses(golden, from,
                           "\"num_hidden_layers\": 2, \"num_key_value_heads\": 2,"
                           " \"num_nextn_predict_layers\": 0",
                           "others have no place");
    change_golden(golden, from, "\"num_hidden_layers\": 2, \"num_key_value_heads\": 2, \"num_mtp_layers\": 1");
    if (!tiny_open(&m, &test_folder, NULL, &err)) fail_msg("%s", err.text);
    model_describe(m.model, 64, &text);
    assert_non_null(strstr(buffer_string(&text), "tensors not needed: 19, from model.layers.2."));
    buffer_clear(&text);
    tiny_close(&m);
    change_golden(golden, from,
                  "\"num_hidden_layers\": 1, \"num_key_value_heads\": 2,"
                  " \"num_nextn_predict_layers\": 2");
    if (!tiny_open(&m, &test_folder, NULL, &err)) fail_msg("%s", err.text);
    tiny_close(&m);
}

static void a_quantised_weight_must_have_the_shape_that_the_config_says(void **state) {
    static const char six[] =
        "\"mode\": \"affine\", \"model.layers.1.mlp.down_proj\": {\"bits\": 6, \"group_size\": 64}";
    (void)state;
    change_refuses(six, "\"model.layers.1.mlp.down_proj.weight\" has shape [128, 8], config.json implies [128, 12]");
    change_refuses(six, "affine 6-bit g64");
    change_refuses("\"mode\": \"affine\", \"lm_head\": {\"bits\": 4, \"group_size\": 32}",
                   "\"lm_head.scales\" has shape [128, 2], config.json implies [128, 4]");
    change_refuses("\"mode\": \"affine\", \"lm_head\": false",
                   "\"lm_head.scales\" is there, but config.json says the module is not quantised");
    change_refuses("\"mode\": \"q4_k\", \"bits\": 4, \"group_size\": 32",
                   "128 inputs do not divide into groups of 256");
}

/* Whatever allocation fails, loading says so and gives everything back (the sanitizer build counts). */
static void loading_survives_the_failure_of_any_allocation(void **state) {
    Error err;
    bool loaded = false;
    (void)state;
    tiny_write(&test_folder,
               &(TinyLlama){.head = TINY_HEAD_OWN, .extra = "model.layers.1.self_attn.rotary_emb.inv_freq"});
    Checkpoint *checkpoint = checkpoint_open(test_folder.path, NULL);
    Pool *pool = pool_new(1, NULL);
    ModelOptions o = {.numeric = {KV_F32, 16}};
    int n = 1;
    for (; !loaded && n < 10000; n++) {
        err.text[0] = 0;
        mem_fail_after((uint64_t)n);
        Model *m = model_load(checkpoint, &o, pool, &err);
        mem_fail_after(0);
        loaded = m != NULL;
        if (!loaded && !strstr(err.text, "memory")) fail_msg("allocation %d: \"%s\"", n, err.text);
        model_free(m);
    }
    assert_true(loaded && n > 50);
    pool_free(pool);
    checkpoint_close(checkpoint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_family_gets_the_nearest_ones),
        cmocka_unit_test(every_config_key_is_accounted_for),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(the_context_is_what_the_config_allows_at_most),
        cmocka_unit_test(a_missing_extra_or_misshapen_tensor_is_named_with_shapes),
        cmocka_unit_test(tensors_that_are_not_needed_are_skipped_and_told),
        cmocka_unit_test(the_head_is_the_checkpoints_or_the_embedding),
        cmocka_unit_test(a_quantised_weight_must_have_the_shape_that_the_config_says),
        cmocka_unit_test(layers_that_predict_further_tokens_are_skipped_and_told),
        cmocka_unit_test(loading_survives_the_failure_of_any_allocation),
    };
    return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
