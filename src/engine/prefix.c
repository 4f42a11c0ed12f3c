/* The simplest prompt cache there is: one sequence's state, cut back to what the next prompt shares with it. */
#include "engine/prefix.h"

void prefix_init(Prefix *p) {
    *p = (Prefix){0};
}

void prefix_clear(Prefix *p) {
    state_free(p->state);
    id_list_clear(&p->ids);
    prefix_init(p);
}

bool prefix_fit(Prefix *p, const StateShape *shape, int side, const int32_t *ids, int n, Error *err) {
    int common = 0;
    while (common < n - 1 && (size_t)common < p->ids.n && p->ids.ids[common] == ids[common]) common++;
    if (p->state && common > 0 && state_side(p->state) == side && state_cut(p->state, common)) {
        p->ids.n = (size_t)common;
        return true;
    }
    prefix_clear(p);
    if (!(p->state = state_new(shape, err))) return false;
    state_restart(p->state, side);
    return true;
}

void prefix_restart(Prefix *p, int side) {
    state_restart(p->state, side);
    p->ids.n = 0;
}
