/* Names are what clients see of a model: the last part of the folder's path. With one model any name will do, since
 * many clients have one built in.
 *
 * Loading takes seconds, so a thread of its own does it, and unloading as well: one thing after the other, in the order
 * they were begun. States change on the loop only, when the loop takes what the thread has finished. */
#define _POSIX_C_SOURCE 200809L
#include "serve/models.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/clock.h"
#include "file/store.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { ROOM_TO_SPARE = 512 << 20 }; /* bytes beside the weights of a model that is loaded */

typedef struct Chore {
    ServedModel *model;
    bool load, ok, done;
    struct Chore *next;
} Chore;

struct Models {
    ModelsOptions options;
    ServedModel *items;
    int n;
    pthread_t keeper;
    bool started;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t wake;
    Chore *chores; /* in order; those at the front may be done */
    bool ending;
};

static char *last_part(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t first = n;
    while (first > 0 && path[first - 1] != '/') first--;
    return mem_string(path + first, n - first);
}

/* ---- opening and closing ---- */

static bool model_open(Models *models, ServedModel *m, Error *err) {
    LoadOptions o = *models->options.load;
    o.model = m->path;
    if (!loaded_open(&o, &m->loaded, err)) return false;
    if (m->loaded.chat_template) {
        if (!dialog_forms(NULL, NULL, m->loaded.chat_template, &m->forms, err)) return false;
        if (!m->forms.calls && !template_knows_tools(m->loaded.chat_template))
            m->forms.calls = call_form_find("hermes"); /* toolless.h */
        if (m->loaded.tokenizer && !dialog_kept_ids(m->loaded.tokenizer, &m->forms, &m->kept, err)) return false;
    }
    m->embedder = embedder_new(m->loaded.folder.data, m->loaded.model, m->loaded.tokenizer, &m->no_embedder);
    m->lane = engine_add_model(models->options.engine, &m->loaded, err);
    return m->lane != NULL;
}

static void model_close(Models *models, ServedModel *m) {
    if (m->lane) engine_remove_model(models->options.engine, m->lane);
    embedder_free(m->embedder);
    token_tree_free(m->tree);
    loaded_close(&m->loaded);
    id_list_clear(&m->kept);
    m->lane = NULL;
    m->embedder = NULL;
    m->tree = NULL;
}

/* ---- the keeper's thread ---- */

static void do_chore(Models *m, Chore *c) {
    c->ok = true;
    if (!c->load) {
        model_close(m, c->model);
        return;
    }
    c->ok = model_open(m, c->model, &c->model->failure);
    if (!c->ok) model_close(m, c->model);
}

/* The lock is held. */
static Chore *next_chore(const Models *m) {
    Chore *c = m->chores;
    while (c && c->done) c = c->next;
    return c;
}

static void *keeper_thread(void *argument) {
    Models *m = argument;
    pthread_mutex_lock(&m->lock);
    while (!m->ending) {
        Chore *c = next_chore(m);
        if (!c) {
            pthread_cond_wait(&m->wake, &m->lock);
            continue;
        }
        pthread_mutex_unlock(&m->lock);
        do_chore(m, c);
        pthread_mutex_lock(&m->lock);
        c->done = true;
        m->options.changed(m->options.context);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* False when out of memory: the state is then left as it was. */
static bool put_chore(Models *m, ServedModel *model, bool load) {
    Chore *c = mem_zeroed(1, sizeof *c), **last = &m->chores;
    if (!c) return false;
    *c = (Chore){.model = model, .load = load};
    model->last_used = clock_seconds();
    model->state = load ? MODEL_LOADING : MODEL_CLOSING;
    pthread_mutex_lock(&m->lock);
    while (*last) last = &(*last)->next;
    *last = c;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    return true;
}

ServedModel *models_take(Models *m) {
    pthread_mutex_lock(&m->lock);
    Chore *c = m->chores && m->chores->done ? m->chores : NULL;
    if (c) m->chores = c->next;
    pthread_mutex_unlock(&m->lock);
    if (!c) return NULL;
    ServedModel *model = c->model;
    model->state = c->load && c->ok ? MODEL_READY : MODEL_COLD;
    model->last_used = clock_seconds();
    if (c->load && !c->ok) log_warn("%s: %s", model->name, model->failure.text);
    if (!c->load) log_verbose("unloaded %s", model->name);
    mem_free(c);
    return model;
}

/* ---- room ---- */

/* Bytes of a checkpoint's tensors, which is about what it takes in memory; 0 when it can not be told. */
static size_t tensor_bytes(const char *path) {
    Buffer folder = {0}, file = {0};
    size_t bytes = 0;
    DIR *dir = store_resolve(path, &folder, NULL) ? opendir(buffer_string(&folder)) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat info;
        size_t n = strlen(entry->d_name);
        if (n < 12 || strcmp(entry->d_name + n - 12, ".safetensors") != 0) continue;
        buffer_reset(&file);
        buffer_printf(&file, "%s/%s", folder.data, entry->d_name);
        if (!file.failed && stat(file.data, &info) == 0) bytes += (size_t)info.st_size;
    }
    if (dir) closedir(dir);
    buffer_clear(&folder);
    buffer_clear(&file);
    return bytes;
}

static ServedModel *longest_unused(Models *m) {
    ServedModel *found = NULL;
    for (int i = 0; i < m->n; i++) {
        ServedModel *item = &m->items[i];
        if (item->state == MODEL_READY && atomic_load(&item->uses) == 0 &&
            (!found || item->last_used < found->last_used))
            found = item;
    }
    return found;
}

/* What is unloaded counts as free from now on, though it is a moment later. */
static void make_room(Models *m, size_t need) {
    size_t free_bytes = mem_available();
    ServedModel *victim;
    while (free_bytes < need + ROOM_TO_SPARE && (victim = longest_unused(m))) {
        free_bytes += tensor_bytes(victim->path);
        if (!put_chore(m, victim, false)) return;
    }
}

void models_load(Models *m, ServedModel *model) {
    if (model->state != MODEL_COLD) return;
    make_room(m, tensor_bytes(model->path));
    if (!put_chore(m, model, true)) error_memory(&model->failure, "loading a model");
}

void models_sweep(Models *m) {
    double now = clock_seconds();
    for (int i = 0; i < m->n; i++) {
        ServedModel *item = &m->items[i];
        if (atomic_load(&item->uses) > 0) item->last_used = now;
        bool may_go = item->state == MODEL_READY && m->options.keep_seconds > 0;
        if (may_go && now - item->last_used > m->options.keep_seconds) put_chore(m, item, false);
    }
}

void model_hold(ServedModel *m) {
    atomic_fetch_add(&m->uses, 1);
}

void model_release(ServedModel *m) {
    atomic_fetch_sub(&m->uses, 1);
}

/* ---- the list ---- */

static bool stat_in(const char *folder, const char *name, struct stat *info) {
    Buffer path = {0};
    buffer_printf(&path, "%s/%s", folder, name);
    bool there = !path.failed && stat(path.data, info) == 0;
    buffer_clear(&path);
    return there;
}

/* What a model is good for is told before it is loaded. What can not be told shows when it is. */
static void look_into(Models *m, ServedModel *item, const char *folder) {
    struct stat info;
    ChatTemplate *template = template_load(folder, NULL);
    Checkpoint *c = checkpoint_open(folder, NULL);
    ModelPurpose purpose = {.has_head = true};
    if (c) model_purpose(c, &m->options.load->options, &purpose, NULL);
    item->has_head = purpose.has_head;
    item->ranks = purpose.n_labels > 0;
    item->chats = item->has_head && template && !stat_in(folder, "modules.json", &info);
    if (stat_in(folder, "config.json", &info)) item->created = (int64_t)info.st_mtime;
    template_free(template);
    checkpoint_close(c);
}

/* That a path is there is known at the start, though the model is loaded later. */
static bool name_models(Models *m, Error *err) {
    for (; m->n < m->options.n; m->n++) {
        ServedModel *item = &m->items[m->n];
        const char *path = m->options.paths[m->n];
        Buffer folder = {0};
        if (!store_resolve(path, &folder, err)) return false;
        look_into(m, item, buffer_string(&folder));
        buffer_clear(&folder);
        item->name = last_part(path);
        item->path = mem_string(path, strlen(path));
        if (item->name && item->path) continue;
        m->n++;
        return error_memory(err, "a model's name");
    }
    return true;
}

static bool start_keeper(Models *m, Error *err) {
    m->started = pthread_create(&m->keeper, NULL, keeper_thread, m) == 0;
    return m->started || error_set(err, "no thread can be started to load models");
}

Models *models_new(const ModelsOptions *options, Error *err) {
    Models *m = mem_zeroed(1, sizeof *m);
    if (!m) {
        error_memory(err, "the models");
        return NULL;
    }
    m->options = *options;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, NULL);
    m->items = mem_zeroed((size_t)options->n, sizeof *m->items);
    bool ok = (m->items || error_memory(err, "the models")) && name_models(m, err) &&
              model_open(m, &m->items[0], err) && start_keeper(m, err);
    if (!ok) {
        models_free(m);
        return NULL;
    }
    m->items[0].state = MODEL_READY;
    m->items[0].last_used = clock_seconds();
    return m;
}

static void stop_keeper(Models *m) {
    if (!m->started) return;
    pthread_mutex_lock(&m->lock);
    m->ending = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->keeper, NULL);
}

void models_free(Models *m) {
    if (!m) return;
    stop_keeper(m);
    for (Chore *c; (c = m->chores);) {
        m->chores = c->next;
        mem_free(c);
    }
    for (int i = 0; m->items && i < m->n; i++) {
        model_close(m, &m->items[i]);
        mem_free(m->items[i].name);
        mem_free(m->items[i].path);
    }
    mem_free(m->items);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

ServedModel *models_find(Models *m, const char *name) {
    if (m->n == 1 || !name || !*name) return &m->items[0];
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->items[i].name, name) == 0 || strcmp(m->items[i].path, name) == 0) return &m->items[i];
    return NULL;
}

int models_count(const Models *m) {
    return m->n;
}

ServedModel *models_at(Models *m, int i) {
    return &m->items[i];
}

const TokenTree *model_token_tree(ServedModel *m, Error *err) {
    if (!m->loaded.tokenizer) {
        error_set(err, "the model '%s' has no tokenizer, which a grammar needs", m->name);
        return NULL;
    }
    if (!m->tree)
        m->tree = token_tree_new(m->loaded.tokenizer, model_vocab_size(m->loaded.model), m->kept.ids, m->kept.n, err);
    return m->tree;
}
