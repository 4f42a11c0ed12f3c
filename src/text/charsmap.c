/* Reads the trie as Darts lays it out. The text is walked by grapheme clusters, as the reference does: a cluster of
 * fewer than six bytes that begins with a key is replaced whole by what the SHORTEST such key maps to; else its
 * characters are replaced one by one. (The reference calls this weird itself; token ids depend on it.) */
#include "text/charsmap.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <string.h>

/* ---- loading ---- */

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool decode_base64(const char *text, size_t n, Buffer *out) {
    uint32_t bits = 0;
    int have = 0;
    while (n && text[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have < 8) continue;
        have -= 8;
        buffer_byte(out, (char)(bits >> have));
    }
    return true;
}

static uint32_t read32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool charsmap_load_bytes(Charsmap *c, const unsigned char *bytes, size_t n, Error *err) {
    *c = (Charsmap){0};
    if (n == 0) return true; /* maps nothing */
    uint32_t trie = n >= 4 ? read32(bytes) : 0;
    if (n < 4 || trie % 4 || trie > n - 4) return error_set(err, "the character map is cut short");
    c->n_units = trie / 4;
    c->n_replacements = n - 4 - trie;
    c->units = mem_array(c->n_units, sizeof *c->units);
    c->replacements = mem_array(c->n_replacements + 1, 1);
    if (!c->units || !c->replacements) {
        charsmap_clear(c);
        return error_memory(err, "the character map");
    }
    for (size_t i = 0; i < c->n_units; i++) c->units[i] = read32(bytes + 4 + 4 * i);
    memcpy(c->replacements, bytes + 4 + trie, c->n_replacements);
    c->replacements[c->n_replacements] = 0;
    return true;
}

bool charsmap_load(Charsmap *c, const char *base64, size_t n, Error *err) {
    Buffer bytes = {0};
    bool ok = decode_base64(base64, n, &bytes) || error_set(err, "the character map is not base64");
    if (ok && bytes.failed) ok = error_memory(err, "the character map");
    ok = ok && charsmap_load_bytes(c, (const unsigned char *)bytes.data, bytes.length, err);
    buffer_clear(&bytes);
    return ok;
}

void charsmap_clear(Charsmap *c) {
    mem_free(c->units);
    mem_free(c->replacements);
    *c = (Charsmap){0};
}

/* ---- looking up ---- */

static size_t unit_offset(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* What a key at the start of text maps to, the shortest or the longest one; *length: its bytes. NULL when none is
 * there. Positions come from a file: checked. */
static const char *lookup_key(const Charsmap *c, const char *text, size_t n, bool longest, size_t *length) {
    const char *found = NULL;
    if (c->n_units == 0) return NULL;
    size_t at = unit_offset(c->units[0]);
    for (size_t i = 0; i < n && text[i]; i++) {
        at ^= (unsigned char)text[i];
        if (at >= c->n_units) return found;
        uint32_t unit = c->units[at];
        if ((unit & (1u << 31 | 0xFF)) != (unsigned char)text[i]) return found;
        at ^= unit_offset(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= c->n_units) return found;
        uint32_t value = c->units[at] & 0x7FFFFFFF;
        if (value > c->n_replacements) return found;
        found = c->replacements + value;
        *length = i + 1;
        if (!longest) return found;
    }
    return found;
}

static const char *lookup(const Charsmap *c, const char *text, size_t n) {
    size_t length;
    return lookup_key(c, text, n, false, &length);
}

size_t charsmap_step(const Charsmap *c, const char *text, size_t n, const char **out, size_t *n_out) {
    size_t length = 0;
    *out = lookup_key(c, text, n, true, &length);
    if (*out) {
        *n_out = strlen(*out);
        return length;
    }
    uint32_t code;
    int step = utf8_decode(text, n, &code);
    *out = text;
    *n_out = step ? (size_t)step : 1;
    return *n_out;
}

/* ---- grapheme clusters ---- */

typedef enum Break {
    BREAK_OTHER,
    BREAK_CONTROL,
    BREAK_CR,
    BREAK_LF,
    BREAK_JOINER,
    BREAK_EXTEND,
    BREAK_PREPEND,
    BREAK_REGIONAL,
    BREAK_L,
    BREAK_V,
    BREAK_T,
    BREAK_LV,
    BREAK_LVT
} Break;

static Break break_of(uint32_t c) {
    if (c < 0x300) {
        if (c == '\r') return BREAK_CR;
        if (c == '\n') return BREAK_LF;
        return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD ? BREAK_CONTROL : BREAK_OTHER;
    }
    if (c == 0x200D) return BREAK_JOINER;
    if (c >= 0x1F1E6 && c <= 0x1F1FF) return BREAK_REGIONAL;
    if ((c >= 0x1100 && c <= 0x115F) || (c >= 0xA960 && c <= 0xA97C)) return BREAK_L;
    if ((c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6)) return BREAK_V;
    if ((c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB)) return BREAK_T;
    if (c >= 0xAC00 && c < 0xAC00 + 11172) return (c - 0xAC00) % 28 == 0 ? BREAK_LV : BREAK_LVT;
    if (unicode_in(&unicode_grapheme_extend, c)) return BREAK_EXTEND;
    if (unicode_in(&unicode_grapheme_prepend, c)) return BREAK_PREPEND;
    return unicode_in(&unicode_grapheme_control, c) ? BREAK_CONTROL : BREAK_OTHER;
}

typedef struct Cluster {
    Break last;
    unsigned regional;                  /* indicators in a row */
    bool pictograph, pictograph_joined; /* an emoji, marks; then also a joiner */
    bool consonant, linked;             /* an Indic consonant, marks; among them one that links */
} Cluster;

static bool is_pictograph(uint32_t c) {
    return c >= 0xA9 && unicode_in(&unicode_property_extended_pictographic, c);
}

/* The rules of annex 29. */
static bool joins(const Cluster *k, Break b, uint32_t code) {
    Break a = k->last;
    if (a == BREAK_CR && b == BREAK_LF) return true;
    if (a == BREAK_CONTROL || a == BREAK_CR || a == BREAK_LF || b == BREAK_CONTROL || b == BREAK_CR || b == BREAK_LF)
        return false;
    if (b == BREAK_EXTEND || b == BREAK_JOINER || a == BREAK_PREPEND) return true;
    if (a == BREAK_L) return b == BREAK_L || b == BREAK_V || b == BREAK_LV || b == BREAK_LVT;
    if (a == BREAK_LV || a == BREAK_V) return b == BREAK_V || b == BREAK_T;
    if (a == BREAK_LVT || a == BREAK_T) return b == BREAK_T;
    if (b == BREAK_REGIONAL && a == BREAK_REGIONAL) return k->regional % 2 == 1;
    if (k->linked && unicode_in(&unicode_conjunct_consonant, code)) return true;
    return k->pictograph_joined && is_pictograph(code);
}

static void conjunct_add(Cluster *k, uint32_t code) {
    bool links = k->consonant && unicode_in(&unicode_conjunct_linker, code);
    bool marks = k->consonant && unicode_in(&unicode_conjunct_extend, code);
    k->linked = links || (marks && k->linked);
    k->consonant = links || marks || (code >= 0x900 && unicode_in(&unicode_conjunct_consonant, code));
}

static void cluster_add(Cluster *k, Break b, uint32_t code) {
    k->pictograph_joined = b == BREAK_JOINER && k->pictograph;
    if (b != BREAK_EXTEND) k->pictograph = is_pictograph(code);
    k->regional = b == BREAK_REGIONAL ? k->regional + 1 : 0;
    conjunct_add(k, code);
    k->last = b;
}

/* The bytes of the cluster at the start of text. n > 0. */
static size_t cluster_length(const char *text, size_t n) {
    Cluster k = {0};
    size_t i = 0;
    while (i < n) {
        uint32_t code = 0xFFFD;
        int length = utf8_decode(text + i, n - i, &code);
        Break b = break_of(code);
        if (i && !joins(&k, b, code)) break;
        cluster_add(&k, b, code);
        i += length ? (size_t)length : 1;
    }
    return i;
}

void charsmap_apply(const Charsmap *c, const char *text, size_t n, Buffer *out) {
    for (size_t i = 0; i < n;) {
        size_t length = cluster_length(text + i, n - i), end = i + length;
        const char *whole = length < 6 ? lookup(c, text + i, length) : NULL;
        if (whole) {
            buffer_text(out, whole);
            i = end;
        }
        while (i < end) {
            uint32_t code;
            int step = utf8_decode(text + i, end - i, &code);
            size_t size = step ? (size_t)step : 1;
            const char *part = lookup(c, text + i, size);
            if (part)
                buffer_text(out, part);
            else
                buffer_append(out, text + i, size);
            i += size;
        }
    }
}
