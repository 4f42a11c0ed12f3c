/* Regular expressions of tokenizer.json: Oniguruma's (Ruby) syntax and its Unicode classes, matched by pcre2.
 *
 * A pattern sees a text only through its classes, so the text is first rewritten to one byte per character: the number
 * of the character's equivalence class among the classes of this pattern. pcre2 then matches plain bytes with its JIT:
 * faster than UTF-8 with large classes, and never with pcre2's own Unicode tables. */
#ifndef LOCKSTEP_TEXT_PATTERN_H
#define LOCKSTEP_TEXT_PATTERN_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct Pattern Pattern;

/* NULL on a syntax error or a construct that is not supported (back-references, \X, \K), which the error names. */
Pattern *pattern_new(const char *source, size_t n, Error *err);
Pattern *pattern_literal(const char *text, size_t n, Error *err); /* just that text; it may not be empty */
void pattern_free(Pattern *p);

/* What matching needs beside the pattern, kept from call to call; one per thread. All zero is a valid start. */
typedef struct PatternScratch {
    Buffer subject;
    void *match, *context, *stack; /* pcre2's */
} PatternScratch;
void pattern_scratch_clear(PatternScratch *scratch);

/* A text as a row of spans, each from the end of the one before it (the first from 0). A match may be empty. */
typedef struct Span {
    size_t end;
    bool match;
} Span;

typedef struct SpanList {
    Span *items;
    size_t n, capacity;
} SpanList;
bool span_push(SpanList *list, size_t end, bool match);
void span_clear(SpanList *list); /* frees */

/* Replaces *out by the spans of text (valid UTF-8); false when out of memory or past the match limit. */
bool pattern_spans(const Pattern *p, PatternScratch *scratch, const char *text, size_t n, SpanList *out, Error *err);

#endif
