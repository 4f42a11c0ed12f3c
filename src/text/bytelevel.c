/* The printable Latin-1 bytes stand for themselves; the 68 others follow from U+0100 on, in order. */
#include "text/bytelevel.h"
#include "base/utf8.h"

static bool is_printable(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

/* Of the others: 00..20 are numbers 0..32, 7F..A0 are 33..66, AD is 67. */
uint32_t byte_to_code(unsigned char byte) {
    if (is_printable(byte)) return byte;
    return 0x100 + (byte <= 0x20 ? byte : byte < 0xAD ? byte - 0x7Fu + 33 : 67u);
}

int code_to_byte(uint32_t code) {
    if (code < 0x100) return is_printable(code) ? (int)code : -1;
    if (code < 0x121) return (int)(code - 0x100);
    if (code < 0x143) return (int)(code - 0x121 + 0x7F);
    return code == 0x143 ? 0xAD : -1;
}

void bytelevel_append(Buffer *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!buffer_reserve(out, 4)) return;
        out->length += (size_t)utf8_encode(byte_to_code((unsigned char)text[i]), out->data + out->length);
    }
    if (n) out->data[out->length] = 0;
}
