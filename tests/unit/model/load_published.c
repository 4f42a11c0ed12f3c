/* Loading published quantised forms: goldens whose config or tensors are changed in one place, what inspect says of
 * them, and what is left after a failure. */
#include "base/memory.h"
#include "support/folder.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A change: in config.json the first `from` becomes `to`; tensor `tensor` gets the data and shape of `in_place`, or is
 * added. */
typedef struct Change {
    const char *from, *to;
    const char *tensor;
    Tensor in_place;
} Change;

static void write_config(const char *golden, const Change *c) {
    char path[300], text[4000];
    snprintf(path, sizeof path, "tests/goldens/hf-quant/%s/config.json", golden);
    char *whole = test_read(path, NULL), *at = c->from ? strstr(whole, c->from) : whole;
    if (!at) fail_msg("%s has no %s", path, c->from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, c->from ? c->to : "",
             at + (c->from ? strlen(c->from) : 0));
    test_write_text(&test_folder, "config.json", text);
    free(whole);
}

static void write_tensors(const char *golden, const Change *c) {
    char path[300];
    Error err = {""};
    snprintf(path, sizeof path, "tests/goldens/hf-quant/%s/model.safetensors", golden);
    Safetensors *s = safetensors_open(path, &err);
    if (!s) fail_msg("%s", err.text);
    int n = safetensors_count(s), at = n;
    Tensor *list = mem_zeroed((size_t)n + 1, sizeof *list);
    for (int i = 0; i < n; i++) {
        list[i] = *safetensors_tensor(s, i);
        if (c->tensor && strcmp(list[i].name, c->tensor) == 0) at = i;
    }
    if (c->tensor) {
        list[at] = c->in_place;
        list[at].name = c->tensor;
        if (at == n) n++;
    }
    SafetensorsWriter *w = safetensors_create(test_path(&test_folder, "model.safetensors"), list, n, &err);
    if (!w) fail_msg("%s", err.text);
    for (int i = 0; i < n; i++) assert_true(safetensors_write(w, list[i].data, (size_t)list[i].bytes, &err));
    assert_true(safetensors_finish(w, &err));
    mem_free(list);
    safetensors_close(s);
}

/* The changed golden; NULL with the reason. */
static Model *load(const char *golden, const Change *c, Checkpoint **checkpoint, Pool **pool, Error *err) {
    static const char *const ignored[] = {"quantization_config.surprise"};
    ModelOptions o = {.numeric = {KV_F32, 16}, .ignore_config = ignored, .n_ignore_config = 1};
    write_config(golden, c);
    write_tensors(golden, c);
    *pool = pool_new(1, err);
    *checkpoint = checkpoint_open(test_folder.path, err);
    Model *m = *pool && *checkpoint ? model_load(*checkpoint, &o, *pool, err) : NULL;
    if (m) return m;
    checkpoint_close(*checkpoint);
    pool_free(*pool);
    return NULL;
}

static void refuses(const char *golden, Change c, const char *says) {
    Checkpoint *checkpoint;
    Pool *pool;
    Error err = {""};
    if (load(golden, &c, &checkpoint, &pool, &err)) fail_msg("%s with %s is not refused", golden, c.to);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void says(const char *golden, Change c, const char *first, const char *second) {
    Checkpoint *checkpoint;
    Pool *pool;
    Error err = {""};
    Buffer text = {0};
    Model *m = load(golden, &c, &checkpoint, &pool, &err);
    if (!m) fail_msg("%s: %s", golden, err.text);
    model_describe(m, 16, &text);
    if (!strstr(text.data, first) || !strstr(text.data, second))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", text.data, first, second);
    buffer_clear(&text);
    model_free(m);
    checkpoint_close(checkpoint);
    pool_free(pool);
}

static void inspect_says_what_became_of_the_weights(void **state) {
    Change none = {.from = NULL};
    (void)state;
    says("gptq-int4", none, "quantised by gptq (gptq, zero points less one)", "int 4-bit g32 (gptq): 14 matrices");
    says("gptq-int2-g16", none, "f32 (gptq: groups of 16 among 64 inputs are no multiple of 32)", "f16: 2 matrices");
    says("fp8-tensor-static", none, "weights only: inputs are not rounded to the static 8-bit floats",
         "tensors not needed: 13, from model.layers.0.mlp.down_proj.input_scale");
    static const float one = 1;
    Tensor scale = {.dtype = DTYPE_F32, .n_dims = 1, .shape = {1}, .bytes = 4, .data = (const void *)&one};
    says("fp8-tensor", (Change){NULL, NULL, "model.layers.1.self_attn.k_scale", scale}, "fp8 (fp8): 13 matrices",
         "tensor not needed: model.layers.1.self_attn.k_scale");
    says("ct-fp8-tensor", none, "nor are its keys and values (8 bits, static)", "fp8 (compressed");
    says("deepseek_v3-fp8", none, "f32 (fp8: inputs and outputs change places)", "fp8 (fp8)");
}

static void a_list_must_not_contradict_the_tensors(void **state) {
    (void)state;
    refuses("gptq-int4", (Change){"\"bits\"", "\"modules_to_not_convert\": [\"up_proj\"], \"bits\"", NULL, {0}},
            "\"model.layers.0.mlp.up_proj\" is quantised, but config.json says that it is not");
    refuses("ct-int4-group", (Change){"\"lm_head\"", "\"lm_head\", \"re:.*v_proj\"", NULL, {0}},
            "\"model.layers.0.self_attn.v_proj\" is quantised");
    refuses("ct-int4-group", (Change){"\"Linear\"", "\"re:.*mlp.*\"", NULL, {0}},
            "\"model.layers.0.self_attn.q_proj\" is quantised");
}

static void online_weights_are_floats(void **state) {
    (void)state;
    refuses("bitnet-offline", (Change){"\"offline\"", "\"online\"", NULL, {0}},
            "packed, but quantization_mode is online");
    says("bitnet-online",
         (Change){"\"quant_method\"", "\"modules_to_not_convert\": [\"o_proj\"], \"quant_method\"", NULL, {0}},
         "bf16: 3 matrices",
         "int 2-bit g64 (bitnet): 11 matrices"); /* a list without the head in it: the head is one */
}

static void sizes_are_those_of_the_tensors(void **state) {
    (void)state;
    refuses("gptq-int4", (Change){"\"group_size\": 32", "\"group_size\": 64", NULL, {0}},
            "\"model.layers.0.self_attn.q_proj.scales\" has shape [2, 64], config.json implies [1, 64]");
    refuses("gptq-int4", (Change){"\"bits\": 4", "\"bits\": 8", NULL, {0}}, "q_proj.qweight\" has shape [8, 64]");
    says("gptq-int4", (Change){"\"bits\": 4", "\"dynamic\": {\"+:.*\": {\"bits\": 4}}, \"bits\": 8", NULL, {0}}, "gptq",
         "int 4-bit g32 (gptq): 14 matrices");
    refuses("llama-awq", (Change){"\"group_size\": 32", "\"group_size\": -1", NULL, {0}}, "read as awq");
    refuses("ct-int4-group", (Change){"\"num_bits\": 4", "\"num_bits\": 8", NULL, {0}}, "weight_packed\" has shape");
    refuses("ct-int8-channel", (Change){"\"channel\"", "\"group\", \"group_size\": 32", NULL, {0}},
            "weight_scale\" has shape [64, 1], config.json implies 64 by 2 scales");
    refuses("deepseek_v3-fp8", (Change){"      128,\n", "      64,\n", NULL, {0}}, "weight_scale_inv\" has shape");
    refuses("gpt_oss-mxfp4", (Change){"\"intermediate_size\": 32", "\"intermediate_size\": 64", NULL, {0}},
            "config.json implies [4, 128, 1, 16]");
    refuses("bitnet-llama", (Change){"\"intermediate_size\": 96", "\"intermediate_size\": 94", NULL, {0}},
            "94 outputs are not four to a byte");
    refuses("ct-nvfp4", (Change){"\"group_size\": 16", "\"group_size\": 32", NULL, {0}}, "weight_scale\" has shape");
}

static void tensors_that_cannot_be(void **state) {
    static const int32_t groups[96] = {[5] = 3}, shape[4] = {64, 0, 32, 0};
    static const uint16_t zeros[96] = {0}, one[96] = {[7] = 0x3C00};
    static const float zero = 0;
    Tensor bias = {.dtype = DTYPE_F16, .n_dims = 1, .shape = {96}, .bytes = sizeof zeros};
    Tensor order = {
        .dtype = DTYPE_I32, .n_dims = 1, .shape = {96}, .bytes = sizeof groups, .data = (const void *)groups};
    Tensor size = {.dtype = DTYPE_I64, .n_dims = 1, .shape = {2}, .bytes = sizeof shape, .data = (const void *)shape};
    Tensor scale = {.dtype = DTYPE_F32, .n_dims = 1, .shape = {1}, .bytes = 4, .data = (const void *)&zero};
    (void)state;
    refuses("gptq-int4", (Change){NULL, NULL, "model.layers.0.mlp.down_proj.g_idx", order},
            "down_proj.qweight: input 5 is said to be of group 3, and there are 3 groups");
    refuses("ct-int4-group", (Change){NULL, NULL, "model.layers.0.self_attn.q_proj.weight_shape", size},
            "says 64 by 32, config.json implies 64 by 64");
    refuses("ct-nvfp4", (Change){NULL, NULL, "model.layers.0.self_attn.q_proj.weight_global_scale", scale}, "is 0");
    bias.data = (const void *)zeros; /* as some packers give every layer */
    says("gptq-int4", (Change){NULL, NULL, "model.layers.0.mlp.up_proj.bias", bias}, "gptq", "int 4-bit g32");
    bias.data = (const void *)one;
    refuses("gptq-int4", (Change){NULL, NULL, "model.layers.0.mlp.up_proj.bias", bias}, "has no place in this llama");
}

static void keys_are_accounted_for(void **state) {
    (void)state;
    refuses("gptq-int4", (Change){"quantization_config", "bos_token_id", NULL, {0}},
            "q_proj.qweight\", but config.json has no quantization_config");
    refuses("gptq-int4", (Change){"\"bits\"", "\"strange\": 1, \"bits\"", NULL, {0}},
            "--ignore-config quantization_config.strange");
    says("gptq-int4", (Change){"\"bits\"", "\"surprise\": 1, \"bits\"", NULL, {0}}, "gptq",
         "passed over at your word: quantization_config.surprise");
    refuses("gptq-int4", (Change){"\"gptq\",\n    \"bits\"", "\"hqq\", \"bits\"", NULL, {0}},
            "\"hqq\" are not supported");
}

/* Every allocation of a load fails once; sanitizers see what is left. */
static void nothing_is_left_after_a_failure(void **state) {
    static const char *const goldens[] = {"gptq-int4-actorder", "ct-int4-asym", "deepseek_v3-fp8"};
    ModelOptions o = {.numeric = {KV_F32, 16}};
    Error err = {""};
    Pool *pool = pool_new(1, &err);
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        char path[300];
        snprintf(path, sizeof path, "tests/goldens/hf-quant/%s", goldens[i]);
        Checkpoint *checkpoint = checkpoint_open(path, &err);
        Model *m = NULL;
        uint64_t nth = 1;
        for (; !m && nth < 20000; nth++) {
            mem_fail_after(nth);
            m = model_load(checkpoint, &o, pool, &err);
            mem_fail_after(0);
            if (!m && !strstr(err.text, "memory")) fail_msg("allocation %d: %s", (int)nth, err.text);
        }
        assert_true(m && nth > 50);
        model_free(m);
        checkpoint_close(checkpoint);
    }
    pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspect_says_what_became_of_the_weights),
        cmocka_unit_test(a_list_must_not_contradict_the_tensors),
        cmocka_unit_test(online_weights_are_floats),
        cmocka_unit_test(sizes_are_those_of_the_tensors),
        cmocka_unit_test(tensors_that_cannot_be),
        cmocka_unit_test(keys_are_accounted_for),
        cmocka_unit_test(nothing_is_left_after_a_failure),
    };
    return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
