/* The interpreter against jinja2: tests/data/jinja holds templates for every construct with what jinja2 3.1.6 renders
 * in the environment of transformers (made by tests/differential/make_jinja_cases.py). Beside that: what errors say,
 * the limits, and that a failing allocation anywhere is an error and nothing else. */
#include "text/jinja_eval.h"
#include "base/memory.h"
#include "text/jinja_builtins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool set_variables(Run *run, Dict *vars, const JsonValue *json) {
    for (uint32_t i = 0; json && i < json->length; i++) {
        Value key, v;
        if (!value_text_ref(run, json->members[i].key, json->members[i].key_length, &key) ||
            !value_from_json(run, &json->members[i].value, &v) || !value_dict_set(run, vars, key, v))
            return false;
    }
    return true;
}

/* Compiles and renders; the variables of `more` go over those of `common`. */
static bool render(const char *text, size_t n, const JsonValue *common, const JsonValue *more, Buffer *out,
                   Error *err) {
    JinjaProgram *program = jinja_compile(text, n, err);
    if (!program) return false;
    Run run;
    jinja_run_begin(&run, program, err);
    Dict *vars = jinja_variables(&run);
    bool ok =
        vars && set_variables(&run, vars, common) && set_variables(&run, vars, more) && jinja_run(&run, vars, out);
    jinja_run_end(&run);
    jinja_program_free(program);
    return ok;
}

static bool render_text(const char *text, Buffer *out, Error *err) {
    return render(text, strlen(text), NULL, NULL, out, err);
}

static void expect(const char *text, const char *wanted) {
    Buffer out = {0};
    Error err;
    if (!render_text(text, &out, &err)) fail_msg("%s: %s", text, err.text);
    assert_string_equal(buffer_string(&out), wanted);
    buffer_clear(&out);
}

static void expect_error(const char *text, const char *wanted) {
    Buffer out = {0};
    Error err = {0};
    assert_false(render_text(text, &out, &err));
    assert_int_equal(out.length, 0);
    if (!strstr(err.text, wanted)) fail_msg("%s: \"%s\" does not hold \"%s\"", text, err.text, wanted);
    buffer_clear(&out);
}

/* ---- jinja2's answers ---- */

static int run_case(const JsonValue *common, const JsonValue *c) {
    const JsonValue *template = json_get(c, "template"), *text = json_get(c, "text");
    Buffer out = {0};
    Error err = {0};
    bool ok = render(template->text, template->length, common, json_get(c, "variables"), &out, &err);
    bool same = ok ? text && text->length == out.length && memcmp(text->text, buffer_string(&out), out.length) == 0
                   : text == NULL;
    if (!same)
        print_error("%s\n  jinja2: %s\n  here:   %s\n", template->text,
                    text ? text->text : json_string(json_get(c, "error")), ok ? buffer_string(&out) : err.text);
    if (!ok && !err.text[0]) same = false; /* an error without a word */
    buffer_clear(&out);
    return !same;
}

static void run_file(const char *name, uint32_t at_least) {
    char path[128];
    snprintf(path, sizeof path, "tests/data/jinja/%s.json", name);
    Error err;
    JsonDoc *doc = json_parse_file(path, 0, &err);
    if (!doc) fail_msg("%s", err.text);
    const JsonValue *cases = json_get(json_root(doc), "cases");
    int different = 0;
    assert_true(cases && cases->length >= at_least);
    for (uint32_t i = 0; i < cases->length; i++)
        different += run_case(json_get(json_root(doc), "variables"), &cases->items[i]);
    json_free(doc);
    assert_int_equal(different, 0);
}

static void whitespace_is_as_in_jinja2(void **state) {
    (void)state;
    run_file("whitespace", 50);
}
static void literals_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("literals", 80);
}
static void operators_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("operators", 190);
}
static void subscripts_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("subscripts", 150);
}
static void loops_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("loops", 80);
}
static void scopes_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("scopes", 120);
}
static void macros_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("macros", 50);
}
static void strings_are_as_in_python(void **state) {
    (void)state;
    run_file("strings", 230);
}
static void filters_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("filters", 400);
}
static void tests_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("tests", 130);
}
static void operators_as_tests_and_other_methods_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("more", 136);
}
static void conversations_are_as_in_jinja2(void **state) {
    (void)state;
    run_file("conversations", 10);
}

/* ---- errors ---- */

static void errors_name_line_and_expression(void **state) {
    (void)state;
    expect_error("a\n{{ 1 }}\n{{ x.y.z }}", "line 3, in x.y");
    expect_error("{% for a in [1] %}\n{{ a + 'b' }}{% endfor %}", "line 2, in a + 'b'");
    expect_error("{% for a in 5 %}{% endfor %}", "'int' object is not iterable");
    expect_error("\n{{ foo( }}", "line 2");
    expect_error("\n\n{% if x %}", "line 3: unexpected end of template");
    expect_error("{% nosuch %}", "unknown tag 'nosuch'");
    expect_error("{{ x|nosuch }}", "No filter named 'nosuch'");
    expect_error("{% include 'other' %}", "{% include %}");
    expect_error("{% if true %}{% import 'm' as m %}{% endif %}", "{% import %}");
    expect_error("{% extends 'base' %}", "{% extends %}");
}

static void what_the_template_raises_reaches_the_user(void **state) {
    (void)state;
    expect_error("x\n{{ raise_exception('Roles must alternate: \"' ~ 'ü' ~ '\"') }}",
                 "line 2: Roles must alternate: \"ü\"");
}

static void undefined_values_say_what_was_missing(void **state) {
    (void)state;
    expect_error("{{ a.b }}", "'a' is undefined");
    expect_error("{{ {'a': 1}.b.c }}", "'dict object' has no attribute 'b'");
    expect_error("{{ [1][3].x }}", "list object has no element 3");
    expect_error("{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe");
}

static void big_integers_print_but_do_not_compute(void **state) {
    (void)state;
    expect("{{ 123456789012345678901234567890 }}", "123456789012345678901234567890");
    expect("{{ -9223372036854775808 }}", "-9223372036854775808");
    expect_error("{{ 9223372036854775807 + 1 }}", "64 bits");
    expect_error("{{ 123456789012345678901234567890 + 1 }}", "64 bits");
    expect_error("{{ 3 ** 100 }}", "64 bits");
}

static void chance_is_refused(void **state) {
    (void)state;
    expect_error("{{ lipsum() }}", "random");
    expect_error("{{ [1, 2]|random }}", "chance");
}

/* ---- limits ---- */

static void hostile_templates_end_in_an_error(void **state) {
    (void)state;
    expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "levels");
    expect_error("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps");
    expect_error("{% for a in range(99999) %}{{ 'x' * 100000 }}{% endfor %}", "MB");
    expect_error("{{ 'x' * 99999999999 }}", "memory");
    expect_error("{{ [0] * 99999999999 }}", "memory");
    expect_error("{{ 'x'.center(9999999999) }}", "memory");
    expect_error("{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
                 "memory");
    expect_error(
        "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
        "stopped");
    expect_error("{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ "
                 "ns.a|tojson }}",
                 "stopped");
    expect_error("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}"
                 "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
                 "stopped");
    expect_error("{% set ns = namespace(a=(1,)) %}{% for i in range(99) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}"
                 "{{ {ns.a: 1} }}",
                 "stopped");
    expect_error("{{ ('a' * 99999).replace('', 'b' * 99999) }}", "MB");
}

static void nesting_is_limited(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    Buffer text = {0}, out = {0};
    Error err;
    buffer_text(&text, "{{ ");
    for (int i = 0; i < DEPTH; i++) buffer_byte(&text, '(');
    assert_false(render_text(text.data, &out, &err));
    buffer_reset(&text);
    buffer_text(&text, "{{ 1");
    for (int i = 0; i < DEPTH; i++) buffer_text(&text, " + 1");
    buffer_text(&text, " }}");
    assert_false(render_text(text.data, &out, &err));
    buffer_reset(&text);
    for (int i = 0; i < DEPTH; i++) buffer_text(&text, "{% if 1 %}");
    assert_false(render_text(text.data, &out, &err));
    buffer_reset(&text);
    buffer_text(&text, "{{ x");
    for (int i = 0; i < DEPTH; i++) buffer_text(&text, "|list");
    buffer_text(&text, " }}");
    assert_false(render_text(text.data, &out, &err));
    buffer_reset(&text);
    buffer_text(&text, "{{ ");
    for (int i = 0; i < DEPTH; i++) buffer_text(&text, "not ");
    buffer_text(&text, "1 }}");
    assert_false(render_text(text.data, &out, &err));
    buffer_clear(&text);
    buffer_clear(&out);
}

/* Every allocation of a compile and a rendering fails once; nothing may crash or leak, and out stays as it was. */
static void failing_allocations_are_errors(void **state) {
    (void)state;
    static const char TEXT[] =
        "{% macro m(a, b=2) %}{{ a ~ b }}{% endmacro %}{% for x in [3, 1, 2]|sort if x %}{{ m(x)|upper }}"
        "{{ loop.last }}{% set q %}{{ x }}{% endset %}{{ {'k': q}|tojson }}{% endfor %}"
        "{{ ('%s {}'|format('a')).format(range(3)|map('string')|join(',')) }}";
    static const char WANTED[] = "12False{\"k\": \"1\"}22False{\"k\": \"2\"}32True{\"k\": \"3\"}a 0,1,2";
    bool done = false;
    for (uint64_t nth = 1; !done; nth++) {
        Buffer out = {0};
        Error err = {0};
        mem_fail_after(nth);
        done = render_text(TEXT, &out, &err);
        mem_fail_after(0);
        if (done)
            assert_string_equal(buffer_string(&out), WANTED);
        else {
            assert_int_equal(out.length, 0);
            assert_true(err.text[0] != 0);
        }
        buffer_clear(&out);
        assert_true(nth < 10000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whitespace_is_as_in_jinja2),
        cmocka_unit_test(literals_are_as_in_jinja2),
        cmocka_unit_test(operators_are_as_in_jinja2),
        cmocka_unit_test(subscripts_are_as_in_jinja2),
        cmocka_unit_test(loops_are_as_in_jinja2),
        cmocka_unit_test(scopes_are_as_in_jinja2),
        cmocka_unit_test(macros_are_as_in_jinja2),
        cmocka_unit_test(strings_are_as_in_python),
        cmocka_unit_test(filters_are_as_in_jinja2),
        cmocka_unit_test(tests_are_as_in_jinja2),
        cmocka_unit_test(operators_as_tests_and_other_methods_are_as_in_jinja2),
        cmocka_unit_test(conversations_are_as_in_jinja2),
        cmocka_unit_test(errors_name_line_and_expression),
        cmocka_unit_test(what_the_template_raises_reaches_the_user),
        cmocka_unit_test(undefined_values_say_what_was_missing),
        cmocka_unit_test(big_integers_print_but_do_not_compute),
        cmocka_unit_test(chance_is_refused),
        cmocka_unit_test(hostile_templates_end_in_an_error),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
