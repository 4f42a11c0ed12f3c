/* A word is cut from the left, each time by the longest piece that is a token; where none is, the whole word is the
 * unknown token. Words over the limit are unknown at once. The search begins at the length of the longest token, so
 * that a vocabulary without words (RWKV's: a text is one) takes time in proportion to the text. */
#include "text/wordpiece.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/component.h"

#include <string.h>

static bool load_text(const JsonValue *model, const char *key, const char *otherwise, char **out, Error *err) {
    const JsonValue *v = json_get_set(model, key);
    if (v && v->type != JSON_STRING) return error_set(err, "model.%s is not a string", key);
    *out = v ? mem_string(v->text, v->length) : mem_string(otherwise, strlen(otherwise));
    return *out || error_memory(err, "the vocabulary");
}

bool wordpiece_load(WordPiece *w, const JsonValue *model, bool word_level, const Vocab *vocab, Error *err) {
    *w = (WordPiece){.vocab = vocab, .max_characters = 100};
    bool ok = load_text(model, "unk_token", word_level ? "<unk>" : "[UNK]", &w->unknown_token, err) &&
              load_text(model, "continuing_subword_prefix", "##", &w->prefix, err) &&
              component_size(model, "max_input_chars_per_word", &w->max_characters, err);
    if (!ok) {
        wordpiece_clear(w);
        return false;
    }
    for (int32_t i = 0; i < vocab->count; i++)
        if (vocab->tokens[i].length > w->longest) w->longest = vocab->tokens[i].length;
    w->unknown = vocab_find(vocab, w->unknown_token, strlen(w->unknown_token));
    return true;
}

void wordpiece_clear(WordPiece *w) {
    mem_free(w->unknown_token);
    mem_free(w->prefix);
    *w = (WordPiece){0};
}

static bool put_unknown(const WordPiece *w, IdList *out, Error *err) {
    if (w->unknown < 0) return error_set(err, "the unknown token \"%s\" is not in the vocabulary", w->unknown_token);
    return id_list_push(out, w->unknown) || error_memory(err, "ids");
}

/* The id of the longest token text[0..*n); -1 when there is none. */
static int32_t longest(const WordPiece *w, const char *text, size_t *n, bool inside, Buffer *work) {
    size_t prefix = inside ? strlen(w->prefix) : 0, most = w->longest > prefix ? w->longest - prefix : 0;
    if (most > *n) most = *n;
    buffer_reset(work);
    buffer_append(work, w->prefix, prefix);
    buffer_append(work, text, most);
    if (work->failed) return -1;
    for (size_t end = most; end > 0; end--) {
        if (end < *n && (text[end] & 0xC0) == 0x80) continue;
        int32_t id = vocab_find(w->vocab, work->data, prefix + end);
        if (id < 0) continue;
        *n = end;
        return id;
    }
    return -1;
}

bool wordpiece_encode(const WordPiece *w, Buffer *work, const char *text, size_t n, IdList *out, Error *err) {
    if (utf8_count(text, n) > w->max_characters) return put_unknown(w, out, err);
    size_t before = out->n;
    for (size_t i = 0; i < n;) {
        size_t length = n - i;
        int32_t id = longest(w, text + i, &length, i > 0, work);
        if (work->failed) return error_memory(err, "ids");
        if (id < 0) {
            out->n = before;
            return put_unknown(w, out, err);
        }
        if (!id_list_push(out, id)) return error_memory(err, "ids");
        i += length;
    }
    return true;
}

bool wordlevel_encode(const WordPiece *w, const char *text, size_t n, IdList *out, Error *err) {
    int32_t id = vocab_find(w->vocab, text, n);
    return id < 0 ? put_unknown(w, out, err) : id_list_push(out, id) || error_memory(err, "ids");
}
