/* The trace: the same rows however it is cut and whoever runs beside, what it refuses, and a file that is whole or
 * absent. */
#define _GNU_SOURCE
#include "engine/score.h"
#include "eval/trace.h"
#include "support/tiny_llama.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { IDS = 13 };
static const int32_t ids[IDS] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 39};

static TestFolder folder;
static TinyModel tiny;

static int setup(void **state) {
    (void)state;
    test_folder_make(&folder);
    tiny_make(&tiny, &(TinyLlama){.head = TINY_HEAD_OWN}, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tiny_close(&tiny);
    test_folder_remove(&folder);
    return 0;
}

typedef struct Kept {
    float logits[IDS][TINY_VOCAB];
    char calls[128]; /* "first+n " of each call of the sink */
} Kept;

static bool keep(void *context, int first, int n, const float *logits, Error *err) {
    Kept *k = context;
    size_t used = strlen(k->calls);
    (void)err;
    memcpy(k->logits[first], logits, (size_t)n * sizeof k->logits[0]);
    snprintf(k->calls + used, sizeof k->calls - used, "%d+%d ", first, n);
    return true;
}

static Kept run(TraceOptions o) {
    Kept k = {.calls = ""};
    Error err = {""};
    o.ids = ids;
    o.n_ids = IDS;
    if (!trace_run(tiny.model, &o, keep, &k, &err)) fail_msg("%s", err.text);
    return k;
}

static void chunks_repeat_until_the_ids_are_used(void **state) {
    static const int chunks[] = {5, 4, 3}, one[] = {1};
    (void)state;
    Kept whole = run((TraceOptions){0});
    assert_string_equal(whole.calls, "0+13 ");
    Kept cut = run((TraceOptions){.chunks = chunks, .n_chunks = 3});
    assert_string_equal(cut.calls, "0+5 5+4 9+3 12+1 ");
    assert_memory_equal(cut.logits, whole.logits, sizeof cut.logits);
    cut = run((TraceOptions){.chunks = one, .n_chunks = 1});
    assert_memory_equal(cut.logits, whole.logits, sizeof cut.logits);
}

typedef struct Hook {
    int rows[IDS], n;
} Hook;

static void note_row(void *context, int side, int row, int first, int n) {
    Hook *h = context;
    (void)side, (void)first, (void)n;
    h->rows[h->n++] = row;
}

static void unrelated_rows_stand_on_both_sides_and_do_not_show(void **state) {
    static const int one[] = {1};
    Hook hook = {.n = 0};
    (void)state;
    Kept alone = run((TraceOptions){0});
    Kept beside =
        run((TraceOptions){.chunks = one, .n_chunks = 1, .width = 6, .before_step = note_row, .hook_context = &hook});
    assert_memory_equal(beside.logits, alone.logits, sizeof alone.logits);
    for (int i = 0; i < IDS; i++) assert_int_equal(hook.rows[i], 2); /* 2 of the 5 before it */

    hook.n = 0;
    TraceOptions varied = {.chunks = one, .n_chunks = 1, .width = 4, .vary_width = true, .all_logits = true};
    varied.before_step = note_row;
    varied.hook_context = &hook;
    beside = run(varied);
    assert_memory_equal(beside.logits, alone.logits, sizeof alone.logits);
    static const int expected[IDS] = {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0};
    assert_memory_equal(hook.rows, expected, sizeof expected);
}

static void refuses(TraceOptions o, const char *says) {
    Kept k = {.calls = ""};
    Error err = {""};
    assert_false(trace_run(tiny.model, &o, keep, &k, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_string_equal(k.calls, "");
}

static void what_can_not_run_is_refused_before_it_starts(void **state) {
    static const int32_t outside[] = {1, 40};
    static const int bad[] = {3, 0};
    static int32_t many[TINY_CONTEXT + 1];
    (void)state;
    refuses((TraceOptions){.ids = ids}, "no ids");
    refuses((TraceOptions){.ids = outside, .n_ids = 2}, "id 40 (number 2 of the list) is outside the vocabulary of 40");
    refuses((TraceOptions){.ids = many, .n_ids = TINY_CONTEXT + 1}, "601 ids are more than the context of 600");
    refuses((TraceOptions){.ids = ids, .n_ids = 2, .chunks = bad, .n_chunks = 2}, "a chunk of 0 rows");
    refuses((TraceOptions){.ids = ids, .n_ids = 2, .width = -1}, "a width of -1");
}

static void a_file_holds_the_logits_and_their_hash_is_the_last_rows(void **state) {
    TraceOptions o = {.ids = ids, .n_ids = IDS};
    Kept expected = run((TraceOptions){0});
    Error err = {""};
    uint64_t hash = 0;
    (void)state;
    if (!trace_write(tiny.model, &o, test_path(&folder, "out.safetensors"), &hash, &err)) fail_msg("%s", err.text);
    assert_true(hash == logits_hash(expected.logits[IDS - 1], TINY_VOCAB));
    assert_false(test_exists(test_path(&folder, "out.safetensors.part")));
    Safetensors *file = safetensors_open(test_path(&folder, "out.safetensors"), &err);
    assert_non_null(file);
    const Tensor *t = safetensors_tensor(file, 0);
    assert_int_equal(safetensors_count(file), 1);
    assert_string_equal(t->name, "logits");
    assert_int_equal(t->dtype, DTYPE_F32);
    assert_int_equal(t->shape[0], IDS);
    assert_int_equal(t->shape[1], TINY_VOCAB);
    assert_memory_equal(t->data, expected.logits, sizeof expected.logits);
    assert_true(json_equals(json_get(safetensors_metadata(file), "kv"), "f32"));
    assert_true(json_equals(json_get(safetensors_metadata(file), "activations"), "16"));
    safetensors_close(file);
}

static void a_failed_trace_leaves_no_file(void **state) {
    TinyModel sick;
    TraceOptions o = {.ids = ids, .n_ids = IDS};
    Error err = {""};
    (void)state;
    TinyLlama t = {.head = TINY_HEAD_OWN,
                   .poison = "model.embed_tokens.weight",
                   .poison_at = 9 * TINY_HIDDEN,
                   .poison_value = INFINITY};
    tiny_make(&sick, &t, NULL);
    int before = test_entries(&folder);
    assert_false(trace_write(sick.model, &o, test_path(&folder, "sick.safetensors"), NULL, &err));
    if (!strstr(err.text, "position 5: a value that is not finite in layer 0, q_proj"))
        fail_msg("%s", err.text); /* id 9 */
    assert_int_equal(test_entries(&folder), before);
    assert_false(trace_write(sick.model, &o, test_path(&folder, "no/such/folder.safetensors"), NULL, &err));
    assert_false(trace_write(sick.model, &o, folder.path, NULL, &err));
    assert_non_null(strstr(err.text, "not a plain file"));
    assert_int_equal(test_entries(&folder), before);
    tiny_close(&sick);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_repeat_until_the_ids_are_used),
        cmocka_unit_test(unrelated_rows_stand_on_both_sides_and_do_not_show),
        cmocka_unit_test(what_can_not_run_is_refused_before_it_starts),
        cmocka_unit_test(a_file_holds_the_logits_and_their_hash_is_the_last_rows),
        cmocka_unit_test(a_failed_trace_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
