/* Fuzz target: the bytes of a SentencePiece model, or of a tiktoken file when the first byte is even, without their
 * folder. What loads must encode and decode. */
#include "base/memory.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const Tokenizer *t) {
    static const char text[] = " some  text, \xC3\xA9\xE4\xB8\xAD\xF0\x9F\x8C\xB1 12";
    Error err;
    IdList ids = {0};
    Buffer out = {0};
    if (tokenizer_encode(t, text, sizeof text - 1, ENCODE_SPECIAL, &ids, &err)) {
        tokenizer_decode(t, ids.ids, ids.n, false, &out, &err);
    }
    id_list_clear(&ids);
    buffer_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error err;
    Tokenizer *t = size ? mem_zeroed(1, sizeof *t) : NULL;
    if (!t) return 0;
    NormalizeScratch scratch = {0};
    const char *bytes = (const char *)data + 1;
    bool ok = data[0] % 2 ? tokenizer_from_sentencepiece(t, bytes, size - 1, NULL, &err)
                          : tokenizer_from_tiktoken(t, bytes, size - 1, NULL, &err);
    if (ok && added_prepare(&t->added, &t->normalizer, &scratch, &err)) use(t);
    normalize_scratch_clear(&scratch);
    tokenizer_free(t);
    return 0;
}
