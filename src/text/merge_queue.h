/* Pairs waiting to be merged, taken by lowest rank and then leftmost position. A long run of one character holds few
 * ranks and many positions, which mostly arrive in order: so positions queue per rank, and only ranks are in a heap.
 * Ten million characters then cost about as much as they are long. */
#ifndef LOCKSTEP_TEXT_MERGE_QUEUE_H
#define LOCKSTEP_TEXT_MERGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PositionList {
    uint32_t *items;
    size_t n, capacity;
} PositionList;

typedef struct RankQueue {
    uint32_t rank;
    bool waiting;          /* is in the heap */
    PositionList in_order; /* ascending from `taken` on */
    size_t taken;
    PositionList late; /* a heap of those that came out of order */
} RankQueue;

typedef struct MergeQueue {
    RankQueue *queues;
    size_t n_queues, queues_capacity;
    PositionList heap; /* of queue numbers, by rank */
    uint32_t *slots;   /* hash of rank to 1 + queue number */
    size_t n_slots;
} MergeQueue;

bool merge_queue_push(MergeQueue *q, uint32_t rank, uint32_t position);  /* false when out of memory */
bool merge_queue_pop(MergeQueue *q, uint32_t *rank, uint32_t *position); /* false when empty */
void merge_queue_clear(MergeQueue *q);                                   /* frees */

#endif
