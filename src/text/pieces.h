/* A text on its way to ids: pieces of it, in order. Splitting changes only the list; whoever changes text writes it
 * anew. */
#ifndef LOCKSTEP_TEXT_PIECES_H
#define LOCKSTEP_TEXT_PIECES_H

#include "base/buffer.h"

#include <stdint.h>

typedef struct Piece {
    size_t start, length; /* in the text */
    int32_t id;           /* >= 0: an added token, final; -1: text */
    size_t origin;        /* bytes at its start that come from the input's first character: 0 unless it is the first */
} Piece;

typedef struct Pieces {
    Buffer text;
    Piece *items;
    size_t n, capacity;
} Pieces;

void pieces_reset(Pieces *p); /* empties, keeps the memory */
void pieces_clear(Pieces *p); /* frees */
/* Adds a piece; an empty text piece is left out. False when out of memory. */
bool pieces_add(Pieces *p, Piece piece);
/* What is left of `origin` bytes in a part that begins at `start`. */
size_t pieces_origin(size_t origin, size_t start);

#endif
