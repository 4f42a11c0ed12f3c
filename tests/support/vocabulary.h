/* A tokenizer for tests that choose tokens themselves: id n is byte n, and the pieces follow from 256 on. */
#ifndef LOCKSTEP_TESTS_SUPPORT_VOCABULARY_H
#define LOCKSTEP_TESTS_SUPPORT_VOCABULARY_H

#include "text/tokenizer.h"

/* Ends the test when it can not. */
Tokenizer *vocabulary_make(const char *const *pieces, int n);

#endif
