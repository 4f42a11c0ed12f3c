/* Python's two formatting languages: "..." % args, and str.format with its format specifications. Numbers are printed
 * through one function that applies sign, fill, width and grouping to digits made elsewhere. */
#include "base/decimal.h"
#include "base/utf8.h"
#include "text/jinja_builtins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 400 };

/* A format specification: [[fill]align][sign][z][#][0][width][grouping][.precision][type] */
typedef struct Spec {
    char fill[5];
    char align; /* '<' '>' '^' '=', 0: by type */
    char sign;  /* '+', ' ', '-' */
    char group; /* ',' '_' 0 */
    char type;
    bool alternate, zero;
    int64_t width, precision; /* precision -1: not given */
} Spec;

/* ---- padding and digits ---- */

static void repeat_fill(Buffer *out, const char *fill, int64_t n) {
    for (; n > 0; n--) buffer_text(out, fill);
}

/* prefix (sign, 0x) and body padded to the width; '=' pads between the two. */
static void put_padded(Buffer *out, const Spec *spec, char align, const char *prefix, const char *body, size_t n) {
    int64_t room = spec->width - (int64_t)(strlen(prefix) + utf8_count(body, n));
    int64_t left = room <= 0 ? 0 : align == '>' ? room : align == '^' ? room / 2 : 0;
    const char *fill = spec->fill[0] ? spec->fill : " ";
    repeat_fill(out, fill, left);
    buffer_text(out, prefix);
    if (align == '=') repeat_fill(out, fill, room);
    buffer_append(out, body, n);
    if (align == '<' || align == '^') repeat_fill(out, fill, room - left);
}

/* Puts separators into the digits before `tail` (the fraction or exponent), filling with zeros up to width. */
static void group_digits(Buffer *out, const char *digits, size_t n, const char *tail, const Spec *spec, int step,
                         int64_t width) {
    Buffer reversed = {0};
    int64_t rest = (int64_t)strlen(tail);
    size_t count = 0;
    for (size_t i = n; i > 0 || (int64_t)reversed.length + rest < width; count++) {
        if (count && count % (size_t)step == 0) {
            if (i == 0 && (int64_t)reversed.length + rest + 1 >= width) {
                /* a separator may not lead: one more zero follows it, which makes the text one longer */
                buffer_byte(&reversed, spec->group);
                buffer_byte(&reversed, '0');
                break;
            }
            buffer_byte(&reversed, spec->group);
        }
        buffer_byte(&reversed, i > 0 ? digits[--i] : '0');
    }
    for (size_t i = reversed.length; i-- > 0;) buffer_byte(out, reversed.data[i]);
    buffer_text(out, tail);
    buffer_clear(&reversed);
}

static void put_number(Buffer *out, const Spec *spec, bool negative, const char *base, const char *digits, int step) {
    char prefix[8];
    snprintf(prefix, sizeof prefix, "%s%s",
             negative            ? "-"
             : spec->sign == '+' ? "+"
             : spec->sign == ' ' ? " "
                                 : "",
             base);
    bool zeros = spec->align ? spec->align == '=' && spec->fill[0] == '0' : spec->zero;
    Spec padded = *spec;
    if (!spec->align && spec->zero) memcpy(padded.fill, "0", 2);
    char align = spec->align ? spec->align : spec->zero ? '=' : '>';
    if (!spec->group) {
        put_padded(out, &padded, align, prefix, digits, strlen(digits));
        return;
    }
    Buffer grouped = {0};
    size_t whole = strspn(digits, step == 4 ? "0123456789abcdefABCDEF" : "0123456789");
    int64_t width = zeros ? spec->width - (int64_t)strlen(prefix) : 0;
    char lead[64];
    Buffer long_lead = {0};
    if (whole >= sizeof lead)
        buffer_append(&long_lead, digits, whole);
    else
        memcpy(lead, digits, whole);
    group_digits(&grouped, whole >= sizeof lead ? buffer_string(&long_lead) : lead, whole, digits + whole, spec, step,
                 width);
    put_padded(out, &padded, align, prefix, buffer_string(&grouped), grouped.length);
    buffer_clear(&grouped);
    buffer_clear(&long_lead);
}

/* The digits of |d| in one of the styles of printf; a locale's decimal mark is undone. */
static void float_digits(Buffer *out, double d, char type, int precision, bool alternate) {
    if (isnan(d) || isinf(d)) {
        bool upper = type == 'E' || type == 'F' || type == 'G';
        buffer_text(out, isnan(d) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
        return;
    }
    size_t from = out->length;
    switch (type) { /* written out, so that the compiler checks the arguments */
    case 'e': buffer_printf(out, alternate ? "%#.*e" : "%.*e", precision, fabs(d)); break;
    case 'E': buffer_printf(out, alternate ? "%#.*E" : "%.*E", precision, fabs(d)); break;
    case 'g': buffer_printf(out, alternate ? "%#.*g" : "%.*g", precision, fabs(d)); break;
    case 'G': buffer_printf(out, alternate ? "%#.*G" : "%.*G", precision, fabs(d)); break;
    default: buffer_printf(out, alternate ? "%#.*f" : "%.*f", precision, fabs(d)); break;
    }
    for (size_t i = from; i < out->length; i++)
        if (!strchr("0123456789+-eE.", out->data[i])) out->data[i] = '.';
}

/* No type: repr's digits, or %g with at least one digit after the point. */
static void float_plain(Buffer *out, double d, int64_t precision) {
    char text[DECIMAL_MAX];
    if (isnan(d) || isinf(d)) {
        float_digits(out, d, 'g', 6, false);
        return;
    }
    if (precision < 0) {
        decimal_write(fabs(d), text);
        buffer_text(out, text);
        return;
    }
    size_t from = out->length;
    int digits = precision ? (int)precision : 1;
    float_digits(out, d, 'g', digits, false);
    /* CPython switches to the exponent one digit earlier here, and keeps ".0" */
    size_t whole = out->data[from] == '0' ? 0 : strspn(out->data + from, "0123456789");
    bool exponent = memchr(out->data + from, 'e', out->length - from) != NULL;
    if (!exponent && whole > (size_t)digits - 1) {
        out->length = from;
        float_digits(out, d, 'e', digits - 1, false);
        char *e = memchr(out->data + from, 'e', out->length - from);
        char *end = e;
        if (e && memchr(out->data + from, '.', (size_t)(e - out->data) - from)) {
            while (end[-1] == '0') end--;
            if (end[-1] == '.') end--;
            memmove(end, e, strlen(e) + 1);
            out->length = strlen(out->data);
        }
    } else if (!memchr(out->data + from, '.', out->length - from) && !memchr(out->data + from, 'e', out->length - from))
        buffer_text(out, ".0");
}

static bool format_float(Run *run, Buffer *out, const Spec *spec, double d) {
    Buffer digits = {0};
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    char type = spec->type;
    if (type == 0)
        float_plain(&digits, d, spec->precision);
    else if (type == '%') {
        float_digits(&digits, d * 100, 'f', precision, spec->alternate);
        buffer_byte(&digits, '%');
    } else if (strchr("eEfFgG", type))
        float_digits(&digits, d, type, type == 'g' || type == 'G' ? (precision ? precision : 1) : precision,
                     spec->alternate);
    else if (type == 'n')
        float_digits(&digits, d, 'g', precision ? precision : 1, spec->alternate);
    else
        return run_fail(run, "Unknown format code '%c' for object of type 'float'", type);
    put_number(out, spec, signbit(d) && !isnan(d), "", buffer_string(&digits), 3);
    buffer_clear(&digits);
    return true;
}

static void int_digits(char out[72], uint64_t value, unsigned base, bool upper) {
    char reversed[72];
    size_t n = 0;
    do reversed[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[value % base];
    while (value /= base);
    for (size_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
    out[n] = 0;
}

static bool format_char(Run *run, Buffer *out, const Spec *spec, int64_t code) {
    char bytes[4];
    int n = code >= 0 && code <= 0x10FFFF ? utf8_encode((uint32_t)code, bytes) : 0;
    if (n == 0) return run_fail(run, "%%c arg not in range(0x110000)");
    put_padded(out, spec, spec->align ? spec->align : '<', "", bytes, (size_t)n);
    return true;
}

static bool format_int(Run *run, Buffer *out, const Spec *spec, int64_t i) {
    char digits[72];
    char type = spec->type ? spec->type : 'd';
    if (strchr("eEfFgG%", type)) return format_float(run, out, spec, (double)i);
    if (spec->precision >= 0) return run_fail(run, "Precision not allowed in integer format specifier");
    if (type == 'c') return format_char(run, out, spec, i);
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    if (base == 10 && type != 'd' && type != 'n')
        return run_fail(run, "Unknown format code '%c' for object of type 'int'", type);
    const char *prefix = !spec->alternate || base == 10 ? ""
                         : base == 2                    ? "0b"
                         : base == 8                    ? "0o"
                         : type == 'x'                  ? "0x"
                                                        : "0X";
    int_digits(digits, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, base, type == 'X');
    put_number(out, spec, i < 0, prefix, digits, base == 10 ? 3 : 4);
    return true;
}

static bool format_text(Run *run, Buffer *out, const Spec *spec, const String *s) {
    if (spec->type && spec->type != 's')
        return run_fail(run, "Unknown format code '%c' for object of type 'str'", spec->type);
    if (spec->sign) return run_fail(run, "Sign not allowed in string format specifier");
    if (spec->align == '=') return run_fail(run, "'=' alignment not allowed in string format specifier");
    if (spec->group) return run_fail(run, "Cannot specify '%c' with 's'.", spec->group);
    size_t n = s->length;
    if (spec->precision >= 0 && (uint64_t)spec->precision < s->chars) {
        int64_t chars = 0;
        for (n = 0; n < s->length; n++)
            if (((unsigned char)s->data[n] & 0xC0) != 0x80 && chars++ == spec->precision) break;
    }
    Spec padded = *spec;
    if (spec->zero && !spec->fill[0]) memcpy(padded.fill, "0", 2);
    put_padded(out, &padded, spec->align ? spec->align : '<', "", s->data, n);
    return true;
}

/* ---- reading a specification ---- */

static bool read_number(Run *run, const char **p, const char *end, int64_t limit, int64_t *out) {
    int64_t n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
        n = n * 10 + (**p - '0');
        if (n > limit) return run_fail(run, "a width or precision in a format is too large");
    }
    *out = n;
    return true;
}

static bool parse_spec(Run *run, const char *p, size_t n, Spec *spec) {
    const char *end = p + n;
    *spec = (Spec){.precision = -1};
    uint32_t code;
    int first = utf8_decode(p, n, &code);
    if (first > 0 && p + first < end && strchr("<>=^", p[first]) && p[first]) {
        memcpy(spec->fill, p, (size_t)first);
        spec->align = p[first];
        p += first + 1;
    } else if (p < end && *p && strchr("<>=^", *p))
        spec->align = *p++;
    if (p < end && (*p == '+' || *p == '-' || *p == ' ')) spec->sign = *p++;
    if (p < end && *p == '#') spec->alternate = *p++;
    if (p < end && *p == '0') {
        spec->zero = true;
        p++;
        if (spec->align && !spec->fill[0]) memcpy(spec->fill, "0", 2);
    }
    if (!read_number(run, &p, end, MAX_WIDTH, &spec->width)) return false;
    if (p < end && (*p == ',' || *p == '_')) spec->group = *p++;
    if (p < end && *p == '.') {
        const char *digits = ++p;
        if (!read_number(run, &p, end, MAX_PRECISION, &spec->precision)) return false;
        if (p == digits) return run_fail(run, "Format specifier missing precision");
    }
    if (p < end) spec->type = *p++;
    return p == end || run_fail(run, "Invalid format specifier");
}

/* format(v, spec) */
static bool format_value(Run *run, Buffer *out, Value v, const char *text, size_t n) {
    Spec spec;
    int64_t i;
    if (n == 0 || !(value_is_number(v) || v.type == V_STRING)) {
        if (n) return run_fail(run, "unsupported format string passed to %s.__format__", value_type_name(v));
        return value_print(run, out, v);
    }
    if (!parse_spec(run, text, n, &spec)) return false;
    if (v.type == V_STRING) return format_text(run, out, &spec, v.string);
    if (value_as_int(v, &i)) return format_int(run, out, &spec, i);
    return format_float(run, out, &spec, v.number);
}

/* ---- str.format ---- */

typedef struct Formatter {
    Run *run;
    const Args *args;
    int64_t automatic; /* next automatic number; -1 after a manual one */
    bool safe;
} Formatter;

static bool format_pieces(Formatter *f, Buffer *out, const char *s, size_t n, int depth);

static bool all_digits(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return n > 0 && n < 10;
}

/* The argument that a field starts with. */
static bool first_value(Formatter *f, const char *name, size_t n, Value *out) {
    if (all_digits(name, n)) {
        int64_t at = 0;
        for (size_t i = 0; i < n; i++) at = at * 10 + (name[i] - '0');
        if ((uint64_t)at >= f->args->n)
            return run_fail(f->run, "Replacement index %lld out of range for positional args tuple", (long long)at);
        *out = f->args->positional[at];
        return true;
    }
    for (size_t i = 0; i < f->args->n_keywords; i++)
        if (f->args->names[i]->length == n && memcmp(f->args->names[i]->data, name, n) == 0) {
            *out = f->args->keywords[i];
            return true;
        }
    return run_fail(f->run, "KeyError: '%.*s' in str.format", (int)(n < 60 ? n : 60), name);
}

/* name, then .attribute and [item] parts. */
static bool field_value(Formatter *f, const char *s, size_t n, Value *out) {
    size_t at = 0;
    while (at < n && s[at] != '.' && s[at] != '[') at++;
    char number[24];
    if (n == 0) {
        if (f->automatic < 0)
            return run_fail(f->run, "cannot switch from manual field specification to automatic field numbering");
        snprintf(number, sizeof number, "%lld", (long long)f->automatic++);
        return first_value(f, number, strlen(number), out);
    }
    if (at == n && all_digits(s, n)) {
        if (f->automatic > 0)
            return run_fail(f->run, "cannot switch from manual field specification to automatic field numbering");
        f->automatic = -1;
    }
    if (!first_value(f, s, at, out)) return false;
    while (at < n) {
        bool item = s[at] == '[';
        size_t from = ++at;
        while (at < n && (item ? s[at] != ']' : s[at] != '.' && s[at] != '[')) at++;
        if (at == from) return run_fail(f->run, "Empty attribute in format string");
        Value key;
        if (!value_text(f->run, s + from, at - from, &key)) return false;
        if (item && all_digits(s + from, at - from)) key = value_int(strtoll(key.string->data, NULL, 10));
        if (!(item ? jinja_getitem(f->run, *out, key, out) : jinja_getattr(f->run, *out, key.string, out)))
            return false;
        if (item && at++ >= n) return run_fail(f->run, "Missing ']' in format string");
        if (item && at < n && s[at] != '.' && s[at] != '[')
            return run_fail(f->run, "Only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

static bool put_field(Formatter *f, Buffer *out, Value v, char conversion, const char *spec, size_t n) {
    Buffer text = {0};
    bool ok = true;
    if (conversion == 'r' || conversion == 'a') {
        ok = value_repr(f->run, &text, v, 0) && value_from_buffer(f->run, &text, false, &v);
    } else if (conversion == 's')
        ok = value_str(f->run, v, &v);
    else if (conversion)
        ok = run_fail(f->run, "Unknown conversion specifier '%c'", conversion);
    if (ok && f->safe) {
        ok = format_value(f->run, &text, v, spec, n);
        bool was_safe = v.type == V_STRING && v.string->safe;
        ok = ok && value_from_buffer(f->run, &text, was_safe, &v) && value_escape(f->run, v, &v) &&
             value_print(f->run, out, v);
    } else if (ok)
        ok = format_value(f->run, out, v, spec, n);
    buffer_clear(&text);
    return ok;
}

/* One replacement field, s after its "{"; *taken counts up to and with its "}". */
static bool format_field(Formatter *f, Buffer *out, const char *s, size_t n, int depth, size_t *taken) {
    size_t end = 0, name = 0;
    int nesting = 1;
    bool in_item = false;
    for (; end < n; end++) {
        if (s[end] == '{') nesting++;
        if (s[end] == '}' && --nesting == 0) break;
    }
    if (end == n) return run_fail(f->run, "expected '}' before end of string");
    for (; name < end && (in_item || (s[name] != '!' && s[name] != ':')); name++) {
        if (s[name] == '[') in_item = true;
        if (s[name] == ']') in_item = false;
        if (s[name] == '{') return run_fail(f->run, "unexpected '{' in field name");
    }
    *taken = end + 1;
    char conversion = 0;
    size_t at = name;
    if (at < end && s[at] == '!') {
        if (at + 1 >= end) return run_fail(f->run, "end of string while looking for conversion specifier");
        conversion = s[at + 1];
        at += 2;
        if (at < end && s[at] != ':') return run_fail(f->run, "expected ':' after conversion specifier");
    }
    if (at < end) at++;
    Value v;
    Buffer spec = {0};
    bool ok = field_value(f, s, name, &v) && format_pieces(f, &spec, s + at, end - at, depth - 1) &&
              put_field(f, out, v, conversion, buffer_string(&spec), spec.length);
    buffer_clear(&spec);
    return ok;
}

static bool format_pieces(Formatter *f, Buffer *out, const char *s, size_t n, int depth) {
    if (depth < 0) return run_fail(f->run, "Max string recursion exceeded");
    for (size_t i = 0; i < n;) {
        if (s[i] != '{' && s[i] != '}') {
            buffer_byte(out, s[i++]);
            continue;
        }
        if (i + 1 < n && s[i + 1] == s[i]) {
            buffer_byte(out, s[i]);
            i += 2;
            continue;
        }
        if (s[i] == '}') return run_fail(f->run, "Single '}' encountered in format string");
        if (i + 1 == n) return run_fail(f->run, "Single '{' encountered in format string");
        size_t taken = 0;
        if (!format_field(f, out, s + i + 1, n - i - 1, depth, &taken)) return false;
        i += 1 + taken;
    }
    return true;
}

bool jinja_format_method(Run *run, const String *format, const Args *args, Value *out) {
    Formatter f = {run, args, 0, format->safe};
    Buffer text = {0};
    if (format_pieces(&f, &text, format->data, format->length, 2))
        return value_from_buffer(run, &text, format->safe, out);
    buffer_clear(&text);
    return false;
}

/* ---- "%" ---- */

typedef struct Percent {
    Run *run;
    Value args;
    size_t next; /* of a tuple; 0 or 1 for a single value */
    bool mapping, safe;
} Percent;

static bool next_argument(Percent *p, Value *out) {
    if (p->args.type == V_TUPLE) {
        if (p->next < p->args.list->n) {
            *out = p->args.list->items[p->next++];
            return true;
        }
    } else if (p->next++ == 0) {
        *out = p->args;
        return true;
    }
    return run_fail(p->run, "not enough arguments for format string");
}

/* A width or precision: digits, or * for an argument. */
static bool percent_number(Percent *p, const char **s, const char *end, int64_t *out) {
    if (*s >= end || **s != '*') return read_number(p->run, s, end, MAX_WIDTH, out);
    Value v;
    (*s)++;
    if (!next_argument(p, &v) || !arg_int(p->run, v, "* wants int", out)) return false;
    return (*out <= MAX_WIDTH && *out >= -MAX_WIDTH) ||
           run_fail(p->run, "a width or precision in a format is too large");
}

static bool percent_int(Percent *p, Buffer *out, Spec *spec, Value v, char type) {
    int64_t i;
    bool hex = type == 'o' || type == 'x' || type == 'X';
    if (v.type == V_UNDEFINED) return value_fail_undefined(p->run, v);
    if (v.type == V_FLOAT && !hex) {
        if (!(fabs(v.number) < 9.2e18)) return run_fail(p->run, "cannot convert this float to an integer");
        i = (int64_t)v.number;
    } else if (!value_as_int(v, &i))
        return run_fail(p->run, "%%%c format: %s is required, not %s", type, hex ? "an integer" : "a real number",
                        value_type_name(v));
    char digits[72], body[MAX_PRECISION + 80];
    int_digits(digits, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, type == 'o' ? 8 : hex ? 16 : 10, type == 'X');
    int64_t zeros = spec->precision > MAX_PRECISION ? MAX_PRECISION : spec->precision - (int64_t)strlen(digits);
    if (zeros < 0) zeros = 0;
    memset(body, '0', (size_t)zeros);
    memcpy(body + zeros, digits, strlen(digits) + 1);
    const char *prefix = !spec->alternate || !hex ? "" : type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
    put_number(out, spec, i < 0, prefix, body, 3);
    return true;
}

static bool percent_float(Percent *p, Buffer *out, Spec *spec, Value v, char type) {
    if (v.type == V_UNDEFINED) return value_fail_undefined(p->run, v);
    if (!value_is_number(v)) return run_fail(p->run, "must be real number, not %s", value_type_name(v));
    if (spec->precision > MAX_PRECISION) return run_fail(p->run, "precision is too large");
    spec->type = type;
    return format_float(p->run, out, spec, value_as_double(v));
}

static bool percent_text(Percent *p, Buffer *out, Spec *spec, Value v, char type) {
    Buffer text = {0};
    if (type == 's') {
        if (p->safe ? !value_escape(p->run, v, &v) : !value_str(p->run, v, &v)) return false;
    } else {
        bool ok = value_repr(p->run, &text, v, 0) && value_from_buffer(p->run, &text, false, &v);
        buffer_clear(&text);
        if (!ok || (p->safe && !value_escape(p->run, v, &v))) return false;
    }
    Spec plain = {.width = spec->width, .precision = spec->precision, .align = spec->align == '<' ? '<' : '>'};
    return format_text(p->run, out, &plain, v.string);
}

static bool percent_char(Percent *p, Buffer *out, Spec *spec, Value v) {
    int64_t code;
    Spec plain = {.width = spec->width, .precision = -1, .align = spec->align == '<' ? '<' : '>'};
    if (v.type == V_STRING && v.string->chars == 1) return format_text(p->run, out, &plain, v.string);
    if (!value_as_int(v, &code)) return run_fail(p->run, "%%c requires int or char");
    return format_char(p->run, out, &plain, code);
}

static bool percent_key(Percent *p, const char **s, const char *end) {
    int nesting = 1;
    const char *from = ++*s;
    if (!p->mapping) return run_fail(p->run, "format requires a mapping");
    for (; *s < end; (*s)++) {
        if (**s == '(') nesting++;
        if (**s == ')' && --nesting == 0) break;
    }
    if (*s >= end) return run_fail(p->run, "incomplete format key");
    Value key, v;
    bool found = false;
    if (!value_text(p->run, from, (size_t)(*s - from), &key)) return false;
    (*s)++;
    if (p->args.type == V_UNDEFINED) return value_fail_undefined(p->run, p->args);
    if (p->args.type != V_DICT) return run_fail(p->run, "list indices must be integers or slices, not str");
    if (!value_dict_get(p->run, p->args.dict, key, &v, &found)) return false;
    if (!found) return run_fail(p->run, "KeyError: '%s'", key.string->data);
    *p = (Percent){p->run, v, 0, true, p->safe};
    if (v.type == V_TUPLE) { /* one argument that happens to be a tuple */
        List *one = value_list_new(p->run, 1);
        if (!one) return false;
        one->items[one->n++] = v;
        p->args = value_tuple(one);
    }
    return true;
}

static void percent_flags(const char **s, const char *end, Spec *spec) {
    for (; *s < end && **s && strchr("-+ #0", **s); (*s)++) {
        if (**s == '-')
            spec->align = '<';
        else if (**s == '+')
            spec->sign = '+';
        else if (**s == ' ')
            spec->sign = spec->sign ? spec->sign : ' ';
        else if (**s == '#')
            spec->alternate = true;
        else
            spec->zero = true;
    }
    if (spec->align) spec->zero = false;
}

/* One conversion, *s after its "%". */
static bool percent_one(Percent *p, Buffer *out, const char **s, const char *end) {
    Spec spec = {.precision = -1};
    Percent keyed = *p, *source = p;
    if (*s < end && **s == '(') {
        if (!percent_key(&keyed, s, end)) return false;
        source = &keyed;
    }
    percent_flags(s, end, &spec);
    if (!percent_number(source, s, end, &spec.width)) return false;
    if (spec.width < 0) {
        spec.align = '<';
        spec.zero = false;
        spec.width = -spec.width;
    }
    if (*s < end && **s == '.') {
        (*s)++;
        if (!percent_number(source, s, end, &spec.precision)) return false;
        if (spec.precision < 0) spec.precision = 0;
    }
    while (*s < end && (**s == 'h' || **s == 'l' || **s == 'L')) (*s)++;
    if (*s >= end) return run_fail(p->run, "incomplete format");
    char type = *(*s)++;
    Value v;
    if (type == '%') {
        buffer_byte(out, '%');
        return true;
    }
    if (!strchr("sradiuoxXeEfFgGc", type) || !type) return run_fail(p->run, "unsupported format character '%c'", type);
    if (!next_argument(source, &v)) return false;
    if (strchr("sra", type)) return percent_text(p, out, &spec, v, type);
    if (strchr("diuoxX", type)) return percent_int(p, out, &spec, v, type == 'i' || type == 'u' ? 'd' : type);
    return type == 'c' ? percent_char(p, out, &spec, v) : percent_float(p, out, &spec, v, type);
}

static bool percent_all(Percent *p, Buffer *out, const String *format) {
    const char *s = format->data, *end = s + format->length;
    while (s < end) {
        if (*s != '%') {
            buffer_byte(out, *s++);
            continue;
        }
        s++;
        if (!percent_one(p, out, &s, end)) return false;
        if (out->length > p->run->heap.limit) return run_memory(p->run);
    }
    size_t n = p->args.type == V_TUPLE ? p->args.list->n : 1;
    if (p->next >= n || p->mapping) return true;
    return run_fail(p->run, "not all arguments converted during string formatting");
}

bool jinja_percent(Run *run, const String *format, Value args, Value *out) {
    bool mapping = args.type == V_DICT || args.type == V_LIST || args.type == V_UNDEFINED || args.type == V_RANGE;
    Percent p = {run, args, 0, mapping, format->safe};
    Buffer text = {0};
    if (percent_all(&p, &text, format)) return value_from_buffer(run, &text, format->safe, out);
    buffer_clear(&text);
    return false;
}
