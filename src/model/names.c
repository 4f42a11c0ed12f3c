/* Expanding name templates. A name that does not fit is no name of a tensor, so it is simply not found. */
#include "model/names.h"

#include <stdio.h>
#include <string.h>

static const NameRoot plain_root[] = {{"model.", ""}, {NULL, NULL}};

/* A decoder saved as it is without its head (transformers' AutoModel) has nothing before its names. */
static const NameRoot bare_root = {"", ""};

static bool begins_a_tensor(const Checkpoint *c, const char *prefix) {
    for (int i = 0; i < checkpoint_count(c); i++)
        if (strncmp(checkpoint_tensor(c, i)->name, prefix, strlen(prefix)) == 0) return true;
    return false;
}

Names names_find_root(const Checkpoint *checkpoint, const NameRoot *roots) {
    if (!roots) roots = plain_root;
    const NameRoot *best = NULL;
    for (const NameRoot *r = roots; r->model; r++)
        if ((!best || strlen(r->model) > strlen(best->model)) && begins_a_tensor(checkpoint, r->model)) best = r;
    return (Names){checkpoint, best ? *best : begins_a_tensor(checkpoint, "layers.0.") ? bare_root : roots[0]};
}

/* One alternative of length n, expanded; cut off when it does not fit. */
static void expand_one(const Names *names, const char *from, size_t n, int layer, int expert,
                       char out[NAME_MAX_BYTES]) {
    bool inside = n >= 6 && memcmp(from, "model.", 6) == 0;
    size_t skip = inside ? 6 : 0;
    int at = snprintf(out, NAME_MAX_BYTES, "%s", inside ? names->root.model : names->root.beside);
    for (size_t i = skip; i < n && at + 12 < NAME_MAX_BYTES; i++) {
        if (from[i] == '*')
            at += snprintf(out + at, 12, "%d", layer);
        else if (from[i] == '#')
            at += snprintf(out + at, 12, "%d", expert);
        else
            out[at++] = from[i];
    }
    out[at] = 0;
}

/* What published quantised forms have in place of a weight. */
static const char weight[] = ".weight", *const stand_ins[] = {".qweight", ".weight_packed"};

static bool present(const Names *names, const char *module, const char *suffix) {
    char full[NAME_MAX_BYTES + 32];
    size_t n = (size_t)snprintf(full, sizeof full, "%s%s", module, suffix), end = sizeof weight - 1;
    if (checkpoint_find(names->checkpoint, full)) return true;
    if (n < end || n + 16 > sizeof full) return false;
    if (strcmp(full + n - end, weight) != 0) {
        memcpy(full + n, "_blocks", sizeof "_blocks");
        return checkpoint_find(names->checkpoint, full) != NULL;
    }
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++) {
        memcpy(full + n - end, stand_ins[i], strlen(stand_ins[i]) + 1);
        if (checkpoint_find(names->checkpoint, full)) return true;
    }
    return false;
}

bool names_published(const Names *n, const char *module, char out[NAME_MAX_BYTES + 16]) {
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++) {
        snprintf(out, NAME_MAX_BYTES + 16, "%s%s", module, stand_ins[i]);
        if (checkpoint_find(n->checkpoint, out)) return true;
    }
    return false;
}

bool names_expand(const Names *n, const char *template, int layer, int expert, const char *suffix,
                  char out[NAME_MAX_BYTES]) {
    const char *from = template;
    for (;;) {
        size_t length = strcspn(from, "|");
        expand_one(n, from, length, layer, expert, out);
        if (present(n, out, suffix)) return true;
        if (!from[length]) break;
        from += length + 1;
    }
    expand_one(n, template, strcspn(template, "|"), layer, expert, out);
    return false;
}

const Tensor *names_tensor(const Names *n, const char *template, int layer, int expert, const char *suffix) {
    char module[NAME_MAX_BYTES], full[NAME_MAX_BYTES + 32];
    if (!names_expand(n, template, layer, expert, suffix, module)) return NULL;
    snprintf(full, sizeof full, "%s%s", module, suffix);
    return checkpoint_find(n->checkpoint, full);
}

bool name_matches(const char *pattern, const char *name) {
    if (*pattern == '*') return name_matches(pattern + 1, name) || (*name && name_matches(pattern, name + 1));
    return *pattern == *name && (!*name || name_matches(pattern + 1, name + 1));
}
