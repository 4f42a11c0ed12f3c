/* What a sequence remembers: per layer the keys and values of its positions, in pages that grow with use, or a
 * recurrent state of fixed size that stands for all of them, or both. The caller states positions; the state only
 * stores. A layer with a window drops pages that no later row can see. */
#ifndef LOCKSTEP_STATE_STATE_H
#define LOCKSTEP_STATE_STATE_H

#include "math/attend.h"

typedef struct LayerShape {
    KvShape kv;       /* heads 0: the layer keeps no keys and values */
    int window;       /* 0: all positions; W: a row at p sees p-W+1 .. p */
    int chunk;        /* 0: no limit; C: a row at p sees from p - p % C on */
    int every;        /* an entry for so many positions together, once the last of them is there; 0: one for each */
    bool exact;       /* the format is f32 whatever the settings say, since what is read decides something */
    size_t recurrent; /* floats that the rows advance one after the other; all zero before the first */
} LayerShape;

typedef struct StateShape {
    int n_layers;             /* a model's layers, then, where some keep more kinds of keys, those kind by kind */
    const LayerShape *layers; /* borrowed; must outlive the states */
} StateShape;

typedef struct State State;

/* Memory that the states of a model hold together, pages that several share counted once. */
typedef struct StateAccount {
    size_t bytes;
} StateAccount;

/* Empty, on side 0. */
State *state_new(const StateShape *shape, Error *err);
void state_free(State *s);
/* From now on its memory, and that of its clones, is counted there; to be called before the first page is made. The
 * account must outlive them. */
void state_charge(State *s, StateAccount *account);
/* Makes pages for positions up to `end` (exclusive) in every layer. Nothing changes on failure. */
bool state_reserve(State *s, int end, Error *err);
size_t state_need(const State *s, int end); /* bytes it would take for that */
/* Bytes of a state that has read n positions and shares none: the pages that a window touches, at most. */
size_t state_bytes_at(const StateShape *shape, int n);
/* Positions stored, 0 .. n-1; the step sets it after running rows. */
int state_length(const State *s);
void state_set_length(State *s, int n);
/* Forgets positions >= n, for a rejected draft or a new turn that shares a prefix. False (nothing changed) when a
 * windowed layer no longer holds what a row at n would see, or when there is recurrent state (but n = 0 is a restart).
 */
bool state_cut(State *s, int n);
bool state_can_cut(const State *s, int n);
/* A state of its own with the first n positions of this one, where it can be cut: it shares their pages until either
 * of the two goes on writing. NULL when it can not be cut there, or out of memory. */
State *state_clone(const State *s, int n, Error *err);
/* Which of its model's rotary tables all of it was computed with: model_side() says what a prefix needs. */
int state_side(const State *s);
/* Forgets all positions; what follows is computed on `side`. The memory stays, for a prefix that is run again. */
void state_restart(State *s, int side);
/* The recurrent floats of a layer, as the last row that ran left them; NULL where the layer has none. Only a step
 * writes them. */
float *state_recurrent(const State *s, int layer);
/* A step that did not finish leaves recurrent floats of no position: the state can then only be restarted or restored.
 */
void state_spoil(State *s);
bool state_spoiled(const State *s);

/* The recurrent floats and the length as they are now. Keys and values are not copied: they stay where they are. NULL
 * when out of memory. */
typedef struct StateSnapshot StateSnapshot;
StateSnapshot *state_save(const State *s, Error *err);
void state_snapshot_free(StateSnapshot *snapshot);
size_t state_snapshot_bytes(const StateSnapshot *snapshot);
/* Back to where the snapshot was taken, of the same state and with nothing cut below it or restarted since. False
 * (nothing changed) when a windowed layer no longer holds what a row there would see. */
bool state_restore(State *s, const StateSnapshot *snapshot);

const KvView *state_layer(const State *s, int layer);
size_t state_bytes(const State *s); /* memory in pages, those it shares included */

/* Drops pages that rows at positions >= n cannot see. Called by the step after its rows ran. */
void state_trim(State *s, int n);

#endif
