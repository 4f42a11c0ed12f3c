#!/usr/bin/env python3
"""Compares our reading of SentencePiece models, tiktoken files and tekken.json with the libraries they come from.

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
import sys
import tempfile

import sentencepiece
import tiktoken

from compare_tokenizers import Ours, text

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPM = [dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
       dict(model_type="bpe", byte_fallback=False), dict(model_type="bpe", user_defined_symbols=["<sep>", "<end>"], add_dummy_prefix=False,
                                                         normalization_rule_name="nfkc", remove_extra_whitespaces=False),
       dict(model_type="unigram"), dict(model_type="unigram", byte_fallback=True), dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf"),
       dict(model_type="unigram", normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False)]


# SentencePiece's interface ends at a NUL; the names of control tokens are text there, tokens here
OURS = ("\0", "<s>", "</s>", "<unk>")


def words():
    files = list(ROOT.glob("README*")) + list(ROOT.glob("src/text/*.h")) + list(ROOT.glob("tests/unit/text/*.c"))
    return "\n".join(f.read_text(encoding="utf-8", errors="replace") for f in files)


def sentences(corpus, r):
    lines = [line for line in corpus.splitlines() if line.strip()]
    while True:
        yield r.choice(lines) if r.random() < 0.4 else text(r)


def check(name, ours, theirs, r, n, corpus):
    wrong = 0
    for t in (s for s, _ in zip(sentences(corpus, r), range(n))):
        if any(special in t for special in OURS):
            continue
        want = theirs(t)
        got = ours.ask(encode=t)
        if isinstance(got, dict) or got[0] != want:
            wrong += 1
            if wrong < 4:
                print(f"  {name} {t!r}\n    theirs {want}\n    ours   {got}")
    print(f"{name}: {n} texts, {wrong} differ")
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
        wrong += check(f"sentencepiece {options}", ours, model.encode, random.Random(i), n, corpus)
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


def write_tiktoken(place, ranks):
    place.mkdir(exist_ok=True)
    lines = [base64.b64encode(token).decode() + f" {rank}\n" for token, rank in sorted(ranks.items(), key=lambda kv: kv[1])]
    (place / "tokenizer.model").write_text("".join(lines))


def write_tekken(place, ranks):
    place.mkdir(exist_ok=True)
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for token, rank in ranks.items()]
    config = {"pattern": LLAMA3, "default_vocab_size": len(ranks) + 20, "default_num_special_tokens": 20}
    (place / "tekken.json").write_text(json.dumps({"config": config, "vocab": vocab}, separators=(",", ":")))


def tiktoken_files(ours, folder, corpus, n, ranks):
    encoding = tiktoken.Encoding("x", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    write_tiktoken(folder / "tiktoken", ranks)
    assert ours.ask(folder=str(folder / "tiktoken")) == "ok"
    wrong = check("tiktoken", ours, encoding.encode_ordinary, random.Random(1), n, corpus)
    write_tekken(folder / "tekken", ranks)
    assert ours.ask(folder=str(folder / "tekken")) == "ok"
    return wrong + check("tekken", ours, lambda t: [i + 20 for i in encoding.encode_ordinary(t)], random.Random(2), n, corpus)


def write_models(folder, corpus):
    """Four small files and what their libraries make of 60 texts each."""
    def save(name, encode, seed):
        r = random.Random(seed)
        texts = [t for t, _ in zip((t for t in sentences(corpus, r) if 0 < len(t) < 60 and not any(special in t for special in OURS)), range(60))]
        rows = [[t, encode(t)] for t in texts]
        (folder / name / "rows.json").write_text("[" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "]\n")

    (folder / "corpus.txt").write_text(corpus)
    (folder / "rules.tsv").write_text("41\t61\n42\t62\nE9\t65\n65 301\t65\nA0\t20\n2026\t2E 2E 2E\n")
    for name, options in (("spm-bpe", dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)),
                          ("spm-unigram", dict(model_type="unigram", normalization_rule_tsv=str(folder / "rules.tsv"), user_defined_symbols=["aab"]))):
        (folder / name).mkdir(exist_ok=True)
        sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / name / "tokenizer"), vocab_size=700,
                                                 minloglevel=2, character_coverage=0.98, hard_vocab_limit=False, **options)
        (folder / name / "tokenizer.vocab").unlink()
        save(name, sentencepiece.SentencePieceProcessor(model_file=str(folder / name / "tokenizer.model")).encode, len(name))
    ranks = dict(sorted(trained_ranks(corpus).items(), key=lambda kv: kv[1])[:600])
    encoding = tiktoken.Encoding("x", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    write_tiktoken(folder / "tiktoken", ranks)
    save("tiktoken", encoding.encode_ordinary, 1)
    write_tekken(folder / "tekken", ranks)
    save("tekken", lambda t: [i + 20 for i in encoding.encode_ordinary(t)], 2)
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
        wrong += tiktoken_files(ours, pathlib.Path(folder), corpus, a.texts, ranks_of(a.llama_bpe) if a.llama_bpe else trained_ranks(corpus))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
