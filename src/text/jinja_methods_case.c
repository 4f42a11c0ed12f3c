/* Methods of strings about letters: case and classes of characters, by the Unicode tables of CPython. */
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, CASED = CHAR_LOWER | CHAR_UPPER | CHAR_TITLE };

static uint32_t char_at(const String *s, size_t at, size_t *bytes) {
    uint32_t code = 0;
    int n = utf8_decode(s->data + at, s->length - at, &code);
    *bytes = n > 0 ? (size_t)n : 1;
    return code;
}

/* A capital sigma ends a word: a cased letter before it, none after, case-ignorable characters skipped. */
static bool is_final_sigma(const String *s, size_t at) {
    size_t i = at, n;
    unsigned class = CHAR_IGNORABLE;
    while (i > 0 && (class & CHAR_IGNORABLE)) {
        i--;
        while (i > 0 && ((unsigned char)s->data[i] & 0xC0) == 0x80) i--;
        class = jinja_char_class(char_at(s, i, &n));
    }
    if ((class & CHAR_IGNORABLE) || !(class & CASED)) return false;
    for (i = at + 2; i < s->length; i += n) {
        class = jinja_char_class(char_at(s, i, &n));
        if (!(class & CHAR_IGNORABLE)) return !(class & CASED);
    }
    return true;
}

static void append_mapped(Buffer *b, const String *s, size_t at, uint32_t code, CaseMap map) {
    uint32_t to[3];
    char bytes[4];
    int n = jinja_char_case(code, map, to);
    if (map == CASE_LOWER && code == SIGMA && is_final_sigma(s, at)) to[0] = FINAL_SIGMA;
    for (int i = 0; i < n; i++) buffer_append(b, bytes, (size_t)utf8_encode(to[i], bytes));
}

bool jinja_case(Run *run, const String *s, int map, Value *out) {
    Buffer b = {0};
    size_t n;
    for (size_t i = 0; i < s->length; i += n) append_mapped(&b, s, i, char_at(s, i, &n), (CaseMap)map);
    return value_from_buffer(run, &b, s->safe, out);
}

static bool str_upper(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return jinja_case(run, self.string, CASE_UPPER, out);
}
static bool str_lower(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return jinja_case(run, self.string, CASE_LOWER, out);
}
static bool str_casefold(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return jinja_case(run, self.string, CASE_FOLD, out);
}

static bool str_capitalize(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer b = {0};
    const String *s = self.string;
    size_t n;
    for (size_t i = 0; i < s->length; i += n) append_mapped(&b, s, i, char_at(s, i, &n), i ? CASE_LOWER : CASE_TITLE);
    return value_from_buffer(run, &b, s->safe, out);
}

static bool str_title(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer b = {0};
    const String *s = self.string;
    bool in_word = false;
    size_t n;
    for (size_t i = 0; i < s->length; i += n) {
        uint32_t code = char_at(s, i, &n);
        append_mapped(&b, s, i, code, in_word ? CASE_LOWER : CASE_TITLE);
        in_word = jinja_char_class(code) & CASED;
    }
    return value_from_buffer(run, &b, s->safe, out);
}

static bool str_swapcase(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Buffer b = {0};
    const String *s = self.string;
    size_t n;
    for (size_t i = 0; i < s->length; i += n) {
        uint32_t code = char_at(s, i, &n);
        unsigned class = jinja_char_class(code);
        if (class & (CHAR_UPPER | CHAR_LOWER))
            append_mapped(&b, s, i, code, class & CHAR_UPPER ? CASE_LOWER : CASE_UPPER);
        else
            buffer_append(&b, s->data + i, n);
    }
    return value_from_buffer(run, &b, s->safe, out);
}

/* ---- classes ---- */

/* Whether all characters have one of the bits; `empty` for the empty string. */
static bool all_of(const String *s, unsigned bits, bool empty) {
    size_t n;
    for (size_t i = 0; i < s->length; i += n)
        if (!(jinja_char_class(char_at(s, i, &n)) & bits)) return false;
    return s->length ? true : empty;
}

static bool one_case(const String *s, unsigned wanted, unsigned refused) {
    bool found = false;
    size_t n;
    for (size_t i = 0; i < s->length; i += n) {
        unsigned class = jinja_char_class(char_at(s, i, &n));
        if (class & refused) return false;
        if (class & wanted) found = true;
    }
    return found;
}

static bool is_title(const String *s) {
    bool cased = false, in_word = false;
    size_t n;
    for (size_t i = 0; i < s->length; i += n) {
        unsigned class = jinja_char_class(char_at(s, i, &n));
        if (class & (CHAR_UPPER | CHAR_TITLE)) {
            if (in_word) return false;
            in_word = cased = true;
        } else if (class & CHAR_LOWER) {
            if (!in_word) return false;
            cased = true;
        } else
            in_word = false;
    }
    return cased;
}

static bool is_identifier(const String *s) {
    size_t n;
    for (size_t i = 0; i < s->length; i += n) {
        uint32_t code = char_at(s, i, &n);
        if (code != '_' && !(jinja_char_class(code) & (i ? CHAR_ID_CONTINUE : CHAR_ID_START))) return false;
    }
    return s->length > 0;
}

#define CLASS_METHOD(name, condition)                                                               \
    static bool str_##name(Run *run, Value self, const Value *argv, const Args *args, Value *out) { \
        (void)run, (void)argv, (void)args;                                                          \
        const String *s = self.string;                                                              \
        *out = value_bool(condition);                                                               \
        return true;                                                                                \
    }

CLASS_METHOD(isalnum, all_of(s, CHAR_ALNUM, false))
CLASS_METHOD(isalpha, all_of(s, CHAR_ALPHA, false))
CLASS_METHOD(isascii, s->length == s->chars)
CLASS_METHOD(isdecimal, all_of(s, CHAR_DECIMAL, false))
CLASS_METHOD(isdigit, all_of(s, CHAR_DIGIT, false))
CLASS_METHOD(isnumeric, all_of(s, CHAR_NUMERIC, false))
CLASS_METHOD(isprintable, all_of(s, CHAR_PRINTABLE, true))
CLASS_METHOD(isspace, all_of(s, CHAR_SPACE, false))
CLASS_METHOD(islower, one_case(s, CHAR_LOWER, CHAR_UPPER | CHAR_TITLE))
CLASS_METHOD(isupper, one_case(s, CHAR_UPPER, CHAR_LOWER | CHAR_TITLE))
CLASS_METHOD(istitle, is_title(s))
CLASS_METHOD(isidentifier, is_identifier(s))

static const Function METHODS[] = {
    {{"upper", "", 0}, str_upper},
    {{"lower", "", 0}, str_lower},
    {{"casefold", "", 0}, str_casefold},
    {{"capitalize", "", 0}, str_capitalize},
    {{"title", "", 0}, str_title},
    {{"swapcase", "", 0}, str_swapcase},
    {{"isalnum", "", 0}, str_isalnum},
    {{"isalpha", "", 0}, str_isalpha},
    {{"isascii", "", 0}, str_isascii},
    {{"isdecimal", "", 0}, str_isdecimal},
    {{"isdigit", "", 0}, str_isdigit},
    {{"isnumeric", "", 0}, str_isnumeric},
    {{"isprintable", "", 0}, str_isprintable},
    {{"isspace", "", 0}, str_isspace},
    {{"islower", "", 0}, str_islower},
    {{"isupper", "", 0}, str_isupper},
    {{"istitle", "", 0}, str_istitle},
    {{"isidentifier", "", 0}, str_isidentifier},
};

FunctionTable jinja_case_methods(void) {
    return (FunctionTable){METHODS, COUNT(METHODS)};
}
