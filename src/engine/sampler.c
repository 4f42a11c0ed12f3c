/* Choosing a token.
 *
 * The filters are all prefixes of one order, (probability descending, id ascending), so they never need the whole
 * vocabulary sorted: candidates come out of a heap, and the heap is filled band by band, since the few most probable
 * tokens nearly always decide. A key packs the probability's bits over the complement of the id, so one comparison of
 * integers is the order. Filters look at the probabilities of the one softmax after temperature; what they leave is
 * renormalised once, at the end. */
#include "engine/sampler.h"
#include "base/memory.h"
#include "base/rng.h"
#include "math/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct Sampler {
    int vocab;
    float *logits, *probs; /* [vocab]: adjusted logits, probabilities */
    uint32_t *counts;      /* [vocab], zero between calls: occurrences in the answer */
    uint8_t *seen;         /* [vocab], zero between calls: occurs in prompt or answer */
    uint64_t *heap, *kept; /* [vocab]: keys of candidates */
};

/* exp underflows to zero long before this, and a finite floor keeps infinities out of the softmax. */
static const float LOWEST = -1000.0f;

Sampler *sampler_new(int vocab, Error *err) {
    Sampler *s = mem_zeroed(1, sizeof *s);
    if (s) {
        size_t n = (size_t)vocab;
        *s = (Sampler){vocab,
                       mem_array(n, sizeof(float)),
                       mem_array(n, sizeof(float)),
                       mem_zeroed(n, sizeof(uint32_t)),
                       mem_zeroed(n, 1),
                       mem_array(n, sizeof(uint64_t)),
                       mem_array(n, sizeof(uint64_t))};
        if (s->logits && s->probs && s->counts && s->seen && s->heap && s->kept) return s;
    }
    sampler_free(s);
    error_memory(err, "the sampler");
    return NULL;
}

void sampler_free(Sampler *s) {
    if (!s) return;
    mem_free(s->logits);
    mem_free(s->probs);
    mem_free(s->counts);
    mem_free(s->seen);
    mem_free(s->heap);
    mem_free(s->kept);
    mem_free(s);
}

static bool check_range(const char *name, float value, float low, float high, Error *err) {
    if (value >= low && value <= high) return true; /* a NaN fails both */
    if (high >= FLT_MAX) return error_set(err, "%s is %g: it must be a number of at least %g", name, value, low);
    return error_set(err, "%s is %g: it must be from %g to %g", name, value, low, high);
}

static bool check_id(const char *name, int32_t id, int vocab, Error *err) {
    if (id >= 0 && id < vocab) return true;
    return error_set(err, "%s: id %d is outside the vocabulary (0 to %d)", name, id, vocab - 1);
}

bool sampling_check(const Sampling *p, int vocab, Error *err) {
    if (!check_range("temperature", p->temperature, 0, FLT_MAX, err) || !check_range("top-p", p->top_p, 0, 1, err) ||
        !check_range("min-p", p->min_p, 0, 1, err) ||
        !check_range("repetition penalty", p->repetition_penalty, 1e-6f, FLT_MAX, err) ||
        !check_range("presence penalty", p->presence_penalty, -1e6f, 1e6f, err) ||
        !check_range("frequency penalty", p->frequency_penalty, -1e6f, 1e6f, err))
        return false;
    if (p->top_k < 0) return error_set(err, "top-k is %d: it must be 0 (off) or more", p->top_k);
    for (int i = 0; i < p->n_bias; i++) {
        if (!check_id("logit bias", p->bias[i].id, vocab, err)) return false;
        if (!(p->bias[i].value <= 1e6f))
            return error_set(err, "logit bias of id %d is %g: it must be a number of at most 1e6", p->bias[i].id,
                             p->bias[i].value);
    }
    for (int i = 0; i < p->n_suppressed; i++)
        if (!check_id("suppressed tokens", p->suppressed[i], vocab, err)) return false;
    return true;
}

int32_t logits_argmax(const float *logits, int n) {
    enum { LANES = 8 };
    float best = logits[0];
    int i = 0;
    if (n >= LANES) { /* several running maxima, so that one comparison does not wait for the last */
        float lanes[LANES];
        memcpy(lanes, logits, sizeof lanes);
        for (i = LANES; i + LANES <= n; i += LANES)
            for (int j = 0; j < LANES; j++) lanes[j] = logits[i + j] > lanes[j] ? logits[i + j] : lanes[j];
        for (int j = 0; j < LANES; j++) best = lanes[j] > best ? lanes[j] : best;
    }
    for (; i < n; i++) best = logits[i] > best ? logits[i] : best;
    for (i = 0; i < n - 1; i++)
        if (logits[i] == best) return i;
    return n - 1;
}

static bool has_penalty(const Sampling *p) {
    return p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

static float penalised(const Sampling *p, float logit, uint32_t count) {
    logit = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
    if (count > 0) logit -= p->presence_penalty + p->frequency_penalty * (float)count;
    return logit;
}

/* Each token that occurs is changed once; the walk that changes it also clears its marks. */
static void apply_penalties(Sampler *s, const Sampling *p, SamplePrefix prefix) {
    for (int i = 0; i < prefix.n_ids; i++) {
        s->seen[prefix.ids[i]] = 1;
        s->counts[prefix.ids[i]] += i >= prefix.n_prompt;
    }
    for (int i = 0; i < prefix.n_ids; i++) {
        int32_t id = prefix.ids[i];
        if (!s->seen[id]) continue;
        s->logits[id] = penalised(p, s->logits[id], s->counts[id]);
        s->seen[id] = 0;
        s->counts[id] = 0;
    }
}

/* The logits after suppression, bias and penalties: the caller's own where nothing changes them. */
static const float *adjusted_logits(Sampler *s, const Sampling *p, const float *logits, const uint32_t *allowed,
                                    SamplePrefix prefix) {
    if (p->n_suppressed == 0 && p->n_bias == 0 && !has_penalty(p) && !allowed) return logits;
    memcpy(s->logits, logits, (size_t)s->vocab * sizeof *logits);
    for (int i = 0; i < p->n_suppressed; i++) s->logits[p->suppressed[i]] = -INFINITY;
    for (int i = 0; i < p->n_bias; i++) s->logits[p->bias[i].id] += p->bias[i].value;
    if (has_penalty(p)) apply_penalties(s, p, prefix);
    for (int i = 0; allowed && i < s->vocab; i++)
        if (!(allowed[i / 32] >> i % 32 & 1)) s->logits[i] = -INFINITY;
    return s->logits;
}

/* Tokens in the order (probability descending, id ascending), taken one by one. */
typedef struct Order {
    const float *probs;
    int n, size, band;
    float top; /* the largest probability */
    uint64_t *heap;
} Order;

static uint64_t key_of(float prob, int id) {
    uint32_t bits;
    memcpy(&bits, &prob, sizeof bits);
    return (uint64_t)bits << 32 | (0xFFFFFFFFu - (uint32_t)id);
}

static int key_id(uint64_t key) {
    return (int)(0xFFFFFFFFu - (uint32_t)key);
}

static float key_prob(uint64_t key) {
    uint32_t bits = (uint32_t)(key >> 32);
    float prob;
    memcpy(&prob, &bits, sizeof prob);
    return prob;
}

static void heap_sink(uint64_t *heap, int size, int at) {
    uint64_t key = heap[at];
    for (int child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= key) break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

/* Fills the heap with the next band of probabilities that holds any; false after the last. */
static bool order_fill(Order *o) {
    static const float bands[] = {INFINITY, 0x1p-8f, 0x1p-20f, 0}; /* of the largest probability */
    while (o->size == 0 && o->band < 3) {
        float high = o->top * bands[o->band], low = o->top * bands[o->band + 1];
        if (o->band == 2) low = FLT_TRUE_MIN; /* a token of probability zero is never drawn */
        for (int i = 0; i < o->n; i++)
            if (o->probs[i] >= low && o->probs[i] < high) o->heap[o->size++] = key_of(o->probs[i], i);
        for (int i = o->size / 2 - 1; i >= 0; i--) heap_sink(o->heap, o->size, i);
        o->band++;
    }
    return o->size > 0;
}

static bool order_next(Order *o, uint64_t *key) {
    if (o->size == 0 && !order_fill(o)) return false;
    *key = o->heap[0];
    o->heap[0] = o->heap[--o->size];
    if (o->size > 1) heap_sink(o->heap, o->size, 0);
    return true;
}

/* Takes what top-k, top-p and min-p leave into s->kept; how many, and the sum of their probabilities. */
static int keep_filtered(Sampler *s, const Sampling *p, Order *order, double *total) {
    int n = 0;
    uint64_t key;
    *total = 0;
    while (order_next(order, &key)) {
        if (key_prob(key) < p->min_p * order->top) break;
        s->kept[n++] = key;
        *total += key_prob(key);
        if (n == p->top_k || (p->top_p < 1 && *total >= p->top_p)) break;
    }
    return n;
}

/* The first token whose running sum exceeds u; the last one with any probability when rounding leaves u above them all.
 */
static int32_t draw(Sampler *s, const Sampling *p, Order *order, double u) {
    bool filtered = p->top_k > 0 || p->top_p < 1 || p->min_p > 0;
    double total = 1, running = 0;
    int n = filtered ? keep_filtered(s, p, order, &total) : 0;
    uint64_t key = 0;
    for (int i = 0; filtered ? i < n : order_next(order, &key); i++) {
        if (filtered) key = s->kept[i];
        running += key_prob(key) / total;
        if (running > u) break;
    }
    return key_id(key);
}

bool sampler_choose(Sampler *s, const Sampling *p, const float *logits, const uint32_t *allowed, SamplePrefix prefix,
                    int32_t *id, Error *err) {
    const float *adjusted = adjusted_logits(s, p, logits, allowed, prefix);
    int32_t best = logits_argmax(adjusted, s->vocab);
    float max = adjusted[best];
    if (!(max > -INFINITY)) return error_set(err, "every token is suppressed: nothing can be chosen");
    if (p->temperature == 0) {
        *id = best;
        return true;
    }
    for (int i = 0; i < s->vocab; i++) {
        float x = (adjusted[i] - max) / p->temperature;
        s->logits[i] = x > LOWEST ? x : LOWEST;
    }
    ops_softmax(s->logits, s->probs, s->vocab);
    Order order = {.probs = s->probs, .n = s->vocab, .top = s->probs[best], .heap = s->heap};
    *id = draw(s, p, &order, rng_uniform(p->seed, p->choice, (uint64_t)prefix.n_ids));
    return true;
}
