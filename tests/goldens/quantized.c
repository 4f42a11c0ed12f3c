/* Every float golden quantised: names, types, shapes and bytes of all tensors as mlx_lm.convert 0.32.2 writes them, by
 * a hash over them (quantized.txt, recorded by tests/differential/quantize.py --record); and the result loads. */
#include "base/memory.h"
#include "convert/quantize.h"
#include "math/kernels.h"
#include "model/model.h"
#include "support/folder.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char recorded[] = "tests/goldens/quantized.txt";

typedef struct Line {
    uint64_t hash;
    char mode[16], recipe[32], name[128];
    int bits, group;
} Line;

static uint64_t hash_more(uint64_t h, const void *bytes, size_t n) { /* FNV-1a */
    for (const uint8_t *p = bytes; n--; p++) h = (h ^ *p) * 0x100000001B3u;
    return h;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name);
}

static uint64_t hash_tensors(const Checkpoint *c) {
    int n = checkpoint_count(c);
    const Tensor **sorted = mem_array((size_t)n, sizeof *sorted);
    uint64_t h = 0xCBF29CE484222325u;
    for (int i = 0; i < n; i++) sorted[i] = checkpoint_tensor(c, i);
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int i = 0; i < n; i++) {
        const Tensor *t = sorted[i];
        h = hash_more(h, t->name, strlen(t->name) + 1);
        h = hash_more(h, dtype_name(t->dtype), strlen(dtype_name(t->dtype)) + 1);
        h = hash_more(h, t->shape, (size_t)t->n_dims * sizeof t->shape[0]);
        h = hash_more(h, t->data, t->bytes);
    }
    mem_free(sorted);
    return h;
}

static void check_line(const Line *l, Pool *pool) {
    TestFolder f;
    Error err = {""};
    char source[200];
    QuantizeOptions o = {.mode = l->mode,
                         .bits = l->bits,
                         .group = l->group,
                         .recipe = strcmp(l->recipe, "-") == 0 ? NULL : l->recipe,
                         .pool = pool};
    test_folder_make(&f);
    const char *out = test_path(&f, "out");
    snprintf(source, sizeof source, "tests/goldens/%s", l->name);
    if (!quantize_folder(source, out, &o, &err)) fail_msg("%s: %s", l->name, err.text);
    Checkpoint *c = checkpoint_open(out, &err);
    if (!c) fail_msg("%s: %s", l->name, err.text);
    if (hash_tensors(c) != l->hash)
        fail_msg("%s, %s %d bits in groups of %d, recipe %s: is not what mlx_lm.convert writes", l->name, l->mode,
                 l->bits, l->group, l->recipe);
    Model *m = model_load(c, &(ModelOptions){.numeric = {KV_I16, 16}}, pool, &err);
    if (!m) fail_msg("%s: quantised, it does not load: %s", l->name, err.text);
    model_free(m);
    checkpoint_close(c);
    test_folder_remove(&f);
}

static void goldens_quantise_as_in_mlx_lm(void **state) {
    (void)state;
    int n = 0;
    Pool *pool = pool_new(2, NULL);
    FILE *in = fopen(recorded, "r");
    if (!in) fail_msg("%s cannot be read: run the tests from the root of the source tree", recorded);
    for (Line l;
         fscanf(in, "%16" SCNx64 " %15s %d %d %31s %127s", &l.hash, l.mode, &l.bits, &l.group, l.recipe, l.name) == 6;
         n++)
        check_line(&l, pool);
    fclose(in);
    pool_free(pool);
    print_message("%d conversions are those of mlx_lm.convert\n", n);
    assert_true(n >= 250);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goldens_quantise_as_in_mlx_lm)};
    kernels_select(NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
