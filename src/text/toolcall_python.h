/* Python's notation of values, as JSON. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_PYTHON_H
#define LOCKSTEP_TEXT_TOOLCALL_PYTHON_H

#include "base/buffer.h"

/* Appends the literal that text[0..n) is (string, number, True, False, None, list, tuple, dict with string keys, and
 * JSON's words for them) as JSON. False with nothing appended when it is none. */
bool python_value(const char *text, size_t n, Buffer *out);

#endif
