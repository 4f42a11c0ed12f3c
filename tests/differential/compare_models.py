#!/usr/bin/env python3
"""Compares our reading of SentencePiece models, tiktoken files and tekken.json with the libraries they come from
(sentencepiece, tiktoken, mistral_common).

  compare_models.py --write tests/data/tokenizers/models    what the unit test text/model_files checks offline
  compare_models.py DRIVER [--texts 2000] [--llama-bpe TOKENIZER_JSON]

DRIVER is tokenizer_driver.c, built with our sources. SentencePiece models are trained here on this repository's documents
(Python package sentencepiece); tiktoken's vocabulary is trained by `tokenizers`, or taken from a Llama 3 tokenizer.json,
whose ids are ranks. Exit 1 if anything differs.
"""
import argparse
import base64
import json
import pathlib
import random
import re
import sys
import tempfile

import sentencepiece
import tiktoken
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from compare_tokenizers import Ours, text

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
USER = ["<sep>", "<end>", "he", "hello", "aab", "\u2460", "\ufb01", "A", "matcher", ", "]
SPACES = ["\u2581" * k for k in range(2, 17)] + ["\n", "\n\n", "\t", "<td>", "\u2581="]  # as Gemma has them
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
KIMI = "|".join([r"[\p{Han}]+",
                 r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                 r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                 r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
SPM = [dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
       dict(model_type="bpe", byte_fallback=False), dict(model_type="bpe", user_defined_symbols=["<sep>", "<end>"], add_dummy_prefix=False,
                                                         normalization_rule_name="nfkc", remove_extra_whitespaces=False),
       dict(model_type="unigram"), dict(model_type="unigram", byte_fallback=True), dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf"),
       dict(model_type="unigram", normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False),
       dict(model_type="bpe", user_defined_symbols=USER, byte_fallback=True), dict(model_type="unigram", user_defined_symbols=USER, byte_fallback=True),
       dict(model_type="bpe", user_defined_symbols=SPACES, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False),
       dict(model_type="unigram", user_defined_symbols=SPACES, normalization_rule_name="identity", remove_extra_whitespaces=False),
       dict(model_type="bpe", user_defined_symbols=USER + SPACES, normalization_rule_name="nmt_nfkc_cf"),
       dict(model_type="unigram", user_defined_symbols=USER + SPACES, normalization_rule_name="nmt_nfkc_cf"),
       dict(model_type="char"), dict(model_type="char", user_defined_symbols=USER + SPACES)]


# SentencePiece's interface ends at a NUL; the names of control tokens are text there, tokens here
OURS = ("\0", "<s>", "</s>", "<unk>")


def words():
    files = list(ROOT.glob("README*")) + list(ROOT.glob("src/text/*.h")) + list(ROOT.glob("tests/unit/text/*.c"))
    return "\n".join(f.read_text(encoding="utf-8", errors="replace") for f in files)


def sentences(corpus, r):
    lines = [line for line in corpus.splitlines() if line.strip()]
    while True:
        kind = r.random()
        if kind < 0.3:
            yield r.choice(lines)
        elif kind < 0.7:
            yield text(r)
        else:
            yield "".join(r.choice(USER + SPACES + [" ", "  ", "h", "e", "the", "l", "\u0301"]) for _ in range(r.randint(1, 25)))


def check(name, ours, theirs, r, n, corpus, specials=()):
    """`specials`: texts that `theirs` makes tokens of, too."""
    wrong = 0
    avoid = [special for special in OURS if special not in specials]
    texts = with_names(sentences(corpus, r), specials, r) if specials else sentences(corpus, r)
    for t in (s for s, _ in zip(texts, range(n))):
        if any(special in t for special in avoid):
            continue
        want = theirs(t)
        got = ours.ask(encode=t)
        if isinstance(got, dict) or got[0] != want:
            wrong += 1
            if wrong < 4:
                print(f"  {name} {t!r}\n    theirs {want}\n    ours   {got}")
    print(f"{name}: {n} texts, {wrong} differ")
    return wrong


def check_long(name, ours, theirs, corpus):
    """Sums of scores pass the bound at which SentencePiece begins to count anew; differences there show far behind."""
    wrong = 0
    for t in (re.sub("</?s>|<unk>|\\0", "", corpus)[:200000], "\u4e2f" * 30000 + " " * 5 + "the" * 20, "hello the" * 8000):
        if not any(special in t for special in OURS) and ours.ask(encode=t)[0] != theirs(t):
            wrong += 1
            print(f"  {name}: {len(t)} characters {t[:20]!r}... differ")
    return wrong


def sentencepiece_models(ours, folder, corpus, n):
    wrong = 0
    source = folder / "corpus.txt"
    source.write_text(corpus)
    for i, options in enumerate(SPM):
        place = folder / str(i)
        place.mkdir()
        sentencepiece.SentencePieceTrainer.train(input=str(source), model_prefix=str(place / "tokenizer"), vocab_size=900, minloglevel=2,
                                                 character_coverage=0.98, hard_vocab_limit=False, **options)
        model = sentencepiece.SentencePieceProcessor(model_file=str(place / "tokenizer.model"))
        assert ours.ask(folder=str(place)) == "ok"
        name = f"sentencepiece {i} {options['model_type']}"
        wrong += check(name, ours, model.encode, random.Random(i), n, corpus)
        wrong += check_long(name, ours, model.encode, corpus)
    return wrong


def byte_level():
    printable = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


def ranks_of(tokenizer_json):
    alphabet = byte_level()
    vocab = json.loads(pathlib.Path(tokenizer_json).read_text())["model"]["vocab"]
    return {bytes(alphabet[c] for c in token): rank for token, rank in vocab.items()}


def trained_ranks(corpus):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(corpus.splitlines(), trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    alphabet = byte_level()
    return {bytes(alphabet[c] for c in token): i for i, token in enumerate(sorted(t.get_vocab(), key=t.get_vocab().get))}


def write_tiktoken(place, ranks, tokenizer_class=None):
    place.mkdir(exist_ok=True)
    lines = [base64.b64encode(token).decode() + f" {rank}\n" for token, rank in sorted(ranks.items(), key=lambda kv: kv[1])]
    (place / "tokenizer.model").write_text("".join(lines))
    if tokenizer_class:
        (place / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class}))


def write_tekken(place, ranks, version="v3", specials=None, n_special=20, more=0):
    """With `more` tokens in the file than the size in its config counts, as the published ones have; the bytes come first, as
    mistral_common wants it."""
    place.mkdir(exist_ok=True)
    tokens = [bytes([i]) for i in range(256)] + sorted((t for t in ranks if len(t) > 1), key=ranks.get)
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for rank, token in enumerate(tokens)]
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + n_special - more, "default_num_special_tokens": n_special,
              "version": version}
    root = {"config": config, "vocab": vocab}
    if specials:
        root["special_tokens"] = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(specials)]
    (place / "tekken.json").write_text(json.dumps(root, separators=(",", ":")))


def with_specials(encode, ids):
    """What a text becomes when the texts in ids are tokens: their own libraries cut them out only when told to."""
    names = re.compile("(" + "|".join(map(re.escape, sorted(ids, key=len, reverse=True))) + ")")

    def whole(t):
        return [i for part in names.split(t) for i in ([ids[part]] if part in ids else encode(part))]
    return whole


def with_names(texts, names, r):
    for t in texts:
        yield t if r.random() < 0.7 else t[:9] + r.choice(names) + r.choice(["", " ", "\n"]) + r.choice(names) + t[9:]


def tiktoken_files(ours, folder, corpus, n, ranks):
    wrong = 0
    for tokenizer_class, pattern, specials in ((None, LLAMA3, []), ("QWenTokenizer", QWEN, QWEN_SPECIALS), ("TikTokenTokenizer", KIMI, [])):
        ids = {name: len(ranks) + i for i, name in enumerate(specials)}
        encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=ids)
        place = folder / f"tiktoken-{tokenizer_class}"
        write_tiktoken(place, ranks, tokenizer_class)
        assert ours.ask(folder=str(place)) == "ok"
        wrong += check(f"tiktoken {tokenizer_class}", ours, lambda t: encoding.encode(t, allowed_special="all", disallowed_special=()), random.Random(1), n, corpus,
                       specials)
    return wrong


def tekken_files(ours, folder, corpus, n, ranks):
    wrong = 0
    specials = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]
    for i, options in enumerate((dict(), dict(version="v13", specials=specials, n_special=30), dict(version="v11", specials=specials, n_special=10, more=100))):
        place = folder / f"tekken-{i}"
        write_tekken(place, ranks, **options)
        theirs = Tekkenizer.from_file(place / "tekken.json")
        assert ours.ask(folder=str(place)) == "ok"
        ids = {theirs.id_to_piece(k): k for k in theirs.special_ids}
        encode = with_specials(lambda t: theirs.encode(t, False, False), ids)
        wrong += check(f"tekken {i}", ours, encode, random.Random(2), n, corpus, list(ids))
        r = random.Random(3)
        for _ in range(n // 10):  # any tokens in any order: their bytes need not make characters
            some = [r.randrange(theirs.num_special_tokens, theirs.n_words) for _ in range(r.randint(1, 9))]
            want, got = theirs.decode(some, SpecialTokenPolicy.KEEP), ours.ask(decode=some)
            if got != [want, want, "same"]:
                wrong += 1
                print(f"  tekken {i} decode {some}\n    theirs {want!r}\n    ours   {got}")
    return wrong


def write_models(folder, corpus):
    """Small files and what their libraries make of 60 texts each."""
    def save(name, encode, seed):
        r = random.Random(seed)
        texts = [t for t, _ in zip((t for t in sentences(corpus, r) if 0 < len(t) < 60 and not any(special in t for special in OURS)), range(60))]
        rows = [[t, encode(t)] for t in texts]
        (folder / name / "rows.json").write_text("[" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "]\n")

    (folder / "corpus.txt").write_text(corpus)
    (folder / "rules.tsv").write_text("41\t61\n42\t62\nE9\t65\n65 301\t65\nA0\t20\n2026\t2E 2E 2E\n")
    for name, options in (("spm-bpe", dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)),
                          ("spm-unigram", dict(model_type="unigram", normalization_rule_tsv=str(folder / "rules.tsv"), user_defined_symbols=["aab"])),
                          ("spm-bpe-user", dict(model_type="bpe", byte_fallback=True, normalization_rule_tsv=str(folder / "rules.tsv"), user_defined_symbols=USER + SPACES)),
                          ("spm-unigram-user", dict(model_type="unigram", normalization_rule_tsv=str(folder / "rules.tsv"), user_defined_symbols=USER + SPACES,
                                                    remove_extra_whitespaces=False)),
                          ("spm-characters", dict(model_type="char", normalization_rule_tsv=str(folder / "rules.tsv"), user_defined_symbols=["he", "hello"]))):
        (folder / name).mkdir(exist_ok=True)
        sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / name / "tokenizer"), vocab_size=700,
                                                 minloglevel=2, character_coverage=0.98, hard_vocab_limit=False, **options)
        (folder / name / "tokenizer.vocab").unlink()
        save(name, sentencepiece.SentencePieceProcessor(model_file=str(folder / name / "tokenizer.model")).encode, len(name))
    ranks = dict(sorted(trained_ranks(corpus).items(), key=lambda kv: kv[1])[:600])
    for name, tokenizer_class, pattern in (("tiktoken", None, LLAMA3), ("qwen-tiktoken", "QWenTokenizer", QWEN), ("kimi-tiktoken", "TikTokenTokenizer", KIMI)):
        write_tiktoken(folder / name, ranks, tokenizer_class)
        save(name, tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary, 1)
    write_tekken(folder / "tekken", ranks)
    theirs = Tekkenizer.from_file(folder / "tekken" / "tekken.json")
    save("tekken", lambda t: theirs.encode(t, False, False), 2)
    (folder / "corpus.txt").unlink()
    (folder / "rules.tsv").unlink()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("driver", nargs="?")
    p.add_argument("--write")
    p.add_argument("--texts", type=int, default=2000)
    p.add_argument("--llama-bpe")
    a = p.parse_args()
    corpus = words()
    if a.write:
        return write_models(pathlib.Path(a.write), corpus)
    ours = Ours(a.driver)
    with tempfile.TemporaryDirectory() as folder:
        wrong = sentencepiece_models(ours, pathlib.Path(folder), corpus, a.texts)
        ranks = ranks_of(a.llama_bpe) if a.llama_bpe else trained_ranks(corpus)
        wrong += tiktoken_files(ours, pathlib.Path(folder), corpus, a.texts, ranks)
        wrong += tekken_files(ours, pathlib.Path(folder), corpus, a.texts, ranks)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
