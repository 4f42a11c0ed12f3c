/* From ids to text. Whole decoding is the stream with every id pushed, so that the two cannot differ. */
#include "base/memory.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

struct Detok {
    const Tokenizer *tokenizer;
    bool skip_special;
    const int32_t *kept;
    size_t n_kept;
    DecodeState state;
};

static bool is_hidden(const Tokenizer *t, int32_t id) {
    const AddedToken *added = added_by_id(&t->added, id);
    return added && added->hidden;
}

/* An id within the vocabulary's range but without a token is passed over, as the reference does. */
static bool push(const Tokenizer *t, DecodeState *state, int32_t id, bool skip_special, Buffer *out, Error *err) {
    if (id < 0 || id >= tokenizer_size(t)) {
        return error_set(err, "token id %d is outside the vocabulary of %d tokens", (int)id, (int)tokenizer_size(t));
    }
    size_t n;
    const char *token = tokenizer_token(t, id, &n);
    if (!token || (skip_special && is_hidden(t, id))) return true;
    return decode_token(state, token, n, out, err);
}

bool tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special, Buffer *out, Error *err) {
    DecodeState state;
    size_t before = out->length;
    if (!decode_start(&state, &t->decoder, err)) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) ok = push(t, &state, ids[i], skip_special, out, err);
    ok = ok && decode_finish(&state, out, err);
    decode_clear(&state);
    if (!ok && out->data) {
        out->length = before;
        out->data[before] = 0;
    }
    return ok;
}

Detok *detok_new(const Tokenizer *t, bool skip_special, Error *err) {
    Detok *d = mem_zeroed(1, sizeof *d);
    if (!d) {
        error_memory(err, "decoding");
        return NULL;
    }
    d->tokenizer = t;
    d->skip_special = skip_special;
    if (decode_start(&d->state, &t->decoder, err)) return d;
    mem_free(d);
    return NULL;
}

void detok_free(Detok *d) {
    if (!d) return;
    decode_clear(&d->state);
    mem_free(d);
}

void detok_keep(Detok *d, const int32_t *ids, size_t n) {
    d->kept = ids;
    d->n_kept = n;
}

static bool is_kept(const Detok *d, int32_t id) {
    for (size_t i = 0; i < d->n_kept; i++)
        if (d->kept[i] == id) return true;
    return false;
}

bool detok_push(Detok *d, int32_t id, Buffer *out, Error *err) {
    return push(d->tokenizer, &d->state, id, d->skip_special && !is_kept(d, id), out, err);
}

bool detok_finish(Detok *d, Buffer *out, Error *err) {
    return decode_finish(&d->state, out, err);
}
