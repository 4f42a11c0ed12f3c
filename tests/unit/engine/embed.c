/* Vectors of texts. The rows that are pooled are those of tests/goldens/embed/bert, whose values transformers computed;
 * what the modules then do is worked out here in double. Texts become ids with a vocabulary of words, made on the spot.
 */
#include "engine/embed.h"
#include "support/golden.h"
#include "support/modules.h"
#include "support/tiny_llama.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HIDDEN = 64, LONG = 40, OUT = 3, MAX_IDS = 64 };

static TestFolder folder;
static Golden bert;
static int32_t ids[MAX_IDS];
static float rows[LONG][HIDDEN]; /* of the reference */

static int make(void **state) {
    (void)state;
    test_folder_make(&folder);
    golden_open(&bert, "tests/goldens/embed/bert", KV_F32, 2);
    assert_int_equal(model_hidden_size(bert.model), HIDDEN);
    assert_int_equal(golden_ids(&bert, "prompts", "long", ids, 0, MAX_IDS), LONG);
    const Tensor *t = golden_tensor(&bert, "long_hidden");
    assert_int_equal(t->bytes, sizeof rows);
    memcpy(rows, t->data, sizeof rows);
    return 0;
}

static int clear(void **state) {
    (void)state;
    golden_close(&bert);
    test_folder_remove(&folder);
    return 0;
}

static Embedder *embedder_of(Model *m, const Tokenizer *t) {
    Error err = {""};
    Embedder *e = embedder_new(folder.path, m, t, &err);
    if (!e) fail_msg("%s", err.text);
    return e;
}

static void run(Embedder *e, const EmbedInput *inputs, int n, float *out) {
    Error err = {""};
    if (!embedder_run(e, inputs, n, out, NULL, NULL, &err)) fail_msg("%s", err.text);
}

/* The vector of the long prompt by the modules in the folder. */
static void vector_of(int n_prompt, int size, float *out) {
    Embedder *e = embedder_of(bert.model, NULL);
    EmbedInput input = {ids, LONG, n_prompt, NULL};
    assert_int_equal(embedder_size(e), size);
    run(e, &input, 1, out);
    embedder_free(e);
}

static void pooling(const char *modes) {
    char text[200];
    snprintf(text, sizeof text, "{\"word_embedding_dimension\": %d, \"pooling_mode\": %s}", HIDDEN, modes);
    modules_config(&folder, "1_Pooling", text);
}

static void near(const float *got, const double *expected, int n, const char *what) {
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - expected[i]) < 2e-5))
            fail_msg("%s: value %d is %.7g, not %.7g", what, i, (double)got[i], expected[i]);
}

/* ---- pooling ---- */

static double pooled(const char *mode, int first, int d) {
    double sum = 0, weighted = 0, weights = 0, most = -INFINITY, n = LONG - first;
    for (int p = first; p < LONG; p++) {
        double v = (double)rows[p][d];
        sum += v;
        weighted += (p + 1) * v;
        weights += p + 1;
        most = v > most ? v : most;
    }
    switch (mode[0]) {
    case 'c': return (double)rows[first][d];
    case 'l': return (double)rows[LONG - 1][d];
    case 'w': return weighted / weights;
    default: return strcmp(mode, "max") == 0 ? most : strcmp(mode, "mean") == 0 ? sum / n : sum / sqrt(n);
    }
}

static void every_mode_pools_the_reference_rows(void **state) {
    static const char *const modes[] = {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};
    (void)state;
    modules_list(&folder, "Pooling");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        for (int n_prompt = 0; n_prompt < LONG; n_prompt += 13) { /* whose rows are left out */
            char quoted[40];
            float out[HIDDEN];
            double expected[HIDDEN];
            snprintf(quoted, sizeof quoted, "\"%s\"", modes[i]);
            pooling(quoted);
            vector_of(n_prompt, HIDDEN, out);
            for (int d = 0; d < HIDDEN; d++) expected[d] = pooled(modes[i], n_prompt, d);
            near(out, expected, HIDDEN, modes[i]);
        }
}

static void several_modes_follow_one_another(void **state) {
    float out[2 * HIDDEN];
    double expected[2 * HIDDEN];
    (void)state;
    modules_list(&folder, "Pooling");
    pooling("[\"mean\", \"max\"]");
    vector_of(0, 2 * HIDDEN, out);
    for (int d = 0; d < HIDDEN; d++) {
        expected[d] = pooled("mean", 0, d);
        expected[HIDDEN + d] = pooled("max", 0, d);
    }
    near(out, expected, 2 * HIDDEN, "mean and max");
}

/* ---- what comes after ---- */

static void unit(double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i] * v[i];
    for (int i = 0; i < n; i++) v[i] /= sqrt(sum);
}

static void without_modules_the_mean_has_length_1(void **state) {
    float out[HIDDEN];
    double expected[HIDDEN];
    (void)state;
    vector_of(0, HIDDEN, out);
    for (int d = 0; d < HIDDEN; d++) expected[d] = pooled("mean", 0, d);
    unit(expected, HIDDEN);
    near(out, expected, HIDDEN, "mean of length 1");
}

static void make_weights(int rows_of, float *weight, float *bias) {
    for (int i = 0; i < rows_of * HIDDEN; i++) weight[i] = (float)((i * 37 % 101) - 50) / 256;
    for (int i = 0; i < rows_of; i++) bias[i] = (float)(i - 1) / 4;
}

static void put_dense(const char *path, int outputs, const char *more) {
    static float weight[HIDDEN * HIDDEN], bias[HIDDEN];
    char text[300];
    make_weights(outputs, weight, bias);
    snprintf(text, sizeof text, "{\"in_features\": %d, \"out_features\": %d%s}", HIDDEN, outputs, more);
    modules_config(&folder, path, text);
    modules_weights(&folder, path,
                    (ModuleTensor[]){{"linear.weight", outputs, HIDDEN, weight}, {"linear.bias", 0, outputs, bias}}, 2);
}

/* W x + b, of the same weights. */
static void through_dense(const double *x, int outputs, double *y) {
    static float weight[HIDDEN * HIDDEN], bias[HIDDEN];
    make_weights(outputs, weight, bias);
    for (int r = 0; r < outputs; r++) {
        y[r] = (double)bias[r];
        for (int d = 0; d < HIDDEN; d++) y[r] += (double)weight[r * HIDDEN + d] * x[d];
    }
}

static void dense_layers_follow_pooling(void **state) {
    float out[HIDDEN];
    double x[HIDDEN], y[HIDDEN], z[OUT];
    (void)state;
    modules_list(&folder, "Pooling Dense Dense Normalize");
    pooling("\"mean\"");
    put_dense("2_Dense", HIDDEN, ", \"use_residual\": true"); /* and tanh, when nothing is said */
    put_dense("3_Dense", OUT, ", \"activation_function\": \"torch.nn.modules.linear.Identity\"");
    vector_of(0, OUT, out);
    for (int d = 0; d < HIDDEN; d++) x[d] = pooled("mean", 0, d);
    through_dense(x, HIDDEN, y);
    for (int d = 0; d < HIDDEN; d++) y[d] = tanh(y[d]) + x[d];
    through_dense(y, OUT, z);
    unit(z, OUT);
    near(out, z, OUT, "two dense layers");
}

static void a_layer_norm_follows_pooling(void **state) {
    float out[HIDDEN], gains[HIDDEN], shifts[HIDDEN];
    double x[HIDDEN], mean = 0, square = 0;
    (void)state;
    for (int d = 0; d < HIDDEN; d++) {
        gains[d] = 1 + (float)d / 64;
        shifts[d] = (float)(d % 5) / 8;
        x[d] = pooled("cls", 0, d);
        mean += x[d] / HIDDEN;
    }
    for (int d = 0; d < HIDDEN; d++) square += (x[d] - mean) * (x[d] - mean) / HIDDEN;
    for (int d = 0; d < HIDDEN; d++) x[d] = (x[d] - mean) / sqrt(square + 1e-5) * (double)gains[d] + (double)shifts[d];
    modules_list(&folder, "Pooling LayerNorm");
    pooling("\"cls\"");
    modules_weights(&folder, "2_LayerNorm",
                    (ModuleTensor[]){{"norm.weight", 0, HIDDEN, gains}, {"norm.bias", 0, HIDDEN, shifts}}, 2);
    vector_of(0, HIDDEN, out);
    near(out, x, HIDDEN, "layer norm");
}

/* ---- steps ---- */

/* A decoder's texts of more rows than a step has go on in the next; who stands before or after changes no byte. */
static void long_texts_go_on_in_the_next_step(void **state) {
    static const int lengths[] = {590, 1, 300, 17, 599};
    enum { N = sizeof lengths / sizeof *lengths };
    TinyModel m;
    int32_t many[TINY_CONTEXT];
    EmbedInput inputs[N];
    float batch[N][TINY_HIDDEN], alone[TINY_HIDDEN];
    (void)state;
    for (int i = 0; i < TINY_CONTEXT; i++) many[i] = (i * i + 3 * i) % TINY_VOCAB;
    tiny_make(&m, &(TinyLlama){.head = TINY_HEAD_OWN}, NULL);
    modules_list(&folder, "Pooling");
    modules_config(&folder, "1_Pooling", "{\"word_embedding_dimension\": 32, \"pooling_mode\": \"mean\"}");
    Embedder *e = embedder_of(m.model, NULL);
    for (int i = 0; i < N; i++) inputs[i] = (EmbedInput){many + i % 2, lengths[i], i % 2 ? 0 : lengths[i] / 3, NULL};
    run(e, inputs, N, batch[0]);
    for (int i = 0; i < N; i++) {
        run(e, &inputs[i], 1, alone);
        assert_memory_equal(alone, batch[i], sizeof alone);
    }
    /* the mean of 300 last rows is that of the vectors of 300 beginnings, of which the last row alone counts */
    double expected[TINY_HIDDEN] = {0};
    embedder_free(e);
    modules_config(&folder, "1_Pooling", "{\"word_embedding_dimension\": 32, \"pooling_mode\": \"lasttoken\"}");
    e = embedder_of(m.model, NULL);
    for (int n = 101; n <= 300; n++) {
        run(e, &(EmbedInput){many, n, 0, NULL}, 1, alone);
        for (int d = 0; d < TINY_HIDDEN; d++) expected[d] += (double)alone[d] / 200;
    }
    near(batch[2], expected, TINY_HIDDEN, "mean over rows of a decoder");
    embedder_free(e);
    tiny_close(&m);
}

typedef struct Seen {
    int calls, last, n, stop_at;
} Seen;

static bool see(void *context, int done, int n) {
    Seen *s = context;
    assert_true(done >= s->last);
    s->calls++;
    s->last = done;
    s->n = n;
    return done < s->stop_at;
}

static void progress_counts_texts_and_may_stop(void **state) {
    enum { N = 40 };
    static float out[N * HIDDEN];
    EmbedInput inputs[N];
    Error err = {""};
    Seen all = {.stop_at = N + 1}, some = {.stop_at = 5};
    (void)state;
    for (int i = 0; i < N; i++) inputs[i] = (EmbedInput){ids, LONG, 0, NULL};
    Embedder *e = embedder_of(bert.model, NULL);
    assert_true(embedder_run(e, inputs, N, out, see, &all, &err));
    assert_true(all.calls > 1 && all.last == N && all.n == N); /* 12 texts of 40 rows a step */
    assert_false(embedder_run(e, inputs, N, out, see, &some, &err));
    assert_string_equal(err.text, "stopped");
    assert_int_equal(some.calls, 1);
    assert_true(embedder_run(e, inputs, 0, out, see, &some, &err)); /* no texts, no steps */
    assert_int_equal(some.calls, 1);
    embedder_free(e);
}

/* ---- errors ---- */

static void refuses(Embedder *e, EmbedInput second, const char *says) {
    static float out[2 * HIDDEN];
    EmbedInput inputs[2] = {{ids, 3, 0, NULL}, second};
    Error err = {""};
    assert_false(embedder_run(e, inputs, 2, out, NULL, NULL, &err));
    assert_string_equal(err.text, says);
}

static void a_text_that_can_not_be_is_named(void **state) {
    static const int32_t outside[] = {5, 128}, negative[] = {-1};
    (void)state;
    test_write_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\": 32}");
    Embedder *e = embedder_of(bert.model, NULL);
    assert_int_equal(embedder_max_tokens(e), 32);
    refuses(e, (EmbedInput){ids, 0, 0, NULL}, "text 1 has no tokens");
    refuses(e, (EmbedInput){ids, 33, 0, NULL}, "text 1 has 33 tokens, more than the 32 that this model takes");
    refuses(e, (EmbedInput){ids, 4, 4, NULL}, "text 1 has nothing after its prompt of 4 tokens");
    refuses(e, (EmbedInput){outside, 2, 0, NULL}, "text 1: token id 128 is outside the vocabulary of 128");
    refuses(e, (EmbedInput){negative, 1, 0, NULL}, "text 1: token id -1 is outside the vocabulary of 128");
    Error err = {""};
    IdList list = {0};
    int n_prompt;
    size_t whole;
    assert_false(embedder_encode(e, NULL, "a", 1, &list, &n_prompt, &whole, &err));
    assert_string_equal(err.text, "there is no tokenizer, so texts have to be given as ids");
    embedder_free(e);
}

static void a_value_that_is_not_finite_names_its_text(void **state) {
    static const int32_t good[] = {1, 2, 3}, bad[] = {1, 7};
    TinyModel m;
    float out[2 * TINY_HIDDEN];
    Error err = {""};
    (void)state;
    tiny_make(&m,
              &(TinyLlama){.head = TINY_HEAD_OWN,
                           .poison = "model.embed_tokens.weight",
                           .poison_at = 7 * TINY_HIDDEN + 3,
                           .poison_value = NAN},
              NULL);
    Embedder *e = embedder_of(m.model, NULL);
    run(e, &(EmbedInput){good, 3, 0, NULL}, 1, out);
    EmbedInput inputs[2] = {{good, 3, 0, NULL}, {bad, 2, 0, NULL}};
    assert_false(embedder_run(e, inputs, 2, out, NULL, NULL, &err));
    assert_non_null(strstr(err.text, "text 1"));
    embedder_free(e);
    tiny_close(&m);
}

/* ---- texts ---- */

/* Words of a small vocabulary between [CLS] and [SEP]. */
static const char words[] =
    "{\"added_tokens\": [{\"id\": 1, \"content\": \"[CLS]\", \"special\": true}, {\"id\": 2, \"content\": \"[SEP]\", "
    "\"special\": true}], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"decoder\": null, "
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"[CLS]\", "
    "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"[SEP]\", "
    "\"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", "
    "\"type_id\": 0}}], \"special_tokens\": {\"[CLS]\": {\"id\": \"[CLS]\", \"ids\": [1], \"tokens\": [\"[CLS]\"]}, "
    "\"[SEP]\": {\"id\": \"[SEP]\", \"ids\": [2], \"tokens\": [\"[SEP]\"]}}}, \"model\": {\"type\": \"WordLevel\", "
    "\"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"[CLS]\": 1, \"[SEP]\": 2, \"search\": 3, \":\": 4, \"red\": 5, "
    "\"green\": 6, \"blue\": 7}}}";

typedef struct Encoded {
    IdList ids;
    int n_prompt;
    size_t whole;
} Encoded;

static Encoded encoded(const Embedder *e, const char *prompt, const char *text) {
    Encoded r = {.n_prompt = -1};
    Error err = {""};
    if (!embedder_encode(e, prompt, text, strlen(text), &r.ids, &r.n_prompt, &r.whole, &err)) fail_msg("%s", err.text);
    return r;
}

static void gives(const Embedder *e, const char *prompt, const char *text, const char *expected, int n_prompt,
                  size_t whole) {
    Encoded r = encoded(e, prompt, text);
    Buffer list = {0};
    for (size_t i = 0; i < r.ids.n; i++) buffer_printf(&list, "%s%d", i ? " " : "", (int)r.ids.ids[i]);
    assert_string_equal(buffer_string(&list), expected);
    assert_int_equal(r.n_prompt, n_prompt);
    assert_int_equal(r.whole, whole);
    buffer_clear(&list);
    id_list_clear(&r.ids);
}

static Tokenizer *tokenizer_of_words(void) {
    Error err = {""};
    test_write_text(&folder, "tokenizer.json", words);
    Tokenizer *t = tokenizer_load(folder.path, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static void a_prompt_is_joined_to_its_text(void **state) {
    Tokenizer *t = tokenizer_of_words();
    (void)state;
    modules_list(&folder, "Pooling");
    pooling("\"mean\"");
    Embedder *e = embedder_of(bert.model, t);
    gives(e, NULL, "red green", "1 5 6 2", 0, 4);
    gives(e, "search: ", "Red blue", "1 3 4 0 7 2", 0, 6);
    gives(e, NULL, "", "1 2", 0, 2);
    embedder_free(e);
    modules_config(&folder, "1_Pooling",
                   "{\"word_embedding_dimension\": 64, \"pooling_mode\": \"mean\", \"include_prompt\": false}");
    test_write_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\": 16, \"do_lower_case\": true}");
    e = embedder_of(bert.model, t);
    gives(e, "search: ", "RED blue", "1 3 4 5 7 2", 3, 6); /* [CLS] and the prompt, without the end of it */
    gives(e, "", "red", "1 5 2", 0, 3);
    embedder_free(e);
    tokenizer_free(t);
}

static void texts_are_cut_and_keep_their_ends(void **state) {
    Tokenizer *t = tokenizer_of_words();
    Error err = {""};
    IdList list = {0};
    int n_prompt;
    size_t whole;
    (void)state;
    test_write_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\": 5}");
    Embedder *e = embedder_of(bert.model, t);
    gives(e, NULL, "red green blue", "1 5 6 7 2", 0, 5);
    gives(e, NULL, "red green blue red green", "1 5 6 7 2", 0, 7);
    embedder_free(e);
    test_write_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\": 2}");
    e = embedder_of(bert.model, t);
    assert_false(embedder_encode(e, NULL, "red", 3, &list, &n_prompt, &whole, &err));
    assert_string_equal(err.text, "2 tokens are too few for a text: its special ones are 2");
    assert_int_equal(list.n, 0);
    embedder_free(e);
    modules_list(&folder, "Pooling");
    modules_config(&folder, "1_Pooling", "{\"word_embedding_dimension\": 64, \"include_prompt\": false}");
    test_write_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\": 3}");
    e = embedder_of(bert.model, t);
    assert_false(embedder_encode(e, "search : ", "red", 3, &list, &n_prompt, &whole, &err));
    assert_string_equal(err.text, "the text has nothing after its prompt, which this model leaves out");
    embedder_free(e);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_mode_pools_the_reference_rows, make, clear),
        cmocka_unit_test_setup_teardown(several_modes_follow_one_another, make, clear),
        cmocka_unit_test_setup_teardown(without_modules_the_mean_has_length_1, make, clear),
        cmocka_unit_test_setup_teardown(dense_layers_follow_pooling, make, clear),
        cmocka_unit_test_setup_teardown(a_layer_norm_follows_pooling, make, clear),
        cmocka_unit_test_setup_teardown(long_texts_go_on_in_the_next_step, make, clear),
        cmocka_unit_test_setup_teardown(progress_counts_texts_and_may_stop, make, clear),
        cmocka_unit_test_setup_teardown(a_text_that_can_not_be_is_named, make, clear),
        cmocka_unit_test_setup_teardown(a_value_that_is_not_finite_names_its_text, make, clear),
        cmocka_unit_test_setup_teardown(a_prompt_is_joined_to_its_text, make, clear),
        cmocka_unit_test_setup_teardown(texts_are_cut_and_keep_their_ends, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
