/* The loop posts a piece of work, the engine's thread does it and rings, the loop posts the next. A client that leaves
 * in the middle of a piece is noticed by both, and whoever lets go last frees: so nothing waits for the other. */
#include "serve/vectors.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdio.h>

enum { PIECE_ROWS = 128 }; /* at most, of several texts; few enough that streams see no gap */

typedef struct Vectors {
    VectorsOptions o;
    Bell bell;
    float *out;
    int n_done;
    bool failed;
    Error error;
    pthread_mutex_t lock; /* over what follows */
    bool working, left;
} Vectors;

/* ---- texts ---- */

bool vector_texts_new(VectorTexts *t, const ServedModel *m, int n, ApiError *err) {
    Error why;
    if (!m->embedder) return api_refuse_error(err, 400, "model", &m->no_embedder);
    if (!embedder_needs_vectors(m->embedder, &why)) return api_refuse_error(err, 400, "model", &why);
    t->inputs = mem_zeroed((size_t)n, sizeof *t->inputs);
    t->most = n;
    return t->inputs || api_refuse(err, 500, NULL, "out of memory");
}

static bool add_ids(IdList *all, const Input *text, size_t *n, ApiError *err) {
    *n = text->ids.n;
    return id_list_append(all, text->ids.ids, text->ids.n) || api_refuse(err, 500, NULL, "out of memory");
}

static bool add_text(IdList *all, const ServedModel *m, const char *prompt, const Input *text, const char *name,
                     EmbedInput *in, size_t *n_whole, ApiError *err) {
    Error why = {""};
    if (text->n_text == 0) return api_refuse(err, 400, name, "'%s' is empty", name);
    return embedder_encode(m->embedder, prompt, text->text, text->n_text, all, &in->n_prompt, n_whole, &why) ||
           api_refuse_error(err, 400, name, &why);
}

bool vectors_refuse_length(ApiError *err, const char *name, size_t n, size_t most) {
    char what[96];
    snprintf(what, sizeof what, "'%s'", name);
    return api_refuse_length(err, name, what, n, most, "shorten it");
}

/* The list of ids may move as it grows, so places in it become pointers at the start. */
bool vector_texts_add(VectorTexts *t, const ServedModel *m, const char *prompt, const Input *text, const char *name,
                      ApiError *err) {
    EmbedInput *in = &t->inputs[t->n];
    size_t before = t->ids.n, n_whole = 0, most = (size_t)embedder_max_tokens(m->embedder);
    bool ok = text->text ? add_text(&t->ids, m, prompt, text, name, in, &n_whole, err)
                         : add_ids(&t->ids, text, &n_whole, err);
    if (!ok) return false;
    if (n_whole > most) return vectors_refuse_length(err, name, n_whole, most);
    in->n = (int)(t->ids.n - before);
    t->n++;
    return in->n > 0 || api_refuse(err, 400, name, "'%s' is empty", name);
}

const EmbedInput *vector_texts_inputs(VectorTexts *t) {
    const int32_t *at = t->ids.ids;
    for (int i = 0; i < t->n; i++) {
        t->inputs[i].ids = at;
        at += t->inputs[i].n;
    }
    return t->inputs;
}

void vector_texts_clear(VectorTexts *t) {
    id_list_clear(&t->ids);
    mem_free(t->inputs);
    *t = (VectorTexts){0};
}

/* ---- the work ---- */

static void vectors_free(Vectors *v) {
    server_forget(v->o.server, &v->bell);
    model_release(v->o.model);
    pthread_mutex_destroy(&v->lock);
    mem_free(v->out);
    mem_free(v);
}

/* How many texts the next piece has: at least one. */
static int piece_size(const Vectors *v) {
    const EmbedInput *inputs = v->o.inputs + v->n_done;
    int n = 1, rows = inputs[0].n;
    while (v->n_done + n < v->o.n && rows + inputs[n].n <= PIECE_ROWS) rows += inputs[n++].n;
    return n;
}

/* On the engine's thread. */
static void work(void *context) {
    Vectors *v = context;
    Embedder *e = v->o.model->embedder;
    int n = piece_size(v);
    float *out = v->out + (size_t)v->n_done * (size_t)embedder_size(e);
    bool ok = embedder_run(e, v->o.inputs + v->n_done, n, out, NULL, NULL, &v->error);
    pthread_mutex_lock(&v->lock);
    v->failed = !ok;
    v->n_done += n;
    v->working = false;
    bool left = v->left;
    if (!left) server_ring(&v->bell);
    pthread_mutex_unlock(&v->lock);
    if (!left) return;
    v->o.left(v->o.context);
    vectors_free(v);
}

static void on_left(void *context) {
    Vectors *v = context;
    pthread_mutex_lock(&v->lock);
    v->left = true;
    bool working = v->working;
    pthread_mutex_unlock(&v->lock);
    if (working) return;
    v->o.left(v->o.context);
    vectors_free(v);
}

static void post(Vectors *v) {
    v->working = true;
    if (engine_post(server_engine(v->o.server), work, v)) return;
    v->working = false;
    v->failed = true;
    error_memory(&v->error, "the vectors");
    server_ring(&v->bell);
}

/* The lock is taken so that whoever rang has let go of it. */
static void on_bell(void *context) {
    Vectors *v = context;
    pthread_mutex_lock(&v->lock);
    bool goes_on = !v->failed && v->n_done < v->o.n;
    pthread_mutex_unlock(&v->lock);
    if (goes_on) {
        post(v);
        return;
    }
    exchange_on_leave(v->o.exchange, NULL, NULL);
    if (v->failed)
        v->o.fail(v->o.context, v->error.text);
    else
        v->o.done(v->o.context, v->out);
    vectors_free(v);
}

bool vectors_start(const VectorsOptions *o, ApiError *err) {
    Vectors *v = mem_zeroed(1, sizeof *v);
    size_t size = (size_t)embedder_size(o->model->embedder);
    float *out = mem_array((size_t)o->n, size * sizeof *out);
    if (!v || !out) {
        mem_free(v);
        mem_free(out);
        return api_refuse(err, 500, NULL, "out of memory");
    }
    *v = (Vectors){.o = *o, .out = out};
    model_hold(o->model);
    v->bell = (Bell){.server = o->server, .answer = on_bell, .context = v};
    pthread_mutex_init(&v->lock, NULL);
    exchange_on_leave(o->exchange, on_left, v);
    post(v);
    return true;
}
