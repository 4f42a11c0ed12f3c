"""Anthropic's API over HTTP: /v1/messages and /v1/messages/count_tokens, on models that play their answer."""
import http.client
import json
import time

import pytest

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
HERMES = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# <think> </think> <tool_call> #}"
THINKING = TURNS + "{% if add_generation_prompt %}<|assistant|><think>{% if not enable_thinking %}</think>{% endif %}{% endif %}"
TOOLS = [{"name": "lees", "description": "Leest.", "input_schema": {"type": "object", "properties": {"pad": {"type": "string"}}}}]
ASK = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}


def create(s, **fields):
    return s.post("/v1/messages", ASK | fields)


def stream(s, **fields):
    """(name, data) of each event."""
    status, text = s.call("POST", "/v1/messages", ASK | {"stream": True} | fields)
    assert status == 200
    events = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert all(name == data["type"] for name, data in events)
    return events


def content_of(events):
    """What the blocks of a stream add up to; their numbers must have no gaps."""
    blocks, is_open = [], False
    for name, data in events:
        if name == "content_block_start":
            assert not is_open and data["index"] == len(blocks)
            blocks.append(data["content_block"] | ({"input": ""} if data["content_block"]["type"] == "tool_use" else {}))
            is_open = True
        elif name == "content_block_delta":
            assert is_open and data["index"] == len(blocks) - 1
            key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
                   "input_json_delta": "partial_json"}[data["delta"]["type"]]
            blocks[-1]["input" if key == "partial_json" else key] += data["delta"][key]
        elif name == "content_block_stop":
            assert is_open and data["index"] == len(blocks) - 1
            is_open = False
    assert not is_open
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"] or "{}")
    return blocks


def test_thinking_then_a_call(serve):
    """cases.md, number 19."""
    s = serve(["<think>", "add", " them", "</think>", "\n\n", '<tool_call>{"name":"lees",', '"arguments":{"pad":"a.txt"}}', "</tool_call>"],
              template=HERMES)
    events = [e for e in stream(s, tools=TOOLS) if e[0] != "ping"]
    names = [name for name, data in events if name != "content_block_delta"]
    assert names == ["message_start", "content_block_start", "content_block_stop", "content_block_start", "content_block_stop",
                     "message_delta", "message_stop"]
    assert events[0][1]["message"]["content"] == [] and events[0][1]["message"]["stop_reason"] is None
    assert events[0][1]["message"]["usage"]["input_tokens"] > 0
    assert events[-2][1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert events[-2][1]["usage"]["output_tokens"] == 9
    blocks = content_of(events)
    assert [block["type"] for block in blocks] == ["thinking", "tool_use"]
    assert blocks[0]["thinking"].strip() == "add them" and blocks[0]["signature"]
    assert blocks[1]["name"] == "lees" and blocks[1]["input"] == {"pad": "a.txt"} and blocks[1]["id"].startswith("toolu_")
    status, whole = create(s, tools=TOOLS)
    assert status == 200 and whole["stop_reason"] == "tool_use" and whole["role"] == "assistant" and whole["type"] == "message"
    blocks[1]["id"] = whole["content"][1]["id"]  # drawn
    assert whole["content"] == blocks


def test_calls_side_by_side(serve):
    """cases.md, number 12, in this protocol."""
    s = serve(["Ok.", '<tool_call>{"name":"lees","arguments":{"pad":"a.txt"}}', "</tool_call>\n",
               '<tool_call>{"name":"lees","arguments":{"pad":"b.txt"}}', "</tool_call>"], template=HERMES)
    _, two = create(s, tools=TOOLS)
    assert [block.get("input") for block in two["content"]] == [None, {"pad": "a.txt"}, {"pad": "b.txt"}]
    assert len({block.get("id") for block in two["content"]}) == 3
    for ask in (lambda **fields: create(s, **fields), lambda **fields: (200, {"content": content_of(stream(s, **fields))})):
        _, one = ask(tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        assert [block.get("input") for block in one["content"]] == [None, {"pad": "a.txt"}]
    _, none = create(s, tools=TOOLS, tool_choice={"type": "none"})
    assert [block["type"] for block in none["content"]] == ["text"] and none["stop_reason"] == "end_turn"


def test_a_call_that_is_not_json(serve):
    """cases.md, number 13, in this protocol."""
    bad = '<tool_call>{"name":"lees","arguments":{"re":"\\d+"}}</tool_call>'
    s = serve([bad], template=HERMES)
    events = stream(s, tools=TOOLS)
    assert content_of(events) == [{"type": "text", "text": bad, "citations": None}]
    assert events[-2][1]["delta"]["stop_reason"] == "end_turn" and events[-1][0] == "message_stop"
    assert create(s, tools=TOOLS)[1]["content"][0]["text"] == bad


@pytest.mark.parametrize("thinking, pieces, blocks", [
    ({"type": "enabled", "budget_tokens": 1024}, ["<think>", "add", "</think>", "six"], ["add", "six"]),
    ({"type": "disabled"}, ["</think>", "six"], ["six"]),
    (None, ["</think>", "six"], ["six"]),
])
def test_thinking_is_asked_for(serve, thinking, pieces, blocks):
    s = serve(pieces, template=THINKING)
    _, answer = create(s, thinking=thinking)
    assert [block.get("text") or block["thinking"] for block in answer["content"]] == blocks


def test_a_choice_of_tools_is_kept(serve):
    """cases.md, number 14, in this protocol. The model's own answer would be "Red"."""
    s = serve(["Red"], template=HERMES, context=512)
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {"pad": {"enum": [name + ".txt"]}}, "required": ["pad"],
                                             "additionalProperties": False}} for name in ("lees", "wis")]
    for choice, names in (({"type": "tool", "name": "wis"}, {"wis"}), ({"type": "any", "disable_parallel_tool_use": True}, {"lees", "wis"})):
        _, answer = create(s, tools=tools, tool_choice=choice, max_tokens=300)
        (call,) = answer["content"]
        assert call["name"] in names and call["input"] == {"pad": call["name"] + ".txt"} and answer["stop_reason"] == "tool_use"
        (call,) = content_of(stream(s, tools=tools, tool_choice=choice, max_tokens=300))
        assert call["input"] == {"pad": call["name"] + ".txt"}
    for tools, choice in ((tools, {"type": "tool", "name": "weg"}), ([], {"type": "any"}), (tools, {"type": "soms"})):
        status, answer = create(s, tools=tools, tool_choice=choice)
        assert status == 400 and "tool_choice" in answer["error"]["message"]


def test_answers_have_the_form_that_is_asked_for(serve):
    s = serve(["Red"], context=512)
    schema = {"type": "object", "properties": {"kleur": {"enum": ["rood"]}}, "required": ["kleur"], "additionalProperties": False}
    _, answer = create(s, output_config={"format": {"type": "json_schema", "schema": schema}}, max_tokens=200)
    assert json.loads(answer["content"][0]["text"]) == {"kleur": "rood"} and answer["stop_reason"] == "end_turn"
    old = {"output_format": {"type": "json_schema", "schema": schema}}  # as it was called before
    _, answer = create(s, **old, max_tokens=200)
    assert json.loads(answer["content"][0]["text"]) == {"kleur": "rood"}
    status, answer = create(s, **old, output_config={"format": old["output_format"]})
    assert status == 400 and "two forms" in answer["error"]["message"]
    status, answer = create(s, output_format={"type": "xml"})
    assert status == 400 and "output_format" in answer["error"]["message"]
    status, answer = create(s, output_config={"format": {"type": "json_schema"}})
    assert status == 400 and "output_config.format" in answer["error"]["message"]


def test_a_budget_closes_the_thinking(serve):
    s = serve(["<think>", "add", " and", " on", " and on", "</think>", "six"], template=THINKING)
    for budget, thoughts in ((2, "add and"), (3, "add and on"), (50, "add and on and on")):
        _, answer = create(s, thinking={"type": "enabled", "budget_tokens": budget})
        assert [block.get("thinking", block.get("text")) for block in answer["content"]] == [thoughts, "six"]


def test_stop_sequences(serve):
    """cases.md, number 5, in this protocol."""
    s = serve(["Red", " apple", " pie", " now"])
    for stops, text, reason, which in ((["zzz", "ple p"], "Red ap", "stop_sequence", "ple p"), (["pie now!"], "Red apple pie now", "end_turn", None)):
        _, answer = create(s, stop_sequences=stops)
        assert answer["content"] == [{"type": "text", "text": text, "citations": None}]
        assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, which)
        events = stream(s, stop_sequences=stops)
        assert content_of(events) == answer["content"]
        assert events[-2][1]["delta"] == {"stop_reason": reason, "stop_sequence": which}


def test_limits(serve):
    """cases.md, number 17, in this protocol."""
    s = serve(["Red", " apple", " pie"])
    _, answer = create(s, max_tokens=2)
    assert answer["content"][0]["text"] == "Red apple" and answer["stop_reason"] == "max_tokens"
    for change in ({"max_tokens": -1}, {"max_tokens": None}, {"max_tokens": "3"}):
        status, answer = create(s, **change)
        assert status == 400 and "max_tokens" in answer["error"]["message"]
    status, answer = create(s, messages=[{"role": "user", "content": "a" * 300}])
    assert status == 400 and "256" in answer["error"]["message"]


def test_no_tokens_reads_the_prompt(serve):
    s = serve(["Red"], context=1024)
    prompt = [{"role": "user", "content": "a" * 700}]
    status, first = create(s, messages=prompt, max_tokens=0)
    assert status == 200 and first["content"] == [] and first["stop_reason"] == "max_tokens"
    assert first["usage"]["output_tokens"] == first["usage"]["cache_read_input_tokens"] == 0
    n = first["usage"]["input_tokens"]
    _, second = create(s, messages=prompt)
    assert second["content"][0]["text"] == "Red"
    assert second["usage"]["cache_read_input_tokens"] == n - 1 and second["usage"]["input_tokens"] == 1
    assert [e[1]["usage"]["cache_read_input_tokens"] for e in stream(s, messages=prompt) if e[0] == "message_delta"] == [n - 1]
    assert s.post("/v1/messages/count_tokens", {"model": "m", "messages": prompt}) == (200, {"input_tokens": n})


def test_the_prompt(serve):
    """Every byte is a token here, so counts tell how the prompt was made."""
    s = serve(["Red"], template=HERMES + "{{ tools | length if tools else '' }}")

    def count(text, **fields):
        status, answer = s.post("/v1/messages/count_tokens", {"model": "m"} | fields)
        assert (status, answer) == (200, {"input_tokens": len(text)})

    user = [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}]
    count("<|user|>hi\nA", messages=user)
    count("<|system|>brief\n<|user|>hi\nA", messages=user, system=[{"type": "text", "text": "brief"}])
    count("<|user|>hi\nA1", messages=user, tools=TOOLS)
    count("<|user|>hi\nA", messages=user, tools=TOOLS, tool_choice={"type": "none"})
    turn = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "lees", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}]}
    count("<|user|>hi\nA\n<|tool|>Error: no\nA", messages=[*user, turn, result])


def test_the_answer_goes_on_from_a_beginning(serve):
    s = serve(["Red", " apple", " pie"], template="{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if not loop.last %}\n{% endif %}"
              "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
    _, answer = create(s, messages=[*ASK["messages"], {"role": "assistant", "content": "Red apple"}])
    assert answer["content"] == [{"type": "text", "text": " pie", "citations": None}]


def test_what_is_wrong_is_named(serve):
    s = serve(["Red"], template=HERMES)
    picture = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]
    for change, name in (({"messages": []}, "messages"), ({"messages": {}}, "messages"),
                         ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
                         ({"messages": [{"role": "user", "content": picture}]}, "messages[0].content[0]"),
                         ({"temperature": "hot"}, "temperature"), ({"stop_sequences": [""]}, "stop_sequences"), ({"stop_sequences": "a"}, "stop_sequences"),
                         ({"system": 3}, "system"), ({"thinking": {"type": "maybe"}}, "thinking"),
                         ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
                         ({"tool_choice": {"type": "any"}}, "tool_choice"), ({"tool_choice": "auto"}, "tool_choice"),
                         ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "weg"}}, "tool_choice")):
        status, answer = create(s, **change)
        assert status == 400, change
        assert answer["type"] == "error" and answer["error"]["type"] == "invalid_request_error" and answer["request_id"]
        assert name in answer["error"]["message"]
    status, text = s.call("POST", "/v1/messages", b'{"a":1')
    assert status == 400 and json.loads(text)["type"] == "error"


def leave_open(s, **fields):
    """A stream that nobody reads."""
    connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    connection.request("POST", "/v1/messages", json.dumps(ASK | {"stream": True} | fields).encode())
    connection.getresponse()
    return connection


def wait_for(s, line):
    """Until the metrics have it."""
    for _ in range(500):
        if line in s.call("GET", "/metrics")[1].splitlines():
            return
        time.sleep(0.02)
    raise AssertionError(f"{line}: it does not come")


def test_too_many_at_once(serve):
    """cases.md, number 26, in this protocol: whoever leaves makes room."""
    s = serve(["Red", " apple"], "--parallel", "1", "--queue", "1", loop=True, context=60000)
    one = leave_open(s, max_tokens=50000)
    wait_for(s, 'lockstep_running{model="m"} 1')
    two = leave_open(s, max_tokens=50000)
    wait_for(s, 'lockstep_waiting{model="m"} 1')
    status, answer = create(s)
    assert status == 529 and answer["type"] == "error" and answer["error"]["type"] == "overloaded_error"
    two.close()
    one.close()
    wait_for(s, 'lockstep_running{model="m"} 0')
    wait_for(s, 'lockstep_jobs_cancelled_total{model="m"} 2')
    status, answer = create(s, max_tokens=3)
    assert status == 200 and answer["content"][0]["text"] == "Red appleRed"
