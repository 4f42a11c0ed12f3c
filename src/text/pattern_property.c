/* Names of Unicode properties in patterns: general categories, short and long; scripts; Oniguruma's bracket classes,
 * which are properties, too; a few binary properties. Case, blanks, '_' and '-' do not matter in a name. */
#include "text/pattern_parse.h"

#include <string.h>

#define BIT(c) (1ull << CATEGORY_##c)
#define L_BITS (BIT(LL) | BIT(LM) | BIT(LO) | BIT(LT) | BIT(LU))
#define M_BITS (BIT(MC) | BIT(ME) | BIT(MN))
#define N_BITS (BIT(ND) | BIT(NL) | BIT(NO))
#define P_BITS (BIT(PC) | BIT(PD) | BIT(PE) | BIT(PF) | BIT(PI) | BIT(PO) | BIT(PS))
#define S_BITS (BIT(SC) | BIT(SK) | BIT(SM) | BIT(SO))
#define Z_BITS (BIT(ZL) | BIT(ZP) | BIT(ZS))
#define C_BITS (BIT(CN) | BIT(CC) | BIT(CF) | BIT(CO) | BIT(CS))

static const struct {
    const char *shorter, *longer;
    uint64_t bits;
} categories[] = {
    {"l", "letter", L_BITS},
    {"lc", "casedletter", BIT(LL) | BIT(LT) | BIT(LU)},
    {"ll", "lowercaseletter", BIT(LL)},
    {"lm", "modifierletter", BIT(LM)},
    {"lo", "otherletter", BIT(LO)},
    {"lt", "titlecaseletter", BIT(LT)},
    {"lu", "uppercaseletter", BIT(LU)},
    {"m", "mark", M_BITS},
    {"mc", "spacingmark", BIT(MC)},
    {"me", "enclosingmark", BIT(ME)},
    {"mn", "nonspacingmark", BIT(MN)},
    {"n", "number", N_BITS},
    {"nd", "decimalnumber", BIT(ND)},
    {"nl", "letternumber", BIT(NL)},
    {"no", "othernumber", BIT(NO)},
    {"p", "punctuation", P_BITS},
    {"pc", "connectorpunctuation", BIT(PC)},
    {"pd", "dashpunctuation", BIT(PD)},
    {"pe", "closepunctuation", BIT(PE)},
    {"pf", "finalpunctuation", BIT(PF)},
    {"pi", "initialpunctuation", BIT(PI)},
    {"po", "otherpunctuation", BIT(PO)},
    {"ps", "openpunctuation", BIT(PS)},
    {"s", "symbol", S_BITS},
    {"sc", "currencysymbol", BIT(SC)},
    {"sk", "modifiersymbol", BIT(SK)},
    {"sm", "mathsymbol", BIT(SM)},
    {"so", "othersymbol", BIT(SO)},
    {"z", "separator", Z_BITS},
    {"zl", "lineseparator", BIT(ZL)},
    {"zp", "paragraphseparator", BIT(ZP)},
    {"zs", "spaceseparator", BIT(ZS)},
    {"c", "other", C_BITS},
    {"cc", "control", BIT(CC)},
    {"cf", "format", BIT(CF)},
    {"cn", "unassigned", BIT(CN)},
    {"co", "privateuse", BIT(CO)},
    {"cs", "surrogate", BIT(CS)},
    {"assigned", "assigned", ~BIT(CN) & ((1ull << N_CATEGORIES) - 1)},
    {"punct", "punct", P_BITS}, /* the class [:punct:] has symbols, too */
    {"any", "any", (1ull << N_CATEGORIES) - 1},
};

/* The four-letter codes of the scripts that patterns name. */
static const char *const script_codes[][2] = {
    {"arab", "arabic"},     {"armn", "armenian"},  {"beng", "bengali"},  {"bopo", "bopomofo"},  {"cyrl", "cyrillic"},
    {"deva", "devanagari"}, {"ethi", "ethiopic"},  {"geor", "georgian"}, {"grek", "greek"},     {"gujr", "gujarati"},
    {"guru", "gurmukhi"},   {"hang", "hangul"},    {"hani", "han"},      {"hebr", "hebrew"},    {"hira", "hiragana"},
    {"kana", "katakana"},   {"khmr", "khmer"},     {"knda", "kannada"},  {"laoo", "lao"},       {"latn", "latin"},
    {"mlym", "malayalam"},  {"mong", "mongolian"}, {"mymr", "myanmar"},  {"orya", "oriya"},     {"sinh", "sinhala"},
    {"taml", "tamil"},      {"telu", "telugu"},    {"tibt", "tibetan"},  {"zinh", "inherited"}, {"zyyy", "common"},
};

enum { LONGEST_NAME = 64 };

static bool simplify(const char *name, size_t n, char out[LONGEST_NAME]) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (c == ' ' || c == '_' || c == '-') continue;
        if (k == LONGEST_NAME - 1) return false;
        out[k++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    out[k] = 0;
    return true;
}

static unsigned find_script(const char *name) {
    for (size_t i = 0; i < sizeof script_codes / sizeof script_codes[0]; i++) {
        if (strcmp(script_codes[i][0], name) == 0) name = script_codes[i][1];
    }
    for (unsigned i = 0; unicode_script_names[i]; i++) {
        if (strcmp(unicode_script_names[i], name) == 0) return i + 1;
    }
    return 0;
}

bool pattern_bracket(const char *name, size_t n, CodeSet *s, Error *err) {
    for (const UnicodeNamedSet *set = unicode_named_sets; set->name; set++) {
        if (set->bracket && strlen(set->name) == n && memcmp(set->name, name, n) == 0) {
            return codeset_add_set(s, set->set) || error_memory(err, "a pattern");
        }
    }
    if (n == 5 && memcmp(name, "ascii", 5) == 0) return codeset_add(s, 0, 0x80) || error_memory(err, "a pattern");
    return error_set(err, "unknown class [:%.*s:]", (int)(n < 100 ? n : 100), name);
}

bool pattern_property(const char *name, size_t n, CodeSet *s, Error *err) {
    char key[LONGEST_NAME];
    if (!simplify(name, n, key)) return error_set(err, "unknown property \\p{%.100s...}", name);
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        if (strcmp(key, categories[i].shorter) == 0 || strcmp(key, categories[i].longer) == 0) {
            return codeset_add_categories(s, categories[i].bits) || error_memory(err, "a pattern");
        }
    }
    unsigned script = find_script(key);
    if (script) return codeset_add_script(s, script) || error_memory(err, "a pattern");
    for (const UnicodeNamedSet *set = unicode_named_sets; set->name; set++) {
        if (strcmp(set->name, key) == 0) return codeset_add_set(s, set->set) || error_memory(err, "a pattern");
    }
    if (strcmp(key, "ascii") == 0) return codeset_add(s, 0, 0x80) || error_memory(err, "a pattern");
    return error_set(err, "unknown property \\p{%.*s}", (int)n, name);
}
