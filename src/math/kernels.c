/* Choosing the kernel table, once, at start. */
#include "math/kernels.h"

#include "math/kernel_table.h"

#include <stdio.h>
#include <string.h>

const KernelTable *const kernel_tables[] = {
#if defined(__x86_64__)
    &kernels_amx,    &kernels_avx512, &kernels_avx512_base, &kernels_avx2,
#elif defined(__aarch64__)
    &kernels_neon,
#endif
    &kernels_scalar,
};

enum { N_TABLES = sizeof kernel_tables / sizeof *kernel_tables };
const int n_kernel_tables = N_TABLES;

static const KernelTable *chosen = &kernels_scalar;

const KernelTable *kernels(void) {
    return chosen;
}

const char *kernels_name(void) {
    return chosen->name;
}

const char *const *kernels_available(void) {
    static const char *names[N_TABLES + 1];
    int n = 0;
    for (int i = 0; i < N_TABLES; i++)
        if (kernel_tables[i]->supported() && (n == 0 || strcmp(names[n - 1], kernel_tables[i]->name) != 0))
            names[n++] = kernel_tables[i]->name;
    names[n] = NULL;
    return names;
}

bool kernels_select(const char *isa, Error *err) {
    char here[128] = "";
    for (int i = 0; i < N_TABLES; i++) {
        if (!kernel_tables[i]->supported()) continue;
        if (!isa || strcmp(isa, kernel_tables[i]->name) == 0) {
            chosen = kernel_tables[i];
            return true;
        }
        if (strstr(here, kernel_tables[i]->name)) continue; /* two tables share a name: the first is the better */
        size_t used = strlen(here);
        snprintf(here + used, sizeof here - used, "%s%s", used ? ", " : "", kernel_tables[i]->name);
    }
    return error_set(err, "instruction set \"%s\" is not available on this machine: use one of %s", isa, here);
}

void kernels_use(const KernelTable *table) {
    chosen = table;
}

size_t tile_scratch_bytes(const TileFormat *f, int cols, int n_tiles) {
    size_t padded = ((size_t)cols + 255) / 256 * 256, groups = (size_t)(cols / f->group);
    return (size_t)n_tiles * (padded * TILE_ROWS + groups * TILE_ROWS * 2 * sizeof(float));
}
