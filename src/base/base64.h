/* Bytes as text, as RFC 4648 has it. */
#ifndef LOCKSTEP_BASE_BASE64_H
#define LOCKSTEP_BASE_BASE64_H

#include "base/buffer.h"

void base64_append(Buffer *out, const void *bytes, size_t n); /* with padding, without line breaks */

#endif
