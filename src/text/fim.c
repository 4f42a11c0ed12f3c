/* Families mark the two texts with tokens of their own, and some want the suffix first. A tokenizer has the tokens of
 * one family, so their names tell which it is; the first form that fits counts.
 *
 * The texts are pieces of one file: where a tokenizer puts a space before every text (SentencePiece), these get none.
 */
#include "text/fim.h"
#include "text/affixes.h"

#include <string.h>

enum { MAX_ENDS = 5 };

struct FimForm {
    const char *prefix, *suffix, *middle; /* each stands before its text; middle NULL: none */
    bool suffix_first;
    const char *ends[MAX_ENDS];
    const char *sign; /* another token, by which a family is told from one with the same three; NULL: none */
};

static const FimForm forms[] = {
    /* Qwen Coder, CodeGemma, Granite */
    {"<|fim_prefix|>",
     "<|fim_suffix|>",
     "<|fim_middle|>",
     false,
     {"<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"},
     NULL},
    /* Mellum, whose chat tokens StarCoder lacks */
    {"<fim_prefix>",
     "<fim_suffix>",
     "<fim_middle>",
     true,
     {"<|endoftext|>", "<fim_pad>", "<reponame>", "<filename>", NULL},
     "</assistant>"},
    /* StarCoder, and the older Granite */
    {"<fim_prefix>",
     "<fim_suffix>",
     "<fim_middle>",
     false,
     {"<|endoftext|>", "<fim_pad>", "<repo_name>", "<file_sep>", NULL},
     NULL},
    /* SantaCoder */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false, {"<|endoftext|>", "<fim-pad>", NULL}, NULL},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", false, {"<｜end▁of▁sentence｜>", NULL}, NULL}, /* DeepSeek */
    {"<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>", false, {"<|endoftext|>", NULL}, NULL},
    {"▁<PRE>", "▁<SUF>", "▁<MID>", false, {"▁<EOT>", NULL}, NULL}, /* Code Llama */
    {"<PRE>", "<SUF>", "<MID>", false, {"<EOT>", "<EOM>", NULL}, NULL},
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", true, {NULL}, NULL},                     /* Seed-Coder */
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", true, {"<|endoftext|>", NULL}, NULL}, /* CodeGeeX */
    {"[PREFIX]", "[SUFFIX]", NULL, true, {NULL}, NULL},                                             /* Codestral */
};

const FimForm *fim_form_of(const Tokenizer *t) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const FimForm *f = &forms[i];
        if (tokenizer_find(t, f->prefix) >= 0 && tokenizer_find(t, f->suffix) >= 0 &&
            (!f->middle || tokenizer_find(t, f->middle) >= 0) && (!f->sign || tokenizer_find(t, f->sign) >= 0))
            return f;
    }
    return NULL;
}

static bool push_token(const Tokenizer *t, const char *name, IdList *out, Error *err) {
    return id_list_push(out, tokenizer_find(t, name)) || error_memory(err, "the prompt");
}

/* Whether every text gets a space before it. */
static bool adds_space(const Tokenizer *t, bool *out, Error *err) {
    IdList ids = {0};
    Buffer bytes = {0};
    bool ok = tokenizer_encode(t, "x", 1, 0, &ids, err);
    if (ok && ids.n > 0) tokenizer_bytes(t, ids.ids[0], &bytes);
    *out = bytes.length > 0 && bytes.data[0] == ' ';
    buffer_clear(&bytes);
    id_list_clear(&ids);
    return ok;
}

/* The space goes before a line break, and both are left away; unless the break is in one token with what follows. */
static bool encode_unspaced(const Tokenizer *t, const char *text, size_t n, IdList *out, Error *err) {
    IdList line = {0}, whole = {0};
    Buffer joined = {0};
    buffer_byte(&joined, '\n');
    buffer_append(&joined, text, n);
    bool ok = (!joined.failed || error_memory(err, "the prompt")) && tokenizer_encode(t, "\n", 1, 0, &line, err) &&
              tokenizer_encode(t, buffer_string(&joined), joined.length, 0, &whole, err);
    bool parts = ok && whole.n >= line.n && memcmp(whole.ids, line.ids, line.n * sizeof *line.ids) == 0;
    if (ok && !parts)
        ok = tokenizer_encode(t, text, n, 0, out, err);
    else if (ok)
        ok = id_list_append(out, whole.ids + line.n, whole.n - line.n) || error_memory(err, "the prompt");
    buffer_clear(&joined);
    id_list_clear(&line);
    id_list_clear(&whole);
    return ok;
}

static bool encode_part(const Tokenizer *t, const char *mark, const char *text, size_t n, IdList *out, Error *err) {
    bool spaced;
    if (!push_token(t, mark, out, err) || !adds_space(t, &spaced, err)) return false;
    return spaced ? encode_unspaced(t, text, n, out, err) : tokenizer_encode(t, text, n, 0, out, err);
}

bool fim_encode(const FimForm *f, const Tokenizer *t, const char *prefix, size_t n_prefix, const char *suffix,
                size_t n_suffix, IdList *out, Error *err) {
    IdList affixes = {0};
    size_t n_before;
    bool ok = affixes_find(t, &affixes, &n_before, err);
    if (ok && !id_list_append(out, affixes.ids, n_before)) ok = error_memory(err, "the prompt");
    id_list_clear(&affixes);
    if (ok && f->suffix_first) ok = encode_part(t, f->suffix, suffix, n_suffix, out, err);
    ok = ok && encode_part(t, f->prefix, prefix, n_prefix, out, err);
    if (ok && !f->suffix_first) ok = encode_part(t, f->suffix, suffix, n_suffix, out, err);
    return ok && (!f->middle || push_token(t, f->middle, out, err));
}

bool fim_end_ids(const FimForm *f, const Tokenizer *t, IdList *out) {
    for (int i = 0; i < MAX_ENDS && f->ends[i]; i++) {
        int32_t id = tokenizer_find(t, f->ends[i]);
        if (id >= 0 && !id_list_push(out, id)) return false;
    }
    return true;
}
