/* One routine, sequence_length, knows the forms of UTF-8 (Unicode table 3-7: the second byte's range depends on the
 * first, which is what excludes overlong forms, surrogates and values past 0x10FFFF). All else asks it, so decoding,
 * checking, lossy replacing and holding back cannot disagree. */
#include "base/utf8.h"
#include "base/buffer.h"

#include <string.h>

/* How many bytes the character at s should have (0: no character starts so), and in *have how many of them are there
 * and valid, 1..4; *have is 1 where none starts, so that a scanner can step over it. n > 0. */
static inline int sequence_length(const unsigned char *s, size_t n, int *have) {
    *have = 1;
    unsigned char lead = s[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    int need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (n >= 3 && need == 3 && s[1] >= low && s[1] <= high && (s[2] & 0xC0) == 0x80) { /* most of what is not ASCII */
        *have = 3;
        return 3;
    }
    for (; *have < need && (size_t)*have < n; ++*have) {
        unsigned char c = s[*have];
        if (c < low || c > high) break;
        low = 0x80;
        high = 0xBF;
    }
    return need;
}

int utf8_decode(const char *text, size_t n, uint32_t *code) {
    if (n == 0) return 0;
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    int have, need = sequence_length(s, n, &have);
    if (need == 0 || have < need) return 0;
    uint32_t value = s[0] & (0xFFu >> (need + 1));
    for (int i = 1; i < need; i++) value = value << 6 | (s[i] & 0x3F);
    *code = value;
    return need;
}

int utf8_encode(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        if (code >= 0xD800 && code < 0xE000) return 0;
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    if (code > 0x10FFFF) return 0;
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* The number of ASCII bytes at the start of s, by eights. */
static size_t ascii_run(const char *s, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, s + i, 8);
        if (word & 0x8080808080808080u) break;
    }
    while (i < n && (unsigned char)s[i] < 0x80) i++;
    return i;
}

size_t utf8_count(const char *s, size_t n) {
    const uint64_t ones = 0x0101010101010101u;
    size_t continuations = 0, i = 0;
    for (; i + 8 <= n; i += 8) { /* bytes of the form 10xxxxxx, by eights: the product's top byte is their sum */
        uint64_t word;
        memcpy(&word, s + i, 8);
        continuations += (word >> 7 & ~word >> 6 & ones) * ones >> 56;
    }
    for (; i < n; i++) continuations += ((unsigned char)s[i] & 0xC0) == 0x80;
    return n - continuations;
}

size_t utf8_valid(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        i += ascii_run(s + i, n - i);
        if (i == n) break;
        int have, need = sequence_length((const unsigned char *)s + i, n - i, &have);
        if (have != need) return i;
        i += (size_t)have;
    }
    return n;
}

size_t utf8_incomplete_tail(const char *s, size_t n) {
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k];
        if (c < 0x80) return 0;
        if (c < 0xC0) continue; /* a continuation: its lead is further left */
        int have, need = sequence_length((const unsigned char *)s + n - k, k, &have);
        return need > have && (size_t)have == k ? k : 0;
    }
    return 0;
}

void utf8_append_lossy(Buffer *b, const char *s, size_t n) {
    if (n == 0) return;     /* s may be NULL */
    size_t i = 0, kept = 0; /* s[kept..i) is valid and not yet appended */
    while (i < n) {
        i += ascii_run(s + i, n - i);
        if (i == n) break;
        int have, need = sequence_length((const unsigned char *)s + i, n - i, &have);
        if (have != need) {
            buffer_append(b, s + kept, i - kept);
            buffer_append(b, "\xEF\xBF\xBD", 3);
            kept = i + (size_t)have;
        }
        i += (size_t)have;
    }
    buffer_append(b, s + kept, n - kept);
}
