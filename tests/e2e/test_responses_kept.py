"""/v1/responses: events of a kept response, conversations that are shortened, and how long a prompt is."""
import json

import pytest

from served import Served
from tape import write_tape
from test_responses import PATH, TEMPLATE, TOOL

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
CALL = ["<tool_call>", '{"name":"weer","arguments":{"stad":', '"Gent"}}', "</tool_call>"]


@pytest.fixture(scope="module")
def served(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    thinking = TEMPLATE.replace("<|assistant|>{% endif %}", "<|assistant|><think>{% endif %}{# </think> #}")
    write_tape(folder / "m", ["<think>", "hm, ", "zes", "\n</think>\n\n", "6 ", "dus", *CALL], template=thinking, context=2048)
    write_tape(folder / "short", ["Ok."], template=TURNS, context=100)
    strict = "{% if messages[-1].role == 'tool' %}{{ raise_exception('a result') }}{% endif %}" + TURNS
    write_tape(folder / "strict", ["Ok."], template=strict, context=100)
    s = Served(program, folder / "m", folder / "short", folder / "strict")
    yield s
    assert s.stop() == 0


def events_of(served, method, path, body=None):
    status, text = served.call(method, path, body)
    assert status == 200, text
    blocks = [block.split("\n") for block in text.split("\n\n") if block and not block.startswith(":")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [name.removeprefix("event: ") for name, _ in blocks] == [event["type"] for event in events]
    return events


def in_one_piece(events):
    """Deltas that follow each other, together; without numbers."""
    out = []
    for event in events:
        event = {key: value for key, value in event.items() if key != "sequence_number"}
        if "delta" in event and out and out[-1]["type"] == event["type"]:
            out[-1]["delta"] += event["delta"]
            if "logprobs" in event:
                out[-1]["logprobs"] += event["logprobs"]
        else:
            out.append(event)
    return out


@pytest.mark.parametrize("more", [{}, {"tools": [TOOL]}, {"max_output_tokens": 6}, {"top_logprobs": 1}])
def test_the_events_come_again(served, more):
    live = events_of(served, "POST", PATH, {"model": "m", "input": "hello", "temperature": 0, "stream": True} | more)
    path = f"{PATH}/{live[0]['response']['id']}"
    again = events_of(served, "GET", path + "?stream=true")
    assert in_one_piece(again) == in_one_piece(live)
    assert [event["sequence_number"] for event in again] == list(range(len(again)))
    assert again[-1]["type"] == ("response.incomplete" if "max_output_tokens" in more else "response.completed")
    for after in (0, 1, 5, len(again) - 2, len(again) - 1, 10**6):
        assert events_of(served, "GET", f"{path}?stream=true&starting_after={after}") == again[after + 1:]
    for query in ("", "?stream=false"):
        assert json.loads(served.call("GET", path + query)[1]) == again[-1]["response"]


def test_what_is_wrong_with_a_replay(served):
    _, kept = served.post(PATH, {"model": "m", "input": "hello"})
    for query, param in (("stream=yes", "stream"), ("stream=true&starting_after=x", "starting_after"), ("stream=true&starting_after=-1", "starting_after"),
                         ("stream=true&starting_after=", "starting_after"), ("starting_after=1", "starting_after"),
                         ("stream=true&starting_after=99999999999999999999", "starting_after")):
        status, text = served.call("GET", f"{PATH}/{kept['id']}?{query}")
        assert status == 400 and json.loads(text)["error"]["param"] == param, query
    assert served.call("GET", PATH + "/resp_none?stream=true")[0] == 404


def test_how_long_a_prompt_is(served):
    for more in ({}, {"instructions": "Be brief."}, {"tools": [TOOL]}, {"input": [{"role": "user", "content": "a"}]}):
        body = {"model": "m", "input": "hello", "max_output_tokens": 1} | more
        status, count = served.post(PATH + "/input_tokens", body)
        assert status == 200
        assert count == {"object": "response.input_tokens", "input_tokens": served.post(PATH, body)[1]["usage"]["input_tokens"]}
    assert served.post(PATH + "/input_tokens", {"model": "short", "input": "x" * 500})[1]["input_tokens"] == len("<|user|>" + "x" * 500) + 1
    status, answer = served.post(PATH + "/input_tokens", {"model": "m"})
    assert status == 400 and answer["error"]["param"] == "input"


def test_compacting_is_not_there(served):
    status, answer = served.post(PATH + "/compact", {"model": "m", "input": "hello"})
    assert status == 404 and "compacting is not supported" in answer["error"]["message"]


def turn(role, text):
    return {"role": role, "content": text}


def ask(served, items, model="short", **more):
    return served.post(PATH, {"model": model, "input": items, "truncation": "auto", "max_output_tokens": 1, "temperature": 0} | more)


def test_the_oldest_turns_are_dropped(served):
    """Whole ones, as many as must be; what the system says stays. The context has 100 tokens, the assistant's mark is one."""
    items = [turn("developer", "Be brief."), turn("user", "a" * 30), turn("assistant", "b" * 30), turn("user", "c" * 20), turn("user", "d" * 10)]
    kept = "<|system|>Be brief.<|user|>" + "c" * 20 + "<|user|>" + "d" * 10
    status, answer = ask(served, items)
    assert (status, answer["truncation"], answer["usage"]["input_tokens"]) == (200, "auto", len(kept) + 1)
    status, answer = ask(served, items, instructions="Hm.")
    assert answer["usage"]["input_tokens"] == len("<|system|>Hm.\n\n" + kept.removeprefix("<|system|>")) + 1
    assert ask(served, items[:3])[1]["usage"]["input_tokens"] == len("<|system|>Be brief.<|user|>" + "a" * 30 + "B" + "b" * 30)  # gone on with
    items[-1] = turn("user", "d" * 60)
    assert ask(served, items)[1]["usage"]["input_tokens"] == len("<|system|>Be brief.<|user|>" + "d" * 60) + 1
    for last in ([turn("user", "e" * 80)], [turn("user", "e"), turn("assistant", "f" * 90)]):
        status, answer = ask(served, items + last)
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    status, answer = ask(served, items[:1] + [turn("user", "a" * 90)])
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    status, answer = ask(served, items, truncation="disabled")
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"


def test_a_result_goes_with_its_call(served):
    call = {"type": "function_call", "call_id": "1", "name": "weer", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "1", "output": "b" * 60}
    items = [turn("user", "a" * 10), call, result, turn("user", "c" * 60)]
    status, answer = ask(served, items)
    assert (status, answer["usage"]["input_tokens"]) == (200, len("<|user|>" + "c" * 60) + 1)


def test_all_of_it_is_kept(served):
    """The next request is shortened anew."""
    _, first = ask(served, [turn("user", "a" * 30), turn("assistant", "b" * 30), turn("user", "c" * 30)])
    assert first["usage"]["input_tokens"] == len("<|user|>" + "c" * 30) + 1
    items = json.loads(served.call("GET", f"{PATH}/{first['id']}/input_items")[1])["data"]
    assert [item["content"][0]["text"][0] for item in items] == ["c", "b", "a"]
    _, second = ask(served, "d" * 70, previous_response_id=first["id"])
    assert second["usage"]["input_tokens"] == len("<|user|>" + "d" * 70) + 1


def test_a_template_that_fails_is_told(served):
    result = {"type": "function_call_output", "call_id": "1", "output": "b"}
    status, answer = ask(served, [turn("user", "a" * 99), result], model="strict")
    assert status == 400 and "a result" in answer["error"]["message"] and answer["error"]["param"] == "input"


def test_unknown_values(served):
    for value in ("zzz", "", 5):
        status, answer = ask(served, "hello", truncation=value)
        assert status == 400 and answer["error"]["param"] == "truncation"


def test_the_format_is_told_beside_the_verbosity(served):
    form = {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {}}}
    for text, told in (({"verbosity": "low"}, {"format": {"type": "text"}, "verbosity": "low"}), ({}, {"format": {"type": "text"}}),
                       ({"format": None, 'a"b': 1}, {"format": {"type": "text"}, 'a"b': 1}), ({"format": form}, {"format": form})):
        assert ask(served, "hello", text=text)[1]["text"] == told
