/* A chain of stages, each handing tokens to the next. A token may travel in parts (first, ..., last): what Fuse or
 * ByteLevel joins is one token that ends with the stream, and a stage that can work on parts passes them on at once.
 * Whole decoding is this with every token pushed: there is no second implementation that could differ.
 *
 * What must be held back is the least the definition allows: ByteLevel an incomplete character; ByteFallback a run of
 * byte tokens (one bad byte turns the whole run into U+FFFD); Strip and Replace a tail that may yet be cut. */
#include "text/decode.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/bytelevel.h"

#include <string.h>

typedef struct Part {
    const char *text;
    size_t n;
    bool first, last;
} Part;

typedef struct Stream {
    DecodeState *s;
    Buffer *out;
    Error *err;
} Stream;

static bool push(const Stream *st, size_t stage, Part part);

static bool push_token(const Stream *st, size_t stage, const char *text, size_t n) {
    return push(st, stage, (Part){text, n, true, true});
}

/* A part of the one token that this stage puts out. */
static bool push_on(const Stream *st, size_t stage, const char *text, size_t n) {
    DecodeStage *state = &st->s->stages[stage];
    Part part = {text, n, !state->open, false};
    if (n == 0 && state->open) return true;
    state->open = true;
    return push(st, stage + 1, part);
}

static bool push_end(const Stream *st, size_t stage, const char *text, size_t n) {
    DecodeStage *state = &st->s->stages[stage];
    Part part = {text, n, !state->open, true};
    state->open = false;
    return push(st, stage + 1, part);
}

/* ---- text ---- */

void decode_append_replaced(Buffer *out, const char *text, size_t n, const char *from, const char *to) {
    size_t length = strlen(from), kept = 0;
    for (size_t i = 0; length && i + length <= n;) {
        if (memcmp(text + i, from, length) != 0) {
            i++;
            continue;
        }
        buffer_append(out, text + kept, i - kept);
        buffer_text(out, to);
        i = kept = i + length;
    }
    buffer_append(out, text + kept, n - kept);
}

static void replace_all(Buffer *b, const char *from, const char *to) {
    Buffer out = {0};
    decode_append_replaced(&out, buffer_string(b), b->length, from, to);
    out.failed |= b->failed;
    buffer_clear(b);
    *b = out;
}

/* What transformers calls the cleanup of tokenization spaces. */
static void clean_up(Buffer *b) {
    static const char *const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) replace_all(b, rules[i][0], rules[i][1]);
}

/* ---- stages that need whole tokens ---- */

static bool push_work(const Stream *st, size_t next) {
    Buffer text = st->s->work; /* the next stage may use `work`, too */
    st->s->work = (Buffer){0};
    bool ok = text.failed ? error_memory(st->err, "decoding") : push_token(st, next, buffer_string(&text), text.length);
    buffer_clear(&st->s->work);
    st->s->work = text;
    return ok;
}

static bool token_wordpiece(const Stream *st, size_t stage, const char *text, size_t n) {
    const DecoderStep *step = &st->s->decoder->steps[stage];
    Buffer *work = &st->s->work;
    size_t prefix = strlen(step->prefix);
    bool inside = n >= prefix && memcmp(text, step->prefix, prefix) == 0;
    bool first = st->s->stages[stage].tokens == 0;
    buffer_reset(work);
    if (!first && !inside) buffer_byte(work, ' ');
    buffer_append(work, !first && inside ? text + prefix : text, !first && inside ? n - prefix : n);
    if (step->cleanup) clean_up(work);
    return push_work(st, stage + 1);
}

static bool token_metaspace(const Stream *st, size_t stage, const char *text, size_t n) {
    const DecoderStep *step = &st->s->decoder->steps[stage];
    bool drop = step->drop_first && st->s->stages[stage].tokens == 0;
    buffer_reset(&st->s->work);
    decode_append_replaced(&st->s->work, text, n, step->prefix, drop ? "" : " ");
    return push_work(st, stage + 1);
}

static bool token_ctc(const Stream *st, size_t stage, const char *text, size_t n) {
    const DecoderStep *step = &st->s->decoder->steps[stage];
    DecodeStage *state = &st->s->stages[stage];
    bool repeated = state->tokens && state->held.length == n && memcmp(buffer_string(&state->held), text, n) == 0;
    if (repeated) return true;
    Buffer *work = &st->s->work;
    buffer_reset(work);
    decode_append_replaced(work, text, n, step->prefix, "");
    if (step->cleanup) {
        clean_up(work);
        replace_all(work, step->delimiter, " ");
    }
    buffer_reset(&state->held);
    buffer_append(&state->held, text, n);
    if (state->held.failed) return error_memory(st->err, "decoding");
    return work->length == 0 && !work->failed ? true : push_work(st, stage + 1);
}

/* The last token loses the suffix, the others get a blank: so each waits for the next. */
static bool flush_bpe(const Stream *st, size_t stage, const char *instead) {
    DecodeStage *state = &st->s->stages[stage];
    buffer_reset(&st->s->work);
    decode_append_replaced(&st->s->work, buffer_string(&state->held), state->held.length,
                           st->s->decoder->steps[stage].prefix, instead);
    buffer_reset(&state->held);
    return push_work(st, stage + 1);
}

static bool token_bpe(const Stream *st, size_t stage, const char *text, size_t n) {
    DecodeStage *state = &st->s->stages[stage];
    if (state->tokens && !flush_bpe(st, stage, " ")) return false;
    buffer_append(&state->held, text, n);
    return !state->held.failed || error_memory(st->err, "decoding");
}

/* The byte of <0xNN>; -1 for any other token. The reference's number parser also takes a plus sign. */
static int byte_of(const char *t, size_t n) {
    if (n != 6 || memcmp(t, "<0x", 3) != 0 || t[5] != '>') return -1;
    int high = t[3] == '+' ? 0 : hex_digit(t[3]), low = hex_digit(t[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static bool flush_bytes(const Stream *st, size_t stage) {
    Buffer run = st->s->stages[stage].held;
    if (run.length == 0) return true;
    st->s->stages[stage].held = (Buffer){0};
    bool ok = true;
    if (utf8_valid(run.data, run.length) == run.length) {
        ok = push_token(st, stage + 1, run.data, run.length);
    } else {
        for (size_t i = 0; ok && i < run.length; i++) ok = push_token(st, stage + 1, "\xEF\xBF\xBD", 3);
    }
    buffer_reset(&run);
    st->s->stages[stage].held = run;
    return ok;
}

static bool token_byte_fallback(const Stream *st, size_t stage, const char *text, size_t n) {
    DecodeStage *state = &st->s->stages[stage];
    int byte = byte_of(text, n);
    if (byte < 0) return flush_bytes(st, stage) && push_token(st, stage + 1, text, n);
    buffer_byte(&state->held, (char)byte);
    return !state->held.failed || error_memory(st->err, "decoding");
}

static bool token_replace(const Stream *st, size_t stage, const char *text, size_t n) {
    const DecoderStep *step = &st->s->decoder->steps[stage];
    Buffer *work = &st->s->work;
    if (!pattern_spans(step->pattern, &st->s->scratch, text, n, &st->s->spans, st->err)) return false;
    buffer_reset(work);
    size_t start = 0;
    for (size_t i = 0; i < st->s->spans.n; i++) {
        Span span = st->s->spans.items[i];
        if (span.match)
            buffer_text(work, step->content);
        else
            buffer_append(work, text + start, span.end - start);
        start = span.end;
    }
    return push_work(st, stage + 1);
}

static bool token_spaced(const Stream *st, size_t stage, const char *text, size_t n) {
    if (st->s->stages[stage].tokens && !push_token(st, stage + 1, " ", 1)) return false;
    return push_token(st, stage + 1, text, n);
}

/* The bytes a token stands for; a token with a character outside the alphabet stands for itself. */
static bool append_bytes(Buffer *out, const char *text, size_t n) {
    size_t before = out->length;
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        int length = utf8_decode(text + i, n - i, &code);
        int byte = length ? code_to_byte(code) : -1;
        if (byte < 0) {
            out->length = before;
            buffer_append(out, text, n);
            break;
        }
        buffer_byte(out, (char)byte);
        i += (size_t)length;
    }
    return !out->failed;
}

static bool token_byte_level(const Stream *st, size_t stage, const char *text, size_t n) {
    DecodeStage *state = &st->s->stages[stage];
    if (!append_bytes(&state->held, text, n)) return error_memory(st->err, "decoding");
    size_t ready = state->held.length - utf8_incomplete_tail(buffer_string(&state->held), state->held.length);
    bool ok = true;
    if (utf8_valid(buffer_string(&state->held), ready) == ready) {
        ok = ready == 0 || push_on(st, stage, state->held.data, ready);
    } else {
        Buffer lossy = {0};
        utf8_append_lossy(&lossy, state->held.data, ready);
        ok = lossy.failed ? error_memory(st->err, "decoding") : push_on(st, stage, lossy.data, lossy.length);
        buffer_clear(&lossy);
    }
    state->held.length -= ready;
    if (ready) memmove(state->held.data, state->held.data + ready, state->held.length);
    return ok;
}

static bool token_whole(const Stream *st, size_t stage, const char *text, size_t n) {
    bool ok = true;
    switch (st->s->decoder->steps[stage].kind) {
    case DECODE_BYTE_LEVEL: ok = token_byte_level(st, stage, text, n); break;
    case DECODE_WORDPIECE: ok = token_wordpiece(st, stage, text, n); break;
    case DECODE_METASPACE: ok = token_metaspace(st, stage, text, n); break;
    case DECODE_BYTE_FALLBACK: ok = token_byte_fallback(st, stage, text, n); break;
    case DECODE_REPLACE: ok = token_replace(st, stage, text, n); break;
    case DECODE_CTC: ok = token_ctc(st, stage, text, n); break;
    case DECODE_BPE: ok = token_bpe(st, stage, text, n); break;
    case DECODE_SPACED: ok = token_spaced(st, stage, text, n); break;
    case DECODE_FUSE:
    case DECODE_STRIP: break; /* these take parts */
    }
    st->s->stages[stage].tokens++;
    return ok;
}

/* ---- stages that take parts ---- */

/* Removes up to `start` such characters at a token's start at once, and holds back up to `stop` at its end. */
static bool part_strip(const Stream *st, size_t stage, Part part) {
    const DecoderStep *step = &st->s->decoder->steps[stage];
    DecodeStage *state = &st->s->stages[stage];
    size_t length = strlen(step->prefix);
    if (part.first) {
        state->to_strip = step->start;
        buffer_reset(&state->held);
    }
    while (state->to_strip && part.n) {
        bool match = length && part.n >= length && memcmp(part.text, step->prefix, length) == 0;
        state->to_strip = match ? state->to_strip - 1 : 0;
        part.text += match ? length : 0;
        part.n -= match ? length : 0;
    }
    buffer_append(&state->held, part.text, part.n);
    if (state->held.failed) return error_memory(st->err, "decoding");
    size_t keep = state->held.length;
    for (size_t i = 0; i < step->stop && length && keep >= length; i++) {
        if (memcmp(state->held.data + keep - length, step->prefix, length) != 0) break;
        keep -= length;
    }
    Buffer held = state->held;
    state->held = (Buffer){0};
    bool ok =
        part.last ? push_end(st, stage, buffer_string(&held), keep) : push_on(st, stage, buffer_string(&held), keep);
    held.length -= keep;
    if (keep) memmove(held.data, held.data + keep, held.length);
    if (part.last) buffer_reset(&held);
    state->held = held;
    return ok;
}

/* Plain text is replaced as it comes; a tail that may be the pattern's start waits. */
static bool part_replace(const Stream *st, size_t stage, Part part) {
    const DecoderStep *step = &st->s->decoder->steps[stage];
    DecodeStage *state = &st->s->stages[stage];
    if (part.first) buffer_reset(&state->held);
    buffer_append(&state->held, part.text, part.n);
    if (state->held.failed) return error_memory(st->err, "decoding");
    size_t length = strlen(step->literal), done = 0, i = 0;
    Buffer out = {0};
    const char *text = buffer_string(&state->held);
    while (state->held.length - i >= length) {
        if (memcmp(text + i, step->literal, length) != 0) {
            i++;
            continue;
        }
        buffer_append(&out, text + done, i - done);
        buffer_text(&out, step->content);
        i = done = i + length;
    }
    size_t left = state->held.length;
    while (!part.last && i < left && memcmp(text + i, step->literal, left - i) != 0) i++;
    if (part.last) i = left;
    buffer_append(&out, text + done, i - done);
    bool ok = !out.failed || error_memory(st->err, "decoding");
    state->held.length -= i;
    if (i) memmove(state->held.data, state->held.data + i, state->held.length);
    if (ok)
        ok = part.last ? push_end(st, stage, buffer_string(&out), out.length)
                       : push_on(st, stage, buffer_string(&out), out.length);
    buffer_clear(&out);
    return ok;
}

/* Collects a token that comes in parts for a stage that wants it whole. */
static bool part_collect(const Stream *st, size_t stage, Part part) {
    DecodeStage *state = &st->s->stages[stage];
    if (part.first) buffer_reset(&state->held);
    buffer_append(&state->held, part.text, part.n);
    if (state->held.failed) return error_memory(st->err, "decoding");
    if (!part.last) return true;
    Buffer token = state->held; /* such a token is the stream's only one, so `held` is free for the stage */
    state->held = (Buffer){0};
    bool ok = token_whole(st, stage, buffer_string(&token), token.length);
    buffer_clear(&token);
    return ok;
}

static bool push(const Stream *st, size_t stage, Part part) {
    const Decoder *d = st->s->decoder;
    if (stage == d->n) {
        buffer_append(st->out, part.text, part.n);
        return !st->out->failed || error_memory(st->err, "decoding");
    }
    const DecoderStep *step = &d->steps[stage];
    if (step->kind == DECODE_FUSE) return push_on(st, stage, part.text, part.n);
    if (step->kind == DECODE_STRIP) return part_strip(st, stage, part);
    if (part.first && part.last) return token_whole(st, stage, part.text, part.n);
    if (step->kind == DECODE_REPLACE && step->literal) return part_replace(st, stage, part);
    return part_collect(st, stage, part);
}

/* ---- the stream ---- */

bool decode_start(DecodeState *s, const Decoder *d, Error *err) {
    *s = (DecodeState){.decoder = d};
    s->stages = mem_zeroed(d->n, sizeof *s->stages);
    return s->stages || error_memory(err, "decoding");
}

bool decode_token(DecodeState *s, const char *token, size_t n, Buffer *out, Error *err) {
    Stream st = {s, out, err};
    return push_token(&st, 0, token, n);
}

static bool finish_stage(const Stream *st, size_t stage) {
    DecodeStage *state = &st->s->stages[stage];
    Buffer text = {0};
    bool ok;
    switch (st->s->decoder->steps[stage].kind) {
    case DECODE_BYTE_LEVEL:
        utf8_append_lossy(&text, state->held.data, state->held.length);
        ok = text.failed ? error_memory(st->err, "decoding") : push_end(st, stage, buffer_string(&text), text.length);
        buffer_clear(&text);
        return ok;
    case DECODE_FUSE: return push_end(st, stage, "", 0);
    case DECODE_BYTE_FALLBACK: return flush_bytes(st, stage);
    case DECODE_BPE: return state->tokens == 0 || flush_bpe(st, stage, "");
    default: return true;
    }
}

bool decode_finish(DecodeState *s, Buffer *out, Error *err) {
    Stream st = {s, out, err};
    for (size_t i = 0; i < s->decoder->n; i++) {
        if (!finish_stage(&st, i)) return false;
    }
    return true;
}

void decode_clear(DecodeState *s) {
    for (size_t i = 0; s->stages && i < s->decoder->n; i++) buffer_clear(&s->stages[i].held);
    mem_free(s->stages);
    pattern_scratch_clear(&s->scratch);
    span_clear(&s->spans);
    buffer_clear(&s->work);
    *s = (DecodeState){0};
}
