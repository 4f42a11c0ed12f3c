/* Embeddings of n-grams. The tokens before a row are read back from its state, where they lie position by position like
 * keys, so that chunks, cuts and shared prefixes need nothing of their own; before the first position is token 0. */
#include "model/step.h"

#include <string.h>

enum { LOOK_UP_ROWS = 16 };

int ngram_count(const NgramSpec *spec) {
    return spec->longest ? (spec->longest - 1) * spec->tables : 0;
}

int64_t ngram_rows(const NgramSpec *spec, int table) {
    return (int64_t)spec->rows + 2 * table;
}

void ngram_state(const NgramSpec *spec, LayerShape *out) {
    if (spec->longest) *out = (LayerShape){.kv = {KV_F32, 1, 1, 0}, .exact = true};
}

/* An f32 key times 1 is that key, and a token's id is less than 2^24. */
static int64_t token_at(const KvView *view, int position) {
    static const float one = 1;
    const float *q = &one;
    float tokens[KV_PAGE], *out = tokens;
    if (position < 0) return 0;
    kv_page_scores(view, position / KV_PAGE, 0, &q, 1, 1, &out);
    return (int64_t)tokens[position % KV_PAGE];
}

typedef struct LookUp {
    const Step *step;
    int table;
    float *out; /* [rows][dim] */
} LookUp;

/* The tokens that end at the row as one number in base vocab, the last the lowest digit, modulo the table's rows. */
static int ngram_row(const Step *s, int r, int table) {
    const NgramSpec *g = &s->blueprint->ngram;
    const KvView *view = step_side(s, STEP_INDEX, 0, r);
    int length = 2 + table / g->tables;
    int64_t rows = ngram_rows(g, table), digit = 1, sum = 0;
    for (int i = 0; i < length; i++) {
        sum = (sum + token_at(view, s->rows[r].position - i) * digit) % rows;
        digit = digit * s->blueprint->vocab % rows;
    }
    return (int)sum;
}

static void look_up_task(void *context, int task, int thread) {
    const LookUp *job = context;
    const Step *s = job->step;
    size_t dim = (size_t)s->blueprint->ngram.dim;
    (void)thread;
    for (int r = task * LOOK_UP_ROWS; r < (task + 1) * LOOK_UP_ROWS && r < s->n; r++)
        linear_row(s->weights->ngram_tables[job->table], ngram_row(s, r, job->table), job->out + (size_t)r * dim);
}

static bool store_tokens(Step *s) {
    float *tokens = step_floats(s, s->n, 1);
    if (!tokens) return false;
    for (int r = 0; r < s->n; r++) tokens[r] = s->rows[r].embedding ? 0 : (float)s->rows[r].token;
    return step_store_side(s, STEP_INDEX, 0, tokens, 1, tokens, 0);
}

bool ngram_add(Step *s) {
    const Blueprint *b = s->blueprint;
    int n = ngram_count(&b->ngram);
    size_t hidden = (size_t)b->hidden;
    float *found = step_floats(s, s->n, b->ngram.dim), *y = step_floats(s, s->n, b->hidden);
    if (!found || !y || !store_tokens(s)) return false;
    for (int i = 0; i < n; i++) {
        LookUp job = {s, i, found};
        LinearJob projection = {.w = s->weights->ngram_projections[i], .y = y};
        pool_run(s->pool, look_up_task, &job, (s->n + LOOK_UP_ROWS - 1) / LOOK_UP_ROWS);
        if (!step_linear(s, &projection, 1, found, b->ngram.dim, -1, "n-grams")) return false;
        for (int r = 0; r < s->n; r++)
            if (s->rows[r].embedding) memset(y + (size_t)r * hidden, 0, hidden * sizeof *y);
        ops_add(s->pool, s->hidden, y, s->hidden, s->n, b->hidden);
    }
    for (int r = 0; r < s->n; r++) {
        float *row = s->hidden + (size_t)r * hidden;
        if (!s->rows[r].embedding) ops_scale(s->pool, row, 1 / (float)(n + 1), row, 1, b->hidden);
    }
    return true;
}
