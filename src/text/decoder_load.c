/* Reads the decoder of tokenizer.json; decode.c runs it. */
#include "base/memory.h"
#include "text/component.h"
#include "text/decode.h"

#include <string.h>

static bool copy_text(const JsonValue *text, char **out, Error *err) {
    if (!text) return false;
    if (strlen(text->text) != text->length) return error_set(err, "a text holds a NUL");
    *out = mem_string(text->text, text->length);
    return *out || error_memory(err, "the decoder");
}

static bool load_text(const JsonValue *v, const char *key, char **out, Error *err) {
    return copy_text(component_text(v, key, err), out, err);
}

static bool load_optional_text(const JsonValue *v, const char *key, const char *otherwise, char **out, Error *err) {
    if (json_get_set(v, key)) return load_text(v, key, out, err);
    *out = mem_string(otherwise, strlen(otherwise));
    return *out || error_memory(err, "the decoder");
}

static bool load_replace(DecoderStep *s, const JsonValue *v, Error *err) {
    s->pattern = component_pattern(v, err);
    if (!s->pattern || !load_text(v, "content", &s->content, err)) return false;
    const JsonValue *literal = json_get(json_get(v, "pattern"), "String");
    return !literal || literal->length == 0 || copy_text(literal, &s->literal, err);
}

static bool load_metaspace(DecoderStep *s, const JsonValue *v, Error *err) {
    bool prefix = true;
    if (!load_text(v, "replacement", &s->prefix, err) || !component_bool(v, "add_prefix_space", &prefix, err))
        return false;
    const JsonValue *scheme = json_get_set(v, "prepend_scheme");
    s->drop_first = scheme ? !json_equals(scheme, "never") : prefix;
    return true;
}

static bool load_step(DecoderStep *s, const JsonValue *v, Error *err) {
    switch (s->kind) {
    case DECODE_WORDPIECE:
        s->cleanup = true;
        return load_optional_text(v, "prefix", "##", &s->prefix, err) && component_bool(v, "cleanup", &s->cleanup, err);
    case DECODE_METASPACE: return load_metaspace(s, v, err);
    case DECODE_STRIP:
        return load_text(v, "content", &s->prefix, err) && component_size(v, "start", &s->start, err) &&
               component_size(v, "stop", &s->stop, err);
    case DECODE_REPLACE: return load_replace(s, v, err);
    case DECODE_CTC:
        s->cleanup = true;
        return load_optional_text(v, "pad_token", "<pad>", &s->prefix, err) &&
               load_optional_text(v, "word_delimiter_token", "|", &s->delimiter, err) &&
               component_bool(v, "cleanup", &s->cleanup, err);
    case DECODE_BPE: return load_optional_text(v, "suffix", "</w>", &s->prefix, err);
    default: return true;
    }
}

static void step_clear(DecoderStep *s) {
    pattern_free(s->pattern);
    mem_free(s->literal);
    mem_free(s->content);
    mem_free(s->prefix);
    mem_free(s->delimiter);
}

static bool add_step(Decoder *d, DecoderStep step, Error *err) {
    DecoderStep *steps = mem_resize(d->steps, d->n + 1, sizeof *steps);
    if (!steps) return error_memory(err, "the decoder");
    d->steps = steps;
    steps[d->n++] = step;
    return true;
}

static bool load_component(void *to, const JsonValue *v, Error *err) {
    Decoder *d = to;
    static const struct {
        const char *name;
        DecoderKind kind;
    } kinds[] = {{"ByteLevel", DECODE_BYTE_LEVEL},
                 {"WordPiece", DECODE_WORDPIECE},
                 {"Metaspace", DECODE_METASPACE},
                 {"ByteFallback", DECODE_BYTE_FALLBACK},
                 {"Fuse", DECODE_FUSE},
                 {"Strip", DECODE_STRIP},
                 {"Replace", DECODE_REPLACE},
                 {"CTC", DECODE_CTC},
                 {"BPEDecoder", DECODE_BPE}};
    const char *type = component_type(v, "a decoder", err);
    if (!type) return false;
    if (strcmp(type, "Sequence") == 0) return component_sequence(v, "decoders", load_component, d, err);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i].name) != 0) continue;
        DecoderStep step = {.kind = kinds[i].kind};
        bool ok = load_step(&step, v, err) || error_prefix(err, "%s", type);
        ok = ok && add_step(d, step, err);
        if (!ok) step_clear(&step);
        return ok;
    }
    return component_unknown("decoder", type, err);
}

static bool has_byte_level(const Decoder *d) {
    for (size_t i = 0; i < d->n; i++) {
        if (d->steps[i].kind == DECODE_BYTE_LEVEL) return true;
    }
    return false;
}

bool decoder_load(Decoder *d, const JsonValue *v, bool byte_level, Error *err) {
    *d = (Decoder){0};
    bool given = v && v->type != JSON_NULL;
    bool ok = !given || load_component(d, v, err) || error_prefix(err, "decoder");
    if (ok && given && byte_level && !has_byte_level(d)) {
        decoder_clear(d);
        ok = add_step(d, (DecoderStep){.kind = DECODE_BYTE_LEVEL}, err);
    }
    if (ok && !given) ok = add_step(d, (DecoderStep){.kind = byte_level ? DECODE_BYTE_LEVEL : DECODE_SPACED}, err);
    if (!ok) decoder_clear(d);
    return ok;
}

static bool add_literal(Decoder *d, const char *from, const char *to, Error *err) {
    DecoderStep step = {.kind = DECODE_REPLACE};
    step.pattern = pattern_literal(from, strlen(from), err);
    step.literal = mem_string(from, strlen(from));
    step.content = mem_string(to, strlen(to));
    bool ok = step.pattern && ((step.literal && step.content) || error_memory(err, "the decoder"));
    ok = ok && add_step(d, step, err);
    if (!ok) step_clear(&step);
    return ok;
}

/* On the whole text, so tokens are joined first; each rule sees what the one before it made. */
bool decoder_add_cleanup(Decoder *d, Error *err) {
    static const char *const rules[][2] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                           {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    bool ok = add_step(d, (DecoderStep){.kind = DECODE_FUSE}, err);
    for (size_t i = 0; ok && i < sizeof rules / sizeof rules[0]; i++)
        ok = add_literal(d, rules[i][0], rules[i][1], err);
    return ok;
}

void decoder_clear(Decoder *d) {
    for (size_t i = 0; i < d->n; i++) step_clear(&d->steps[i]);
    mem_free(d->steps);
    *d = (Decoder){0};
}
