#!/usr/bin/env python3
"""Every option of every component of tokenizer.json by itself, with what Python `tokenizers` makes of texts that show it.

  option_cases.py --write tests/data/tokenizers/options.json    what the unit test text/components checks offline
  option_cases.py DRIVER                                        the same against our sources now (tokenizer_driver.c)

Where compare_tokenizers.py draws components at random, this goes through them in order, so that none is missed.
"""
import base64
import json
import sys

import tokenizers
from tokenizers import Tokenizer

from compare_tokenizers import BEHAVIORS, BYTES, Ours, charsmap, guarded

TEXTS = ["", " ", "ab", "  aB  b1,\n", "a,b!! 12 a1\u00e9", "\u00e9 e\u0301 \ufb01 \u00df \u0130 \u4e2d\u6587 \u3042\u30a2", "a\u2581b\u2581\u2581 a", "\tA\u0000\u007fb\u200ba\u00a0b", "aab'll A's\r\n\n a",
         "<s>ab</s>  ab", "\U0001f44d a \u0967\u00bd"]
PAIRED = ["a", "b", "A", " ", "1", ",", "\n", "\u2581", "\u00e9"]
SPACE, NEWLINE = "\u0120", "\u010a"


def pairs(alphabet):
    """Any two neighbours of the alphabet merge, so that a cut between them shows."""
    merges = [[x, y] for x in alphabet for y in alphabet]
    tokens = ["<unk>", *alphabet, *dict.fromkeys(x + y for x, y in merges)]
    return bpe({t: i for i, t in enumerate(tokens)}, merges, unk_token="<unk>")


def bpe(vocab, merges, **options):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges} | options


MODELS = {
    "bytes": bpe({"<0x%02X>" % b: b for b in range(256)}, [], byte_fallback=True),  # the ids are what the normalizer gave
    "pairs": pairs(PAIRED),
    "byte pairs": pairs(["a", "b", "A", SPACE, "1", ",", NEWLINE, "\u00c3", "\u00a9"]),
    "byte alphabet": bpe({c: i for i, c in enumerate(BYTES)}, []),
    "nothing": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
    "words": {"type": "WordLevel", "vocab": {"<unk>": 0, "ab": 1, "a": 2, "\u00e9": 3, ",": 4}, "unk_token": "<unk>"},
}


def normalizers():
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield {"type": kind}
    for left in (False, True):
        for right in (False, True):
            yield {"type": "Strip", "strip_left": left, "strip_right": right}
    for clean in (False, True):
        for chinese in (False, True):
            yield {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": False, "lowercase": False}
    for accents in (None, False, True):
        for lower in (False, True):
            yield {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": accents, "lowercase": lower}
    for pattern in ({"String": "a"}, {"String": " "}, {"Regex": r"\s+"}, {"Regex": "[ab]{2}|1"}):
        for content in ("", "\u2581", "xy"):
            yield {"type": "Replace", "pattern": pattern, "content": content}
    for content in ("\u2581", "ab"):
        yield {"type": "Prepend", "prepend": content}
    for key in ("a", "\u00e9", "\ufb01", "ab", "e\u0301"):
        yield {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(key.encode())).decode()}
    yield {"type": "Sequence", "normalizers": []}
    yield {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}
    yield {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}


def metaspaces():
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            yield {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
    yield {"type": "Metaspace", "replacement": "a", "prepend_scheme": "always", "split": True}
    yield {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}  # as older files have it


def pretokenizers():
    for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"):
        yield {"type": kind}
    for pattern in ({"String": "a"}, {"String": "  "}, {"Regex": r"\s+|,"}):
        for behavior in BEHAVIORS:
            for invert in (False, True):
                yield {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
    for behavior in BEHAVIORS:
        yield {"type": "Punctuation", "behavior": behavior}
    for single in (False, True):
        yield {"type": "Digits", "individual_digits": single}
    for c in (" ", "a", "\u00e9"):
        yield {"type": "CharDelimiterSplit", "delimiter": c}
    for n in (1, 3):
        yield {"type": "FixedLength", "length": n}
    yield from metaspaces()
    yield {"type": "Sequence", "pretokenizers": []}
    yield {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]}


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | options


DECODED = ["##b", "a</w>", "</w>", "##", "<0xE2>", "<0x96>", "<0x81>", "<0x41>", "<0xFF>", "<pad>", "|", " .", " n't", " '", " do not", "\u2581", "\u2581a", "a\u2581", " a ", "aa", "b", "\u0120b",
           "\u00c3", "\u00a9", " ,", "?"]
SPELLED = ["b##b##bb", "a</w>ba</w>", "ab</w></w>", "<0xE2><0x96><0x81>b<0x41>", "b<0xE2><0x96>b", "<0xFF><0x41><0xE2>", "b<pad><pad>bbb|b|", "b . n't '? do not ,b?", "\u2581\u2581a\u2581b", "a\u2581a\u2581\u2581",
           " a  a b", "aaaaaab", "\u0120b\u0120b", "\u00c3\u00a9b\u00c3b", "##bb", "</w>"]


def decoders():
    yield None
    for kind in ("ByteFallback", "Fuse"):
        yield {"type": kind}
    yield byte_level()
    for prefix in ("##", "a"):
        for cleanup in (False, True):
            yield {"type": "WordPiece", "prefix": prefix, "cleanup": cleanup}
    yield from metaspaces()
    for content in (" ", "a", "\u2581"):
        for start, stop in ((0, 0), (1, 0), (2, 1), (0, 2)):
            yield {"type": "Strip", "content": content, "start": start, "stop": stop}
    for pattern in ({"String": "\u2581"}, {"String": "aa"}, {"Regex": "[ab]"}):
        for content in (" ", "", "xy"):
            yield {"type": "Replace", "pattern": pattern, "content": content}
    for delimiter in ("|", "a"):
        for cleanup in (False, True):
            yield {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": delimiter, "cleanup": cleanup}
    for suffix in ("</w>", "a"):
        yield {"type": "BPEDecoder", "suffix": suffix}
    yield {"type": "Sequence", "decoders": []}
    yield {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def token(i, content, **flags):
    return {"id": 1000 + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False} | flags


def added_lists():
    """One flag at a time, with the others off, for a special token and another one; then all at once."""
    for special in (False, True):
        for flag in ("single_word", "lstrip", "rstrip", "normalized", None):
            flags = {flag: True} if flag else {}
            yield [token(0, "<s>", special=special, **flags), token(1, "ab", special=special, **flags), token(2, "A1", special=special, **flags)]
    yield [token(0, "<s>", special=True, lstrip=True, rstrip=True), token(1, "ab", single_word=True, normalized=True, lstrip=True), token(2, "a,", rstrip=True)]


def template(*parts):
    single = [{"Sequence": {"id": "A", "type_id": 0}} if p == "$A" else {"SpecialToken": {"id": p, "type_id": 0}} for p in parts]
    special = {name: {"id": name, "ids": ids, "tokens": [name] * len(ids)} for name, ids in (("c", [1]), ("s", [2]), ("two", [2, 1]))}
    return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": special}


def postprocessors():
    yield template("$A")
    yield template("c", "$A")
    yield template("$A", "s")
    yield template("c", "two", "$A", "s", "s")
    yield byte_level()
    yield {"type": "BertProcessing", "sep": ["s", 2], "cls": ["c", 1]}
    for trim in (False, True):
        yield {"type": "RobertaProcessing", "sep": ["s", 2], "cls": ["c", 1], "trim_offsets": trim, "add_prefix_space": trim}
    yield {"type": "Sequence", "processors": []}
    yield {"type": "Sequence", "processors": [byte_level(), template("c", "$A")]}


def models():
    chars = {"<unk>": 0, "a": 1, "b": 2, " ": 3, "ab": 4, "abab": 5, "<0xC3>": 6, "<0xA9>": 7, "<0x31>": 8, "ba": 9}
    merges = [["a", "b"], ["ab", "ab"]]
    for unknown in (None, "<unk>"):
        for fuse in (False, True):
            for fallback in (False, True):
                yield bpe(chars, merges, unk_token=unknown, fuse_unk=fuse, byte_fallback=fallback)
    yield bpe(chars, merges, unk_token="<unk>", ignore_merges=True) | {"vocab": chars | {"abba": 10}}
    yield bpe(chars, ["a b", "ab ab"], unk_token="<unk>")
    for prefix, suffix in (("##", None), (None, "</w>"), ("##", "</w>")):
        names = [p + c + s for c in "ab," for p in ("", prefix or "") for s in ("", suffix or "")] + ["<unk>"]
        a, b = "a", (prefix or "") + "b" + (suffix or "")
        joined = "ab" + (suffix or "")
        yield bpe({n: i for i, n in enumerate(dict.fromkeys([*names, joined]))}, [[a, b]], unk_token="<unk>", continuing_subword_prefix=prefix, end_of_word_suffix=suffix)
    scores = [["<unk>", 0.0], ["a", -2.0], ["b", -2.5], ["ab", -3.0], [" ", -1.0], ["ba", -2.25], ["aab", -9.0], ["<0xC3>", -5.0], ["<0xA9>", -5.0]]
    for fallback in (False, True):
        yield {"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": fallback}
    yield {"type": "Unigram", "unk_id": 3, "vocab": scores}
    for most in (2, 100):
        for prefix in ("##", "a"):
            words = ["[UNK]", "a", "b", "ab", prefix + "b", prefix + "ab", prefix + "1", "##a", "1", "\u00e9"]
            yield {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix, "max_input_chars_per_word": most,
                   "vocab": {w: i for i, w in enumerate(dict.fromkeys(words))}}
    yield MODELS["words"]


def cases():
    """Pairs of a tokenizer.json without its model, and the model or the name of one."""
    def document(**parts):
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                "decoder": None} | parts

    for n in normalizers():
        yield document(normalizer=n), "bytes", TEXTS
    yield document(normalizer={"type": "ByteLevel"}, decoder=byte_level()), "byte alphabet", TEXTS
    for p in pretokenizers():
        yield document(pre_tokenizer=p), "pairs", TEXTS
    for space in (False, True):
        for regex in (False, True):
            yield document(pre_tokenizer=byte_level(add_prefix_space=space, use_regex=regex), decoder=byte_level()), "byte pairs", TEXTS
    spelled = [token(i, t) for i, t in enumerate(DECODED)] + [token(100, "</s>", special=True)]
    for d in decoders():
        yield document(added_tokens=spelled, decoder=d), "nothing", SPELLED + ["b</s>b", "</s>\u2581a</s>"]
    for tokens in added_lists():
        yield document(added_tokens=tokens, normalizer={"type": "Lowercase"}, pre_tokenizer={"type": "WhitespaceSplit"}), "pairs", \
            TEXTS + ["ab<s>ab A1 aB", " <s> ab  <s>", "xab ab,abx ab", "a,  A1 a1,b"]
    for p in postprocessors():
        yield document(post_processor=p), "pairs", TEXTS[:4]
    for m in models():
        yield document(), m, TEXTS + ["abab", "abba", "aab", "\u00e9\u4e2d\u6587a", "1\u00e9b"]
        yield document(pre_tokenizer={"type": "WhitespaceSplit"}), m, TEXTS + ["abab ab,", "abba \u00e9\u4e2d 1"]


def rows_of(theirs, texts, decode):
    rows = []
    for t in texts:
        ids = guarded(lambda: [theirs.encode(t, add_special_tokens=False).ids, theirs.encode(t).ids])
        if isinstance(ids, dict):
            if not ids["panic"]:
                rows.append([t, None])
            continue
        shown = guarded(lambda: [theirs.decode(ids[1], skip_special_tokens=s) for s in (False, True)]) if decode else {}
        rows.append([t, *ids] + ([] if isinstance(shown, dict) else shown))
    return rows


def expected():
    for document, model, texts in cases():
        whole = document | {"model": MODELS.get(model, model) if isinstance(model, str) else model}
        rows = rows_of(Tokenizer.from_str(json.dumps(whole)), texts, document["decoder"] or document["added_tokens"])
        case = {"tokenizer": document, "model": model, "rows": rows} if isinstance(model, str) else {"tokenizer": whole, "rows": rows}
        yield whole, case
    # dropout is for training: the reference would draw, we do not
    whole = json.loads(json.dumps(whole)) | {"model": MODELS["pairs"]}
    rows = rows_of(Tokenizer.from_str(json.dumps(whole)), TEXTS, True)
    whole = whole | {"model": MODELS["pairs"] | {"dropout": 0.9}}
    yield whole, {"tokenizer": whole, "rows": rows}


def write(path):
    note = f"made by tests/differential/option_cases.py --write, with tokenizers {tokenizers.__version__}; rows as in components.json; \"model\": one of \"models\""
    lines = [json.dumps(case, separators=(",", ":")) for _, case in expected()]
    with open(path, "w", encoding="ascii") as f:
        f.write('{"note":' + json.dumps(note) + ',"models":' + json.dumps(MODELS, separators=(",", ":")) + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n")
    print(len(lines), "cases")


def differences(ours):
    """Of each text that differs: the tokenizer, the row, our ids and texts."""
    for whole, case in expected():
        loaded = ours.ask(load=json.dumps(whole))
        assert loaded == "ok", (loaded, case["tokenizer"])
        for row in case["rows"]:
            got, shown = ours.ask(encode=row[0]), ours.ask(decode=(row + [None])[2] or [])
            same = isinstance(got, dict) if row[1] is None else got == row[1:3] and (len(row) == 3 or shown == row[3:] + ["same"])
            if not same:
                yield case["tokenizer"], row, got, shown


def compare(driver):
    wrong = list(differences(Ours(driver)))
    for difference in wrong:
        print(*difference)
    print(f"{len(wrong)} texts differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    write(sys.argv[2]) if sys.argv[1] == "--write" else compare(sys.argv[1])
