/* UTF-8: checked decoding, encoding, and where a text may be cut. Surrogates and overlong forms are invalid. */
#ifndef LOCKSTEP_BASE_UTF8_H
#define LOCKSTEP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point from s[0..n). Returns its length 1..4, or 0 when n is 0 or the bytes are not a valid form. */
int utf8_decode(const char *s, size_t n, uint32_t *code);
/* Writes 1..4 bytes; returns how many, 0 for a surrogate or a value past 0x10FFFF. */
int utf8_encode(uint32_t code, char out[4]);
/* The number of characters in valid text. */
size_t utf8_count(const char *s, size_t n);
/* Offset of the first invalid byte, n when all is valid. */
size_t utf8_valid(const char *s, size_t n);
/* Length of an incomplete but so far valid character at the end of s (0..3): what a stream must hold back. */
size_t utf8_incomplete_tail(const char *s, size_t n);
/* Appends s to b with each maximal invalid part replaced by U+FFFD, as Python's bytes.decode("utf-8", "replace"). */
struct Buffer;
void utf8_append_lossy(struct Buffer *b, const char *s, size_t n);

#endif
