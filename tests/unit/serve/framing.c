/* Requests that evhttp takes and should not, as they are parsed, and why others were refused. */
#include "serve/framing.h"

#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <cmocka.h>

/* The fault of a request with up to two headers. */
static FramingFault check(enum evhttp_cmd_type type, const char *name1, const char *value1, const char *name2,
                          const char *value2, bool *ends) {
    struct evkeyvalq headers;
    struct evhttp_request request = {.input_headers = &headers, .type = type};
    TAILQ_INIT(&headers);
    if (name1) evhttp_add_header(&headers, name1, value1);
    if (name2) evhttp_add_header(&headers, name2, value2);
    FramingFault f = framing_check(&request, ends);
    evhttp_clear_headers(&headers);
    return f;
}

static void test_two_ends_are_a_fault(void **state) {
    (void)state;
    static const struct {
        const char *name1, *value1, *name2, *value2;
        int status;
    } cases[] = {
        {"Content-Length", "2", "content-length", "2", 0},
        {"Content-Length", "2", "content-length", "3", 400},
        {"Content-Length", "", NULL, NULL, 400},
        {"Content-Length", "0x2", NULL, NULL, 400},
        {"Content-Length", "2", "Transfer-Encoding", "chunked", 400},
        {"Transfer-Encoding", "CHUNKED", NULL, NULL, 0},
        {"Transfer-Encoding", "chunked", "Transfer-Encoding", "chunked", 501},
        {"Transfer-Encoding", "\tchunked", NULL, NULL, 501},
        {"Transfer-Encoding", "", NULL, NULL, 501},
        {"Host", "a", "host", "a", 400},
        {"", "x", NULL, NULL, 400},
        {"X Y", "x", NULL, NULL, 400},
        {"X-\xc3\xa9", "x", NULL, NULL, 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool ends = false;
        FramingFault f =
            check(EVHTTP_REQ_POST, cases[i].name1, cases[i].value1, cases[i].name2, cases[i].value2, &ends);
        if (f.status != cases[i].status) fail_msg("case %zu: %d", i, f.status);
        assert_int_equal(ends, f.status != 0);
        assert_int_equal(f.message[0] != '\0', f.status != 0);
    }
}

static void test_bodies_that_stay_unread_end_the_connection(void **state) {
    (void)state;
    bool ends = false;
    assert_int_equal(check(EVHTTP_REQ_HEAD, "Content-Length", "1", NULL, NULL, &ends).status, 0);
    assert_true(ends);
    assert_int_equal(check(EVHTTP_REQ_HEAD, "Content-Length", "00", NULL, NULL, &ends).status, 0);
    assert_false(ends);
    assert_int_equal(check(EVHTTP_REQ_HEAD, "Transfer-Encoding", "chunked", NULL, NULL, &ends).status, 0);
    assert_true(ends);
    assert_int_equal(check(EVHTTP_REQ_GET, "Content-Length", "1", NULL, NULL, &ends).status, 0);
    assert_false(ends);
}

static void test_codings_are_named(void **state) {
    (void)state;
    bool ends = true;
    FramingFault f = check(EVHTTP_REQ_POST, "Content-Encoding", "zstd", NULL, NULL, &ends);
    assert_int_equal(f.status, 415);
    assert_false(ends);
    assert_string_equal(f.message, "Content-Encoding: zstd is not read here: send the body as it is");
    assert_int_equal(check(EVHTTP_REQ_POST, "Content-Encoding", "Identity", NULL, NULL, &ends).status, 0);
    assert_int_equal(check(EVHTTP_REQ_POST, "Content-Encoding", "identity", "Content-Encoding", "br", &ends).status,
                     415);
}

static void test_what_is_too_long_is_told_from_what_is_wrong(void **state) {
    (void)state;
    UnreadRequest r = {.status = 413, .received = 11, .max_body = 10, .max_headers = 9};
    assert_int_equal(framing_explain(&r).status, 413);
    assert_string_equal(framing_explain(&r).message, "the body is longer than the 10 bytes that are taken");
    r.received = 10;
    assert_int_equal(framing_explain(&r).status, 400);
    assert_non_null(strstr(framing_explain(&r).message, "chunks"));
    r.status = 0; /* as evhttp has it for a method it does not know, in some versions */
    assert_int_equal(framing_explain(&r).status, 400);
    assert_non_null(strstr(framing_explain(&r).message, "9 bytes"));
}

static void test_paths_are_found_in_what_came(void **state) {
    (void)state;
    static const char *const lines[][2] = {
        {"POST /v1/messages HTTP/1.1\r\n", "/v1/messages"},
        {"GET /api/tags?x=1 HTTP/1.1\r\n", "/api/tags"},
        {"GET /cut", "/cut"},
        {"\x16\x03\x01", ""},
        {"GET\r\nHost: a b", ""},
        {"", ""},
        {"GET  /", ""},
        {"GET /0123456789abcdef HTTP/1.1\r\n", "/0123456789abcd"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char path[16];
        framing_path(path, sizeof path, lines[i][0]);
        assert_string_equal(path, lines[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ends_are_a_fault),
        cmocka_unit_test(test_bodies_that_stay_unread_end_the_connection),
        cmocka_unit_test(test_codings_are_named),
        cmocka_unit_test(test_what_is_too_long_is_told_from_what_is_wrong),
        cmocka_unit_test(test_paths_are_found_in_what_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
