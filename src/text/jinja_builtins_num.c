/* Filters over numbers. Rounding is CPython's: correct on the decimal value, ties to even. */
#include "base/decimal.h"
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool filter_abs(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    int64_t i;
    if (v.type == V_BIG) return value_negate_big(run, v, v.string->data[0] == '-', out);
    if (v.type == V_FLOAT)
        *out = value_float(fabs(v.number));
    else if (!value_as_int(v, &i))
        return run_fail(run, "bad operand type for abs(): '%s'", value_type_name(v));
    else if (i == INT64_MIN)
        return run_fail(run, "integers beyond 64 bits cannot be computed with");
    else
        *out = value_int(i < 0 ? -i : i);
    return true;
}

/* ---- text to numbers, as int() and float() read it ---- */

enum { MAX_DIGITS = 4096 };

/* The text without blanks around it, digits of other scripts as ASCII; underscores only between digits. False: no
 * number can look like that. */
static bool plain_digits(const String *s, char *out, size_t size, bool (*is_digit)(char)) {
    size_t n = 0;
    const char *p = s->data, *end = s->data + s->length;
    uint32_t code;
    int len;
    while (p < end && (len = utf8_decode(p, (size_t)(end - p), &code)) > 0 && (jinja_char_class(code) & CHAR_SPACE))
        p += len;
    while (p < end) {
        len = utf8_decode(p, (size_t)(end - p), &code);
        if (len <= 0 || n + 1 >= size) return false;
        if (code >= 128 && !(jinja_char_class(code) & CHAR_SPACE)) return false;
        out[n++] = code < 128 ? (char)code : ' ';
        p += len;
    }
    while (n && (jinja_char_class((unsigned char)out[n - 1]) & CHAR_SPACE)) n--;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (out[i] != '_')
            out[kept++] = out[i];
        else if (i == 0 || i + 1 >= n || !is_digit(out[i - 1]) || !is_digit(out[i + 1]))
            return false;
    }
    out[kept] = 0;
    return kept > 0;
}

static bool is_decimal(char c) {
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c) {
    return is_decimal(c) || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static int digit_value(char c) {
    if (is_decimal(c)) return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* A decimal integer that does not fit: kept as its digits. */
static bool big_decimal(Run *run, const char *digits, bool negative, Value *out) {
    char text[MAX_DIGITS + 2];
    while (digits[0] == '0' && digits[1]) digits++;
    int n = snprintf(text, sizeof text, "%s%s", negative ? "-" : "", digits);
    if (!value_text(run, text, (size_t)n, out)) return false;
    out->type = V_BIG;
    return true;
}

/* int(text, base): 1 with a value, 0 when it is no such number, -1 failed. */
static int parse_int(Run *run, const String *s, int64_t base, Value *out) {
    char text[MAX_DIGITS];
    if (!plain_digits(s, text, sizeof text, is_alnum)) return 0;
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    char mark = p[0] == '0' ? (char)(p[1] | 32) : 0;
    int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked && (base == 0 || base == marked)) {
        p += 2;
        base = marked;
    } else if (base == 0) {
        base = 10;
        if (p[0] == '0' && strspn(p, "0") < strlen(p)) return 0;
    }
    if (!*p) return 0;
    int64_t value = 0;
    bool over = false;
    for (const char *d = p; *d; d++) {
        int digit = digit_value(*d);
        if (digit >= base) return 0;
        over = over || __builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value);
    }
    if (over && base == 10) return big_decimal(run, p, negative, out) ? 1 : -1;
    if (over) return run_error(run, "integers beyond 64 bits are not supported"), -1;
    *out = value_int(negative ? -value : value);
    return 1;
}

/* float(text): false when it is no such number. */
static bool parse_float(const String *s, double *out) {
    char text[MAX_DIGITS];
    if (!plain_digits(s, text, sizeof text, is_decimal)) return false;
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    char lower[12] = {0};
    for (size_t i = 0; i + 1 < sizeof lower && p[i]; i++) lower[i] = is_decimal(p[i]) ? p[i] : (char)(p[i] | 32);
    if (strlen(p) < sizeof lower &&
        (strcmp(lower, "inf") == 0 || strcmp(lower, "infinity") == 0 || strcmp(lower, "nan") == 0)) {
        *out = lower[0] == 'n' ? NAN : negative ? -INFINITY : INFINITY;
        return true;
    }
    char number[MAX_DIGITS + 8];
    size_t n = 0, whole = strspn(p, "0123456789"), fraction = 0;
    const char *rest = p + whole;
    if (*rest == '.') fraction = strspn(++rest, "0123456789");
    if (whole + fraction == 0) return false;
    n = (size_t)snprintf(number, sizeof number, "%s%.*s%.*s", negative ? "-" : "", whole ? (int)whole : 1,
                         whole ? p : "0", fraction ? (int)fraction + 1 : 0, rest - 1);
    rest += fraction;
    if ((*rest | 32) == 'e') {
        size_t sign = rest[1] == '-' || rest[1] == '+', digits = strspn(rest + 1 + sign, "0123456789");
        if (!digits || n + 1 + sign + digits >= sizeof number) return false;
        memcpy(number + n, rest, 1 + sign + digits + 1);
        n += 1 + sign + digits;
        rest += 1 + sign + digits;
    }
    if (*rest) return false;
    *out = decimal_parse(number, n);
    return true;
}

/* int(d); 0: not a finite number. */
static int float_to_int(Run *run, double d, Value *out) {
    char text[400];
    if (!isfinite(d)) return 0;
    if (fabs(d) < 9.2e18) {
        *out = value_int((int64_t)d);
        return 1;
    }
    snprintf(text, sizeof text, "%.0f", fabs(trunc(d)));
    return big_decimal(run, text, d < 0, out) ? 1 : -1;
}

static bool filter_int(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t base = 10, i;
    double d;
    int got = 0;
    if (argv[1].type != V_MISSING && !arg_int(run, argv[1], "base", &base)) return false;
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type == V_STRING && (base == 0 || (base >= 2 && base <= 36))) got = parse_int(run, v.string, base, out);
    if (got == 0 && v.type == V_STRING && parse_float(v.string, &d)) got = float_to_int(run, d, out);
    if (v.type == V_FLOAT) {
        if (isinf(v.number)) return run_fail(run, "cannot convert float infinity to integer");
        got = float_to_int(run, v.number, out);
    }
    if (v.type == V_BIG)
        *out = v;
    else if (value_as_int(v, &i))
        *out = value_int(i);
    else if (got == 0)
        *out = argv[0].type == V_MISSING ? value_int(0) : argv[0];
    return got >= 0;
}

static bool filter_float(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    double d = 0;
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (value_is_number(v))
        *out = value_float(value_as_double(v));
    else if (v.type == V_BIG)
        *out = value_float(decimal_parse(v.string->data, v.string->length));
    else if (v.type == V_STRING && parse_float(v.string, &d))
        *out = value_float(d);
    else
        *out = argv[0].type == V_MISSING ? value_float(0) : argv[0];
    return true;
}

/* ---- round ---- */

static double round_float(double d, int64_t digits) {
    if (!isfinite(d) || digits > 323) return d;
    if (digits < -308) return copysign(0.0, d);
    if (digits >= 0) {
        char text[800];
        snprintf(text, sizeof text, "%.*f", (int)digits, d);
        for (char *p = text; *p; p++)
            if (!strchr("0123456789-", *p)) *p = '.'; /* a locale's decimal mark */
        return decimal_parse(text, strlen(text));
    }
    double unit = pow(10, (double)-digits), low = floor(fabs(d) / unit), rest = fabs(d) - low * unit;
    if (rest > unit / 2 || (rest == unit / 2 && fmod(low, 2) == 1)) low += 1;
    return copysign(low * unit, d);
}

static bool round_int(Run *run, int64_t i, int64_t digits, Value *out) {
    *out = value_int(i);
    if (digits >= 0) return true;
    int64_t unit = 1;
    for (int64_t k = 0; k > digits; k--)
        if (__builtin_mul_overflow(unit, 10, &unit)) {
            *out = value_int(0);
            return true;
        }
    uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i, low = size / (uint64_t)unit, rest = size % (uint64_t)unit;
    if (rest > (uint64_t)unit - rest || (rest == (uint64_t)unit - rest && low % 2)) low++;
    int64_t result;
    if (__builtin_mul_overflow((int64_t)low, unit, &result))
        return run_fail(run, "integers beyond 64 bits are not supported");
    *out = value_int(i < 0 ? -result : result);
    return true;
}

/* ceil or floor of v * 10**precision, over 10**precision */
static bool round_toward(Run *run, Value v, int64_t precision, bool up, Value *out) {
    Value unit, scaled, whole;
    if (!jinja_binary(run, T_POW, value_int(10), value_int(precision), &unit) ||
        !jinja_binary(run, T_MUL, v, unit, &scaled))
        return false;
    if (scaled.type == V_FLOAT) {
        if (!isfinite(scaled.number)) return run_fail(run, "cannot convert float infinity or NaN to integer");
        double d = up ? ceil(scaled.number) : floor(scaled.number);
        whole = fabs(d) < 9.2e18 ? value_int((int64_t)d) : value_float(d);
    } else
        whole = scaled;
    return jinja_binary(run, T_DIV, whole, unit, out);
}

static bool filter_round(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t precision = 0, i;
    bool up = value_is_text(argv[1], "ceil"), down = value_is_text(argv[1], "floor");
    if (argv[1].type != V_MISSING && !up && !down && !value_is_text(argv[1], "common"))
        return run_fail(run, "method must be common, ceil or floor");
    if (argv[0].type != V_MISSING && !arg_int(run, argv[0], "precision", &precision)) return false;
    if (v.type == V_BIG) {
        *out = v;
        return (!up && !down && precision >= 0) || run_fail(run, "integers beyond 64 bits cannot be computed with");
    }
    if (!value_is_number(v)) {
        if (v.type == V_UNDEFINED && (up || down)) return value_fail_undefined(run, v);
        return run_fail(run, "type %s doesn't define __round__ method", value_type_name(v));
    }
    if (up || down) return round_toward(run, v, precision, up, out);
    if (value_as_int(v, &i)) return round_int(run, i, precision, out);
    *out = value_float(round_float(v.number, precision));
    return true;
}

/* ---- file sizes ---- */

static bool filter_filesizeformat(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    static const char *const DECIMAL[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const BINARY[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool binary = argv[0].type != V_MISSING && value_truth(argv[0]);
    double bytes, base = binary ? 1024 : 1000;
    char text[400];
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type == V_STRING) {
        if (!parse_float(v.string, &bytes)) return run_fail(run, "could not convert string to float");
    } else if (v.type == V_BIG)
        bytes = decimal_parse(v.string->data, v.string->length);
    else if (!value_is_number(v))
        return run_fail(run, "float() argument must be a string or a real number, not '%s'", value_type_name(v));
    else
        bytes = value_as_double(v);
    if (bytes == 1)
        snprintf(text, sizeof text, "1 Byte");
    else if (bytes < base) {
        if (!isfinite(bytes)) return run_fail(run, "cannot convert float infinity to integer");
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
        if (strncmp(text, "-0 ", 3) == 0) memmove(text, text + 1, strlen(text));
    } else {
        int at = 0;
        double unit = base * base;
        while (at < 7 && !(bytes < unit)) {
            unit *= base;
            at++;
        }
        if (isnan(bytes)) return run_fail(run, "cannot format NaN as a size");
        snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, (binary ? BINARY : DECIMAL)[at]);
        for (char *p = text; *p && *p != ' '; p++)
            if (!strchr("0123456789-infa", *p)) *p = '.';
    }
    return value_text(run, text, strlen(text), out);
}

static const FilterDef FILTERS[] = {
    {{"abs", "", 0}, filter_abs},
    {{"filesizeformat", "binary", 0}, filter_filesizeformat},
    {{"float", "default", 0}, filter_float},
    {{"int", "default,base", 0}, filter_int},
    {{"round", "precision,method", 0}, filter_round},
};

FilterTable jinja_number_filters(void) {
    return (FilterTable){FILTERS, COUNT(FILTERS)};
}
