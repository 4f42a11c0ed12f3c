/* The decoder of tokenizer.json: from tokens back to text, token by token. */
#ifndef LOCKSTEP_TEXT_DECODE_H
#define LOCKSTEP_TEXT_DECODE_H

#include "base/json.h"
#include "text/pattern.h"

typedef enum DecoderKind {
    DECODE_BYTE_LEVEL,
    DECODE_WORDPIECE,
    DECODE_METASPACE,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_REPLACE,
    DECODE_CTC,
    DECODE_BPE,
    DECODE_SPACED, /* no decoder: tokens with blanks between them */
} DecoderKind;

typedef struct DecoderStep {
    DecoderKind kind;
    Pattern *pattern;        /* REPLACE */
    char *literal, *content; /* REPLACE: the pattern, if it is plain text; what replaces it */
    char *prefix;            /* WORDPIECE; BPE's suffix; CTC's pad token; METASPACE's and STRIP's character */
    char *delimiter;         /* CTC */
    bool cleanup;            /* WORDPIECE, CTC */
    bool drop_first;         /* METASPACE: the first token loses the character instead of getting blanks */
    size_t start, stop;      /* STRIP */
} DecoderStep;

typedef struct Decoder {
    DecoderStep *steps; /* sequences are laid flat */
    size_t n;
} Decoder;

/* `byte_level`: the vocabulary is byte-level because of its pre-tokenizer; then that decides, whatever v says. */
bool decoder_load(Decoder *d, const JsonValue *v, bool byte_level, Error *err);
/* Adds transformers' cleanup of tokenization spaces behind all other steps. */
bool decoder_add_cleanup(Decoder *d, Error *err);
void decoder_clear(Decoder *d);

/* One step's memory of a stream. */
typedef struct DecodeStage {
    Buffer held;     /* text that later tokens may still change */
    size_t tokens;   /* seen so far */
    bool open;       /* has begun an output token that goes on */
    size_t to_strip; /* STRIP: characters that may still go at the start */
} DecodeStage;

typedef struct DecodeState {
    const Decoder *decoder;
    DecodeStage *stages;
    PatternScratch scratch;
    SpanList spans;
    Buffer work;
} DecodeState;

bool decode_start(DecodeState *s, const Decoder *d, Error *err);
/* Appends what is certain now; all is UTF-8. */
bool decode_token(DecodeState *s, const char *token, size_t n, Buffer *out, Error *err);
bool decode_finish(DecodeState *s, Buffer *out, Error *err);
void decode_clear(DecodeState *s);

/* Appends text with every occurrence of `from` replaced. */
void decode_append_replaced(Buffer *out, const char *text, size_t n, const char *from, const char *to);

#endif
