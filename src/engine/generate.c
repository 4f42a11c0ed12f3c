/* The loop around a sequence: rows, step, accept. A Ctrl-C or a closed pipe is seen after each step, so within a chunk
 * of the prompt or one token. */
#include "engine/generate.h"
#include "base/memory.h"
#include "engine/clock.h"

typedef struct Run {
    Model *model;
    Sequence *sequence;
    Sampler *sampler;
    Row *rows;
    RowFault *faults;
    const float *logits; /* of the last step */
    size_t told;         /* bytes of text the sink has had */
    int steps_with_logits;
    double started, first_token, ended;
} Run;

void generation_clear(Generation *g) {
    id_list_clear(&g->ids);
    buffer_clear(&g->text);
    *g = (Generation){0};
}

static bool run_step(Run *r, Error *err) {
    int n = sequence_rows(r->sequence, PREFILL_ROWS, r->rows);
    const float *logits = NULL;
    if (!model_step(r->model, r->rows, n, &logits, r->faults, err)) return false;
    sequence_accept(r->sequence, r->sampler, n, r->faults, logits);
    if (sequence_finish(r->sequence) == FINISH_FAILED) return error_set(err, "%s", sequence_error(r->sequence));
    if (logits) {
        r->logits = logits;
        r->ended = clock_seconds();
        if (r->steps_with_logits++ == 0) r->first_token = r->ended;
    }
    return true;
}

static void run_tell(Run *r, GenerateSink *sink, void *context) {
    const Buffer *text = sequence_text(r->sequence);
    bool go_on = !sink || sink(context, buffer_string(text) + r->told, text->length - r->told);
    r->told = text->length;
    if (!go_on && sequence_finish(r->sequence) == FINISH_NONE) sequence_cancel(r->sequence);
}

static bool run_all(Run *r, GenerateSink *sink, void *context, Error *err) {
    r->started = r->first_token = r->ended = clock_seconds();
    while (sequence_finish(r->sequence) == FINISH_NONE) {
        if (!run_step(r, err)) return false;
        run_tell(r, sink, context);
    }
    const Buffer *text = sequence_text(r->sequence); /* what a cancel released is shown, too */
    if (sink && text->length > r->told) sink(context, text->data + r->told, text->length - r->told);
    return true;
}

static bool run_result(const Run *r, const Request *request, Generation *out, Error *err) {
    Generation g = {.finish = sequence_finish(r->sequence),
                    .n_prompt = request->n_prompt,
                    .n_cached = sequence_cached(r->sequence),
                    .decode_steps = r->steps_with_logits > 1 ? r->steps_with_logits - 1 : 0,
                    .prompt_seconds = r->first_token - r->started,
                    .decode_seconds = r->ended - r->first_token,
                    .last_logits = r->logits};
    int n;
    const int32_t *ids = sequence_answer(r->sequence, &n);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = id_list_push(&g.ids, ids[i]);
    buffer_append(&g.text, buffer_string(sequence_text(r->sequence)), sequence_text(r->sequence)->length);
    if (!ok || g.text.failed) {
        generation_clear(&g);
        return error_memory(err, "the answer");
    }
    *out = g;
    return true;
}

bool generate(Model *model, const Tokenizer *tokenizer, PrefixCache *cache, const Request *request, GenerateSink *sink,
              void *context, Generation *out, Error *err) {
    Run r = {.model = model};
    bool ok = false;
    r.sequence = sequence_new(request, model, tokenizer, cache, err);
    if (!r.sequence) return false;
    r.sampler = sampler_new(model_vocab_size(model), err);
    if (!r.sampler) goto end;
    r.rows = mem_array(PREFILL_ROWS, sizeof *r.rows);
    r.faults = mem_array(PREFILL_ROWS, sizeof *r.faults);
    if (!r.rows || !r.faults) {
        error_memory(err, "a step's rows");
        goto end;
    }
    ok = sequence_start(r.sequence, err) && run_all(&r, sink, context, err) && run_result(&r, request, out, err);
end:
    mem_free(r.rows);
    mem_free(r.faults);
    sampler_free(r.sampler);
    sequence_free(r.sequence);
    return ok;
}
