/* The 64-bit variant, as its authors published it (Fowler, Noll, Vo). */
#include "base/hash.h"

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    for (const uint8_t *p = bytes; n--; p++) hash = (hash ^ *p) * 0x100000001B3u;
    return hash;
}
