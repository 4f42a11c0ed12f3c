/* One table. A tag that people write about as well (<think>) opens a block only where an answer begins; in the middle
 * of a sentence it is text. What is a token of its own counts anywhere. MARK_DROP are the headers and end tokens around
 * the answer proper, which nobody wants to see. */
#include "text/reasoning.h"
#include "base/json_scan.h"
#include "text/grammar_build.h"

#include <string.h>

static const Mark think[] = {{"<think>", MARK_OPEN, true, NULL}, {"</think>", MARK_CLOSE, false, NULL}, {0}};
static const Mark granite[] = {{"<think>", MARK_OPEN, true, NULL},
                               {"</think>", MARK_CLOSE, false, NULL},
                               {"<response>", MARK_DROP, true, NULL},
                               {"</response>", MARK_DROP, false, NULL},
                               {0}};
static const Mark seed[] = {{"<seed:think>", MARK_OPEN, false, NULL}, {"</seed:think>", MARK_CLOSE, false, NULL}, {0}};
static const Mark minimax[] = {{"<mm:think>", MARK_OPEN, false, NULL}, {"</mm:think>", MARK_CLOSE, false, NULL}, {0}};
static const Mark hunyuan[] = {
    {"<think:opensource>", MARK_OPEN, false, NULL}, {"</think:opensource>", MARK_CLOSE, false, NULL}, {0}};
static const Mark mistral[] = {{"[THINK]", MARK_OPEN, false, NULL}, {"[/THINK]", MARK_CLOSE, false, NULL}, {0}};
static const Mark gemma[] = {
    {"<|channel>thought", MARK_OPEN, false, NULL}, {"<channel|>", MARK_CLOSE, false, NULL}, {0}};
static const Mark apertus[] = {
    {"<|inner_prefix|>", MARK_OPEN, false, NULL}, {"<|inner_suffix|>", MARK_CLOSE, false, NULL}, {0}};
static const Mark cohere[] = {{"<|START_THINKING|>", MARK_OPEN, false, NULL},
                              {"<|END_THINKING|>", MARK_CLOSE, false, NULL},
                              {"<|START_RESPONSE|>", MARK_DROP, false, NULL},
                              {"<|END_RESPONSE|>", MARK_DROP, false, NULL},
                              {"<|START_TEXT|>", MARK_DROP, false, NULL},
                              {"<|END_TEXT|>", MARK_DROP, false, NULL},
                              {0}};
static const Mark apriel[] = {{"Here are my reasoning steps:", MARK_OPEN, true, NULL},
                              {"[BEGIN FINAL RESPONSE]", MARK_CLOSE, false, NULL},
                              {"[END FINAL RESPONSE]", MARK_DROP, false, NULL},
                              {0}};
static const Mark solar[] = {{"<|think|>", MARK_OPEN, false, NULL},   {"<|end|>", MARK_CLOSE, false, NULL},
                             {"<|end|>", MARK_DROP, false, NULL},     {"<|begin|>assistant", MARK_DROP, false, NULL},
                             {"<|content|>", MARK_DROP, false, NULL}, {0}};
static const Mark kimi_k3[] = {
    {"<|open|>think<|sep|>", MARK_OPEN, false, NULL},    {"<|close|>think<|sep|>", MARK_CLOSE, false, NULL},
    {"<|open|>response<|sep|>", MARK_DROP, false, NULL}, {"<|close|>response<|sep|>", MARK_DROP, false, NULL},
    {"<|close|>message<|sep|>", MARK_DROP, false, NULL}, {0}};
static const Mark recipient[] = {{" to=self<|message|>", MARK_OPEN, true, NULL},
                                 {"<|eom|>", MARK_CLOSE, false, NULL},
                                 {"<|eom|>", MARK_DROP, false, NULL},
                                 {"<|start|>assistant", MARK_DROP, false, NULL},
                                 {" to=user<|message|>", MARK_DROP, true, NULL},
                                 {"<|message|>", MARK_DROP, false, NULL},
                                 {0}};
static const Mark harmony[] = {{"<|channel|>analysis<|message|>", MARK_OPEN, false, NULL},
                               {"<|end|>", MARK_CLOSE, false, NULL},
                               {"<|end|>", MARK_DROP, false, NULL},
                               {"<|start|>assistant", MARK_DROP, false, NULL},
                               {"<|channel|>final<|message|>", MARK_DROP, false, NULL},
                               {"<|channel|>final <|constrain|>json<|message|>", MARK_DROP, false, NULL},
                               {"<|channel|>commentary<|message|>", MARK_DROP, false, NULL},
                               {0}};

static const ReasoningForm forms[] = {
    {"think", think},     {"granite", granite}, {"seed", seed},       {"minimax", minimax},     {"hunyuan", hunyuan},
    {"mistral", mistral}, {"gemma", gemma},     {"apertus", apertus}, {"cohere", cohere},       {"apriel", apriel},
    {"solar", solar},     {"kimi-k3", kimi_k3}, {"harmony", harmony}, {"recipient", recipient},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* What a template's text holds, and the form that this means; the first rule that fits counts. */
static const struct {
    const char *text, *form;
} rules[] = {
    {"<|channel|>analysis", "harmony"},
    {"to=self<|message|>", "recipient"},
    {"<|channel>thought", "gemma"},
    {"<seed:think>", "seed"},
    {"<mm:think>", "minimax"},
    {"<think:opensource>", "hunyuan"},
    {"<think{}>'.format", "hunyuan"},
    {"[THINK]", "mistral"},
    {"<|START_THINKING|>", "cohere"},
    {"<|inner_prefix|>", "apertus"},
    {"[BEGIN FINAL RESPONSE]", "apriel"},
    {"<|think|><|end|>", "solar"},
    {"<|open|>", "kimi-k3"},
    {"<response></response>", "granite"},
    {"</think>", "think"},
    {"<think>", "think"},
};

const ReasoningForm *reasoning_of_template(const char *source) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strstr(source, rules[i].text)) return reasoning_find(rules[i].form);
    return NULL;
}

const ReasoningForm *reasoning_find(const char *name) {
    for (int i = 0; i < N_FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

const ReasoningForm *reasoning_at(int i) {
    return i >= 0 && i < N_FORMS ? &forms[i] : NULL;
}

static bool ends_with_mark(const ReasoningForm *form, MarkRole role, const char *prompt, size_t n) {
    while (n > 0 && json_is_space(prompt[n - 1])) n--;
    for (const Mark *m = form ? form->marks : NULL; m && m->text; m++) {
        size_t length = strlen(m->text);
        if (m->role == role && length <= n && memcmp(prompt + n - length, m->text, length) == 0) return true;
    }
    return false;
}

bool reasoning_is_open(const ReasoningForm *form, const char *prompt, size_t n) {
    return ends_with_mark(form, MARK_OPEN, prompt, n);
}

bool reasoning_is_closed(const ReasoningForm *form, const char *prompt, size_t n) {
    return ends_with_mark(form, MARK_CLOSE, prompt, n);
}

const char *reasoning_mark(const ReasoningForm *form, MarkRole role) {
    for (const Mark *m = form ? form->marks : NULL; m && m->text; m++)
        if (m->role == role) return m->text;
    return NULL;
}

Grammar *reasoning_frame(const ReasoningForm *form, Grammar *answer, Error *err) {
    enum { MOST_HEADERS = 4 };
    if (!reasoning_mark(form, MARK_DROP)) return answer;
    uint32_t header = grammar_rule(answer);
    for (const Mark *m = form->marks; m->text; m++) {
        if (m->role != MARK_DROP) continue;
        grammar_alternative(answer, header);
        grammar_put_text(answer, m->text, strlen(m->text));
        grammar_end(answer);
    }
    uint32_t parts[2] = {grammar_repeat(answer, header, 0, MOST_HEADERS), answer->root};
    return grammar_finish(answer, grammar_sequence(answer, parts, 2), err);
}
