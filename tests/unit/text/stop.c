/* Stop strings: what is withheld, where the text is cut, and that the cutting of the stream does not matter. */
#include "text/stop.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static StopMatcher *matcher(size_t n, const char *const *stops) {
    StopText texts[8] = {0};
    for (size_t i = 0; i < n; i++) texts[i] = (StopText){stops[i], strlen(stops[i])};
    Error err;
    StopMatcher *m = stop_new(texts, n, &err);
    assert_non_null(m);
    return m;
}

/* Pushes `text` and checks what it releases. */
static void push(StopMatcher *m, const char *text, const char *released) {
    Buffer out = {0};
    Error err;
    assert_true(stop_push(m, text, strlen(text), &out, &err));
    assert_string_equal(buffer_string(&out), released);
    buffer_clear(&out);
}

static void finish(StopMatcher *m, const char *released, int matched) {
    Buffer out = {0};
    Error err;
    assert_int_equal(stop_matched(m), matched);
    assert_true(stop_finish(m, &out, &err));
    assert_string_equal(buffer_string(&out), released);
    buffer_clear(&out);
    stop_free(m);
}

/* cases.md, number 5. */
static void a_stop_string_may_span_tokens(void **state) {
    (void)state;
    const char *span[] = {"ple p"}, *never[] = {"pie now!"}, *word[] = {"apple"};
    StopMatcher *m = matcher(1, span);
    push(m, "Red", "Red");
    push(m, " apple", " ap");
    push(m, " pie", "");
    push(m, " now", "");
    finish(m, "", 0);

    m = matcher(1, never);
    push(m, "Red", "Red");
    push(m, " apple", " apple");
    push(m, " pie", " ");
    push(m, " now", "");
    finish(m, "pie now", -1);

    m = matcher(1, word);
    push(m, "Red", "Red");
    push(m, " apple", " ");
    finish(m, "", 0);
}

static void exactly_the_tail_that_may_match_waits(void **state) {
    (void)state;
    const char *stops[] = {"aab", "\n\n"};
    StopMatcher *m = matcher(2, stops);
    push(m, "x", "x");
    push(m, "aa", "");
    push(m, "a", "a"); /* "aa" may still become "aab" */
    push(m, "c", "aac");
    push(m, "\n", "");
    push(m, "a\n", "\na");
    push(m, "\n rest", "");
    finish(m, "", 1);
}

static void the_first_complete_one_ends_the_text(void **state) {
    (void)state;
    const char *stops[] = {"bc", "abcd", "cd", "xbc"};
    StopMatcher *m = matcher(4, stops);
    push(m, "zabcd", "za"); /* "bc" is complete before "abcd" */
    finish(m, "", 0);
    m = matcher(4, stops);
    push(m, "zxbcd", "z"); /* "bc" and "xbc" at once: the one that began first */
    finish(m, "", 3);
}

static void without_stop_strings_all_passes(void **state) {
    (void)state;
    StopMatcher *m = matcher(0, NULL);
    push(m, "anything", "anything");
    push(m, "", "");
    finish(m, "", -1);
    Error err;
    StopText empty = {"", 0};
    assert_null(stop_new(&empty, 1, &err));
    assert_string_equal(err.text, "stop string 0 is empty");
}

/* Where the definition, read literally, ends the text: the stop string that is complete first, the longest of those. */
static size_t end_by_definition(const char *text, size_t n, size_t n_stops, const char *const *stops, int *which) {
    for (size_t end = 1; end <= n; end++) {
        *which = -1;
        for (size_t i = 0; i < n_stops; i++) {
            size_t length = strlen(stops[i]);
            if (length > end || memcmp(text + end - length, stops[i], length) != 0) continue;
            if (*which < 0 || length > strlen(stops[*which])) *which = (int)i;
        }
        if (*which >= 0) return end - strlen(stops[*which]);
    }
    return n;
}

/* What must wait by definition: the longest tail of text that begins a stop string. */
static size_t waiting_by_definition(const char *text, size_t n, size_t n_stops, const char *const *stops) {
    for (size_t tail = n; tail > 0; tail--) {
        for (size_t i = 0; i < n_stops; i++) {
            if (tail < strlen(stops[i]) && memcmp(text + n - tail, stops[i], tail) == 0) return tail;
        }
    }
    return 0;
}

static uint32_t next_random(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

static void any_cut_of_the_stream_gives_the_same(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 3000; round++) {
        char text[24], stop_texts[3][6];
        const char *stops[3];
        size_t n = next_random(&seed) % 20, n_stops = 1 + next_random(&seed) % 3;
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + next_random(&seed) % 2);
        for (size_t i = 0; i < n_stops; i++) {
            size_t length = 1 + next_random(&seed) % 5;
            for (size_t k = 0; k < length; k++) stop_texts[i][k] = (char)('a' + next_random(&seed) % 2);
            stop_texts[i][length] = 0;
            stops[i] = stop_texts[i];
        }
        int which = -1;
        size_t end = end_by_definition(text, n, n_stops, stops, &which);
        StopMatcher *m = matcher(n_stops, stops);
        Buffer out = {0};
        Error err;
        for (size_t i = 0; i < n;) {
            size_t step = 1 + next_random(&seed) % 4;
            if (step > n - i) step = n - i;
            assert_true(stop_push(m, text + i, step, &out, &err));
            i += step;
            if (stop_matched(m) < 0) assert_int_equal(out.length, i - waiting_by_definition(text, i, n_stops, stops));
        }
        assert_int_equal(stop_matched(m), which);
        assert_true(stop_finish(m, &out, &err));
        assert_int_equal(out.length, end);
        if (end) assert_memory_equal(out.data, text, end);
        stop_free(m);
        buffer_clear(&out);
    }
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    StopText stops[] = {{"ab", 2}, {"cd", 2}};
    for (uint64_t nth = 1;; nth++) {
        Error err = {""};
        mem_fail_after(nth);
        StopMatcher *m = stop_new(stops, 2, &err);
        mem_fail_after(0);
        if (m) {
            assert_int_equal(nth, 7);
            stop_free(m);
            break;
        }
        assert_memory_equal(err.text, "out of memory", 13);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_string_may_span_tokens),        cmocka_unit_test(exactly_the_tail_that_may_match_waits),
        cmocka_unit_test(the_first_complete_one_ends_the_text), cmocka_unit_test(without_stop_strings_all_passes),
        cmocka_unit_test(any_cut_of_the_stream_gives_the_same), cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
