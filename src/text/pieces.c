/* The list behind pieces.h, and the one rule that is the same wherever text is cut. */
#include "text/pieces.h"
#include "base/memory.h"

void pieces_reset(Pieces *p) {
    buffer_reset(&p->text);
    p->n = 0;
}

void pieces_clear(Pieces *p) {
    buffer_clear(&p->text);
    mem_free(p->items);
    *p = (Pieces){0};
}

bool pieces_add(Pieces *p, Piece piece) {
    if (piece.id < 0 && piece.length == 0) return true;
    Piece *items = mem_room(p->items, p->n, &p->capacity, sizeof *items);
    if (!items) return false;
    p->items = items;
    if (piece.origin > piece.length) piece.origin = piece.length;
    p->items[p->n++] = piece;
    return true;
}

size_t pieces_origin(size_t origin, size_t start) {
    return origin > start ? origin - start : 0;
}
