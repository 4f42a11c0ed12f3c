/* Sequence classifiers in config.json: how many labels, which rows and tensors make them, and what is refused. */
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define CLASSIFIER(model) ", \"architectures\": [\"" model "ForSequenceClassification\"]"

static ClassifierSpec classifier_of(const char *type, const char *more) {
    Blueprint b = test_typed_read(type, more);
    ClassifierSpec c = b.classifier;
    assert_true(c.n_labels == 0 || !b.head.name);
    blueprint_clear(&b);
    return c;
}

static void id2label_counts_and_then_num_labels(void **state) {
    (void)state;
    assert_int_equal(classifier_of("qwen3", "").n_labels, 0);
    assert_int_equal(classifier_of("qwen3", ", \"id2label\": {\"0\": \"a\"}, \"num_labels\": 1").n_labels, 0);
    assert_int_equal(classifier_of("qwen3", CLASSIFIER("Qwen3")).n_labels, 2); /* transformers' default */
    assert_int_equal(classifier_of("qwen3", CLASSIFIER("Qwen3") ", \"num_labels\": 5").n_labels, 5);
    assert_int_equal(
        classifier_of("qwen3", CLASSIFIER("Qwen3") ", \"num_labels\": 5, \"id2label\": {\"0\": \"a\"}").n_labels, 1);
    test_typed_refused("qwen3", CLASSIFIER("Qwen3") ", \"id2label\": []", "\"id2label\" is no object of labels");
    test_typed_refused("qwen3", CLASSIFIER("Qwen3") ", \"num_labels\": 0", "\"num_labels\"");
}

static void a_decoder_reads_its_last_row(void **state) {
    (void)state;
    ClassifierSpec c = classifier_of("llama", CLASSIFIER("Llama") ", \"pad_token_id\": 7");
    assert_int_equal(c.pool, CLASSIFIER_LAST);
    assert_int_equal(c.pad_token, 7);
    assert_string_equal(c.score.name, "score");
    assert_false(c.score.bias);
    assert_null(c.dense.name);
    assert_int_equal(classifier_of("llama", CLASSIFIER("Llama")).pad_token, -1);
    assert_int_equal(classifier_of("llama", CLASSIFIER("Llama") ", \"pad_token_id\": -1").pad_token, -1);
}

static void each_encoder_has_its_own_head(void **state) {
    (void)state;
    ClassifierSpec c = classifier_of("bert", CLASSIFIER("Bert"));
    assert_int_equal(c.pool, CLASSIFIER_FIRST);
    assert_string_equal(c.dense.name, "model.pooler.dense");
    assert_int_equal(c.act, ACT_TANH);
    assert_string_equal(c.score.name, "classifier");
    c = classifier_of("xlm-roberta", CLASSIFIER("XLMRoberta"));
    assert_string_equal(c.dense.name, "classifier.dense");
    assert_string_equal(c.score.name, "classifier.out_proj");
    c = classifier_of("modernbert", CLASSIFIER("ModernBert") ", \"classifier_pooling\": \"mean\"");
    assert_int_equal(c.pool, CLASSIFIER_MEAN);
    assert_int_equal(c.act, ACT_GELU);
    assert_int_equal(c.norm.kind, NORM_LAYER);
    assert_false(c.dense.bias);
    c = classifier_of("modernbert", CLASSIFIER("ModernBert") ", \"classifier_bias\": true, \"classifier_activation\": "
                                                             "\"silu\"");
    assert_int_equal(c.pool, CLASSIFIER_FIRST);
    assert_int_equal(c.act, ACT_SILU);
    assert_true(c.dense.bias);
}

static void what_no_page_describes_is_refused(void **state) {
    (void)state;
    test_typed_refused("modernbert", CLASSIFIER("ModernBert") ", \"classifier_pooling\": \"max\"",
                       "\"classifier_pooling\" is \"max\", expected \"cls\" or \"mean\"");
    assert_int_equal(classifier_of("nomic_bert", CLASSIFIER("NomicBert")).n_labels, 0); /* its tensors have no place */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id2label_counts_and_then_num_labels),
        cmocka_unit_test(a_decoder_reads_its_last_row),
        cmocka_unit_test(each_encoder_has_its_own_head),
        cmocka_unit_test(what_no_page_describes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
