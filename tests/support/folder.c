/* The temporary folder of tests. Removal walks with nftw so that whatever a failed test left goes away too. */
#define _GNU_SOURCE
#include "support/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(bool ok, const char *what) {
    if (ok) return;
    perror(what);
    exit(99);
}

void test_folder_make(TestFolder *f) {
    const char *base = getenv("TMPDIR");
    snprintf(f->path, sizeof f->path, "%s/lockstep-test-XXXXXX", base ? base : "/tmp");
    need(mkdtemp(f->path) != NULL, f->path);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

void test_folder_remove(TestFolder *f) {
    need(nftw(f->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0, f->path);
}

TestFolder test_folder;

int test_folder_setup(void **state) {
    (void)state;
    test_folder_make(&test_folder);
    return 0;
}

int test_folder_teardown(void **state) {
    (void)state;
    test_folder_remove(&test_folder);
    return 0;
}

const char *test_path(const TestFolder *f, const char *name) {
    static char ring[4][768];
    static int next;
    char *out = ring[next++ % 4];
    snprintf(out, sizeof ring[0], "%s/%s", f->path, name);
    return out;
}

void test_write(const TestFolder *f, const char *name, const void *bytes, size_t n) {
    FILE *out = fopen(test_path(f, name), "wb");
    need(out != NULL, name);
    need(fwrite(bytes, 1, n, out) == n && fclose(out) == 0, name);
}

void test_write_text(const TestFolder *f, const char *name, const char *text) {
    test_write(f, name, text, strlen(text));
}

bool test_exists(const char *path) {
    return access(path, F_OK) == 0;
}

char *test_read(const char *path, size_t *n) {
    FILE *in = fopen(path, "rb");
    need(in != NULL, path);
    need(fseek(in, 0, SEEK_END) == 0, path);
    size_t size = (size_t)ftell(in);
    rewind(in);
    char *text = malloc(size + 1);
    need(text && fread(text, 1, size, in) == size, path);
    text[size] = 0;
    fclose(in);
    if (n) *n = size;
    return text;
}

int test_entries(const TestFolder *f) {
    DIR *dir = opendir(f->path);
    need(dir != NULL, f->path);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}
