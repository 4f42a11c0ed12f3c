"""The promise of the server: an answer has the bytes that the same request gives alone. What is compared of every step:
the id, the log-probabilities of the 20 best tokens as floats, and a hash of all logits.
"""
import json
import pathlib
import time

import pytest

from served import Served
from storm import PATH, Draw, Storm, answer_of, answers_alone, answers_in_storm
from tape import dress

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"
# the flags leave room for a few of the storm's sequences, and cut its prompts
TIGHT = ["--memory", "0.001", "--parallel", "40", "--batch", "44"]


def until(is_so, seconds=10):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()


@pytest.mark.parametrize("golden, longest", [
    ("hf/llama", 150), ("hf/mistral-swa", 150), ("hf/mamba2", 150), ("hf/mixtral", 150), ("hf/qwen3_next", 150),
    ("hf/phi3-longrope", 40),  # 16 is where its tables change
])
def test_fifty_requests_in_a_storm(program, tmp_path, golden, longest):
    model = dress(GOLDENS / golden, tmp_path / "m")
    draw = Draw(golden, longest, 24)
    bodies = [draw.request(i) for i in range(50)]
    alone = answers_alone(program, model, bodies)
    served = Served(program, model, *TIGHT)
    try:
        with Storm(served, 1, 32, longest, 24) as storm:
            found, cached = answers_in_storm(served, bodies)
        for name in ("lockstep_prefix_evicted_total", "lockstep_jobs_cancelled_total"):
            assert served.metric(name) > 0, name
        assert until(lambda: served.metric("lockstep_running") + served.metric("lockstep_waiting") == 0)
    finally:
        status = served.stop()
    assert storm.wrong == [] and storm.sent > 50 and cached > 0 and status == 0
    for body, got, expected in zip(bodies, found, alone):
        assert got == expected, body


@pytest.mark.parametrize("golden", ["hf/llama", "hf/qwen3_next"])
def test_sequences_that_give_up_their_memory_and_read_again(program, tmp_path, golden):
    """Twenty answers grow until the memory that took them all in is too small."""
    model = dress(GOLDENS / golden, tmp_path / "m")
    bodies = [{"messages": [{"role": "user", "content": f"{i} is a number"}], "max_tokens": 190, "temperature": 1, "seed": i,
               "logprobs": True, "top_logprobs": 20, "logits_hash": True, "ignore_eos": True} for i in range(20)]
    alone = answers_alone(program, model, bodies)
    served = Served(program, model, *TIGHT)
    try:
        for _ in range(10):  # whether all twenty meet is a matter of time: a model this small is done with the first in no time
            found, _ = answers_in_storm(served, bodies, workers=20)
            assert found == alone
            if served.metric("lockstep_preempted_total") > 0:
                break
        assert served.metric("lockstep_preempted_total") > 0
    finally:
        assert served.stop() == 0


@pytest.mark.parametrize("golden", ["hf/llama", "hf/qwen3_next", "hf/phi3-longrope"])
def test_a_choice_is_the_same_of_few_and_of_many(program, tmp_path, golden):
    served = Served(program, dress(GOLDENS / golden, tmp_path / "m"))
    body = {"messages": [{"role": "user", "content": "twelve chars"}], "max_tokens": 20, "temperature": 1.2, "seed": 5,
            "logprobs": True, "top_logprobs": 20, "logits_hash": True, "ignore_eos": True}
    few, _ = answer_of(served, body | {"n": 4})
    many, _ = answer_of(served, body | {"n": 9})
    assert served.stop() == 0
    assert few == many[:4] and len({choice[0] for choice in many}) == 9


@pytest.mark.parametrize("golden", ["hf/llama", "hf/mamba2", "hf/mixtral", "hf/phi3-longrope"])
def test_generate_and_the_server_agree(program, lockstep, tmp_path, golden):
    model = dress(GOLDENS / golden, tmp_path / "m")
    served = Served(program, model, *TIGHT)
    try:
        with Storm(served, 2, 8, 40, 12) as storm:
            for i, flags in enumerate((["--temp", "0"], ["--temp", "0.9", "--top-p", "0.8"], ["--temp", "1.3", "--top-k", "9"])):
                body = {"prompt": list(range(40, 52 + i)), "max_tokens": 18, "seed": i, "logprobs": 5, "logits_hash": True,
                        "temperature": float(flags[1]), "top_p": 1, "top_k": 0}
                if len(flags) > 2:
                    body[flags[2].strip("-").replace("-", "_")] = json.loads(flags[3])
                _, answer = served.post("/v1/completions", body)
                ids = ",".join(map(str, body["prompt"]))
                done = lockstep("generate", model, "--ids", ids, "-n", "18", "--seed", i, *flags, "--json", "--verbose")
                scores = answer["choices"][0]["logprobs"]
                assert scores["token_ids"] == json.loads(done.out)["ids"]
                assert scores["logits_hash"][-1] in done.err
        assert storm.wrong == []
    finally:
        assert served.stop() == 0


def test_the_default_model_in_a_storm(program, smollm2):
    draw = Draw(7, 120, 10)
    bodies = [draw.request(i) for i in range(8)]
    alone = answers_alone(program, smollm2, bodies, workers=1)
    served = Served(program, smollm2, "--memory", "0.02")
    try:
        with Storm(served, 3, 32, 60, 3) as storm:
            found, cached = answers_in_storm(served, bodies, workers=8)
    finally:
        assert served.stop() == 0
    assert storm.wrong == [] and cached > 0
    assert found == alone
