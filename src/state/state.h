/* What a sequence remembers: per layer the keys and values of its positions, in pages that grow with use. The caller
 * states positions; the state only stores. A layer with a window drops pages that no later row can see. */
#ifndef LOCKSTEP_STATE_STATE_H
#define LOCKSTEP_STATE_STATE_H

#include "math/attend.h"

typedef struct LayerShape {
    KvShape kv; /* heads 0: the layer keeps no keys and values */
    int window; /* 0: all positions; W: a row at p sees p-W+1 .. p */
    int chunk;  /* 0: no limit; C: a row at p sees from p - p % C on */
} LayerShape;

typedef struct StateShape {
    int n_layers;
    const LayerShape *layers; /* borrowed; must outlive the states */
} StateShape;

typedef struct State State;

/* Empty, on side 0. */
State *state_new(const StateShape *shape, Error *err);
void state_free(State *s);
/* Makes pages for positions up to `end` (exclusive) in every layer. Nothing changes on failure. */
bool state_reserve(State *s, int end, Error *err);
/* Positions stored, 0 .. n-1; the step sets it after running rows. */
int state_length(const State *s);
void state_set_length(State *s, int n);
/* Forgets positions >= n, for a rejected draft or a new turn that shares a prefix. False (nothing changed) when a
 * windowed layer no longer holds what a row at n would see. */
bool state_cut(State *s, int n);
/* Which of its model's rotary tables all of it was computed with: model_side() says what a prefix needs. */
int state_side(const State *s);
/* Forgets all positions; what follows is computed on `side`. The memory stays, for a prefix that is run again. */
void state_restart(State *s, int side);
const KvView *state_layer(const State *s, int layer);
size_t state_bytes(const State *s); /* memory in pages */

/* Drops pages that rows at positions >= n cannot see. Called by the step after its rows ran. */
void state_trim(State *s, int n);

#endif
