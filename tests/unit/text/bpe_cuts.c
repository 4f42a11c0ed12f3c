/* Where a document may be cut before it is merged, and that nothing but speed comes of it. */
#include "text/bpe_cuts.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/rng.h"
#include "text/tokenizer.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define S "\xE2\x96\x81"

/* The parts of a text under these tokens (a NULL ends them), joined by '|'. */
static void cuts_to(const char *const *tokens, int32_t unknown, const char *text, const char *expected) {
    VocabEntry entries[20];
    size_t n = 0;
    for (; tokens[n]; n++) entries[n] = (VocabEntry){tokens[n], (uint32_t)strlen(tokens[n]), (int32_t)n};
    Vocab v;
    assert_true(vocab_build(&v, entries, n, true, NULL));
    BpeCuts cuts;
    bpe_cuts_find(&cuts, &v, unknown);
    Buffer b = {0};
    for (size_t left = strlen(text); left;) {
        size_t length = cuts.usable ? bpe_cuts_next(&cuts, text, left) : left;
        buffer_append(&b, text, length);
        left -= length;
        text += length;
        if (left) buffer_byte(&b, '|');
    }
    assert_string_equal(buffer_string(&b), expected);
    buffer_clear(&b);
    vocab_clear(&v);
}

static void a_cut_is_where_no_token_reaches_across(void **state) {
    (void)state;
    const char *const plain[] = {S, "a", S "a", S S, S S "a", "\xC3\xA9", NULL};
    cuts_to(plain, -1, S "ab" S "c" S S S "\xC3\xA9" S "z", S "ab|" S "c|" S S S "\xC3\xA9|" S "z");
    cuts_to(plain, -1, "a" S, "a|" S);
    cuts_to(plain, -1, S, S);
    cuts_to(plain, -1, "a\xE2\x96\x80" S "\xE2\x96\xE2", "a\xE2\x96\x80|" S "\xE2\x96\xE2");
    const char *const binding[] = {S, "a", ">" S "</", "\xC3\xA9" S "x" S, S S "a", NULL};
    cuts_to(binding, -1, "a" S ">" S "a" S "\xC3\xA9" S "x" S "e" S,
            "a|" S ">" S "a|" S "\xC3\xA9" S "x" S "e|" S); /* '>', 'e acute' and 'x' bind */
    const char *const no_sign[] = {"a", S "a", NULL};
    cuts_to(no_sign, -1, "a" S "a", "a" S "a");
    const char *const byte[] = {S, ">" S, "<0xE2>" S, NULL};
    cuts_to(byte, -1, "a" S "a", "a" S "a");
    const char *const unknown[] = {S, "u" S, "x", "<unk>", "a<unk>" S "b", NULL};
    cuts_to(unknown, 3, "a" S "a", "a" S "a");
    cuts_to(unknown, 2, "a" S "u" S ">" S "c", "a|" S "u" S ">" S "c");
    char many[18][8];
    const char *tokens[20] = {S};
    for (int i = 0; i < 17; i++) {
        many[i][0] = (char)('a' + i);
        memcpy(many[i] + 1, S, 4);
        tokens[1 + i] = many[i];
        tokens[2 + i] = NULL;
        if (i == 15) cuts_to(tokens, -1, "a" S "z" S, "a" S "z|" S);
    }
    cuts_to(tokens, -1, "a" S "z" S, "a" S "z" S);
}

/* ---- the same ids ---- */

static const char *const letters[] = {S, "a", "b", ">", "\xC3\xA9", "q"}; /* q is no token */
enum { N_LETTERS = 6, N_KNOWN = 5, N_MERGES = 14 };

static int pick(uint64_t seed, uint32_t stream, uint64_t i, int n) {
    return (int)(rng_uniform(seed, stream, i) * n);
}

/* A model of random merges. ignore_merges looks a piece up as a whole first, which a long one never is, and turns
 * cutting off. */
static Tokenizer *random_model(uint64_t seed, bool uncut) {
    char tokens[N_KNOWN + N_MERGES][41];
    Buffer b = {0}, merges = {0};
    int n = N_KNOWN;
    for (int i = 0; i < N_KNOWN; i++) snprintf(tokens[i], sizeof tokens[i], "%s", letters[i]);
    for (uint64_t i = 0; i < N_MERGES; i++) {
        const char *left = tokens[pick(seed, 1, 2 * i, n)], *right = tokens[pick(seed, 1, 2 * i + 1, n)];
        if (strlen(left) + strlen(right) > 20) continue;
        char joined[41];
        snprintf(joined, sizeof joined, "%.20s%.20s", left, right);
        bool known = false;
        for (int k = 0; k < n; k++) known |= strcmp(tokens[k], joined) == 0;
        if (known) continue;
        buffer_printf(&merges, "%s[\"%s\",\"%s\"]", merges.length ? "," : "", left, right);
        memcpy(tokens[n++], joined, sizeof joined);
    }
    buffer_text(&b, "{\"model\":{\"type\":\"BPE\",");
    if (seed % 3) buffer_printf(&b, "\"unk_token\":\"%s\",", letters[seed % N_KNOWN]);
    buffer_printf(&b, "\"fuse_unk\":%s,\"ignore_merges\":%s,\"vocab\":{", seed & 1 ? "true" : "false",
                  uncut ? "true" : "false");
    for (int i = 0; i < n; i++) buffer_printf(&b, "%s\"%s\":%d", i ? "," : "", tokens[i], i);
    buffer_printf(&b, "},\"merges\":[%s]}}", buffer_string(&merges));
    Error err = {""};
    Tokenizer *t = tokenizer_parse(b.data, b.length, NULL, 0, &err);
    if (!t) fail_msg("%s", err.text);
    buffer_clear(&b);
    buffer_clear(&merges);
    return t;
}

static void cutting_changes_no_id(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        Tokenizer *cut = random_model(seed, false), *uncut = random_model(seed, true);
        for (uint32_t k = 0; k < 5; k++) {
            Buffer text = {0};
            for (uint64_t i = 0; i < 200; i++) buffer_text(&text, letters[pick(seed, 2 + k, i, N_LETTERS)]);
            IdList a = {0}, b = {0};
            assert_true(tokenizer_encode(cut, text.data, text.length, 0, &a, NULL));
            assert_true(tokenizer_encode(uncut, text.data, text.length, 0, &b, NULL));
            if (a.n != b.n || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) != 0)
                fail_msg("seed %d: %s", (int)seed, text.data);
            id_list_clear(&a);
            id_list_clear(&b);
            buffer_clear(&text);
        }
        tokenizer_free(cut);
        tokenizer_free(uncut);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_where_no_token_reaches_across),
        cmocka_unit_test(cutting_changes_no_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
