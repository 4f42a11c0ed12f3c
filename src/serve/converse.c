/* Nothing is repaired silently here: a template that fails, a choice of tools that can not be kept, a prompt that is
 * too long are all refused with the reason. */
#include "serve/converse.h"
#include "base/memory.h"
#include "serve/messages.h"
#include "serve/shape.h"
#include "serve/toolless.h"
#include "text/fim.h"
#include "text/toolcall_force.h"

#include <string.h>

enum { MAX_STOPS = 64 };

int64_t converse_limit(FieldInt a, FieldInt b) {
    if (a.set && b.set) return a.value < b.value ? a.value : b.value;
    return a.set ? a.value : b.set ? b.value : -1;
}

static void write_pair(Buffer *out, const char *key, const char *value) {
    buffer_printf(out, "%s\"%s\": %s", out->length > 1 ? ", " : "", key, value);
}

/* The template's variables beyond messages and tools, in one object: those of the protocol, then those the client
 * names. */
static bool make_more(Converse *c, bool prefill, ApiError *err) {
    const JsonValue *kwargs = c->fields.chat_template_kwargs;
    Buffer out = {0};
    Error why = {""};
    buffer_byte(&out, '{');
    if (prefill) write_pair(&out, "continue_final_message", "true");
    if (c->fixed_thinking) write_pair(&out, "enable_thinking", c->thinks ? "true" : "false");
    if (c->fields.reasoning_effort) {
        buffer_text(&out, out.length > 1 ? ", " : "");
        api_write_text(&out, "reasoning_effort", c->fields.reasoning_effort, strlen(c->fields.reasoning_effort));
    }
    if (c->fields.documents) {
        buffer_text(&out, out.length > 1 ? ", \"documents\": " : "\"documents\": ");
        json_write(&out, c->fields.documents, NULL);
    }
    for (uint32_t i = 0; kwargs && i < kwargs->length; i++) {
        buffer_text(&out, out.length > 1 ? ", " : "");
        json_write_string(&out, kwargs->members[i].key, kwargs->members[i].key_length, false);
        buffer_text(&out, ": ");
        json_write(&out, &kwargs->members[i].value, NULL);
    }
    buffer_byte(&out, '}');
    if (!out.failed) c->more = json_parse(out.data, out.length, 0, &why);
    buffer_clear(&out);
    return c->more || api_refuse(err, 500, NULL, "%s", why.text[0] ? why.text : "out of memory");
}

static bool render(Converse *c, const JsonValue *messages, const JsonValue *tools, ApiError *err) {
    TemplateInput in = {
        .messages = messages, .tools = tools, .more = json_root(c->more), .generation_prompt = c->opens};
    Error why = {""};
    json_free(c->variables);
    c->variables = dialog_variables(&in, &why);
    if (!c->variables) return api_refuse_error(err, 500, NULL, &why);
    return dialog_ids(&c->model->loaded, json_root(c->variables), &c->how, &c->ids, &why) ||
           api_refuse_error(err, 400, "messages", &why);
}

/* Whether the prompt leaves room for the answer that is asked for. */
static bool has_room(const Converse *c) {
    int64_t room = model_context(c->model->loaded.model) - (int64_t)c->ids.n;
    return room >= (c->max_tokens > 0 ? c->max_tokens : 1);
}

/* Some templates refuse a system's message. Without tools the template has its way with the history, too; so it has
 * where the grammar holds the answer to the calls anyhow, and their description would leave no room for them. */
static bool render_toolless(Converse *c, const JsonValue *messages, ApiError *err) {
    bool ok = false, told = true;
    for (int in_system = 1; !ok && told && in_system >= 0; in_system--) {
        JsonDoc *doc = toolless_messages(messages, c->tools, in_system, err);
        told = doc != NULL;
        ok = told && render(c, json_root(doc), NULL, err);
        json_free(doc);
    }
    if (!ok || !c->must_call || has_room(c)) return ok;
    c->ids.n = 0;
    return render(c, messages, NULL, err);
}

static bool refuse_chat(const ServedModel *m, ApiError *err) {
    Error why;
    if (!model_needs_head(m->loaded.model, &why)) return api_refuse_error(err, 400, "model", &why);
    return api_refuse(err, 400, "model", "the model '%s' has no chat template: use /v1/completions", m->name);
}

bool converse_prompt(Converse *c, ApiError *err) {
    const Loaded *loaded = &c->model->loaded;
    size_t n;
    if (!loaded->chat_template || !loaded->tokenizer) return refuse_chat(c->model, err);
    if (!(c->for_template = messages_for_template(c->messages, loaded->chat_template, err))) return false;
    const JsonValue *messages = json_root(c->for_template);
    bool asked = c->fields.add_generation_prompt.set && c->fields.add_generation_prompt.value;
    bool prefill = c->fields.continue_final_message.set ? c->fields.continue_final_message.value
                                                        : !asked && messages_prefill(messages, &n) != NULL;
    if (!make_more(c, prefill, err)) return false;
    c->opens = c->fields.add_generation_prompt.set ? asked : !prefill;
    c->how = c->model->forms;
    c->how.tools = c->tools;
    if (!c->tools) c->how.calls = NULL;
    bool toolless = c->tools && !template_knows_tools(loaded->chat_template);
    return toolless ? render_toolless(c, messages, err) : render(c, messages, c->tools, err);
}

bool converse_settings(Converse *c, ApiError *err) {
    const Loaded *loaded = &c->model->loaded;
    const Defaults *d = &loaded->defaults;
    Request *r = &c->request;
    if (!fields_sampling(&c->fields, &d->sampling, model_vocab_size(loaded->model), &r->sampling, &c->bias, err) ||
        !fields_stops(c->fields.stop, c->stops_name ? c->stops_name : "stop", MAX_STOPS, &c->stops, &r->n_stops, err))
        return false;
    r->stops = c->stops;
    r->max_tokens = (int)c->max_tokens;
    r->min_tokens = c->fields.min_tokens.set ? (int)c->fields.min_tokens.value : 0;
    r->sampling.suppressed = d->suppressed.ids;
    r->sampling.n_suppressed = (int)d->suppressed.n;
    if (c->fields.ignore_eos.value) return true;
    r->end_ids = d->end_ids.ids;
    r->n_end_ids = (int)d->end_ids.n;
    return true;
}

/* Whatever the template makes of it: the client wants no thoughts. */
static bool thinking_is_off(const Converse *c) {
    const JsonValue *kwargs = c->fields.chat_template_kwargs;
    const char *effort = c->fields.reasoning_effort;
    bool thinks = c->fixed_thinking ? c->thinks : !effort || strcmp(effort, "none") != 0;
    json_bool(json_get(kwargs, "enable_thinking"), &thinks);
    json_bool(json_get(kwargs, "thinking"), &thinks);
    return !thinks;
}

/* The form that an answer must have begins after its reasoning, if there is any: opened by the prompt, or by the model
 * where an answer of its own begins. */
static bool put_after_reasoning(Converse *c, ApiError *err) {
    Request *r = &c->request;
    const char *mark = reasoning_mark(c->how.reasoning, MARK_CLOSE);
    bool may_open = c->opens && !c->how.reasoning_is_closed && !thinking_is_off(c);
    Error why = {""};
    if (!mark || (!c->grammar && c->thinking_budget == 0)) return true;
    if (!c->how.reasoning_is_open && !may_open) return true;
    r->reasoning_close = mark;
    if (!c->how.reasoning_is_open) r->reasoning_open = reasoning_mark(c->how.reasoning, MARK_OPEN);
    if (c->thinking_budget == 0) return true;
    if (!tokenizer_encode(c->model->loaded.tokenizer, mark, strlen(mark), 0, &c->closing, &why))
        return api_refuse_error(err, 500, NULL, &why);
    r->forced = c->closing.ids;
    r->n_forced = (int)c->closing.n;
    r->budget = c->thinking_budget;
    return true;
}

bool converse_shape(Converse *c, ApiError *err) {
    Request *r = &c->request;
    if (c->fields.thinking_budget.set) c->thinking_budget = (int)c->fields.thinking_budget.value;
    Error why = {""};
    if (!shape_grammar(&c->fields, &c->grammar, err)) return false;
    if (c->must_call) {
        grammar_free(c->grammar); /* the calls are the answer */
        c->grammar = call_grammar(c->how.calls, c->tools, c->must_name, !c->one_call, &c->how.calls, &why);
        if (!c->grammar) return api_refuse_error(err, 400, c->must_name ? "tool_choice" : "tools", &why);
    } else if (c->grammar && c->how.calls) {
        c->grammar = call_grammar_beside(c->grammar, c->how.calls, c->tools, !c->one_call, &why);
        if (!c->grammar) return api_refuse_error(err, 400, "tools", &why);
    }
    if (c->grammar && !(c->grammar = reasoning_frame(c->how.reasoning, c->grammar, &why)))
        return api_refuse_error(err, 400, NULL, &why);
    r->grammar = c->grammar;
    if (c->grammar && !(r->tree = model_token_tree(c->model, &why))) return api_refuse_error(err, 500, NULL, &why);
    if (c->grammar && !grammar_can_begin(c->grammar, r->tree, &why)) return api_refuse_error(err, 400, NULL, &why);
    return put_after_reasoning(c, err);
}

bool converse_has_suffix(const Converse *c) {
    return c->fields.suffix && *c->fields.suffix;
}

bool converse_infill(Converse *c, Inputs *prompts, ApiError *err) {
    const char *suffix = c->fields.suffix;
    const Tokenizer *t = c->model->loaded.tokenizer;
    const FimForm *form = t ? fim_form_of(t) : NULL;
    Request *r = &c->request;
    Error why = {""};
    if (!form)
        return api_refuse(err, 400, "suffix",
                          "the model '%s' has no tokens for filling in the middle: leave 'suffix' away",
                          c->model->name);
    for (int i = 0; i < prompts->n; i++) {
        Input *p = &prompts->items[i];
        if (!p->text) return api_refuse(err, 400, "prompt", "with 'suffix' the prompt must be a text");
        if (!fim_encode(form, t, p->text, p->n_text, suffix, strlen(suffix), &p->ids, &why))
            return api_refuse_error(err, 400, "prompt", &why);
    }
    if (c->fields.ignore_eos.value) return true;
    if (!id_list_append(&c->end_ids, r->end_ids, (size_t)r->n_end_ids) || !fim_end_ids(form, t, &c->end_ids))
        return api_refuse(err, 500, NULL, "out of memory");
    r->end_ids = c->end_ids.ids;
    r->n_end_ids = (int)c->end_ids.n;
    return true;
}

bool converse_prepare(Converse *c, ApiError *err) {
    Request *r = &c->request;
    if (!converse_settings(c, err) || !converse_prompt(c, err) || !converse_shape(c, err)) return false;
    r->prompt = c->ids.ids;
    r->n_prompt = (int)c->ids.n;
    r->kept_ids = c->model->kept.ids;
    r->n_kept_ids = (int)c->model->kept.n;
    return true;
}

bool converse_start(Converse *c, Server *s, Exchange *x, const AskWriter *writer, void *context, Ask **out,
                    ApiError *err) {
    AskOptions o = {.server = s,
                    .model = c->model,
                    .exchange = x,
                    .requests = &c->request,
                    .n_requests = 1,
                    .n_choices = c->n_choices,
                    .how = &c->how,
                    .writer = writer,
                    .context = context};
    return ask_start(&o, out, err);
}

void converse_clear(Converse *c) {
    json_free(c->for_template);
    json_free(c->more);
    json_free(c->variables);
    id_list_clear(&c->ids);
    mem_free(c->bias);
    mem_free(c->stops);
    grammar_free(c->grammar);
    id_list_clear(&c->closing);
    id_list_clear(&c->end_ids);
    *c = (Converse){0};
}
