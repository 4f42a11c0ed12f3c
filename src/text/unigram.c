/* One pass forward over the offsets (each knows the best way to reach it), one back along the best ways. Scores are
 * added in text order as doubles and ties keep the earlier found way, exactly as in the reference; for models of
 * SentencePiece in single precision, as there. */
#include "text/unigram.h"
#include "base/memory.h"
#include "text/component.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double UNKNOWN_PENALTY = 10.0;
static const double FAR = 100000.0; /* from here on single precision is too coarse: the counting begins anew */

/* ---- the trie ---- */

typedef struct Sorted {
    const char *text;
    uint32_t length;
    int32_t id;
} Sorted;

typedef struct Range {
    size_t low, high; /* of the sorted tokens below a node */
    uint32_t depth;
} Range;

static int compare_sorted(const void *x, const void *y) {
    const Sorted *a = x, *b = y;
    uint32_t n = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, n);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Appends the children of node `at`, whose tokens are `range`. */
static void add_children(Unigram *u, Range *ranges, size_t at, const Sorted *tokens) {
    Range range = ranges[at];
    TrieNode *node = &u->nodes[at];
    while (range.low < range.high &&
           tokens[range.low].length == range.depth) { /* ends here; of equal ones the last counts */
        node->id = tokens[range.low++].id;
    }
    node->children = (uint32_t)u->n_nodes;
    while (range.low < range.high) {
        unsigned char byte = (unsigned char)tokens[range.low].text[range.depth];
        size_t end = range.low;
        while (end < range.high && (unsigned char)tokens[end].text[range.depth] == byte) end++;
        ranges[u->n_nodes] = (Range){range.low, end, range.depth + 1};
        u->nodes[u->n_nodes++] = (TrieNode){.byte = byte, .id = -1};
        node->n_children++;
        range.low = end;
    }
}

static bool build_trie(Unigram *u, const Vocab *vocab, Error *err) {
    size_t n = (size_t)vocab->count, bytes = 1;
    Sorted *tokens = mem_array(n, sizeof *tokens);
    size_t n_matching = 0;
    for (size_t i = 0; tokens && i < n; i++) {
        const VocabToken *t = &vocab->tokens[i];
        if (isnan(u->scores[t->id])) continue;
        tokens[n_matching++] = (Sorted){vocab->bytes + t->start, t->length, t->id};
        bytes += t->length;
    }
    n = n_matching;
    u->nodes = mem_array(bytes, sizeof *u->nodes);
    Range *ranges = mem_array(bytes, sizeof *ranges);
    bool ok = tokens && u->nodes && ranges;
    if (ok) {
        qsort(tokens, n, sizeof *tokens, compare_sorted);
        size_t first = 0;
        while (first < n && tokens[first].length == 0) first++; /* an empty token never matches */
        ranges[0] = (Range){first, n, 0};
        u->nodes[u->n_nodes++] = (TrieNode){.id = -1};
        for (size_t i = 0; i < u->n_nodes; i++) add_children(u, ranges, i, tokens);
    }
    mem_free(tokens);
    mem_free(ranges);
    return ok || error_memory(err, "the vocabulary");
}

static const TrieNode *child_of(const Unigram *u, const TrieNode *node, unsigned char byte) {
    const TrieNode *children = u->nodes + node->children;
    uint32_t low = 0, high = node->n_children;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (children[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < node->n_children && children[low].byte == byte ? &children[low] : NULL;
}

/* ---- loading ---- */

static double rounded(const Unigram *u, double score) {
    return u->single ? (double)(float)score : score;
}

bool unigram_load_scores(Unigram *u, const Vocab *vocab, const double *scores, UnigramOptions options, Error *err) {
    *u = (Unigram){
        .vocab = vocab, .unknown = options.unknown, .byte_fallback = options.byte_fallback, .single = options.single};
    u->scores = mem_array((size_t)vocab->size, sizeof *u->scores);
    if (!u->scores) return error_memory(err, "the vocabulary");
    memcpy(u->scores, scores, (size_t)vocab->size * sizeof *u->scores);
    u->unknown_score = rounded(u, options.least - UNKNOWN_PENALTY);
    if (!build_trie(u, vocab, err)) {
        unigram_clear(u);
        return false;
    }
    for (int i = 0; i < 256; i++) {
        static const char digits[] = "0123456789ABCDEF";
        char token[6] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        u->byte_ids[i] = vocab_find(vocab, token, 6);
    }
    return true;
}

static bool read_scores(const JsonValue *list, double *scores, double *least, Error *err) {
    *least = INFINITY;
    for (uint32_t i = 0; i < list->length; i++) {
        if (!json_number(json_item(&list->items[i], 1), &scores[i]))
            return error_set(err, "model.vocab[%u] has no score", i);
        if (scores[i] < *least) *least = scores[i];
    }
    return true;
}

bool unigram_load(Unigram *u, const JsonValue *model, const Vocab *vocab, Error *err) {
    const JsonValue *list = json_get(model, "vocab"), *unknown = json_get_set(model, "unk_id");
    int64_t id = -1;
    UnigramOptions options = {0};
    if (!component_bool(model, "byte_fallback", &options.byte_fallback, err)) return false;
    if (unknown && (!json_int(unknown, &id) || id < 0 || id >= list->length))
        return error_set(err, "model.unk_id is not an id");
    options.unknown = (int32_t)id;
    double *scores = mem_array(list->length, sizeof *scores);
    bool ok = scores || error_memory(err, "the vocabulary");
    ok = ok && read_scores(list, scores, &options.least, err);
    ok = ok && unigram_load_scores(u, vocab, scores, options, err);
    mem_free(scores);
    return ok;
}

void unigram_clear(Unigram *u) {
    mem_free(u->scores);
    mem_free(u->nodes);
    *u = (Unigram){0};
}

/* ---- encoding ---- */

static void offer(UnigramStep *steps, size_t end, double score, int32_t id, size_t length) {
    UnigramStep *step = &steps[end];
    if (step->length == 0 || score > step->score) *step = (UnigramStep){score, id, (uint32_t)length};
}

static size_t character_length(unsigned char lead) {
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Takes the score of steps[0] from it and from all that follow it and have one. */
static void count_anew(UnigramStep *steps, size_t n) {
    double offset = steps[0].score;
    for (size_t i = 0; i < n; i++) {
        if (steps[i].length) steps[i].score = (double)(float)(steps[i].score - offset);
    }
}

static bool go_forward(const Unigram *u, UnigramStep *steps, const char *text, size_t n, Error *err) {
    for (size_t i = 0, reached = 0; i < n;) {
        size_t character = character_length((unsigned char)text[i]);
        bool single = false;
        if (u->single && fabs(steps[i].score) > FAR) count_anew(steps + i, reached + 1 - i);
        if (reached < i + character) reached = i + character;
        const TrieNode *node = u->nodes;
        for (size_t k = i; k < n && (node = child_of(u, node, (unsigned char)text[k])) != NULL; k++) {
            if (node->id < 0) continue;
            offer(steps, k + 1, rounded(u, steps[i].score + u->scores[node->id]), node->id, k + 1 - i);
            single |= k + 1 - i == character;
            if (reached < k + 1) reached = k + 1;
        }
        if (!single) {
            double score = rounded(u, steps[i].score + u->unknown_score);
            const UnigramStep *step = &steps[i + character];
            bool better = step->length == 0 || score > step->score;
            if (better && u->unknown < 0) return error_set(err, "a character is no token, and the model has no unk_id");
            offer(steps, i + character, score, u->unknown, character);
        }
        i += character;
    }
    return true;
}

/* The ids of a run of unknown characters, last first: the run as one token, its bytes, or the unknown token. */
static bool put_unknown(const Unigram *u, IdList *reversed, const char *text, size_t n) {
    int32_t id = vocab_find(u->vocab, text, n);
    size_t known = 0;
    if (id < 0 && u->byte_fallback) {
        while (known < n && u->byte_ids[(unsigned char)text[known]] >= 0) known++;
    }
    if (known < n || id >= 0) return id_list_push(reversed, id >= 0 ? id : u->unknown);
    for (size_t i = n; i-- > 0;) {
        if (!id_list_push(reversed, u->byte_ids[(unsigned char)text[i]])) return false;
    }
    return true;
}

static bool go_back(const Unigram *u, const UnigramStep *steps, const char *text, size_t n, IdList *reversed) {
    for (size_t end = n; end > 0;) {
        size_t start = end - steps[end].length;
        if (steps[end].id != u->unknown || u->unknown < 0) {
            if (!id_list_push(reversed, vocab_find(u->vocab, text + start, end - start))) return false;
            end = start;
            continue;
        }
        while (start > 0 && steps[start].id == u->unknown) start -= steps[start].length;
        if (!put_unknown(u, reversed, text + start, end - start)) return false;
        end = start;
    }
    return true;
}

bool unigram_encode(const Unigram *u, UnigramScratch *s, const char *text, size_t n, IdList *out, Error *err) {
    if (n == 0) return true;
    if (n >= s->capacity) {
        UnigramStep *steps = mem_resize(s->steps, n + 1, sizeof *steps);
        if (!steps) return error_memory(err, "ids");
        s->steps = steps;
        s->capacity = n + 1;
    }
    memset(s->steps, 0, (n + 1) * sizeof *s->steps);
    s->reversed.n = 0;
    if (!go_forward(u, s->steps, text, n, err)) return false;
    if (!go_back(u, s->steps, text, n, &s->reversed)) return error_memory(err, "ids");
    for (size_t i = s->reversed.n; i-- > 0;) {
        if (!id_list_push(out, s->reversed.ids[i])) return error_memory(err, "ids");
    }
    return true;
}

void unigram_scratch_clear(UnigramScratch *s) {
    mem_free(s->steps);
    id_list_clear(&s->reversed);
    *s = (UnigramScratch){0};
}
