/* Which tokens may come where an answer has a form and reasoning may stand before it: the mask at every step of answers
 * that open it, that do not, and that look for a while as if they did. */
#include "engine/constraint.h"
#include "support/vocabulary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const pieces[] = {"<think>", "</think>",      "<t",     "<tb",   "hink>",
                                     "k>\n",    "</think>\n\na", "and on", "<end>", "x<think>"};
enum { PIECES = sizeof pieces / sizeof *pieces, VOCAB = 256 + PIECES, END = 256 + 8 };

static Tokenizer *tokenizer;
static TokenTree *tree;

static int setup(void **state) {
    (void)state;
    Error err = {""};
    tokenizer = vocabulary_make(pieces, PIECES);
    tree = token_tree_new(tokenizer, VOCAB, NULL, 0, &err);
    return tree ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    token_tree_free(tree);
    tokenizer_free(tokenizer);
    return 0;
}

static int32_t id_of(const char *token) {
    if (strlen(token) == 1) return (unsigned char)*token;
    for (int i = 0; i < PIECES; i++)
        if (strcmp(pieces[i], token) == 0) return 256 + i;
    fail_msg("there is no token %s", token);
    return -1;
}

/* An answer in the making. */
typedef struct Answer {
    Request request;
    int32_t forced[2];
    Constraint *c;
} Answer;

/* choices: the answer must be one of these, a regular expression; NULL: anything. The mark with which it may open its
 * reasoning: NULL where the prompt has opened it. budget: -1 for none. */
static void begin(Answer *a, const char *choices, const char *open, int budget) {
    static const int32_t end[] = {END};
    Error err = {""};
    *a = (Answer){.forced = {id_of("</think>"), '!'}};
    a->request = (Request){.end_ids = end, .n_end_ids = 1, .tree = tree, .reasoning_close = "</think>"};
    a->request.reasoning_open = open;
    if (choices) a->request.grammar = grammar_from_regex(choices, strlen(choices), &err);
    if (choices && !a->request.grammar) fail_msg("%s", err.text);
    if (budget >= 0) {
        a->request.forced = a->forced;
        a->request.n_forced = 1;
        a->request.budget = budget;
    }
    a->c = constraint_new(&a->request, VOCAB, tokenizer, &err);
    if (!a->c) fail_msg("%s", err.text);
}

static void end(Answer *a) {
    constraint_free(a->c);
    grammar_free(a->request.grammar);
}

/* What may come now: exactly these tokens, up to a NULL; none named: all. */
static void expect(Answer *a, const char *const *tokens) {
    const uint32_t *mask;
    Error err = {""};
    if (!constraint_allowed(a->c, &mask, &err)) fail_msg("%s", err.text);
    if (!tokens[0]) {
        assert_null(mask);
        return;
    }
    assert_non_null(mask);
    for (int id = 0; id < VOCAB; id++) {
        bool expected = false;
        for (int i = 0; tokens[i]; i++) expected |= id == id_of(tokens[i]);
        if ((mask[id / 32] >> id % 32 & 1) != expected) fail_msg("token %d: %s", id, expected ? "missing" : "too much");
    }
}
#define EXPECT(a, ...) expect(a, (const char *const[]){__VA_ARGS__, NULL})

/* Everything but an end: thoughts. */
static void expect_thoughts(Answer *a) {
    const uint32_t *mask;
    Error err = {""};
    assert_true(constraint_allowed(a->c, &mask, &err));
    assert_non_null(mask);
    for (int id = 0; id < VOCAB; id++) assert_int_equal(mask[id / 32] >> id % 32 & 1, id != END);
}

static void take(Answer *a, const char *token) {
    Error err = {""};
    if (!constraint_accept(a->c, id_of(token), &err)) fail_msg("%s: %s", token, err.text);
}

static void the_prompt_has_opened_it(void **state) {
    (void)state;
    Answer a;
    begin(&a, "a|b", NULL, -1);
    expect_thoughts(&a);
    take(&a, "<think>");
    take(&a, "and on");
    expect_thoughts(&a);
    take(&a, "</think>");
    EXPECT(&a, "a", "b", "\n", " ");
    take(&a, "\n");
    EXPECT(&a, "a", "b");
    take(&a, "b");
    EXPECT(&a, "<end>");
    assert_true(constraint_is_complete(a.c));
    end(&a);
}

static void the_answer_opens_it(void **state) {
    (void)state;
    Answer a;
    begin(&a, "a|b", "<think>", -1);
    EXPECT(&a, "a", "b", "<think>", "<", "<t");
    take(&a, "<think>");
    expect_thoughts(&a);
    take(&a, "a");
    expect_thoughts(&a);
    take(&a, "</think>\n\na"); /* its last byte belongs to the answer */
    EXPECT(&a, "<end>");
    end(&a);
}

static void the_answer_does_not_open_it(void **state) {
    (void)state;
    Answer a;
    begin(&a, "a.*", "<think>", -1);
    take(&a, "a");
    const uint32_t *mask;
    Error err = {""};
    assert_true(constraint_allowed(a.c, &mask, &err));
    take(&a, "<think>"); /* it is text by now, and the answer may end */
    assert_true(constraint_allowed(a.c, &mask, &err));
    assert_true(mask[END / 32] >> END % 32 & 1);
    end(&a);
}

/* The bytes of the mark come one by one, and its last token has a byte more. */
static void the_mark_is_completed(void **state) {
    (void)state;
    Answer a;
    begin(&a, "a|b", "<think>", -1);
    take(&a, "<");
    EXPECT(&a, "t");
    take(&a, "t");
    EXPECT(&a, "h", "hink>");
    take(&a, "h");
    take(&a, "i");
    take(&a, "n");
    EXPECT(&a, "k", "k>\n");
    take(&a, "k>\n");
    expect_thoughts(&a);
    take(&a, "</think>");
    EXPECT(&a, "a", "b", "\n", " ");
    end(&a);
}

/* "<t" begins the mark and an answer; what it took of the grammar is not taken any more once the mark has come. */
static void the_mark_and_the_answer_begin_alike(void **state) {
    (void)state;
    Answer a;
    for (int opens = 0; opens < 2; opens++) {
        begin(&a, "<tb|<t|b", "<think>", -1);
        EXPECT(&a, "<", "<t", "<tb", "<think>", "b");
        take(&a, "<t");
        EXPECT(&a, "b", "h", "hink>", "<end>");
        assert_false(constraint_is_complete(a.c));
        take(&a, opens ? "hink>" : "b");
        if (opens) {
            expect_thoughts(&a);
            take(&a, "</think>");
            EXPECT(&a, "<", "<t", "<tb", "b", "\n", " ");
        } else {
            EXPECT(&a, "<end>");
            assert_true(constraint_is_complete(a.c));
        }
        end(&a);
    }
    begin(&a, "<tc|b", "<think>", -1); /* an answer that the mark has left behind */
    take(&a, "<t");
    take(&a, "h");
    EXPECT(&a, "i");
    end(&a);
}

/* It counts from the opening on. */
static void a_budget_closes_what_the_answer_opened(void **state) {
    (void)state;
    Answer a;
    begin(&a, "a|b", "<think>", 2);
    take(&a, "<t");
    take(&a, "hink>");
    expect_thoughts(&a);
    take(&a, "and on");
    expect_thoughts(&a);
    take(&a, "and on");
    EXPECT(&a, "</think>");
    take(&a, "</think>");
    EXPECT(&a, "a", "b", "\n", " ");
    end(&a);
}

static void a_budget_without_a_grammar(void **state) {
    (void)state;
    Answer a;
    begin(&a, NULL, "<think>", 1);
    EXPECT(&a, NULL);
    take(&a, "\n");
    take(&a, "<think>");
    expect_thoughts(&a);
    take(&a, "and on");
    EXPECT(&a, "</think>");
    take(&a, "</think>");
    EXPECT(&a, NULL);
    end(&a);
    begin(&a, NULL, "<think>", 1); /* a mark in the middle is text */
    take(&a, "x<think>");
    take(&a, "and on");
    EXPECT(&a, NULL);
    take(&a, "and on");
    EXPECT(&a, NULL);
    end(&a);
}

/* "a" may end and may go on; "ab" has nothing else but to end. */
static void a_least_length(void **state) {
    (void)state;
    Answer a;
    begin(&a, "ab?", "<think>", -1);
    a.request.reasoning_close = a.request.reasoning_open = NULL;
    constraint_free(a.c);
    a.request.min_tokens = 3;
    a.c = constraint_new(&a.request, VOCAB, tokenizer, NULL);
    take(&a, "a");
    EXPECT(&a, "b");
    take(&a, "b");
    EXPECT(&a, "<end>");
    end(&a);
    Request free_text = {.end_ids = a.request.end_ids, .n_end_ids = 1, .min_tokens = 2};
    assert_true(constraint_is_needed(&free_text));
    a = (Answer){.request = free_text, .c = constraint_new(&free_text, VOCAB, NULL, NULL)};
    for (int i = 0; i < 2; i++) {
        expect_thoughts(&a);
        take(&a, "a");
    }
    EXPECT(&a, NULL);
    end(&a);
    free_text.min_tokens = 0;
    assert_false(constraint_is_needed(&free_text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prompt_has_opened_it),
        cmocka_unit_test(the_answer_opens_it),
        cmocka_unit_test(the_answer_does_not_open_it),
        cmocka_unit_test(the_mark_is_completed),
        cmocka_unit_test(the_mark_and_the_answer_begin_alike),
        cmocka_unit_test(a_budget_closes_what_the_answer_opened),
        cmocka_unit_test(a_budget_without_a_grammar),
        cmocka_unit_test(a_least_length),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
