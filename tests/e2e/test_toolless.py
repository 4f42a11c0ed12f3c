"""Tools and models whose chat template has no place for them: they are told in words, and what the model answers is read."""
import json

from tape import TEMPLATE

CHAT = "/v1/chat/completions"
LEES = {"type": "function", "function": {"name": "lees", "description": "Leest.", "parameters": {
    "type": "object", "properties": {"pad": {"type": "string"}}, "required": ["pad"]}}}
ASK = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 100}
CALL = '<tool_call>\n{"name": "lees", "arguments": {"pad":"a.txt"}}\n</tool_call>'
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + TEMPLATE


def prompt(s, messages, **fields):
    status, answer = s.post("/apply-template", {"messages": messages, "tools": [LEES]} | fields)
    assert status == 200, answer
    return answer["prompt"]


def test_tools_are_told_in_the_systems_message(serve):
    s = serve(["Ok."])
    text = prompt(s, ASK["messages"])
    system, rest = text.split("\n<|user|>")
    assert system.startswith("<|system|>You can call tools.") and rest.startswith("hello\n")
    (line,) = [line for line in system.split("\n") if line.startswith('{"type"')]
    assert json.loads(line) == LEES
    both = prompt(s, [{"role": "system", "content": "Be brief."}, *ASK["messages"]])
    assert both == text.replace("<|system|>", "<|system|>Be brief.\n\n")
    plain = prompt(s, ASK["messages"], tools=None)
    assert plain.startswith("<|user|>hello\n") and prompt(s, ASK["messages"], tool_choice="none") == plain


def test_a_template_that_refuses_a_system(serve):
    s = serve(["Ok."], template=NO_SYSTEM)
    text = prompt(s, ASK["messages"])
    assert text.startswith("<|user|>You can call tools.") and "\n\nhello\n" in text
    assert prompt(s, ASK["messages"], tools=None).startswith("<|user|>hello\n")


def test_calls_and_results_are_part_of_what_was_said(serve):
    s = serve(["Ok."])
    calls = [{"id": str(i), "type": "function", "function": {"name": "lees", "arguments": arguments}}
             for i, arguments in enumerate(('{"pad":"a.txt"}', {"pad": "b.txt"}, "no JSON"))]
    history = [*ASK["messages"], {"role": "assistant", "content": "I look.", "tool_calls": calls},
               {"role": "tool", "tool_call_id": "0", "content": "A"}, {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "B"}]},
               {"role": "user", "content": "Seen?"}]
    said = "\n".join(CALL.replace('{"pad":"a.txt"}', arguments) for arguments in ('{"pad":"a.txt"}', '{"pad": "b.txt"}', '"no JSON"'))
    told, text = prompt(s, history).split("\n<|user|>", 1)
    assert told.startswith("<|system|>You can call tools.") and text == (
        "hello\n<|assistant|>I look.\n" + said + "\n"
        "<|user|><tool_response>\nA\n</tool_response>\n<tool_response>\nB\n</tool_response>\n<|user|>Seen?\n<|assistant|>")


    assert prompt(s, history, tools=None).startswith("<|user|>hello\n<|assistant|>I look.\n<|tool|>A\n")  # as the template has it


def test_the_models_call_is_read(serve):
    s = serve(["Ok.", "<tool_call>\n", '{"name": "lees", "arguments": {"pad":"a.txt"}}', "\n</tool_call>"], context=1024)
    _, answer = s.post(CHAT, ASK | {"tools": [LEES]})
    choice = answer["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("lees", {"pad": "a.txt"})
    assert choice["message"]["content"] == "Ok." and choice["finish_reason"] == "tool_calls"
    _, answer = s.post(CHAT, ASK)
    assert answer["choices"][0]["message"]["content"] == "Ok." + CALL
    _, answer = s.post("/v1/messages", ASK | {"tools": [{"name": "lees", "input_schema": LEES["function"]["parameters"]}]})
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"] and answer["stop_reason"] == "tool_use"
    assert "tools" in s.post("/api/show", {"model": "m"})[1]["capabilities"]


def test_a_forced_call_needs_no_description(serve):
    """Where it would leave no room; the model's choice, though, would be one without knowing, so there it is refused."""
    s = serve(["Ok."], context=256)
    _, answer = s.post(CHAT, ASK | {"tools": [LEES], "tool_choice": "required"})
    assert answer["usage"]["prompt_tokens"] == len("<|user|>hello\nA")
    status, answer = s.post(CHAT, ASK | {"tools": [LEES]})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
