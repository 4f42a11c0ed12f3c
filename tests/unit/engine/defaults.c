/* What a checkpoint's files say about generating, on folders made for it. */
#include "engine/defaults.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* One F32 tensor of one value, so that the folder is a checkpoint. */
static void write_tensors(const TestFolder *f) {
    static const char header[] = "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  ";
    uint8_t bytes[8 + sizeof header - 1 + 4] = {0};
    bytes[0] = sizeof header - 1;
    memcpy(bytes + 8, header, sizeof header - 1);
    test_write(f, "model.safetensors", bytes, sizeof bytes);
}

static bool read_folder_of(int vocab, const char *config, const char *generation, Defaults *out, Error *err) {
    TestFolder f;
    test_folder_make(&f);
    write_tensors(&f);
    test_write_text(&f, "config.json", config);
    if (generation) test_write_text(&f, "generation_config.json", generation);
    Checkpoint *c = checkpoint_open(f.path, err);
    if (!c) fail_msg("%s", err->text);
    bool ok = defaults_read(c, NULL, vocab, out, err);
    checkpoint_close(c);
    test_folder_remove(&f);
    return ok;
}

static bool read_folder(const char *config, const char *generation, Defaults *out, Error *err) {
    return read_folder_of(100, config, generation, out, err);
}

static void assert_end_ids(const char *config, const char *generation, size_t n, const int32_t *expected) {
    Defaults d;
    Error err;
    if (!read_folder(config, generation, &d, &err)) fail_msg("%s", err.text);
    assert_int_equal(d.end_ids.n, n);
    if (n > 0) assert_memory_equal(d.end_ids.ids, expected, n * sizeof *expected);
    defaults_clear(&d);
}

static void end_tokens_come_from_generation_config_first(void **state) {
    (void)state;
    const int32_t two[] = {2}, list[] = {7, 9};
    assert_end_ids("{\"eos_token_id\": 2}", NULL, 1, two);
    assert_end_ids("{\"eos_token_id\": 2}", "{}", 1, two);
    assert_end_ids("{\"eos_token_id\": null, \"text_config\": {\"eos_token_id\": 2}}", NULL, 1, two);
    assert_end_ids("{\"eos_token_id\": 2}", "{\"eos_token_id\": [7, 9, 7]}", 2, list);
    assert_end_ids("{\"eos_token_id\": 100}", NULL, 0, NULL); /* outside the vocabulary */
    assert_end_ids("{}", NULL, 0, NULL);
}

static void sampling_follows_generation_config(void **state) {
    (void)state;
    Defaults d;
    Error err;
    assert_true(read_folder("{}", NULL, &d, &err));
    assert_true(d.sampling.temperature == 0 && d.sampling.top_p == 1);
    defaults_clear(&d);
    assert_true(read_folder("{}", "{\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20, \"min_p\": 0.25}", &d, &err));
    assert_true(d.sampling.temperature == 0.6f && d.sampling.top_p == 0.95f && d.sampling.min_p == 0.25f);
    assert_int_equal(d.sampling.top_k, 20);
    defaults_clear(&d);
    assert_true(read_folder("{}", "{\"do_sample\": true}", &d, &err));
    assert_true(d.sampling.temperature == 1);
    defaults_clear(&d);
    assert_true(
        read_folder("{}", "{\"do_sample\": false, \"temperature\": 0.6, \"repetition_penalty\": 1.5}", &d, &err));
    assert_true(d.sampling.temperature == 0 && d.sampling.repetition_penalty == 1.5f);
    defaults_clear(&d);
    assert_true(read_folder("{}", "{\"suppress_tokens\": [5, 500]}", &d, &err));
    assert_int_equal(d.suppressed.n, 1);
    assert_int_equal(d.suppressed.ids[0], 5);
    defaults_clear(&d);
}

static int count_suppressed(int vocab, const char *config, Defaults *d) {
    Error err;
    if (!read_folder_of(vocab, config, NULL, d, &err)) fail_msg("%s", err.text);
    return (int)d->suppressed.n;
}

static void ids_that_pad_a_vocabulary_are_never_sampled(void **state) {
    (void)state;
    const char *config = "{\"model_type\": \"phi3small\"}";
    const int32_t first[] = {100256, 100258, 100259, 100260, 100264, 100265, 100267};
    Defaults d;
    assert_int_equal(count_suppressed(100352, config, &d), 91);
    assert_memory_equal(d.suppressed.ids, first, sizeof first);
    assert_int_equal(d.suppressed.ids[90], 100351);
    defaults_clear(&d);
    assert_int_equal(count_suppressed(100260, config, &d), 3); /* those below the vocabulary's size */
    defaults_clear(&d);
    assert_int_equal(count_suppressed(128, config, &d), 0);
    defaults_clear(&d);
    assert_int_equal(count_suppressed(100352, "{\"model_type\": \"phi3\"}", &d), 0);
    defaults_clear(&d);
}

static void assert_refused(const char *config, const char *generation, const char *message) {
    Defaults d;
    Error err = {""};
    assert_false(read_folder(config, generation, &d, &err));
    assert_string_equal(err.text, message);
}

static void wrong_types_are_named(void **state) {
    (void)state;
    assert_refused("{\"eos_token_id\": \"x\"}", NULL,
                   "config.json: eos_token_id must be an integer or a list of integers");
    assert_refused("{}", "{\"eos_token_id\": [1, 2.5]}",
                   "generation_config.json: eos_token_id must be an integer or a list of integers");
    assert_refused("{}", "{\"temperature\": \"hot\"}", "generation_config.json: temperature must be a number");
    assert_refused("{}", "{\"do_sample\": 1}", "generation_config.json: do_sample must be true or false");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_tokens_come_from_generation_config_first),
        cmocka_unit_test(sampling_follows_generation_config),
        cmocka_unit_test(ids_that_pad_a_vocabulary_are_never_sampled),
        cmocka_unit_test(wrong_types_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
