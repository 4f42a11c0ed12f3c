/* Chooses the model by its "type" and reads the vocabulary in the form that the model has. */
#include "text/subword.h"
#include "base/memory.h"
#include "text/component.h"

#include <string.h>

static bool entries_of_array(const JsonValue *list, VocabEntry *entries, Error *err) {
    for (uint32_t i = 0; i < list->length; i++) {
        const JsonValue *token = json_item(&list->items[i], 0);
        if (!token || token->type != JSON_STRING)
            return error_set(err, "model.vocab[%u] is not a token and its score", i);
        entries[i] = (VocabEntry){token->text, token->length, (int32_t)i};
    }
    return true;
}

/* [["token", score], ...]: a Unigram's; all others have {"token": id, ...}. */
static bool load_scored(Vocab *vocab, const JsonValue *list, Error *err) {
    if (!list || list->type != JSON_ARRAY) return error_set(err, "model.vocab is not an array");
    VocabEntry *entries = mem_array(list->length, sizeof *entries);
    if (!entries) return error_memory(err, "the vocabulary");
    bool ok = entries_of_array(list, entries, err) && vocab_build(vocab, entries, list->length, false, err);
    mem_free(entries);
    return ok;
}

static bool load_vocab(Vocab *vocab, const JsonValue *model, const ModelLists *lists, bool scored, Error *err) {
    const JsonValue *list = json_get(model, "vocab");
    if (scored) return load_scored(vocab, list, err);
    if (!list || list->type != JSON_OBJECT) return error_set(err, "model.vocab is not an object");
    return vocab_build(vocab, lists->entries, lists->n_entries, true, err);
}

/* Old files lack the type; their members tell. */
static const char *guess_type(const JsonValue *model) {
    if (json_get(model, "merges")) return "BPE";
    const JsonValue *vocab = json_get(model, "vocab");
    if (vocab && vocab->type == JSON_ARRAY) return "Unigram";
    return json_get(model, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

bool subword_load(Subword *s, const JsonValue *model, const ModelLists *lists, Error *err) {
    static const char *const names[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    *s = (Subword){0};
    if (!model || model->type != JSON_OBJECT) return error_set(err, "\"model\" is missing");
    const char *type = json_string(json_get_set(model, "type"));
    if (!type) type = guess_type(model);
    int kind = 0;
    while (kind < 4 && strcmp(type, names[kind]) != 0) kind++;
    if (kind == 4) return component_unknown("model", type, err);
    s->kind = (SubwordKind)kind;
    bool ok = load_vocab(&s->vocab, model, lists, s->kind == SUBWORD_UNIGRAM, err);
    switch (s->kind) {
    case SUBWORD_BPE: ok = ok && bpe_load(&s->bpe, model, lists, &s->vocab, err); break;
    case SUBWORD_UNIGRAM: ok = ok && unigram_load(&s->unigram, model, &s->vocab, err); break;
    case SUBWORD_WORDPIECE: ok = ok && wordpiece_load(&s->wordpiece, model, false, &s->vocab, err); break;
    case SUBWORD_WORDLEVEL: ok = ok && wordpiece_load(&s->wordpiece, model, true, &s->vocab, err); break;
    }
    if (!ok) subword_clear(s);
    return ok;
}

void subword_clear(Subword *s) {
    bpe_clear(&s->bpe);
    unigram_clear(&s->unigram);
    wordpiece_clear(&s->wordpiece);
    vocab_clear(&s->vocab);
}

bool subword_encode(const Subword *s, SubwordScratch *scratch, const char *text, size_t n, IdList *out, Error *err) {
    switch (s->kind) {
    case SUBWORD_BPE: return bpe_encode(&s->bpe, &scratch->bpe, text, n, out, err);
    case SUBWORD_UNIGRAM: return unigram_encode(&s->unigram, &scratch->unigram, text, n, out, err);
    case SUBWORD_WORDPIECE: return wordpiece_encode(&s->wordpiece, &scratch->text, text, n, out, err);
    case SUBWORD_WORDLEVEL: return wordlevel_encode(&s->wordpiece, text, n, out, err);
    }
    return false;
}

void subword_scratch_clear(SubwordScratch *scratch) {
    bpe_scratch_clear(&scratch->bpe);
    unigram_scratch_clear(&scratch->unigram);
    buffer_clear(&scratch->text);
}
