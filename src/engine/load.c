/* Weights are laid out by the pool's threads and the tokenizer is parsed by one of its own meanwhile: both take a good
 * part of the start, and neither needs the other. */
#define _POSIX_C_SOURCE 200809L
#include "engine/load.h"
#include "base/log.h"
#include "engine/clock.h"
#include "file/store.h"
#include "math/kernels.h"

#include <pthread.h>
#include <unistd.h>

/* A tokenizer being read on the side. */
typedef struct Reading {
    const char *folder;
    Tokenizer *tokenizer;
    Error error;
    pthread_t thread;
    bool started;
} Reading;

static void *reading_work(void *argument) {
    Reading *r = argument;
    r->tokenizer = tokenizer_load(r->folder, &r->error);
    return NULL;
}

static bool has_file(const char *folder, const char *name) {
    Buffer path = {0};
    buffer_printf(&path, "%s/%s", folder, name);
    bool there = !path.failed && access(path.data, F_OK) == 0;
    buffer_clear(&path);
    return there;
}

static void reading_start(Reading *r, LoadNeed need, const char *folder) {
    if (need == LOAD_NOT || (need == LOAD_IF_THERE && !has_file(folder, "tokenizer.json"))) return;
    r->folder = folder;
    r->started = pthread_create(&r->thread, NULL, reading_work, r) == 0;
    if (!r->started) reading_work(r);
}

/* Waits, and hands the tokenizer over; true also when none was asked for. */
static bool reading_finish(Reading *r, Tokenizer **out, Error *err) {
    if (!r->folder) return true;
    if (r->started) pthread_join(r->thread, NULL);
    *out = r->tokenizer;
    return r->tokenizer || error_set(err, "%s", r->error.text);
}

static bool has_template(const char *folder) {
    return has_file(folder, "chat_template.jinja") || has_file(folder, "chat_template.json") ||
           has_file(folder, "tokenizer_config.json");
}

/* LOAD_IF_THERE: a model without a template is one to complete text with, and a folder may have a tokenizer_config.json
 * without one. So is a model whose template does not parse, but nobody expects that. */
static bool open_template(const LoadOptions *o, Loaded *l, Error *err) {
    if (o->chat_template == LOAD_NOT) return true;
    if (o->chat_template == LOAD_IF_THERE && !has_template(l->folder.data)) return true;
    Error why = {""};
    l->chat_template = template_load(l->folder.data, &why);
    if (l->chat_template) return true;
    if (o->chat_template == LOAD_NEEDED) return error_set(err, "%s", why.text);
    if (!template_is_absent(l->folder.data)) log_warn("%s", why.text);
    return true;
}

static bool open_model(const LoadOptions *o, Loaded *l, Error *err) {
    l->checkpoint = checkpoint_open(l->folder.data, err);
    if (!l->checkpoint) return false;
    l->pool = pool_new(o->threads > 0 ? o->threads : pool_cpus(), err);
    if (!l->pool) return false;
    l->model = model_load(l->checkpoint, &o->options, l->pool, err);
    return l->model != NULL;
}

bool loaded_open(const LoadOptions *o, Loaded *out, Error *err) {
    Loaded l = {.defaults = {.sampling = SAMPLING_GREEDY}};
    Reading reading = {0};
    double started = clock_seconds();
    if (!kernels_select(o->isa, err) || !store_resolve(o->model, &l.folder, err)) {
        loaded_close(&l);
        return false;
    }
    reading_start(&reading, o->tokenizer, l.folder.data);
    bool ok = open_template(o, &l, err) && open_model(o, &l, err);
    ok = reading_finish(&reading, &l.tokenizer, ok ? err : NULL) && ok;
    ok = ok && defaults_read(l.checkpoint, l.tokenizer, model_vocab_size(l.model), &l.defaults, err);
    if (!ok) {
        loaded_close(&l);
        return false;
    }
    l.seconds = clock_seconds() - started;
    *out = l;
    return true;
}

void loaded_close(Loaded *l) {
    defaults_clear(&l->defaults);
    template_free(l->chat_template);
    tokenizer_free(l->tokenizer);
    model_free(l->model);
    pool_free(l->pool);
    checkpoint_close(l->checkpoint);
    buffer_clear(&l->folder);
    *l = (Loaded){.defaults = {.sampling = SAMPLING_GREEDY}};
}
