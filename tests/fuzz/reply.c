/* Fuzz target: any bytes as an answer, in any form of tool calls and reasoning. The first four bytes choose the forms,
 * what is known of the request, and how the answer is cut. Cut or whole, the events must be the same; a call's
 * arguments must be a JSON object; and an answer without calls and without a form of reasoning must come back byte for
 * byte. */
#include "support/reply_log.h"
#include "base/json_scan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] = "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{"
                                 "\"type\":[\"boolean\",\"null\"]},"
                                 "\"c\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}},{\"$ref\":\"#/"
                                 "properties/c\"}]},\"d\":{\"type\":\"object\"}}}},"
                                 "{\"name\":\"now\"}]";

static JsonDoc *tools;

static void free_tools(void) {
    json_free(tools);
    tools = NULL;
}

static void demand(bool so) {
    if (!so) __builtin_trap();
}

/* Checks each call as it comes, and logs. */
static bool take(void *context, const ReplyEvent *e, Error *err) {
    if (e->part == REPLY_ARGUMENTS) demand(e->length >= 2 && e->text[0] == '{' && json_is_value(e->text, e->length));
    if (e->part == REPLY_CALL) demand(e->length > 0);
    return reply_log_take(context, e, err);
}

/* In pieces of pseudo-random length, 1 to `longest` bytes. */
static void run(const ReplyOptions *o, const char *answer, size_t n, uint32_t seed, size_t longest, ReplyLog *log) {
    Error err;
    Reply *r = reply_new(o, take, log, &err);
    demand(r != NULL);
    for (size_t at = 0; at < n;) {
        seed = seed * 1664525u + 1013904223u;
        size_t piece = 1 + (seed >> 16) % longest;
        if (piece > n - at) piece = n - at;
        demand(reply_push(r, answer + at, piece, &err));
        at += piece;
    }
    demand(reply_finish(r, &err));
    reply_log_close(log);
    demand(!log->wrong && !log->in_call && reply_calls(r) == log->n_calls);
    reply_free(r);
}

static ReplyOptions choose(const uint8_t *data) {
    int n_calls = 0, n_reasoning = 0;
    while (call_form_at(n_calls)) n_calls++;
    while (reasoning_at(n_reasoning)) n_reasoning++;
    return (ReplyOptions){.calls = call_form_at(data[0] % (n_calls + 1)), /* the last one: none */
                          .reasoning = reasoning_at(data[1] % (n_reasoning + 1)),
                          .tools = data[2] & 1 ? json_root(tools) : NULL,
                          .reasoning_is_open = data[2] & 2};
}

/* Two forms have marks that are neither text nor call: the header "all" and an end token. */
static bool drops(const CallForm *form) {
    return form && (strcmp(form->name, "gemma") == 0 || strcmp(form->name, "functionary") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) return 0;
    Error err;
    if (!tools) {
        tools = json_parse(tools_text, sizeof tools_text - 1, 0, &err);
        demand(tools != NULL);
        atexit(free_tools);
    }
    ReplyOptions o = choose(data);
    const char *answer = (const char *)data + 4;
    size_t n = size - 4;
    ReplyLog whole = {0}, cut = {0};
    run(&o, answer, n, 0, SIZE_MAX, &whole);
    run(&o, answer, n, data[3], 1 + (size_t)(data[2] >> 2), &cut);
    demand(whole.text.length == cut.text.length && whole.n_calls == cut.n_calls);
    if (whole.text.length) demand(memcmp(whole.text.data, cut.text.data, whole.text.length) == 0);
    if (whole.n_calls == 0 && !o.reasoning && !drops(o.calls) && n > 0) {
        demand(whole.text.length == n + 3);
        demand(memcmp(whole.text.data + 2, answer, n) == 0);
    }
    buffer_clear(&whole.text);
    buffer_clear(&cut.text);
    return 0;
}
