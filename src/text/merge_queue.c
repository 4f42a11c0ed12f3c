/* Invariant: a rank's queue is in the heap exactly while it has positions; heap order is by rank, so equal ranks are
 * one entry. */
#include "text/merge_queue.h"
#include "base/memory.h"

#include <string.h>

static bool list_push(PositionList *list, uint32_t item) {
    uint32_t *items = mem_room(list->items, list->n, &list->capacity, sizeof *items);
    if (!items) return false;
    list->items = items;
    list->items[list->n++] = item;
    return true;
}

/* A heap's item i as the number it is ordered by. */
static uint32_t order_of(const MergeQueue *by_rank, const PositionList *heap, size_t i) {
    return by_rank ? by_rank->queues[heap->items[i]].rank : heap->items[i];
}

static void swap_items(PositionList *heap, size_t i, size_t j) {
    uint32_t item = heap->items[i];
    heap->items[i] = heap->items[j];
    heap->items[j] = item;
}

static bool heap_push(const MergeQueue *by_rank, PositionList *heap, uint32_t item) {
    if (!list_push(heap, item)) return false;
    for (size_t i = heap->n - 1; i > 0; i = (i - 1) / 2) {
        if (order_of(by_rank, heap, i) >= order_of(by_rank, heap, (i - 1) / 2)) break;
        swap_items(heap, i, (i - 1) / 2);
    }
    return true;
}

static void heap_pop(const MergeQueue *by_rank, PositionList *heap) {
    heap->items[0] = heap->items[--heap->n];
    for (size_t i = 0;;) {
        size_t least = i, child = 2 * i + 1;
        if (child < heap->n && order_of(by_rank, heap, child) < order_of(by_rank, heap, least)) least = child;
        if (child + 1 < heap->n && order_of(by_rank, heap, child + 1) < order_of(by_rank, heap, least))
            least = child + 1;
        if (least == i) break;
        swap_items(heap, i, least);
        i = least;
    }
}

static uint32_t *slot_for(const MergeQueue *q, uint32_t rank) {
    size_t at = (rank * 0x9E3779B1u) & (q->n_slots - 1);
    while (q->slots[at] && q->queues[q->slots[at] - 1].rank != rank) at = (at + 1) & (q->n_slots - 1);
    return &q->slots[at];
}

static bool grow(MergeQueue *q) {
    size_t capacity = q->queues_capacity ? q->queues_capacity * 2 : 64;
    RankQueue *queues = mem_resize(q->queues, capacity, sizeof *queues);
    if (!queues) return false;
    q->queues = queues;
    uint32_t *slots = mem_zeroed(2 * capacity, sizeof *slots);
    if (!slots) return false;
    mem_free(q->slots);
    q->slots = slots;
    q->n_slots = 2 * capacity;
    q->queues_capacity = capacity;
    for (size_t i = 0; i < q->n_queues; i++) *slot_for(q, queues[i].rank) = (uint32_t)i + 1;
    return true;
}

static RankQueue *queue_for(MergeQueue *q, uint32_t rank) {
    if (q->n_queues == q->queues_capacity && !grow(q)) return NULL;
    uint32_t *slot = slot_for(q, rank);
    if (*slot == 0) {
        q->queues[q->n_queues] = (RankQueue){.rank = rank};
        *slot = (uint32_t)++q->n_queues;
    }
    return &q->queues[*slot - 1];
}

bool merge_queue_push(MergeQueue *q, uint32_t rank, uint32_t position) {
    RankQueue *queue = queue_for(q, rank);
    if (!queue) return false;
    PositionList *list = &queue->in_order;
    bool ordered = list->n == queue->taken || list->items[list->n - 1] <= position;
    if (!(ordered ? list_push(list, position) : heap_push(NULL, &queue->late, position))) return false;
    if (queue->waiting) return true;
    queue->waiting = true;
    return heap_push(q, &q->heap, (uint32_t)(queue - q->queues));
}

bool merge_queue_pop(MergeQueue *q, uint32_t *rank, uint32_t *position) {
    if (q->heap.n == 0) return false;
    RankQueue *queue = &q->queues[q->heap.items[0]];
    PositionList *list = &queue->in_order;
    *rank = queue->rank;
    if (queue->late.n && (list->n == queue->taken || queue->late.items[0] < list->items[queue->taken])) {
        *position = queue->late.items[0];
        heap_pop(NULL, &queue->late);
    } else {
        *position = list->items[queue->taken++];
    }
    if (list->n == queue->taken) list->n = queue->taken = 0;
    if (list->n == 0 && queue->late.n == 0) {
        queue->waiting = false;
        heap_pop(q, &q->heap);
    }
    return true;
}

void merge_queue_clear(MergeQueue *q) {
    for (size_t i = 0; i < q->n_queues; i++) {
        mem_free(q->queues[i].in_order.items);
        mem_free(q->queues[i].late.items);
    }
    mem_free(q->queues);
    mem_free(q->heap.items);
    mem_free(q->slots);
    *q = (MergeQueue){0};
}
