"""Tools that no call could be written of, in every protocol; and calls that are calls whatever a schema leaves open."""
import json

import pytest

from served import Served

USER = [{"role": "user", "content": "hello"}]
OBJECT = {"type": "object", "properties": {"pad": {"type": "string"}}}
BAD_NAMES = ["", 'a b"c\n', "a b", 'a"b', "a<b", "a{b", "a,b", "a\\b", "a\0b", "é", "x" * 129]
GOOD_NAMES = ["get_weather", "mcp__files__read-file", "files/read.text:2", "A", "9", "x" * 128]
OR_NULL = [{"type": ["object", "null"]}, {"anyOf": [OBJECT, {"type": "null"}]}]
BAD_SCHEMAS = [{"type": "string"}, {"type": ["string", "null"]}, {"enum": ["a"]}, {"const": 1},
               {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}, "object", [OBJECT], True]
GOOD_SCHEMAS = [OBJECT, {"type": "object"}, {"properties": {}}, {"$ref": "#/$defs/a", "$defs": {"a": OBJECT}}, {"anyOf": [OBJECT]}, *OR_NULL]


def ask(protocol, name, schema):
    """A path and a body with one tool that must be called."""
    function = {"name": name, "parameters": schema}
    if protocol == "messages":
        return "/v1/messages", {"messages": USER, "max_tokens": 60, "tools": [{"name": name, "input_schema": schema}],
                                "tool_choice": {"type": "any"}}
    if protocol == "responses":
        return "/v1/responses", {"input": "hello", "max_output_tokens": 60, "tools": [{"type": "function"} | function], "tool_choice": "required"}
    tools = [{"type": "function", "function": function}]
    if protocol == "ollama":
        return "/api/chat", {"model": "m", "messages": USER, "stream": False, "tools": tools, "options": {"num_predict": 1}}
    return "/v1/chat/completions", {"messages": USER, "max_tokens": 60, "tools": tools, "tool_choice": "required"}


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages", "ollama"])
def test_what_can_not_be_called_is_refused(serve, protocol):
    s = serve(["Ok."], context=2048)

    def refused(name, schema):
        status, answer = s.post(*ask(protocol, name, schema))
        assert status == 400, (name, schema, answer)
        error = answer["error"]
        return error if isinstance(error, str) else error["message"]

    for name in BAD_NAMES:
        message = refused(name, OBJECT)
        assert "tools[0]" in message and "name" in message
    for schema in BAD_SCHEMAS:
        message = refused("lees", schema)
        assert "tools[0]" in message and "object" in message
    for name in GOOD_NAMES:
        status, answer = s.post(*ask(protocol, name, OBJECT))
        assert status == 200, (name, answer)
    for schema in GOOD_SCHEMAS + ([None] if protocol != "messages" else []):
        status, answer = s.post(*ask(protocol, "lees", schema))
        assert status == 200, (schema, answer)


def test_a_call_has_its_name_and_an_object(program, smollm2):
    s = Served(program, smollm2)
    short = {"type": "object", "properties": {"pad": {"enum": ["a", "b"]}}, "required": ["pad"]}
    for name, schema in [(name, short) for name in GOOD_NAMES] + [("lees", open_one) for open_one in (None, {}, {"description": "x"}, *OR_NULL)]:
        path, body = ask("chat", name, schema)
        _, answer = s.post(path, body | {"max_tokens": 200, "temperature": 0, "parallel_tool_calls": False})
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        assert call["function"]["name"] == name
        assert arguments["pad"] in ("a", "b") if schema is short else isinstance(arguments, dict)
    assert s.stop() == 0


def test_a_tool_of_another_type_is_named(serve):
    s = serve(["Ok."])
    for tool in ({"type": "custom", "custom": {"name": "shell"}}, {"type": "custom", "name": "shell"}):
        status, answer = s.post("/v1/chat/completions", {"messages": USER, "tools": [tool]})
        assert status == 400 and answer["error"]["param"] == "tools[0]"
        assert answer["error"]["message"] == "tools[0]: tools of type 'custom' (shell) are not supported, only functions"
