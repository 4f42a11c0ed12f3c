"""Commands that need no tokenizer, on a golden of a few thousand weights: greedy ids are the reference's own."""
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LLAMA = ROOT / "tests" / "goldens" / "mlx" / "llama"
GOLDEN = json.loads((LLAMA / "golden.json").read_text())
PROMPT = ",".join(map(str, GOLDEN["prompts"]["short"]))
ANSWER = GOLDEN["continuation"]["short"]


def generate(lockstep, *flags, ids=PROMPT):
    result = lockstep("generate", LLAMA, "--ids", ids, "--json", *flags)
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_greedy_continuation(lockstep):
    answer = generate(lockstep, "-n", 16, "--kv", "f32")
    assert list(answer) == ["ids", "text", "finish_reason", "timings"]
    assert answer["ids"] == ANSWER and answer["finish_reason"] == "length"
    assert answer["timings"]["prompt_tokens"] == 5 and answer["timings"]["generated_tokens"] == 16


def test_plain_output_without_a_tokenizer_is_the_ids(lockstep):
    result = lockstep("generate", LLAMA, "--ids", PROMPT, "-n", 3)
    assert (result.status, result.out, result.err) == (0, json.dumps(ANSWER[:3]).replace(" ", "") + "\n", "")


@pytest.mark.parametrize("flags", [["--threads", 1], ["--threads", 2], ["--isa", "scalar"], ["--kv", "f16"],
                                   ["--ctx", 21], ["--temp", 1, "--top-k", 1], ["--temp", 0.7, "--min-p", 1]])
def test_what_may_not_change_these_ids(lockstep, flags):
    assert generate(lockstep, "-n", 16, *flags)["ids"] == ANSWER


def test_the_context_ends_an_answer(lockstep):
    answer = generate(lockstep, "--ctx", 8)
    assert answer["ids"] == ANSWER[:3] and answer["finish_reason"] == "length"
    assert generate(lockstep, "--ctx", 5)["ids"] == []


def test_the_end_token_ends_an_answer_and_is_in_it(lockstep):
    prompt = ",".join(map(str, GOLDEN["prompts"]["long"]))
    assert GOLDEN["continuation"]["long"][3] == 2  # config.json: eos_token_id
    answer = generate(lockstep, "-n", 16, "--kv", "f32", ids=prompt)
    assert answer["ids"] == GOLDEN["continuation"]["long"][:4] and answer["finish_reason"] == "stop"


def test_a_seed_fixes_the_answer_and_is_reported(lockstep):
    flags = ["-n", 16, "--temp", 3]
    first = generate(lockstep, *flags, "--seed", 7)
    assert first["seed"] == 7 and first == {**generate(lockstep, *flags, "--seed", 7), "timings": first["timings"]}
    assert generate(lockstep, *flags, "--seed", 8)["ids"] != first["ids"]
    drawn = lockstep("generate", LLAMA, "--ids", PROMPT, "--json", *flags)
    seed = json.loads(drawn.out)["seed"]
    assert drawn.err == f"seed {seed}\n"
    assert generate(lockstep, *flags, "--seed", seed)["ids"] == json.loads(drawn.out)["ids"]


def test_logit_bias_and_penalties(lockstep):
    assert generate(lockstep, "-n", 1, "--logit-bias", "77=1e5")["ids"] == [77]
    without = generate(lockstep, "-n", 1, "--logit-bias", f"{ANSWER[0]}=-inf")["ids"]
    assert without != ANSWER[:1]
    assert len(set(generate(lockstep, "-n", 16, "--frequency-penalty", 1000)["ids"])) == 16


def test_ids_from_a_file_and_from_standard_input(lockstep, tmp_path):
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(GOLDEN["prompts"]["short"]) + "\n")
    for source, text in ((path, ""), ("-", PROMPT), ("/dev/stdin", PROMPT.replace(",", "\n"))):
        result = lockstep("generate", LLAMA, "--ids-file", source, "-n", 4, "--json", text_in=text)
        assert json.loads(result.out)["ids"] == ANSWER[:4]


def test_trace_does_not_depend_on_chunks_or_width(lockstep, tmp_path):
    plain, other = tmp_path / "plain.safetensors", tmp_path / "other.safetensors"
    ids = ",".join(map(str, GOLDEN["prompts"]["long"]))
    assert lockstep("trace", LLAMA, "--ids", ids, "-o", plain).status == 0
    for flags in (["--chunks", "5,4,3"], ["--width", 7], ["--threads", 1], ["--isa", "scalar"]):
        result = lockstep("trace", LLAMA, "--ids-file", "-", "-o", other, *flags, text_in=ids)
        assert result.status == 0, result.err
        assert other.read_bytes() == plain.read_bytes()
    assert sorted(p.name for p in tmp_path.glob("*.safetensors*")) == ["other.safetensors", "plain.safetensors"]


def test_compare_with_the_golden(lockstep, tmp_path):
    trace = tmp_path / "trace.safetensors"
    ids = ",".join(map(str, GOLDEN["prompts"]["long"]))
    assert lockstep("trace", LLAMA, "--ids", ids, "--kv", "f32", "-o", trace).status == 0
    good = lockstep("compare", LLAMA / "golden.safetensors", trace)
    assert good.status == 0, good.out + good.err
    over = lockstep("compare", LLAMA / "golden.safetensors", trace, "--tol", "1e-9")
    assert over.status == 1 and over.err == ""


def test_verbose_ends_with_a_hash_that_repeats(lockstep):
    first = lockstep("generate", LLAMA, "--ids", PROMPT, "-n", 4, "--verbose").err.splitlines()
    again = lockstep("generate", LLAMA, "--ids", PROMPT, "-n", 4, "--verbose", "--threads", 1).err.splitlines()
    assert first[-1].startswith("last logits ") and first[-1] == again[-1]
    assert "kv i16  activations 16" in "".join(first)
    f32 = lockstep("generate", LLAMA, "--ids", PROMPT, "-n", 4, "--verbose", "--kv", "f32").err.splitlines()
    assert f32[-1] != first[-1]


def test_check_inspect_and_bench(lockstep):
    check = lockstep("check", LLAMA)
    assert check.status == 0 and check.out.startswith("exact")
    inspect = lockstep("inspect", LLAMA)
    assert inspect.status == 0 and "llama" in inspect.out
    bench = lockstep("bench", LLAMA, "-p", 16, "-n", 4, "--batch", "1,3", "--reps", 1, "--json")
    assert bench.status == 0, bench.err
    result = json.loads(bench.out)
    assert set(result["batch"]) == {"1", "3"}
    assert all(result[key] > 0 for key in ("prefill_tps", "decode_tps", "decode_gbps", "read_gbps"))
    table = lockstep("bench", LLAMA, "-p", 16, "-n", 4, "--batch", "0", "--reps", 1)
    assert table.status == 0 and len(table.out.splitlines()) == 2


def test_an_unknown_config_key_stops_loading_until_it_is_ignored(lockstep, tmp_path):
    for path in LLAMA.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((LLAMA / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "frobnication_factor": 2}))
    refused = lockstep("generate", tmp_path, "--ids", "1", "-n", 1)
    assert refused.status == 1 and "frobnication_factor" in refused.err and "--ignore-config" in refused.err
    assert lockstep("generate", tmp_path, "--ids", "1", "-n", 1, "--ignore-config", "frobnication_factor").status == 0


def test_the_store(lockstep, tmp_path):
    store = tmp_path / "data" / "lockstep" / "models"
    assert lockstep("list").status == 0
    (store / "tiny").mkdir(parents=True)
    for path in LLAMA.glob("*.*"):
        (store / "tiny" / path.name).write_bytes(path.read_bytes())
    assert "tiny" in lockstep("list").out
    assert json.loads(lockstep("generate", "tiny", "--ids", PROMPT, "-n", 2, "--json").out)["ids"] == ANSWER[:2]
    assert lockstep("rm", "tiny").status == 0
    assert not (store / "tiny").exists() and "tiny" not in lockstep("list").out
    assert lockstep("rm", "../../etc").status == 1
