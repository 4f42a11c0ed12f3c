/* Text to ids and back, as the tokenizer.json of a checkpoint says and as Python's `tokenizers` does it. */
#ifndef LOCKSTEP_TEXT_TOKENIZER_H
#define LOCKSTEP_TEXT_TOKENIZER_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

typedef struct Tokenizer Tokenizer;

typedef struct IdList {
    int32_t *ids;
    size_t n, capacity;
} IdList;
bool id_list_push(IdList *list, int32_t id); /* false when out of memory */
bool id_list_append(IdList *list, const int32_t *ids, size_t n);
void id_list_clear(IdList *list); /* frees */

enum {
    ENCODE_SPECIAL = 1, /* add what the post-processor adds */
};

/* Reads a folder's tokenizer.json (and tokenizer_config.json where it is there); without one its tekken.json,
 * SentencePiece model or tiktoken file. */
Tokenizer *tokenizer_load(const char *folder, Error *err);
/* The same from memory: the text of tokenizer.json, and of tokenizer_config.json or NULL. */
Tokenizer *tokenizer_parse(const char *json, size_t n, const char *config, size_t n_config, Error *err);
void tokenizer_free(Tokenizer *t);

/* Appends ids. The text must be valid UTF-8: an error gives the offset of the first bad byte. Safe from several
 * threads. */
bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags, IdList *out, Error *err);

/* Appends the ids of two texts, which were encoded without special tokens, as the pair that the post-processor makes of
 * them, and to `types` the type of each. Where they are more than `max`, tokens are left out as truncation
 * "longest_first" does it: the longer text loses its end, and where that is not enough each keeps about half; *n_cut:
 * how many. */
bool tokenizer_pair(const Tokenizer *t, const IdList *first, const IdList *second, size_t max, IdList *ids,
                    IdList *types, size_t *n_cut, Error *err);

/* The number of ids, added tokens included: 1 + the largest id. */
int32_t tokenizer_size(const Tokenizer *t);
int32_t tokenizer_find(const Tokenizer *t, const char *token); /* -1 when absent */
bool tokenizer_is_special(const Tokenizer *t, int32_t id);
/* The token as tokenizer.json spells it (an added token with the "normalized" flag: normalized); NULL for an id that
 * has none. */
const char *tokenizer_token(const Tokenizer *t, int32_t id, size_t *n);

/* Appends the bytes that the token stands for in the middle of a text: part of a character, too. */
void tokenizer_bytes(const Tokenizer *t, int32_t id, Buffer *out);

/* Whole decoding, appended to out: equals Python's decode(ids, skip_special_tokens=skip), with the cleanup of spaces if
 * tokenizer_config.json asks for it (and the model is not BPE). Always valid UTF-8. An id
 * outside the vocabulary is an error that names it. */
bool tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_special, Buffer *out, Error *err);

/* Incremental decoding: the pushed pieces joined equal the whole decode. An incomplete character is held back until
 * the next token completes it, or detok_finish ends it. */
typedef struct Detok Detok;
Detok *detok_new(const Tokenizer *t, bool skip_special, Error *err); /* t must outlive it */
void detok_free(Detok *d);
/* Special tokens that are not skipped all the same: few, and the list must outlive d. */
void detok_keep(Detok *d, const int32_t *ids, size_t n);
bool detok_push(Detok *d, int32_t id, Buffer *out, Error *err);
bool detok_finish(Detok *d, Buffer *out, Error *err);

#endif
