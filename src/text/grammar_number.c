/* Numbers between bounds, digit by digit: as long as the digits so far are those of a bound, the next one is limited by
 * it, and free once they differ. Written without an exponent, with at most 18 digits before the point and 18 after it,
 * so that an answer can not go on for ever. */
#include "text/grammar_build.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 18, FRACTION_TEXT = 64 };

/* A bound without its sign. */
typedef struct Bound {
    int64_t whole;
    char fraction[FRACTION_TEXT]; /* digits, without zeros at the end */
    bool open;
} Bound;

static const int64_t MOST = 999999999999999999;

static uint32_t digits(Grammar *g, char low, char high) {
    uint32_t range[1][2] = {{(uint32_t)low, (uint32_t)high}};
    return grammar_codes(g, (const uint32_t(*)[2])range, low <= high);
}

static uint32_t any_digits(Grammar *g, int least, int most) {
    return grammar_repeat(g, digits(g, '0', '9'), least, most);
}

static uint32_t pair(Grammar *g, uint32_t a, uint32_t b) {
    uint32_t both[2] = {a, b};
    return grammar_sequence(g, both, 2);
}

static void add_alternative(Grammar *g, uint32_t rule, uint32_t way) {
    grammar_alternative(g, rule);
    grammar_put_rule(g, way);
    grammar_end(g);
}

/* ---- whole numbers ---- */

/* n digits from low to high, both of that length. */
static uint32_t same_length(Grammar *g, const char *low, const char *high, int n) {
    if (n == 0) return grammar_empty(g);
    if (strspn(low, "0") >= (size_t)n && strspn(high, "9") >= (size_t)n) return any_digits(g, n, n);
    if (*low == *high) return pair(g, digits(g, *low, *low), same_length(g, low + 1, high + 1, n - 1));
    static const char nines[] = "99999999999999999999", zeros[] = "00000000000000000000"; /* longer than any number */
    uint32_t rule = grammar_rule(g);
    add_alternative(g, rule, pair(g, digits(g, *low, *low), same_length(g, low + 1, nines, n - 1)));
    if (*low + 1 < *high)
        add_alternative(g, rule, pair(g, digits(g, (char)(*low + 1), (char)(*high - 1)), any_digits(g, n - 1, n - 1)));
    add_alternative(g, rule, pair(g, digits(g, *high, *high), same_length(g, zeros, high + 1, n - 1)));
    return rule;
}

/* Whole numbers from low to high, 0 <= low. Without alternatives when there are none. */
static uint32_t whole_between(Grammar *g, int64_t low, int64_t high) {
    uint32_t rule = grammar_rule(g);
    int64_t first = 0, last = 9;
    for (int n = 1; n <= DIGITS; n++) {
        int64_t from = low > first ? low : first, to = high < last ? high : last;
        if (from <= to) {
            char a[DIGITS + 8], b[DIGITS + 8];
            Buffer text = {0};
            buffer_printf(&text, "%0*lld %0*lld", n, (long long)from, n, (long long)to);
            if (text.failed) g->failed = true;
            memcpy(a, buffer_string(&text), text.failed ? 0 : (size_t)n);
            memcpy(b, buffer_string(&text) + (text.failed ? 0 : n + 1), text.failed ? 0 : (size_t)n);
            a[text.failed ? 0 : n] = b[text.failed ? 0 : n] = '\0';
            if (!text.failed) add_alternative(g, rule, same_length(g, a, b, n));
            buffer_clear(&text);
        }
        first = last + 1;
        if (n < DIGITS) last = last * 10 + 9; /* past that nothing is written */
    }
    return rule;
}

/* ---- fractions ---- */

/* The digits after the point; low and high limit them while all before were theirs (NULL: not any more). */
typedef struct Fraction {
    const Bound *low, *high;
} Fraction;

static char digit_at(const char *text, int i) {
    return i < (int)strlen(text) ? text[i] : '0';
}

static bool may_end(Fraction f, int i) {
    if (f.low && (i < (int)strlen(f.low->fraction) || f.low->open)) return false;
    return !f.high || i < (int)strlen(f.high->fraction) || !f.high->open;
}

static uint32_t fraction_rest(Grammar *g, Fraction f, int i);

/* One more digit at least. */
static uint32_t fraction_digit(Grammar *g, Fraction f, int i) {
    uint32_t rule = grammar_rule(g);
    char low = f.low ? digit_at(f.low->fraction, i) : '0' - 1, high = f.high ? digit_at(f.high->fraction, i) : '9' + 1;
    if (low + 1 < high)
        add_alternative(g, rule,
                        pair(g, digits(g, (char)(low + 1), (char)(high - 1)), any_digits(g, 0, DIGITS - 1 - i)));
    if (f.low && (!f.high || low < high))
        add_alternative(g, rule, pair(g, digits(g, low, low), fraction_rest(g, (Fraction){f.low, NULL}, i + 1)));
    if (f.high && (!f.low || low < high))
        add_alternative(g, rule, pair(g, digits(g, high, high), fraction_rest(g, (Fraction){NULL, f.high}, i + 1)));
    if (f.low && f.high && low == high)
        add_alternative(g, rule, pair(g, digits(g, low, low), fraction_rest(g, f, i + 1)));
    return rule;
}

static uint32_t fraction_rest(Grammar *g, Fraction f, int i) {
    uint32_t rule = grammar_rule(g);
    if (may_end(f, i)) add_alternative(g, rule, grammar_empty(g));
    if (i < DIGITS) add_alternative(g, rule, fraction_digit(g, f, i));
    return rule;
}

/* Whole numbers of a rule, each with a fraction within its limits. */
static uint32_t with_fraction(Grammar *g, uint32_t whole, Fraction f) {
    uint32_t tail = grammar_rule(g);
    if (may_end(f, 0)) add_alternative(g, tail, grammar_empty(g));
    add_alternative(g, tail, pair(g, grammar_text(g, ".", 1), fraction_digit(g, f, 0)));
    return pair(g, whole, tail);
}

/* ---- both ---- */

static bool is_below(const Bound *a, const Bound *b) {
    if (a->whole != b->whole) return a->whole < b->whole;
    int order = strcmp(a->fraction, b->fraction);
    return order < 0 || (order == 0 && !a->open && !b->open);
}

/* 0 <= low, high. */
static void put_between(Grammar *g, uint32_t rule, const Bound *low, const Bound *high, bool whole) {
    if (whole) {
        int64_t from = low->whole + (low->fraction[0] || low->open),
                to = high->whole - (!high->fraction[0] && high->open);
        if (from <= to) add_alternative(g, rule, whole_between(g, from, to));
        return;
    }
    if (!is_below(low, high)) return;
    int64_t a = low->whole, b = high->whole;
    if (a == b) {
        add_alternative(g, rule, with_fraction(g, whole_between(g, a, a), (Fraction){low, high}));
        return;
    }
    add_alternative(g, rule, with_fraction(g, whole_between(g, a, a), (Fraction){low, NULL}));
    if (b - a > 1) add_alternative(g, rule, with_fraction(g, whole_between(g, a + 1, b - 1), (Fraction){NULL, NULL}));
    add_alternative(g, rule, with_fraction(g, whole_between(g, b, b), (Fraction){NULL, high}));
}

/* "-1.50e1" becomes -15: digits with the point moved. False when it has too many. */
static bool read_bound(const char *text, bool open, Bound *out, bool *negative) {
    char all[FRACTION_TEXT] = "";
    int n = 0, point = -1;
    *negative = *text == '-';
    const char *at = text + *negative;
    for (; (*at >= '0' && *at <= '9') || *at == '.'; at++) {
        if (*at == '.')
            point = n;
        else if (n + 1 < FRACTION_TEXT)
            all[n++] = *at;
        else
            return false;
    }
    long exponent = *at == 'e' || *at == 'E' ? strtol(at + 1, NULL, 10) : 0;
    if (exponent > DIGITS || exponent < -DIGITS) return false;
    point = (point < 0 ? n : point) + (int)exponent;
    *out = (Bound){.open = open};
    for (int i = 0; i < point; i++) {
        int digit = i < n ? all[i] - '0' : 0;
        if (out->whole > (MOST - digit) / 10) return false;
        out->whole = out->whole * 10 + digit;
    }
    int length = 0;
    for (int i = point; i < n; i++) {
        if (length + 1 >= FRACTION_TEXT || length > DIGITS) return false;
        out->fraction[length++] = i < 0 ? '0' : all[i];
    }
    while (length > 0 && out->fraction[length - 1] == '0') out->fraction[--length] = '\0';
    return true;
}

bool grammar_put_number(Grammar *g, const NumberBounds *bounds, bool whole, uint32_t *rule, Error *err) {
    const Bound zero = {0}, none = {.whole = MOST};
    Bound low = none, high = none, above_zero = {.open = true};
    bool low_negative = bounds->low == NULL, high_negative = false;
    if (bounds->low && !read_bound(bounds->low, bounds->low_open, &low, &low_negative))
        return error_set(err, "the bound %s has too many digits", bounds->low);
    if (bounds->high && !read_bound(bounds->high, bounds->high_open, &high, &high_negative))
        return error_set(err, "the bound %s has too many digits", bounds->high);
    *rule = grammar_rule(g);
    uint32_t below = grammar_rule(g);
    if (!high_negative) put_between(g, *rule, low_negative ? &zero : &low, &high, whole);
    if (low_negative) put_between(g, below, high_negative ? &high : &above_zero, &low, whole);
    if (!g->failed && g->rules[below].n > 0) add_alternative(g, *rule, pair(g, grammar_text(g, "-", 1), below));
    return g->failed || g->rules[*rule].n > 0 || error_set(err, "no number lies between the bounds");
}
