/* The engine's thread rings when there are events; the loop then takes them all. A client that does not take what was
 * sent has its events left where they are, which in time stops its sequence and nobody else's. */
#include "serve/ask.h"
#include "base/memory.h"

#include <string.h>

enum { MOST_UNSENT = 1 << 20, LOOK_AGAIN_MILLISECONDS = 20, SILENCE_SECONDS = 10 };

typedef struct Choice {
    Reply *reply;             /* NULL: the text as it is */
    int stop;                 /* as of its end */
    int n_tokens, n_thoughts; /* of the tokens those that are reasoning */
    bool thinks;              /* the text now is */
    bool cut;
} Choice;

struct Ask {
    Server *server;
    ServedModel *model;
    Exchange *exchange;
    Job **jobs; /* one for each prompt */
    int n_jobs;
    const AskWriter *writer;
    void *context;
    Bell bell;
    struct event *again, *silence;
    Choice *choices;
    int n_choices, n_ended; /* of all prompts */
    int choice;             /* whose text is being taken apart */
};

static void ask_free(Ask *a) {
    for (int i = 0; i < a->n_jobs; i++) job_release(a->jobs[i]);
    mem_free(a->jobs);
    server_forget(a->server, &a->bell);
    if (a->again) event_free(a->again);
    if (a->silence) event_free(a->silence);
    for (int i = 0; i < a->n_choices && a->choices; i++) reply_free(a->choices[i].reply);
    mem_free(a->choices);
    model_release(a->model);
    mem_free(a);
}

static void note_sound(Ask *a) {
    struct timeval silence = {SILENCE_SECONDS, 0};
    if (a->writer->idle) event_add(a->silence, &silence);
}

static bool take_part(void *context, const ReplyEvent *event, Error *err) {
    Ask *a = context;
    Choice *c = &a->choices[a->choice];
    (void)err;
    if (c->cut) return true;
    bool thinks = event->part == REPLY_REASONING; /* the last token was counted as what came before it */
    c->n_thoughts += thinks - c->thinks;
    c->thinks = thinks;
    if (a->writer->part) a->writer->part(a->context, a->choice, event);
    return true;
}

static bool take_text(Ask *a, int choice, const JobEvent *e, Error *err) {
    Choice *c = &a->choices[choice];
    a->choice = choice;
    if (c->reply) return e->n_text == 0 || reply_push(c->reply, e->text, e->n_text, err);
    ReplyEvent part = {.part = REPLY_TEXT, .text = e->text, .length = e->n_text};
    return e->n_text == 0 || take_part(a, &part, err);
}

static bool take_event(Ask *a, int choice, const JobEvent *e, Error *err) {
    Choice *c = &a->choices[choice];
    FinishReason finish = c->cut && e->finish != FINISH_NONE ? FINISH_STOP : e->finish;
    if (finish == FINISH_FAILED || finish == FINISH_CANCELLED)
        return error_set(err, "%s", e->error ? e->error : "the server is stopping");
    if (e->id >= 0 && !c->cut) {
        c->n_tokens++;
        c->n_thoughts += c->thinks;
        if (a->writer->token) a->writer->token(a->context, choice, e);
    }
    if (!e->text) return error_memory(err, "the answer");
    if (!take_text(a, choice, e, err)) return false;
    if (finish == FINISH_NONE) return true;
    if (c->reply && !reply_finish(c->reply, err)) return false;
    a->n_ended++;
    c->stop = c->cut ? -1 : e->stop;
    if (a->writer->end) a->writer->end(a->context, choice, finish, c->reply ? reply_calls(c->reply) : 0);
    return true;
}

/* All events of one prompt that are there. */
static bool take_events(Ask *a, int number, Error *err) {
    JobEvent *events;
    bool ok = true;
    int first = number * job_choices(a->jobs[number]);
    size_t n = job_take(a->jobs[number], &events);
    if (n > 0) note_sound(a);
    for (size_t i = 0; i < n && ok; i++) ok = take_event(a, first + events[i].choice, &events[i], err);
    job_events_clear(events, n);
    return ok;
}

/* Nobody may touch the ask after a writer's done or fail but to free it. */
static void ask_look(void *context) {
    Ask *a = context;
    Error err = {""};
    bool ok = true;
    if (exchange_unsent(a->exchange) > MOST_UNSENT) {
        struct timeval soon = {0, LOOK_AGAIN_MILLISECONDS * 1000};
        event_add(a->again, &soon);
        return;
    }
    for (int i = 0; i < a->n_jobs && ok; i++) ok = take_events(a, i, &err);
    if (ok && a->n_ended < a->n_choices) return;
    exchange_on_leave(a->exchange, NULL, NULL);
    for (int i = 0; i < a->n_jobs && ok; i++)
        metrics_note_answer(server_metrics(a->server), job_usage(a->jobs[i]), job_choices(a->jobs[i]));
    if (ok)
        a->writer->done(a->context);
    else
        a->writer->fail(a->context, err.text);
    ask_free(a);
}

static void on_again(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ask_look(argument);
}

static void on_silence(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Ask *a = argument;
    a->writer->idle(a->context);
    note_sound(a);
}

static void on_left(void *context) {
    Ask *a = context;
    a->writer->left(a->context);
    ask_free(a);
}

static bool make_choices(Ask *a, const AskOptions *o, Error *err) {
    a->n_choices = o->n_requests * o->n_choices;
    a->choices = mem_zeroed((size_t)a->n_choices, sizeof *a->choices);
    a->jobs = mem_zeroed((size_t)o->n_requests, sizeof *a->jobs);
    if (!a->choices || !a->jobs) return error_memory(err, "the answer");
    for (int i = 0; o->how && i < a->n_choices; i++) {
        if (!(a->choices[i].reply = reply_new(o->how, take_part, a, err))) return false;
        a->choices[i].thinks = o->how->reasoning && o->how->reasoning_is_open;
    }
    for (; a->n_jobs < o->n_requests; a->n_jobs++)
        if (!(a->jobs[a->n_jobs] = job_new(&o->requests[a->n_jobs], o->n_choices, server_ring, &a->bell, err)))
            return false;
    a->again = event_new(server_base(o->server), -1, 0, on_again, a);
    a->silence = event_new(server_base(o->server), -1, 0, on_silence, a);
    return (a->again && a->silence) || error_memory(err, "the answer");
}

static bool refuse_length(int n, const Model *m, ApiError *err) {
    int most = model_context(m);
    const char *advice = most < model_max_context(m) ? "shorten the prompt or raise --ctx" : "shorten the prompt";
    return api_refuse_length(err, NULL, "the prompt", (size_t)n, (size_t)most, advice);
}

static bool submit(Ask *a, const AskOptions *o, ApiError *err) {
    Error why = {""};
    switch (engine_submit(server_engine(o->server), o->model->lane, a->jobs, a->n_jobs, &why)) {
    case ENGINE_TAKEN: return true;
    case ENGINE_FULL: return api_refuse_error(err, 503, NULL, &why);
    default: break;
    }
    api_refuse_error(err, 400, NULL, &why);
    int most = model_context(o->model->loaded.model);
    for (int i = 0; i < a->n_jobs; i++)
        if (o->requests[i].n_prompt > most) return refuse_length(o->requests[i].n_prompt, o->model->loaded.model, err);
    return false;
}

bool ask_start(const AskOptions *o, Ask **out, ApiError *err) {
    Error why = {""};
    Ask *a = mem_zeroed(1, sizeof *a);
    if (!a) return api_refuse(err, 500, NULL, "out of memory");
    *a = (Ask){
        .server = o->server, .model = o->model, .exchange = o->exchange, .writer = o->writer, .context = o->context};
    model_hold(a->model);
    a->bell = (Bell){.server = o->server, .answer = ask_look, .context = a};
    bool ok = make_choices(a, o, &why) || api_refuse_error(err, 500, NULL, &why);
    if (!ok || !submit(a, o, err)) {
        ask_free(a);
        return false;
    }
    exchange_on_leave(a->exchange, on_left, a);
    note_sound(a);
    *out = a;
    return true;
}

static double longer(double a, double b) {
    return a > b ? a : b;
}

JobUsage ask_usage(const Ask *a) {
    JobUsage all = {0};
    for (int i = 0; i < a->n_jobs; i++) {
        JobUsage one = job_usage(a->jobs[i]);
        all.n_prompt += one.n_prompt;
        all.n_cached += one.n_cached;
        all.queued_seconds = longer(all.queued_seconds, one.queued_seconds);
        all.first_token_seconds = longer(all.first_token_seconds, one.first_token_seconds);
        all.seconds = longer(all.seconds, one.seconds);
    }
    for (int i = 0; i < a->n_choices; i++) all.n_answer += a->choices[i].n_tokens;
    return all;
}

int ask_thoughts(const Ask *a) {
    int n = 0;
    for (int i = 0; i < a->n_choices; i++) n += a->choices[i].n_thoughts;
    return n;
}

int ask_stop(const Ask *a, int choice) {
    return a->choices[choice].stop;
}

void ask_cut(Ask *a, int choice) {
    int per_job = a->n_choices / a->n_jobs;
    a->choices[choice].cut = true;
    job_cancel_choice(a->jobs[choice / per_job], choice % per_job);
}

const TokenScore *ask_prompt_scores(const Ask *a, int request, size_t *n) {
    return job_prompt_scores(a->jobs[request], n);
}
