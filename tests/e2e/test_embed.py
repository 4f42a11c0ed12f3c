"""embed as a person runs it: on the goldens by ids, and on the real all-MiniLM-L6-v2 by text, against sentence-transformers in
float32 (tests/real/minilm.json, made by make_minilm.py there). `./dev test` fetches that model into build/models.
"""
import base64
import json
import math
import pathlib
import struct

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDENS = ROOT / "tests" / "goldens" / "embed"
BERT = GOLDENS / "bert"
REAL = json.loads((ROOT / "tests" / "real" / "minilm.json").read_text(encoding="utf-8"))
LONG = json.loads((BERT / "golden.json").read_text())["prompts"]["long"]


def text_of(ids):
    return ",".join(map(str, ids))


def vectors(result):
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


@pytest.fixture(scope="module")
def minilm():
    folder = ROOT / "build" / "models" / "all-minilm-l6-v2"
    if not (folder / "config.json").exists():
        pytest.skip("build/models/all-minilm-l6-v2 is not there: ./dev test fetches it")
    return folder


def test_a_line_per_text_and_one_object_as_json(lockstep):
    flags = ["--ids", "1,2,3", "--ids", text_of(LONG)]
    lines = vectors(lockstep("embed", BERT, *flags))
    assert [len(v) for v in lines] == [64, 64] and lines[0] != lines[1]
    result = lockstep("embed", BERT, *flags, "--json")
    assert json.loads(result.out) == {"embeddings": lines, "tokens": [3, 40]}


@pytest.mark.parametrize("golden", ["bert", "bert-cls", "embeddinggemma", "modernbert", "nomic_bert", "qwen3_embedding", "xlm_roberta"])
def test_a_batch_threads_and_instruction_sets_change_no_byte(lockstep, golden):
    folder = GOLDENS / golden
    texts = [LONG[:n] for n in (1, 40, 7, 33, 2, 16, 17)]
    alone = "".join(lockstep("embed", folder, "--ids", text_of(ids)).out for ids in texts)
    together = [flag for ids in texts for flag in ("--ids", text_of(ids))]
    for more in ([], ["--threads", 1], ["--threads", 3], ["--isa", "scalar"]):
        assert lockstep("embed", folder, *together, *more).out == alone


@pytest.mark.parametrize("flags, says", [
    (["--ids", text_of(range(1, 66))], "text 0 has 65 tokens, more than the 64 that this model takes"),
    (["--ids", "5", "--ids", ""], "text 1 has no tokens"),
    (["--ids", "5,128"], "text 0: token id 128 is outside the vocabulary of 128"),
    (["--ids", "5", "--prompt-name", "query"], 'this model has no prompt "query", and no other'),
])
def test_what_can_not_be_embedded(lockstep, flags, says):
    result = lockstep("embed", BERT, *flags)
    assert (result.status, result.out) == (1, "") and says in result.err


def test_an_encoder_does_not_generate(lockstep):
    for command in (["generate", BERT, "--ids", "1,2"], ["bench", BERT, "-p", 4, "-n", 4, "--batch", 0]):
        result = lockstep(*command)
        assert result.status == 1 and "no output head: it gives a vector of each text (lockstep embed)" in result.err


def test_inspect_says_how_vectors_are_made(lockstep):
    said = lockstep("inspect", GOLDENS / "embeddinggemma").out
    assert "embeddings: the mean of all rows, dense 64 to 256, dense 256 to 64, brought to length 1; 64 values" in said
    said = lockstep("inspect", ROOT / "tests" / "goldens" / "mlx" / "llama").out
    assert "embeddings: no modules.json, so as usual for a decoder the last row, brought to length 1" in said


def test_minilm_equals_sentence_transformers(lockstep, minilm):
    size = REAL["dims"]
    flat = struct.unpack(f"<{len(REAL['texts']) * size}e", base64.b64decode(REAL["vectors"]))
    flags = [flag for text in REAL["texts"] for flag in ("--text", text)]
    result = lockstep("embed", minilm, *flags)
    got = vectors(result)
    assert "were cut" in result.err  # some are longer than the model's 256 tokens
    near = [cosine(v, flat[i * size:(i + 1) * size]) for i, v in enumerate(got)]
    assert len(near) == 200 and min(near) >= 0.99999, (min(near), REAL["texts"][near.index(min(near))])
    assert all(abs(math.hypot(*v) - 1) < 1e-6 for v in got)


def test_minilm_takes_a_line_per_text(lockstep, minilm, tmp_path):
    texts = ["Hello", "", "The cat sits outside."]
    path = tmp_path / "texts"
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    flags = [flag for text in texts for flag in ("--text", text)]
    assert lockstep("embed", minilm, "--file", path).out == lockstep("embed", minilm, *flags).out


def test_minilm_is_exact(lockstep, minilm):
    result = lockstep("check", minilm, timeout=600)
    assert result.status == 0 and result.out.startswith("exact: "), result.out
