/* What makes a score of a classifier's logits: which file says the activation, which modules are known, whether tokens
 * have types; and that everything that is not for such a model says what it is for. The models are goldens, their files
 * made here. */
#include "engine/cross_encoder.h"
#include "engine/rerank.h"
#include "support/folder.h"
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Golden one_label, three_labels, decoder;

static int make(void **state) {
    (void)state;
    golden_open(&one_label, "tests/goldens/rerank/bert", KV_F32, 1);
    golden_open(&three_labels, "tests/goldens/rerank/bert-labels", KV_F32, 1);
    golden_open(&decoder, "tests/goldens/rerank/qwen3", KV_F32, 1);
    return 0;
}

static int clear(void **state) {
    (void)state;
    golden_close(&one_label);
    golden_close(&three_labels);
    golden_close(&decoder);
    return 0;
}

static EmbedPlan plan_of(const Golden *g) {
    EmbedPlan p;
    Error err = {""};
    if (!cross_encoder_plan_read(test_folder.path, g->model, &p, &err)) fail_msg("%s", err.text);
    return p;
}

static void refused(const char *says) {
    EmbedPlan p = {.size = 77};
    Error err = {""};
    assert_false(cross_encoder_plan_read(test_folder.path, one_label.model, &p, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_int_equal(p.size, 77);
}

static void config(const char *text) {
    test_write_text(&test_folder, "config.json", text);
}

static void says(const Error *err, const char *what) {
    if (!strstr(err->text, what)) fail_msg("\"%s\" does not say \"%s\"", err->text, what);
}

/* ---- activations ---- */

static void acts_as(const Golden *g, Activation act) {
    EmbedPlan p = plan_of(g);
    assert_int_equal(p.stages[0].kind, STAGE_CLASSIFIER);
    assert_int_equal(p.n_stages, act == ACT_NONE ? 1 : 2);
    if (act != ACT_NONE) assert_int_equal(p.stages[1].kind, STAGE_ACT);
    if (act != ACT_NONE) assert_int_equal(p.stages[1].act, act);
    embed_plan_clear(&p);
}

static void one_label_has_a_sigmoid_unless_a_file_says_otherwise(void **state) {
    (void)state;
    acts_as(&one_label, ACT_SIGMOID);
    acts_as(&three_labels, ACT_NONE);
    config("{}");
    acts_as(&one_label, ACT_SIGMOID);
    config("{\"sbert_ce_default_activation_function\": \"torch.nn.modules.linear.Identity\"}");
    acts_as(&one_label, ACT_NONE);
    config("{\"sbert_ce_default_activation_function\": null}");
    acts_as(&one_label, ACT_SIGMOID);
    config("{\"sentence_transformers\": {\"version\": \"4.1.0\"}, \"sbert_ce_default_activation_function\": "
           "\"torch.nn.modules.linear.Identity\"}");
    acts_as(&one_label, ACT_NONE);
    config("{\"sentence_transformers\": {\"activation_fn\": \"torch.nn.modules.activation.Tanh\"}, "
           "\"sbert_ce_default_activation_function\": \"torch.nn.modules.linear.Identity\"}");
    acts_as(&one_label, ACT_TANH);
    config("{\"sentence_transformers\": {\"activation_fn\": null}, "
           "\"sbert_ce_default_activation_function\": \"torch.nn.modules.linear.Identity\"}");
    acts_as(&one_label, ACT_SIGMOID);
    config("{\"sentence_transformers\": {\"activation_fn\": \"their_code.Identity\"}}");
    acts_as(&one_label, ACT_SIGMOID);
    config("{\"sentence_transformers\": {\"activation_fn\": \"torch.nn.modules.activation.Hardtanh\"}}");
    refused("the activation \"torch.nn.modules.activation.Hardtanh\" of the scores is not known here");
}

static void modules(const char *settings, const char *list) {
    test_write_text(&test_folder, "config_sentence_transformers.json", settings);
    test_write_text(&test_folder, "modules.json", list);
}

static void a_cross_encoder_s_own_files_come_first(void **state) {
    static const char list[] = "[{\"idx\": 0, \"path\": \"\", \"type\": \"a.b.Transformer\"}]";
    (void)state;
    config("{\"sentence_transformers\": {\"activation_fn\": \"torch.nn.modules.activation.Tanh\"}}");
    test_write_text(&test_folder, "config_sentence_transformers.json",
                    "{\"model_type\": \"CrossEncoder\", \"activation_fn\": \"torch.nn.modules.linear.Identity\"}");
    acts_as(&one_label, ACT_TANH); /* without modules.json it is not read */
    modules("{\"model_type\": \"CrossEncoder\", \"activation_fn\": \"torch.nn.modules.linear.Identity\"}", list);
    acts_as(&one_label, ACT_NONE);
    modules("{\"activation_fn\": \"torch.nn.modules.linear.Identity\"}", list); /* of an embedding model */
    acts_as(&one_label, ACT_TANH);
    modules("{\"model_type\": \"CrossEncoder\", \"prompts\": {\"web\": \"find: \"}, \"default_prompt_name\": \"web\"}",
            list);
    EmbedPlan p = plan_of(&one_label);
    const char *prompt = NULL;
    assert_true(embed_plan_prompt(&p, NULL, &prompt, NULL));
    assert_string_equal(prompt, "find: ");
    embed_plan_clear(&p);
    modules("{\"model_type\": \"CrossEncoder\"}",
            "[{\"path\": \"\", \"type\": \"Transformer\"}, {\"path\": \"1\", \"type\": \"Dense\"}]");
    refused("a cross-encoder of other modules than a Transformer in the folder itself is not known here");
    modules("{\"model_type\": \"CrossEncoder\"}", "[{\"path\": \"0_Transformer\", \"type\": \"Transformer\"}]");
    refused("of other modules than a Transformer in the folder itself");
}

static void a_length_is_the_tokenizer_s_without_modules(void **state) {
    (void)state;
    test_write_text(&test_folder, "sentence_bert_config.json", "{\"max_seq_length\": 9, \"do_lower_case\": true}");
    test_write_text(&test_folder, "tokenizer_config.json", "{\"model_max_length\": 7}");
    EmbedPlan p = plan_of(&one_label);
    assert_int_equal(p.max_tokens, 7);
    assert_false(p.lower_case);
    embed_plan_clear(&p);
    modules("{\"model_type\": \"CrossEncoder\"}", "[{\"path\": \"\", \"type\": \"Transformer\"}]");
    p = plan_of(&one_label);
    assert_int_equal(p.max_tokens, 9);
    assert_true(p.lower_case);
    embed_plan_clear(&p);
}

/* ---- pairs ---- */

static Embedder *embedder_of(const Golden *g, const Tokenizer *t) {
    Error err = {""};
    Embedder *e = embedder_new(test_folder.path, g->model, t, &err);
    if (!e) fail_msg("%s", err.text);
    return e;
}

/* The pair of two lists of ids, by the golden's tokenizer. */
static void pair_has(const Golden *g, IdList first, IdList second, const char *ids, const char *types) {
    Error err = {""};
    Tokenizer *t = tokenizer_load(g->folder, &err);
    Embedder *e = embedder_of(g, t);
    IdList out[2] = {{0}, {0}};
    size_t n_cut;
    if (!embedder_encode_pair(e, &first, &second, &out[0], &out[1], &n_cut, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        char text[200] = "";
        for (size_t j = 0, at = 0; j < out[i].n; j++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", j ? " " : "", (int)out[i].ids[j]);
        assert_string_equal(text, i ? types : ids);
        id_list_clear(&out[i]);
    }
    embedder_free(e);
    tokenizer_free(t);
}

static void types_are_the_post_processor_s_unless_the_tokenizer_has_none(void **state) {
    int32_t a[] = {9, 10}, b[] = {11};
    IdList first = {a, 2, 2}, second = {b, 1, 1};
    (void)state;
    pair_has(&one_label, first, second, "2 9 10 3 11 3", "0 0 0 0 1 1");
    test_write_text(&test_folder, "tokenizer_config.json",
                    "{\"model_input_names\": [\"input_ids\", \"token_type_ids\"]}");
    pair_has(&one_label, first, second, "2 9 10 3 11 3", "0 0 0 0 1 1");
    test_write_text(&test_folder, "tokenizer_config.json", "{\"model_input_names\": [\"input_ids\"]}");
    pair_has(&one_label, first, second, "2 9 10 3 11 3", "0 0 0 0 0 0");
    test_write_text(&test_folder, "tokenizer_config.json", "{\"model_max_length\": 4}");
    pair_has(&one_label, first, second, "2 9 3 3", "0 0 0 1");
}

static void a_chat_template_makes_messages_of_pairs(void **state) {
    static const char list[] = "[{\"idx\": 0, \"path\": \"\", \"type\": \"a.b.Transformer\"}]";
    Error err = {""};
    (void)state;
    test_write_text(&test_folder, "tokenizer_config.json", "{\"chat_template\": \"{{ messages }}\"}");
    Embedder *e = embedder_of(&decoder, NULL);
    assert_false(ranking_possible(e, &err));
    says(&err, "this cross-encoder has a chat template, through which sentence-transformers puts a pair");
    embedder_free(e);
    test_write_text(&test_folder, "sentence_bert_config.json", "{\"modality_config\": {\"text\": {}}}");
    EmbedPlan p = plan_of(&decoder);
    assert_true(p.by_template); /* without modules.json that file is not read */
    embed_plan_clear(&p);
    modules("{\"model_type\": \"CrossEncoder\"}", list);
    e = embedder_of(&decoder, NULL);
    assert_true(ranking_possible(e, &err));
    embedder_free(e);
    test_write_text(&test_folder, "sentence_bert_config.json",
                    "{\"modality_config\": {\"text\": {}, \"message\": {}}}");
    p = plan_of(&decoder);
    assert_true(p.by_template);
    embed_plan_clear(&p);
}

static void a_last_row_is_no_padding(void **state) {
    int32_t a[] = {9, 0}, b[] = {11, 0, 0}, none[] = {0};
    (void)state;
    pair_has(&decoder, (IdList){a, 2, 2}, (IdList){b, 3, 3}, "9 0 11", "0 0 0");
    pair_has(&decoder, (IdList){none, 1, 1}, (IdList){none, 1, 1}, "0", "0");
    pair_has(&one_label, (IdList){none, 1, 1}, (IdList){none, 1, 1}, "2 0 3 0 3", "0 0 0 1 1");
}

/* ---- what is not for it ---- */

static void it_gives_no_vectors_and_no_next_token(void **state) {
    Embedder *e = embedder_of(&one_label, NULL);
    IdList ids = {0};
    Error err = {""};
    int n_prompt;
    size_t n_whole;
    (void)state;
    assert_true(embedder_scores_pairs(e));
    assert_false(embedder_needs_vectors(e, &err));
    says(&err, "this model is a cross-encoder: it scores pairs of texts (lockstep rerank, /v1/rerank)");
    assert_false(embedder_encode(e, NULL, "a", 1, &ids, &n_prompt, &n_whole, &err));
    says(&err, "gives no vectors");
    assert_false(embedder_encode_side(e, NULL, "a", 1, &ids, &err));
    says(&err, "there is no tokenizer");
    assert_false(model_needs_head(one_label.model, &err));
    says(&err,
         "this bert model has a sequence classifier and no output head: it scores pairs of texts (lockstep rerank)");
    embedder_free(e);
}

static void a_type_that_the_model_does_not_have_is_refused(void **state) {
    static const int32_t ids[] = {2, 9, 3}, one[] = {0, 1, 1}, two[] = {0, 1, 2}, negative[] = {0, -1, 0};
    Embedder *e = embedder_of(&one_label, NULL), *causal = embedder_of(&decoder, NULL);
    float score;
    Error err = {""};
    (void)state;
    assert_true(embedder_run(e, &(EmbedInput){ids, 3, 0, one}, 1, &score, NULL, NULL, &err));
    assert_true(isfinite(score));
    assert_false(embedder_run(e, &(EmbedInput){ids, 3, 0, two}, 1, &score, NULL, NULL, &err));
    says(&err, "token type 2 is not one of the 2 of this model");
    assert_false(embedder_run(e, &(EmbedInput){ids, 3, 0, negative}, 1, &score, NULL, NULL, &err));
    says(&err, "token type -1 is not one of the 2 of this model");
    assert_false(embedder_run(causal, &(EmbedInput){ids, 3, 0, one}, 1, &score, NULL, NULL, &err));
    says(&err, "token type 1 is not one of the 1 of this model");
    embedder_free(e);
    embedder_free(causal);
}

/* A file of another golden, with `from` replaced in it. */
static void copy(const char *from_folder, const char *name, const char *from, const char *to) {
    char path[300];
    size_t n;
    snprintf(path, sizeof path, "%s/%s", from_folder, name);
    char *bytes = test_read(path, &n), *at = from ? strstr(bytes, from) : NULL;
    Buffer out = {0};
    assert_true(!from || at);
    buffer_append(&out, bytes, at ? (size_t)(at - bytes) : n);
    if (at) {
        buffer_text(&out, to);
        buffer_append(&out, at + strlen(from), n - (size_t)(at - bytes) - strlen(from));
    }
    test_write(&test_folder, name, out.data, out.length);
    buffer_clear(&out);
    free(bytes);
}

/* The class in config.json outlives a head that was taken off. */
static void without_its_head_it_is_an_encoder(void **state) {
    Golden g;
    Error err = {""};
    (void)state;
    copy("tests/goldens/embed/bert", "config.json", "BertModel", "BertForSequenceClassification");
    copy("tests/goldens/embed/bert", "model.safetensors", NULL, NULL);
    copy("tests/goldens/embed/bert", "golden.json", NULL, NULL);
    golden_open(&g, test_folder.path, KV_F32, 1);
    assert_int_equal(model_labels(g.model), 0);
    Embedder *e = embedder_of(&g, NULL);
    assert_true(embedder_needs_vectors(e, &err));
    embedder_free(e);
    golden_close(&g);
}

static void a_head_of_another_size_is_named(void **state) {
    ModelOptions o = {.numeric = {KV_F32, 16}};
    Error err = {""};
    (void)state;
    copy("tests/goldens/rerank/bert", "config.json", "\"LABEL_0\"", "\"a\", \"1\": \"b\"");
    copy("tests/goldens/rerank/bert", "model.safetensors", NULL, NULL);
    Checkpoint *c = checkpoint_open(test_folder.path, &err);
    assert_non_null(c);
    assert_null(model_load(c, &o, one_label.pool, &err));
    says(&err, "tensor \"classifier.weight\" has shape [1, 48], config.json implies [2, 48]");
    ModelPurpose purpose;
    assert_true(model_purpose(c, &o, &purpose, &err));
    assert_int_equal(purpose.n_labels, 2);
    assert_false(purpose.has_head);
    checkpoint_close(c);
}

static void a_classifier_s_input_is_finite(void **state) {
    float x[48] = {0}, logit;
    Error err = {""};
    (void)state;
    assert_int_equal(model_hidden_size(one_label.model), 48);
    assert_true(model_classify(one_label.model, x, 1, &logit, &err));
    x[47] = NAN;
    assert_false(model_classify(one_label.model, x, 1, &logit, &err));
    says(&err, "a value that is not finite in the classifier");
}

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(one_label_has_a_sigmoid_unless_a_file_says_otherwise),
        IN_FOLDER(a_cross_encoder_s_own_files_come_first),
        IN_FOLDER(a_length_is_the_tokenizer_s_without_modules),
        IN_FOLDER(types_are_the_post_processor_s_unless_the_tokenizer_has_none),
        IN_FOLDER(a_chat_template_makes_messages_of_pairs),
        IN_FOLDER(a_last_row_is_no_padding),
        IN_FOLDER(it_gives_no_vectors_and_no_next_token),
        IN_FOLDER(a_type_that_the_model_does_not_have_is_refused),
        IN_FOLDER(without_its_head_it_is_an_encoder),
        IN_FOLDER(a_head_of_another_size_is_named),
        cmocka_unit_test(a_classifier_s_input_is_finite),
    };
    return cmocka_run_group_tests(tests, make, clear);
}
