/* What the two halves of the parser share: the place in the tokens, nodes, and the expressions that statements hold. */
#ifndef LOCKSTEP_TEXT_JINJA_PARSER_H
#define LOCKSTEP_TEXT_JINJA_PARSER_H

#include "text/jinja_parse.h"

typedef struct Parser {
    Run *run;
    const Tokens *tokens;
    size_t at;
} Parser;

/* ---- tokens ---- */
const Token *parser_current(const Parser *p);
const Token *parser_next(Parser *p);             /* the current one, which is passed; the end is never passed */
bool token_is(const Token *t, const char *word); /* the name `word` */
bool parser_skip_word(Parser *p, const char *word);
bool parser_skip(Parser *p, TokenType type);
const Token *parser_expect(Parser *p, TokenType type); /* NULL with the error */
bool parser_expect_word(Parser *p, const char *word);
bool parser_fail(Parser *p, int line, const char *what); /* false */
bool parser_fail_token(Parser *p, const char *expected); /* false: another token was expected here */

/* ---- nodes ---- */
Node *parser_node(Parser *p, NodeKind kind, const Token *from);
Node *parser_end(const Parser *p, Node *n);          /* n ends where the last passed token ends */
bool parser_add(Parser *p, NodeList *list, Node *n); /* false also for n NULL */

/* ---- expressions; NULL with the error ---- */
typedef struct TupleRules {
    bool primaries_only, with_namespace, with_cond, parenthesised;
} TupleRules;

Node *parser_expression(Parser *p, bool with_cond);
/* Expressions separated by commas; one without a comma is itself. */
Node *parser_tuple(Parser *p, TupleRules rules);
Node *parser_name(Parser *p, bool with_namespace);
/* One filter after its "|"; operand NULL in filter and set blocks. */
Node *parser_filter(Parser *p, Node *operand);

#endif
