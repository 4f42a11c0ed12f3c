/* What a sequence makes of its tokens: text, held back where it must be, stop strings, the end. The tokens are chosen
 * by logits made here; the golden only lends its vocabulary of 128. Cases 3 and 5 of the users' list are among these.
 */
#include "engine/sequence.h"
#include "support/fresh.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { VOCAB = 128, END = 9, BEYOND = 100 };

/* Byte-level pieces: 4 and 5 are the halves of the seedling (F0 9F, 8C B1), 8 is special. */
static const char TOKENIZER[] =
    "{\"added_tokens\": [{\"id\": 8, \"content\": \"<s>\", \"special\": true, \"single_word\": false, \"lstrip\": "
    "false, "
    "\"rstrip\": false, \"normalized\": false}, {\"id\": 9, \"content\": \"<end>\", \"special\": true, "
    "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false}],"
    "\"normalizer\": null, \"post_processor\": null,"
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": "
    "true},"
    "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true},"
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null,"
    "\"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false,"
    "\"vocab\": {\"Red\": 0, \"\u0120apple\": 1, \"\u0120pie\": 2, \"\u0120now\": 3, \"\u00f0\u0141\": 4, "
    "\"\u012e\u00b1\": 5,"
    "\"go\": 6, \"\u0120ok\": 7}, \"merges\": []}}";

static Golden golden;
static Tokenizer *tokenizer;
static Sampler *sampler;

static int setup(void **state) {
    (void)state;
    Error err = {""};
    golden_open(&golden, "tests/goldens/mlx/llama", KV_F32, 1);
    tokenizer = tokenizer_parse(TOKENIZER, strlen(TOKENIZER), NULL, 0, &err);
    if (!tokenizer) fail_msg("%s", err.text);
    sampler = sampler_new(VOCAB, &err);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    sampler_free(sampler);
    tokenizer_free(tokenizer);
    golden_close(&golden);
    return 0;
}

/* A sequence, and the text it showed after each token. */
typedef struct Play {
    Sequence *s;
    PrefixCache *cache;
    size_t told;
} Play;

static void play_begin(Play *p, const char *stop, int max_tokens) {
    static const int32_t prompt[] = {6}, end[] = {END};
    static StopText text;
    Error err = {""};
    text = (StopText){stop, stop ? strlen(stop) : 0};
    Request r = {.prompt = prompt,
                 .n_prompt = 1,
                 .max_tokens = max_tokens,
                 .sampling = SAMPLING_GREEDY,
                 .end_ids = end,
                 .n_end_ids = 1,
                 .stops = &text,
                 .n_stops = stop != NULL};
    *p = (Play){.cache = fresh_cache(golden.model)};
    p->s = sequence_new(&r, golden.model, tokenizer, p->cache, &err);
    if (!p->s || !sequence_start(p->s, &err)) fail_msg("%s", err.text);
}

static void play_end(Play *p) {
    sequence_free(p->s);
    prefix_cache_free(p->cache);
}

/* Lets it choose `id`; what it shows by that must be `shown`. */
static void play(Play *p, int32_t id, const char *shown) {
    float logits[VOCAB] = {0};
    Row rows[1];
    RowFault faults[1] = {{0}};
    logits[id] = 1;
    assert_int_equal(sequence_rows(p->s, 1, rows), 1);
    assert_true(rows[0].wants_logits);
    sequence_accept(p->s, sampler, 1, faults, logits);
    const Buffer *text = sequence_text(p->s);
    assert_string_equal(buffer_string(text) + p->told, shown);
    p->told = text->length;
}

static void a_character_over_two_tokens_waits(void **state) {
    (void)state;
    Play p;
    play_begin(&p, NULL, -1);
    play(&p, 6, "go");
    play(&p, 4, "");
    play(&p, 5, "\xF0\x9F\x8C\xB1");
    play(&p, 7, " ok");
    play(&p, 4, "");
    play(&p, END, "\xEF\xBF\xBD"); /* a half that nothing completes */
    assert_int_equal(sequence_finish(p.s), FINISH_STOP);
    play_end(&p);
}

static void a_stop_string_over_tokens(void **state) {
    (void)state;
    Play p;
    play_begin(&p, "ple p", -1);
    play(&p, 0, "Red");
    play(&p, 1, " ap");
    play(&p, 2, "");
    assert_int_equal(sequence_finish(p.s), FINISH_STOP);
    assert_string_equal(sequence_text(p.s)->data, "Red ap");
    int n;
    assert_int_equal(sequence_answer(p.s, &n)[2], 2);
    assert_int_equal(n, 3);
    play_end(&p);
}

static void a_stop_string_that_does_not_come_is_released(void **state) {
    (void)state;
    Play p;
    play_begin(&p, "pie now!", -1);
    play(&p, 1, " apple"); /* no tail of it begins the stop string */
    play(&p, 2, " ");
    play(&p, 3, "");
    play(&p, END, "pie now");
    assert_int_equal(sequence_finish(p.s), FINISH_STOP);
    play_end(&p);
    play_begin(&p, "pie now!", 2);
    play(&p, 2, " ");
    play(&p, 3, "pie now"); /* the limit is the end, too */
    assert_int_equal(sequence_finish(p.s), FINISH_LENGTH);
    play_end(&p);
}

static void a_cancel_releases_what_was_held(void **state) {
    (void)state;
    Play p;
    play_begin(&p, "pie now!", -1);
    play(&p, 2, " ");
    sequence_cancel(p.s);
    assert_int_equal(sequence_finish(p.s), FINISH_CANCELLED);
    assert_string_equal(sequence_text(p.s)->data, " pie");
    Row rows[1];
    assert_int_equal(sequence_rows(p.s, 1, rows), 0);
    play_end(&p);
}

static void special_tokens_and_padding_have_no_text(void **state) {
    (void)state;
    Play p;
    play_begin(&p, NULL, 4);
    play(&p, 8, "");
    play(&p, BEYOND, "");
    play(&p, 0, "Red");
    play(&p, 7, " ok");
    assert_int_equal(sequence_finish(p.s), FINISH_LENGTH);
    int n;
    assert_int_equal(sequence_answer(p.s, &n)[1], BEYOND);
    assert_int_equal(n, 4);
    play_end(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_over_two_tokens_waits),
        cmocka_unit_test(a_stop_string_over_tokens),
        cmocka_unit_test(a_stop_string_that_does_not_come_is_released),
        cmocka_unit_test(a_cancel_releases_what_was_held),
        cmocka_unit_test(special_tokens_and_padding_have_no_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
