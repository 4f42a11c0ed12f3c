/* The pre_tokenizer of tokenizer.json: from normalized text to pieces. */
#ifndef LOCKSTEP_TEXT_PRETOKENIZE_H
#define LOCKSTEP_TEXT_PRETOKENIZE_H

#include "base/json.h"
#include "text/pattern.h"
#include "text/pieces.h"

typedef enum PretokenizerKind {
    PRETOKENIZE_BYTE_LEVEL,
    PRETOKENIZE_SPLIT,
    PRETOKENIZE_WHITESPACE,
    PRETOKENIZE_WHITESPACE_SPLIT,
    PRETOKENIZE_DIGITS,
    PRETOKENIZE_PUNCTUATION,
    PRETOKENIZE_BERT,
    PRETOKENIZE_METASPACE,
    PRETOKENIZE_DELIMITER,
    PRETOKENIZE_SCRIPTS,
    PRETOKENIZE_FIXED_LENGTH,
} PretokenizerKind;

/* What becomes of the matches of a split. */
typedef enum SplitBehavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
} SplitBehavior;

typedef enum PrependScheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } PrependScheme;

typedef struct PretokenizerStep {
    PretokenizerKind kind;
    SplitBehavior behavior;
    bool invert;
    Pattern *pattern;     /* SPLIT; BYTE_LEVEL with its expression */
    bool prefix_space;    /* BYTE_LEVEL */
    bool individual;      /* DIGITS */
    bool split;           /* METASPACE */
    PrependScheme scheme; /* METASPACE */
    char character[5];    /* METASPACE's replacement, DELIMITER */
    size_t count;         /* FIXED_LENGTH */
} PretokenizerStep;

typedef struct Pretokenizer {
    PretokenizerStep *steps; /* sequences are laid flat */
    size_t n;
} Pretokenizer;

typedef struct PretokenizeScratch {
    PatternScratch pattern;
    SpanList spans;
    Pieces other;
} PretokenizeScratch;

bool pretokenizer_load(Pretokenizer *p, const JsonValue *v, Error *err); /* v NULL or null: no steps */
/* What tiktoken does: text cut by an expression, then its bytes. */
bool pretokenizer_split_bytes(Pretokenizer *p, const char *expression, size_t n, Error *err);
void pretokenizer_clear(Pretokenizer *p);
bool pretokenizer_is_byte_level(const Pretokenizer *p);
bool pretokenize(const Pretokenizer *p, PretokenizeScratch *scratch, Pieces *pieces, Error *err);
void pretokenize_scratch_clear(PretokenizeScratch *scratch);

#endif
