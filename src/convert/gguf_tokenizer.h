/* The tokenizer files of a checkpoint from a GGUF file's vocabulary. Each appends the text of one file. */
#ifndef LOCKSTEP_CONVERT_GGUF_TOKENIZER_H
#define LOCKSTEP_CONVERT_GGUF_TOKENIZER_H

#include "convert/gguf_model.h"

/* Where the merges of a vocabulary come from, and with them what its spaces look like. */
typedef enum VocabKind {
    VOCAB_BYTES,     /* byte-level BPE: a list of merges */
    VOCAB_SPM,       /* SentencePiece BPE: scores; spaces are U+2581 */
    VOCAB_SPACED,    /* like SPM, but with a list of merges */
    VOCAB_WORDPIECE, /* gguf_encoder_vocab.h, and UNIGRAM */
    VOCAB_UNIGRAM,
    VOCAB_GREEDY, /* RWKV's, gguf_rwkv_vocab.h */
} VocabKind;

typedef struct PreTokenizer {
    const char *name;       /* tokenizer.ggml.pre */
    const char *json;       /* "pre_tokenizer" of tokenizer.json */
    const char *normalizer; /* likewise */
    bool ignore_merges;     /* a word that is a token is not merged */
    bool adds_bos;          /* when the file does not say; encoders add their last token then, too */
    VocabKind kind;
    const char *decoder;
} PreTokenizer;

/* The rows for vocabularies that are known by their kind; an encoder's normalizer depends on its file. */
extern const PreTokenizer pre_tokenizer_wordpiece, pre_tokenizer_unigram, pre_tokenizer_greedy;
const PreTokenizer *pre_tokenizer_spm(bool space_prefix, bool has_merges);
/* The row of a name; NULL for an unknown one. */
const PreTokenizer *pre_tokenizer_find(const char *name, size_t length);
/* All names, "a, b, c". */
void pre_tokenizer_names(Buffer *out);

/* Refuses vocabularies of another kind, unknown pre-tokenisers, ids out of range, text that is no UTF-8. */
bool gguf_tokenizer_json(const GgufModel *model, Buffer *out, Error *err);
bool gguf_tokenizer_config(const GgufModel *model, Buffer *out, Error *err);
bool gguf_generation_config(const GgufModel *model, Buffer *out, Error *err);
/* chat_template.jinja; nothing when there is none, or when there are several (tokenizer_config.json holds those). */
bool gguf_chat_template(const GgufModel *model, Buffer *out, Error *err);

#endif
