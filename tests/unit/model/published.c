/* quantization_config of published checkpoints: which modules it takes for quantised, how, and what it refuses. */
#include "model/published.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The block `text`, without its braces; whether reading it succeeds. */
static JsonDoc *read_block(const char *text, Published *out, Error *err) {
    static const char *const passed[] = {"quantization_config.odd"};
    char whole[2000];
    IgnoredKeys ignored = {passed, 1};
    snprintf(whole, sizeof whole, "{%s}", text);
    JsonDoc *doc = json_parse(whole, strlen(whole), 0, err);
    if (!doc) fail_msg("%s", err->text);
    if (published_read(json_root(doc), &ignored, out, err)) return doc;
    json_free(doc);
    return NULL;
}

static void assert_refused(const char *text, const char *says) {
    Published p;
    Error err = {""};
    if (read_block(text, &p, &err)) fail_msg("%s is not refused", text);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static PublishedWeights weights_of(const Published *p, const char *module) {
    const PublishedWeights *w;
    Error err = {""};
    if (!published_module(p, module, &w, &err)) fail_msg("%s", err.text);
    return w ? *w : (PublishedWeights){.storage = STORED_FLOATS};
}

static void assert_weights(const char *text, const char *module, PublishedWeights expected, const char *note) {
    Published p;
    Error err = {""};
    JsonDoc *doc = read_block(text, &p, &err);
    if (!doc) fail_msg("%s", err.text);
    PublishedWeights w = weights_of(&p, module);
    assert_int_equal(w.storage, expected.storage);
    assert_int_equal(w.bits, expected.bits);
    assert_int_equal(w.group, expected.group);
    assert_int_equal(w.block_rows, expected.block_rows);
    assert_int_equal(w.block_cols, expected.block_cols);
    assert_int_equal(w.asymmetric, expected.asymmetric);
    if (!strstr(p.note, note)) fail_msg("\"%s\" does not say \"%s\"", p.note, note);
    published_clear(&p);
    json_free(doc);
}

#define CT "\"quant_method\": \"compressed-tensors\", "

static void every_method(void **state) {
    (void)state;
    assert_weights("\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 64, \"version\": \"GEMM\"", "m.up",
                   (PublishedWeights){STORED_AWQ, 4, 64, 0, 0, true}, "awq");
    assert_weights("\"quant_method\": \"gptq\", \"bits\": 3, \"group_size\": -1, \"desc_act\": true, \"odd\": 1",
                   "m.up", (PublishedWeights){STORED_GPTQ, 3, 0, 0, 0, true}, "less one");
    assert_weights("\"quant_method\": \"gptq\", \"bits\": 8, \"checkpoint_format\": \"gptq_v2\"", "m.up",
                   (PublishedWeights){STORED_GPTQ, 8, 128, 0, 0, true}, "gptq_v2");
    assert_weights("\"quant_method\": \"fp8\", \"weight_block_size\": [128, 64], \"activation_scheme\": \"static\"",
                   "m.up", (PublishedWeights){STORED_FP8, 8, 0, 128, 64, false}, "static 8-bit floats");
    assert_weights("\"quant_method\": \"mxfp4\"", "m.up", (PublishedWeights){STORED_BLOCKS, 4, 32, 0, 0, false},
                   "mxfp4");
    assert_weights("\"quant_method\": \"bitnet\", \"linear_class\": \"autobitlinear\"", "m.up",
                   (PublishedWeights){STORED_TERNARY, 2, 0, 0, 0, false}, "weights only");
    assert_weights(CT "\"format\": \"pack-quantized\", \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"],"
                      " \"weights\": {\"num_bits\": 4, \"group_size\": 128, \"symmetric\": false}}}",
                   "m.up", (PublishedWeights){STORED_PACKED, 4, 128, 0, 0, true}, "pack-quantized");
    assert_weights(
        CT "\"format\": \"int-quantized\", \"kv_cache_scheme\": {\"num_bits\": 8, \"dynamic\": false},"
           " \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"],"
           " \"weights\": {\"num_bits\": 8, \"strategy\": \"channel\"},"
           " \"input_activations\": {\"num_bits\": 8, \"dynamic\": true}}}",
        "m.up", (PublishedWeights){STORED_BYTES, 8, 0, 0, 0, false},
        "weights only: the config's input activations (8 bits, dynamic) are not applied, nor are its keys and "
        "values (8 bits, static)");
    assert_weights(CT "\"format\": \"float-quantized\", \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"],"
                      " \"weights\": {\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\","
                      " \"block_structure\": [128, 128]}}}",
                   "m.up", (PublishedWeights){STORED_FP8, 8, 0, 128, 128, false}, "float-quantized");
    assert_weights(CT "\"format\": \"nvfp4-pack-quantized\", \"config_groups\": {\"g\": {\"targets\": [\"re:m.*\"],"
                      " \"weights\": {\"num_bits\": 4, \"type\": \"float\", \"strategy\": \"tensor_group\","
                      " \"group_size\": 16}}}",
                   "m.up", (PublishedWeights){STORED_NVFP4, 4, 16, 0, 0, false}, "nvfp4");
}

/* transformers' list: from the start to a dot or the end, as an expression, or a name's ending. */
static void modules_not_to_convert(void **state) {
    static const char text[] =
        "\"quant_method\": \"gptq\", \"bits\": 4, \"modules_to_not_convert\":"
        " [\"model.layers.1\", \"model.layers.*.self_attn\", \"gate\", \"lm_head\", \"model.layers.2.\","
        " \"m.del.layers.3.mlp\", \"(a|b).c\"]";
    Published p;
    Error err = {""};
    (void)state;
    JsonDoc *doc = read_block(text, &p, &err);
    assert_non_null(doc);
    assert_int_equal(weights_of(&p, "model.layers.1.mlp.up_proj").storage, STORED_FLOATS);
    assert_int_equal(weights_of(&p, "model.layers.11.mlp.up_proj").storage, STORED_GPTQ);
    assert_int_equal(weights_of(&p, "model.layers.11.self_attn.q_proj").storage, STORED_FLOATS);
    assert_int_equal(weights_of(&p, "model.layers.5.mlp.gate").storage, STORED_FLOATS);
    assert_int_equal(weights_of(&p, "model.layers.5.mlp.gate_proj").storage, STORED_GPTQ);
    assert_int_equal(weights_of(&p, "lm_head").storage, STORED_FLOATS);
    assert_int_equal(weights_of(&p, "model.layers.2.mlp.up_proj").storage, STORED_FLOATS); /* after its dot */
    assert_int_equal(weights_of(&p, "model.layers.3.mlp.up_proj").storage, STORED_FLOATS); /* a dot is any character */
    assert_int_equal(weights_of(&p, "model.layers.4.mlp.up_proj").storage, STORED_GPTQ);
    assert_int_equal(weights_of(&p, "b.c.up_proj").storage, STORED_FLOATS);
    assert_int_equal(weights_of(&p, "b.cc").storage, STORED_GPTQ);
    published_clear(&p);
    json_free(doc);
}

/* compressed-tensors: whole names, "re:" from the start, classes; the most exact target counts. */
static void targets_and_ignore(void **state) {
    static const char text[] =
        CT "\"format\": \"mixed-precision\", \"ignore\": [\"lm_head\", \"re:.*\\\\.router$\"], \"config_groups\": {"
           " \"a\": {\"targets\": [\"Linear\"], \"format\": \"int-quantized\", \"weights\": {\"num_bits\": 8}},"
           " \"b\": {\"targets\": [\"re:.*mlp\\\\.(up|down)_proj\"], \"format\": \"pack-quantized\","
           "   \"weights\": {\"num_bits\": 4, \"group_size\": 32}},"
           " \"c\": {\"targets\": [\"m.0.mlp.down_proj\"], \"format\": \"pack-quantized\", \"weights\": {\"num_bits\": "
           "2}}}";
    Published p;
    Error err = {""};
    (void)state;
    JsonDoc *doc = read_block(text, &p, &err);
    if (!doc) fail_msg("%s", err.text);
    assert_int_equal(weights_of(&p, "m.0.attn.q_proj").bits, 8);
    assert_int_equal(weights_of(&p, "m.0.mlp.up_proj").bits, 4);
    assert_int_equal(weights_of(&p, "m.0.mlp.down_proj").bits, 2);
    assert_int_equal(weights_of(&p, "m.1.mlp.down_proj").bits, 4);
    assert_int_equal(weights_of(&p, "lm_head").storage, STORED_FLOATS);
    assert_int_equal(weights_of(&p, "m.lm_head").storage, STORED_BYTES);
    assert_int_equal(weights_of(&p, "m.0.mlp.router").storage, STORED_FLOATS);
    published_clear(&p);
    json_free(doc);
}

static void what_is_not_known_is_refused_by_name(void **state) {
    (void)state;
    assert_refused("\"quant_method\": \"aqlm\"", "\"aqlm\" are not supported; supported: awq, gptq");
    assert_refused("\"quant_method\": \"awq\", \"bits\": 4, \"surprise\": 1",
                   "\"surprise\" of quantization_config is not known for quant_method awq");
    assert_refused("\"quant_method\": \"awq\", \"bits\": 8", "bits is 8, expected 4");
    assert_refused("\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\"", "version is gemv, expected gemm");
    assert_refused("\"quant_method\": \"awq\", \"bits\": 4, \"zero_point\": false", "zero_point is false");
    assert_refused("\"quant_method\": \"awq\", \"bits\": 4, \"modules_to_not_convert\": [\"(\"]", "\"(\"");
    assert_refused("\"quant_method\": \"awq\", \"bits\": 4, \"modules_to_not_convert\": [4]", "not text");
    assert_refused("\"quant_method\": \"gptq\"", "bits is absent");
    assert_refused("\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 0", "group_size is 0");
    assert_refused("\"quant_method\": \"gptq\", \"bits\": 4, \"checkpoint_format\": \"marlin\"", "marlin");
    assert_refused("\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"", "fmt is e5m2");
    assert_refused("\"quant_method\": \"fp8\", \"weight_block_size\": [128]", "two sizes");
    assert_refused("\"quant_method\": \"bitnet\", \"use_rms_norm\": true", "use_rms_norm is true");
    assert_refused("\"quant_method\": \"bitnet\", \"quantization_mode\": \"online\"", "linear_class is absent");
    assert_refused(CT "\"format\": \"marlin-24\", \"config_groups\": {\"a\": {\"targets\": [\"Linear\"]}}",
                   "marlin-24");
    assert_refused(CT "\"format\": \"pack-quantized\"", "config_groups is absent");
    assert_refused(CT "\"format\": \"dense\", \"transform_config\": {\"R1\": {}}, \"config_groups\": {}",
                   "transform_config");
    assert_refused(CT "\"format\": \"pack-quantized\", \"config_groups\": {\"a\": {\"targets\": [\"Linear\"],"
                      " \"weights\": {\"num_bits\": 4, \"type\": \"float\"}}}",
                   "4 bits and type float are not known in the format pack-quantized");
    assert_refused(CT "\"format\": \"pack-quantized\", \"config_groups\": {\"a\": {\"targets\": [\"Linear\"],"
                      " \"weights\": {\"num_bits\": 4, \"strategy\": \"group\"}}}",
                   "group_size is absent");
    assert_refused(CT "\"format\": \"pack-quantized\", \"config_groups\": {\"a\": {\"weights\": {\"num_bits\": 4}}}",
                   "no \"targets\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(modules_not_to_convert),
        cmocka_unit_test(targets_and_ignore),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
