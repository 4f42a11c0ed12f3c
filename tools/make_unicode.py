#!/usr/bin/env python3
"""Writes src/text/unicode_tables.c: the Unicode classes, case maps and normal forms of one release of Python `tokenizers`.

  make_unicode.py > src/text/unicode_tables.c      (needs `tokenizers`; the release is named in the output)

Token ids must equal those of that library, whose parts follow several Unicode versions at once: Oniguruma's for patterns,
Rust's for white space, digits and lower case, older crates' for punctuation and normal forms. None of these tables can be
imported, but all can be asked: this script asks, code point by code point, and writes down the answers.
"""
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CODES))

CATEGORIES = "Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
SCRIPTS = """Common Inherited Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali
Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian
Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan
Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul
Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi
Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A
Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek
Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari
New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic
Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa
Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng
Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana
Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
Sidetic Tolong_Siki""".split()
# properties and bracket classes of Oniguruma that are not unions of categories
BINARY = """Alphabetic Uppercase Lowercase White_Space Emoji Emoji_Presentation Emoji_Modifier Emoji_Modifier_Base Emoji_Component
Extended_Pictographic Ideographic""".split()
BRACKETS = "alnum alpha blank cntrl digit graph lower print punct space upper xdigit word".split()


def matches(pattern):
    """The code points that the pattern matches as one character; None if Oniguruma does not know it."""
    try:
        split = P.Split(Regex(pattern), "removed", invert=True)
    except Exception:
        return None
    return {ord(c) for piece, _ in split.pre_tokenize_str(ALL) for c in piece}


def emit_words(name, words, kind="static const uint32_t"):
    lines, line = [], ""
    for w in words:
        item = (hex(w) if w > 9 else str(w)) + ","
        if len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += item
    lines.append(line)
    print(f"{kind} {name}[] = {{")
    print("\n".join(lines))
    print("};")


def emit_set(name, members):
    """Sorted bounds: inside from the 1st to before the 2nd, and so on. Surrogates go with what precedes them: text has none."""
    bounds, inside = [], False
    for c in CODES:
        if (c in members) != inside:
            bounds.append(c)
            inside = not inside
    emit_words(name + "_bounds", bounds or [0x110000])
    print(f"const UnicodeSet {name} = {{{name}_bounds, {len(bounds)}}};\n")


def emit_runs(name, value_of):
    runs, last = [], None
    for c in CODES:
        v = value_of(c)
        if v != last:
            runs.append(c << 8 | v)
            last = v
    emit_words(name + "_words", runs)
    print(f"const UnicodeRuns {name} = {{{name}_words, {len(runs)}}};\n")


def emit_maps(name, mapping):
    """Per mapped code point, sorted: its value, where its text starts and how long it is."""
    text, index = [], []
    pool = {}
    for c in sorted(mapping):
        t = tuple(map(ord, mapping[c]))
        if t not in pool:
            pool[t] = len(text)
            text.extend(t)
        index.append((c << 32) | (pool[t] << 8) | len(t))
    emit_words(name + "_text", text or [0])
    emit_words(name + "_index", index, "static const uint64_t")
    print(f"const UnicodeMap {name} = {{{name}_index, {len(index)}, {name}_text}};\n")


def categories():
    of = {}
    for i, name in enumerate(CATEGORIES):
        if name in ("Cn", "Cs"):
            continue
        for c in matches(r"\p{%s}" % name):
            of[c] = i
    emit_runs("unicode_category", lambda c: of.get(c, 0))


def scripts():
    of, known = {}, []
    for name in SCRIPTS:
        found = matches(r"\p{%s}" % name)
        if found is None:
            print(f"no script {name}", file=sys.stderr)
            continue
        known.append(name)
        for c in found:
            of[c] = len(known)
    assert len(known) < 255
    emit_runs("unicode_script", lambda c: of.get(c, 0))
    print("const char *const unicode_script_names[] = {")
    print("\n".join(f'"{n.lower().replace("_", "")}",' for n in known) + "\n0};\n")


def named_sets():
    names = []
    for prefix, pattern, group in (("unicode_property", r"\p{%s}", BINARY), ("unicode_bracket", "[[:%s:]]", BRACKETS)):
        for name in group:
            ident = f"{prefix}_{name.lower()}"
            found = matches(pattern % name)
            assert found, name
            emit_set(ident, found)
            names.append((name.lower().replace("_", ""), ident, prefix))
    print("const UnicodeNamedSet unicode_named_sets[] = {")
    for name, ident, prefix in names:
        print(f'{{"{name}", &{ident}, {"true" if prefix.endswith("bracket") else "false"}}},')
    print("{0, 0, false}};\n")


def pattern_shorthands():
    emit_set("unicode_pattern_space", matches(r"\s"))
    emit_set("unicode_pattern_word", matches(r"\w"))
    emit_set("unicode_pattern_digit", matches(r"\d"))


def folds():
    """Per code point the others that a pattern takes for the same under (?i); single characters only."""
    cased = [c for c in CODES if any(f(chr(c)) != chr(c) for f in (str.lower, str.upper, str.title, str.casefold))]
    hay = "\0".join(map(chr, cased))
    out = {}
    for c in cased:
        found = P.Split(Regex(r"(?i:\x{%x})" % c), "removed", invert=True).pre_tokenize_str(hay)
        same = sorted({ord(p) for p, _ in found for p in p} - {c})
        if same:
            out[c] = "".join(map(chr, same))
    emit_maps("unicode_fold", out)


def rust_classes():
    split, digits, words = P.WhitespaceSplit(), P.Digits(individual_digits=True), P.Whitespace()
    bert, punct, scripts_ = P.BertPreTokenizer(), P.Punctuation(), N.BertNormalizer(True, False, False, False)
    accents, bert_accents, strip = N.StripAccents(), N.BertNormalizer(False, False, True, False), N.Strip()
    sets = {k: set() for k in "space numeric word word_space bert_punctuation punctuation bert_control bert_space mark bert_mark strip_space".split()}
    for c in CODES:
        ch = chr(c)
        t = "a" + ch + "b"
        if len(split.pre_tokenize_str(t)) == 2: sets["space"].add(c)
        if strip.normalize_str(ch) == "": sets["strip_space"].add(c)
        if len(digits.pre_tokenize_str(t)) == 3: sets["numeric"].add(c)
        n = len(words.pre_tokenize_str(t))
        if n == 1: sets["word"].add(c)
        if n == 2: sets["word_space"].add(c)
        if len(bert.pre_tokenize_str(t)) == 3: sets["bert_punctuation"].add(c)
        if len(punct.pre_tokenize_str(t)) == 3: sets["punctuation"].add(c)
        clean = scripts_.normalize_str(t)
        if clean == "ab": sets["bert_control"].add(c)
        if clean == "a b": sets["bert_space"].add(c)
        if accents.normalize_str(t) == "ab": sets["mark"].add(c)
        if bert_accents.normalize_str(t) == "ab": sets["bert_mark"].add(c)
    assert sets["strip_space"] == sets["space"] and sets["word_space"] == sets["space"], "white space differs between parts"
    assert sets["bert_punctuation"] == sets["punctuation"], "punctuation differs between parts"
    assert sets["bert_space"] <= sets["space"] | {0}, "BERT's white space"
    for k in "space numeric word punctuation bert_control bert_space mark bert_mark".split():
        emit_set("unicode_" + k, sets[k])


def lower():
    f = N.Lowercase().normalize_str
    emit_maps("unicode_lower", {c: f(chr(c)) for c in CODES if f(chr(c)) != chr(c)})


def is_hangul_syllable(c):
    return 0xAC00 <= c < 0xAC00 + 11172


def combining_classes(nfd):
    """Two marks are swapped exactly when the first has the greater class and the second's is not 0: binary search for each
    code point's class among marks whose classes are beyond doubt."""
    overlay = "\u0334"  # class 1 in every version
    sample = {1: 0x334}
    for c in CODES:
        k = unicodedata.combining(chr(c))
        if k > 1 and k not in sample and nfd("a" + chr(c) + overlay) == "a" + overlay + chr(c):
            sample[k] = c
    levels = sorted(sample)
    least, greatest = chr(sample[levels[0]]), chr(sample[levels[-1]])
    of = {c: k for k, c in sample.items()}
    for c in CODES:
        ch = chr(c)
        if nfd(ch) != ch or c in of:
            continue
        moved_left = nfd("a" + greatest + ch) == "a" + ch + greatest
        moved_right = nfd("a" + ch + least) == "a" + least + ch
        if not (moved_left or moved_right):
            continue
        less = {k for k in levels if nfd("a" + chr(sample[k]) + ch) == "a" + ch + chr(sample[k])}  # class of c < k
        greater = {k for k in levels if nfd("a" + ch + chr(sample[k])) == "a" + chr(sample[k]) + ch}
        equal = [k for k in levels if k not in less | greater]
        assert len(equal) == 1, (hex(c), equal)
        of[c] = equal[0]
    return of


def normal_forms():
    nfd, nfkd, nfc = N.NFD().normalize_str, N.NFKD().normalize_str, N.NFC().normalize_str
    canonical = {c: nfd(chr(c)) for c in CODES if not is_hangul_syllable(c) and nfd(chr(c)) != chr(c)}
    compatible = {c: nfkd(chr(c)) for c in CODES if not is_hangul_syllable(c) and nfkd(chr(c)) != chr(c)}
    compatible = {c: t for c, t in compatible.items() if canonical.get(c) != t}
    emit_maps("unicode_canonical", canonical)
    emit_maps("unicode_compatible", compatible)
    classes = combining_classes(nfd)
    emit_runs("unicode_combining", lambda c: classes.get(c, 0))
    pairs = []
    for c in canonical:
        d = unicodedata.decomposition(chr(c)).split()
        assert d and not d[0].startswith("<"), hex(c)
        if len(d) == 2:
            a, b = (int(x, 16) for x in d)
            if nfc(chr(a) + chr(b)) == chr(c):
                pairs.append((a << 42 | b << 21 | c))
    pairs.sort()
    emit_words("unicode_compose_words", pairs, "const uint64_t")
    print(f"const size_t unicode_compose_count = {len(pairs)};\n")


def charsmap(key):
    """A SentencePiece character map that takes the one key to X: a double array whose k-th node lies at 256 * (k + 1)."""
    units = [0] * (256 * (len(key) + 2))
    place = 0
    for i, byte in enumerate(key):
        base = 256 * (i + 1)
        units[place] |= (place ^ base) << 10
        place = base ^ byte
        units[place] = byte
    leaf = 256 * (len(key) + 1)
    units[place] |= (place ^ leaf) << 10 | 1 << 8
    units[leaf] = 1 << 31
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"X\0"


def graphemes():
    """The reference replaces a short cluster whole when it begins with a key: so a key tells whether the next character
    joined it. Where a cluster has six bytes or more it does not matter what joins, and is not asked."""
    after_a = N.Precompiled(charsmap(b"a"))
    extend = {c for c in CODES if c > 0x1F and after_a.normalize_str("a" + chr(c)) == "X"}
    prepend = set()
    for c in CODES:
        kind = unicodedata.category(chr(c))
        if c in extend or c < 0x300 or (kind in ("Lo", "Cn") and c >= 0x2E80 and c < 0x10000) or c >= 0x16000 and kind in ("Lo", "Co"):
            continue
        if c >= 0x20000 and not 0xE0000 <= c < 0xE2000:
            continue
        f = N.Precompiled(charsmap(chr(c).encode())).normalize_str
        if f(chr(c) + "a") == "X":
            prepend.add(c)
    # a second accent joins the first one, and is replaced with it, only where the first did not join what stands before
    after = N.Precompiled(charsmap("\u0301".encode())).normalize_str
    control = {c for c in CODES if c > 0x2FF and after(chr(c) + "\u0301\u0301") == chr(c) + "X"}
    emit_set("unicode_grapheme_extend", extend)
    emit_set("unicode_grapheme_prepend", prepend)
    emit_set("unicode_grapheme_control", control)


def conjuncts():
    """Indic conjuncts (rule GB9c): where the second consonant stands in the cluster of the first, the accent behind it is not
    replaced with it, since only short clusters are replaced whole."""
    ka, virama, qa, accent = "\u0915", "\u094d", "\u0958", "\u0301"
    f = N.Precompiled(charsmap(qa.encode())).normalize_str
    joined = {}
    for name, form in (("consonant", "{0}" + virama), ("linker", ka + "{0}"), ("extend", ka + "{0}" + virama)):
        joined[name] = {c for c in CODES if c > 0x2FF and f(form.format(chr(c)) + qa + accent).endswith("X" + accent)}
    # a prepended character takes the second consonant in by itself; a consonant or a linker before the virama is no mark
    after_a = N.Precompiled(charsmap(b"a")).normalize_str
    joined["linker"] = {c for c in joined["linker"] if after_a("a" + chr(c)) == "X"}
    joined["extend"] -= joined["consonant"] | joined["linker"]
    for name, members in joined.items():
        emit_set("unicode_conjunct_" + name, members)


def unicode_scripts():
    f = P.UnicodeScripts().pre_tokenize_str
    # a blank belongs to any script; find all code points like it first
    joker = {c for c in CODES if len(f("a" + chr(c) + "a")) == 1 and len(f("\u4e00" + chr(c) + "\u4e00")) == 1}
    classes, of, last = [], {}, None
    for c in CODES:
        if c in joker:
            continue
        if last is not None and len(f(chr(last) + chr(c))) == 1:
            of[c] = of[last]
        else:
            for i, r in enumerate(classes):
                if len(f(chr(r) + chr(c))) == 1:
                    of[c] = i + 1
                    break
            else:
                classes.append(c)
                of[c] = len(classes)
        last = c
    assert len(classes) < 255, len(classes)
    emit_runs("unicode_scripts_pretokenizer", lambda c: of.get(c, 0))


def main():
    print(f"/* Generated by tools/make_unicode.py from Python tokenizers {tokenizers.__version__}; do not edit. */")
    print("// clang-format off")
    print('#include "text/unicode.h"\n')
    print(f'const char unicode_tables_source[] = "tokenizers {tokenizers.__version__}";\n')
    for part in (pattern_shorthands, categories, named_sets, folds, rust_classes, lower, graphemes, conjuncts, normal_forms, unicode_scripts, scripts):
        print(part.__name__, file=sys.stderr, flush=True)
        part()


if __name__ == "__main__":
    main()
