/* Every step reads one buffer and writes another; the two change places after it. */
#include "text/normalize.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/component.h"
#include "text/unicode.h"

#include <string.h>

/* ---- loading ---- */

static bool load_content(NormalizerStep *s, const JsonValue *v, const char *key, Error *err) {
    const JsonValue *text = component_text(v, key, err);
    if (!text) return false;
    s->content = mem_string(text->text, text->length);
    s->content_length = text->length;
    return s->content || error_memory(err, "the normalizer");
}

static bool load_bert(NormalizerStep *s, const JsonValue *v, Error *err) {
    s->clean = s->chinese = s->lowercase = true;
    if (!component_bool(v, "clean_text", &s->clean, err) ||
        !component_bool(v, "handle_chinese_chars", &s->chinese, err) ||
        !component_bool(v, "lowercase", &s->lowercase, err)) {
        return false;
    }
    s->strip_accents = s->lowercase; /* unless it says otherwise */
    return component_bool(v, "strip_accents", &s->strip_accents, err);
}

static bool load_step(NormalizerStep *s, const JsonValue *v, Error *err) {
    const JsonValue *map;
    switch (s->kind) {
    case NORMALIZE_STRIP:
        s->left = s->right = true;
        return component_bool(v, "strip_left", &s->left, err) && component_bool(v, "strip_right", &s->right, err);
    case NORMALIZE_BERT: return load_bert(s, v, err);
    case NORMALIZE_PREPEND: return load_content(s, v, "prepend", err);
    case NORMALIZE_REPLACE:
        s->pattern = component_pattern(v, err);
        return s->pattern && load_content(s, v, "content", err);
    case NORMALIZE_PRECOMPILED:
        map = json_get_set(v, "precompiled_charsmap");
        if (!map) return true;
        if (map->type != JSON_STRING) return error_set(err, "\"precompiled_charsmap\" is not a string");
        return charsmap_load(&s->charsmap, map->text, map->length, err);
    default: return true;
    }
}

void normalizer_step_clear(NormalizerStep *s) {
    pattern_free(s->pattern);
    mem_free(s->content);
    charsmap_clear(&s->charsmap);
    prefix_matcher_clear(&s->kept);
}

bool normalizer_add(Normalizer *p, NormalizerStep step) {
    NormalizerStep *steps = mem_resize(p->steps, p->n + 1, sizeof *steps);
    if (!steps) return false;
    p->steps = steps;
    steps[p->n++] = step;
    return true;
}

static bool load_component(void *to, const JsonValue *v, Error *err) {
    Normalizer *p = to;
    static const struct {
        const char *name;
        NormalizerKind kind;
        NormalForm form;
    } kinds[] = {
        {"NFC", NORMALIZE_FORM, {false, true}},
        {"NFD", NORMALIZE_FORM, {false, false}},
        {"NFKC", NORMALIZE_FORM, {true, true}},
        {"NFKD", NORMALIZE_FORM, {true, false}},
        {"Lowercase", NORMALIZE_LOWERCASE, {0}},
        {"Strip", NORMALIZE_STRIP, {0}},
        {"StripAccents", NORMALIZE_STRIP_ACCENTS, {0}},
        {"BertNormalizer", NORMALIZE_BERT, {0}},
        {"Replace", NORMALIZE_REPLACE, {0}},
        {"Prepend", NORMALIZE_PREPEND, {0}},
        {"Precompiled", NORMALIZE_PRECOMPILED, {0}},
        {"Nmt", NORMALIZE_NMT, {0}},
        {"ByteLevel", NORMALIZE_BYTE_LEVEL, {0}},
    };
    const char *type = component_type(v, "a normalizer", err);
    if (!type) return false;
    if (strcmp(type, "Sequence") == 0) return component_sequence(v, "normalizers", load_component, p, err);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i].name) != 0) continue;
        NormalizerStep step = {.kind = kinds[i].kind, .form = kinds[i].form};
        bool ok = load_step(&step, v, err) || error_prefix(err, "%s", type);
        if (ok && !normalizer_add(p, step)) ok = error_memory(err, "the normalizer");
        if (!ok) normalizer_step_clear(&step);
        return ok;
    }
    return component_unknown("normalizer", type, err);
}

bool normalizer_load(Normalizer *p, const JsonValue *v, Error *err) {
    *p = (Normalizer){0};
    if (!v || v->type == JSON_NULL) return true;
    if (load_component(p, v, err)) return true;
    normalizer_clear(p);
    return error_prefix(err, "normalizer");
}

void normalizer_clear(Normalizer *p) {
    for (size_t i = 0; i < p->n; i++) normalizer_step_clear(&p->steps[i]);
    mem_free(p->steps);
    *p = (Normalizer){0};
}

bool normalizer_is_byte_level(const Normalizer *p) {
    for (size_t i = 0; i < p->n; i++) {
        if (p->steps[i].kind == NORMALIZE_BYTE_LEVEL) return true;
    }
    return false;
}

/* ---- character by character ---- */

static void put_code(Buffer *out, uint32_t code) {
    char bytes[4];
    buffer_append(out, bytes, (size_t)utf8_encode(code, bytes));
}

static void put_lower(Buffer *out, uint32_t code) {
    size_t n = 0;
    const uint32_t *lower = unicode_map(&unicode_lower, code, &n);
    if (!lower) {
        put_code(out, code);
        return;
    }
    for (size_t i = 0; i < n; i++) put_code(out, lower[i]);
}

static void put_unless_mark(Buffer *out, uint32_t code) {
    if (code < 0x300 || !unicode_in(&unicode_mark, code)) put_code(out, code);
}

static void put_unless_bert_mark(Buffer *out, uint32_t code) {
    if (code < 0x300 || !unicode_in(&unicode_bert_mark, code)) put_code(out, code);
}

static void put_clean(Buffer *out, uint32_t code) {
    if (unicode_in(&unicode_bert_control, code)) return;
    put_code(out, unicode_in(&unicode_bert_space, code) ? ' ' : code);
}

/* The ranges that BERT calls Chinese; those of the reference, one of them odd. */
static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static void put_spaced_chinese(Buffer *out, uint32_t code) {
    bool spaced = is_chinese(code);
    if (spaced) buffer_byte(out, ' ');
    put_code(out, code);
    if (spaced) buffer_byte(out, ' ');
}

/* SentencePiece's nmt rules. */
static void put_nmt(Buffer *out, uint32_t c) {
    bool drop = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (!drop) put_code(out, blank ? ' ' : c);
}

static void each_character(const Buffer *text, Buffer *out, size_t *origin, void (*put)(Buffer *, uint32_t)) {
    size_t from = *origin;
    for (size_t i = 0; i < text->length;) {
        uint32_t code = 0xFFFD;
        int n = utf8_decode(text->data + i, text->length - i, &code);
        put(out, code);
        if (i < from) *origin = out->length;
        i += n ? (size_t)n : 1;
    }
}

/* ---- steps ---- */

static void strip(const NormalizerStep *s, const Buffer *text, Buffer *out, size_t *origin) {
    size_t start = 0, end = 0; /* end: behind the last character that is not white space */
    bool seen = false;
    for (size_t i = 0; i < text->length;) {
        uint32_t code = 0xFFFD;
        int n = utf8_decode(text->data + i, text->length - i, &code);
        size_t next = i + (n ? (size_t)n : 1);
        if (!unicode_in(&unicode_space, code)) {
            if (!seen) start = i;
            seen = true;
            end = next;
        }
        i = next;
    }
    if (!seen && (s->left || s->right)) return;
    if (!s->left) start = 0;
    *origin = *origin > start ? *origin - start : 0;
    if (!s->right) end = text->length;
    buffer_append(out, text->data + start, end - start);
}

/* What replaces a match has the place of the match's last character. */
static bool replace(const NormalizerStep *s, NormalizeScratch *scratch, const Buffer *text, Buffer *out, size_t *origin,
                    Error *err) {
    if (!pattern_spans(s->pattern, &scratch->pattern, text->data, text->length, &scratch->spans, err)) return false;
    size_t start = 0, from = *origin;
    *origin = 0;
    for (size_t i = 0; i < scratch->spans.n; i++) {
        Span span = scratch->spans.items[i];
        size_t before = out->length;
        if (span.match)
            buffer_append(out, s->content, s->content_length);
        else
            buffer_append(out, text->data + start, span.end - start);
        if (span.end <= from)
            *origin = out->length;
        else if (!span.match && start < from)
            *origin = before + (from - start);
        start = span.end;
    }
    return true;
}

static bool change_form(NormalForm form, NormalizeScratch *scratch, const Buffer *text, Buffer *out, size_t *origin) {
    if (*origin) { /* only whether a piece begins there matters: the first characters by themselves tell */
        if (!normal_form(form, text->data, *origin, &scratch->codes, out)) return false;
        *origin = out->length;
        buffer_reset(out);
    }
    return normal_form(form, buffer_string(text), text->length, &scratch->codes, out);
}

static void swap_buffers(Buffer *a, Buffer *b) {
    Buffer t = *a;
    *a = *b;
    *b = t;
    buffer_reset(b);
}

static bool bert(const NormalizerStep *s, NormalizeScratch *scratch, Buffer *text, Buffer *out, size_t *origin) {
    void (*const parts[])(Buffer *, uint32_t) = {s->clean ? put_clean : NULL, s->chinese ? put_spaced_chinese : NULL};
    for (int i = 0; i < 2; i++) {
        if (!parts[i]) continue;
        each_character(text, out, origin, parts[i]);
        swap_buffers(text, out);
    }
    if (s->strip_accents) {
        if (!change_form((NormalForm){false, false}, scratch, text, out, origin)) return false;
        swap_buffers(text, out);
        each_character(text, out, origin, put_unless_bert_mark);
        swap_buffers(text, out);
    }
    if (s->lowercase)
        each_character(text, out, origin, put_lower);
    else
        buffer_append(out, text->data, text->length);
    return true;
}

static void prepend(const NormalizerStep *s, const Buffer *text, Buffer *out, size_t *origin) {
    buffer_append(out, s->content, s->content_length);
    buffer_append(out, text->data, text->length);
    if (*origin) *origin += s->content_length;
}

static void apply_charsmap(const NormalizerStep *s, const Buffer *text, Buffer *out, size_t *origin) {
    charsmap_apply(&s->charsmap, text->data, *origin, out);
    *origin = out->length;
    buffer_reset(out);
    charsmap_apply(&s->charsmap, text->data, text->length, out);
}

static void to_bytes(const Buffer *text, Buffer *out, size_t *origin) {
    bytelevel_append(out, text->data, *origin);
    size_t from = *origin;
    *origin = out->length;
    bytelevel_append(out, text->data + from, text->length - from);
}

/* The bytes that one step of SentencePiece's normalizer takes in, and what stands for them. */
static size_t take(const NormalizerStep *s, const char *text, size_t n, const char **out, size_t *n_out) {
    const PrefixPattern *kept = prefix_matcher_at(&s->kept, text, n);
    if (!kept) return charsmap_step(&s->charsmap, text, n, out, n_out);
    *out = text;
    *n_out = kept->length;
    return kept->length;
}

/* SentencePiece's Normalizer::Normalize, for the piece that may begin the input (then with the dummy prefix and without
 * leading blanks) or follow an added token. */
static void sentencepiece(const NormalizerStep *s, const Buffer *text, Buffer *out, size_t *origin) {
    const char *blank = s->escape ? "\xE2\x96\x81" : " ", *part;
    size_t i = 0, n_part, step, n_blank = strlen(blank);
    while (s->remove_extra && *origin && i < text->length) {
        step = take(s, text->data + i, text->length - i, &part, &n_part);
        if (n_part != 1 || *part != ' ') break;
        i += step;
    }
    if (i == text->length) return;
    if (s->dummy_prefix && *origin) buffer_text(out, blank);
    bool after_blank = s->remove_extra && *origin;
    for (; i < text->length; i += step) {
        step = take(s, text->data + i, text->length - i, &part, &n_part);
        for (; after_blank && n_part && *part == ' '; n_part--) part++;
        for (size_t k = 0; k < n_part; k++) {
            if (part[k] == ' ')
                buffer_text(out, blank);
            else
                buffer_byte(out, part[k]);
        }
        if (n_part) after_blank = s->remove_extra && part[n_part - 1] == ' ';
    }
    while (s->remove_extra && out->length >= n_blank &&
           memcmp(out->data + out->length - n_blank, blank, n_blank) == 0) {
        out->length -= n_blank;
    }
}

static bool run_step(const NormalizerStep *s, NormalizeScratch *scratch, Buffer *text, Buffer *out, size_t *origin,
                     Error *err) {
    bool ok = true;
    switch (s->kind) {
    case NORMALIZE_FORM: ok = change_form(s->form, scratch, text, out, origin); break;
    case NORMALIZE_LOWERCASE: each_character(text, out, origin, put_lower); break;
    case NORMALIZE_STRIP: strip(s, text, out, origin); break;
    case NORMALIZE_STRIP_ACCENTS: each_character(text, out, origin, put_unless_mark); break;
    case NORMALIZE_BERT: ok = bert(s, scratch, text, out, origin); break;
    case NORMALIZE_REPLACE: return replace(s, scratch, text, out, origin, err);
    case NORMALIZE_PREPEND: prepend(s, text, out, origin); break;
    case NORMALIZE_PRECOMPILED: apply_charsmap(s, text, out, origin); break;
    case NORMALIZE_NMT: each_character(text, out, origin, put_nmt); break;
    case NORMALIZE_BYTE_LEVEL: to_bytes(text, out, origin); break;
    case NORMALIZE_SENTENCEPIECE: sentencepiece(s, text, out, origin); break;
    }
    return ok || error_memory(err, "normalizing");
}

bool normalize(const Normalizer *p, NormalizeScratch *scratch, Buffer *text, size_t *origin, Error *err) {
    for (size_t i = 0; i < p->n; i++) {
        if (text->length == 0) return true; /* no step makes something of nothing */
        Buffer *out = &scratch->other;
        buffer_reset(out);
        if (!run_step(&p->steps[i], scratch, text, out, origin, err)) return false;
        if (out->failed || text->failed) return error_memory(err, "normalizing");
        swap_buffers(text, out);
    }
    return true;
}

void normalize_scratch_clear(NormalizeScratch *scratch) {
    pattern_scratch_clear(&scratch->pattern);
    span_clear(&scratch->spans);
    code_list_clear(&scratch->codes);
    buffer_clear(&scratch->other);
    *scratch = (NormalizeScratch){0};
}
