/* SentencePiece's precompiled character map: a double-array trie from byte strings to replacements. */
#ifndef LOCKSTEP_TEXT_CHARSMAP_H
#define LOCKSTEP_TEXT_CHARSMAP_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

typedef struct Charsmap {
    uint32_t *units;
    size_t n_units;
    char *replacements;    /* each ends in a NUL; one more NUL at the end */
    size_t n_replacements; /* bytes */
} Charsmap;

bool charsmap_load(Charsmap *c, const char *base64, size_t n, Error *err);
bool charsmap_load_bytes(Charsmap *c, const unsigned char *bytes, size_t n, Error *err);
void charsmap_clear(Charsmap *c);
/* Appends the mapped text, as tokenizer.json's Precompiled does it. */
void charsmap_apply(const Charsmap *c, const char *text, size_t n, Buffer *out);

/* SentencePiece's own way: the bytes of text[0..n) that one step takes in (the longest key, else one character), and
 * what stands for them. n > 0. */
size_t charsmap_step(const Charsmap *c, const char *text, size_t n, const char **out, size_t *n_out);

#endif
