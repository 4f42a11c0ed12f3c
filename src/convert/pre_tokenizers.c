/* GGUF names a pre-tokeniser by the family that had it first and leaves its rule to the reader; here are the rules, as
 * the tokenizer.json of those families spell them. Only ones that were checked against the family's own file are
 * listed: a wrong rule would give plausible but different ids. Those from modern-bert on, whose files were not at hand,
 * are what llama.cpp does with the name (modern-bert with the normal form of the tokenizer that it was made of,
 * olmo's). */
#include "convert/gguf_tokenizer.h"

#include <string.h>

#define BYTE_LEVEL(regex) \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": " regex "}"
#define SPLIT(pattern)                                                                                       \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern \
    "\"}, \"behavior\": \"Isolated\", \"invert\": false}, " BYTE_LEVEL("false") "]}"
#define DIGITS                                                                                                       \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, " BYTE_LEVEL( \
        "true") "]}"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define SPACES "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const char gpt2[] = BYTE_LEVEL("true");
static const char digits[] = DIGITS;
static const char llama3[] = SPLIT(CONTRACTIONS "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}"
                                                "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" SPACES);
static const char qwen2[] = SPLIT(CONTRACTIONS "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"
                                               "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" SPACES);
static const char qwen35[] = SPLIT(CONTRACTIONS "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}"
                                                "| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*" SPACES);
static const char seed_coder[] = SPLIT(CONTRACTIONS "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1}"
                                                    "| ?[^\\\\s\\\\p{L}\\\\p{N}\\\\r\\\\n]+" SPACES);
static const char bailing[] =
    SPLIT("'(?i:[sdmt]|ll|ve|re)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?+\\\\p{L}+|\\\\p{N}"
          "| ?[^\\\\s\\\\p{L}\\\\p{N}]++[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]|\\\\s+(?!\\\\S)|\\\\s+");
static const char tekken[] = SPLIT("[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"
                                   "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+"
                                   "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+"
                                   "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}"
                                   "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" SPACES);

#define STEPS(steps) "{\"type\": \"Sequence\", \"pretokenizers\": [" steps "]}"
#define STEP(pattern) \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}, \"behavior\": \"Isolated\", \"invert\": false}"
#define EACH_DIGIT "{\"type\": \"Digits\", \"individual_digits\": true}, "

static const char gpt4o[] = STEPS(STEP(
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
    "+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+["
    "\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+") ", " BYTE_LEVEL("false"));
static const char deepseek_v3[] = STEPS(STEP("\\\\p{N}{1,3}") ", " STEP("[一-龥぀-ゟ゠-ヿ]+") ", " STEP(
    "[!\\\"#$%&'()*+,\\\\-./"
    ":;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|[^\\\\r\\\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| "
    "?[\\\\p{P}\\\\p{S}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+") ", " BYTE_LEVEL("false"));
static const char deepseek_llm[] = STEPS(STEP("[\\r\\n]") ", " STEP(
    "\\\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-"
    "ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-"
    "ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-"
    "ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-"
    "ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-"
    "ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-"
    "𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-"
    "𑣟𞤀-𞥃]+") ", " STEP("\\\\s?[!-/"
                                 ":-~！-／：-～‘-‟　-"
                                 "。]+") ", " STEP("\\"
                                                   "\\s"
                                                   "+$") ", " STEP("[一-龥ࠀ-一가-퟿]+") ", " EACH_DIGIT
                                             BYTE_LEVEL("false"));
static const char deepseek_coder[] = STEPS(STEP("[\\r\\n]") ", " STEP("\\\\s?\\\\p{L}+") ", " STEP(
    "\\\\s?\\\\p{P}+") ", " STEP("[一-龥ࠀ-一가-퟿]+") ", " EACH_DIGIT BYTE_LEVEL("false"));
static const char falcon[] = STEPS("{\"type\": \"Punctuation\", \"behavior\": \"Contiguous\"}, " BYTE_LEVEL(
    "true") ", {\"type\": \"Digits\", \"individual_digits\": false}, " STEP("[0-9][0-9][0-9]"));

static const char none[] = "null", nfc[] = "{\"type\": \"NFC\"}";

#define BYTES VOCAB_BYTES, byte_decoder

static const char byte_decoder[] =
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}";

static const PreTokenizer table[] = {
    {"gpt-2", gpt2, none, false, false, BYTES},
    {"smollm", digits, none, false, false, BYTES},
    {"llama-bpe", llama3, none, true, true, BYTES},
    {"llama3", llama3, none, true, true, BYTES},
    {"llama-v3", llama3, none, true, true, BYTES},
    {"qwen2", qwen2, nfc, false, false, BYTES},
    {"deepseek-r1-qwen", qwen2, nfc, false, false, BYTES},
    {"qwen35", qwen35, nfc, false, false, BYTES},
    {"tekken", tekken, none, true, true, BYTES},
    {"starcoder", digits, none, false, false, BYTES},
    {"refact", digits, none, false, false, BYTES},
    {"command-r", digits, nfc, false, false, BYTES},
    {"gpt-4o", gpt4o, none, false, false, BYTES},
    {"llama4", gpt4o, none, false, false, BYTES},
    {"lfm2", llama3, none, true, true, BYTES},
    {"glm4", llama3, none, true, false, BYTES},
    {"chatglm-bpe", llama3, none, false, false, BYTES},
    {"seed-coder", seed_coder, none, false, false, BYTES},
    {"dbrx", llama3, none, false, false, BYTES},
    {"deepseek-llm", deepseek_llm, none, false, false, BYTES},
    {"deepseek-coder", deepseek_coder, none, false, false, BYTES},
    {"deepseek-v3", deepseek_v3, none, false, false, BYTES},
    {"falcon", falcon, none, false, false, BYTES},
    {"mpt", gpt2, nfc, false, false, BYTES},
    {"olmo", gpt2, nfc, false, false, BYTES},
    {"modern-bert", gpt2, nfc, false, false, BYTES},
    {"pixtral", llama3, none, true, true, BYTES},
    {"falcon-h1", llama3, none, true, true, BYTES},
    {"phi-2", gpt2, none, false, false, BYTES},
    {"stablelm2", qwen2, none, false, false, BYTES},
    {"minimax-m2", gpt4o, none, false, false, BYTES},
    {"bailingmoe", bailing, none, false, false, BYTES},
    {"bailingmoe2", bailing, none, false, false, BYTES},
};

enum { N_TABLE = sizeof table / sizeof *table };

/* ---- SentencePiece ---- */

#define REPLACE(from, to) "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"
#define MARK "\xE2\x96\x81"
#define SPACED_DECODER(strip)                                                                                   \
    "{\"type\": \"Sequence\", \"decoders\": [" REPLACE(MARK, " ") ", {\"type\": \"ByteFallback\"}, {\"type\": " \
                                                                  "\"Fuse\"}" strip "]}"

static const char spaces_marked[] = REPLACE(" ", MARK), spaced_decoder[] = SPACED_DECODER("");
static const char prefix_marked[] =
    "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"" MARK
    "\"}, " REPLACE(" ", MARK) "]}";
static const char prefix_decoder[] =
    SPACED_DECODER(", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");

const PreTokenizer *pre_tokenizer_spm(bool space_prefix, bool has_merges) {
    static const PreTokenizer plain = {"", none, spaces_marked, false, true, VOCAB_SPM, spaced_decoder};
    static const PreTokenizer prefixed = {"", none, prefix_marked, false, true, VOCAB_SPM, prefix_decoder};
    static const PreTokenizer merged = {"", none, spaces_marked, false, true, VOCAB_SPACED, spaced_decoder};
    return has_merges ? &merged : space_prefix ? &prefixed : &plain;
}

/* ---- encoders ---- */

#define METASPACE \
    "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"always\", \"split\": true}"

const PreTokenizer pre_tokenizer_wordpiece = {"",
                                              "{\"type\": \"BertPreTokenizer\"}",
                                              NULL,
                                              false,
                                              true,
                                              VOCAB_WORDPIECE,
                                              "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}"};

const PreTokenizer pre_tokenizer_unigram = {
    "",       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, " METASPACE "]}",
    NULL,     false,
    true,     VOCAB_UNIGRAM,
    METASPACE};

/* ---- RWKV ---- */

const PreTokenizer pre_tokenizer_greedy = {"", BYTE_LEVEL("false"), none, false, false, VOCAB_GREEDY, byte_decoder};

/* ---- by name ---- */

const PreTokenizer *pre_tokenizer_find(const char *name, size_t length) {
    for (int i = 0; i < N_TABLE; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0) return &table[i];
    return NULL;
}

void pre_tokenizer_names(Buffer *out) {
    for (int i = 0; i < N_TABLE; i++) buffer_printf(out, "%s%s", i ? ", " : "", table[i].name);
}
