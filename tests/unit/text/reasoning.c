/* Which form of reasoning a template implies, and whether a prompt has opened a block. */
#include "text/reasoning.h"
#include "support/vocabulary.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void a_template_implies_a_form(void **state) {
    (void)state;
    static const char *const templates[][2] = {
        {"'<think>\\n' + message.reasoning_content", "think"},
        {"content.split('</think>')[-1]", "think"},
        {"Write your thoughts between <think></think> and write your response between <response></response>",
         "granite"},
        {"<seed:think>", "seed"},
        {"set think_begin_token = '<mm:think>'", "minimax"},
        {"'<think{}>'.format(HYTK)", "hunyuan"},
        {"[THINK]' + block['thinking'] + '[/THINK]", "mistral"},
        {"<|channel>thought\\n", "gemma"},
        {"set inner_token = '<|inner_prefix|>'", "apertus"},
        {"<|START_THINKING|>", "cohere"},
        {"after the marker [BEGIN FINAL RESPONSE].", "apriel"},
        {"<|begin|>assistant<|think|><|end|>", "solar"},
        {"'<|open|>' + tag", "kimi-k3"},
        {"<|start|>assistant<|channel|>analysis<|message|>", "harmony"},
        {"<|start|>assistant to=self<|message|>", "recipient"},
    };
    bool reached[64] = {false};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const ReasoningForm *form = reasoning_of_template(templates[i][0]);
        assert_non_null(form);
        assert_string_equal(form->name, templates[i][1]);
        assert_ptr_equal(form, reasoning_find(templates[i][1]));
        for (int k = 0; reasoning_at(k); k++) reached[k] |= reasoning_at(k) == form;
    }
    for (int k = 0; reasoning_at(k); k++) assert_true(reached[k]);
    assert_null(reasoning_of_template("{{ messages[0].content }}"));
    assert_null(reasoning_find("no such form"));
    assert_null(reasoning_at(-1));
}

static bool is_open(const char *form, const char *prompt) {
    return reasoning_is_open(reasoning_find(form), prompt, strlen(prompt));
}

static bool is_closed(const char *form, const char *prompt) {
    return reasoning_is_closed(reasoning_find(form), prompt, strlen(prompt));
}

/* The tails are those that the templates of the models give. */
static void the_end_of_the_prompt_tells_whether_a_block_is_open(void **state) {
    (void)state;
    assert_true(is_open("think", "<|im_start|>assistant\n<think>\n"));
    assert_true(is_open("think", "<｜Assistant｜><think>"));
    assert_false(is_open("think", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    assert_true(is_closed("think", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    assert_false(is_closed("think", "<|im_start|>assistant\n<think>\n"));
    assert_false(is_open("think", "<|im_start|>user\nWhat is <think>?<|im_end|>\n<|im_start|>assistant\n"));
    assert_false(is_open("think", "</think>"));
    assert_false(is_open("think", ""));
    assert_true(is_open("cohere", "<|CHATBOT_TOKEN|><|START_THINKING|>"));
    assert_false(is_open("cohere", "<|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>"));
    assert_true(is_open("kimi-k3", "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>"));
    assert_false(is_open("kimi-k3", "<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>"));
    assert_false(is_open("gemma", "<|turn>model\n<|channel>thought\n<channel|>"));
    assert_true(is_open("apriel", "<|begin_assistant|>\nHere are my reasoning steps:\n"));
    assert_false(is_open("harmony", "<|start|>assistant"));
    assert_false(reasoning_is_open(NULL, "<think>", 7));
}

static bool fits(const char *form, const char *answer) {
    static const char digits[] = "[0-9]+";
    Error err = {""};
    Grammar *g = reasoning_frame(reasoning_find(form), grammar_from_regex(digits, strlen(digits), &err), &err);
    Tokenizer *t = vocabulary_make(NULL, 0);
    TokenTree *tree = token_tree_new(t, tokenizer_size(t), NULL, 0, &err);
    GrammarRun *run = g && tree ? grammar_run_new(g, tree, &err) : NULL;
    if (!run) fail_msg("%s", err.text);
    bool yes = grammar_run_text(run, answer, strlen(answer)) && grammar_run_can_end(run);
    grammar_run_free(run);
    token_tree_free(tree);
    tokenizer_free(t);
    grammar_free(g);
    return yes;
}

static void the_headers_of_a_form_may_come_before_an_answer(void **state) {
    (void)state;
    assert_true(fits("harmony", "12"));
    assert_true(fits("harmony", "<|channel|>final<|message|>12"));
    assert_true(fits("harmony", "<|start|>assistant<|channel|>final <|constrain|>json<|message|>12"));
    assert_false(fits("harmony", "<|channel|>analysis<|message|>12"));
    assert_false(fits("harmony", "<|channel|>final<|message|>"));
    assert_true(fits("cohere", "<|START_RESPONSE|>12"));
    assert_true(fits("think", "12"));
    assert_false(fits("think", "<think>12"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_implies_a_form),
        cmocka_unit_test(the_end_of_the_prompt_tells_whether_a_block_is_open),
        cmocka_unit_test(the_headers_of_a_form_may_come_before_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
