/* Philox against the known answers of the authors' Random123 (kat_vectors, philox4x32 10), and draws by position. */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void philox_gives_the_published_vectors(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        rng_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void a_draw_depends_on_seed_choice_and_position_only(void **state) {
    (void)state;
    double u = rng_uniform(5, 1, 77);
    assert_true(u >= 0 && u < 1);
    assert_true(rng_uniform(5, 1, 77) == u);
    assert_true(rng_uniform(6, 1, 77) != u);
    assert_true(rng_uniform(5, 2, 77) != u);
    assert_true(rng_uniform(5, 1, 78) != u);
    /* seed 0, choice 0, position 0: the first 53 bits of the first vector above */
    assert_true(rng_uniform(0, 0, 0) == (double)(0x6627e8d5e169c58dull >> 11) * 0x1p-53);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(a_draw_depends_on_seed_choice_and_position_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
