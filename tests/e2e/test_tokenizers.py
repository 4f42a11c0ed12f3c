"""Tokenizers of five real models on 442 strings each: ids, text and streamed text as Python `tokenizers` gives them.

tests/data/tokenizers holds the tokenizer.json files (xz), the strings, and per model the expected rows; tokenizers 0.23.3
made them. Ids come from `lockstep tokenize --jsonl`; text from the driver of the differential test, built here against the
library, because one process has to decode thousands of lists.
"""
import json
import lzma
import pathlib
import shutil
import subprocess

import pytest

from conftest import ROOT

DATA = ROOT / "tests" / "data" / "tokenizers"
MODELS = ["smollm2", "gpt-2", "llama-spm", "phi-3", "bert-bge"]


@pytest.fixture(scope="session")
def strings():
    return json.loads((DATA / "strings.json").read_text())


@pytest.fixture(scope="session", params=MODELS)
def model(request, tmp_path_factory):
    """(folder with tokenizer.json, expected results)."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "tokenizer.json").write_bytes(lzma.decompress((DATA / f"{request.param}.tokenizer.json.xz").read_bytes()))
    return folder, json.loads((DATA / f"{request.param}.json").read_text())


@pytest.fixture(scope="session")
def driver(program, tmp_path_factory):
    library = pathlib.Path(program).parent / "liblockstep.a"
    compiler = shutil.which("gcc") or shutil.which("clang")
    if not library.exists() or compiler is None:
        pytest.skip("no liblockstep.a beside the program, or no compiler")
    path = tmp_path_factory.mktemp("driver") / "driver"
    source = ROOT / "tests" / "differential" / "tokenizer_driver.c"
    command = [compiler, "-std=c11", f"-I{ROOT / 'src'}", "-o", path, source, library, "-lpcre2-8", "-lm", "-pthread"]
    subprocess.run(list(map(str, command)), check=True)
    return path


def ask(driver, requests):
    text = "".join(json.dumps(r) + "\n" for r in requests).encode()
    done = subprocess.run([str(driver)], input=text, capture_output=True, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


@pytest.mark.parametrize("special", [True, False])
def test_ids(lockstep, model, strings, tmp_path, special):
    folder, expected = model
    lines = tmp_path / "strings.jsonl"
    lines.write_text("".join(json.dumps(s) + "\n" for s in strings))
    result = lockstep("tokenize", folder, "--jsonl", lines, *([] if special else ["--no-special"]))
    assert result.status == 0, result.err
    got = [json.loads(line) for line in result.out.splitlines()]
    prefix, suffix = (expected["special_prefix"], expected["special_suffix"]) if special else ([], [])
    wrong = [(s, g, row["ids"]) for s, g, row in zip(strings, got, expected["rows"]) if g != prefix + row["ids"] + suffix]
    assert len(got) == len(strings) == len(expected["rows"])
    assert not wrong


def test_text_whole_and_streamed(driver, model, strings):
    folder, expected = model
    load = {"load": (folder / "tokenizer.json").read_text()}
    answers = ask(driver, [load] + [{"decode": row["ids"]} for row in expected["rows"]])
    assert answers[0] == "ok"
    wrong = []
    for s, row, got in zip(strings, expected["rows"], answers[1:]):
        text = row.get("decoded", s)
        if got != [text, row.get("decoded_skip_special", text), "same"]:
            wrong.append((row["ids"], got, text))
    assert len(answers) == len(strings) + 1
    assert not wrong
