/* Finding and opening goldens. */
#define _GNU_SOURCE
#include "support/golden.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

static int list_layout(const char *layout, char folders[GOLDEN_MAX][256], int n) {
    char path[256];
    snprintf(path, sizeof path, "tests/goldens/%s", layout);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) && n < GOLDEN_MAX;) {
        if (e->d_name[0] == '.' || strstr(e->d_name, ".py")) continue;
        snprintf(folders[n++], 256, "tests/goldens/%s/%.100s", layout, e->d_name);
    }
    if (dir) closedir(dir);
    return n;
}

static char **chosen;
static int n_chosen;

void golden_choose(int argc, char **argv) {
    chosen = argv + 1;
    n_chosen = argc - 1;
}

static bool ends_in(const char *path, const char *word) {
    size_t n = strlen(path), m = strlen(word);
    return m <= n && strcmp(path + n - m, word) == 0;
}

static int choose(char folders[GOLDEN_MAX][256], int n) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n_chosen; j++)
            if (ends_in(folders[i], chosen[j])) {
                memmove(folders[kept++], folders[i], 256);
                break;
            }
    for (int j = 0; j < n_chosen && kept < GOLDEN_MAX; j++)
        if (chosen[j][0] == '/') snprintf(folders[kept++], 256, "%s", chosen[j]);
    return kept;
}

static int finish_list(char folders[GOLDEN_MAX][256], int n) {
    if (n == 0) fail_msg("no goldens: run the tests from the root of the source tree");
    if (n_chosen > 0) n = choose(folders, n);
    qsort(folders, (size_t)n, sizeof folders[0], compare_names);
    return n;
}

int golden_list(char folders[GOLDEN_MAX][256]) {
    int n = list_layout("mlx", folders, 0);
    n = list_layout("hf", folders, n);
    n = list_layout("mlx-quant", folders, n);
    n = list_layout("hf-quant", folders, n);
    return finish_list(folders, n);
}

int golden_list_embed(char folders[GOLDEN_MAX][256]) {
    return finish_list(folders, list_layout("embed", folders, 0));
}

int golden_list_rerank(char folders[GOLDEN_MAX][256]) {
    return finish_list(folders, list_layout("rerank", folders, 0));
}

void golden_open(Golden *g, const char *folder, KvFormat kv, int threads) {
    char path[300];
    Error err = {""};
    memset(g, 0, sizeof *g);
    snprintf(g->folder, sizeof g->folder, "%s", folder);
    ModelOptions o = {.numeric = {kv, 16}};
    if (!(g->checkpoint = checkpoint_open(folder, &err))) fail_msg("%s: %s", folder, err.text);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    if (!(g->meta = json_parse_file(path, 0, &err))) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    if (access(path, F_OK) == 0 && !(g->logits = safetensors_open(path, &err))) fail_msg("%s", err.text);
    if (!(g->pool = pool_new(threads, &err))) fail_msg("%s", err.text);
    if (!(g->model = model_load(g->checkpoint, &o, g->pool, &err))) fail_msg("%s: %s", folder, err.text);
}

void golden_close(Golden *g) {
    model_free(g->model);
    pool_free(g->pool);
    safetensors_close(g->logits);
    json_free(g->meta);
    checkpoint_close(g->checkpoint);
}

int golden_ids(const Golden *g, const char *section, const char *prompt, int32_t *ids, int n, int capacity) {
    const JsonValue *list = json_get(json_get(json_root(g->meta), section), prompt);
    if (!list || list->type != JSON_ARRAY) fail_msg("%s: golden.json has no %s of %s", g->folder, section, prompt);
    for (uint32_t i = 0; i < list->length && n < capacity; i++) {
        int64_t id;
        if (!json_int(json_item(list, i), &id)) fail_msg("%s: an id is no number", g->folder);
        ids[n++] = (int32_t)id;
    }
    return n;
}

bool golden_usable(const Golden *g, const char *tensor, int row) {
    const JsonValue *rows = json_get(json_get(json_root(g->meta), "usable_rows"), tensor);
    if (!rows || rows->type != JSON_ARRAY) return true;
    for (uint32_t i = 0; i < rows->length; i++) {
        int64_t usable;
        if (json_int(json_item(rows, i), &usable) && usable == row) return true;
    }
    return false;
}

const Tensor *golden_tensor(const Golden *g, const char *name) {
    for (int i = 0; g->logits && i < safetensors_count(g->logits); i++)
        if (strcmp(safetensors_tensor(g->logits, i)->name, name) == 0) return safetensors_tensor(g->logits, i);
    fail_msg("%s: golden.safetensors has no %s", g->folder, name);
    return NULL;
}

double golden_tolerance(const Golden *g) {
    double tolerance = 0;
    if (!json_number(json_get(json_root(g->meta), "tolerance_abs_f32"), &tolerance))
        fail_msg("%s: no tolerance", g->folder);
    return tolerance;
}
