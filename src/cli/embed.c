/* lockstep embed: a vector per text. All texts go through the model together; a line of a file that is empty is a text
 * too, so that line n out answers line n in. */
#include "engine/embed.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "engine/clock.h"

#include <string.h>

/* The texts as ids, one after the other. */
typedef struct Texts {
    const Embedder *embedder;
    const char *prompt;
    IdList ids;
    size_t *ends;   /* [n] where each one ends in ids */
    int *n_prompts; /* [n] */
    size_t n, end_capacity, prompt_capacity;
    int n_cut;
} Texts;

static bool add_end(Texts *t, int n_prompt, Error *err) {
    size_t *ends = mem_room(t->ends, t->n, &t->end_capacity, sizeof *ends);
    if (ends) t->ends = ends;
    int *prompts = ends ? mem_room(t->n_prompts, t->n, &t->prompt_capacity, sizeof *prompts) : NULL;
    if (!prompts) return error_memory(err, "the texts");
    t->n_prompts = prompts;
    t->ends[t->n] = t->ids.n;
    t->n_prompts[t->n++] = n_prompt;
    return true;
}

/* An InputLine. */
static bool add_text(void *context, const char *text, size_t n, Error *err) {
    Texts *t = context;
    int n_prompt;
    size_t n_whole;
    if (!embedder_encode(t->embedder, t->prompt, text, n, &t->ids, &n_prompt, &n_whole, err))
        return error_prefix(err, "text %zu", t->n);
    t->n_cut += n_whole > (size_t)embedder_max_tokens(t->embedder);
    return add_end(t, n_prompt, err);
}

static bool add_ids(void *context, const char *text, size_t n, Error *err) {
    Texts *t = context;
    char *copy = mem_string(text, n);
    bool ok = copy ? input_ids("--ids", copy, &t->ids, err) : error_memory(err, "the ids");
    mem_free(copy);
    return ok && add_end(t, 0, err);
}

/* Each value of a repeatable flag. */
static bool add_values(const Args *args, FlagId flag, InputLine *add, Texts *t, Error *err) {
    const char **values = NULL;
    int n;
    bool ok = args_list(args, flag, &values, &n, err);
    for (int i = 0; ok && i < n; i++) ok = add(t, values[i], strlen(values[i]), err);
    mem_free(values);
    return ok;
}

static bool read_texts(const Args *args, Texts *t, Error *err) {
    const char *path = args_text(args, FLAG_FILE);
    if (!embed_plan_prompt(embedder_plan(t->embedder), args_text(args, FLAG_PROMPT_NAME), &t->prompt, err))
        return false;
    if (!add_values(args, FLAG_IDS, add_ids, t, err) || !add_values(args, FLAG_TEXT, add_text, t, err)) return false;
    if (path && !input_lines(path, add_text, t, err)) return false;
    if (t->n_cut)
        log_warn("%d of %zu texts were longer than the %d tokens that this model takes, and were cut", t->n_cut, t->n,
                 embedder_max_tokens(t->embedder));
    return true;
}

static void write_vector(const float *v, int n, Buffer *out) {
    buffer_byte(out, '[');
    for (int i = 0; i < n; i++) buffer_printf(out, "%s%.9g", i ? ", " : "", (double)v[i]);
    buffer_byte(out, ']');
}

static int text_length(const Texts *t, size_t i) {
    return (int)(t->ends[i] - (i ? t->ends[i - 1] : 0));
}

/* A vector per line; or {"embeddings": [...], "tokens": [...]}. */
static void write_vectors(const Texts *t, const float *vectors, bool json, Buffer *out) {
    int size = embedder_size(t->embedder);
    if (json) buffer_text(out, "{\"embeddings\": [");
    for (size_t i = 0; i < t->n; i++) {
        if (json && i) buffer_text(out, ", ");
        write_vector(vectors + i * (size_t)size, size, out);
        if (!json) buffer_byte(out, '\n');
    }
    if (!json) return;
    buffer_text(out, "], \"tokens\": [");
    for (size_t i = 0; i < t->n; i++) buffer_printf(out, "%s%d", i ? ", " : "", text_length(t, i));
    buffer_text(out, "]}\n");
}

static bool show_progress(void *context, int done, int n) {
    (void)context;
    progress_show("embed", done, n);
    return true;
}

static bool run_texts(Embedder *e, const Texts *t, float *vectors, Error *err) {
    EmbedInput *inputs = mem_array(t->n, sizeof *inputs);
    if (!inputs) return error_memory(err, "the texts");
    for (size_t i = 0; i < t->n; i++)
        inputs[i] = (EmbedInput){t->ids.ids + (i ? t->ends[i - 1] : 0), text_length(t, i), t->n_prompts[i], NULL};
    bool ok = embedder_run(e, inputs, (int)t->n, vectors, show_progress, NULL, err);
    progress_clear();
    mem_free(inputs);
    return ok;
}

static bool embed_texts(const Args *args, Embedder *e, Texts *t, Error *err) {
    double started = clock_seconds();
    Buffer out = {0};
    float *vectors = NULL;
    bool ok = read_texts(args, t, err);
    if (ok && !(vectors = mem_array(t->n, (size_t)embedder_size(e) * sizeof *vectors)))
        ok = error_memory(err, "the vectors");
    ok = ok && run_texts(e, t, vectors, err);
    double seconds = clock_seconds() - started;
    if (ok) {
        write_vectors(t, vectors, args_has(args, FLAG_JSON), &out);
        output_buffer(&out);
        log_verbose("%zu texts, %zu tokens in %.3f s: %.1f texts/s", t->n, t->ids.n, seconds, (double)t->n / seconds);
    }
    buffer_clear(&out);
    mem_free(vectors);
    return ok;
}

int command_embed(const Args *args) {
    Error err;
    Loaded loaded;
    Texts texts = {0};
    bool by_ids = args_has(args, FLAG_IDS);
    if (args_has(args, FLAG_TEXT) + args_has(args, FLAG_FILE) + by_ids != 1)
        return wrong_usage(args->command, "give --text, --file or --ids");
    if (!setup_load(args, by_ids ? LOAD_NOT : LOAD_NEEDED, LOAD_NOT, &loaded, &err)) return complain(&err);
    Embedder *e = embedder_new(loaded.folder.data, loaded.model, loaded.tokenizer, &err);
    texts.embedder = e;
    bool ok = e && embedder_needs_vectors(e, &err) && embed_texts(args, e, &texts, &err);
    embedder_free(e);
    id_list_clear(&texts.ids);
    mem_free(texts.ends);
    mem_free(texts.n_prompts);
    loaded_close(&loaded);
    return ok ? 0 : complain(&err);
}
