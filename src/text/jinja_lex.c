/* The lexer. jinja2's is a set of regular expressions tried in order; this is the same set by hand, because the exact
 * order decides what whitespace control keeps. States: outside of tags ("root"), and inside {{ }}, {% %}; comments and
 * raw blocks are consumed whole. The rule most easily broken: lstrip_blocks strips only when a line starts here, and a
 * line starts where the previous match (whatever it was) ended in a newline. */
#define _GNU_SOURCE
#include "text/jinja_lex.h"
#include "base/decimal.h"
#include "base/utf8.h"
#include "text/jinja_unicode.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 200, MAX_SOURCE = 16 << 20 };

typedef struct Lexer {
    Run *run;
    const char *s;
    size_t n, pos;
    int line;
    bool line_starting;
    Token *tokens;
    size_t n_tokens, capacity;
    char brackets[MAX_BRACKETS];
    int n_brackets;
} Lexer;

static bool lex_fail(Lexer *lx, const char *what) {
    lx->run->located = true;
    return run_fail(lx->run, "line %d: %s", lx->line, what);
}

static void count_lines(Lexer *lx, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) lx->line += lx->s[i] == '\n';
}

static bool emit(Lexer *lx, TokenType type, size_t start, size_t end, Value value) {
    if (lx->n_tokens == lx->capacity) {
        size_t capacity = lx->capacity ? lx->capacity * 2 : 256;
        Token *tokens = run_take(lx->run, capacity, sizeof *tokens);
        if (!tokens) return false;
        if (lx->n_tokens) memcpy(tokens, lx->tokens, lx->n_tokens * sizeof *tokens);
        lx->tokens = tokens;
        lx->capacity = capacity;
    }
    lx->tokens[lx->n_tokens++] = (Token){type, lx->line, (uint32_t)start, (uint32_t)end, value};
    return true;
}

/* Length of the whitespace character at s[0..n) by Python's \s; 0 when it is none. */
static size_t space_at(const char *s, size_t n) {
    uint32_t code;
    int len = utf8_decode(s, n, &code);
    return len > 0 && (jinja_char_class(code) & CHAR_SPACE) ? (size_t)len : 0;
}

static size_t skip_space(const Lexer *lx, size_t at) {
    for (size_t len; at < lx->n && (len = space_at(lx->s + at, lx->n - at)); at += len) continue;
    return at;
}

/* The end of s[from..to) without its trailing whitespace. */
static size_t strip_right(const Lexer *lx, size_t from, size_t to) {
    while (to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)lx->s[at] & 0xC0) == 0x80) at--;
        if (!space_at(lx->s + at, to - at)) return to;
        to = at;
    }
    return to;
}

static bool all_space(const Lexer *lx, size_t from, size_t to) {
    return from < to && strip_right(lx, from, to) == from;
}

/* Emits the text before a tag, whitespace control applied: sign is '-', '+' or 0. */
static bool emit_text(Lexer *lx, size_t end, char sign, bool is_variable) {
    size_t start = lx->pos, stop = end;
    if (sign == '-')
        stop = strip_right(lx, start, end);
    else if (sign != '+' && !is_variable) {
        const char *newline = end > start ? memrchr(lx->s + start, '\n', end - start) : NULL;
        size_t line = newline ? (size_t)(newline - lx->s) + 1 : start;
        if ((newline || lx->line_starting) && all_space(lx, line, end)) stop = line;
    }
    if (stop > start) {
        Value v;
        if (!value_text_ref(lx->run, lx->s + start, stop - start, &v) || !emit(lx, T_DATA, start, stop, v))
            return false;
    }
    count_lines(lx, start, end);
    return true;
}

/* Moves past a matched tag end, keeping the line count and whether a line starts. */
static void advance(Lexer *lx, size_t to) {
    count_lines(lx, lx->pos, to);
    lx->line_starting = to > 0 && lx->s[to - 1] == '\n';
    lx->pos = to;
}

static bool starts(const Lexer *lx, size_t at, const char *text) {
    size_t n = strlen(text);
    return lx->n - at >= n && memcmp(lx->s + at, text, n) == 0;
}

/* The end of a tag that closes with `close` ("%}" or "#}") at `at`: "+%}", "-%}" and following space, or "%}" and one
 * newline. 0 when none is there. */
static size_t close_at(const Lexer *lx, size_t at, const char *close) {
    if (at >= lx->n) return 0;
    if (lx->s[at] == '+' && starts(lx, at + 1, close)) return at + 3;
    if (lx->s[at] == '-' && starts(lx, at + 1, close)) return skip_space(lx, at + 3);
    if (!starts(lx, at, close)) return 0;
    return at + 2 < lx->n && lx->s[at + 2] == '\n' ? at + 3 : at + 2;
}

static bool lex_comment(Lexer *lx) {
    for (size_t at = lx->pos; at < lx->n; at++) {
        size_t end = close_at(lx, at, "#}");
        if (!end) continue;
        advance(lx, end);
        return true;
    }
    return lx->pos >= lx->n ? true : lex_fail(lx, "Missing end of comment tag");
}

/* After "{%" and its sign at `at`: the end of "raw %}", or 0. */
static size_t raw_begin(const Lexer *lx, size_t at) {
    at = skip_space(lx, at);
    if (!starts(lx, at, "raw")) return 0;
    at = skip_space(lx, at + 3);
    if (starts(lx, at, "-%}")) return skip_space(lx, at + 3);
    return starts(lx, at, "%}") ? at + 2 : 0;
}

static bool is_sign(const Lexer *lx, size_t at) {
    return at < lx->n && (lx->s[at] == '-' || lx->s[at] == '+');
}

static bool lex_raw(Lexer *lx) {
    for (size_t at = lx->pos; at + 1 < lx->n; at++) {
        if (!starts(lx, at, "{%")) continue;
        char sign = is_sign(lx, at + 2) ? lx->s[at + 2] : 0;
        size_t inner = skip_space(lx, at + 2 + (sign != 0));
        if (!starts(lx, inner, "endraw")) continue;
        size_t end = close_at(lx, skip_space(lx, inner + 6), "%}");
        if (!end) continue;
        if (!emit_text(lx, at, sign, false)) return false;
        lx->pos = at;
        advance(lx, end);
        return true;
    }
    return lx->pos >= lx->n ? true : lex_fail(lx, "Missing end of raw directive");
}

/* ---- inside of tags ---- */

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

/* (\d+_)*\d+ from `at`; its end, or `at`. */
static size_t digits(const Lexer *lx, size_t at) {
    while (at < lx->n && digit(lx->s[at])) {
        at++;
        if (at + 1 < lx->n && lx->s[at] == '_' && digit(lx->s[at + 1])) at++;
    }
    return at;
}

static size_t float_end(const Lexer *lx, size_t at) {
    if (at > 0 && lx->s[at - 1] == '.') return 0;
    size_t end = digits(lx, at);
    if (end == at) return 0;
    bool fraction = end + 1 < lx->n && lx->s[end] == '.' && digit(lx->s[end + 1]);
    if (fraction) end = digits(lx, end + 1);
    if (end < lx->n && (lx->s[end] | 32) == 'e') {
        size_t exponent = end + 1;
        if (is_sign(lx, exponent)) exponent++;
        size_t stop = digits(lx, exponent);
        if (stop > exponent) return stop;
    }
    return fraction ? end : 0;
}

static int digit_value(char c) {
    if (digit(c)) return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* (_?[digits of base])+ from `at`. */
static size_t based_end(const Lexer *lx, size_t at, int base) {
    for (;;) {
        size_t next = at + (at < lx->n && lx->s[at] == '_');
        if (next >= lx->n || digit_value(lx->s[next]) >= base) return at;
        at = next + 1;
    }
}

static size_t integer_end(const Lexer *lx, size_t at, int *base) {
    *base = 10;
    if (lx->s[at] == '0' && at + 1 < lx->n) {
        char c = lx->s[at + 1] | 32;
        int b = c == 'b' ? 2 : c == 'o' ? 8 : c == 'x' ? 16 : 0;
        size_t end = b ? based_end(lx, at + 2, b) : 0;
        if (b && end > at + 2) {
            *base = b;
            return end;
        }
    }
    return lx->s[at] == '0' ? based_end(lx, at, 1) : based_end(lx, at, 10);
}

static bool lex_number(Lexer *lx) {
    char text[512];
    int base = 0;
    size_t end = float_end(lx, lx->pos), n = 0;
    bool is_float = end != 0;
    if (!is_float) end = integer_end(lx, lx->pos, &base);
    for (size_t i = lx->pos; i < end; i++) {
        if (lx->s[i] == '_') continue;
        if (n + 1 >= sizeof text) return lex_fail(lx, "number with too many digits");
        text[n++] = lx->s[i];
    }
    text[n] = 0;
    Value v;
    if (is_float)
        v = value_float(decimal_parse(text, n));
    else {
        int64_t value = 0;
        bool big = false;
        for (size_t i = base == 10 ? 0 : 2; i < n && !big; i++)
            big = __builtin_mul_overflow(value, base, &value) ||
                  __builtin_add_overflow(value, digit_value(text[i]), &value);
        if (big && base != 10) return lex_fail(lx, "integers beyond 64 bits are not supported");
        if (big && !value_text(lx->run, text, n, &v)) return false;
        if (big)
            v.type = V_BIG;
        else
            v = value_int(value);
    }
    if (!emit(lx, is_float ? T_FLOAT : T_INTEGER, lx->pos, end, v)) return false;
    advance(lx, end);
    return true;
}

static bool lex_name(Lexer *lx) {
    size_t at = lx->pos;
    bool first = true, valid = true;
    while (at < lx->n) {
        uint32_t code;
        int len = utf8_decode(lx->s + at, lx->n - at, &code);
        unsigned class = len > 0 ? jinja_char_class(code) : 0;
        bool word = code == '_' || (class & (CHAR_ALNUM | CHAR_ID_CONTINUE));
        if (len <= 0 || !word) break;
        if (!(class & (first ? CHAR_ID_START : CHAR_ID_CONTINUE)) && code != '_') valid = false;
        first = false;
        at += (size_t)len;
    }
    if (!valid) return lex_fail(lx, "Invalid character in identifier");
    Value v;
    if (!value_text_ref(lx->run, lx->s + lx->pos, at - lx->pos, &v) || !emit(lx, T_NAME, lx->pos, at, v)) return false;
    advance(lx, at);
    return true;
}

/* \xhh, \uhhhh, \Uhhhhhhhh: the code point of n hex digits at s. */
static bool hex_escape(const char *s, size_t left, int n, uint32_t *code) {
    *code = 0;
    if (left < (size_t)n) return false;
    for (int i = 0; i < n; i++) {
        int d = digit_value(s[i]);
        if (d >= 16) return false;
        *code = *code * 16 + (uint32_t)d;
    }
    return true;
}

/* One escape at s[0] == '\\': writes its bytes, returns how much of s it took, 0 for an error. */
static size_t unescape(Lexer *lx, const char *s, size_t left, char out[4], int *n_out) {
    static const char FROM[] = "\\'\"abfnrtv", TO[] = "\\'\"\a\b\f\n\r\t\v";
    char c = s[1];
    const char *simple = memchr(FROM, c, sizeof FROM - 1);
    *n_out = 1;
    if (simple) {
        out[0] = TO[simple - FROM];
        return 2;
    }
    if (c == '\n') {
        *n_out = 0;
        return 2;
    }
    uint32_t code = 0;
    size_t taken = 2;
    if (c >= '0' && c <= '7') {
        taken = 1;
        while (taken < 4 && taken < left && s[taken] >= '0' && s[taken] <= '7')
            code = code * 8 + (uint32_t)(s[taken++] - '0');
    } else if (c == 'x' || c == 'u' || c == 'U') {
        int hex = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!hex_escape(s + 2, left - 2, hex, &code)) return lex_fail(lx, "truncated escape in a string"), 0;
        taken = 2 + (size_t)hex;
    } else if (c == 'N') {
        return lex_fail(lx, "\\N{...} escapes are not supported"), 0;
    } else { /* an unknown escape stays as it is */
        out[0] = '\\';
        return 1;
    }
    *n_out = utf8_encode(code, out);
    if (*n_out == 0) return lex_fail(lx, "a string escape gives no valid character"), 0;
    return taken;
}

static bool lex_string(Lexer *lx) {
    char quote = lx->s[lx->pos];
    size_t end = lx->pos + 1;
    bool escapes = false;
    while (end < lx->n && lx->s[end] != quote) {
        escapes |= lx->s[end] == '\\';
        end += lx->s[end] == '\\' ? 2 : 1;
    }
    if (end >= lx->n)
        return lex_fail(lx, quote == '"' ? "unexpected char '\"' (string without end)"
                                         : "unexpected char \"'\" (string without end)");
    const char *body = lx->s + lx->pos + 1;
    size_t n = end - lx->pos - 1, length = 0;
    Value v;
    if (escapes) {
        char *text = run_take(lx->run, 1, n * 2 + 4);
        if (!text) return false;
        for (size_t i = 0; i < n;) {
            if (body[i] != '\\') {
                text[length++] = body[i++];
                continue;
            }
            int written;
            size_t taken = unescape(lx, body + i, n - i, text + length, &written);
            if (!taken) return false;
            i += taken;
            length += (size_t)written;
        }
        if (!value_text_ref(lx->run, text, length, &v)) return false;
    } else if (!value_text_ref(lx->run, body, n, &v))
        return false;
    if (!emit(lx, T_STRING, lx->pos, end + 1, v)) return false;
    advance(lx, end + 1);
    return true;
}

typedef struct Operator {
    char text[3];
    TokenType type;
} Operator;

static const Operator OPERATORS[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},     {"==", T_EQ},    {"!=", T_NE},    {">=", T_GTEQ},  {"<=", T_LTEQ},
    {"+", T_ADD},       {"-", T_SUB},      {"/", T_DIV},    {"*", T_MUL},    {"%", T_MOD},    {"~", T_TILDE},
    {"[", T_LBRACKET},  {"]", T_RBRACKET}, {"(", T_LPAREN}, {")", T_RPAREN}, {"{", T_LBRACE}, {"}", T_RBRACE},
    {">", T_GT},        {"<", T_LT},       {"=", T_ASSIGN}, {".", T_DOT},    {":", T_COLON},  {"|", T_PIPE},
    {",", T_COMMA},     {";", T_SEMICOLON}};

static bool track_bracket(Lexer *lx, char c) {
    char closing = c == '{' ? '}' : c == '(' ? ')' : c == '[' ? ']' : 0;
    if (closing) {
        if (lx->n_brackets == MAX_BRACKETS) return lex_fail(lx, "brackets are nested too deep");
        lx->brackets[lx->n_brackets++] = closing;
        return true;
    }
    if (c != '}' && c != ')' && c != ']') return true;
    char message[] = "unexpected ' ', expected ' '";
    message[12] = c;
    if (lx->n_brackets == 0) {
        message[14] = 0;
        return lex_fail(lx, message);
    }
    char expected = lx->brackets[--lx->n_brackets];
    message[26] = expected;
    return expected == c || lex_fail(lx, message);
}

static bool lex_operator(Lexer *lx) {
    for (size_t i = 0; i < sizeof OPERATORS / sizeof OPERATORS[0]; i++) {
        const Operator *op = &OPERATORS[i];
        if (!starts(lx, lx->pos, op->text)) continue;
        size_t n = strlen(op->text);
        if (n == 1 && !track_bracket(lx, op->text[0])) return false;
        if (!emit(lx, op->type, lx->pos, lx->pos + n, (Value){0})) return false;
        advance(lx, lx->pos + n);
        return true;
    }
    uint32_t code = 0;
    utf8_decode(lx->s + lx->pos, lx->n - lx->pos, &code);
    lx->run->located = true;
    return run_fail(lx->run, "line %d: unexpected char U+%04X", lx->line, code);
}

static bool lex_one(Lexer *lx) {
    size_t after = skip_space(lx, lx->pos);
    if (after > lx->pos) {
        advance(lx, after);
        return true;
    }
    char c = lx->s[lx->pos];
    if (digit(c)) return lex_number(lx);
    if (c == '\'' || c == '"') return lex_string(lx);
    uint32_t code;
    int len = utf8_decode(lx->s + lx->pos, lx->n - lx->pos, &code);
    if (len > 0 && (code == '_' || (jinja_char_class(code) & (CHAR_ALNUM | CHAR_ID_CONTINUE)))) return lex_name(lx);
    return lex_operator(lx);
}

static size_t variable_close(const Lexer *lx) {
    if (starts(lx, lx->pos, "-}}")) return skip_space(lx, lx->pos + 3);
    return starts(lx, lx->pos, "}}") ? lx->pos + 2 : 0;
}

/* The inside of {{ }} or {% %}, up to its end. */
static bool lex_tag(Lexer *lx, bool is_block) {
    lx->n_brackets = 0;
    while (lx->pos < lx->n) {
        size_t end = lx->n_brackets ? 0 : is_block ? close_at(lx, lx->pos, "%}") : variable_close(lx);
        if (end) {
            if (!emit(lx, is_block ? T_BLOCK_END : T_VARIABLE_END, lx->pos, end, (Value){0})) return false;
            advance(lx, end);
            return true;
        }
        if (!lex_one(lx)) return false;
    }
    return true; /* the parser reports the unexpected end */
}

/* Text up to the next tag, and the tag. */
static bool lex_root(Lexer *lx) {
    size_t at = lx->pos;
    while (at + 1 < lx->n && !(lx->s[at] == '{' && strchr("{%#", lx->s[at + 1]) && lx->s[at + 1])) at++;
    if (at + 1 >= lx->n) {
        Value v;
        if (!value_text_ref(lx->run, lx->s + lx->pos, lx->n - lx->pos, &v) || !emit(lx, T_DATA, lx->pos, lx->n, v))
            return false;
        lx->pos = lx->n;
        return true;
    }
    char kind = lx->s[at + 1], sign = is_sign(lx, at + 2) ? lx->s[at + 2] : 0;
    size_t inner = at + 2 + (sign != 0), raw = kind == '%' ? raw_begin(lx, inner) : 0;
    if (!emit_text(lx, at, sign, kind == '{')) return false;
    lx->pos = at;
    if (raw) {
        advance(lx, raw);
        return lex_raw(lx);
    }
    if (kind != '#' && !emit(lx, kind == '%' ? T_BLOCK_BEGIN : T_VARIABLE_BEGIN, at, inner, (Value){0})) return false;
    advance(lx, inner);
    return kind == '#' ? lex_comment(lx) : lex_tag(lx, kind == '%');
}

/* Newlines become \n and one at the very end is dropped, as jinja2 does before anything else. */
static bool unify_newlines(Lexer *lx, const char *text, size_t length) {
    char *copy = run_take(lx->run, 1, length + 1);
    if (!copy) return false;
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n') continue;
        copy[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (n && copy[n - 1] == '\n') n--;
    copy[n] = 0;
    lx->s = copy;
    lx->n = n;
    return true;
}

bool jinja_lex(Run *run, const char *text, size_t length, Tokens *out) {
    Lexer lx = {.run = run, .line = 1, .line_starting = true};
    if (length > MAX_SOURCE) return run_fail(run, "the template is longer than %d MB", MAX_SOURCE >> 20);
    if (utf8_valid(text, length) != length)
        return run_fail(run, "the template is not valid UTF-8 (at byte %zu)", utf8_valid(text, length));
    if (!unify_newlines(&lx, text, length)) return false;
    while (lx.pos < lx.n)
        if (!lex_root(&lx)) return false;
    if (!emit(&lx, T_END, lx.n, lx.n, (Value){0})) return false;
    *out = (Tokens){lx.tokens, lx.n_tokens, lx.s, lx.n};
    return true;
}

const char *jinja_token_name(TokenType type) {
    static const char *const NAMES[] = {
        [T_END] = "end of template",
        [T_DATA] = "template data / text",
        [T_VARIABLE_BEGIN] = "begin of print statement",
        [T_VARIABLE_END] = "end of print statement",
        [T_BLOCK_BEGIN] = "begin of statement block",
        [T_BLOCK_END] = "end of statement block",
        [T_NAME] = "name",
        [T_STRING] = "string",
        [T_INTEGER] = "integer",
        [T_FLOAT] = "float",
    };
    if (type <= T_FLOAT) return NAMES[type];
    for (size_t i = 0; i < sizeof OPERATORS / sizeof OPERATORS[0]; i++)
        if (OPERATORS[i].type == type) return OPERATORS[i].text;
    return "?";
}
