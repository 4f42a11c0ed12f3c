/* Importing goldens: the reference is linked beside the imported model, so that the same program reads it as of any
 * other golden. */
#define _GNU_SOURCE
#include "support/golden_import.h"
#include "convert/import_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void bring_reference(const char *name, const char *file, const char *folder) {
    static const char *const layouts[] = {"gguf", "hf", "embed", "mlx"};
    char link[300], path[300], *whole = NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts && !whole; i++) {
        snprintf(path, sizeof path, "tests/goldens/%s/%.100s/%s", layouts[i], name, file);
        whole = realpath(path, NULL);
    }
    if (!whole) fail_msg("%s: there is no %s", name, file);
    snprintf(link, sizeof link, "%.200s/%s", folder, file);
    if (symlink(whole, link) != 0) fail_msg("%s cannot be made", link);
    free(whole);
}

bool golden_import_embeds(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "tests/goldens/embed/%.100s/golden.json", name);
    return access(path, R_OK) == 0;
}

void golden_import(const char *name, bool mlx, const TestFolder *parent, char folder[256]) {
    ImportOptions options = {.mlx = mlx};
    Error err = {""};
    char gguf[300];
    snprintf(gguf, sizeof gguf, "tests/goldens/gguf/%.100s/model.gguf", name);
    snprintf(folder, 256, "%.120s/%.100s", parent->path, name);
    if (!import_gguf(gguf, folder, &options, &err)) fail_msg("%s", err.text);
    bring_reference(name, "golden.json", folder);
    bring_reference(name, "golden.safetensors", folder);
}
