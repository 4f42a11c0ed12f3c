"""What a chat says that is wrong is told with what would be right, and never passed over."""
import pytest

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "hello"}
LEES = {"type": "function", "function": {"name": "lees", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def s(serve):
    return serve(["Red", " apple", " pie"])


def refused(s, **fields):
    status, answer = s.post(CHAT, {"messages": [USER]} | fields)
    assert status == 400, fields
    return answer["error"]["param"], answer["error"]["message"]


def test_an_empty_list_of_calls_is_none(s):
    """So the assistant's last message is still where the answer goes on from, and templates see no calls."""
    last = {"role": "assistant", "content": "Red"}
    answers = [s.post(CHAT, {"messages": [USER, last | more], "temperature": 0})[1]["choices"][0]["message"]["content"]
               for more in ({}, {"tool_calls": []}, {"tool_calls": None})]
    assert answers == [" apple pie"] * 3
    status, answer = s.post("/apply-template", {"messages": [USER, last | {"tool_calls": []}, USER]})
    assert (status, answer["prompt"]) == (200, "<|user|>hello\n<|assistant|>Red\n<|user|>hello\n<|assistant|>")


@pytest.mark.parametrize("calls, param", [
    ("x", "messages[1].tool_calls"), ({"name": "lees"}, "messages[1].tool_calls"), (5, "messages[1].tool_calls"),
    ([5], "messages[1].tool_calls[0]"), ([{"function": "lees"}], "messages[1].tool_calls[0]"),
    ([LEES, {"type": "function", "function": {"arguments": "{}"}}], "messages[1].tool_calls[1]")])
def test_calls_that_are_none(s, calls, param):
    got, message = refused(s, messages=[USER, {"role": "assistant", "content": "", "tool_calls": calls}, USER])
    assert got == param and message.startswith(param + ": it must ")


@pytest.mark.parametrize("part, why", [
    ({"type": "text"}, "'text' must be a string"), ({"type": "text", "text": 5}, "'text' must be a string"), ({}, "'text' must be a string"),
    ({"type": "refusal"}, "'refusal' must be a string"), (5, "this model takes parts of text only"),
    ({"type": "image_url"}, "this model takes parts of text only, not 'image_url'")])
def test_a_part_without_text(s, part, why):
    assert refused(s, messages=[{"role": "user", "content": [part]}]) == ("messages[0].content[0]", "messages[0].content[0]: " + why)


@pytest.mark.parametrize("field, value, why", [
    ("max_tokens", 2**31, "at most 2147483647"), ("max_tokens", -1, "at least 0"), ("max_tokens", 2**70, "at most 2147483647"),
    ("max_tokens", -2**70, "at least 0"), ("top_k", 2**40, "at most 2147483647"), ("top_k", -2, "at least -1"),
    ("n", 65, "from 1 to 64"), ("temperature", 100.5, "from 0 to 100"),
    ("seed", 2**64, "from -9223372036854775808 to 18446744073709551615"), ("seed", -2**63 - 1, "from -9223372036854775808 to 18446744073709551615")])
def test_the_bound_that_is_passed_is_told(s, field, value, why):
    assert refused(s, **{field: value}) == (field, f"'{field}' is {value}: it must be {why}")


def test_seeds_of_64_bits(s):
    """Signed or not: the bits count."""
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 1, -1, -2**63):
        assert s.post(CHAT, {"messages": [USER], "seed": seed, "max_tokens": 1})[0] == 200
    for wrong in (1.5, "1", 1e19, True):
        assert refused(s, seed=wrong) == ("seed", "'seed' must be an integer")
    hot = {"prompt": "x", "temperature": 50, "max_tokens": 12}
    texts = [s.post("/v1/completions", hot | {"seed": seed})[1]["choices"][0]["text"] for seed in (-1, 2**64 - 1, -2, 1)]
    assert texts[0] == texts[1] and len(set(texts)) == 3


def test_modes_of_allowed_tools(s):
    for mode, inner in (("zzz", True), ("zzz", False), (5, True)):
        allowed = {"mode": mode, "tools": [LEES]}
        choice = {"type": "allowed_tools"} | ({"allowed_tools": allowed} if inner else allowed)
        assert refused(s, tools=[LEES], tool_choice=choice) == ("tool_choice", "the mode of allowed_tools must be auto or required")
