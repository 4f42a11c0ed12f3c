/* Writing a checkpoint so that a reader never meets half of one. Only folders of plain files, and of the flat folders
 * that sentence-transformers puts in a checkpoint ("1_Pooling"), are ever removed, and only ones that were looked
 * through beforehand: `import -o ~ --force` must not cost anybody a home folder. */
#define _GNU_SOURCE
#include "convert/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct FolderKind {
    int n_files;
    bool has_config, has_other; /* other: anything but plain files, links and modules' folders */
} FolderKind;

/* "1_Pooling": a module of sentence-transformers. */
static bool is_module(const char *name) {
    return name[0] >= '0' && name[0] <= '9' && name[1] == '_' && name[2];
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder of the folder `at`, holding nothing but plain files; removes those when asked to. */
static bool is_flat(int at, const char *name, bool and_empty_it) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool flat = dir != NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (is_dots(e->d_name)) continue;
        flat = flat && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
        if (flat && and_empty_it) unlinkat(fd, e->d_name, 0);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return flat;
}

static bool look_through(const char *path, FolderKind *kind, Error *err) {
    DIR *dir = opendir(path);
    if (!dir) return error_set(err, "%s: %s", path, strerror(errno));
    *kind = (FolderKind){0};
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (is_dots(e->d_name)) continue;
        if (strcmp(e->d_name, "config.json") == 0) kind->has_config = true;
        bool plain = fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                     (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode));
        plain = plain || (is_module(e->d_name) && is_flat(dirfd(dir), e->d_name, false));
        kind->has_other = kind->has_other || !plain;
        kind->n_files++;
    }
    closedir(dir);
    return true;
}

/* Removes the plain files and modules of a folder and then the folder, which fails when anything else is in it. */
static bool remove_flat(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return errno == ENOENT;
    for (struct dirent *e; (e = readdir(dir));) {
        if (is_dots(e->d_name) || unlinkat(dirfd(dir), e->d_name, 0) == 0) continue;
        if (is_module(e->d_name) && is_flat(dirfd(dir), e->d_name, true)) unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
    return rmdir(path) == 0;
}

static bool exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool check_old(const char *folder, bool may_force, bool force, Error *err) {
    FolderKind kind;
    if (!exists(folder)) return true;
    if (!force)
        return error_set(err, "%s: is already there; choose another folder%s", folder,
                         may_force ? ", or replace it with --force" : "");
    if (!look_through(folder, &kind, err)) return false;
    if (kind.n_files > 0 && (!kind.has_config || kind.has_other))
        return error_set(err, "%s: is not replaced, because it holds other things than a checkpoint", folder);
    return true;
}

static bool set_paths(OutputFolder *o, const char *folder, Error *err) {
    size_t n = strlen(folder);
    *o = (OutputFolder){0};
    while (n > 1 && folder[n - 1] == '/') n--;
    if (n == 0) return error_set(err, "no folder is named for the result");
    buffer_append(&o->folder, folder, n);
    buffer_append(&o->part, folder, n);
    buffer_text(&o->part, ".part");
    return !(o->folder.failed || o->part.failed) || error_memory(err, "a path");
}

static bool make_part(OutputFolder *o, Error *err) {
    FolderKind kind;
    if (exists(o->part.data)) {
        if (!look_through(o->part.data, &kind, err)) return false;
        if (kind.has_other || !remove_flat(o->part.data))
            return error_set(err, "%s: is in the way, remove it", o->part.data);
    }
    if (mkdir(o->part.data, 0777) != 0)
        return error_set(err, "%s: cannot be created: %s", o->part.data, strerror(errno));
    o->made = true;
    return true;
}

bool output_begin(OutputFolder *o, const char *folder, bool force, Error *err) {
    return set_paths(o, folder, err) && check_old(o->folder.data, true, force, err) && make_part(o, err);
}

/* Whether the file begins with the tag. */
static bool begins_with(const char *path, const char *tag) {
    char text[256];
    size_t n = strlen(tag);
    FILE *f = fopen(path, "rb");
    bool same = f && n <= sizeof text && fread(text, 1, n, f) == n && memcmp(text, tag, n) == 0;
    if (f) fclose(f);
    return same;
}

bool output_resume(OutputFolder *o, const char *folder, const char *progress, const char *tag, bool *found,
                   Error *err) {
    Buffer path = {0};
    if (!set_paths(o, folder, err) || !check_old(o->folder.data, false, false, err)) return false;
    buffer_printf(&path, "%s/%s", o->part.data, progress);
    if (path.failed) return error_memory(err, "a path");
    *found = begins_with(path.data, tag);
    buffer_clear(&path);
    o->kept = true;
    if (*found) return true;
    return make_part(o, err) && output_file(o, progress, tag, strlen(tag), err);
}

bool output_file(const OutputFolder *o, const char *name, const void *bytes, size_t n, Error *err) {
    Buffer path = {0};
    const char *slash = strrchr(name, '/');
    if (slash) buffer_printf(&path, "%s/%.*s", o->part.data, (int)(slash - name), name);
    if (slash && !path.failed) mkdir(path.data, 0777); /* where that fails, so does the file */
    buffer_reset(&path);
    buffer_printf(&path, "%s/%s", o->part.data, name);
    if (path.failed) {
        buffer_clear(&path);
        return error_memory(err, "a path");
    }
    FILE *f = fopen(path.data, "wb");
    bool ok = f && fwrite(bytes, 1, n, f) == n && fflush(f) == 0 && fsync(fileno(f)) == 0;
    int reason = errno;
    if (f && fclose(f) != 0 && ok) {
        reason = errno;
        ok = false;
    }
    if (!ok) error_set(err, "%s: cannot be written: %s", path.data, strerror(reason));
    buffer_clear(&path);
    return ok;
}

bool output_commit(OutputFolder *o, Error *err) {
    Buffer old = {0};
    bool replaced = false, ok = true;
    buffer_printf(&old, "%s.old", o->folder.data);
    if (old.failed) return error_memory(err, "a path");
    if (exists(o->folder.data)) {
        remove_flat(old.data);
        replaced = ok = rename(o->folder.data, old.data) == 0;
    }
    ok = ok && rename(o->part.data, o->folder.data) == 0;
    if (!ok) {
        error_set(err, "%s: cannot be put in place: %s", o->folder.data, strerror(errno));
        if (replaced && rename(old.data, o->folder.data) != 0)
            error_prefix(err, "%s holds the model that was to be replaced", old.data);
    } else {
        o->made = false;
        if (replaced) remove_flat(old.data);
    }
    buffer_clear(&old);
    return ok;
}

void output_end(OutputFolder *o) {
    if (o->made && !o->kept) remove_flat(o->part.data);
    buffer_clear(&o->folder);
    buffer_clear(&o->part);
}
