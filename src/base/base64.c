/* Three bytes to four letters. */
#include "base/base64.h"

#include <stdint.h>

void base64_append(Buffer *out, const void *bytes, size_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    if (!buffer_reserve(out, (n / 3 + 1) * 4)) return;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t word = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
        char four[4] = {letters[word >> 18], letters[word >> 12 & 63], left > 1 ? letters[word >> 6 & 63] : '=',
                        left > 2 ? letters[word & 63] : '='};
        buffer_append(out, four, sizeof four);
    }
}
