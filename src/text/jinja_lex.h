/* Template text to tokens, as jinja2's lexer with trim_blocks and lstrip_blocks. */
#ifndef LOCKSTEP_TEXT_JINJA_LEX_H
#define LOCKSTEP_TEXT_JINJA_LEX_H

#include "text/jinja_value.h"

typedef enum TokenType {
    T_END,
    T_DATA,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INTEGER,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_DIV,
    T_FLOORDIV,
    T_MUL,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GTEQ,
    T_LT,
    T_LTEQ,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
} TokenType;

typedef struct Token {
    TokenType type;
    int line;
    uint32_t start, end; /* in the source as the lexer saw it: newlines unified, the last one removed */
    Value value;         /* DATA, NAME, STRING: a string; INTEGER (INT or BIG), FLOAT */
} Token;

typedef struct Tokens {
    Token *items; /* ends with T_END */
    size_t n;
    const char *source;
    size_t length;
} Tokens;

/* Everything is put into run->heap. Errors name the line. */
bool jinja_lex(Run *run, const char *text, size_t length, Tokens *out);
const char *jinja_token_name(TokenType type);

#endif
