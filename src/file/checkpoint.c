/* A checkpoint folder opened as one thing: its configs as JSON trees, its tensors over all files as one hashed list.
 * Which files are part of it is decided here and only here: those the index names, else every model*.safetensors (the
 * rule of mlx-lm), sorted by name so that the order, and with it the hash, is the same everywhere. */
#define _GNU_SOURCE
#include "file/checkpoint.h"
#include "base/hash.h"
#include "base/memory.h"
#include "file/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct Checkpoint {
    char *folder;
    JsonDoc *config, *generation, *index;
    char **names; /* of the tensor files, without the folder; sorted */
    Safetensors **files;
    int n_files;
    const Tensor **tensors;
    int n;
    int32_t *slots; /* open addressing over tensor names: index + 1, 0 is free */
    uint32_t n_slots;
    uint64_t hash;
};

static bool path_join(Buffer *b, const char *folder, const char *name, Error *err) {
    buffer_reset(b);
    buffer_printf(b, "%s/%s", folder, name);
    return !b->failed || error_memory(err, "a path");
}

/* Reads folder/name as a JSON object; absent is an error only when wanted. */
static bool read_object(const Checkpoint *c, const char *name, bool wanted, JsonDoc **out, Error *err) {
    Buffer path = {0};
    struct stat st;
    bool ok = path_join(&path, c->folder, name, err);
    if (ok && stat(path.data, &st) != 0 && errno == ENOENT) {
        if (wanted) ok = error_set(err, "%s: not a checkpoint folder: it has no %s", c->folder, name);
    } else if (ok) {
        JsonDoc *doc = json_parse_file(path.data, 0, err);
        ok = doc && (json_root(doc)->type == JSON_OBJECT || error_set(err, "%s: is not a JSON object", path.data));
        if (ok)
            *out = doc;
        else
            json_free(doc);
    }
    buffer_clear(&path);
    return ok;
}

/* ---- which files ---- */

static bool add_name(Checkpoint *c, const char *name, Error *err) {
    for (int i = 0; i < c->n_files; i++)
        if (strcmp(c->names[i], name) == 0) return true;
    char **names = mem_resize(c->names, (size_t)c->n_files + 1, sizeof *names);
    if (!names) return error_memory(err, "the list of files");
    c->names = names;
    if (!(names[c->n_files] = mem_string(name, strlen(name)))) return error_memory(err, "the list of files");
    c->n_files++;
    return true;
}

static const JsonValue *weight_map(const Checkpoint *c) {
    return json_get(json_root(c->index), "weight_map");
}

static bool names_from_index(Checkpoint *c, Error *err) {
    const JsonValue *map = weight_map(c);
    if (!map || map->type != JSON_OBJECT)
        return error_set(err, "%s/model.safetensors.index.json: has no weight_map", c->folder);
    const char *last = "";
    for (uint32_t i = 0; i < map->length; i++) {
        const char *name = json_string(&map->members[i].value);
        if (!name || !*name || strchr(name, '/') || strlen(name) != map->members[i].value.length || *name == '.')
            return error_set(err, "%s/model.safetensors.index.json: tensor \"%.200s\" names no file of the folder",
                             c->folder, map->members[i].key);
        if (strcmp(name, last) != 0 && !add_name(c, name, err)) return false;
        last = name;
    }
    return true;
}

static bool is_model_file(const char *name) {
    size_t n = strlen(name);
    return n >= 17 && memcmp(name, "model", 5) == 0 && strcmp(name + n - 12, ".safetensors") == 0;
}

static bool names_from_folder(Checkpoint *c, Error *err) {
    DIR *dir = opendir(c->folder);
    if (!dir) return error_set(err, "%s: %s", c->folder, strerror(errno));
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(dir));)
        if (is_model_file(e->d_name)) ok = add_name(c, e->d_name, err);
    closedir(dir);
    return ok;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool open_files(Checkpoint *c, Error *err) {
    if (!read_object(c, "model.safetensors.index.json", false, &c->index, err)) return false;
    if (!(c->index ? names_from_index(c, err) : names_from_folder(c, err))) return false;
    if (c->n_files == 0)
        return error_set(err, "%s: has no weights: neither model.safetensors nor model.safetensors.index.json",
                         c->folder);
    qsort(c->names, (size_t)c->n_files, sizeof *c->names, by_name);
    c->files = mem_zeroed((size_t)c->n_files, sizeof *c->files);
    if (!c->files) return error_memory(err, "the list of files");
    Buffer path = {0};
    bool ok = true;
    for (int i = 0; ok && i < c->n_files; i++)
        ok = path_join(&path, c->folder, c->names[i], err) && (c->files[i] = safetensors_open(path.data, err));
    buffer_clear(&path);
    return ok;
}

/* ---- their tensors ---- */

static int32_t *slot_of(const Checkpoint *c, const char *name) {
    uint64_t h = hash_bytes(HASH_START, name, strlen(name));
    for (uint32_t i = (uint32_t)(h ^ h >> 32) & (c->n_slots - 1);; i = (i + 1) & (c->n_slots - 1))
        if (c->slots[i] == 0 || strcmp(c->tensors[c->slots[i] - 1]->name, name) == 0) return &c->slots[i];
}

static bool add_tensor(Checkpoint *c, const Tensor *t, Error *err) {
    int32_t *slot = slot_of(c, t->name);
    if (*slot)
        return error_set(err, "%s: tensor \"%.200s\" is also in %s", t->file, t->name, c->tensors[*slot - 1]->file);
    c->tensors[c->n++] = t;
    *slot = c->n;
    return true;
}

static bool collect_tensors(Checkpoint *c, Error *err) {
    uint64_t total = 0;
    for (int i = 0; i < c->n_files; i++) total += (uint64_t)safetensors_count(c->files[i]);
    if (total > INT32_MAX / 4) return error_set(err, "%s: has too many tensors", c->folder);
    for (c->n_slots = 16; c->n_slots < 2 * total;) c->n_slots *= 2;
    c->tensors = mem_array((size_t)total, sizeof *c->tensors);
    c->slots = mem_zeroed(c->n_slots, sizeof *c->slots);
    if (!c->tensors || !c->slots) return error_memory(err, "the list of tensors");
    for (int f = 0; f < c->n_files; f++)
        for (int i = 0; i < safetensors_count(c->files[f]); i++)
            if (!add_tensor(c, safetensors_tensor(c->files[f], i), err)) return false;
    return true;
}

static bool check_index(const Checkpoint *c, Error *err) {
    const JsonValue *map = c->index ? weight_map(c) : NULL;
    for (uint32_t i = 0; map && i < map->length; i++) {
        const char *name = map->members[i].key, *file = json_string(&map->members[i].value);
        const Tensor *t = checkpoint_find(c, name);
        if (!t || strcmp(strrchr(t->file, '/') + 1, file) != 0)
            return error_set(err, "%s/%s: has no tensor \"%.200s\", which model.safetensors.index.json says it has",
                             c->folder, file, name);
    }
    return true;
}

/* ---- the hash ---- */

static bool hash_checkpoint(Checkpoint *c, Error *err) {
    Buffer path = {0};
    Mapping config;
    bool ok = path_join(&path, c->folder, "config.json", err) && mapping_open(&config, path.data, err);
    buffer_clear(&path);
    if (!ok) return false;
    uint64_t h = hash_bytes(HASH_START, config.data, config.size);
    mapping_close(&config);
    for (int i = 0; i < c->n; i++) {
        const Tensor *t = c->tensors[i];
        h = hash_bytes(h, t->name, strlen(t->name) + 1);
        h = hash_bytes(h, dtype_name(t->dtype), strlen(dtype_name(t->dtype)) + 1);
        h = hash_bytes(h, t->shape, (size_t)t->n_dims * sizeof t->shape[0]);
    }
    for (int f = 0; f < c->n_files; f++) {
        uint64_t size = 0; /* tensors fill their file */
        for (int i = 0; i < safetensors_count(c->files[f]); i++) size += safetensors_tensor(c->files[f], i)->bytes;
        h = hash_bytes(h, &size, sizeof size);
    }
    c->hash = h;
    return true;
}

static bool folder_check(const char *folder, Error *err) {
    struct stat st;
    if (gguf_is_path(folder)) return gguf_import_hint(folder, err);
    if (stat(folder, &st) != 0) return error_set(err, "%s: %s", folder, strerror(errno));
    return S_ISDIR(st.st_mode) ||
           error_set(err, "%s: a checkpoint is a folder with config.json and weights, this is a file", folder);
}

Checkpoint *checkpoint_open(const char *folder, Error *err) {
    if (!folder_check(folder, err)) return NULL;
    Checkpoint *c = mem_zeroed(1, sizeof *c);
    if (!c || !(c->folder = mem_string(folder, strlen(folder)))) {
        error_memory(err, "opening a checkpoint");
        goto fail;
    }
    for (size_t n = strlen(folder); n > 1 && c->folder[n - 1] == '/';) c->folder[--n] = 0;
    if (!read_object(c, "config.json", true, &c->config, err) ||
        !read_object(c, "generation_config.json", false, &c->generation, err) || !open_files(c, err) ||
        !collect_tensors(c, err) || !check_index(c, err) || !hash_checkpoint(c, err))
        goto fail;
    return c;
fail:
    checkpoint_close(c);
    return NULL;
}

void checkpoint_close(Checkpoint *c) {
    if (!c) return;
    for (int i = 0; i < c->n_files; i++) {
        if (c->files) safetensors_close(c->files[i]);
        mem_free(c->names[i]);
    }
    mem_free(c->files);
    mem_free(c->names);
    mem_free(c->tensors);
    mem_free(c->slots);
    json_free(c->config);
    json_free(c->generation);
    json_free(c->index);
    mem_free(c->folder);
    mem_free(c);
}

const char *checkpoint_folder(const Checkpoint *c) {
    return c->folder;
}

const JsonValue *checkpoint_config(const Checkpoint *c) {
    return json_root(c->config);
}

const JsonValue *checkpoint_generation_config(const Checkpoint *c) {
    return c->generation ? json_root(c->generation) : NULL;
}

int checkpoint_count(const Checkpoint *c) {
    return c->n;
}

const Tensor *checkpoint_tensor(const Checkpoint *c, int i) {
    return c->tensors[i];
}

const Tensor *checkpoint_find(const Checkpoint *c, const char *name) {
    int32_t slot = *slot_of(c, name);
    return slot ? c->tensors[slot - 1] : NULL;
}

uint64_t checkpoint_hash(const Checkpoint *c) {
    return c->hash;
}
