"""The real chat templates and tokenizers in build/reference (prepare.py) beside transformers and Python `tokenizers`, and random
tokenizers. `./dev reference` runs this; LOCKSTEP_TEXTS=100000 makes it take that many random texts for each tokenizer."""
import json
import os
import random

import pytest

import compare_models
import compare_tokenizers
import option_cases
import templates
from prepare import FOLDER, ROOT
from tokenizers import Tokenizer

TEXTS = int(os.environ.get("LOCKSTEP_TEXTS", "500"))
TEMPLATES = sorted(path.stem for path in (FOLDER / "templates").glob("*.jinja"))
TOKENIZERS = sorted(path.name for path in (FOLDER / "tokenizers").iterdir())
STRINGS = json.loads((ROOT / "tests" / "data" / "tokenizers" / "strings.json").read_text())


@pytest.fixture(scope="module")
def driver():
    return compare_tokenizers.Ours(str(FOLDER / "driver"))


class Differences:
    """What compare_tokenizers.compare reports to."""

    def __init__(self):
        self.found = []

    def __call__(self, what, given, want, got):
        self.found.append(f"{what} {given!r}\n  theirs {want}\n  ours   {got}")

    def check(self):
        assert not self.found, f"{len(self.found)} differences\n" + "\n".join(self.found[:3])


def test_there_are_templates_and_tokenizers():
    assert len(TEMPLATES) >= 60 and len(TOKENIZERS) >= 9


@pytest.mark.parametrize("name", TEMPLATES)
def test_template(name):
    template = (FOLDER / "templates" / f"{name}.jinja").read_bytes().decode()
    got = templates.ours(str(ROOT / "build" / "lockstep"), template, list(templates.CONVERSATIONS.values()))
    for (title, conversation), (text, error) in zip(templates.CONVERSATIONS.items(), got, strict=True):
        want, want_error = templates.expected(template, conversation)
        assert "CRASH" not in (error or ""), error
        assert text == want, f"{title}: reference {want_error}, lockstep {error}"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizer(driver, name):
    path = FOLDER / "tokenizers" / name / "tokenizer.json"
    theirs, differences, r = Tokenizer.from_file(str(path)), Differences(), random.Random(name)
    assert driver.ask(folder=str(path.parent)) == "ok"
    for text in STRINGS:
        compare_tokenizers.compare_text(driver, theirs, text, differences)
    compare_tokenizers.compare(driver, theirs, theirs.get_vocab_size(), r, TEXTS, differences)
    differences.check()


@pytest.mark.parametrize("name", TOKENIZERS)
def test_long_runs(driver, name):
    path, differences = FOLDER / "tokenizers" / name / "tokenizer.json", Differences()
    theirs = Tokenizer.from_file(str(path))
    assert driver.ask(folder=str(path.parent)) == "ok"
    for run in ("a", " ", "\n", "0", "\u00e9", "\u4e2d", "\u2581", ".", "\U0001f44d", "\r\n", " a", "'s", "\u2581a", "\u1100\u1161"):
        compare_tokenizers.compare_text(driver, theirs, run * 5000, differences)
    differences.check()


@pytest.mark.parametrize("seed", range(5))
def test_random_tokenizers(driver, seed):
    differences = Differences()
    for i in range(40):
        r = random.Random(seed * 1000003 + i)
        source = json.dumps(compare_tokenizers.make(r))
        theirs = compare_tokenizers.guarded(Tokenizer.from_str, source)
        loaded = driver.ask(load=source)
        assert isinstance(theirs, dict) == isinstance(loaded, dict), source
        if loaded == "ok":
            compare_tokenizers.compare(driver, theirs, theirs.get_vocab_size(), r, max(1, TEXTS // 20), differences)
    differences.check()


def test_every_option(driver):
    assert list(option_cases.differences(driver)) == []


def test_sentencepiece_models(driver, tmp_path):
    assert compare_models.sentencepiece_models(driver, tmp_path, compare_models.words(), TEXTS) == 0


@pytest.mark.parametrize("files", [compare_models.tiktoken_files, compare_models.tekken_files])
def test_ranked_vocabularies(driver, tmp_path, files):
    corpus = compare_models.words()
    assert files(driver, tmp_path, corpus, TEXTS, compare_models.trained_ranks(corpus)) == 0
