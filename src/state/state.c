/* Pages per layer, found by position / KV_PAGE. A page outside a layer's window is handed back to the layer's spare
 * list, so a windowed layer lives in a few pages however long the sequence grows; the logical order never changes, so
 * there is no ring to misread. The one invariant: pages [length / KV_PAGE - window] .. cover every position that a row
 * at `length` can see.
 *
 * States that share a prefix share its pages. A page that others use as well is never written: the only positions
 * written are those from `length` on, and state_reserve first gives the state a page of its own for them. */
#include "state/state.h"
#include "base/memory.h"

#include <string.h>

/* Stands before a page's keys and values. */
typedef struct PageHead {
    int users;
} PageHead;
enum { PAGE_HEAD = 64 }; /* bytes, so that the page itself stays aligned */

typedef struct Layer {
    KvView view;
    uint8_t **pages; /* [n_slots], NULL where dropped or not yet made */
    int n_slots;     /* room in `pages` */
    int first, end;  /* pages [first, end) exist */
    uint8_t *spare;  /* one dropped page kept for the next */
    float *recurrent;
} Layer;

struct State {
    const StateShape *shape;
    Layer *layers;
    int length;
    int side;
    float *recurrent; /* of all layers, one after the other; NULL: none */
    size_t n_recurrent;
    bool spoiled;
    size_t bytes;
    StateAccount *account; /* NULL: none */
};

struct StateSnapshot {
    int length;
    size_t n;
    float values[];
};

/* ---- pages ---- */

static PageHead *page_head(uint8_t *page) {
    return (PageHead *)(void *)(page - PAGE_HEAD);
}

static void charge(StateAccount *account, size_t bytes) {
    if (account) account->bytes += bytes;
}

static void discharge(StateAccount *account, size_t bytes) {
    if (account) account->bytes -= bytes;
}

static uint8_t *page_new(State *s, size_t bytes) {
    uint8_t *block = mem_aligned(PAGE_HEAD + bytes, 1);
    if (!block) return NULL;
    uint8_t *page = block + PAGE_HEAD;
    page_head(page)->users = 1;
    charge(s->account, bytes);
    return page;
}

/* One user less; the last one frees it. */
static void page_release(State *s, uint8_t *page, size_t bytes) {
    if (!page || --page_head(page)->users > 0) return;
    mem_free(page - PAGE_HEAD);
    discharge(s->account, bytes);
}

/* ---- making and freeing ---- */

State *state_new(const StateShape *shape, Error *err) {
    State *s = mem_zeroed(1, sizeof *s);
    Layer *layers = mem_zeroed((size_t)shape->n_layers, sizeof *layers);
    size_t n = 0;
    for (int i = 0; i < shape->n_layers; i++) n += shape->layers[i].recurrent;
    float *recurrent = n ? mem_zeroed(n, sizeof *recurrent) : NULL;
    if (!s || !layers || (n && !recurrent)) {
        mem_free(s);
        mem_free(layers);
        mem_free(recurrent);
        error_memory(err, "a sequence's state");
        return NULL;
    }
    *s = (State){.shape = shape, .layers = layers, .recurrent = recurrent, .n_recurrent = n};
    s->bytes = n * sizeof *recurrent;
    size_t at = 0;
    for (int i = 0; i < shape->n_layers; i++) {
        layers[i].view.shape = shape->layers[i].kv;
        layers[i].recurrent = shape->layers[i].recurrent ? recurrent + at : NULL;
        at += shape->layers[i].recurrent;
    }
    return s;
}

void state_free(State *s) {
    if (!s) return;
    for (int i = 0; i < s->shape->n_layers; i++) {
        Layer *l = &s->layers[i];
        size_t bytes = kv_page_bytes(&l->view.shape);
        for (int p = l->first; p < l->end; p++) page_release(s, l->pages[p], bytes);
        page_release(s, l->spare, bytes);
        mem_free(l->pages);
    }
    discharge(s->account, s->n_recurrent * sizeof *s->recurrent);
    mem_free(s->layers);
    mem_free(s->recurrent);
    mem_free(s);
}

static bool slots_grow(Layer *l, int wanted) {
    if (wanted <= l->n_slots) return true;
    int n = l->n_slots * 2 > wanted ? l->n_slots * 2 : wanted;
    uint8_t **pages = mem_resize(l->pages, (size_t)n, sizeof *pages);
    if (!pages) return false;
    memset(pages + l->n_slots, 0, (size_t)(n - l->n_slots) * sizeof *pages);
    l->pages = pages;
    l->view.pages = pages;
    l->n_slots = n;
    return true;
}

/* How many entries n positions have. */
static int entries_of(const LayerShape *l, int n) {
    return l->every > 1 ? n / l->every : n;
}

/* The pages that they take. */
static int pages_of(const LayerShape *l, int n) {
    return (entries_of(l, n) + KV_PAGE - 1) / KV_PAGE;
}

static bool layer_reserve(State *s, Layer *l, int end_page) {
    if (!slots_grow(l, end_page)) return false;
    size_t bytes = kv_page_bytes(&l->view.shape);
    while (l->end < end_page) {
        uint8_t *page = l->spare;
        l->spare = NULL;
        if (!page) {
            if (!(page = page_new(s, bytes))) return false;
            memset(page, 0, bytes); /* positions not yet written are scored and thrown away: no stray values there */
            s->bytes += bytes;
        }
        l->pages[l->end++] = page;
    }
    return true;
}

static void layer_shrink(State *s, Layer *l, int end_page) {
    size_t bytes = kv_page_bytes(&l->view.shape);
    while (l->end > end_page && l->end > l->first) {
        page_release(s, l->pages[--l->end], bytes);
        l->pages[l->end] = NULL;
        s->bytes -= bytes;
    }
}

/* The page that the next entry falls into becomes this state's own. */
static bool layer_own_last(State *s, Layer *l, const LayerShape *shape) {
    int page = entries_of(shape, s->length) / KV_PAGE;
    if (page < l->first || page >= l->end || page_head(l->pages[page])->users == 1) return true;
    size_t bytes = kv_page_bytes(&l->view.shape);
    uint8_t *own = page_new(s, bytes);
    if (!own) return false;
    memcpy(own, l->pages[page], bytes);
    page_release(s, l->pages[page], bytes);
    l->pages[page] = own;
    return true;
}

bool state_reserve(State *s, int end, Error *err) {
    const LayerShape *shapes = s->shape->layers;
    for (int i = 0; i < s->shape->n_layers; i++) {
        if (shapes[i].kv.heads == 0) continue;
        if (layer_own_last(s, &s->layers[i], &shapes[i]) && layer_reserve(s, &s->layers[i], pages_of(&shapes[i], end)))
            continue;
        for (int j = 0; j <= i; j++) layer_shrink(s, &s->layers[j], pages_of(&shapes[j], s->length));
        return error_memory(err, "keys and values: lower --ctx or the number of sequences");
    }
    return true;
}

static size_t layer_need(const State *s, const Layer *l, const LayerShape *shape, int end) {
    int end_page = pages_of(shape, end), page = entries_of(shape, s->length) / KV_PAGE;
    int new_pages = end_page > l->end ? end_page - l->end : 0;
    if (new_pages > 0 && l->spare) new_pages--;
    if (page >= l->first && page < l->end && page_head(l->pages[page])->users > 1) new_pages++;
    return (size_t)new_pages * kv_page_bytes(&l->view.shape);
}

size_t state_need(const State *s, int end) {
    size_t bytes = 0;
    const LayerShape *shapes = s->shape->layers;
    for (int i = 0; i < s->shape->n_layers; i++)
        if (shapes[i].kv.heads > 0) bytes += layer_need(s, &s->layers[i], &shapes[i], end);
    return bytes;
}

int state_length(const State *s) {
    return s->length;
}

void state_set_length(State *s, int n) {
    s->length = n;
}

/* The first position that a row at n sees. */
static int first_visible(const LayerShape *l, int n) {
    int window = l->window > 0 && n - l->window + 1 > 0 ? n - l->window + 1 : 0;
    int chunk = l->chunk > 0 ? n - n % l->chunk : 0;
    return window > chunk ? window : chunk;
}

size_t state_bytes_at(const StateShape *shape, int n) {
    size_t bytes = 0;
    for (int i = 0; i < shape->n_layers; i++) {
        const LayerShape *l = &shape->layers[i];
        int seen = l->window ? l->window : l->chunk; /* the most that a row sees */
        int pages = pages_of(l, n), most = (seen + KV_PAGE - 1) / KV_PAGE + 1;
        if (seen && pages > most) pages = most;
        bytes += (size_t)pages * kv_page_bytes(&l->kv) + l->recurrent * sizeof(float);
    }
    return bytes;
}

/* Whether every layer still holds what a row at n would see. */
static bool holds(const State *s, int n) {
    if (n > s->length) return false;
    for (int i = 0; i < s->shape->n_layers; i++)
        if (first_visible(&s->shape->layers[i], n) / KV_PAGE < s->layers[i].first) return false;
    return true;
}

static void shrink(State *s, int n) {
    for (int i = 0; i < s->shape->n_layers; i++) layer_shrink(s, &s->layers[i], pages_of(&s->shape->layers[i], n));
    s->length = n;
}

bool state_can_cut(const State *s, int n) {
    if (s->n_recurrent && n != s->length && n > 0) return false;
    return !s->spoiled && holds(s, n);
}

bool state_cut(State *s, int n) {
    if (!state_can_cut(s, n)) return false;
    if (n == 0 && s->n_recurrent) memset(s->recurrent, 0, s->n_recurrent * sizeof *s->recurrent);
    shrink(s, n);
    return true;
}

/* ---- sharing ---- */

void state_charge(State *s, StateAccount *account) {
    s->account = account;
    charge(account, s->n_recurrent * sizeof *s->recurrent);
}

static bool layer_share(State *out, Layer *to, const Layer *from, int end_page) {
    int end = end_page < from->end ? end_page : from->end;
    if (!slots_grow(to, end)) return false;
    to->first = to->end = from->first < end ? from->first : end;
    for (; to->end < end; to->end++) {
        uint8_t *page = from->pages[to->end];
        page_head(page)->users++;
        to->pages[to->end] = page;
        out->bytes += kv_page_bytes(&from->view.shape);
    }
    return true;
}

State *state_clone(const State *s, int n, Error *err) {
    if (!state_can_cut(s, n)) {
        error_set(err, "the state can not be cut at %d of %d positions", n, s->length);
        return NULL;
    }
    State *out = state_new(s->shape, err);
    if (!out) return NULL;
    state_charge(out, s->account);
    bool ok = true;
    for (int i = 0; i < s->shape->n_layers && ok; i++)
        ok = layer_share(out, &out->layers[i], &s->layers[i], pages_of(&s->shape->layers[i], n));
    if (!ok) {
        state_free(out);
        error_memory(err, "a sequence's state");
        return NULL;
    }
    if (s->n_recurrent && n > 0) memcpy(out->recurrent, s->recurrent, s->n_recurrent * sizeof *s->recurrent);
    out->length = n;
    out->side = s->side;
    return out;
}

/* ---- recurrent state ---- */

float *state_recurrent(const State *s, int layer) {
    return s->layers[layer].recurrent;
}

void state_spoil(State *s) {
    s->spoiled = s->n_recurrent > 0;
}

bool state_spoiled(const State *s) {
    return s->spoiled;
}

StateSnapshot *state_save(const State *s, Error *err) {
    StateSnapshot *snapshot = mem_zeroed(1, sizeof *snapshot + s->n_recurrent * sizeof *s->recurrent);
    if (!snapshot) {
        error_memory(err, "a snapshot of a sequence's state");
        return NULL;
    }
    snapshot->length = s->length;
    snapshot->n = s->n_recurrent;
    if (s->n_recurrent) memcpy(snapshot->values, s->recurrent, s->n_recurrent * sizeof *s->recurrent);
    return snapshot;
}

void state_snapshot_free(StateSnapshot *snapshot) {
    mem_free(snapshot);
}

size_t state_snapshot_bytes(const StateSnapshot *snapshot) {
    return sizeof *snapshot + snapshot->n * sizeof(float);
}

bool state_restore(State *s, const StateSnapshot *snapshot) {
    if (snapshot->n != s->n_recurrent || !holds(s, snapshot->length)) return false;
    if (s->n_recurrent) memcpy(s->recurrent, snapshot->values, s->n_recurrent * sizeof *s->recurrent);
    s->spoiled = false;
    shrink(s, snapshot->length);
    return true;
}

int state_side(const State *s) {
    return s->side;
}

/* The pages that no other state uses move to the front; a windowed layer's do not begin there. */
static void layer_restart(State *s, Layer *l) {
    size_t bytes = kv_page_bytes(&l->view.shape);
    int n = 0;
    for (int p = l->first; p < l->end; p++) {
        uint8_t *page = l->pages[p];
        l->pages[p] = NULL;
        if (page_head(page)->users == 1) {
            l->pages[n++] = page;
        } else {
            page_release(s, page, bytes);
            s->bytes -= bytes;
        }
    }
    l->first = 0;
    l->end = n;
}

void state_restart(State *s, int side) {
    for (int i = 0; i < s->shape->n_layers; i++) layer_restart(s, &s->layers[i]);
    if (s->n_recurrent) memset(s->recurrent, 0, s->n_recurrent * sizeof *s->recurrent);
    s->spoiled = false;
    s->length = 0;
    s->side = side;
}

/* A page dropped for good, or kept for the next one that is needed. */
static void layer_drop_first(State *s, Layer *l) {
    size_t bytes = kv_page_bytes(&l->view.shape);
    uint8_t *page = l->pages[l->first];
    l->pages[l->first++] = NULL;
    if (page_head(page)->users == 1 && !l->spare) {
        l->spare = page;
        return;
    }
    page_release(s, page, bytes);
    s->bytes -= bytes;
}

void state_trim(State *s, int n) {
    for (int i = 0; i < s->shape->n_layers; i++) {
        Layer *l = &s->layers[i];
        int keep = first_visible(&s->shape->layers[i], n) / KV_PAGE;
        while (l->first < keep && l->first < l->end) layer_drop_first(s, l);
    }
}

const KvView *state_layer(const State *s, int layer) {
    return &s->layers[layer].view;
}

size_t state_bytes(const State *s) {
    return s->bytes;
}
