/* Copies of requests, for those that outlive their asker's stack, and what follows from a request alone. */
#include "engine/request.h"
#include "base/memory.h"

#include <string.h>

/* False only when out of memory: nothing to copy is fine. */
static bool copy_items(const void *from, int n, size_t size, const void **to) {
    *to = NULL;
    if (n <= 0) return true;
    void *copy = mem_array((size_t)n, size);
    if (!copy) return false;
    memcpy(copy, from, (size_t)n * size);
    *to = copy;
    return true;
}

static bool copy_text(const char *from, const char **to) {
    *to = from ? mem_string(from, strlen(from)) : NULL;
    return *to || !from;
}

static bool copy_stops(const Request *from, Request *to) {
    StopText *stops = from->n_stops > 0 ? mem_zeroed((size_t)from->n_stops, sizeof *stops) : NULL;
    to->stops = stops;
    to->n_stops = 0;
    if (from->n_stops > 0 && !stops) return false;
    for (int i = 0; i < from->n_stops; i++) {
        char *text = mem_string(from->stops[i].text, from->stops[i].length);
        if (!text) return false;
        stops[to->n_stops++] = (StopText){text, from->stops[i].length};
    }
    return true;
}

Request *request_copy(const Request *r) {
    Request *copy = mem_zeroed(1, sizeof *copy);
    if (!copy) return NULL;
    *copy = *r;
    Sampling *s = &copy->sampling;
    bool ok = copy_items(r->prompt, r->n_prompt, sizeof *r->prompt, (const void **)&copy->prompt);
    ok = copy_items(r->sampling.bias, s->n_bias, sizeof *s->bias, (const void **)&s->bias) && ok;
    ok =
        copy_items(r->sampling.suppressed, s->n_suppressed, sizeof *s->suppressed, (const void **)&s->suppressed) && ok;
    ok = copy_items(r->end_ids, r->n_end_ids, sizeof *r->end_ids, (const void **)&copy->end_ids) && ok;
    ok = copy_items(r->kept_ids, r->n_kept_ids, sizeof *r->kept_ids, (const void **)&copy->kept_ids) && ok;
    ok = copy_items(r->forced, r->n_forced, sizeof *r->forced, (const void **)&copy->forced) && ok;
    ok = copy_text(r->reasoning_close, &copy->reasoning_close) && ok;
    ok = copy_text(r->reasoning_open, &copy->reasoning_open) && ok;
    copy->grammar = r->grammar ? grammar_hold(r->grammar) : NULL;
    ok = copy_stops(r, copy) && ok;
    if (ok) return copy;
    request_free(copy);
    return NULL;
}

void request_free(Request *r) {
    if (!r) return;
    for (int i = 0; i < r->n_stops; i++) mem_free((void *)r->stops[i].text);
    mem_free((void *)r->stops);
    mem_free((void *)r->prompt);
    mem_free((void *)r->sampling.bias);
    mem_free((void *)r->sampling.suppressed);
    mem_free((void *)r->end_ids);
    mem_free((void *)r->kept_ids);
    mem_free((void *)r->forced);
    mem_free((void *)r->reasoning_close);
    mem_free((void *)r->reasoning_open);
    grammar_free(r->grammar);
    mem_free(r);
}

bool request_ends(const Request *r, int32_t id) {
    for (int i = 0; i < r->n_end_ids; i++)
        if (r->end_ids[i] == id) return true;
    return false;
}
