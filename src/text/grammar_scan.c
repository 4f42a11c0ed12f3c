/* Small readers, so that the two notations can not come to differ in what they share. */
#include "text/grammar_scan.h"
#include "base/hex.h"
#include "text/grammar_build.h"

#include <string.h>

bool scan_is_one(const char *of, char c) {
    return c && strchr(of, c);
}

const char *scan_hex(const char **at, const char *end, int n, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < n; i++, ++*at) {
        int digit = *at < end ? hex_digit(**at) : -1;
        if (digit < 0) return "a hexadecimal digit is missing";
        *code = *code * 16 + (uint32_t)digit;
    }
    return *code <= 0x10FFFF ? NULL : "there is no such code point";
}

/* No digits leave *count as it is. */
static const char *scan_count(const char **at, const char *end, int *count) {
    int n = 0;
    const char *start = *at;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        n = n * 10 + (**at - '0');
        if (n > GRAMMAR_MOST_REPEATS) return "it repeats too often";
    }
    if (*at > start) *count = n;
    return NULL;
}

/* After the opening brace. */
static const char *scan_braces(const char **at, const char *end, int *least, int *most) {
    const char *wrong = scan_count(at, end, least);
    *most = *least;
    if (!wrong && *at < end && **at == ',') {
        ++*at;
        *most = -1;
        wrong = scan_count(at, end, most);
    }
    if (wrong) return wrong;
    if (*at == end || **at != '}') return "a repetition is not closed by }";
    ++*at;
    return *most < 0 || *most >= *least ? NULL : "a repetition ends before it begins";
}

const char *scan_repeats(const char **at, const char *end, int *least, int *most) {
    char c = *(*at)++;
    *least = c == '+';
    *most = c == '?' ? 1 : -1;
    return c == '{' ? scan_braces(at, end, least, most) : NULL;
}
