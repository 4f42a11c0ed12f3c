/* Fresh runs, with rows of their own each time: nothing is shared with what they are compared with. */
#include "support/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void fresh_logits(Model *m, const int32_t *ids, int n, float *out) {
    Row *rows = malloc((size_t)n * sizeof *rows);
    RowFault *faults = malloc((size_t)n * sizeof *faults);
    State *s = state_new(model_state_shape(m), NULL);
    const float *logits = NULL;
    Error err = {""};
    state_restart(s, model_side(m, n));
    for (int i = 0; i < n; i++) rows[i] = (Row){.state = s, .position = i, .token = ids[i], .wants_logits = i + 1 == n};
    if (!model_step(m, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < n; i++) assert_false(faults[i].failed);
    memcpy(out, logits, (size_t)model_vocab_size(m) * sizeof *out);
    state_free(s);
    free(rows);
    free(faults);
}

void fresh_longrope_write(const TestFolder *folder, int boundary) {
    char config[600];
    snprintf(config, sizeof config,
             ", \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"sliding_window\": 20,"
             " \"rope_scaling\": {\"type\": \"longrope\", \"original_max_position_embeddings\": %d,"
             " \"short_mscale\": 1.1, \"long_mscale\": 1.35,"
             " \"short_factor\": [1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.7],"
             " \"long_factor\": [1.05, 1.2, 1.7, 2.5, 4.0, 6.0, 9.0, 12.0]}",
             boundary);
    tiny_write(folder, &(TinyLlama){.head = TINY_HEAD_OWN, .config = config});
}

void fresh_longrope_open(TinyModel *m, int boundary, int context) {
    ModelOptions o = {.numeric = {KV_I16, 16}, .context = context};
    TestFolder folder;
    Error err = {""};
    test_folder_make(&folder);
    fresh_longrope_write(&folder, boundary);
    if (!tiny_open(m, &folder, &o, &err)) fail_msg("%s", err.text);
    test_folder_remove(&folder);
}

void fresh_ids(int32_t *ids, int n) {
    for (int i = 0; i < n; i++) ids[i] = (i * i + 7 * i) % TINY_VOCAB;
}

PrefixCache *fresh_cache(const Model *m) {
    PrefixCache *c = prefix_cache_new(model_state_shape(m), SIZE_MAX, NULL);
    assert_non_null(c);
    return c;
}
