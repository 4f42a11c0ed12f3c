/* A post-processor is a list of steps, of which it is not asked what they add: the ids of a text with and without them
 * tell. */
#include "text/affixes.h"

#include <string.h>

/* `whole` is some of `bare`, the special tokens alone, then ids of a text, then the rest of bare. */
static size_t count_before(const IdList *whole, const IdList *bare) {
    size_t n = whole->n - bare->n, before = 0;
    while (before < bare->n && bare->ids[before] == whole->ids[before]) before++;
    for (;; before--) {
        size_t after = bare->n - before;
        if (before == 0 || memcmp(bare->ids + before, whole->ids + before + n, after * sizeof *bare->ids) == 0)
            return before;
    }
}

bool affixes_find(const Tokenizer *t, IdList *out, size_t *n_before, Error *err) {
    IdList whole = {0};
    bool ok = tokenizer_encode(t, "", 0, ENCODE_SPECIAL, out, err) &&
              tokenizer_encode(t, "a", 1, ENCODE_SPECIAL, &whole, err);
    if (ok) *n_before = whole.n > out->n ? count_before(&whole, out) : 0;
    id_list_clear(&whole);
    return ok;
}
