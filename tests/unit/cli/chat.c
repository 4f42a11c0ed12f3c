/* A conversation with a model whose rotary tables change past 16 tokens: answers that cross, are stopped, written
 * again, cut back and asked anew are those of a conversation that reads everything from the start each time. */
#include "cli/chat.h"
#include "support/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const Command command = {CMD_RUN, "run", "MODEL [PROMPT]", 1, 2, "", NULL};
static TestFolder folder;
static Loaded loaded;
static Args args;

/* Every token is one character, so that an answer's text has the answer's tokens. */
static void write_tokenizer(void) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789.,-";
    Buffer text = {0};
    buffer_text(&text,
                "{\"added_tokens\": [], \"normalizer\": null, \"post_processor\": null,"
                "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true,"
                " \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false,"
                " \"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"dropout\": null,"
                " \"unk_token\": null, \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,"
                " \"fuse_unk\": false, \"byte_fallback\": false, \"merges\": [], \"vocab\": {\"+\": 39");
    for (int i = 0; letters[i]; i++) buffer_printf(&text, ", \"%c\": %d", letters[i], i);
    buffer_text(&text, "}}}");
    test_write(&folder, "tokenizer.json", text.data, text.length);
    buffer_clear(&text);
}

static int setup(void **state) {
    static const char chat_template[] =
        "{% for m in messages %}{{ '0' if m.role == 'user' else '1' }}{{ m.content }}{% endfor %}9";
    static char count[] = "6", flag[] = "-n";
    char *argv[] = {folder.path, flag, count};
    Error err = {""};
    (void)state;
    test_folder_make(&folder);
    fresh_longrope_write(&folder, 16);
    write_tokenizer();
    test_write(&folder, "chat_template.jinja", chat_template, strlen(chat_template));
    if (!args_parse(&command, 3, argv, &args, &err)) fail_msg("%s", err.text);
    if (!setup_load(&args, LOAD_NEEDED, LOAD_NEEDED, &loaded, &err)) fail_msg("%s", err.text);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    loaded_close(&loaded);
    args_clear(&args);
    test_folder_remove(&folder);
    return 0;
}

/* Two conversations; the second forgets what was read before every answer. */
typedef struct Pair {
    Chat kept, fresh;
} Pair;

static void pair_open(Pair *p) {
    Error err = {""};
    if (!chat_init(&p->kept, &loaded, &args, &err)) fail_msg("%s", err.text);
    if (!chat_init(&p->fresh, &loaded, &args, &err)) fail_msg("%s", err.text);
}

static void pair_close(Pair *p) {
    chat_clear(&p->kept);
    chat_clear(&p->fresh);
}

/* Cancels after *context steps with text. */
static bool stop_after(void *context, bool reasoning, const char *text, size_t n) {
    int *left = context;
    (void)reasoning;
    (void)text;
    return n == 0 || --*left > 0;
}

static void say(Chat *c, const char *text, int stop, Generation *g) {
    Error err = {""};
    bool ok = text ? chat_ask(c, text, strlen(text), stop_after, &stop, g, &err)
                   : chat_ask_again(c, stop_after, &stop, g, &err);
    if (!ok) fail_msg("%s", err.text);
}

/* Asks both (NULL: again), stopping the answer after `stop` tokens. What the kept one had read already. */
static int ask(Pair *p, const char *text, int stop, int n_prompt) {
    Generation kept, fresh;
    say(&p->kept, text, stop, &kept);
    prefix_cache_shrink(p->fresh.cache, 0);
    say(&p->fresh, text, stop, &fresh);
    assert_int_equal(kept.n_prompt, n_prompt);
    assert_int_equal(fresh.n_cached, 0);
    assert_int_equal(kept.ids.n, stop < 6 ? stop : 6);
    assert_int_equal(kept.ids.n, fresh.ids.n);
    assert_memory_equal(kept.ids.ids, fresh.ids.ids, kept.ids.n * sizeof *kept.ids.ids);
    assert_string_equal(kept.text.data, fresh.text.data);
    int n_cached = kept.n_cached;
    generation_clear(&kept);
    generation_clear(&fresh);
    return n_cached;
}

enum { NEVER = 100 };

static void a_conversation_crosses_both_ways(void **state) {
    Pair p;
    (void)state;
    pair_open(&p);
    assert_int_equal(ask(&p, "abc", NEVER, 5), 0);
    assert_true(ask(&p, "de", NEVER, 15) >= 4);     /* its answer crosses */
    assert_int_equal(ask(&p, NULL, NEVER, 15), 14); /* back below: both sides are kept */
    assert_int_equal(ask(&p, NULL, 1, 15), 14);
    assert_int_equal(ask(&p, "f", 2, 19),
                     14); /* the question itself crosses: what the long side read when an answer did */
    assert_true(ask(&p, "g", NEVER, 24) >= 18);
    assert_true(ask(&p, NULL, NEVER, 24) >= 23);
    chat_forget(&p.kept);
    chat_forget(&p.fresh);
    assert_int_equal(ask(&p, "abc", NEVER, 5), 4);
    pair_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_conversation_crosses_both_ways)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
