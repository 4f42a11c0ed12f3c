/* Layers that run again (Nanbeige) on the tiny llama's tensors: once is llama itself; more times keep keys and values
 * of their own over the same matrices. */
#include "support/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 5 };
static const int32_t ids[IDS] = {3, 1, 4, 1, 5};

typedef struct Looped {
    float logits[TINY_VOCAB]; /* after all ids */
    size_t step_bytes;
    int n_layers;
} Looped;

static Looped run(const char *type, const char *more) {
    char config[200];
    snprintf(config, sizeof config, ", \"model_type\": \"%s\"%s", type, more);
    TinyLlama t = {.config = config, .replaced = "model_type", .head = TINY_HEAD_OWN};
    TinyModel m;
    Row rows[IDS];
    RowFault faults[IDS];
    const float *logits;
    tiny_make(&m, &t, NULL);
    State *s = state_new(model_state_shape(m.model), NULL);
    for (int i = 0; i < IDS; i++)
        rows[i] = (Row){.state = s, .position = i, .token = ids[i], .wants_logits = i == IDS - 1};
    assert_true(model_step(m.model, rows, IDS, &logits, faults, NULL));
    Looped out = {.step_bytes = model_step_bytes(m.model), .n_layers = model_state_shape(m.model)->n_layers};
    memcpy(out.logits, logits, sizeof out.logits);
    state_free(s);
    tiny_close(&m);
    return out;
}

static void once_is_llama(void **state) {
    (void)state;
    Looped llama = run("llama", ""), once = run("nanbeige", ""), said = run("nanbeige", ", \"num_loops\": 1");
    assert_memory_equal(once.logits, llama.logits, sizeof llama.logits);
    assert_memory_equal(said.logits, llama.logits, sizeof llama.logits);
    assert_int_equal(once.step_bytes, llama.step_bytes);
}

static void more_times_read_the_same_matrices_again(void **state) {
    (void)state;
    Looped once = run("nanbeige", ""), thrice = run("nanbeige", ", \"num_loops\": 3");
    Looped by_losses = run("nanbeige", ", \"loop_loss_weights\": [0.5, 0.25]");
    Looped without = run("nanbeige", ", \"num_loops\": 3, \"skip_loop_final_norm\": true");
    size_t head = TINY_VOCAB * TINY_HIDDEN * sizeof(float);
    assert_int_equal(once.n_layers, 2);
    assert_int_equal(thrice.n_layers, 6); /* of keys and values */
    assert_int_equal(thrice.step_bytes - head, 3 * (once.step_bytes - head));
    assert_memory_not_equal(thrice.logits, once.logits, sizeof once.logits);
    assert_memory_equal(by_losses.logits, thrice.logits, sizeof once.logits);
    assert_memory_not_equal(without.logits, thrice.logits, sizeof once.logits); /* the norm between the times */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_is_llama),
        cmocka_unit_test(more_times_read_the_same_matrices_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
