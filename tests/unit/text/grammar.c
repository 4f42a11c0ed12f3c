/* Grammars: which texts each takes and which not, what is refused, and that the mask of tokens is what trying each
 * token gives. */
#include "text/grammar.h"
#include "base/memory.h"
#include "support/vocabulary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 12 };

/* A vocabulary of all bytes that begin no longer character, and of pieces that cross the borders of JSON. */
static Tokenizer *tokenizer;
static TokenTree *tree;
static const char *const pieces[] = {"{\"",   "\":",   "\": ",     "\",",          "\"}",  "},",   "true", "tru",
                                     "false", "null",  "12",       "345",          "0.",   "name", "age",  "  ",
                                     "\n",    "\n   ", "\xC3\xA9", "\xE2\x82\xAC", "[]",   "{}",   "a,b",  "]}",
                                     "\\n",   "\\u0",  "-",        "<end>",        "\"\"", "abc"};
enum { PIECES = sizeof pieces / sizeof *pieces };

static int setup(void **state) {
    (void)state;
    Error err = {""};
    tokenizer = vocabulary_make(pieces, PIECES);
    tree = token_tree_new(tokenizer, tokenizer_size(tokenizer), NULL, 0, &err);
    assert_non_null(tree);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    token_tree_free(tree);
    tokenizer_free(tokenizer);
    return 0;
}

typedef enum Kind { SCHEMA, REGEX, GBNF, CHOICES } Kind;

static Grammar *read_grammar(Kind kind, const char *text, Error *err) {
    Grammar *g = NULL;
    JsonDoc *doc = NULL;
    if (kind == REGEX) return grammar_from_regex(text, strlen(text), err);
    if (kind == GBNF) return grammar_from_gbnf(text, strlen(text), err);
    if (!(doc = json_parse(text, strlen(text), 0, err))) fail_msg("%s: %s", text, err->text);
    g = kind == SCHEMA ? grammar_from_schema(json_root(doc), err) : grammar_from_choices(json_root(doc), err);
    json_free(doc);
    return g;
}

static bool takes(const Grammar *g, const char *text) {
    GrammarRun *r = grammar_run_new(g, tree, NULL);
    assert_non_null(r);
    bool ok = grammar_run_text(r, text, strlen(text)) && grammar_run_can_end(r);
    grammar_run_free(r);
    return ok;
}

typedef struct Case {
    Kind kind;
    const char *text;
    const char *yes[MANY], *no[MANY];
} Case;

static const Case cases[] = {
    {REGEX, "a+b?", {"a", "aab"}, {"", "b", "abb"}},
    {REGEX, "^(?:yes|no)$", {"yes", "no"}, {"ye", "yesno", " yes"}},
    {REGEX, "[a-c]{2,3}", {"ab", "abc"}, {"a", "abcd", "ad"}},
    {REGEX, "\\d{4}-\\d{2}", {"2024-01"}, {"2024-1", "x024-01"}},
    {REGEX, "[^a-y]", {"z", "\xC3\xA9", "\xF0\x9F\x8C\xB1"}, {"a", "\xC3", ""}},
    {REGEX, ".", {"a", "\xE2\x82\xAC"}, {"\n", "ab"}},
    {REGEX,
     "\\u20ac\\x41\\.",
     {"\xE2\x82\xAC"
      "A."},
     {"A.", "\xE2\x82\xAC"
            "Ax"}},
    {REGEX, "(a|bc)*d", {"d", "abcad"}, {"abd", "bcb"}},
    {REGEX, "(?<year>[0-9]+)?", {"", "12"}, {"x"}},
    {REGEX, "a{0}b{,2}", {"", "b", "bb"}, {"a", "bbb"}},
    {GBNF, "root ::= \"a\" b* # a comment\nb ::= [x-z] | \"q\\n\"", {"a", "axq\nz"}, {"", "b", "aq"}},
    {GBNF, "root ::= (\n  \"one\" |\n  \"two\"\n) \"!\"?", {"one", "two!"}, {"one!!", "three"}},
    {GBNF,
     "root ::= list\nlist ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= [0-9]+ | list",
     {"[]", "[1,[2,3],45]"},
     {"[,]", "[1"}},
    {GBNF,
     "root ::= [^\"]{2}",
     {"ab", "\xC3\xA9"
            "x"},
     {"a", "a\""}},
    {CHOICES, "[\"red\", \"reddish\"]", {"red", "reddish"}, {"re", "reddis", "blue"}},
    {CHOICES,
     "[\"ab\", \"abc\", \"b\", \"ab\", \"abde\", \"abdf\"]",
     {"ab", "abc", "b", "abde", "abdf"},
     {"a", "abd", "abcd", "bb"}},
    {REGEX, "(abx|abc|ab|a[bc]d|(?:ab))y", {"abxy", "abcy", "aby", "abdy", "acdy"}, {"ab", "ay", "acy", "abxdy"}},
    {REGEX,
     "(a?){30}a{3}",
     {"aaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
     {"aa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aab"}},
    {GBNF,
     "root ::= x \"1\" | x \"2\" | x y | \"p\"\nx ::= \"(\" root \")\" | \"q\"\ny ::= \"1\" | \"3\"",
     {"q1", "(p)2", "((q3)1)3", "p"},
     {"q", "(p2", "q11"}},
    {SCHEMA, "{\"enum\": [\"aa\", \"ab\", \"aa\", 1, 12]}", {"\"aa\"", "\"ab\"", "1", "12"}, {"\"a\"", "2", "\"aab\""}},
    {SCHEMA, "{\"type\": \"boolean\"}", {"true", "false"}, {"True", "1"}},
    {SCHEMA, "{\"type\": \"integer\"}", {"0", "-12", "345"}, {"01", "1.0", "-", "+1"}},
    {SCHEMA, "{\"type\": \"number\"}", {"0", "-1.5", "1e9", "2.50E-3"}, {".5", "1.", "01", "NaN"}},
    {SCHEMA,
     "{\"type\": \"string\"}",
     {"\"\"", "\"a\\n\\u00e9\xC3\xA9\"", "\"\\ud83c\\udf31\""},
     {"\"\n\"", "\"\\x\"", "a", "\"\\ud83c\""}},
    {SCHEMA,
     "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
     {"\"ab\"", "\"\xC3\xA9\\nb\""},
     {"\"a\"", "\"abcd\""}},
    {SCHEMA, "{\"type\": \"string\", \"pattern\": \"^[a-z]+$\"}", {"\"abc\""}, {"\"\"", "\"aB\""}},
    {SCHEMA, "{\"type\": \"string\", \"pattern\": \"x\\\"\"}", {"\"x\\\"\"", "\"aax\\\"b\""}, {"\"x\"", "\"\""}},
    {SCHEMA, "{\"format\": \"date\"}", {"\"2024-02-29\""}, {"\"2024-13-01\"", "\"24-01-01\""}},
    {SCHEMA, "{\"format\": \"uuid\"}", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""}},
    {SCHEMA,
     "{\"enum\": [\"x\", 1, null, {\"a\": [true]}]}",
     {"\"x\"", "1", "null", "{\"a\": [true]}"},
     {"x", "2", "\"y\""}},
    {SCHEMA, "{\"const\": \"a\\\"b\"}", {"\"a\\\"b\""}, {"\"a\""}},
    {SCHEMA, "{\"type\": [\"string\", \"null\"]}", {"\"a\"", "null"}, {"1"}},
    {SCHEMA, "{\"anyOf\": [{\"type\": \"integer\"}, {\"const\": \"no\"}]}", {"12", "\"no\""}, {"true"}},
    {SCHEMA,
     "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}",
     {"[]", "[1]", "[1, 2,3]", "[\n  1,\n  2\n]"},
     {"[1,]", "[a]", "[1 2]"}},
    {SCHEMA,
     "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, \"maxItems\": 2}",
     {"[1]", "[1,2]"},
     {"[]", "[1,2,3]"}},
    {SCHEMA,
     "{\"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"string\"}], \"items\": false, \"minItems\": 2}",
     {"[1,\"a\"]"},
     {"[1]", "[\"a\",1]", "[1,\"a\",2]"}},
    {SCHEMA, "{\"type\": \"array\", \"maxItems\": 0}", {"[]"}, {"[1]"}},
    {SCHEMA, "{\"type\": \"array\"}", {"[]", "[1, {\"a\": []}]"}, {"{}", "[1"}},
    {SCHEMA,
     "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"string\"}}, "
     "\"required\": [\"a\", \"b\"], "
     "\"additionalProperties\": false}",
     {"{\"a\":1,\"b\":\"x\"}", "{\"a\": 1, \"b\": \"x\"}", "{\n  \"a\": 1,\n  \"b\": \"\"\n}"},
     {"{}", "{\"a\":1}", "{\"b\":\"x\",\"a\":1}", "{\"a\":1,\"b\":\"x\",\"c\":2}", "{\"a\":1 ,\"b\":\"x\"}"}},
    {SCHEMA,
     "{\"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}, \"c\": {\"const\": 3}}, \"required\": [\"b\"]}",
     {"{\"b\":2}", "{\"a\":1,\"b\":2}", "{\"b\":2,\"c\":3}", "{\"a\":1,\"b\":2,\"c\":3}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"c\":3}", "{,\"b\":2}", "{\"b\":2,}"}},
    {SCHEMA,
     "{\"type\": \"object\", \"properties\": {\"ab\": {\"const\": 1}}, \"additionalProperties\": {\"type\": \"null\"}}",
     {"{}", "{\"ab\":1}", "{\"ab\":1,\"a\":null,\"abc\":null}", "{\"x\":null}", "{\"\xC3\xA9\":null}"},
     {"{\"ab\":null}", "{\"ab\":1,\"ab\":null}", "{\"x\":1}", "{\"a\\u0062\":null}"}},
    {SCHEMA,
     "{\"properties\": {\"b\": {\"const\": 1}, \"\xC3\xA9\": {\"const\": 2}, \"\xC3\xA8x\": {\"const\": 3}, \"\": "
     "{\"const\": 4}, "
     "\"bb\": {\"const\": 5}}, \"required\": [\"\xC3\xA9\"], \"additionalProperties\": {\"const\": 0}}",
     {"{\"\xC3\xA9\":2}", "{\"b\":1,\"\xC3\xA9\":2,\"\":4,\"bb\":5}",
      "{\"\xC3\xA9\":2,\"\xC3\xA8\":0,\"bbb\":0,\"\xC3\xA9x\":0}"},
     {"{}", "{\"\xC3\xA9\":0}", "{\"\xC3\xA9\":2,\"bb\":0}", "{\"\xC3\xA9\":2,\"\xC3\xA8x\":0}",
      "{\"\xC3\xA9\":2,\"b\":0}"}},
    {SCHEMA, "{\"type\": \"object\"}", {"{}", "{\"x\": [1, null]}"}, {"[]", "{x:1}"}},
    {SCHEMA, "true", {"1", "{\"a\": [\"b\", null]}", "\"x\""}, {"x", "{"}},
    {SCHEMA,
     "{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"properties\": {\"v\": {\"type\": \"integer\"}, \"next\": "
     "{\"anyOf\": [{\"$ref\": "
     "\"#/$defs/node\"}, {\"type\": \"null\"}]}}, \"required\": [\"v\", \"next\"], \"additionalProperties\": false}}}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
    {SCHEMA,
     "{\"type\": \"integer\", \"minimum\": 7, \"maximum\": 123}",
     {"7", "9", "10", "99", "100", "123"},
     {"6", "0", "124", "200", "-7", "07", "1000"}},
    {SCHEMA,
     "{\"type\": \"integer\", \"minimum\": -5, \"exclusiveMaximum\": 3}",
     {"-5", "-1", "0", "2"},
     {"-6", "3", "-0", "10"}},
    {SCHEMA, "{\"type\": \"integer\", \"minimum\": 18}", {"18", "19", "20", "100", "99999"}, {"17", "9", "-18"}},
    {SCHEMA, "{\"type\": \"integer\", \"maximum\": -10}", {"-10", "-11", "-99", "-100"}, {"-9", "10", "0"}},
    {SCHEMA,
     "{\"type\": \"number\", \"minimum\": 0, \"maximum\": 1}",
     {"0", "0.5", "1", "1.0", "0.999"},
     {"1.1", "-0.1", "2", "1.01"}},
    {SCHEMA,
     "{\"type\": \"number\", \"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1}",
     {"0.5", "0.001", "0.99"},
     {"0", "1", "0.0", "1.0", "0."}},
    {SCHEMA,
     "{\"type\": \"number\", \"minimum\": 0.25, \"maximum\": 0.75}",
     {"0.25", "0.3", "0.750", "0.7", "0.2500"},
     {"0.2", "0.24", "0.751", "0.8", "0"}},
    {SCHEMA,
     "{\"type\": \"number\", \"minimum\": -1.5, \"maximum\": 10}",
     {"-1.5", "-1", "-0.2", "0", "9.99", "10", "10.0"},
     {"-1.6", "-2", "10.1"}},
    {SCHEMA, "{\"type\": \"number\", \"exclusiveMinimum\": 2.5}", {"2.51", "3", "100.25"}, {"2.5", "2", "2.50"}},
    {SCHEMA, "{\"allOf\": [{\"type\": \"null\"}], \"title\": \"t\", \"description\": \"d\"}", {"null"}, {"1"}},
    {SCHEMA, "{\"type\": \"string\", \"nullable\": true}", {"null", "\"a\""}, {"1"}},
    {SCHEMA,
     "{\"oneOf\": [{\"$ref\": \"#/$defs/cat\"}, {\"type\": \"null\"}], \"discriminator\": {\"propertyName\": "
     "\"kind\"}, \"propertyOrdering\": [\"kind\"], \"$defs\": {\"cat\": {\"type\": \"object\", "
     "\"markdownDescription\": \"x\", "
     "\"properties\": {\"kind\": {\"const\": \"cat\", \"format\": \"path\"}}, \"required\": [\"kind\"]}}}",
     {"{\"kind\":\"cat\"}", "null"},
     {"{}", "{\"kind\":\"dog\"}"}},
    {SCHEMA,
     "{\"type\": \"string\", \"contentEncoding\": \"base64\", \"contentSchema\": {\"not\": {}}, \"madeUp\": [1], "
     "\"enumNames\": [\"a\"], \"format\": \"binary\", \"maxLength\": 2}",
     {"\"ab\"", "\"\""},
     {"\"abc\"", "1"}},
    {SCHEMA, "{\"type\": \"string\", \"format\": \"int32\"}", {"\"x\"", "\"\""}, {"1"}},
    {SCHEMA, "{\"type\": \"integer\", \"format\": \"int32\"}", {"1"}, {"\"x\""}},
    {SCHEMA, "{\"format\": \"password\"}", {"\"x\"", "1", "{}"}, {"x"}},
    {SCHEMA,
     "{\"type\": \"string\", \"format\": \"uri\", \"minLength\": 1, \"maxLength\": 2083}",
     {"\"https://a.nl/\""},
     {"\"a\"", "\"\""}},
    {SCHEMA, "{\"format\": \"uri\", \"maxLength\": 8}", {"\"a://b\"", "\"x\""}, {"\"https://a.nl/\""}},
    {SCHEMA, "{\"format\": \"date\", \"minLength\": 11}", {"\"2024-02-29!\""}, {"\"2024-02-29\""}},
    {SCHEMA, "{\"format\": \"date\", \"pattern\": \"^a$\"}", {"\"a\""}, {"\"2024-02-29\""}},
    {SCHEMA,
     "{\"type\": \"integer\", \"minLength\": 3, \"uniqueItems\": true, \"patternProperties\": {\"a\": {}}, "
     "\"minimum\": null}",
     {"1", "-20"},
     {"\"abc\"", "[]"}},
    {SCHEMA,
     "{\"type\": [\"string\", \"null\"], \"maxLength\": 1, \"maximum\": 1}",
     {"\"a\"", "null"},
     {"\"ab\"", "1"}},
    {SCHEMA,
     "{\"type\": \"array\", \"items\": {\"const\": 1}, \"uniqueItems\": false, \"minItems\": 0, \"additionalItems\": "
     "false, "
     "\"then\": {\"maxItems\": 0}}",
     {"[1,1]", "[]"},
     {"[2]"}},
    {SCHEMA,
     "{\"properties\": {\"a\": {\"const\": 1}}, \"patternProperties\": {}, \"minProperties\": 0, \"propertyNames\": "
     "true, "
     "\"unevaluatedProperties\": true, \"dependentRequired\": {}}",
     {"{\"a\":1}", "{}"},
     {"{\"a\":2}"}},
    {SCHEMA,
     "{\"$ref\": \"#/$defs/%C3%BC%20x\", \"$defs\": {\"\xC3\xBC x\": {\"$ref\": \"#/$defs/a~1b%7E0\"}, \"a/b~\": "
     "{\"const\": 7}}}",
     {"7"},
     {"8"}},
};

static void texts_are_taken_or_not(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        Error err = {""};
        Grammar *g = read_grammar(c->kind, c->text, &err);
        if (!g) fail_msg("%s: %s", c->text, err.text);
        for (int k = 0; k < MANY && c->yes[k]; k++)
            if (!takes(g, c->yes[k])) fail_msg("%s must take %s", c->text, c->yes[k]);
        for (int k = 0; k < MANY && c->no[k]; k++)
            if (takes(g, c->no[k])) fail_msg("%s must not take %s", c->text, c->no[k]);
        grammar_free(g);
    }
}

#define TOO_AMBIGUOUS                                                                                           \
    "the grammar (a pattern, schema or list of choices) is too ambiguous: too many ways through it have to be " \
    "followed at once"

static const struct {
    Kind kind;
    const char *text, *why;
} refused[] = {
    {REGEX, "(?=a)", "the pattern, at character 2: looking ahead or behind, and flags, are not supported"},
    {REGEX, "a\\b", "the pattern, at character 4: edges of words (\\b) are not supported"},
    {REGEX, "(a)\\1", "the pattern, at character 6: references back (\\1) are not supported"},
    {REGEX, "a(b", "the pattern, at character 4: a group is not closed by )"},
    {REGEX, "*a", "the pattern, at character 1: there is nothing to repeat"},
    {REGEX, "a$b", "the pattern, at character 2: anchors are supported at the two ends only"},
    {REGEX, "[b-a]", "the pattern, at character 5: a range ends before it begins"},
    {REGEX, "a{99999}", "the pattern, at character 7: it repeats too often"},
    {REGEX, "((a?){16384}){200}", TOO_AMBIGUOUS},
    {GBNF, "root ::= other", "the grammar: the rule other is not there"},
    {GBNF, "start ::= \"a\"", "the grammar has no rule named root"},
    {GBNF, "root ::= root \"a\" | \"b\"",
     "a rule begins with itself, which is not supported: put what repeats at its end"},
    {GBNF, "root ::= a\na ::= \"x\"\na ::= \"y\"", "the grammar, line 3: this rule is there twice"},
    {GBNF, "root ::= \"a", "the grammar, line 1: a text is not closed by \""},
    {SCHEMA, "{\"type\": \"array\", \"uniqueItems\": true}", "the schema: \"uniqueItems\" is not supported here"},
    {SCHEMA, "{\"type\": \"boolean\", \"not\": {\"const\": true}}", "the schema: \"not\" is not supported here"},
    {SCHEMA, "{\"type\": \"object\", \"patternProperties\": {\"a\": {}}}",
     "the schema: \"patternProperties\" is not supported here"},
    {SCHEMA, "{\"type\": \"object\", \"if\": {}, \"then\": {}}", "the schema: \"if\" is not supported here"},
    {SCHEMA, "{\"type\": \"object\", \"propertyNames\": {\"maxLength\": 2}}",
     "the schema: \"propertyNames\" is not supported here"},
    {SCHEMA, "{\"type\": \"object\", \"unevaluatedProperties\": false}",
     "the schema: \"unevaluatedProperties\" is not supported here"},
    {SCHEMA, "{\"type\": \"object\", \"dependentSchemas\": {\"a\": {}}}",
     "the schema: \"dependentSchemas\" is not supported here"},
    {SCHEMA, "{\"type\": \"array\", \"contains\": {}}", "the schema: \"contains\" is not supported here"},
    {SCHEMA, "{\"contains\": {\"const\": 1}}", "the schema: \"contains\" is not supported here"},
    {SCHEMA, "{\"type\": \"number\", \"multipleOf\": 0.5}", "the schema: \"multipleOf\" is supported as 1 only"},
    {SCHEMA, "{\"$ref\": \"#/$defs/a\", \"const\": null, \"$defs\": {\"a\": {}}}",
     "the schema: \"const\" is not supported here"},
    {SCHEMA, "{\"pattern\": \"a\", \"maxLength\": 2}",
     "the schema: \"pattern\" beside another limit of the string is not supported"},
    {SCHEMA, "{\"$ref\": \"#/$defs/%zz\", \"$defs\": {\"%zz\": {}}}",
     "the schema: \"$ref\" points to what is not there"},
    {SCHEMA, "{\"type\": \"text\"}", "the schema: \"type\" has a value that is not known"},
    {SCHEMA, "{\"$ref\": \"#/$defs/x\"}", "the schema: \"$ref\" points to what is not there"},
    {SCHEMA, "{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 4}", "no number lies between the bounds"},
    {SCHEMA, "{\"type\": \"object\", \"required\": [\"x\"]}",
     "the schema: \"required\" names what is not among the properties"},
    {SCHEMA, "{\"type\": \"string\", \"maxLength\": -1}",
     "the schema: \"maxLength\" must be a whole number from 0 to 2147483647"},
    {SCHEMA, "false", "the schema: a schema must be an object or true"},
    {CHOICES, "[]", "the choices must be a list of texts that are not empty"},
};

static void what_can_not_be_kept_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Error err = {""};
        Grammar *g = read_grammar(refused[i].kind, refused[i].text, &err);
        if (g) fail_msg("%s must be refused", refused[i].text);
        assert_string_equal(err.text, refused[i].why);
    }
}

/* Every token tried by itself after the same bytes. */
static void check_mask(const Grammar *g, GrammarRun *r, const Buffer *before) {
    const uint32_t *mask = grammar_run_allowed(r, NULL);
    assert_non_null(mask);
    for (int32_t id = 0; id < tokenizer_size(tokenizer); id++) {
        GrammarRun *fresh = grammar_run_new(g, tree, NULL);
        assert_true(grammar_run_text(fresh, buffer_string(before), before->length));
        bool ok = grammar_run_token(fresh, id), allowed = mask[id / 32] >> id % 32 & 1;
        if (ok != allowed) fail_msg("after %s: token %d", buffer_string(before), (int)id);
        grammar_run_free(fresh);
    }
}

/* Random walks through every grammar: masks are true, what they lead to is taken, and an end is reached. */
static void masks_are_what_trying_gives(void **state) {
    (void)state;
    srand(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err = {""};
        Grammar *g = read_grammar(cases[i].kind, cases[i].text, &err);
        GrammarRun *r = grammar_run_new(g, tree, NULL);
        Buffer text = {0};
        for (int step = 0; step < 30 && !grammar_run_must_end(r); step++) {
            if (step % 5 == 0) check_mask(g, r, &text);
            const uint32_t *mask = grammar_run_allowed(r, NULL);
            int32_t id, tries = 0;
            do id = rand() % tokenizer_size(tokenizer);
            while (!(mask[id / 32] >> id % 32 & 1) && ++tries < 100000);
            if (tries == 100000) {
                assert_true(grammar_run_can_end(r)); /* nothing more may come */
                break;
            }
            assert_true(grammar_run_token(r, id));
            tokenizer_bytes(tokenizer, id, &text);
        }
        grammar_run_free(r);
        grammar_free(g);
        buffer_clear(&text);
    }
}

/* A text long enough that states are forgotten: deep, so that no state comes twice. */
static void a_long_run_stays_right(void **state) {
    (void)state;
    enum { DEEP = 3000 };
    Error err = {""};
    Grammar *g = read_grammar(SCHEMA, "true", &err);
    GrammarRun *r = grammar_run_new(g, tree, NULL);
    for (int i = 0; i < DEEP; i++) {
        assert_true(grammar_run_text(r, "[{\"k\":", 6));
        if (i % 50 == 0) assert_non_null(grammar_run_allowed(r, NULL));
    }
    assert_true(grammar_run_text(r, "1", 1));
    for (int i = 0; i < DEEP; i++) {
        assert_false(grammar_run_can_end(r));
        assert_true(grammar_run_text(r, "}]", 2));
        if (i % 50 == 0) assert_non_null(grammar_run_allowed(r, NULL));
    }
    assert_true(grammar_run_can_end(r));
    assert_false(grammar_run_text(r, "]", 1));
    assert_true(grammar_run_can_end(r)); /* what may not come changes nothing */
    grammar_run_free(r);
    grammar_free(g);
}

/* cases.md 18: however much a model wants blanks, they end. */
static void blanks_are_bounded(void **state) {
    (void)state;
    Error err = {""};
    Grammar *g =
        read_grammar(SCHEMA,
                     "{\"type\": \"object\", \"properties\": {\"volledige naam\": {\"enum\": [\"x\"]}}, \"required\": "
                     "[\"volledige naam\"], \"additionalProperties\": false}",
                     &err);
    static const char *const wishes[] = {"  ", "\n   ", " ", "\n", "{\"", "<0x"};
    GrammarRun *r = grammar_run_new(g, tree, NULL);
    Buffer text = {0};
    int blanks = 0, most = 0;
    for (int step = 0; step < 200 && !grammar_run_must_end(r); step++) {
        const uint32_t *mask = grammar_run_allowed(r, NULL);
        int32_t chosen = -1;
        for (size_t i = 0; i < sizeof wishes / sizeof *wishes && chosen < 0; i++) {
            int32_t id = tokenizer_find(tokenizer, wishes[i]);
            if (id < 0 && strcmp(wishes[i], " ") == 0) id = ' ';
            if (id >= 0 && mask[id / 32] >> id % 32 & 1) chosen = id;
        }
        for (int32_t id = 0; chosen < 0 && id < tokenizer_size(tokenizer); id++)
            if (mask[id / 32] >> id % 32 & 1) chosen = id;
        assert_true(chosen >= 0 && grammar_run_token(r, chosen));
        size_t before = text.length;
        tokenizer_bytes(tokenizer, chosen, &text);
        for (size_t i = before; i < text.length; i++) {
            blanks = text.data[i] == ' ' || text.data[i] == '\n' ? blanks + 1 : 0;
            if (blanks > most) most = blanks;
        }
    }
    assert_true(grammar_run_must_end(r));
    assert_true(most <= 16);
    assert_non_null(strstr(buffer_string(&text), "\"volledige naam\":"));
    grammar_run_free(r);
    grammar_free(g);
    buffer_clear(&text);
}

/* What follows the beginning that all choices share must be found without following each of them. */
static void many_choices_are_one_way(void **state) {
    (void)state;
    enum { CHOICES_N = 50000 };
    Error err = {""};
    Buffer json = {0};
    for (int i = 0; i < CHOICES_N; i++) buffer_printf(&json, "%s\"item/%05d of the list\"", i ? ", " : "[", i);
    buffer_text(&json, "]");
    Grammar *g = read_grammar(CHOICES, buffer_string(&json), &err);
    assert_non_null(g);
    assert_true(takes(g, "item/00000 of the list"));
    assert_true(takes(g, "item/49999 of the list"));
    assert_false(takes(g, "item/50000 of the list"));
    GrammarRun *r = grammar_run_new(g, tree, &err);
    assert_true(grammar_run_text(r, "item/49", 7));
    const uint32_t *mask = grammar_run_allowed(r, &err);
    assert_non_null(mask);
    for (int32_t id = 0; id < tokenizer_size(tokenizer); id++) {
        bool digits =
            (id >= '0' && id <= '9') || id == tokenizer_find(tokenizer, "12") || id == tokenizer_find(tokenizer, "345");
        assert_int_equal(mask[id / 32] >> id % 32 & 1, digits);
    }
    assert_false(grammar_run_must_end(r));
    assert_true(grammar_run_text(r, "123 of the list", 15));
    assert_true(grammar_run_must_end(r));
    grammar_run_free(r);
    grammar_free(g);
    buffer_clear(&json);
}

/* Requests are read on the thread that answers all of them, so no reader may look at everything for each thing. */
static void large_grammars_are_read_at_once(void **state) {
    (void)state;
    enum { PARTS = 20000, LONG = 1025 };
    Error err = {""};
    Buffer rules = {0}, properties = {0}, names = {0}, schema = {0};
    buffer_text(&rules, "root ::= r0\n");
    for (int i = 0; i < PARTS; i++) {
        buffer_printf(&rules, "r%d ::= \"x\" r%d\n", i, i + 1);
        buffer_printf(&properties, "%s\"p%05d\": {\"const\": %d}", i ? ", " : "", i, i);
        buffer_printf(&names, "%s\"p%05d\"", i ? ", " : "", i);
    }
    buffer_printf(&rules, "r%d ::= \"y\"\n", PARTS);
    buffer_printf(&schema, "{\"properties\": {%s}, \"required\": [%s], \"additionalProperties\": true}",
                  buffer_string(&properties), buffer_string(&names));
    Grammar *g = read_grammar(GBNF, buffer_string(&rules), &err);
    assert_non_null(g);
    assert_false(takes(g, "xxy"));
    grammar_free(g);
    g = read_grammar(SCHEMA, buffer_string(&schema), &err);
    assert_non_null(g);
    GrammarRun *r = grammar_run_new(g, tree, &err);
    assert_true(grammar_run_text(r, "{\"p00000\":0,\"p00001\":1", 22));
    assert_false(grammar_run_text(r, ",\"p00003\"", 9));
    grammar_run_free(r);
    grammar_free(g);
    buffer_reset(&schema);
    buffer_printf(&schema, "{\"properties\": {\"%0*d\": {}}, \"additionalProperties\": true}", LONG, 0);
    assert_null(read_grammar(SCHEMA, buffer_string(&schema), &err));
    assert_string_equal(err.text, "the schema: \"additionalProperties\" beside so long a name is not supported");
    buffer_clear(&rules);
    buffer_clear(&properties);
    buffer_clear(&names);
    buffer_clear(&schema);
}

/* 26,000 places to be in, and others after every letter: known to be too many only when the mask is made. */
static void a_mask_beyond_a_steps_time_is_an_error(void **state) {
    (void)state;
    static const char pattern[] = "(a?b?c?d?e?f?g?h?i?j?k?l?m?n?o?p?q?r?s?t?u?v?w?x?y?z?){500}";
    Error err = {""}, before = {""};
    Grammar *g = grammar_from_regex(pattern, strlen(pattern), &err);
    assert_non_null(g);
    assert_false(grammar_can_begin(g, tree, &before));
    assert_string_equal(before.text, TOO_AMBIGUOUS);
    GrammarRun *r = grammar_run_new(g, tree, &err);
    assert_non_null(r);
    assert_null(grammar_run_allowed(r, &err));
    assert_string_equal(err.text, TOO_AMBIGUOUS);
    grammar_run_free(r);
    grammar_free(g);
    g = grammar_from_regex("((a?){500}){4}a{500}", 20, &err); /* 4,000 places, and a few tokens of them */
    assert_true(grammar_can_begin(g, tree, &err));
    grammar_free(g);
}

/* NUL is a character like any other, not the end of a list of those that mean something. */
static void a_nul_in_a_pattern_is_a_character(void **state) {
    (void)state;
    Error err = {""};
    Grammar *g = grammar_from_regex("a\0b", 3, &err);
    GrammarRun *r = grammar_run_new(g, tree, &err);
    assert_false(grammar_run_text(r, "ab", 2));
    assert_false(grammar_run_text(r, "aa", 2));
    assert_true(grammar_run_text(r, "a\0b", 3) && grammar_run_must_end(r));
    grammar_run_free(r);
    grammar_free(g);
    assert_null(grammar_from_gbnf("root ::= \"a\" \0 \"b\"", 18, &err));
    assert_null(read_grammar(SCHEMA, "{\"type\": \"string\", \"pattern\": \"^a\\u0000b$\"}", &err));
    assert_string_equal(err.text, "no text fits the grammar");
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    bool done = false;
    for (uint64_t nth = 1; !done; nth += 1 + nth / 8) {
        Error err = {""};
        uint64_t before = mem_count();
        mem_fail_after(nth);
        Grammar *g = grammar_from_regex("(?:a[b-z]{1,5}|\\d+)*x", 21, &err);
        GrammarRun *r = g ? grammar_run_new(g, tree, &err) : NULL;
        bool ok = r && grammar_run_allowed(r, &err) && grammar_run_text(r, "abc12x", 6) && grammar_run_can_end(r);
        mem_fail_after(0);
        done = mem_count() - before < nth;
        if (done) assert_true(ok);
        grammar_run_free(r);
        grammar_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_taken_or_not),
        cmocka_unit_test(what_can_not_be_kept_is_refused),
        cmocka_unit_test(masks_are_what_trying_gives),
        cmocka_unit_test(a_long_run_stays_right),
        cmocka_unit_test(many_choices_are_one_way),
        cmocka_unit_test(large_grammars_are_read_at_once),
        cmocka_unit_test(a_mask_beyond_a_steps_time_is_an_error),
        cmocka_unit_test(a_nul_in_a_pattern_is_a_character),
        cmocka_unit_test(blanks_are_bounded),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
