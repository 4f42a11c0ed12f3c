/* Reads a SentencePiece tokenizer.model: a protobuf with pieces (text, score, kind), how it was trained, and how text
 * is normalized. Only what encoding needs is looked at. Control pieces become special added tokens, as the converters
 * of the reference do; all else is as SentencePiece itself does it: its normalizer passes over the pieces that the user
 * defined, and they are found in the normalized text. */
#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer_parts.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2, MODEL_CHARACTERS = 4 };

typedef struct SpmPiece {
    const char *text;
    uint32_t length;
    float score;
    uint32_t kind;
} SpmPiece;

typedef struct SpmModel {
    SpmPiece *pieces;
    size_t n, capacity;
    uint32_t type;
    bool byte_fallback, suffix;
    int32_t bos, eos;
    bool dummy_prefix, remove_extra, escape;
    const unsigned char *charsmap;
    size_t n_charsmap;
} SpmModel;

/* ---- protobuf ---- */

typedef struct Reader {
    const unsigned char *p, *end;
} Reader;

typedef struct Field {
    uint32_t number, wire;
    uint64_t value; /* varint; the bits of a fixed32 */
    Reader content; /* of a length-delimited field */
} Field;

static bool read_varint(Reader *r, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        unsigned char byte = *r->p++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool skip(Reader *r, uint64_t n, const unsigned char **start) {
    if (n > (uint64_t)(r->end - r->p)) return false;
    *start = r->p;
    r->p += n;
    return true;
}

/* The next field; false at the end (*broken: because the bytes make no sense). */
static bool next_field(Reader *r, Field *f, bool *broken) {
    uint64_t key, n;
    const unsigned char *start;
    *broken = false;
    if (r->p == r->end) return false;
    *broken = true;
    if (!read_varint(r, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return false;
    *f = (Field){.number = (uint32_t)(key >> 3), .wire = key & 7};
    switch (f->wire) {
    case 0:
        if (!read_varint(r, &f->value)) return false;
        break;
    case 1:
        if (!skip(r, 8, &start)) return false;
        break;
    case 2:
        if (!read_varint(r, &n) || !skip(r, n, &start)) return false;
        f->content = (Reader){start, start + n};
        break;
    case 5:
        if (!skip(r, 4, &start)) return false;
        f->value = (uint64_t)start[0] | (uint64_t)start[1] << 8 | (uint64_t)start[2] << 16 | (uint64_t)start[3] << 24;
        break;
    default: return false;
    }
    *broken = false;
    return true;
}

static bool is_broken(Error *err) {
    return error_set(err, "it is no SentencePiece model, or damaged");
}

/* ---- the model ---- */

static bool read_piece(SpmModel *m, Reader r, Error *err) {
    SpmPiece piece = {.text = "", .kind = PIECE_NORMAL};
    Field f;
    bool broken;
    while (next_field(&r, &f, &broken)) {
        if (f.number == 1 && f.wire == 2) {
            piece.text = (const char *)f.content.p;
            piece.length = (uint32_t)(f.content.end - f.content.p);
        } else if (f.number == 2 && f.wire == 5) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&piece.score, &bits, sizeof bits);
        } else if (f.number == 3 && f.wire == 0) {
            piece.kind = (uint32_t)f.value;
        }
    }
    if (broken || utf8_valid(piece.text, piece.length) != piece.length) return is_broken(err);
    SpmPiece *pieces = mem_room(m->pieces, m->n, &m->capacity, sizeof *pieces);
    if (!pieces) return error_memory(err, "the vocabulary");
    m->pieces = pieces;
    m->pieces[m->n++] = piece;
    return true;
}

static bool read_trainer(SpmModel *m, Reader r, Error *err) {
    Field f;
    bool broken;
    while (next_field(&r, &f, &broken)) {
        if (f.wire != 0) continue;
        if (f.number == 3) m->type = (uint32_t)f.value;
        if (f.number == 24) m->suffix = f.value != 0;
        if (f.number == 35) m->byte_fallback = f.value != 0;
        if (f.number == 41) m->bos = (int32_t)f.value;
        if (f.number == 42) m->eos = (int32_t)f.value;
    }
    return !broken || is_broken(err);
}

static bool read_normalizer(SpmModel *m, Reader r, Error *err) {
    Field f;
    bool broken;
    while (next_field(&r, &f, &broken)) {
        if (f.number == 2 && f.wire == 2) {
            m->charsmap = f.content.p;
            m->n_charsmap = (size_t)(f.content.end - f.content.p);
        }
        if (f.wire != 0) continue;
        if (f.number == 3) m->dummy_prefix = f.value != 0;
        if (f.number == 4) m->remove_extra = f.value != 0;
        if (f.number == 5) m->escape = f.value != 0;
    }
    return !broken || is_broken(err);
}

static bool read_model(SpmModel *m, const char *bytes, size_t n, Error *err) {
    *m = (SpmModel){
        .type = MODEL_UNIGRAM, .bos = 1, .eos = 2, .dummy_prefix = true, .remove_extra = true, .escape = true};
    Reader r = {(const unsigned char *)bytes, (const unsigned char *)bytes + n};
    Field f;
    bool broken;
    while (next_field(&r, &f, &broken)) {
        if (f.wire != 2) continue;
        if (f.number == 1 && !read_piece(m, f.content, err)) return false;
        if (f.number == 2 && !read_trainer(m, f.content, err)) return false;
        if (f.number == 3 && !read_normalizer(m, f.content, err)) return false;
    }
    if (broken || m->n == 0) return is_broken(err);
    if (m->n > VOCAB_MAX_ID) return error_set(err, "the vocabulary has %zu tokens", m->n);
    if (m->type != MODEL_UNIGRAM && m->type != MODEL_BPE && m->type != MODEL_CHARACTERS)
        return error_set(err, "SentencePiece model type %u (3: words) is not supported", m->type);
    return !m->suffix || error_set(err, "treat_whitespace_as_suffix is not supported");
}

/* ---- the tokenizer ---- */

static bool build_vocab(const SpmModel *m, Vocab *vocab, Error *err) {
    VocabEntry *entries = mem_array(m->n, sizeof *entries);
    if (!entries) return error_memory(err, "the vocabulary");
    for (size_t i = 0; i < m->n; i++) {
        entries[i] = (VocabEntry){m->pieces[i].text, m->pieces[i].length, (int32_t)i};
    }
    bool ok = vocab_build(vocab, entries, m->n, false, err);
    mem_free(entries);
    return ok;
}

typedef struct Scored {
    float score;
    uint32_t id;
} Scored;

static int compare_scored(const void *x, const void *y) {
    const Scored *a = x, *b = y;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* The higher the score the lower the rank; equal scores are one rank, since SentencePiece then goes by position. A
 * model of characters is one in which nothing merges. */
static bool rank_pieces(const SpmModel *m, uint32_t *ranks, Error *err) {
    Scored *scored = mem_array(m->n, sizeof *scored);
    if (!scored) return error_memory(err, "merges");
    size_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        ranks[i] = BPE_NO_RANK;
        if (m->pieces[i].kind == PIECE_NORMAL && m->type == MODEL_BPE) scored[n++] = (Scored){m->pieces[i].score, i};
    }
    qsort(scored, n, sizeof *scored, compare_scored);
    uint32_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && scored[i].score != scored[i - 1].score) rank++;
        ranks[scored[i].id] = rank;
    }
    mem_free(scored);
    return true;
}

static int32_t unknown_id(const SpmModel *m) {
    for (size_t i = 0; i < m->n; i++) {
        if (m->pieces[i].kind == PIECE_UNKNOWN) return (int32_t)i;
    }
    return -1;
}

static bool build_bpe(const SpmModel *m, Subword *s, Error *err) {
    uint32_t *ranks = mem_array(m->n, sizeof *ranks);
    bool ok = ranks || error_memory(err, "merges");
    ok = ok && rank_pieces(m, ranks, err) && bpe_load_ranked(&s->bpe, &s->vocab, ranks, err);
    mem_free(ranks);
    if (!ok) return false;
    s->kind = SUBWORD_BPE;
    s->bpe.unknown = unknown_id(m);
    s->bpe.fuse_unknown = true;
    s->bpe.byte_fallback = m->byte_fallback;
    bpe_finish(&s->bpe);
    return true;
}

/* What the library gives a user-defined piece in place of its score. */
static float user_defined_score(const SpmPiece *piece) {
    return piece->length ? (float)(0.1 * (piece->length - 1)) : NAN;
}

/* Control, unknown, unused and byte pieces never match text. */
static bool build_unigram(const SpmModel *m, Subword *s, Error *err) {
    double *scores = mem_array(m->n, sizeof *scores);
    if (!scores) return error_memory(err, "the vocabulary");
    UnigramOptions options = {
        .unknown = unknown_id(m), .least = FLT_MAX, .byte_fallback = m->byte_fallback, .single = true};
    for (size_t i = 0; i < m->n; i++) {
        const SpmPiece *piece = &m->pieces[i];
        bool normal = piece->kind == PIECE_NORMAL;
        scores[i] = normal ? piece->score : piece->kind == PIECE_USER_DEFINED ? user_defined_score(piece) : NAN;
        if (normal && piece->score < options.least) options.least = piece->score;
    }
    s->kind = SUBWORD_UNIGRAM;
    bool ok = unigram_load_scores(&s->unigram, &s->vocab, scores, options, err);
    mem_free(scores);
    return ok;
}

static bool keep_user_defined(const SpmModel *m, PrefixMatcher *kept, Error *err) {
    for (size_t i = 0; i < m->n; i++) {
        const SpmPiece *p = &m->pieces[i];
        if (p->kind != PIECE_USER_DEFINED || p->length == 0) continue;
        if (!prefix_matcher_add(kept, p->text, p->length, 0)) return error_memory(err, "the normalizer");
    }
    prefix_matcher_finish(kept);
    return true;
}

static bool build_normalizer(const SpmModel *m, Normalizer *normalizer, Error *err) {
    NormalizerStep step = {
        .kind = NORMALIZE_SENTENCEPIECE, .dummy_prefix = m->dummy_prefix, .remove_extra = m->remove_extra};
    step.escape = m->escape;
    bool ok = charsmap_load_bytes(&step.charsmap, m->charsmap, m->n_charsmap, err);
    ok = ok && keep_user_defined(m, &step.kept, err);
    if (ok && !normalizer_add(normalizer, step)) ok = error_memory(err, "the normalizer");
    if (!ok) normalizer_step_clear(&step);
    return ok;
}

/* Pieces that the user defined are cut out of the normalized text; but Unigram finds them by their scores. */
static bool add_tokens(const SpmModel *m, AddedTokens *added, const Vocab *vocab, Error *err) {
    for (size_t i = 0; i < m->n; i++) {
        const SpmPiece *p = &m->pieces[i];
        bool special = p->kind == PIECE_CONTROL || p->kind == PIECE_UNKNOWN;
        bool cut = p->kind == PIECE_USER_DEFINED && m->type != MODEL_UNIGRAM;
        if (!special && !cut) continue;
        AddedToken token = {.content = (char *)p->text, .length = p->length, .id = (int32_t)i, .special = special};
        token.normalized = token.normal = cut;
        if (!added_add(added, vocab, token, err)) return false;
    }
    return true;
}

static bool build_decoder(const SpmModel *m, Decoder *decoder, Error *err) {
    static const char with_prefix[] = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
                                      "\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},"
                                      "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
                                      "\" \",\"start\":1,\"stop\":0}]}";
    static const char without[] = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
                                  "\"\xE2\x96\x81\"},\"content\":\" \"},"
                                  "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}";
    const char *text = m->dummy_prefix ? with_prefix : without;
    JsonDoc *doc = json_parse(text, strlen(text), 0, err);
    bool ok = doc && decoder_load(decoder, json_root(doc), false, err);
    json_free(doc);
    return ok;
}

/* tokenizer_config.json decides; without it the T5 family ends its texts, the others begin them. */
static bool build_postprocessor(const SpmModel *m, Postprocessor *p, const JsonValue *config, Error *err) {
    const char *class = json_string(json_get(config, "tokenizer_class"));
    bool ends = class && strstr(class, "T5") != NULL, begins = !ends;
    json_bool(json_get_set(config, "add_bos_token"), &begins);
    json_bool(json_get_set(config, "add_eos_token"), &ends);
    bool has_bos = m->bos >= 0 && (size_t)m->bos < m->n, has_eos = m->eos >= 0 && (size_t)m->eos < m->n;
    return postprocessor_set(p, begins && has_bos ? m->bos : -1, ends && has_eos ? m->eos : -1, err);
}

bool tokenizer_from_sentencepiece(Tokenizer *t, const char *bytes, size_t n, const JsonValue *config, Error *err) {
    SpmModel m;
    bool ok = read_model(&m, bytes, n, err) && build_vocab(&m, &t->subword.vocab, err);
    ok = ok && (m.type == MODEL_UNIGRAM ? build_unigram : build_bpe)(&m, &t->subword, err);
    ok = ok && build_normalizer(&m, &t->normalizer, err) && build_decoder(&m, &t->decoder, err);
    ok = ok && build_postprocessor(&m, &t->postprocessor, config, err);
    ok = ok && add_tokens(&m, &t->added, &t->subword.vocab, err);
    mem_free(m.pieces);
    return ok;
}
