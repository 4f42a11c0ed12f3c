/* One Knuth-Morris-Pratt automaton per stop string, fed byte by byte: its state is the length of the longest beginning
 * of the string that the stream ends with. The greatest state is exactly what must be withheld, and it always begins at
 * a character, because a stop string does. */
#include "text/stop.h"
#include "base/memory.h"

#include <stdint.h>
#include <string.h>

typedef struct Automaton {
    char *text;
    size_t length, state;
    size_t *border; /* border[i]: the longest proper beginning of text[0..i] that also ends it */
} Automaton;

struct StopMatcher {
    Automaton *automata;
    size_t n;
    Buffer held;
    int matched;
};

static bool automaton_init(Automaton *a, StopText stop) {
    a->length = stop.length;
    a->text = mem_string(stop.text, stop.length);
    a->border = mem_zeroed(stop.length, sizeof *a->border);
    if (!a->text || !a->border) return false;
    for (size_t i = 1, k = 0; i < a->length; i++) {
        while (k && a->text[i] != a->text[k]) k = a->border[k - 1];
        if (a->text[i] == a->text[k]) k++;
        a->border[i] = k;
    }
    return true;
}

static void automaton_feed(Automaton *a, char c) {
    size_t k = a->state;
    while (k && (k == a->length || a->text[k] != c)) k = a->border[k - 1];
    a->state = a->text[k] == c ? k + 1 : 0;
}

StopMatcher *stop_new(const StopText *stops, size_t n, Error *err) {
    StopMatcher *m = mem_zeroed(1, sizeof *m);
    if (m) m->automata = mem_zeroed(n, sizeof *m->automata);
    bool ok = (m && m->automata) || error_memory(err, "stop strings");
    for (size_t i = 0; ok && i < n; i++) {
        m->n = i + 1;
        if (stops[i].length == 0)
            ok = error_set(err, "stop string %zu is empty", i);
        else if (!automaton_init(&m->automata[i], stops[i]))
            ok = error_memory(err, "stop strings");
    }
    if (ok) {
        stop_reset(m);
        return m;
    }
    stop_free(m);
    return NULL;
}

void stop_free(StopMatcher *m) {
    if (!m) return;
    for (size_t i = 0; m->automata && i < m->n; i++) {
        mem_free(m->automata[i].text);
        mem_free(m->automata[i].border);
    }
    mem_free(m->automata);
    buffer_clear(&m->held);
    mem_free(m);
}

void stop_reset(StopMatcher *m) {
    buffer_reset(&m->held);
    m->matched = -1;
    for (size_t i = 0; i < m->n; i++) m->automata[i].state = 0;
}

/* Feeds one byte to all; true when a stop string is complete. *waiting: the longest beginning. */
static bool feed(StopMatcher *m, char c, size_t *waiting) {
    *waiting = 0;
    for (size_t i = 0; i < m->n; i++) {
        Automaton *a = &m->automata[i];
        automaton_feed(a, c);
        if (a->state > *waiting) *waiting = a->state;
        bool longer = m->matched < 0 || a->length > m->automata[m->matched].length;
        if (a->state == a->length && longer) m->matched = (int)i;
    }
    return m->matched >= 0;
}

bool stop_push(StopMatcher *m, const char *text, size_t n, Buffer *out, Error *err) {
    if (m->matched >= 0) return true;
    buffer_append(&m->held, text, n);
    if (m->held.failed || !buffer_reserve(out, m->held.length)) return error_memory(err, "stop strings");
    size_t waiting = m->n && m->held.length > n ? m->held.length - n : 0, seen = m->held.length - n;
    for (size_t i = 0; i < n && m->matched < 0; i++) {
        seen++;
        if (feed(m, text[i], &waiting)) waiting = m->automata[m->matched].length;
    }
    size_t ready = seen - waiting; /* what follows a match was never seen */
    buffer_append(out, m->held.data, ready);
    m->held.length -= ready;
    if (ready) memmove(m->held.data, m->held.data + ready, m->held.length);
    return true;
}

int stop_matched(const StopMatcher *m) {
    return m->matched;
}

bool stop_finish(StopMatcher *m, Buffer *out, Error *err) {
    if (m->matched < 0) buffer_append(out, m->held.data, m->held.length);
    buffer_reset(&m->held);
    return !out->failed || error_memory(err, "stop strings");
}
