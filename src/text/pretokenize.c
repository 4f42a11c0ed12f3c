/* Every step is the same walk: a rule turns a piece into spans, a behavior turns spans into pieces. Rules that also
 * change text (ByteLevel, Metaspace) write all text anew first. Order of steps, and what counts as a match, follow the
 * reference exactly, its oddities included (UnicodeScripts drops leading blanks). */
#include "text/pretokenize.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/component.h"
#include "text/unicode.h"

#include <string.h>

/* ---- loading ---- */

static bool load_behavior(const JsonValue *v, SplitBehavior *out, Error *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const JsonValue *behavior = json_get_set(v, "behavior");
    if (!behavior) return true;
    for (int i = 0; i < 5; i++) {
        if (json_equals(behavior, names[i])) {
            *out = (SplitBehavior)i;
            return true;
        }
    }
    return error_set(err, "unknown split behavior");
}

static bool load_character(const JsonValue *v, const char *key, char out[5], Error *err) {
    const JsonValue *text = component_text(v, key, err);
    uint32_t code;
    if (!text) return false;
    int n = utf8_decode(text->text, text->length, &code);
    if (n == 0 || (uint32_t)n != text->length) return error_set(err, "\"%s\" is not one character", key);
    memcpy(out, text->text, (size_t)n + 1);
    return true;
}

static bool load_byte_level(PretokenizerStep *s, const JsonValue *v, Error *err) {
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool expression = true;
    s->prefix_space = true;
    s->behavior = SPLIT_ISOLATED;
    if (!component_bool(v, "add_prefix_space", &s->prefix_space, err)) return false;
    if (!component_bool(v, "use_regex", &expression, err)) return false;
    if (expression) s->pattern = pattern_new(gpt2, sizeof gpt2 - 1, err);
    return !expression || s->pattern;
}

static bool load_metaspace(PretokenizerStep *s, const JsonValue *v, Error *err) {
    bool prefix = true;
    s->split = true;
    s->behavior = SPLIT_MERGED_WITH_NEXT;
    if (!load_character(v, "replacement", s->character, err)) return false;
    if (!component_bool(v, "add_prefix_space", &prefix, err) || !component_bool(v, "split", &s->split, err))
        return false;
    s->scheme = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    const JsonValue *scheme = json_get_set(v, "prepend_scheme");
    if (!scheme) return true;
    if (json_equals(scheme, "always"))
        s->scheme = PREPEND_ALWAYS;
    else if (json_equals(scheme, "first"))
        s->scheme = PREPEND_FIRST;
    else if (json_equals(scheme, "never"))
        s->scheme = PREPEND_NEVER;
    else
        return error_set(err, "unknown prepend_scheme");
    return true;
}

static bool load_split(PretokenizerStep *s, const JsonValue *v, Error *err) {
    s->pattern = component_pattern(v, err);
    return s->pattern && load_behavior(v, &s->behavior, err) && component_bool(v, "invert", &s->invert, err);
}

static bool load_simple(PretokenizerStep *s, const JsonValue *v, Error *err) {
    switch (s->kind) {
    case PRETOKENIZE_BYTE_LEVEL: return load_byte_level(s, v, err);
    case PRETOKENIZE_SPLIT: return load_split(s, v, err);
    case PRETOKENIZE_METASPACE: return load_metaspace(s, v, err);
    case PRETOKENIZE_DELIMITER: return load_character(v, "delimiter", s->character, err);
    case PRETOKENIZE_PUNCTUATION: s->behavior = SPLIT_ISOLATED; return load_behavior(v, &s->behavior, err);
    case PRETOKENIZE_DIGITS:
        if (!component_bool(v, "individual_digits", &s->individual, err)) return false;
        s->behavior = s->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return true;
    case PRETOKENIZE_FIXED_LENGTH:
        s->count = 5;
        return component_size(v, "length", &s->count, err) && (s->count || error_set(err, "\"length\" is 0"));
    default: return true;
    }
}

static bool add_step(Pretokenizer *p, PretokenizerStep step) {
    PretokenizerStep *steps = mem_resize(p->steps, p->n + 1, sizeof *steps);
    if (!steps) return false;
    p->steps = steps;
    steps[p->n++] = step;
    return true;
}

static bool load_component(void *to, const JsonValue *v, Error *err) {
    Pretokenizer *p = to;
    static const struct {
        const char *name;
        PretokenizerKind kind;
    } kinds[] = {{"ByteLevel", PRETOKENIZE_BYTE_LEVEL},
                 {"Split", PRETOKENIZE_SPLIT},
                 {"Whitespace", PRETOKENIZE_WHITESPACE},
                 {"WhitespaceSplit", PRETOKENIZE_WHITESPACE_SPLIT},
                 {"Digits", PRETOKENIZE_DIGITS},
                 {"Punctuation", PRETOKENIZE_PUNCTUATION},
                 {"BertPreTokenizer", PRETOKENIZE_BERT},
                 {"Metaspace", PRETOKENIZE_METASPACE},
                 {"CharDelimiterSplit", PRETOKENIZE_DELIMITER},
                 {"UnicodeScripts", PRETOKENIZE_SCRIPTS},
                 {"FixedLength", PRETOKENIZE_FIXED_LENGTH}};
    const char *type = component_type(v, "a pre-tokenizer", err);
    if (!type) return false;
    if (strcmp(type, "Sequence") == 0) return component_sequence(v, "pretokenizers", load_component, p, err);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i].name) != 0) continue;
        PretokenizerStep step = {.kind = kinds[i].kind};
        bool ok = load_simple(&step, v, err) || error_prefix(err, "%s", type);
        if (ok && !add_step(p, step)) ok = error_memory(err, "the pre-tokenizer");
        if (!ok) pattern_free(step.pattern);
        return ok;
    }
    return component_unknown("pre-tokenizer", type, err);
}

bool pretokenizer_load(Pretokenizer *p, const JsonValue *v, Error *err) {
    *p = (Pretokenizer){0};
    if (!v || v->type == JSON_NULL) return true;
    if (load_component(p, v, err)) return true;
    pretokenizer_clear(p);
    return error_prefix(err, "pre_tokenizer");
}

bool pretokenizer_split_bytes(Pretokenizer *p, const char *expression, size_t n, Error *err) {
    *p = (Pretokenizer){0};
    PretokenizerStep split = {.kind = PRETOKENIZE_SPLIT, .behavior = SPLIT_ISOLATED};
    split.pattern = pattern_new(expression, n, err);
    if (!split.pattern) return false;
    if (!add_step(p, split)) {
        pattern_free(split.pattern);
        return error_memory(err, "the pre-tokenizer");
    }
    if (add_step(p, (PretokenizerStep){.kind = PRETOKENIZE_BYTE_LEVEL})) return true;
    pretokenizer_clear(p);
    return error_memory(err, "the pre-tokenizer");
}

void pretokenizer_clear(Pretokenizer *p) {
    for (size_t i = 0; i < p->n; i++) pattern_free(p->steps[i].pattern);
    mem_free(p->steps);
    *p = (Pretokenizer){0};
}

bool pretokenizer_is_byte_level(const Pretokenizer *p) {
    for (size_t i = 0; i < p->n; i++) {
        if (p->steps[i].kind == PRETOKENIZE_BYTE_LEVEL) return true;
    }
    return false;
}

/* ---- rules: a piece's spans ---- */

/* What a class of characters is to one-character rules. */
static bool is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return unicode_in(&unicode_space, c);
}

static bool is_numeric(uint32_t c) {
    return c < 0x80 ? c >= '0' && c <= '9' : unicode_in(&unicode_numeric, c);
}

static bool is_punctuation(uint32_t c) {
    return unicode_in(&unicode_punctuation, c);
}

/* Each character of the class is a match of its own; what lies between is one span. */
static bool class_spans(bool (*in_class)(uint32_t), const char *text, size_t n, SpanList *out) {
    out->n = 0;
    size_t done = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code = 0xFFFD;
        int length = utf8_decode(text + i, n - i, &code);
        size_t end = i + (length ? (size_t)length : 1);
        if (in_class(code)) {
            if (i > done && !span_push(out, i, false)) return false;
            if (!span_push(out, end, true)) return false;
            done = end;
        }
        i = end;
    }
    return done == n || span_push(out, n, false);
}

/* Runs of one kind: words, blanks, all else. A match is what is kept: not blanks. */
static bool word_spans(const char *text, size_t n, SpanList *out) {
    out->n = 0;
    int previous = -1;
    size_t i = 0;
    while (i < n) {
        uint32_t code = 0xFFFD;
        int length = utf8_decode(text + i, n - i, &code);
        int kind = unicode_in(&unicode_word, code) ? 2 : is_space(code) ? 0 : 1;
        if (previous >= 0 && kind != previous && !span_push(out, i, previous != 0)) return false;
        previous = kind;
        i += length ? (size_t)length : 1;
    }
    return previous < 0 || span_push(out, n, previous != 0);
}

/* A boundary stands before each character whose script differs from the last one's; what comes before the first
 * boundary is lost, as in the reference. Matches are what is kept. */
static bool script_spans(const char *text, size_t n, SpanList *out) {
    out->n = 0;
    unsigned last = 0; /* none yet */
    for (size_t i = 0; i < n;) {
        uint32_t code = 0xFFFD;
        int length = utf8_decode(text + i, n - i, &code);
        unsigned script = unicode_value(&unicode_scripts_pretokenizer, code);
        if (script && script != last) {
            if (i && !span_push(out, i, last != 0)) return false;
            last = script;
        }
        i += length ? (size_t)length : 1;
    }
    return span_push(out, n, last != 0);
}

static bool fixed_spans(size_t count, const char *text, size_t n, SpanList *out) {
    out->n = 0;
    size_t characters = 0;
    for (size_t i = 0; i < n; i++) {
        if ((text[i] & 0xC0) == 0x80) continue;
        if (characters && characters % count == 0 && !span_push(out, i, false)) return false;
        characters++;
    }
    return span_push(out, n, false);
}

static bool literal_character_spans(const char *character, const char *text, size_t n, SpanList *out) {
    size_t length = strlen(character), done = 0;
    if (length == 0) length = 1; /* U+0000 */
    out->n = 0;
    for (size_t i = 0; n - i >= length && i < n;) {
        if (memcmp(text + i, character, length) != 0) {
            i++;
            continue;
        }
        if (i > done && !span_push(out, i, false)) return false;
        i = done = i + length;
        if (!span_push(out, done, true)) return false;
    }
    return done == n || span_push(out, n, false);
}

static bool step_spans(const PretokenizerStep *s, PretokenizeScratch *scratch, const char *text, size_t n, Error *err) {
    SpanList *out = &scratch->spans;
    bool ok = true;
    switch (s->kind) {
    case PRETOKENIZE_SPLIT:
    case PRETOKENIZE_BYTE_LEVEL: return pattern_spans(s->pattern, &scratch->pattern, text, n, out, err);
    case PRETOKENIZE_WHITESPACE: ok = word_spans(text, n, out); break;
    case PRETOKENIZE_BERT:
    case PRETOKENIZE_WHITESPACE_SPLIT: ok = class_spans(is_space, text, n, out); break;
    case PRETOKENIZE_DIGITS: ok = class_spans(is_numeric, text, n, out); break;
    case PRETOKENIZE_PUNCTUATION: ok = class_spans(is_punctuation, text, n, out); break;
    case PRETOKENIZE_METASPACE:
    case PRETOKENIZE_DELIMITER: ok = literal_character_spans(s->character, text, n, out); break;
    case PRETOKENIZE_SCRIPTS: ok = script_spans(text, n, out); break;
    case PRETOKENIZE_FIXED_LENGTH: ok = fixed_spans(s->count, text, n, out); break;
    }
    return ok || error_memory(err, "spans");
}

/* ---- behaviors: from spans to ranges ---- */

/* Joins each match to its neighbour on the left, unless that is a match, too. */
static void merge_with_previous(SpanList *s) {
    size_t n = 0;
    bool previous = false;
    for (size_t i = 0; i < s->n; i++) {
        bool join = s->items[i].match && !previous && n > 0;
        previous = s->items[i].match;
        s->items[join ? n - 1 : n++].end = s->items[i].end;
    }
    s->n = n;
}

/* The mirror image: a match joins its neighbour on the right. */
static void merge_with_next(SpanList *s) {
    size_t kept = s->n; /* kept spans fill the list from its end */
    bool following = false;
    for (size_t i = s->n; i-- > 0;) {
        bool join = s->items[i].match && !following && kept < s->n;
        following = s->items[i].match;
        if (!join) s->items[--kept].end = s->items[i].end;
    }
    memmove(s->items, s->items + kept, (s->n - kept) * sizeof *s->items);
    s->n -= kept;
}

static void merge_contiguous(SpanList *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool join = n > 0 && s->items[i].match == s->items[n - 1].match;
        s->items[join ? n - 1 : n++] = s->items[i];
    }
    s->n = n;
}

/* Afterwards `match` says: leave this span out. */
static void apply_behavior(SpanList *s, SplitBehavior behavior) {
    if (behavior == SPLIT_REMOVED) return;
    if (behavior == SPLIT_MERGED_WITH_PREVIOUS) merge_with_previous(s);
    if (behavior == SPLIT_MERGED_WITH_NEXT) merge_with_next(s);
    if (behavior == SPLIT_CONTIGUOUS) merge_contiguous(s);
    for (size_t i = 0; i < s->n; i++) s->items[i].match = false;
}

static bool add_spans(Pieces *out, const SpanList *spans, Piece whole) {
    size_t start = 0;
    for (size_t i = 0; i < spans->n; i++) {
        size_t end = spans->items[i].end;
        Piece piece = {whole.start + start, end - start, -1, pieces_origin(whole.origin, start)};
        if (!spans->items[i].match && !pieces_add(out, piece)) return false;
        start = end;
    }
    return true;
}

/* ---- steps ---- */

static bool inverts(const PretokenizerStep *s) {
    return s->invert || s->kind == PRETOKENIZE_WHITESPACE || s->kind == PRETOKENIZE_SCRIPTS;
}

/* Splits every text piece; the text stays where it is and goes over to the new list. */
static bool split_pieces(const PretokenizerStep *s, PretokenizeScratch *scratch, Pieces *pieces, Error *err) {
    Pieces *out = &scratch->other;
    out->n = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        Piece piece = pieces->items[i];
        if (piece.id >= 0) {
            if (!pieces_add(out, piece)) return error_memory(err, "pieces");
            continue;
        }
        if (!step_spans(s, scratch, pieces->text.data + piece.start, piece.length, err)) return false;
        SpanList *spans = &scratch->spans;
        for (size_t k = 0; k < spans->n; k++) spans->items[k].match ^= inverts(s);
        apply_behavior(spans, s->behavior);
        if (!add_spans(out, spans, piece)) return error_memory(err, "pieces");
    }
    Buffer text = pieces->text;
    pieces->text = out->text;
    out->text = text;
    Pieces swapped = *pieces;
    *pieces = *out;
    *out = swapped;
    return true;
}

/* Appends the piece's new text and sets its origin anew. */
typedef void (*Rewrite)(const PretokenizerStep *s, Buffer *out, const char *text, Piece *piece);

/* Writes every text piece anew. */
static bool rewrite_pieces(const PretokenizerStep *s, PretokenizeScratch *scratch, Pieces *pieces, Rewrite rewrite,
                           Error *err) {
    Buffer *out = &scratch->other.text;
    buffer_reset(out);
    if (!buffer_reserve(out, pieces->text.length + 16)) return error_memory(err, "pieces");
    for (size_t i = 0; i < pieces->n; i++) {
        Piece *piece = &pieces->items[i];
        if (piece->id >= 0) continue;
        size_t start = out->length;
        rewrite(s, out, pieces->text.data + piece->start, piece);
        piece->start = start;
        piece->length = out->length - start;
    }
    if (out->failed) return error_memory(err, "pieces");
    Buffer text = pieces->text;
    pieces->text = *out;
    *out = text;
    return true;
}

static void rewrite_prefix_space(const PretokenizerStep *s, Buffer *out, const char *text, Piece *piece) {
    (void)s;
    bool prepend = text[0] != ' ';
    if (prepend) buffer_byte(out, ' ');
    if (prepend && piece->origin) piece->origin++;
    buffer_append(out, text, piece->length);
}

static void rewrite_bytes(const PretokenizerStep *s, Buffer *out, const char *text, Piece *piece) {
    (void)s;
    size_t before = out->length, origin = piece->origin;
    bytelevel_append(out, text, origin);
    piece->origin = out->length - before;
    bytelevel_append(out, text + origin, piece->length - origin);
}

static void replace_blanks(const PretokenizerStep *s, Buffer *out, const char *text, size_t n) {
    size_t length = s->character[0] ? strlen(s->character) : 1, kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ') continue;
        buffer_append(out, text + kept, i - kept);
        buffer_append(out, s->character, length);
        kept = i + 1;
    }
    buffer_append(out, text + kept, n - kept);
}

static void rewrite_metaspace(const PretokenizerStep *s, Buffer *out, const char *text, Piece *piece) {
    size_t length = s->character[0] ? strlen(s->character) : 1, before = out->length, origin = piece->origin;
    bool starts = text[0] == ' ' || (piece->length >= length && memcmp(text, s->character, length) == 0);
    bool prepend = s->scheme == PREPEND_ALWAYS || (s->scheme == PREPEND_FIRST && origin);
    if (prepend && !starts) buffer_append(out, s->character, length);
    replace_blanks(s, out, text, origin);
    if (origin) piece->origin = out->length - before;
    replace_blanks(s, out, text + origin, piece->length - origin);
}

static bool run_byte_level(const PretokenizerStep *s, PretokenizeScratch *scratch, Pieces *pieces, Error *err) {
    if (s->prefix_space && !rewrite_pieces(s, scratch, pieces, rewrite_prefix_space, err)) return false;
    if (s->pattern && !split_pieces(s, scratch, pieces, err)) return false;
    return rewrite_pieces(s, scratch, pieces, rewrite_bytes, err);
}

static bool run_bert(PretokenizeScratch *scratch, Pieces *pieces, Error *err) {
    PretokenizerStep blanks = {.kind = PRETOKENIZE_BERT, .behavior = SPLIT_REMOVED};
    PretokenizerStep punctuation = {.kind = PRETOKENIZE_PUNCTUATION, .behavior = SPLIT_ISOLATED};
    return split_pieces(&blanks, scratch, pieces, err) && split_pieces(&punctuation, scratch, pieces, err);
}

static bool run_step(const PretokenizerStep *s, PretokenizeScratch *scratch, Pieces *pieces, Error *err) {
    switch (s->kind) {
    case PRETOKENIZE_BYTE_LEVEL: return run_byte_level(s, scratch, pieces, err);
    case PRETOKENIZE_BERT: return run_bert(scratch, pieces, err);
    case PRETOKENIZE_METASPACE:
        if (!rewrite_pieces(s, scratch, pieces, rewrite_metaspace, err)) return false;
        return !s->split || split_pieces(s, scratch, pieces, err);
    case PRETOKENIZE_FIXED_LENGTH: {
        PretokenizerStep isolated = *s;
        isolated.behavior = SPLIT_ISOLATED;
        return split_pieces(&isolated, scratch, pieces, err);
    }
    default: return split_pieces(s, scratch, pieces, err);
    }
}

bool pretokenize(const Pretokenizer *p, PretokenizeScratch *scratch, Pieces *pieces, Error *err) {
    for (size_t i = 0; i < p->n; i++) {
        if (!run_step(&p->steps[i], scratch, pieces, err)) return false;
    }
    return true;
}

void pretokenize_scratch_clear(PretokenizeScratch *scratch) {
    pattern_scratch_clear(&scratch->pattern);
    span_clear(&scratch->spans);
    pieces_clear(&scratch->other);
    *scratch = (PretokenizeScratch){0};
}
