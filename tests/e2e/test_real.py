"""Real models against the float32 reference: tests/real/NAME.json, made with transformers 5.24.0 and torch 2.15.0 from the
weights of a GGUF file, widened to float32.

The models are build/models/NAME: `./dev test` puts smollm2-135m there, `./dev reference` gemma3-270m. LOCKSTEP_TEST_MODEL names
another folder for smollm2-135m.
"""
import array
import json
import math
import operator
import os
import pathlib
import struct

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REAL = {name: json.loads((ROOT / "tests" / "real" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("smollm2-135m", "gemma3-270m")}
ENDS = {"smollm2-135m": 2, "gemma3-270m": 1}
CLOSE = 0.02  # a top-2 gap under this may fall either way
RAW = [(name, case) for name, real in REAL.items() for case in real["raw"]]
CHATS = [(name, case) for name, real in REAL.items() for case in real.get("chats", [])]


def numbered(cases):
    return [f"{name}-{i}" for i, (name, _) in enumerate(cases)]


def find_model(name):
    store = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share")
    places = [ROOT / "build" / "models" / name, store / "lockstep" / "models" / name]
    if name == "smollm2-135m" and os.environ.get("LOCKSTEP_TEST_MODEL"):
        places = [pathlib.Path(os.environ["LOCKSTEP_TEST_MODEL"])]
    for place in places:
        if (place / "config.json").exists():
            return place
    pytest.skip(f"no {name} at {' or '.join(map(str, places))}: ./dev {'test' if 'smol' in name else 'reference'} fetches it")


@pytest.fixture
def model():
    return find_model("smollm2-135m")


@pytest.fixture
def messages_file(tmp_path):
    def write(messages):
        path = tmp_path / "messages.json"
        path.write_text(json.dumps(messages), encoding="utf-8")
        return path

    return write


def decided(case):
    """How many greedy ids are beyond doubt."""
    return next((i for i, gap in enumerate(case["top1_top2_gap"]) if gap < CLOSE), len(case["greedy_ids"]))


@pytest.mark.parametrize("name, case", CHATS, ids=numbered(CHATS))
def test_templates_and_ids(lockstep, messages_file, name, case):
    model = find_model(name)
    text = lockstep("template", model, "--messages", messages_file(case["messages"])).out
    assert text == case["prompt_text"]
    assert json.loads(lockstep("tokenize", model, "--no-special", "--file", "-", text_in=text).out) == case["prompt_ids"]


@pytest.mark.parametrize("name, case", RAW, ids=numbered(RAW))
def test_raw_ids(lockstep, name, case):
    assert json.loads(lockstep("tokenize", find_model(name), "--text", case["prompt_text"]).out) == case["prompt_ids"]


@pytest.mark.parametrize("name, case", CHATS + RAW, ids=numbered(CHATS + RAW))
def test_greedy_continuations(lockstep, messages_file, name, case):
    model = find_model(name)
    prompt = ["--messages", messages_file(case["messages"])] if "messages" in case else ["--prompt", case["prompt_text"]]
    result = lockstep("generate", model, *prompt, "-n", len(case["greedy_ids"]), "--kv", "f32", "--json")
    assert result.status == 0, result.err
    answer, sure = json.loads(result.out), decided(case)
    assert sure > 0 and answer["ids"][:sure] == case["greedy_ids"][:sure]
    assert answer["timings"]["prompt_tokens"] == len(case["prompt_ids"])
    if answer["ids"] == case["greedy_ids"]:
        assert answer["text"] == case["text"]
        assert answer["finish_reason"] == ("stop" if case["greedy_ids"][-1] == ENDS[name] else "length")


@pytest.mark.parametrize("name", REAL)
def test_perplexity(lockstep, name):
    expected = REAL[name]["perplexity"]
    result = lockstep("perplexity", find_model(name), "--file", "-", "--kv", "f32", "--json", text_in=expected["text"])
    got = json.loads(result.out)
    assert (got["n_ids"], got["n_scored"]) == (len(expected["ids"]), expected["n_scored"])
    assert abs(got["ppl"] / expected["ppl"] - 1) < 1e-3


def read_logits(path):
    """The rows of a trace."""
    data = path.read_bytes()
    length, = struct.unpack_from("<Q", data)
    entry = json.loads(data[8:8 + length])["logits"]
    (rows, vocab), start = entry["shape"], 8 + length + entry["data_offsets"][0]
    return [array.array("f", data[start + 4 * vocab * row:start + 4 * vocab * (row + 1)]) for row in range(rows)]


def divergence(a, b):
    """KL(softmax a || softmax b) in double: E_a[a - b] - (log Z_a - log Z_b)."""
    top_a, top_b = max(a), max(b)
    weights = [math.exp(x - top_a) for x in a]
    total = sum(weights)
    other = sum(math.exp(x - top_b) for x in b)
    mean = sum(map(operator.mul, weights, map(operator.sub, a, b))) / total
    return mean - (top_a - top_b) - math.log(total / other)


def test_the_default_is_as_good_as_float32_keys_and_values(lockstep, model, tmp_path):
    ids = ",".join(map(str, REAL["smollm2-135m"]["perplexity"]["ids"]))
    for kv in ("f32", "i16"):
        result = lockstep("trace", model, "--ids", ids, "--kv", kv, "-o", tmp_path / f"{kv}.safetensors")
        assert result.status == 0, result.err
    reference, default = (read_logits(tmp_path / f"{kv}.safetensors") for kv in ("f32", "i16"))
    assert len(reference) == len(REAL["smollm2-135m"]["perplexity"]["ids"])
    mean = sum(map(divergence, reference, default)) / len(reference)
    assert 0 < mean < 1e-6


def test_a_message_and_its_ids_give_the_same_answer(lockstep, model, messages_file):
    _, case = CHATS[0]
    by_ids = lockstep("generate", model, "--ids", ",".join(map(str, case["prompt_ids"])), "-n", 16, "--json")
    by_text = lockstep("generate", model, "--messages", messages_file(case["messages"]), "-n", 16, "--json")
    assert json.loads(by_ids.out)["ids"] == json.loads(by_text.out)["ids"] == case["greedy_ids"]
    assert json.loads(by_ids.out)["text"] == case["text"] == "The capital of France is Paris."
    run = lockstep("run", model, case["messages"][0]["content"])
    assert run.out == case["text"] + "\n"
