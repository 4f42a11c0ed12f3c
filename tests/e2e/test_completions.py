"""/v1/completions: texts that are gone on with, their scores in the legacy shape, and filling in the middle."""
import json

import pytest

from served import Served
from tape import END, write_tape

PATH = "/v1/completions"
ASK = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
FIM = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]


@pytest.fixture(scope="module")
def served(program, smollm2):
    s = Served(program, smollm2)
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="module")
def tape(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tape") / "tape"
    ids = write_tape(folder, [*FIM, "Hal", "f \u2013 ", "ov", "er"], special=FIM)
    s = Served(program, folder)
    s.ids = ids
    yield s
    assert s.stop() == 0


def test_a_text_is_gone_on_with(served):
    status, answer = served.post(PATH, ASK)
    assert status == 200 and answer["object"] == "text_completion"
    choice = answer["choices"][0]
    assert choice["text"].startswith(" Paris") and choice["finish_reason"] == "length" and choice["logprobs"] is None
    assert answer["usage"]["prompt_tokens"] == 5 and answer["usage"]["completion_tokens"] == 8


def test_the_usual_limit_is_sixteen_tokens(served):
    _, answer = served.post(PATH, {"prompt": "1, 2, 3,", "temperature": 0})
    assert answer["usage"]["completion_tokens"] == 16 and answer["choices"][0]["finish_reason"] == "length"


def test_a_stream_is_the_whole_answer_in_pieces(served):
    _, whole = served.post(PATH, ASK)
    chunks = served.stream(PATH, ASK | {"stream": True, "stream_options": {"include_usage": True}})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] == 13
    chunks = chunks[:-1]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons[-1] == "length" and reasons[:-1] == [None] * (len(chunks) - 1)


def test_several_prompts_and_choices_are_numbered_prompt_by_prompt(served):
    body = {"prompt": ["The capital of France is", "1, 2, 3, 4,"], "n": 2, "max_tokens": 6, "temperature": 0.9, "seed": 5}
    _, both = served.post(PATH, body)
    assert [choice["index"] for choice in both["choices"]] == [0, 1, 2, 3]
    for i, prompt in enumerate(body["prompt"]):
        _, alone = served.post(PATH, body | {"prompt": prompt})
        assert [c["text"] for c in alone["choices"]] == [c["text"] for c in both["choices"][2 * i:2 * i + 2]]
    chunks = served.stream(PATH, body | {"stream": True})
    texts = [""] * 4
    for chunk in chunks:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == [choice["text"] for choice in both["choices"]]


def test_ids_are_a_prompt_too(served, lockstep, smollm2):
    ids = json.loads(lockstep("tokenize", smollm2, "--text", ASK["prompt"]).out)
    _, by_text = served.post(PATH, ASK)
    _, by_ids = served.post(PATH, ASK | {"prompt": ids})
    assert by_ids["choices"] == by_text["choices"]
    _, lists = served.post(PATH, ASK | {"prompt": [ids, ids[:3]], "echo": True})
    assert [c["text"].startswith("The capital of") for c in lists["choices"]] == [True, True]
    assert lists["choices"][0]["text"] == ASK["prompt"] + by_text["choices"][0]["text"]
    for prompt, param in (([1, "a"], "prompt"), ([[1, -1]], "prompt[0]"), (["a", 7], "prompt[1]"), ([49152], "prompt"),
                          ([], "prompt"), ({}, "prompt"), (None, "prompt")):
        status, answer = served.post(PATH, ASK | {"prompt": prompt})
        assert status == 400 and answer["error"]["param"] == param, prompt


def test_scores_are_in_the_legacy_shape(served):
    _, answer = served.post(PATH, ASK | {"logprobs": 2})
    text, scores = answer["choices"][0]["text"], answer["choices"][0]["logprobs"]
    assert len(scores["tokens"]) == 8 and "".join(scores["tokens"]) == text
    for token, logprob, top, offset in zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"],
                                           scores["text_offset"]):
        assert text[offset:offset + len(token)] == token
        assert logprob <= 0 and len(top) == 2 and top[token] == logprob == max(top.values())  # greedy
    chunks = served.stream(PATH, ASK | {"logprobs": 2, "stream": True})
    for key in scores:
        parts = [chunk["choices"][0]["logprobs"][key] for chunk in chunks if chunk["choices"][0]["logprobs"]]
        assert sum(parts, []) == scores[key]
    _, answer = served.post(PATH, ASK | {"logprobs": 1, "temperature": 2, "seed": 3})
    for token, top in zip(answer["choices"][0]["logprobs"]["tokens"], answer["choices"][0]["logprobs"]["top_logprobs"]):
        assert token in top and len(top) in (1, 2)


def test_a_prompt_is_scored_as_its_own_continuation(served):
    """Echo gives the tokens of a text the very bytes that decoding gave them."""
    body = ASK | {"logprobs": 3, "logits_hash": True}
    _, decoded = served.post(PATH, body)
    whole = ASK["prompt"] + decoded["choices"][0]["text"]
    _, echoed = served.post(PATH, body | {"prompt": whole, "echo": True, "max_tokens": 0})
    choice, answer = echoed["choices"][0], decoded["choices"][0]["logprobs"]
    assert choice["text"] == whole and choice["finish_reason"] == "length"
    assert echoed["usage"]["completion_tokens"] == 0 and echoed["usage"]["prompt_tokens"] == 13
    scores = choice["logprobs"]
    assert scores["token_logprobs"][0] is None and scores["top_logprobs"][0] is None
    for key in ("tokens", "token_logprobs", "top_logprobs", "token_ids", "logits_hash"):
        assert scores[key][5:] == answer[key], key
    assert scores["text_offset"][5:] == [len(ASK["prompt"]) + offset for offset in answer["text_offset"]]
    _, both = served.post(PATH, body | {"echo": True})
    assert both["choices"][0]["text"] == whole and both["choices"][0]["logprobs"] == scores
    chunks = served.stream(PATH, body | {"echo": True, "stream": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole
    for key in scores:
        parts = [chunk["choices"][0]["logprobs"][key] for chunk in chunks if chunk["choices"][0]["logprobs"]]
        assert sum(parts, []) == scores[key]


def test_an_echo_needs_no_scores(served):
    status, answer = served.post(PATH, ASK | {"echo": True, "max_tokens": 0})
    assert status == 200 and answer["choices"][0]["text"] == ASK["prompt"] and answer["usage"]["completion_tokens"] == 0
    chunks = served.stream(PATH, ASK | {"echo": True, "max_tokens": 0, "stream": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == ASK["prompt"]


def test_stop_texts_end_it(served):
    _, answer = served.post(PATH, {"prompt": "1, 2, 3, 4,", "temperature": 0, "stop": [" 7"]})
    assert answer["choices"][0]["text"] == " 5, 6," and answer["choices"][0]["finish_reason"] == "stop"


def test_what_is_wrong_is_named(served):
    for change, param in (({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -1}, "max_tokens"), ({"best_of": 3}, "best_of"),
                          ({"n": 2, "best_of": 4}, "best_of"), ({"logprobs": 6}, "logprobs"), ({"logprobs": True}, "logprobs"),
                          ({"suffix": "x"}, "suffix"), ({"suffix": 3}, "suffix"), ({"n": 0}, "n"), ({"echo": 1}, "echo"),
                          ({"prompt": ["a"] * 129}, "prompt")):
        status, answer = served.post(PATH, ASK | change)
        assert status == 400 and answer["error"]["param"] == param, change
        assert param in answer["error"]["message"]
    assert served.post(PATH, ASK | {"n": 2, "best_of": 2})[0] == 200
    assert served.post(PATH, ASK | {"suffix": ""})[0] == 200
    status, answer = served.post(PATH, ASK | {"prompt": "a " * 9000})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"


def test_the_middle_is_filled_in(tape):
    _, answer = tape.post(PATH, {"prompt": "ab", "suffix": "cd", "temperature": 0})
    assert answer["choices"][0]["text"] == "Half \u2013 over" and answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 7  # three marks and four bytes
    status, answer = tape.post(PATH, {"prompt": [1, 2], "suffix": "cd"})
    assert status == 400 and answer["error"]["param"] == "prompt"
    status, answer = tape.post(PATH, {"prompt": "ab", "suffix": "cd", "echo": True})
    assert status == 400 and answer["error"]["param"] == "echo"


def test_offsets_count_characters(tape):
    prompt = "\u00e9\u4e2d" + FIM[2]
    _, answer = tape.post(PATH, {"prompt": prompt, "temperature": 0, "logprobs": 0, "echo": True, "max_tokens": 9})
    choice = answer["choices"][0]
    assert choice["text"] == prompt + "Half \u2013 over"
    scores = choice["logprobs"]
    assert scores["tokens"] == ["bytes:\\xc3", "bytes:\\xa9", "bytes:\\xe4", "bytes:\\xb8", "bytes:\\xad", FIM[2], "Hal",
                                "f \u2013 ", "ov", "er", END]
    assert scores["text_offset"] == [0, 0, 1, 1, 1, 2, 16, 19, 23, 25, 27]


def test_an_answer_has_the_form_that_is_asked_for(served):
    _, answer = served.post(PATH, ASK | {"guided_choice": ["Rome", "Oslo"]})
    assert answer["choices"][0]["text"] in ("Rome", "Oslo") and answer["choices"][0]["finish_reason"] == "stop"
    _, answer = served.post(PATH, ASK | {"prompt": ["a", "b"], "guided_regex": "[0-9]{3}"})
    assert all(len(c["text"]) == 3 and c["text"].isdigit() for c in answer["choices"])
    status, answer = served.post(PATH, ASK | {"guided_regex": "("})
    assert status == 400 and answer["error"]["param"] == "guided_regex"
