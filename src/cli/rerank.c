/* lockstep rerank: texts in the order of their relevance to a query, with the scores that /v1/rerank gives. A text's
 * index is its place among those given; a line of a file that is empty is a text too. */
#include "engine/rerank.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "engine/clock.h"

#include <string.h>

typedef struct Document {
    char *text; /* owned */
    size_t n, n_cut;
} Document;

typedef struct Documents {
    Ranking ranking;
    Document *items;
    size_t n, capacity;
    size_t n_shortened; /* texts, the query among them, that were cut */
} Documents;

static void documents_clear(Documents *d) {
    for (size_t i = 0; i < d->n; i++) mem_free(d->items[i].text);
    mem_free(d->items);
    ranking_clear(&d->ranking);
}

/* An InputLine. */
static bool add_text(void *context, const char *text, size_t n, Error *err) {
    Documents *d = context;
    Document *items = mem_room(d->items, d->n, &d->capacity, sizeof *items);
    if (!items) return error_memory(err, "the texts");
    d->items = items;
    Document *item = &items[d->n];
    *item = (Document){.text = mem_string(text, n), .n = n};
    if (!item->text) return error_memory(err, "the texts");
    d->n++;
    if (!ranking_add(&d->ranking, text, n, &item->n_cut, err)) return error_prefix(err, "text %zu", d->n - 1);
    d->n_shortened += item->n_cut > 0;
    return true;
}

static bool add_values(const Args *args, Documents *d, Error *err) {
    const char **values = NULL;
    int n;
    bool ok = args_list(args, FLAG_TEXT, &values, &n, err);
    for (int i = 0; ok && i < n; i++) ok = add_text(d, values[i], strlen(values[i]), err);
    mem_free(values);
    return ok;
}

static bool read_texts(const Args *args, const Embedder *e, Documents *d, Error *err) {
    const char *query = args_text(args, FLAG_QUERY), *path = args_text(args, FLAG_FILE);
    size_t n_cut;
    if (!ranking_possible(e, err)) return false;
    if (!ranking_begin(&d->ranking, e, query, strlen(query), &n_cut, err)) return error_prefix(err, "the query");
    d->n_shortened += n_cut > 0;
    if (!add_values(args, d, err) || (path && !input_lines(path, add_text, d, err))) return false;
    if (d->n == 0) return error_set(err, "%s: there are no texts", path);
    if (d->n_shortened)
        log_warn("%zu of %zu %s were longer than the %d tokens that this model takes, and were cut", d->n_shortened,
                 d->ranking.n, embedder_scores_pairs(e) ? "pairs" : "texts", embedder_max_tokens(e));
    return true;
}

/* On one line, whatever is in it. */
static void write_text(const Document *d, Buffer *out) {
    for (size_t i = 0; i < d->n; i++) buffer_byte(out, (unsigned char)d->text[i] < ' ' ? ' ' : d->text[i]);
}

static void write_line(const Documents *d, const Ranked *ranked, Buffer *out) {
    buffer_printf(out, "%.9g\t%d\t", ranked->score, ranked->index);
    write_text(&d->items[ranked->index], out);
    buffer_byte(out, '\n');
}

static void write_object(const Documents *d, const Ranked *ranked, Buffer *out) {
    size_t n_cut = d->items[ranked->index].n_cut;
    buffer_printf(out, "{\"index\": %d, \"relevance_score\": ", ranked->index);
    json_write_double(out, ranked->score);
    if (n_cut) buffer_printf(out, ", \"truncated_tokens\": %zu", n_cut);
    buffer_byte(out, '}');
}

/* Score, index and text per line; or {"results": [...], "tokens": n}. */
static void write_ranked(const Documents *d, const Ranked *ranked, bool json, Buffer *out) {
    if (json) buffer_text(out, "{\"results\": [");
    for (size_t i = 0; i < d->n; i++) {
        if (json && i) buffer_text(out, ", ");
        (json ? write_object : write_line)(d, &ranked[i], out);
    }
    if (json) buffer_printf(out, "], \"tokens\": %zu}\n", d->ranking.ids.n);
}

static bool show_progress(void *context, int done, int n) {
    (void)context;
    progress_show("rerank", done, n);
    return true;
}

static bool score_texts(Embedder *e, Documents *d, Ranked *ranked, Error *err) {
    int n = (int)d->ranking.n;
    float *values = mem_array((size_t)n, (size_t)embedder_size(e) * sizeof *values);
    if (!values) return error_memory(err, "the scores");
    bool ok = embedder_run(e, ranking_inputs(&d->ranking), n, values, show_progress, NULL, err);
    progress_clear();
    if (ok) ranking_sort(&d->ranking, values, ranked);
    mem_free(values);
    return ok;
}

static bool rank_texts(const Args *args, Embedder *e, Documents *d, Error *err) {
    double started = clock_seconds();
    Buffer out = {0};
    if (!read_texts(args, e, d, err)) return false;
    Ranked *ranked = mem_array(d->n, sizeof *ranked);
    if (!ranked) return error_memory(err, "the scores");
    bool ok = score_texts(e, d, ranked, err);
    double seconds = clock_seconds() - started;
    if (ok) {
        write_ranked(d, ranked, args_has(args, FLAG_JSON), &out);
        output_buffer(&out);
        log_verbose("%zu texts, %zu tokens in %.3f s: %.1f texts/s", d->n, d->ranking.ids.n, seconds,
                    (double)d->n / seconds);
    }
    buffer_clear(&out);
    mem_free(ranked);
    return ok;
}

int command_rerank(const Args *args) {
    Error err;
    Loaded loaded;
    Documents documents = {0};
    if (!args_has(args, FLAG_QUERY)) return wrong_usage(args->command, "give --query");
    if (args_has(args, FLAG_TEXT) + args_has(args, FLAG_FILE) != 1)
        return wrong_usage(args->command, "give --text or --file");
    if (!setup_load(args, LOAD_NEEDED, LOAD_NOT, &loaded, &err)) return complain(&err);
    Embedder *e = embedder_new(loaded.folder.data, loaded.model, loaded.tokenizer, &err);
    bool ok = e && rank_texts(args, e, &documents, &err);
    documents_clear(&documents);
    embedder_free(e);
    loaded_close(&loaded);
    return ok ? 0 : complain(&err);
}
