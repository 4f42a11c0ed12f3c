/* A model's lane: the sequences that run on it and those that wait, and the choice of rows for each step. One thread
 * uses it. Who is in a step, and in which chunks a prompt is read, changes no byte of any answer; it decides who waits
 * for how long. */
#ifndef LOCKSTEP_ENGINE_LANE_H
#define LOCKSTEP_ENGINE_LANE_H

#include "engine/engine.h"

typedef struct Lane Lane;

/* The loaded model must outlive it. */
Lane *lane_new(const Loaded *loaded, const EngineOptions *options, Error *err);
/* Ends what runs as cancelled. */
void lane_free(Lane *l);

/* A job at the end of the line, one sequence for each choice; its request must have passed request_check. Without
 * memory it gets its last events at once. */
void lane_add(Lane *l, Job *job);
/* One step. False when there was nothing to run: nobody is there, or all wait for their readers. */
bool lane_step(Lane *l);
void lane_cancel_all(Lane *l);
bool lane_is_empty(const Lane *l);
void lane_counts(const Lane *l, EngineCounts *out);
/* Called in each step when its counts are settled and before anybody is told of it, so that whoever has an answer finds
 * it in the counts. */
void lane_on_settled(Lane *l, void (*settled)(void *context), void *context);

#endif
