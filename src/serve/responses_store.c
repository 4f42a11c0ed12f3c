/* A list in the order of use, newest first; a thousand entries are looked through faster than a request is parsed. */
#include "serve/responses_store.h"
#include "base/memory.h"

#include <string.h>

typedef struct Entry {
    KeptResponse kept;
    size_t bytes;
    struct Entry *next;
} Entry;

struct ResponseStore {
    Entry *first;
    int n, most;
    size_t bytes, most_bytes;
};

ResponseStore *response_store_new(int most, size_t most_bytes, Error *err) {
    ResponseStore *s = mem_zeroed(1, sizeof *s);
    if (s)
        *s = (ResponseStore){.most = most, .most_bytes = most_bytes};
    else
        error_memory(err, "the responses");
    return s;
}

static void entry_free(Entry *e) {
    mem_free(e->kept.id);
    buffer_clear(&e->kept.response);
    buffer_clear(&e->kept.input);
    buffer_clear(&e->kept.output);
    mem_free(e);
}

/* Takes it out of the list. */
static Entry *unlink_at(ResponseStore *s, Entry **at) {
    Entry *e = *at;
    *at = e->next;
    s->n--;
    s->bytes -= e->bytes;
    return e;
}

static void link_first(ResponseStore *s, Entry *e) {
    e->next = s->first;
    s->first = e;
    s->n++;
    s->bytes += e->bytes;
}

static void drop_last(ResponseStore *s) {
    Entry **at = &s->first;
    while ((*at)->next) at = &(*at)->next;
    entry_free(unlink_at(s, at));
}

void response_store_free(ResponseStore *s) {
    while (s && s->first) entry_free(unlink_at(s, &s->first));
    mem_free(s);
}

/* What it holds is what was allocated, not what is used of it. */
static size_t entry_bytes(const Entry *e) {
    const KeptResponse *k = &e->kept;
    return sizeof *e + strlen(k->id) + 1 + k->response.capacity + k->input.capacity + k->output.capacity;
}

void response_store_keep(ResponseStore *s, const char *id, Buffer *response, Buffer *input, Buffer *output) {
    Entry *e = mem_zeroed(1, sizeof *e);
    bool whole = e && !response->failed && !input->failed && !output->failed;
    if (e) {
        e->kept = (KeptResponse){mem_string(id, strlen(id)), *response, *input, *output};
    } else {
        buffer_clear(response);
        buffer_clear(input);
        buffer_clear(output);
    }
    buffer_init(response);
    buffer_init(input);
    buffer_init(output);
    if (!whole || !e->kept.id || (e->bytes = entry_bytes(e)) > s->most_bytes) {
        if (e) entry_free(e);
        return;
    }
    while (s->first && (s->n >= s->most || s->bytes + e->bytes > s->most_bytes)) drop_last(s);
    link_first(s, e);
}

static Entry **find(ResponseStore *s, const char *id) {
    Entry **at = &s->first;
    while (*at && strcmp((*at)->kept.id, id) != 0) at = &(*at)->next;
    return at;
}

const KeptResponse *response_store_find(ResponseStore *s, const char *id) {
    Entry **at = find(s, id);
    if (!*at) return NULL;
    link_first(s, unlink_at(s, at));
    return &s->first->kept;
}

bool response_store_delete(ResponseStore *s, const char *id) {
    Entry **at = find(s, id);
    if (!*at) return false;
    entry_free(unlink_at(s, at));
    return true;
}
