/* The inside of a TokenTree, for the run of a grammar: nodes in the order of a walk that visits a node before its
 * children. */
#ifndef LOCKSTEP_TEXT_TOKEN_TREE_H
#define LOCKSTEP_TEXT_TOKEN_TREE_H

#include "text/grammar.h"

typedef struct TokenNode {
    uint32_t skip;  /* the node after this one's subtree */
    int32_t first;  /* a token that ends here, -1: none; others with the same bytes follow in `same` */
    uint16_t depth; /* 1: the first byte of a token */
    uint8_t byte;
} TokenNode;

struct TokenTree {
    TokenNode *nodes;
    size_t n;
    int32_t *same; /* [vocab] the next token with the same bytes, -1: none */
    int vocab, deepest;
    char *bytes;     /* of all tokens, one after the other */
    uint32_t *start; /* [vocab + 1] token id's are bytes[start[id]] .. bytes[start[id + 1]] */
};

#endif
