/* Names are what clients see of a model: the last part of the folder's path. With one model any name will do, since
 * many clients have one built in. */
#define _POSIX_C_SOURCE 200809L
#include "serve/models.h"
#include "base/memory.h"

#include <string.h>
#include <time.h>

struct Models {
    Engine *engine;
    ServedModel *items;
    char **paths; /* as they were given */
    int n;
};

static char *last_part(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t first = n;
    while (first > 0 && path[first - 1] != '/') first--;
    return mem_string(path + first, n - first);
}

static bool model_open(Models *models, ServedModel *m, const char *path, const LoadOptions *load, Error *err) {
    LoadOptions o = *load;
    o.model = path;
    if (!(m->name = last_part(path))) return error_memory(err, "a model's name");
    if (!loaded_open(&o, &m->loaded, err)) return false;
    m->created = (int64_t)time(NULL);
    if (m->loaded.chat_template) {
        if (!dialog_forms(NULL, NULL, m->loaded.chat_template, &m->forms, err)) return false;
        if (m->loaded.tokenizer && !dialog_kept_ids(m->loaded.tokenizer, &m->forms, &m->kept, err)) return false;
    }
    m->embedder = embedder_new(m->loaded.folder.data, m->loaded.model, m->loaded.tokenizer, &m->no_embedder);
    m->lane = engine_add_model(models->engine, &m->loaded, err);
    return m->lane != NULL;
}

static void model_close(Models *models, ServedModel *m) {
    if (m->lane) engine_remove_model(models->engine, m->lane);
    embedder_free(m->embedder);
    token_tree_free(m->tree);
    loaded_close(&m->loaded);
    id_list_clear(&m->kept);
    mem_free(m->name);
}

Models *models_new(Engine *engine, const char *const *paths, int n, const LoadOptions *load, Error *err) {
    Models *m = mem_zeroed(1, sizeof *m);
    if (m) *m = (Models){engine, mem_zeroed((size_t)n, sizeof *m->items), mem_zeroed((size_t)n, sizeof *m->paths), 0};
    if (!m || !m->items || !m->paths) {
        error_memory(err, "the models");
        models_free(m);
        return NULL;
    }
    for (; m->n < n; m->n++) {
        ServedModel *item = &m->items[m->n];
        m->paths[m->n] = mem_string(paths[m->n], strlen(paths[m->n]));
        if (m->paths[m->n] && model_open(m, item, paths[m->n], load, err)) continue;
        model_close(m, item);
        mem_free(m->paths[m->n]);
        models_free(m);
        return NULL;
    }
    return m;
}

void models_free(Models *m) {
    if (!m) return;
    for (int i = 0; i < m->n; i++) {
        model_close(m, &m->items[i]);
        mem_free(m->paths[i]);
    }
    mem_free(m->items);
    mem_free(m->paths);
    mem_free(m);
}

ServedModel *models_find(Models *m, const char *name) {
    if (m->n == 1 || !name || !*name) return &m->items[0];
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->items[i].name, name) == 0 || strcmp(m->paths[i], name) == 0) return &m->items[i];
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
