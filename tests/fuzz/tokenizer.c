/* Fuzz target: a tokenizer.json, then after a zero byte the text to encode with it. What was encoded is decoded, whole
 * and piece by piece, and both must agree; and it becomes a pair with itself, whole and cut. */
#define _GNU_SOURCE
#include "fuzz/input.h"

#include "base/memory.h"
#include "text/tokenizer.h"

#include <string.h>

static void decode_both_ways(const Tokenizer *t, const IdList *ids) {
    Error err;
    Buffer whole = {0}, pieces = {0};
    bool good = tokenizer_decode(t, ids->ids, ids->n, false, &whole, &err);
    Detok *detok = detok_new(t, false, &err);
    if (good && detok) {
        for (size_t i = 0; good && i < ids->n; i++) good = detok_push(detok, ids->ids[i], &pieces, &err);
        good = good && detok_finish(detok, &pieces, &err);
        if (!good || whole.length != pieces.length ||
            memcmp(buffer_string(&whole), buffer_string(&pieces), whole.length) != 0)
            __builtin_trap();
    }
    detok_free(detok);
    buffer_clear(&whole);
    buffer_clear(&pieces);
}

static void pair_with_itself(const Tokenizer *t, const IdList *ids, size_t max) {
    Error err;
    IdList pair = {0}, types = {0};
    size_t n_cut = 0;
    if (tokenizer_pair(t, ids, ids, max, &pair, &types, &n_cut, &err) && (pair.n != types.n || n_cut > 2 * ids->n))
        __builtin_trap();
    id_list_clear(&pair);
    id_list_clear(&types);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t n = zero ? (size_t)(zero - data) : size;
    const char *text = zero ? (const char *)zero + 1 : "a  b\n 12 \xc3\xa9";
    size_t n_text = zero ? size - n - 1 : strlen(text);
    Error err;
    Tokenizer *t = tokenizer_parse((const char *)data, n, NULL, 0, &err);
    if (!t) return 0;
    IdList ids = {0};
    if (tokenizer_encode(t, text, n_text, ENCODE_SPECIAL, &ids, &err)) {
        decode_both_ways(t, &ids);
        pair_with_itself(t, &ids, SIZE_MAX);
        pair_with_itself(t, &ids, ids.n);
    }
    id_list_clear(&ids);
    tokenizer_free(t);
    return 0;
}
