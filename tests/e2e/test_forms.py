"""Answers of a given form: what a form may cost, and what a schema may hold."""
import json
import threading
import time

CHAT = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 40}
AMBIGUOUS = ("the grammar (a pattern, schema or list of choices) is too ambiguous: too many ways through it have to be "
             "followed at once")
# 26,000 places to be in, and others after every letter
ALPHABETS = "(" + "".join(f"{chr(c)}?" for c in range(ord("a"), ord("z") + 1)) + "){500}"


def content(s, **form):
    status, answer = s.post(CHAT, ASK | form)
    assert status == 200, answer
    return answer["choices"][0]["message"]["content"]


def schema(value):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": value}}}


def tool(strict=None):
    function = {"name": "f", "parameters": {"type": "object", "properties": {"list": {"type": "array", "uniqueItems": True}}}}
    return {"type": "function", "function": function | ({} if strict is None else {"strict": strict})}


def test_a_pattern_of_many_ways_is_followed(serve):
    s = serve(["Ok."], context=1024)
    assert content(s, guided_regex="((a?){500}){4}a{500}", max_tokens=3) == "aaa"
    assert set(content(s, guided_regex="(a?){500}a{500}")) == {"a"}


def test_what_has_too_many_ways_is_refused(serve):
    s = serve(["Ok."], context=1024)
    for pattern, param in ("((a?){16384}){200}", "guided_regex"), (ALPHABETS, None):
        status, answer = s.post(CHAT, ASK | {"guided_regex": pattern})
        assert (status, answer["error"]["message"], answer["error"]["param"]) == (400, AMBIGUOUS, param)
    status, answer = s.post(CHAT, ASK | {"guided_regex": "x" + ALPHABETS})  # known after a token
    assert (status, answer["error"]["message"]) == (500, AMBIGUOUS)
    assert content(s) == "Ok."


def test_others_go_on_beside_the_worst_patterns(serve):
    s = serve(["Ok."], context=1024)
    patterns = ["x" + ALPHABETS, "((a?){500}){4}a{500}", "(" + "|".join(f"[a-z]*{c}[a-z]{{20}}" for c in "abcdef") + ")"]
    worst = [threading.Thread(target=s.post, args=(CHAT, ASK | {"guided_regex": p})) for p in patterns]
    for thread in worst:
        thread.start()
    before = time.monotonic()
    assert content(s) == "Ok."
    assert time.monotonic() - before < 20  # it was never
    for thread in worst:
        thread.join()


def test_fifty_thousand_choices(serve):
    s = serve(["Ok."], context=1024)
    choices = [f"item/{i:05} of the list" for i in range(50000)]
    assert content(s, guided_choice=choices) in choices
    assert json.loads(content(s, **schema({"enum": choices}))) in choices
    assert content(s, guided_regex="|".join(choices)) in choices
    assert content(s, guided_grammar="root ::= " + " | ".join(f'"{c}"' for c in choices)) in choices


def test_unknown_keywords_and_formats_are_annotations(serve):
    s = serve(["Ok."], context=1024)
    cat = {"type": "object", "properties": {"kind": {"const": "cat", "enumNames": ["a cat"]}}, "required": ["kind"]}
    pets = {"oneOf": [{"$ref": "#/$defs/%C3%BC%20x"}], "discriminator": {"propertyName": "kind"}, "propertyOrdering": ["kind"],
            "$defs": {"ü x": cat}}
    assert json.loads(content(s, **schema(pets), max_tokens=200)) == {"kind": "cat"}
    for known in {"format": "path"}, {"format": "uri", "minLength": 1, "maxLength": 2083}, {"contentEncoding": "base64"}:
        status, answer = s.post(CHAT, ASK | schema({"type": "string"} | known))
        assert status == 200, answer


def test_assertions_that_can_not_be_kept_are_refused(serve):
    s = serve(["Ok."], context=1024)
    for kept_not in {"type": "array", "uniqueItems": True}, {"type": "boolean", "not": {"const": True}}, {"type": "object", "if": {}}:
        status, answer = s.post(CHAT, ASK | schema(kept_not))
        assert status == 400 and "is not supported here" in answer["error"]["message"]
    status, answer = s.post(CHAT, ASK | schema({"type": "string", "pattern": "^a\0b$"}))
    assert (status, answer["error"]["message"]) == (400, "no text fits the grammar")
    status, answer = s.post(CHAT, ASK | {"guided_regex": "a\0b"})
    assert (status, answer["error"]["message"]) == (400, "'guided_regex' holds a NUL")


def test_only_a_strict_tool_promises_what_its_schema_says(serve):
    s = serve(['<tool_call>\n{"name": "f", "arguments": ', '{"any": [1]}', "}\n</tool_call>"], context=1024)
    for strict in None, False:
        _, answer = s.post(CHAT, ASK | {"tools": [tool(strict)], "tool_choice": "required"})
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"any": [1]}
    status, answer = s.post(CHAT, ASK | {"tools": [tool(True)], "tool_choice": "required"})
    assert (status, answer["error"]["message"]) == (400, 'the parameters of f: the schema: "uniqueItems" is not supported here')
