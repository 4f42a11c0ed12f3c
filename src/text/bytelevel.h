/* The alphabet of byte-level vocabularies: every byte as a printable character (a space is U+0120, a newline U+010A).
 */
#ifndef LOCKSTEP_TEXT_BYTELEVEL_H
#define LOCKSTEP_TEXT_BYTELEVEL_H

#include "base/buffer.h"

#include <stdint.h>

uint32_t byte_to_code(unsigned char byte);
int code_to_byte(uint32_t code); /* -1 when outside the alphabet */
/* Appends each byte of text as its character. */
void bytelevel_append(Buffer *out, const char *text, size_t n);

#endif
