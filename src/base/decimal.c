/* Reading: up to 19 digits and a power of ten that a double holds exactly are one multiplication or division, which
 * IEEE rounds correctly (Clinger's fast path). Everything else goes through a big integer: digits times 2^s, then
 * multiplied or divided by 10^e in steps of a machine word. Nested floor divisions equal one, so only "was there a
 * remainder" has to be remembered, and the rounding is exact.
 *
 * Writing: glibc's printf is exact in digits; only its radix character is a matter of locale, and that is skipped. */
#include "base/decimal.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_DIGITS = 800,      /* a halfway point between doubles has at most 767 digits; the rest only breaks ties */
    N_LIMBS = 256,         /* 8192 bits: 800 digits (2658 bits) and 10^1200 (3987 bits) */
    MAX_EXPONENT10 = 1200, /* with 800 digits, everything past it is zero or infinity */
};

typedef struct Decimal {
    bool negative, inexact; /* inexact: non-zero digits were left out */
    char digits[MAX_DIGITS];
    int n_digits;
    long exponent; /* value = digits * 10^exponent */
} Decimal;

typedef struct Big {
    uint32_t limb[N_LIMBS]; /* least first */
    int n;
} Big;

static void big_multiply_add(Big *b, uint32_t factor, uint32_t add) {
    uint64_t carry = add;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && b->n < N_LIMBS) b->limb[b->n++] = (uint32_t)carry;
}

/* Divides; returns the remainder. */
static uint32_t big_divide(Big *b, uint32_t divisor) {
    uint64_t rest = 0;
    for (int i = b->n - 1; i >= 0; i--) {
        rest = rest << 32 | b->limb[i];
        b->limb[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    while (b->n && b->limb[b->n - 1] == 0) b->n--;
    return (uint32_t)rest;
}

static void big_shift_limbs(Big *b, int limbs) {
    memmove(b->limb + limbs, b->limb, (size_t)b->n * sizeof b->limb[0]);
    memset(b->limb, 0, (size_t)limbs * sizeof b->limb[0]);
    b->n += limbs;
}

/* b * 2^exponent (plus something smaller than one unit of b where `more`) rounded to double. b is not zero. */
static double big_round(const Big *b, int exponent, bool more) {
    int top = b->n - 1;
    uint64_t word = 0; /* the 64 bits from the highest set one down */
    int lead = __builtin_clz(b->limb[top]);
    for (int i = 0; i < 3; i++) {
        uint64_t limb = top - i >= 0 ? b->limb[top - i] : 0;
        int shift = 32 + lead - 32 * i;
        word |= shift >= 0 ? limb << shift : limb >> -shift;
        if (shift < 0 && (limb & ((1ull << -shift) - 1))) more = true;
    }
    for (int i = 0; i < top - 2; i++) more |= b->limb[i] != 0;
    int msb = 32 * b->n - 1 - lead + exponent; /* value is in [2^msb, 2^(msb+1)) */
    if (msb > 1023) return INFINITY;
    int precision = msb >= -1022 ? 53 : 53 - (-1022 - msb);
    if (precision < 0) return 0;
    int drop = 64 - precision;
    uint64_t kept = drop == 64 ? 0 : word >> drop;
    uint64_t half = 1ull << (drop - 1), rest = drop == 64 ? word : word & ((1ull << drop) - 1);
    if (rest > half || (rest == half && (more || (kept & 1)))) kept++;
    return ldexp((double)kept, msb - precision + 1);
}

static double decimal_exact(const Decimal *d) {
    if (d->n_digits == 0 || d->exponent + d->n_digits < -400) return 0;
    if (d->exponent + d->n_digits > 400) return INFINITY;
    Big big = {.n = 0};
    for (int i = 0; i < d->n_digits; i++) big_multiply_add(&big, 10, (uint32_t)(d->digits[i] - '0'));
    bool more = d->inexact;
    int exponent2 = 0;
    long e = d->exponent;
    if (e < 0) { /* room so that the quotient keeps at least 66 bits: 10^-e < 2^(-e * 107 / 32) */
        int limbs = (int)(-e * 107 / 32 + 31) / 32 + 3;
        big_shift_limbs(&big, limbs);
        exponent2 = -32 * limbs;
    }
    for (; e >= 9; e -= 9) big_multiply_add(&big, 1000000000, 0);
    for (; e > 0; e--) big_multiply_add(&big, 10, 0);
    for (; e <= -9; e += 9) more |= big_divide(&big, 1000000000) != 0;
    for (; e < 0; e++) more |= big_divide(&big, 10) != 0;
    return big_round(&big, exponent2, more);
}

static const char *skip_digits(const char *s, const char *end) {
    while (s < end && *s >= '0' && *s <= '9') s++;
    return s;
}

/* Takes digits in, without leading zeros; `scale` is -1 per digit behind the point. */
static void take_digits(Decimal *d, const char *s, const char *end, int scale) {
    for (; s < end; s++) {
        if (*s == '0' && d->n_digits == 0) {
            d->exponent += scale;
        } else if (d->n_digits < MAX_DIGITS) {
            d->digits[d->n_digits++] = *s;
            d->exponent += scale;
        } else {
            if (*s != '0') d->inexact = true;
            d->exponent += scale + 1;
        }
    }
}

static long read_exponent(const char *s, const char *end) {
    if (s == end) return 0;
    s++; /* the e */
    bool negative = *s == '-';
    if (*s == '-' || *s == '+') s++;
    long e = 0;
    for (; s < end; s++) e = e > 100000000 ? e : e * 10 + (*s - '0');
    return negative ? -e : e;
}

static bool fast_path(const Decimal *d, double *out) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->n_digits > 19 || d->exponent < -22 || d->exponent > 22) return false;
    uint64_t m = 0;
    for (int i = 0; i < d->n_digits; i++) m = m * 10 + (uint64_t)(d->digits[i] - '0');
    if (d->exponent == 0) {
        *out = (double)m;
        return true;
    }
    if (m > 1ull << 53) return false;
    *out = d->exponent < 0 ? (double)m / power[-d->exponent] : (double)m * power[d->exponent];
    return true;
}

double decimal_parse(const char *s, size_t n) {
    const char *end = s + n;
    Decimal d = {.negative = n && *s == '-'};
    if (d.negative) s++;
    const char *stop = skip_digits(s, end);
    take_digits(&d, s, stop, 0);
    if (stop < end && *stop == '.') {
        s = stop + 1;
        stop = skip_digits(s, end);
        take_digits(&d, s, stop, -1);
    }
    d.exponent += read_exponent(stop, end);
    double value;
    if (!fast_path(&d, &value)) value = decimal_exact(&d);
    return d.negative ? -value : value;
}

/* d > 0 in `precision` significant digits, rounded exactly; returns the exponent of the first. */
static int digits_of(double d, int precision, char *digits) {
    char text[64];
    snprintf(text, sizeof text, "%.*e", precision - 1, d);
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    digits[n] = 0;
    int sign = p[1] == '-' ? -1 : 1, e = 0;
    for (p += 2; *p; p++) e = e * 10 + (*p - '0');
    return sign * e;
}

static bool reads_back(const char *digits, int n, int exponent, double d) {
    char text[64];
    int length = snprintf(text, sizeof text, "%se%d", digits, exponent - (n - 1));
    return decimal_parse(text, (size_t)length) == d;
}

/* One more in the last place. Above a power of two doubles lie twice as far apart as below, so the shortest text
 * may be the upper neighbour although the lower is nearer: 2^-44 is 5.684341886080802e-14. */
static bool next_up(char *digits, int n) {
    int i = n - 1;
    while (i >= 0 && digits[i] == '9') digits[i--] = '0';
    if (i < 0) return false;
    digits[i]++;
    return true;
}

static int shortest_digits(double d, char *digits) {
    int split;
    bool power_of_two = frexp(d, &split) == 0.5;
    /* every decimal of 15 digits survives a normal double, so nothing shorter needs trying there */
    int precision = d < 2.2250738585072014e-308 ? 1 : 15, exponent = 0;
    for (; precision <= 17; precision++) {
        exponent = digits_of(d, precision, digits);
        if (precision == 17 || reads_back(digits, precision, exponent, d)) break;
        if (power_of_two && next_up(digits, precision) && reads_back(digits, precision, exponent, d)) break;
    }
    size_t n = strlen(digits);
    while (n > 1 && digits[n - 1] == '0') digits[--n] = 0;
    return exponent;
}

size_t decimal_write(double d, char out[DECIMAL_MAX]) {
    const char *sign = signbit(d) ? "-" : "";
    if (d == 0) return (size_t)snprintf(out, DECIMAL_MAX, "%s0.0", sign);
    char digits[32];
    int e = shortest_digits(fabs(d), digits), n = (int)strlen(digits);
    int length;
    if (e < -4 || e >= 16) {
        length = snprintf(out, DECIMAL_MAX, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                          e < 0 ? '-' : '+', e < 0 ? -e : e);
    } else if (e < 0) {
        length = snprintf(out, DECIMAL_MAX, "%s0.%.*s%s", sign, -e - 1, "000", digits);
    } else if (n > e + 1) {
        length = snprintf(out, DECIMAL_MAX, "%s%.*s.%s", sign, e + 1, digits, digits + e + 1);
    } else {
        length = snprintf(out, DECIMAL_MAX, "%s%s%.*s.0", sign, digits, e + 1 - n, "0000000000000000");
    }
    return (size_t)length;
}
