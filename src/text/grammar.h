/* What an answer may look like: a grammar over bytes, from a JSON schema, a regular expression, a list of choices, or a
 * text in the notation of GBNF; and its run beside a sequence, which says at every place which tokens may come next. */
#ifndef LOCKSTEP_TEXT_GRAMMAR_H
#define LOCKSTEP_TEXT_GRAMMAR_H

#include "base/json.h"
#include "text/tokenizer.h"

/* Immutable once made; many runs may share it, from any thread. */
typedef struct Grammar Grammar;

/* Errors name the place and what is not supported. `schema` is a JSON value of its own: "any JSON value" is {} or true.
 */
Grammar *grammar_from_schema(const JsonValue *schema, Error *err);
Grammar *grammar_from_regex(const char *pattern, size_t n, Error *err); /* the whole answer must match */
Grammar *grammar_from_gbnf(const char *text, size_t n, Error *err);     /* its rule `root` */
Grammar *grammar_from_choices(const JsonValue *texts, Error *err);
Grammar *grammar_from_json_object(Error *err); /* any JSON object */
Grammar *grammar_hold(const Grammar *g);       /* one more owner; the same pointer */
void grammar_free(const Grammar *g);

/* The tokens of a vocabulary as a tree of their bytes. Special tokens are not in it, but for those in `kept`. */
typedef struct TokenTree TokenTree;
TokenTree *token_tree_new(const Tokenizer *t, int vocab, const int32_t *kept, size_t n_kept, Error *err);
void token_tree_free(TokenTree *t);
/* Adds to the mask (a bit for each token, id 0 the lowest of the first word) the tokens that a text begins with, and
 * those that begin with the text. */
void token_tree_allow(const TokenTree *t, const char *text, size_t n, uint32_t *mask);

/* An answer's place in the grammar. */
typedef struct GrammarRun GrammarRun;
GrammarRun *grammar_run_new(const Grammar *g, const TokenTree *t, Error *err);
void grammar_run_free(GrammarRun *r);
/* A bit for each token that may come next, id 0 the lowest of the first word; end tokens are the caller's business.
 * NULL when out of memory, or when the grammar has more ways here than can be followed within a step's time. Valid
 * until the next call. */
const uint32_t *grammar_run_allowed(GrammarRun *r, Error *err);
bool grammar_run_can_end(const GrammarRun *r);  /* what is there may be all */
bool grammar_run_must_end(const GrammarRun *r); /* nothing can follow */
/* Whether the first mask can be made; false with the reason. So that most grammars which are too ambiguous are refused
 * before their sequence begins. */
bool grammar_can_begin(const Grammar *g, const TokenTree *t, Error *err);
/* Goes on by a token, or by a text; false when it may not come here (the run stays where it was). */
bool grammar_run_token(GrammarRun *r, int32_t id);
bool grammar_run_text(GrammarRun *r, const char *text, size_t n);

#endif
