/* The normalizer of tokenizer.json: text to text, before it is cut. */
#ifndef LOCKSTEP_TEXT_NORMALIZE_H
#define LOCKSTEP_TEXT_NORMALIZE_H

#include "base/json.h"
#include "text/charsmap.h"
#include "text/normal_form.h"
#include "text/pattern.h"
#include "text/prefix_matcher.h"

typedef enum NormalizerKind {
    NORMALIZE_FORM,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_BERT,
    NORMALIZE_REPLACE,
    NORMALIZE_PREPEND,
    NORMALIZE_PRECOMPILED,
    NORMALIZE_NMT,
    NORMALIZE_BYTE_LEVEL,
    NORMALIZE_SENTENCEPIECE, /* a tokenizer.model's normalizer_spec */
} NormalizerKind;

typedef struct NormalizerStep {
    NormalizerKind kind;
    NormalForm form;
    bool left, right;                              /* STRIP */
    bool clean, chinese, lowercase, strip_accents; /* BERT */
    Pattern *pattern;                              /* REPLACE */
    char *content;                                 /* REPLACE, PREPEND */
    size_t content_length;
    bool dummy_prefix, remove_extra, escape; /* SENTENCEPIECE */
    Charsmap charsmap;
    PrefixMatcher kept; /* SENTENCEPIECE: texts that the map leaves alone */
} NormalizerStep;

typedef struct Normalizer {
    NormalizerStep *steps; /* sequences are laid flat */
    size_t n;
} Normalizer;

typedef struct NormalizeScratch {
    PatternScratch pattern;
    SpanList spans;
    CodeList codes;
    Buffer other;
} NormalizeScratch;

bool normalizer_load(Normalizer *p, const JsonValue *v, Error *err); /* v NULL or null: no steps */
bool normalizer_add(Normalizer *p, NormalizerStep step);             /* takes the step over; false when out of memory */
void normalizer_step_clear(NormalizerStep *s);
void normalizer_clear(Normalizer *p);
bool normalizer_is_byte_level(const Normalizer *p);
/* Normalizes *text (valid UTF-8) in place. *origin: how many bytes at its start come from the input's first character.
 */
bool normalize(const Normalizer *p, NormalizeScratch *scratch, Buffer *text, size_t *origin, Error *err);
void normalize_scratch_clear(NormalizeScratch *scratch);

#endif
