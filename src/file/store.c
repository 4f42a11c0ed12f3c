/* The store of checkpoints by name. A name is one path component that does not begin with a dot, so no name leads out
 * of the store; removal never follows a symbolic link, and first takes the entry out of sight by renaming it, so that
 * an interrupted removal leaves no half model behind under its name. */
#define _GNU_SOURCE
#include "file/store.h"
#include "base/memory.h"
#include "file/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 16 }; /* of folders inside an entry */

#define REMOVED ".removed-" /* prefix of an entry that is being removed */

static bool root_path(Buffer *out, Error *err) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (!home || *home != '/') {
        const struct passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : NULL;
    }
    buffer_reset(out);
    if (data && *data == '/') /* the specification says to ignore a relative one */
        buffer_printf(out, "%s/lockstep/models", data);
    else if (home)
        buffer_printf(out, "%s/.local/share/lockstep/models", home);
    else
        return error_set(err, "no home folder: set XDG_DATA_HOME to where models are to be kept");
    return !out->failed || error_memory(err, "a path");
}

static bool make_folders(char *path, Error *err) {
    for (char *slash = path + 1;; slash++) {
        if (*slash != '/' && *slash != 0) continue;
        char rest = *slash;
        *slash = 0;
        bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        if (!ok) error_set(err, "%s: cannot be created: %s", path, strerror(errno));
        *slash = rest;
        if (!ok || rest == 0) return ok;
    }
}

bool store_root(Buffer *out, Error *err) {
    return root_path(out, err) && make_folders(out->data, err);
}

static bool is_name(const char *name) {
    size_t n = strlen(name);
    return n > 0 && n < 200 && *name != '.' && !strchr(name, '/');
}

/* ---- resolve ---- */

bool store_resolve(const char *model, Buffer *folder, Error *err) {
    struct stat st;
    Buffer path = {0};
    bool ok = false;
    if (gguf_is_path(model) && (stat(model, &st) != 0 || !S_ISDIR(st.st_mode))) {
        ok = stat(model, &st) == 0 ? gguf_import_hint(model, err) : error_set(err, "%s: %s", model, strerror(errno));
    } else if (stat(model, &st) == 0) {
        ok = S_ISDIR(st.st_mode) || error_set(err, "%s: is a file, a model is a folder or a name in the store", model);
        if (ok) buffer_text(&path, model);
    } else if (!is_name(model)) {
        error_set(err, "%s: %s", *model ? model : "\"\"", strerror(ENOENT));
    } else if (root_path(&path, err)) {
        size_t root = path.length;
        buffer_printf(&path, "/%s", model);
        ok = !path.failed && stat(path.data, &st) == 0 && S_ISDIR(st.st_mode);
        if (!ok && !path.failed)
            error_set(err, "%s: neither a folder here nor a model in %.*s (lockstep list shows those)", model,
                      (int)root, path.data);
    }
    if (path.failed) ok = error_memory(err, "a path");
    if (ok) {
        buffer_reset(folder);
        buffer_append(folder, path.data, path.length);
        if (folder->failed) ok = error_memory(err, "a path");
    }
    buffer_clear(&path);
    return ok;
}

/* ---- list ---- */

static DIR *open_folder(int at, const char *name, bool follow) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0) return NULL;
    DIR *dir = fdopendir(fd);
    if (!dir) close(fd);
    return dir;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Bytes of the regular files below a folder; what cannot be read counts nothing. Closes dir. */
static uint64_t folder_bytes(DIR *dir, int depth) {
    uint64_t bytes = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (is_dots(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(st.st_mode)) bytes += (uint64_t)st.st_size;
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH)
            bytes += folder_bytes(open_folder(dirfd(dir), e->d_name, false), depth + 1);
    }
    if (dir) closedir(dir);
    return bytes;
}

static int by_entry_name(const void *a, const void *b) {
    return strcmp(((const StoreEntry *)a)->name, ((const StoreEntry *)b)->name);
}

static bool add_entry(StoreEntry **entries, int *n, const char *root, const char *name, uint64_t bytes) {
    StoreEntry *grown = mem_resize(*entries, (size_t)*n + 1, sizeof *grown);
    if (!grown) return false;
    *entries = grown;
    Buffer path = {0};
    buffer_printf(&path, "%s/%s", root, name);
    char *copy = mem_string(name, strlen(name));
    if (!copy || path.failed) {
        mem_free(copy);
        buffer_clear(&path);
        return false;
    }
    grown[(*n)++] = (StoreEntry){copy, path.data, bytes};
    return true;
}

static bool is_unfinished(const char *name) {
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".part") == 0;
}

bool store_list(StoreEntry **entries, int *n, Error *err) {
    Buffer root = {0};
    DIR *dir = NULL;
    StoreEntry *found = NULL;
    int n_found = 0;
    bool ok = store_root(&root, err);
    if (ok && !(dir = opendir(root.data))) ok = error_set(err, "%s: %s", root.data, strerror(errno));
    for (struct dirent *e; ok && (e = readdir(dir));) {
        if (!is_name(e->d_name) || is_unfinished(e->d_name)) continue;
        DIR *inner = open_folder(dirfd(dir), e->d_name, true);
        if (!inner) continue; /* no folder: not ours */
        ok = add_entry(&found, &n_found, root.data, e->d_name, folder_bytes(inner, 0)) ||
             error_memory(err, "the list of models");
    }
    if (dir) closedir(dir);
    buffer_clear(&root);
    if (!ok) {
        store_list_free(found, n_found);
        return false;
    }
    if (n_found) qsort(found, (size_t)n_found, sizeof *found, by_entry_name);
    *entries = found;
    *n = n_found;
    return true;
}

void store_list_free(StoreEntry *entries, int n) {
    for (int i = 0; i < n; i++) {
        mem_free(entries[i].name);
        mem_free(entries[i].path);
    }
    mem_free(entries);
}

/* ---- remove ---- */

/* Removes name in the folder `at`: a file, a link (not what it points to), or a folder with all in it. */
static bool remove_tree(int at, const char *name, int depth) {
    if (unlinkat(at, name, 0) == 0) return true;
    if (depth > MAX_DEPTH || (errno != EISDIR && errno != EPERM)) return false;
    DIR *dir = open_folder(at, name, false);
    bool ok = dir != NULL;
    for (struct dirent *e; ok && (e = readdir(dir));)
        if (!is_dots(e->d_name)) ok = remove_tree(dirfd(dir), e->d_name, depth + 1);
    if (dir) closedir(dir);
    return ok && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

static bool remove_entry(int root, const char *path, const char *name, Error *err) {
    struct stat st;
    char hidden[256];
    snprintf(hidden, sizeof hidden, REMOVED "%s", name);
    if (fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return error_set(err, "%s: no such model in %s (lockstep list shows those)", name, path);
    if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode)) return error_set(err, "%s/%s: is not a folder", path, name);
    remove_tree(root, hidden, 0); /* of an earlier removal that was interrupted */
    if (renameat(root, name, root, hidden) != 0 || !remove_tree(root, hidden, 0))
        return error_set(err, "%s/%s: cannot be removed: %s", path, name, strerror(errno));
    return true;
}

bool store_remove(const char *name, Error *err) {
    if (!is_name(name))
        return error_set(err, "\"%s\" is not the name of a model in the store; folders elsewhere are never removed",
                         name);
    Buffer path = {0};
    bool ok = store_root(&path, err);
    if (ok) {
        int root = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok =
            root >= 0 ? remove_entry(root, path.data, name, err) : error_set(err, "%s: %s", path.data, strerror(errno));
        if (root >= 0) close(root);
    }
    buffer_clear(&path);
    return ok;
}
