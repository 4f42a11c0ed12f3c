#!/usr/bin/env python3
"""Compares our tokenizers with Python `tokenizers` on random tokenizers, texts and ids.

  compare_tokenizers.py --write tests/data/tokenizers/components.json    what the unit test text/components checks offline
  compare_tokenizers.py DRIVER [--rounds 200] [--texts 100] [--seed 1] [--folder DIR_WITH_TOKENIZER_JSON]...

DRIVER is tokenizer_driver.c, built with our sources. Each round makes a tokenizer of random components (model, normalizer,
pre-tokenizer, post-processor, decoder, added tokens) and compares ids, text and streamed text. --folder compares real ones
instead. Prints each difference with all that is needed to repeat it; exit 1 if there was one.
"""
import argparse
import base64
import json
import random
import re
import subprocess
import sys

import tokenizers
from tokenizers import Tokenizer

sys.path.insert(0, __file__.rsplit("/", 3)[0] + "/tools")
from make_unicode import charsmap  # noqa: E402

RANGES = [(0x20, 0x7F), (0x20, 0x7F), (0x61, 0x7B), (0x61, 0x65), (0xA0, 0x250), (0x250, 0x530), (0x300, 0x370), (0x530, 0x780),
          (0x780, 0x1000), (0x1000, 0x1200), (0x1200, 0x2000), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2C00), (0x2C00, 0x3100),
          (0x3040, 0x3100), (0x3130, 0x3200), (0x3300, 0x3400), (0x4E00, 0x4E40), (0x4E00, 0x9FFF), (0xA000, 0xAC00), (0xAC00, 0xD7A4),
          (0xD7B0, 0xD800), (0xF900, 0xFB50), (0xFB50, 0x10000), (0xFF00, 0xFFF0), (0x10000, 0x10800), (0x10800, 0x11000),
          (0x11000, 0x12000), (0x1D100, 0x1D800), (0x1E000, 0x1F000), (0x1F000, 0x1FB00), (0x20000, 0x20100), (0x2F800, 0x2FA20),
          (0xE0000, 0xE0200), (0, 0x20), (0x10FFFD, 0x110000)]
BITS = ["'s", "'ll", " don't", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "123", "12345", "٣", "½", "Ⅷ", "²", "\u00a0", "\u3000", "\u200b", "\u200d",
        "\u2028", "\x85", "ﬁ", "ß", "İ", "Σ", "ς", "ſ", "K", "é", "e\u0301", "e\u0323\u0301", "\u0301", "\u0345\u0334", "各", "が", "か\u3099", "한", "\u1112\u1161\u11ab",
        "👍🏽", "👩‍👩‍👧", "🇺🇸", "▁", "▁▁", "Ġ", "Ċ", "##", "<s>", "</s>", "<unk>", "[CLS]", "<0x41>", "<0xE2>", "\ufffd", "ab", "aab", "abab", "aaaa", "hello", "Hello",
        " world", "।", "¿", "—", "…", "«", "_", "__init__", "a_b", "x²", "©\u200d™", "\u0600a", "क्ष", "ก็", "\ufeff", "\x00", "\x7f", "𝕳", "Ａ", "㍿", "ﷺ", "\u1e9b\u0323"]
ALPHABET = list("abcdeh lowrs.,'!01_") + ["é", "ß", "中", "文", "▁", "\n", "\u0301", "Ġ", "の", "👍"]
BYTES = [chr(b) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b else chr(0x100 + n)
         for b, n in [(b, sum(1 for x in range(b) if not (0x21 <= x <= 0x7E or 0xA1 <= x <= 0xAC or 0xAE <= x))) for b in range(256)]]
REGEXES = [r"\s+", r"\p{L}+|\p{N}+", r"[^\s\p{L}\p{N}]+", r"\p{N}{1,3}", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
           r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
           r"[一-龥ぁ-ゖァ-ヺ]+", r"a|b+", r"[[:punct:]]", r"\w+|[^\w\s]+", r"\d", r"$", r"^\w", r"(?<=a)b", r"(?<!a)b", r"\bab", r"[^a-c]", r"(?i)ab", r"(?i:[a-zé]+)", r".",
           r"\p{Han}+", r"\p{Hiragana}|\p{Katakana}", r"\p{P}", r"\p{S}", r"\p{M}", r"\p{Lu}\p{Ll}*", r"[\p{Z}\p{C}]", r"x*", r"a{2,3}", r"(?:ab)+?", r"a?+b", r"[a-z&&[^aeiou]]+",
           r"\R", r"\h+", r"[^\n]+|\n", r" ?[^(\s|.,!?…。，、।۔،)]+", r"'(?=[a-z])", r"\S{1,4}", r"[\u4e00-\u9fff]", r"\p{Emoji}", r"[[:alpha:]&&\p{Latin}]+", r"\P{L}"]


def text(r):
    n = r.choice([0, 1, 1, 2, 3, 5, 8, 13, 30, 80])
    out = []
    for _ in range(n):
        k = r.random()
        if k < 0.3:
            out.append(r.choice(BITS))
        elif k < 0.6:
            out.append("".join(r.choice(ALPHABET) for _ in range(r.randint(1, 6))))
        else:
            low, high = r.choice(RANGES)
            out.append("".join(chr(r.randrange(low, high)) for _ in range(r.randint(1, 4))))
    return "".join(c for c in "".join(out) if not 0xD800 <= ord(c) < 0xE000)


def pattern(r):
    return {"String": r.choice([" ", "a", "ab", "▁", "  ", "\n", "é", "'"])} if r.random() < 0.4 else {"Regex": r.choice(REGEXES)}


def normalizer(r, depth=0):
    kind = r.choice("NFC NFD NFKC NFKD Lowercase Strip StripAccents BertNormalizer Replace Prepend Precompiled Nmt ByteLevel Sequence".split())
    if kind == "Sequence":
        return {"type": kind, "normalizers": [normalizer(r, depth + 1) for _ in range(r.randint(0, 3))]} if depth < 2 else None or {"type": "NFC"}
    n = {"type": kind}
    if kind == "Strip":
        n.update(strip_left=r.random() < 0.5, strip_right=r.random() < 0.5)
    if kind == "BertNormalizer":
        n.update(clean_text=r.random() < 0.7, handle_chinese_chars=r.random() < 0.7, strip_accents=r.choice([None, True, False]), lowercase=r.random() < 0.5)
    if kind == "Replace":
        n.update(pattern=pattern(r), content=r.choice(["", "▁", " ", "xy", "é"]))
    if kind == "Prepend":
        n.update(prepend=r.choice(["▁", "ab", " "]))
    if kind == "Precompiled":
        n.update(precompiled_charsmap=base64.b64encode(charsmap(r.choice(["a", "é", "e\u0301", "か", "\r", "\u00a0", "ab", "क", "©"]).encode())).decode())
    return n


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def metaspace(r):
    return {"type": "Metaspace", "replacement": r.choice(["▁", "▁", "_"]), "prepend_scheme": r.choice(["always", "first", "never"]), "split": r.random() < 0.6}


def pretokenizer(r, depth=0):
    kind = r.choice("ByteLevel ByteLevel Split Split Split Whitespace WhitespaceSplit Digits Punctuation BertPreTokenizer Metaspace CharDelimiterSplit UnicodeScripts FixedLength Sequence Sequence".split())
    if kind == "Sequence":
        return {"type": kind, "pretokenizers": [pretokenizer(r, depth + 1) for _ in range(r.randint(0, 3))]} if depth < 2 else {"type": "Whitespace"}
    if kind == "Metaspace":
        return metaspace(r)
    p = {"type": kind}
    if kind == "ByteLevel":
        p.update(add_prefix_space=r.random() < 0.4, trim_offsets=True, use_regex=r.random() < 0.6)
    if kind == "Split":
        p.update(pattern=pattern(r), behavior=r.choice(BEHAVIORS), invert=r.random() < 0.3)
    if kind == "Digits":
        p.update(individual_digits=r.random() < 0.5)
    if kind == "Punctuation":
        p.update(behavior=r.choice(BEHAVIORS))
    if kind == "CharDelimiterSplit":
        p.update(delimiter=r.choice([" ", "a", "é", "▁"]))
    if kind == "FixedLength":
        p.update(length=r.randint(1, 5))
    return p


def decoder(r, depth=0):
    kind = r.choice("ByteLevel WordPiece Metaspace ByteFallback Fuse Strip Replace CTC BPEDecoder Sequence Sequence Sequence".split())
    if kind == "Sequence":
        return {"type": kind, "decoders": [decoder(r, depth + 1) for _ in range(r.randint(0, 4))]} if depth < 2 else {"type": "Fuse"}
    if kind == "Metaspace":
        return metaspace(r)
    d = {"type": kind}
    if kind == "ByteLevel":
        d.update(add_prefix_space=True, trim_offsets=True, use_regex=True)
    if kind == "WordPiece":
        d.update(prefix=r.choice(["##", "a"]), cleanup=r.random() < 0.5)
    if kind == "Strip":
        d.update(content=r.choice([" ", "a", "▁"]), start=r.randint(0, 2), stop=0 if r.random() < 0.8 else 1)
    if kind == "Replace":
        d.update(pattern=pattern(r), content=r.choice(["", " ", "xy"]))
    if kind == "CTC":
        d.update(pad_token="<pad>", word_delimiter_token=r.choice(["|", "a"]), cleanup=r.random() < 0.5)
    if kind == "BPEDecoder":
        d.update(suffix=r.choice(["</w>", "a"]))
    return d


def pieces(r, alphabet):
    out = set()
    for _ in range(r.randint(0, 60)):
        out.add("".join(r.choice(alphabet[:12] if r.random() < 0.7 else alphabet) for _ in range(r.randint(2, 5))))
    return sorted(out)


def model(r, byte_level):
    alphabet = BYTES if byte_level else ALPHABET
    kind = r.choice("BPE BPE BPE Unigram WordPiece WordLevel".split())
    if kind == "Unigram":
        items = ["<unk>"] + (["<0x%02X>" % b for b in range(256)] if r.random() < 0.4 else [])
        items += [c for c in alphabet if r.random() < 0.8] + pieces(r, alphabet)
        vocab = [[t, 0.0 if t == "<unk>" else r.choice([-1.0, -2.5, round(r.uniform(-12, 0), 3)])] for t in items]
        return {"type": kind, "unk_id": 0, "vocab": vocab, "byte_fallback": r.random() < 0.5}
    if kind == "WordLevel":
        words = ["<unk>"] + sorted(set(pieces(r, alphabet) + list(alphabet) + ["hello", "ab", "a"]))
        return {"type": kind, "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "<unk>"}
    if kind == "WordPiece":
        words = ["[UNK]"] + [c for c in alphabet if r.random() < 0.9] + ["##" + c for c in alphabet if r.random() < 0.9] + pieces(r, alphabet) + ["##" + p for p in pieces(r, alphabet)]
        words = list(dict.fromkeys(words))
        return {"type": kind, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": r.choice([3, 20, 100]),
                "vocab": {w: i for i, w in enumerate(words)}}
    return bpe(r, alphabet, byte_level)


def bpe(r, alphabet, byte_level):
    prefix = "##" if r.random() < 0.1 else None
    suffix = "</w>" if r.random() < 0.1 else None
    tokens = ["<unk>"] if r.random() < 0.8 else []
    if r.random() < 0.4:
        tokens += ["<0x%02X>" % b for b in range(256) if r.random() < 0.999]
    base = [c for c in alphabet if byte_level or r.random() < 0.9]
    tokens += base
    if prefix:
        tokens += [prefix + c for c in base]
    if suffix:
        tokens += [c + suffix for c in base] + ([prefix + c + suffix for c in base] if prefix else [])
    tokens = list(dict.fromkeys(tokens))
    known, merges = set(tokens), []
    usable = [t for t in tokens if not t.startswith("<")]
    for _ in range(r.randint(0, 120)):
        a = r.choice(usable[:40] if r.random() < 0.5 else usable)
        b = r.choice(usable[-40:] if r.random() < 0.5 else usable)
        if prefix and not b.startswith(prefix) or suffix and a.endswith(suffix):
            continue
        joined = a + (b[len(prefix):] if prefix else b)
        if (a, b) in merges or len(joined) > 12:
            continue
        if joined not in known:
            known.add(joined)
            tokens.append(joined)
            usable.append(joined)
        merges.append((a, b))
    order = list(range(len(tokens)))
    if r.random() < 0.3:
        r.shuffle(order)
    as_text = r.random() < 0.3 and not any(" " in t for m in merges for t in m)
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>" if "<unk>" in known and r.random() < 0.8 else None, "continuing_subword_prefix": prefix,
            "end_of_word_suffix": suffix, "fuse_unk": r.random() < 0.5, "byte_fallback": r.random() < 0.5, "ignore_merges": r.random() < 0.2,
            "vocab": {t: i for t, i in zip(tokens, order)}, "merges": [" ".join(m) if as_text else list(m) for m in merges]}


def added(r, norm):
    """Two tokens of equal normalized text, or one without any, are left out: there the library's matcher has no rule."""
    f = normalizers_of(norm)
    out, seen = [], set()
    for content in r.sample(["<s>", "</s>", "[CLS]", "<unk>", "ab", "  ", " x", "é", "Hello", "<|end|>", "a b", "\n\n", "E\u0301", "HELLO", "ABX", "aab", "▁▁"], r.randint(0, 6)):
        token = {"id": 1000 + len(out), "content": content, "single_word": r.random() < 0.3, "lstrip": r.random() < 0.3, "rstrip": r.random() < 0.3,
                 "normalized": r.random() < 0.5, "special": r.random() < 0.5}
        shown = guarded(f, content) if token["normalized"] else content
        if not isinstance(shown, str) or shown == "" or shown in seen:
            continue
        seen.add(shown)
        out.append(token)
    return out


def normalizers_of(norm):
    if norm is None:
        return lambda s: s
    model = {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}
    t = Tokenizer.from_str(json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": norm,
                                       "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}))
    return t.normalizer.normalize_str


def postprocessor(r, size):
    kind = r.choice("none TemplateProcessing ByteLevel BertProcessing RobertaProcessing Sequence".split())
    cls, sep = r.randrange(size), r.randrange(size)
    if kind == "none":
        return None
    if kind == "ByteLevel":
        return {"type": kind, "add_prefix_space": True, "trim_offsets": r.random() < 0.5, "use_regex": True}
    if kind == "BertProcessing":
        return {"type": kind, "sep": ["s", sep], "cls": ["c", cls]}
    if kind == "RobertaProcessing":
        return {"type": kind, "sep": ["s", sep], "cls": ["c", cls], "trim_offsets": True, "add_prefix_space": r.random() < 0.5}
    if kind == "Sequence":
        return {"type": kind, "processors": [p for p in (postprocessor(r, size),) if p] + [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]}
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    if r.random() < 0.7:
        single.insert(0, {"SpecialToken": {"id": "c", "type_id": 0}})
    if r.random() < 0.5:
        single.append({"SpecialToken": {"id": "s", "type_id": 0}})
    return {"type": kind, "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"c": {"id": "c", "ids": [cls], "tokens": ["c"]}, "s": {"id": "s", "ids": [sep, cls], "tokens": ["s", "c"]}}}


def is_byte_level(component):
    return component is not None and '"ByteLevel"' in json.dumps(component)


def make(r):
    norm = normalizer(r) if r.random() < 0.6 else None
    pre = pretokenizer(r) if r.random() < 0.8 else None
    byte_level = is_byte_level(pre) or is_byte_level(norm)
    m = model(r, byte_level)
    dec = decoder(r) if r.random() < 0.85 else None
    if byte_level and not is_byte_level(dec):
        dec = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}  # ours decides so (cases.md 4)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(r, norm), "normalizer": norm, "pre_tokenizer": pre,
            "post_processor": postprocessor(r, len(m["vocab"])), "decoder": dec, "model": m}


class Ours:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the driver died on {request}")
        return json.loads(line)


def guarded(f, *a, **k):
    try:
        return f(*a, **k)
    except BaseException as e:  # the library panics on some inputs
        if isinstance(e, KeyboardInterrupt):
            raise
        return {"error": str(e), "panic": "Panic" in type(e).__name__}


def compare_ids(ours, theirs, ids, report):
    plain = guarded(lambda: [theirs.decode(ids, skip_special_tokens=False), theirs.decode(ids, skip_special_tokens=True)])
    got = ours.ask(decode=ids)
    if not isinstance(plain, dict) and (isinstance(got, dict) or got != plain + ["same"]):  # a dictionary: the library panicked
        report("decode", ids, plain, got)


def compare_text(ours, theirs, t, report):
    """Returns the ids, or None when the library makes none."""
    want = guarded(lambda: [theirs.encode(t, add_special_tokens=False).ids, theirs.encode(t).ids])
    got = ours.ask(encode=t)
    if isinstance(want, dict) and want["panic"]:
        return None
    if isinstance(want, dict) != isinstance(got, dict) or (isinstance(want, list) and want != got):
        report("encode", t, want, got)
    return None if isinstance(want, dict) else want[0]


def compare(ours, theirs, size, r, n_texts, report):
    for _ in range(n_texts):
        ids = compare_text(ours, theirs, text(r), report)
        if ids is None or r.random() < 0.5:
            ids = [r.randrange(size) for _ in range(r.randint(0, 12))]
        compare_ids(ours, theirs, ids, report)
    return n_texts


def kinds_of(document):
    return set(re.findall(r'"type": "(\w+)"', json.dumps({k: v for k, v in document.items() if k != "model"}))) | {document["model"]["type"]}


def write_cases(path, seed):
    """Small tokenizers until every kind of component has been there some times, with what the library makes of texts."""
    counts, cases, i = {}, [], 0
    while len(cases) < 90:
        r = random.Random(seed * 1000003 + i)
        i += 1
        document = make(r)
        kinds = kinds_of(document)
        source = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        theirs = guarded(Tokenizer.from_str, source)
        if isinstance(theirs, dict) or len(source) > 9000 or all(counts.get(k, 0) >= 8 for k in kinds):
            continue
        rows = []
        while len(rows) < 8:
            t = text(r)
            if len(t) > 60 or rows and len(t) < 3:
                continue
            ids = guarded(lambda: [theirs.encode(t, add_special_tokens=False).ids, theirs.encode(t).ids])
            if isinstance(ids, dict):
                if not ids["panic"]:
                    rows.append([t, None])
                continue
            shown = guarded(lambda: [theirs.decode(ids[1], skip_special_tokens=s) for s in (False, True)])
            rows.append([t, *ids] + ([] if isinstance(shown, dict) else shown))
        for k in kinds:
            counts[k] = counts.get(k, 0) + 1
        cases.append({"tokenizer": document, "rows": rows})
    lines = ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases)
    note = f"made by tests/differential/compare_tokenizers.py --write, with tokenizers {tokenizers.__version__}; a row: text, ids without " \
           "specials, with them, the latter decoded, the same without special tokens"
    with open(path, "w", encoding="ascii") as f:
        f.write('{"note":' + json.dumps(note) + ',"cases":[\n' + lines + "\n]}\n")
    print(dict(sorted(counts.items(), key=lambda kv: kv[1])))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("driver", nargs="?")
    p.add_argument("--write")
    p.add_argument("--rounds", type=int, default=200)
    p.add_argument("--texts", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=10)
    p.add_argument("--folder", nargs="*", default=[])
    a = p.parse_args()
    if a.write:
        return write_cases(a.write, a.seed)
    ours, differences, compared, unloaded, shown = Ours(a.driver), 0, 0, 0, -1
    jobs = [open(f + "/tokenizer.json").read() for f in a.folder] or [None] * a.rounds
    for i, job in enumerate(jobs):
        r = random.Random(a.seed * 1000003 + i)
        source = job or json.dumps(make(r))
        theirs = guarded(Tokenizer.from_str, source)
        loaded = ours.ask(load=source)
        where = a.folder[i] if job else f"seed {a.seed} round {i}"
        if isinstance(theirs, dict) or loaded != "ok":
            if isinstance(theirs, dict) != isinstance(loaded, dict):
                differences += 1
                print(where, "load: theirs", theirs if isinstance(theirs, dict) else "ok", "ours", loaded)
            unloaded += 1
            continue

        def report(what, given, want, got):
            nonlocal differences, shown
            differences += 1
            if shown == i:
                return  # one per tokenizer
            shown, a.show = i, a.show - 1
            if a.show >= 0:
                brief = {k: v for k, v in json.loads(source).items() if k != "model"} if not job else {}
                m = json.loads(source)["model"]
                flags = {k: v for k, v in m.items() if k not in ("vocab", "merges")}
                print(f"{where} {what} {given!r}\n  theirs {want}\n  ours   {got}\n  {json.dumps(brief)}\n  {json.dumps(flags)}")

        compared += compare(ours, theirs, theirs.get_vocab_size(), r, a.texts, report)
    print(f"{compared} texts on {len(jobs) - unloaded} tokenizers, {unloaded} not loadable by either, {differences} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
