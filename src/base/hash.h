/* FNV-1a: a fast hash of bytes, for telling things apart; it withstands nobody who wants two to be equal. */
#ifndef LOCKSTEP_BASE_HASH_H
#define LOCKSTEP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xCBF29CE484222325u

/* The hash goes on over n more bytes; the first call gets HASH_START. */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);

#endif
