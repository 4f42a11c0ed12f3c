/* A step takes one row of every sequence that decodes, and fills up with rows of prompts. How many: few enough that
 * those who stream see no gap, which is a matter of seconds, so the lane measures what rows cost here.
 *
 * Memory is given when a sequence starts, not when it is promised to: if the running ones outgrow the budget, first
 * cached prefixes go, then the youngest sequence gives up its own and reads again later. That is allowed to be this
 * simple because reading again gives the same bytes.
 *
 * A prompt that begins like another one being read right now waits for it, so that what they share is read once. */
#include "engine/lane.h"
#include "base/memory.h"
#include "engine/clock.h"
#include "engine/sequence.h"

#include <string.h>

enum {
    STEP_ROWS = 512,
    WORTH_WAITING = 32, /* tokens another prompt must share beyond the cache for a prompt to wait for it */
    LEAST_CHUNK = 8,    /* rows of prompts in a step, while nobody streams; */
    LEAST_BESIDE = 2,   /* beside a stream: far into a prompt eight cost more than the gap allows */
};
/* Solo steps that a step may take while somebody streams and one prompt is read; more for each further prompt, since
 * those wait for a first token all at once, up to the most, which doubles where they are twice as many as the streams.
 * The first is under the three that a stream is promised by as much as steps differ from each other, and a stream grows
 * while it waits. */
static const double GAP_STEPS = 2.0, GAP_STEPS_EACH = 1.35, GAP_STEPS_MOST = 11.0;
static const double LONGEST_STEP = 0.25; /* seconds, while nobody does: a newcomer waits that long */

/* One choice of a job. */
typedef struct Seat {
    Job *job;
    Sequence *sequence;
    int choice;
    size_t told_text;
    int told_tokens;
    bool told_end;
    int n_rows; /* in the step at hand */
} Seat;

struct Lane {
    const Loaded *loaded;
    Model *model;
    PrefixCache *cache;
    Sampler *sampler;
    int max_running, max_rows;
    Seat *seats; /* in the order they came */
    size_t n, capacity;
    Row *rows;
    RowFault *faults;
    int n_rows;
    size_t *turns; /* [n_turns] seats in the order in which they took the step's rows */
    int n_turns;
    double solo, per_row; /* seconds: of a step of one row; of each further row */
    EngineCounts counts;
    void (*settled)(void *context); /* NULL: nobody wants to know */
    void *context;
};

/* ---- making ---- */

static bool lane_allocate(Lane *l, const EngineOptions *o, Error *err) {
    size_t memory = o->memory ? o->memory : mem_available() / 2;
    l->max_running = o->max_running > 0 ? o->max_running : ENGINE_RUNNING;
    l->max_rows = o->chunk > 0 ? o->chunk : STEP_ROWS;
    if (l->max_rows < l->max_running) l->max_rows = l->max_running;
    l->rows = mem_array((size_t)l->max_rows, sizeof *l->rows);
    l->faults = mem_array((size_t)l->max_rows, sizeof *l->faults);
    l->turns = mem_array((size_t)l->max_rows, sizeof *l->turns);
    if (!l->rows || !l->faults || !l->turns) return error_memory(err, "a step's rows");
    l->sampler = sampler_new(model_vocab_size(l->model), err);
    if (!l->sampler) return false;
    l->cache = prefix_cache_new(model_state_shape(l->model), memory, err);
    return l->cache != NULL;
}

/* The shortest of some steps of one row, after one that touches every weight. */
static bool measure_solo(Lane *l, Error *err) {
    const float *logits;
    State *state = state_new(model_state_shape(l->model), err);
    bool ok = state != NULL;
    l->solo = 1e9;
    for (int i = 0; ok && i < 6 && i < model_context(l->model); i++) {
        Row row = {.state = state, .position = i, .wants_logits = true};
        double started = clock_seconds();
        ok = model_step(l->model, &row, 1, &logits, l->faults, err);
        double taken = clock_seconds() - started;
        if (i > 0 && taken < l->solo) l->solo = taken;
    }
    state_free(state);
    l->per_row = l->solo / 4;
    return ok;
}

Lane *lane_new(const Loaded *loaded, const EngineOptions *options, Error *err) {
    Lane *l = mem_zeroed(1, sizeof *l);
    if (!l) {
        error_memory(err, "a model's lane");
        return NULL;
    }
    l->loaded = loaded;
    l->model = loaded->model;
    if (lane_allocate(l, options, err) && (!model_has_head(l->model) || measure_solo(l, err))) return l;
    lane_free(l);
    return NULL;
}

/* ---- telling ---- */

static void push(Lane *l, Seat *seat, JobEvent event) {
    event.choice = seat->choice;
    if (!event.text) event.text = mem_string("", 0);
    if (event.finish == FINISH_FAILED) l->counts.jobs_failed++;
    job_push(seat->job, &event);
}

/* What the sequence has that was not told yet: at most one token, and the text that became readable. */
static void seat_tell(Lane *l, Seat *seat) {
    Sequence *s = seat->sequence;
    int n;
    const int32_t *answer = sequence_answer(s, &n);
    const Buffer *text = sequence_text(s);
    JobEvent event = {.id = -1, .finish = sequence_finish(s), .stop = sequence_stop(s)};
    if (n > seat->told_tokens) {
        const ScoreList *scores = sequence_scores(s);
        event.id = answer[seat->told_tokens];
        if ((int)scores->n > seat->told_tokens && (event.score = mem_array(1, sizeof *event.score)))
            *event.score = scores->items[seat->told_tokens];
        seat->told_tokens++;
    }
    if (seat->told_end || (event.id < 0 && event.finish == FINISH_NONE)) return;
    seat->told_end = event.finish != FINISH_NONE;
    if (event.finish == FINISH_FAILED) event.error = mem_string(sequence_error(s), strlen(sequence_error(s)));
    if (sequence_prompt_scores(s)->n > 0) job_set_prompt_scores(seat->job, sequence_prompt_scores(s));
    event.n_text = text->length - seat->told_text;
    event.text = mem_string(buffer_string(text) + seat->told_text, event.n_text);
    seat->told_text = text->length;
    push(l, seat, event);
}

static void settle(Lane *l) {
    if (l->settled) l->settled(l->context);
}

void lane_on_settled(Lane *l, void (*settled)(void *context), void *context) {
    l->settled = settled;
    l->context = context;
}

static void seat_leave(Lane *l, size_t i) {
    Seat *seat = &l->seats[i];
    sequence_free(seat->sequence);
    job_done(seat->job);
    memmove(seat, seat + 1, (l->n - i - 1) * sizeof *seat);
    l->n--;
}

/* ---- coming and going ---- */

static void refuse(Lane *l, Job *job, int choice, const char *why) {
    Seat seat = {.job = job, .choice = choice};
    push(l, &seat, (JobEvent){.id = -1, .finish = FINISH_FAILED, .error = mem_string(why, strlen(why))});
    job_done(job);
}

static void add_choice(Lane *l, Job *job, int choice) {
    Error err = {""};
    Request request = *job_request(job);
    request.sampling.choice = (uint32_t)choice;
    Seat *seats = mem_room(l->seats, l->n, &l->capacity, sizeof *seats);
    if (!seats) error_memory(&err, "a request");
    Sequence *s = seats ? sequence_new(&request, l->model, l->loaded->tokenizer, l->cache, &err) : NULL;
    if (seats) l->seats = seats;
    if (!s) {
        refuse(l, job, choice, err.text);
        return;
    }
    l->seats[l->n++] = (Seat){.job = job, .choice = choice, .sequence = s};
}

void lane_add(Lane *l, Job *job) {
    l->counts.jobs++;
    l->counts.prompt_tokens += (uint64_t)job_request(job)->n_prompt;
    for (int i = 0; i < job_choices(job); i++) {
        job_hold(job);
        add_choice(l, job, i);
    }
}

/* Those whose client has left, and those that ended. */
static void drop_finished(Lane *l) {
    for (size_t i = l->n; i-- > 0;) {
        Seat *seat = &l->seats[i];
        bool over = sequence_finish(seat->sequence) != FINISH_NONE; /* from the start, when no token was asked for */
        if (!over && !job_is_cancelled(seat->job, seat->choice)) continue;
        if (!over) {
            sequence_cancel(seat->sequence);
            l->counts.jobs_cancelled++;
        }
        if (!seat->told_end) settle(l);
        seat_tell(l, seat);
        seat_leave(l, i);
    }
}

void lane_cancel_all(Lane *l) {
    for (size_t i = 0; i < l->n; i++) job_cancel(l->seats[i].job);
    drop_finished(l);
}

void lane_free(Lane *l) {
    if (!l) return;
    lane_cancel_all(l);
    mem_free(l->seats);
    mem_free(l->rows);
    mem_free(l->faults);
    mem_free(l->turns);
    sampler_free(l->sampler);
    prefix_cache_free(l->cache);
    mem_free(l);
}

/* ---- starting ---- */

static int shared_length(const Sequence *a, const Sequence *b) {
    int n_a, n_b, n = 0;
    const int32_t *ids_a = sequence_ids(a, &n_a), *ids_b = sequence_ids(b, &n_b);
    int most = n_a - 1 < n_b ? n_a - 1 : n_b; /* a's last token is run by itself in any case */
    while (n < most && ids_a[n] == ids_b[n]) n++;
    return n;
}

static int side_of(const Lane *l, const Sequence *s) {
    int n;
    sequence_ids(s, &n);
    return model_side(l->model, n);
}

/* Whether somebody is reading what s would read as well. Who has read it already shares it through the cache. */
static bool must_wait(Lane *l, const Sequence *s) {
    int n;
    const int32_t *ids = sequence_ids(s, &n);
    int cached = prefix_cache_find(l->cache, side_of(l, s), ids, n);
    for (size_t i = 0; i < l->n; i++) {
        Sequence *other = l->seats[i].sequence;
        if (!sequence_started(other) || side_of(l, other) != side_of(l, s)) continue;
        int shared = shared_length(s, other);
        if (shared < cached + WORTH_WAITING) continue;
        if (sequence_read(other) < shared) {
            if (sequence_snapshot_at(other, shared)) return true;
        } else if (prefix_cache_is_whole(l->cache)) {
            sequence_snapshot(other);
            return false;
        }
    }
    return false;
}

/* Whether the budget has room for what s is about to read, after cached prefixes have gone where they must. */
static bool has_room(Lane *l, const Sequence *s) {
    int n;
    sequence_ids(s, &n);
    size_t need = state_bytes_at(model_state_shape(l->model), n + KV_PAGE), budget = prefix_cache_budget(l->cache);
    if (need > budget) need = budget; /* alone it may try */
    if (prefix_cache_bytes(l->cache) + need > budget) prefix_cache_shrink(l->cache, budget - need);
    return prefix_cache_bytes(l->cache) + need <= budget;
}

static void start_waiting(Lane *l) {
    int running = 0;
    for (size_t i = 0; i < l->n; i++) running += sequence_started(l->seats[i].sequence);
    for (size_t i = 0; i < l->n && running < l->max_running; i++) {
        Seat *seat = &l->seats[i];
        Sequence *s = seat->sequence;
        if (sequence_started(s) || must_wait(l, s)) continue;
        if (running > 0 && !has_room(l, s)) return;
        if (!sequence_start(s, &(Error){{0}})) return; /* out of memory: when others have ended */
        job_note_started(seat->job, sequence_cached(s));
        l->counts.cached_tokens += (uint64_t)sequence_cached(s);
        running++;
    }
}

/* ---- the rows of a step ---- */

static void take_rows(Lane *l, Seat *seat, int most) {
    seat->n_rows = sequence_rows(seat->sequence, most, l->rows + l->n_rows);
    l->n_rows += seat->n_rows;
    if (seat->n_rows > 0) l->turns[l->n_turns++] = (size_t)(seat - l->seats);
}

static bool can_run(const Seat *seat) {
    return sequence_started(seat->sequence) && !job_is_full(seat->job);
}

/* Its prompt is being read: more of it is left than the one row of who answers. */
static bool reads_prompt(const Seat *seat) {
    return can_run(seat) && sequence_left(seat->sequence) > 1;
}

static int count_prompts(const Lane *l) {
    int n = 0;
    for (size_t i = 0; i < l->n; i++) n += reads_prompt(&l->seats[i]);
    return n;
}

/* Seconds that a step may take in which n_decode answers and n_prompts prompts are waiting. */
static double longest_step(const Lane *l, int n_decode, int n_prompts) {
    if (n_decode == 0) return LONGEST_STEP;
    double steps = GAP_STEPS + GAP_STEPS_EACH * (n_prompts - 1), most = GAP_STEPS_MOST;
    if (n_prompts > n_decode) most *= n_prompts < 2 * n_decode ? (double)n_prompts / n_decode : 2;
    return (steps < most ? steps : most) * l->solo;
}

/* How many rows of prompts go with n_decode rows of answers. */
static int prompt_rows(const Lane *l, int n_decode) {
    double target = longest_step(l, n_decode, count_prompts(l));
    int least = LEAST_CHUNK;
    if (n_decode > 0) {
        double decode = l->solo + l->per_row * (n_decode - 1);
        target = target > 2 * decode ? target - decode : decode;
        least = n_decode / 2 > LEAST_BESIDE ? n_decode / 2 : LEAST_BESIDE;
    }
    double rows = target / l->per_row;
    int n = rows < l->max_rows ? (int)rows : l->max_rows;
    if (n < least) n = least;
    return n < l->max_rows - n_decode ? n : l->max_rows - n_decode;
}

/* The prompt with the fewest rows left. */
static Seat *shortest_prompt(Lane *l) {
    Seat *best = NULL;
    for (size_t i = 0; i < l->n; i++) {
        Seat *seat = &l->seats[i];
        if (seat->n_rows > 0 || !reads_prompt(seat)) continue;
        if (!best || sequence_left(seat->sequence) < sequence_left(best->sequence)) best = seat;
    }
    return best;
}

static Seat *oldest_prompt(Lane *l) {
    for (size_t i = 0; i < l->n; i++) {
        Seat *seat = &l->seats[i];
        if (seat->n_rows == 0 && reads_prompt(seat)) return seat;
    }
    return NULL;
}

/* Half of the rows are the oldest prompt's, so that none waits for ever; the others those of the shortest, since what
 * ends soon makes room soon. */
static void plan_step(Lane *l) {
    l->n_rows = l->n_turns = 0;
    for (size_t i = 0; i < l->n; i++) l->seats[i].n_rows = 0;
    for (size_t i = 0; i < l->n; i++) {
        Seat *seat = &l->seats[i];
        if (can_run(seat) && sequence_left(seat->sequence) == 1) take_rows(l, seat, 1);
    }
    int left = prompt_rows(l, l->n_rows);
    Seat *seat = oldest_prompt(l);
    bool alone = seat && seat == shortest_prompt(l);
    for (bool first = true; seat && left > 0; first = false) {
        take_rows(l, seat, first && !alone && left > 1 ? left / 2 : left);
        left -= seat->n_rows;
        seat = shortest_prompt(l);
    }
}

/* Bytes that the states of the step take for its rows. */
static size_t step_need(const Lane *l) {
    size_t bytes = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->seats[i].n_rows > 0) bytes += sequence_need(l->seats[i].sequence, l->seats[i].n_rows);
    return bytes;
}

/* The youngest gives up what it read, unless it is the only one that runs. */
static bool preempt_youngest(Lane *l) {
    Seat *youngest = NULL;
    int running = 0;
    for (size_t i = 0; i < l->n; i++)
        if (sequence_started(l->seats[i].sequence)) {
            youngest = &l->seats[i];
            running++;
        }
    if (running < 2) return false;
    sequence_drop(youngest->sequence);
    l->counts.preempted++;
    return true;
}

/* Leaves a step that fits into the budget, or one of the only sequence there is. */
static void fit_step(Lane *l) {
    size_t budget = prefix_cache_budget(l->cache);
    for (;;) {
        plan_step(l);
        size_t need = step_need(l);
        if (need > budget) need = budget;
        if (prefix_cache_bytes(l->cache) + need > budget) prefix_cache_shrink(l->cache, budget - need);
        if (prefix_cache_bytes(l->cache) + need <= budget || !preempt_youngest(l)) return;
    }
}

/* ---- running it ---- */

/* How many of a seat's rows in the step are of its prompt. */
static int rows_of_prompt(const Seat *seat) {
    int left = job_request(seat->job)->n_prompt - sequence_read(seat->sequence);
    return left < 0 ? 0 : left < seat->n_rows ? left : seat->n_rows;
}

static void note_rows(Lane *l) {
    l->counts.steps++;
    l->counts.rows += (uint64_t)l->n_rows;
    l->counts.turns += (uint64_t)l->n_turns;
    int width = 0;
    while (width < ENGINE_WIDTHS - 1 && l->n_turns > 1 << width) width++;
    l->counts.widths[width]++;
    for (int i = 0; i < l->n_turns; i++) l->counts.prompt_rows += (uint64_t)rows_of_prompt(&l->seats[l->turns[i]]);
}

/* Rows cost more the further a prompt has been read, and a stream's own step the longer it is: both are followed. One
 * step that the system has held up says little, so it counts as twice what was expected at most. */
static void note_time(Lane *l, double seconds) {
    l->counts.step_seconds += seconds;
    double *cost = l->n_rows == 1 ? &l->solo : &l->per_row, least = l->solo / 100;
    double found = l->n_rows == 1 ? seconds : (seconds - l->solo) / (l->n_rows - 1);
    if (found > 2 * *cost) found = 2 * *cost;
    *cost = 0.8 * *cost + 0.2 * (found > least ? found : least);
}

/* The step as a whole could not run, for lack of memory: one sequence less, or the end of the last one. */
static void step_failed(Lane *l, const Error *err) {
    prefix_cache_shrink(l->cache, 0);
    if (preempt_youngest(l)) return;
    for (size_t i = 0; i < l->n; i++)
        if (l->seats[i].n_rows > 0) sequence_fail(l->seats[i].sequence, err);
}

/* The logits stand in the order of the rows that wanted them, and those in the order in which seats took theirs. */
static void accept_step(Lane *l, const float *logits) {
    size_t vocab = (size_t)model_vocab_size(l->model);
    const RowFault *faults = l->faults;
    for (int i = 0; i < l->n_turns; i++) {
        Seat *seat = &l->seats[l->turns[i]];
        int used = sequence_accept(seat->sequence, l->sampler, seat->n_rows, faults, logits);
        if (used > 0) logits += (size_t)used * vocab;
        faults += seat->n_rows;
        int n;
        sequence_answer(seat->sequence, &n);
        l->counts.answer_tokens += (uint64_t)(n - seat->told_tokens);
    }
    settle(l);
    for (int i = 0; i < l->n_turns; i++) seat_tell(l, &l->seats[l->turns[i]]);
}

bool lane_step(Lane *l) {
    drop_finished(l);
    start_waiting(l);
    fit_step(l);
    if (l->n_rows == 0) return false;
    note_rows(l);
    const float *logits = NULL;
    Error err = {""};
    double started = clock_seconds();
    if (model_step(l->model, l->rows, l->n_rows, &logits, l->faults, &err)) {
        note_time(l, clock_seconds() - started);
        accept_step(l, logits);
    } else {
        step_failed(l, &err);
    }
    drop_finished(l);
    return true;
}

bool lane_is_empty(const Lane *l) {
    return l->n == 0;
}

void lane_counts(const Lane *l, EngineCounts *out) {
    *out = l->counts;
    out->prefix = *prefix_cache_counts(l->cache);
    out->state_bytes = prefix_cache_bytes(l->cache);
    out->state_budget = prefix_cache_budget(l->cache);
    for (size_t i = 0; i < l->n; i++) {
        const Sequence *s = l->seats[i].sequence;
        if (sequence_finish(s) != FINISH_NONE) continue;
        out->running += sequence_started(s);
        out->waiting += !sequence_started(s);
    }
}
