/* The files of sentence-transformers: every spelling of a pooling mode, the modules after it, lengths, prompts, and the
 * one line for each thing that is wrong. */
#include "engine/embed_plan.h"
#include "support/modules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { HIDDEN = 4 };

static Pool *pool;

static EmbedPlan plan_of(bool encoder) {
    EmbedPlan p;
    Error err = {""};
    if (!embed_plan_read(test_folder.path, HIDDEN, encoder, pool, &p, &err)) fail_msg("%s", err.text);
    return p;
}

static void refused(const char *says) {
    EmbedPlan p = {.size = 77};
    Error err = {""};
    assert_false(embed_plan_read(test_folder.path, HIDDEN, true, pool, &p, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(p.size, 77); /* as it was */
}

static void pooling(const char *more) {
    char text[300];
    snprintf(text, sizeof text, "{\"word_embedding_dimension\": %d%s}", HIDDEN, more);
    modules_config(&test_folder, "1_Pooling", text);
}

/* ---- pooling ---- */

static void without_modules_the_kind_of_model_decides(void **state) {
    (void)state;
    for (int encoder = 0; encoder < 2; encoder++) {
        EmbedPlan p = plan_of(encoder);
        assert_false(p.has_modules);
        assert_int_equal(p.pool.n_modes, 1);
        assert_int_equal(p.pool.modes[0], encoder ? POOL_MEAN : POOL_LAST);
        assert_int_equal(p.n_stages, 1);
        assert_int_equal(p.stages[0].kind, STAGE_UNIT);
        assert_int_equal(p.size, HIDDEN);
        assert_int_equal(p.max_tokens, 0);
        embed_plan_clear(&p);
    }
}

static void every_mode_has_two_names(void **state) {
    static const struct {
        const char *name, *older;
        PoolMode mode;
    } modes[] = {{"cls", "pooling_mode_cls_token", POOL_FIRST},
                 {"max", "pooling_mode_max_tokens", POOL_MAX},
                 {"mean", "pooling_mode_mean_tokens", POOL_MEAN},
                 {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", POOL_MEAN_SQRT},
                 {"weightedmean", "pooling_mode_weightedmean_tokens", POOL_WEIGHTED},
                 {"lasttoken", "pooling_mode_lasttoken", POOL_LAST}};
    (void)state;
    modules_list(&test_folder, "Pooling");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        for (int older = 0; older < 2; older++) {
            char text[100];
            snprintf(text, sizeof text, older ? ", \"%s\": true" : ", \"pooling_mode\": \"%s\"",
                     older ? modes[i].older : modes[i].name);
            pooling(text);
            EmbedPlan p = plan_of(true);
            assert_true(p.has_modules && p.pool.n_modes == 1 && p.pool.modes[0] == modes[i].mode);
            assert_int_equal(p.n_stages, 0); /* not normalised: no module says so */
            embed_plan_clear(&p);
        }
}

static void several_modes_make_a_longer_vector(void **state) {
    (void)state;
    modules_list(&test_folder, "Pooling");
    pooling(", \"pooling_mode\": [\"max\", \"cls\"]");
    EmbedPlan p = plan_of(true);
    assert_true(p.size == 2 * HIDDEN && p.pool.modes[0] == POOL_MAX && p.pool.modes[1] == POOL_FIRST);
    embed_plan_clear(&p);
    /* older files have an order of their own */
    pooling(", \"pooling_mode_lasttoken\": true, \"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": false");
    p = plan_of(true);
    assert_true(p.size == 2 * HIDDEN && p.pool.modes[0] == POOL_FIRST && p.pool.modes[1] == POOL_LAST);
    embed_plan_clear(&p);
    pooling(""); /* and nothing is the mean */
    p = plan_of(false);
    assert_true(p.pool.n_modes == 1 && p.pool.modes[0] == POOL_MEAN && !p.without_prompt);
    embed_plan_clear(&p);
    pooling(", \"include_prompt\": false");
    p = plan_of(false);
    assert_true(p.without_prompt);
    embed_plan_clear(&p);
}

static void wrong_pooling_is_refused(void **state) {
    (void)state;
    modules_list(&test_folder, "Pooling");
    refused("1_Pooling/config.json: is missing, though modules.json names the module");
    pooling(", \"pooling_mode\": \"median\"");
    refused("1_Pooling/config.json: the pooling mode \"median\" is not known here");
    pooling(", \"pooling_mode\": [\"cls\", \"max\", \"mean\", \"cls\", \"max\", \"mean\", \"cls\"]");
    refused("the pooling mode \"cls\" is not known here"); /* more than there are */
    modules_config(&test_folder, "1_Pooling", "{\"embedding_dimension\": 5}");
    refused("1_Pooling/config.json: \"embedding_dimension\" is 5, and the model's rows have 4 values");
    modules_config(&test_folder, "1_Pooling", "{\"word_embedding_dimension\": 0}");
    refused("\"word_embedding_dimension\" is missing or no size");
    modules_config(&test_folder, "1_Pooling", "[]");
    refused("is not a JSON object");
    pooling("");
    modules_list(&test_folder, "Pooling Pooling");
    refused("pools twice");
}

/* ---- modules ---- */

static void wrong_lists_are_refused(void **state) {
    (void)state;
    test_write_text(&test_folder, "modules.json", "{}");
    refused("modules.json: is not a list of modules");
    test_write_text(&test_folder, "modules.json", "[]");
    refused("modules.json: is not a list of modules");
    test_write_text(&test_folder, "modules.json", "[{\"path\": \"\", \"type\": \"a.WordEmbeddings\"}]");
    refused("begins with \"a.WordEmbeddings\", expected a Transformer");
    test_write_text(&test_folder, "modules.json", "[{\"path\": \"0_Transformer\", \"type\": \"a.Transformer\"}]");
    refused("its transformer is in \"0_Transformer\"");
    test_write_text(&test_folder, "modules.json", "[{\"path\": \"\"}]");
    refused("item 0 has no \"type\" or no \"path\"");
    test_write_text(&test_folder, "modules.json",
                    "[{\"path\": \"\", \"type\": \"Transformer\"}, {\"path\": \"../x\", \"type\": \"Pooling\"}]");
    refused("the path \"../x\" leaves the folder");
    pooling("");
    modules_list(&test_folder, "");
    refused("has no Pooling, so that there is no vector of a text");
    modules_list(&test_folder, "Normalize Pooling");
    refused("\"x.models.Normalize\" before pooling is not known here");
    modules_list(&test_folder, "Pooling CNN");
    refused("the module \"x.models.CNN\" is not known here");
    modules_list(&test_folder, "Dropout"); /* of training, and no pooling either */
    refused("has no Pooling");
}

static const float eye[3 * HIDDEN] = {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0}, three[3] = {7, 8, 9};
static const ModuleTensor weight = {"linear.weight", 3, HIDDEN, eye}, bias = {"linear.bias", 0, 3, three};

static void dense(const char *more) {
    char text[300];
    snprintf(text, sizeof text, "{\"in_features\": %d, \"out_features\": 3%s}", HIDDEN, more);
    modules_config(&test_folder, "2_Dense", text);
}

static Activation activation_of(const char *more) {
    dense(more);
    EmbedPlan p = plan_of(true);
    Activation act = p.stages[0].act;
    assert_true(p.n_stages == 1 && p.stages[0].kind == STAGE_DENSE && p.size == 3);
    assert_true(p.stages[0].inputs == HIDDEN && p.stages[0].outputs == 3 && p.stages[0].linear != NULL);
    embed_plan_clear(&p);
    return act;
}

static void dense_layers_have_their_own_files(void **state) {
    (void)state;
    modules_list(&test_folder, "Pooling Dense");
    pooling("");
    modules_weights(&test_folder, "2_Dense", (ModuleTensor[]){weight, bias}, 2);
    assert_int_equal(activation_of(""), ACT_TANH); /* what torch's module has */
    assert_int_equal(activation_of(", \"activation_function\": null"), ACT_NONE);
    assert_int_equal(activation_of(", \"activation_function\": \"torch.nn.modules.linear.Identity\""), ACT_NONE);
    assert_int_equal(activation_of(", \"activation_function\": \"torch.nn.modules.activation.ReLU\""), ACT_RELU);
    assert_int_equal(activation_of(", \"activation_function\": \"torch.nn.modules.activation.SiLU\""), ACT_SILU);
    assert_int_equal(activation_of(", \"activation_function\": \"GELU\""), ACT_GELU);
    assert_int_equal(activation_of(", \"activation_function\": \"torch.nn.Sigmoid\""), ACT_SIGMOID);
    EmbedPlan p = plan_of(true);
    for (int i = 0; i < 3; i++) assert_true(p.stages[0].bias[i] == three[i]);
    embed_plan_clear(&p);
    dense(", \"bias\": false");
    p = plan_of(true);
    assert_null(p.stages[0].bias);
    embed_plan_clear(&p);
}

static void wrong_dense_layers_are_refused(void **state) {
    (void)state;
    modules_list(&test_folder, "Pooling Dense");
    pooling("");
    dense("");
    refused(
        "2_Dense/model.safetensors: is missing; a pytorch_model.bin beside it has to be saved as safetensors first");
    modules_weights(&test_folder, "2_Dense", &weight, 1);
    refused("has no tensor \"linear.bias\"");
    dense(", \"bias\": false, \"activation_function\": \"torch.nn.Softmax\"");
    refused("2_Dense/config.json: the activation \"torch.nn.Softmax\" is not known here");
    dense(", \"use_residual\": true");
    refused("a residual of another width");
    dense(", \"module_input_name\": \"token_embeddings\"");
    refused("a layer that is not of the pooled vector");
    modules_config(&test_folder, "2_Dense", "{\"in_features\": 8, \"out_features\": 3}");
    refused("\"in_features\" is 8, and the vector before it has 4 values");
    modules_config(&test_folder, "2_Dense", "{\"in_features\": 4, \"out_features\": 2}");
    refused("tensor \"linear.weight\" has shape [3, 4], which is not what its config.json says");
    modules_config(&test_folder, "2_Dense", "{\"in_features\": 4}");
    refused("\"out_features\" is missing or no size");
}

static void layer_norms_are_read(void **state) {
    static const float gains[HIDDEN] = {1, 2, 3, 4}, shifts[HIDDEN] = {5, 6, 7, 8};
    (void)state;
    modules_list(&test_folder, "Pooling LayerNorm Normalize");
    pooling("");
    modules_weights(&test_folder, "2_LayerNorm", (ModuleTensor[]){{"norm.weight", 0, HIDDEN, gains}}, 1);
    refused("has no tensor \"norm.bias\"");
    modules_weights(&test_folder, "2_LayerNorm",
                    (ModuleTensor[]){{"norm.weight", 0, HIDDEN, gains}, {"norm.bias", 0, HIDDEN, shifts}}, 2);
    EmbedPlan p = plan_of(true);
    assert_true(p.n_stages == 2 && p.stages[0].kind == STAGE_LAYER_NORM && p.stages[1].kind == STAGE_UNIT);
    assert_memory_equal(p.stages[0].weight, gains, sizeof gains);
    assert_memory_equal(p.stages[0].bias, shifts, sizeof shifts);
    embed_plan_clear(&p);
}

/* ---- lengths, prompts, the line of inspect ---- */

static int max_tokens(void) {
    EmbedPlan p = plan_of(true);
    int n = p.max_tokens;
    embed_plan_clear(&p);
    return n;
}

static void lengths_come_from_the_first_file_that_says(void **state) {
    (void)state;
    test_write_text(&test_folder, "tokenizer_config.json", "{\"model_max_length\": 1e30}");
    assert_int_equal(max_tokens(), 0); /* "no limit" */
    test_write_text(&test_folder, "tokenizer_config.json", "{\"model_max_length\": 512, \"do_lower_case\": true}");
    assert_int_equal(max_tokens(), 512);
    test_write_text(&test_folder, "sentence_bert_config.json", "{\"max_seq_length\": null}");
    assert_int_equal(max_tokens(), 512);
    test_write_text(&test_folder, "sentence_roberta_config.json", "{\"max_seq_length\": 128, \"do_lower_case\": true}");
    EmbedPlan p = plan_of(true);
    assert_true(p.max_tokens == 128 && p.lower_case);
    embed_plan_clear(&p);
    test_write_text(&test_folder, "sentence_bert_config.json", "{\"max_seq_length\": 256}");
    p = plan_of(true);
    assert_true(p.max_tokens == 256 && !p.lower_case); /* a tokenizer's own flag is no word of these files */
    embed_plan_clear(&p);
}

static void prompts_are_found_by_name(void **state) {
    (void)state;
    const char *text = "";
    Error err = {""};
    EmbedPlan p = plan_of(true);
    assert_true(embed_plan_prompt(&p, NULL, &text, &err));
    assert_null(text);
    assert_false(embed_plan_prompt(&p, "query", &text, &err));
    assert_string_equal(err.text, "this model has no prompt \"query\", and no other");
    embed_plan_clear(&p);
    test_write_text(&test_folder, "config_sentence_transformers.json",
                    "{\"prompts\": {\"query\": \"q: \", \"document\": \"\"}, \"default_prompt_name\": \"query\"}");
    p = plan_of(true);
    assert_true(embed_plan_prompt(&p, NULL, &text, &err));
    assert_string_equal(text, "q: ");
    assert_true(embed_plan_prompt(&p, "document", &text, &err));
    assert_string_equal(text, "");
    assert_false(embed_plan_prompt(&p, "title", &text, &err));
    assert_string_equal(err.text, "this model has no prompt \"title\"; it has query, document");
    embed_plan_clear(&p);
}

static void inspect_says_it_in_one_line(void **state) {
    (void)state;
    Buffer out = {0};
    EmbedPlan p = plan_of(false);
    embed_plan_describe(&p, false, &out);
    assert_string_equal(buffer_string(&out), "embeddings: no modules.json, so as usual for a decoder the last row, "
                                             "brought to length 1; 4 values\n");
    embed_plan_clear(&p);
    buffer_reset(&out);
    modules_list(&test_folder, "Pooling Dense Normalize");
    pooling(", \"pooling_mode\": \"mean\", \"include_prompt\": false");
    dense(", \"bias\": false");
    modules_weights(&test_folder, "2_Dense", &weight, 1);
    test_write_text(&test_folder, "config_sentence_transformers.json", "{\"prompts\": {\"query\": \"q: \"}}");
    p = plan_of(true);
    embed_plan_describe(&p, true, &out);
    assert_string_equal(buffer_string(&out),
                        "embeddings: the mean of all rows after the prompt, dense 4 to 3, brought to "
                        "length 1; 3 values; prompts query\n");
    embed_plan_clear(&p);
    buffer_clear(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_modules_the_kind_of_model_decides, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(every_mode_has_two_names, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(several_modes_make_a_longer_vector, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_pooling_is_refused, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_lists_are_refused, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(dense_layers_have_their_own_files, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_dense_layers_are_refused, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(layer_norms_are_read, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(lengths_come_from_the_first_file_that_says, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(prompts_are_found_by_name, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(inspect_says_it_in_one_line, test_folder_setup, test_folder_teardown),
    };
    Error err = {""};
    pool = pool_new(1, &err);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return failed;
}
