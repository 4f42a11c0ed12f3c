/* A step answers one of three things: done, more text is needed, or this is no call. Each keeps how far it has looked,
 * so that a call of any length that comes byte by byte is read once; and each gives its answer at the first byte that
 * settles it, so that nothing is held back longer than it must be and the cutting of the stream can not matter. */
#define _GNU_SOURCE
#include "text/toolcall_steps.h"
#include "base/utf8.h"
#include "text/toolcall_schema.h"

#include <string.h>

enum { MAX_WORD = 256 };

typedef enum Answer { ANSWER_NEXT, ANSWER_MORE, ANSWER_BAD } Answer;

typedef struct Text {
    const char *text;
    size_t n;
    bool final;
    const JsonValue *tools;
} Text;

void steps_begin(StepRun *r, const Step *program) {
    Buffer key = r->key;
    CallList calls = r->calls;
    buffer_reset(&key);
    calls_reset(&calls);
    *r = (StepRun){.program = program, .key = key, .calls = calls};
}

void steps_clear(StepRun *r) {
    buffer_clear(&r->key);
    calls_clear(&r->calls);
    *r = (StepRun){0};
}

void steps_rebase(StepRun *r) {
    r->at = r->searched = 0;
}

/* ---- literals ---- */

typedef enum Follows { FOLLOWS_NOT, FOLLOWS_PART, FOLLOWS_WHOLE } Follows;

static Follows follows(const StepRun *r, Text t, const char *literal) {
    size_t n = strlen(literal), have = t.n - r->at < n ? t.n - r->at : n;
    if (memcmp(t.text + r->at, literal, have) != 0) return FOLLOWS_NOT;
    return have == n ? FOLLOWS_WHOLE : FOLLOWS_PART;
}

static Answer step_text(StepRun *r, Text t, const Step *s) {
    Follows f = follows(r, t, s->text);
    if (f == FOLLOWS_WHOLE) r->at += strlen(s->text);
    if (f == FOLLOWS_PART && t.final && s->op == STEP_CLOSE) {
        r->at = t.n;
        return ANSWER_NEXT;
    }
    return f == FOLLOWS_WHOLE ? ANSWER_NEXT : f == FOLLOWS_PART ? ANSWER_MORE : ANSWER_BAD;
}

static void go(StepRun *r, int label) {
    for (r->pc = 0; r->program[r->pc].op != STEP_LABEL || r->program[r->pc].to != label;) r->pc++;
}

static Answer step_if(StepRun *r, Text t, const Step *s) {
    Follows f = follows(r, t, s->text);
    if (f == FOLLOWS_PART && !t.final) return ANSWER_MORE;
    if (f == FOLLOWS_WHOLE) {
        r->at += strlen(s->text);
        if (s->to) go(r, s->to);
    }
    return ANSWER_NEXT;
}

static Answer step_peek(StepRun *r, Text t, const Step *s) {
    if (r->at == t.n) return t.final ? ANSWER_NEXT : ANSWER_MORE;
    char c = t.text[r->at];
    if (c && strchr(s->text, c)) go(r, s->to);
    return ANSWER_NEXT;
}

/* Takes nothing: what is no call shows itself at its first key, and not at its last brace. */
static Answer step_head(const StepRun *r, Text t, const Step *s) {
    const char *p = t.text + r->at, *end = t.text + t.n;
    for (const char *want = "{\""; *want; want++, p++) {
        while (p < end && *want == '"' && json_is_space(*p)) p++;
        if (p == end) return ANSWER_MORE;
        if (*p != *want) return ANSWER_BAD;
    }
    const char *word = s->text;
    while (word) {
        size_t n = strcspn(word, "|"), have = (size_t)(end - p) < n + 1 ? (size_t)(end - p) : n + 1;
        bool fits = memcmp(p, word, have < n ? have : n) == 0 && (have <= n || p[n] == '"');
        if (fits) return have == n + 1 ? ANSWER_NEXT : ANSWER_MORE;
        word = word[n] ? word + n + 1 : NULL;
    }
    return ANSWER_BAD;
}

static Answer step_space(StepRun *r, Text t) {
    while (r->at < t.n && json_is_space(t.text[r->at])) r->at++;
    return r->at == t.n && !t.final ? ANSWER_MORE : ANSWER_NEXT;
}

/* Where `literal` next stands at or after r->at; n when it does not yet. */
static size_t find(StepRun *r, Text t, const char *literal) {
    size_t n = strlen(literal), from = r->searched > r->at ? r->searched : r->at;
    const char *found = memmem(t.text + from, t.n - from, literal, n);
    if (found) return (size_t)(found - t.text);
    r->searched = t.n >= from + n ? t.n - n + 1 : from;
    return t.n;
}

static Answer step_past(StepRun *r, Text t, const Step *s) {
    size_t found = find(r, t, s->text);
    if (found < t.n && found - r->at <= MAX_WORD) {
        r->at = found + strlen(s->text);
        return ANSWER_NEXT;
    }
    return t.n - r->at > MAX_WORD + strlen(s->text) ? ANSWER_BAD : ANSWER_MORE;
}

/* ---- words ---- */

static Call *last_call(StepRun *r) {
    return r->calls.n > 0 ? &r->calls.items[r->calls.n - 1] : NULL;
}

static bool may_stand_in_name(char c) {
    return (unsigned char)c > 0x20 && c != 0x7F && !strchr("<>{}[]()\"'`,;=", c);
}

/* A name is one word; other words may be several. */
static bool may_stand(const Step *s, char c) {
    if (s->op == STEP_NAME || s->op == STEP_ID_NAME) return may_stand_in_name(c);
    return (unsigned char)c >= 0x20 && c != 0x7F;
}

static bool take_id_name(Call *call, const char *word, size_t n) {
    static const char prefix[] = "functions.";
    enum { PREFIX = sizeof prefix - 1 };
    buffer_append(&call->id, word, n);
    size_t from = n > PREFIX && memcmp(word, prefix, PREFIX) == 0 ? PREFIX : 0, to = n;
    while (to > from && word[to - 1] >= '0' && word[to - 1] <= '9') to--;
    to = to > from && word[to - 1] == ':' ? to - 1 : n;
    buffer_append(&call->name, word + from, to - from);
    return to > from;
}

static bool take_word(StepRun *r, const Step *s, const char *word, size_t n) {
    while (n > 0 && word[n - 1] == ' ') n--;
    while (n > 0 && *word == ' ') word++, n--;
    if (n == 0 || utf8_valid(word, n) < n) return false;
    if (s->op == STEP_KEY) {
        buffer_reset(&r->key);
        buffer_append(&r->key, word, n);
        return true;
    }
    if (s->op == STEP_TYPE) {
        r->string_type = (n == 4 && memcmp(word, "true", 4) == 0) || (n == 6 && memcmp(word, "string", 6) == 0);
        r->json_type = !r->string_type;
        return true;
    }
    Call *call = r->calls.n > 0 ? last_call(r) : calls_push(&r->calls);
    if (!call) return false;
    if (s->op == STEP_ID_NAME) return take_id_name(call, word, n);
    buffer_append(s->op == STEP_ID ? &call->id : &call->name, word, n);
    return true;
}

static Answer step_word(StepRun *r, Text t, const Step *s) {
    bool name = s->op == STEP_NAME || s->op == STEP_ID_NAME;
    size_t at = r->searched > r->at ? r->searched : r->at;
    for (; at < t.n; at++) {
        char c = t.text[at];
        if ((c && strchr(s->text, c)) || (name && json_is_space(c))) {
            if (!take_word(r, s, t.text + r->at, at - r->at)) return ANSWER_BAD;
            r->at = at;
            return ANSWER_NEXT;
        }
        if (!may_stand(s, c) || at - r->at == MAX_WORD) return ANSWER_BAD;
    }
    r->searched = at;
    return ANSWER_MORE;
}

/* ---- values and bodies ---- */

static void write_value(StepRun *r, Text t, Buffer *out, const char *name, size_t n_name, JsonSpan v) {
    Schema s = tool_schema(t.tools, name, n_name);
    if (r->string_type)
        json_write_string(out, v.text, v.length, false);
    else if (r->json_type)
        schema_write_json(v.text, v.length, out);
    else
        schema_write(schema_property(s, buffer_string(&r->key), r->key.length), v.text, v.length, out);
}

static Answer step_value(StepRun *r, Text t, const Step *s) {
    size_t found = find(r, t, s->text);
    if (found == t.n) return ANSWER_MORE;
    JsonSpan v = {t.text + r->at, found - r->at};
    Call *call = last_call(r);
    r->at = found + strlen(s->text);
    if (!call || utf8_valid(v.text, v.length) < v.length) return ANSWER_BAD;
    if (s->to && v.length > 0 && v.text[0] == '\n') v.text++, v.length--;
    if (s->to && v.length > 0 && v.text[v.length - 1] == '\n') v.length--;
    Buffer *out = &call->arguments;
    buffer_text(out, r->object ? ", " : "{");
    json_write_string(out, buffer_string(&r->key), r->key.length, false);
    buffer_text(out, ": ");
    write_value(r, t, out, buffer_string(&call->name), call->name.length, v);
    r->object = true;
    r->string_type = r->json_type = false;
    return ANSWER_NEXT;
}

static void note_failures(CallList *l) {
    for (size_t i = 0; i < l->n; i++)
        l->failed |= l->items[i].name.failed || l->items[i].id.failed || l->items[i].arguments.failed;
}

/* The text between two places of a step, given to its reader. */
static Answer read_body(StepRun *r, Text t, const Step *s, size_t from, size_t to) {
    bool ok = s->read(&r->calls, t.text + from, to - from, t.tools);
    note_failures(&r->calls); /* out of memory is not "no call" */
    return ok ? ANSWER_NEXT : ANSWER_BAD;
}

/* Looks from `searched` on, with `at` left where the value began. */
static Answer step_json(StepRun *r, Text t, const Step *s) {
    if (!r->begun) {
        if (r->at == t.n) return ANSWER_MORE;
        if (t.text[r->at] != '{' && t.text[r->at] != '[') return ANSWER_BAD;
        r->begun = true;
        r->scan = (JsonScan){0};
        r->searched = r->at;
    }
    ScanResult result = json_scan(&r->scan, t.text, t.n, &r->searched);
    if (result == SCAN_MORE) return ANSWER_MORE;
    size_t from = r->at;
    r->at = r->searched;
    return result == SCAN_BAD ? ANSWER_BAD : read_body(r, t, s, from, r->at);
}

/* One byte of [name(key='v')]: 1 when the outer bracket closes. */
static int feed_list(StepRun *r, char c) {
    if (r->quote) {
        if (r->escaped)
            r->escaped = false;
        else if (c == '\\')
            r->escaped = true;
        else if (c == r->quote)
            r->quote = 0;
    } else if (c == '"' || c == '\'') {
        r->quote = c;
    } else if (c == '[' || c == '(' || c == '{') {
        r->depth++;
    } else if (c == ']' || c == ')' || c == '}') {
        return --r->depth == 0;
    }
    return 0;
}

/* Before the first parenthesis there is a bracket and a name: what else begins with a bracket (a list, a link) shows
 * itself early. */
static bool may_stand_in_head(StepRun *r, size_t at, char c) {
    if (at == r->at) return c == '[';
    if (json_is_space(c)) return !r->begun;
    if (c == '(') return r->begun;
    r->begun = true;
    return may_stand_in_name(c) && at - r->at < MAX_WORD;
}

/* Looks from `searched` on, with `at` left where the list began. */
static Answer step_list(StepRun *r, Text t, const Step *s) {
    if (r->searched < r->at) r->searched = r->at;
    while (r->searched < t.n) {
        size_t at = r->searched++;
        char c = t.text[at];
        if (!r->past_head && !may_stand_in_head(r, at, c)) {
            r->at = at;
            return ANSWER_BAD;
        }
        r->past_head |= c == '(';
        if (!feed_list(r, c)) continue;
        size_t from = r->at;
        r->at = r->searched;
        return read_body(r, t, s, from, r->at);
    }
    return ANSWER_MORE;
}

static Answer step_body(StepRun *r, Text t, const Step *s) {
    size_t from = r->at, to = s->text ? find(r, t, s->text) : t.n;
    if (to == t.n && !t.final) return ANSWER_MORE;
    r->at = to < t.n ? to + strlen(s->text) : t.n;
    return read_body(r, t, s, from, to);
}

/* ---- the end of a call ---- */

static bool call_is_sound(StepRun *r, Text t, const Step *s) {
    Call *calls = r->calls.items;
    if (!calls || r->calls.n == 0) return false;
    if (r->object) buffer_byte(&calls[r->calls.n - 1].arguments, '}');
    r->object = false;
    for (size_t i = 0; i < r->calls.n; i++) {
        Call *call = &calls[i];
        if (call->arguments.length == 0) buffer_text(&call->arguments, "{}");
        if (s->to && t.tools && !tool_is_known(t.tools, buffer_string(&call->name), call->name.length)) return false;
    }
    note_failures(&r->calls);
    return true;
}

static Answer run_step(StepRun *r, Text t, const Step *s) {
    switch (s->op) {
    case STEP_TEXT:
    case STEP_CLOSE: return step_text(r, t, s);
    case STEP_IF: return step_if(r, t, s);
    case STEP_PEEK: return step_peek(r, t, s);
    case STEP_SPACE: return step_space(r, t);
    case STEP_GO: go(r, s->to); return ANSWER_NEXT;
    case STEP_HEAD: return step_head(r, t, s);
    case STEP_PAST: return step_past(r, t, s);
    case STEP_NAME:
    case STEP_ID:
    case STEP_ID_NAME:
    case STEP_KEY:
    case STEP_TYPE: return step_word(r, t, s);
    case STEP_VALUE: return step_value(r, t, s);
    case STEP_JSON: return step_json(r, t, s);
    case STEP_LIST: return step_list(r, t, s);
    case STEP_BODY: return step_body(r, t, s);
    case STEP_CALL: return call_is_sound(r, t, s) ? ANSWER_NEXT : ANSWER_BAD;
    case STEP_LABEL:
    case STEP_END:
    case STEP_DROP: break;
    }
    return ANSWER_NEXT;
}

StepResult steps_run(StepRun *r, const char *text, size_t n, bool final, const JsonValue *tools) {
    Text t = {text, n, final, tools};
    for (;;) {
        const Step *s = &r->program[r->pc];
        if (s->op == STEP_END) return STEPS_DONE;
        if (s->op == STEP_DROP) return STEPS_DROPPED;
        Answer a = run_step(r, t, s);
        if (a == ANSWER_MORE) return STEPS_MORE;
        if (a == ANSWER_BAD) return STEPS_BAD;
        r->pc++;
        r->begun = r->past_head = false;
        if (s->op == STEP_CALL) return STEPS_CALL;
    }
}
