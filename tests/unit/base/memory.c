/* The parts that hold memory and text: overflow, failure injection, arena reuse, buffers, messages. */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void products_that_overflow_are_refused(void **state) {
    (void)state;
    uint64_t product = 5;
    assert_null(mem_array(SIZE_MAX / 2, 3));
    assert_null(mem_zeroed(SIZE_MAX, 2));
    assert_false(mem_product(UINT64_MAX / 2, 3, &product));
    assert_true(mem_product(1u << 31, 1u << 31, &product));
    assert_true(product == (uint64_t)1 << 62);
    void *p = mem_array(0, 8);
    assert_non_null(p);
    mem_free(p);
}

static void the_nth_allocation_fails_and_all_after_it(void **state) {
    (void)state;
    mem_fail_after(2);
    void *first = mem_array(1, 1);
    assert_non_null(first);
    assert_null(mem_array(1, 1));
    assert_null(mem_aligned(1, 1));
    mem_fail_after(0);
    mem_free(first);
    void *again = mem_array(1, 1);
    assert_non_null(again);
    mem_free(again);
}

static void an_array_doubles_when_it_is_full(void **state) {
    int *items = NULL;
    size_t capacity = 0;
    (void)state;
    for (int i = 0; i < 40; i++) {
        uint64_t count = mem_count();
        int *room = mem_room(items, (size_t)i, &capacity, sizeof *items);
        assert_non_null(room);
        assert_int_equal(mem_count() - count, i == 0 || i == 16 || i == 32);
        items = room;
        items[i] = i;
    }
    assert_int_equal(capacity, 64);
    for (int i = 0; i < 40; i++) assert_int_equal(items[i], i);
    mem_fail_after(1);
    assert_ptr_equal(mem_room(items, 63, &capacity, sizeof *items), items);
    assert_null(mem_room(items, 64, &capacity, sizeof *items));
    mem_fail_after(0);
    assert_int_equal(capacity, 64);
    size_t most = SIZE_MAX / 2 + 1;
    assert_null(mem_room(items, most, &most, 1));
    mem_free(items);
}

static void an_arena_gives_the_same_memory_after_a_rewind(void **state) {
    (void)state;
    Arena a;
    arena_init(&a);
    ArenaMark start = arena_mark(&a);
    char *small = arena_array(&a, 10, 1), *large = arena_array(&a, 3 << 20, 1), *more = arena_array(&a, 100, 8);
    memset(small, 1, 10);
    memset(large, 2, 3 << 20);
    memset(more, 3, 800);
    assert_true(small[9] == 1 && large[0] == 2 && more[799] == 3);
    assert_true((uintptr_t)small % 64 == 0 && (uintptr_t)more % 64 == 0);
    uint64_t count = mem_count();
    arena_rewind(&a, start);
    assert_ptr_equal(arena_array(&a, 10, 1), small);
    assert_ptr_equal(arena_array(&a, 3 << 20, 1), large);
    assert_true(mem_count() == count);
    assert_null(arena_array(&a, SIZE_MAX / 2, 4));
    arena_clear(&a);
}

static void a_buffer_that_fails_stays_as_it_was(void **state) {
    (void)state;
    Buffer b = {0};
    assert_string_equal(buffer_string(&b), "");
    buffer_printf(&b, "%d-%s", 7, "x");
    buffer_byte(&b, '!');
    assert_string_equal(b.data, "7-x!");
    char big[200] = {0};
    mem_fail_after(1);
    buffer_append(&b, big, sizeof big);
    mem_fail_after(0);
    buffer_text(&b, "later");
    assert_true(b.failed);
    assert_string_equal(b.data, "7-x!");
    buffer_reset(&b);
    buffer_text(&b, "fresh");
    assert_string_equal(b.data, "fresh");
    buffer_clear(&b);
}

static void messages_are_one_clean_line(void **state) {
    (void)state;
    Error err;
    assert_false(error_set(&err, "bad \"%s\"", "a\nb\x1b"));
    assert_string_equal(err.text, "bad \"a?b?\"");
    error_prefix(&err, "file %d", 3);
    assert_string_equal(err.text, "file 3: bad \"a?b?\"");
    char text[3000];
    memset(text, 'x', sizeof text);
    memcpy(text + 1020, "\xE2\x82\xAC\xE2\x82\xAC", 6); /* a character across the cut */
    text[2999] = 0;
    error_set(&err, "%s", text);
    assert_int_equal(strlen(err.text), 1020);
    assert_false(error_set(NULL, "nobody listens"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_that_overflow_are_refused),
        cmocka_unit_test(the_nth_allocation_fails_and_all_after_it),
        cmocka_unit_test(an_array_doubles_when_it_is_full),
        cmocka_unit_test(an_arena_gives_the_same_memory_after_a_rewind),
        cmocka_unit_test(a_buffer_that_fails_stays_as_it_was),
        cmocka_unit_test(messages_are_one_clean_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
