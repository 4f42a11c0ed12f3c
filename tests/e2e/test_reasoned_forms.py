"""Answers of a given form from models that think first: the form begins where the thoughts end, whether the prompt or the model
itself opens them, in every protocol and in streams."""
import json
import pathlib
import re

import pytest

import tape
from served import Served
from tape import TEMPLATE

THINKS = TEMPLATE + "{# <think> </think> <tool_call> #}"
COHERE = TEMPLATE + "{# <|START_THINKING|> #}"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
ASK = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 200}
CHOICE = {"guided_choice": ["blue", "red"]}
SCHEMA = {"type": "object", "properties": {"kleur": {"enum": ["rood"]}}, "required": ["kleur"], "additionalProperties": False}
FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
OWN = ["<think>", "hm", " then", "</think>", "\n\n", "red"]  # what the model would say


def chat(s, **fields):
    """(thoughts, text) of an answer, which its stream must add up to."""
    status, answer = s.post(CHAT, ASK | fields)
    assert status == 200, answer
    message = answer["choices"][0]["message"]
    deltas = [c["choices"][0]["delta"] for c in s.stream(CHAT, ASK | {"stream": True} | fields)]
    for key in ("reasoning_content", "content"):
        assert "".join(d.get(key) or "" for d in deltas) == (message.get(key) or "")
    return message.get("reasoning_content"), message["content"]


def blocks(s, **fields):
    """The content of an answer, without signatures; that of its stream must be the same."""
    status, answer = s.post(MESSAGES, ASK | fields)
    assert status == 200, answer
    _, text = s.call("POST", MESSAGES, ASK | {"stream": True} | fields)
    events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: ")]
    streamed = [e["delta"][key] for e in events if e["type"] == "content_block_delta" for key in ("thinking", "text", "partial_json") if key in e["delta"]]
    content = [(b["type"], b.get("thinking", b.get("text", b.get("input")))) for b in answer["content"]]
    whole = "".join(v if isinstance(v, str) else json.dumps(v) for _, v in content)
    assert "".join("".join(streamed).split()) == "".join(whole.split())
    return [(kind, json.loads(v) if v[0] == "{" else v) if kind == "text" else (kind, v) for kind, v in content]


@pytest.mark.parametrize("pieces, template, expected", [
    (OWN, THINKS, ("hm then", "red")),
    (["<th", "ink", ">\n", "hm", "</", "think>\n\n", "red"], THINKS, ("hm", "red")),  # marks of several tokens
    (["red", " wine"], THINKS, (None, "red")),  # it does not think
    (["<|START_THINKING|>", "hm", "<|END_THINKING|>", "<|START_RESPONSE|>", "red", "<|END_RESPONSE|>"], COHERE, ("hm", "red")),
])
def test_the_model_opens_its_thoughts(serve, pieces, template, expected):
    s = serve(pieces, special=[p for p in pieces if p.startswith("<|")], template=template)
    assert chat(s, **CHOICE) == expected
    assert chat(s, guided_regex="[a-z]{3}") == expected


def test_every_form_waits(serve):
    s = serve(OWN, template=THINKS, context=512)
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    thoughts, text = chat(s, response_format=wanted)
    assert thoughts == "hm then" and json.loads(text) == {"kleur": "rood"}
    assert chat(s, guided_grammar='root ::= "red" | "<tag>"') == ("hm then", "red")
    tools = [{"type": "function", "function": {"name": "verf", "parameters": SCHEMA}}]
    for choice in ("required", {"type": "function", "function": {"name": "verf"}}):
        _, answer = s.post(CHAT, ASK | {"tools": tools, "tool_choice": choice, "parallel_tool_calls": False})
        message = answer["choices"][0]["message"]
        assert message["reasoning_content"] == "hm then"
        assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [{"kleur": "rood"}]
    _, answer = s.post("/v1/responses", {"input": "hello", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}})
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message"]
    assert json.loads(answer["output"][1]["content"][0]["text"]) == {"kleur": "rood"}
    _, answer = s.post("/api/chat", {"model": "m", "messages": ASK["messages"], "format": SCHEMA, "think": True, "stream": False})
    assert answer["message"]["thinking"] == "hm then" and json.loads(answer["message"]["content"]) == {"kleur": "rood"}


def test_it_waits_in_messages(serve):
    s = serve(OWN, template=THINKS, context=512)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert blocks(s, thinking=thinking, **FORMAT) == [("thinking", "hm then"), ("text", {"kleur": "rood"})]
    tools = {"tools": [{"name": "verf", "input_schema": SCHEMA}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    assert blocks(s, thinking=thinking, **tools) == [("thinking", "hm then"), ("tool_use", {"kleur": "rood"})]
    assert blocks(s, thinking={"type": "enabled", "budget_tokens": 1}, **FORMAT) == [("thinking", "hm"), ("text", {"kleur": "rood"})]
    assert blocks(s, thinking={"type": "enabled", "budget_tokens": 1}) == [("thinking", "hm"), ("text", "red")]


def test_thoughts_are_counted(serve):
    s = serve(OWN, template=THINKS)
    for n in (1, 2):
        _, answer = s.post(CHAT, ASK | {"n": n})
        usage = answer["usage"]
        assert usage["completion_tokens"] == 7 * n and usage["completion_tokens_details"] == {"reasoning_tokens": 4 * n}  # up to "red"
    last = s.stream(CHAT, ASK | {"stream": True, "stream_options": {"include_usage": True}})[-1]["usage"]
    assert last["completion_tokens_details"] == {"reasoning_tokens": 4}
    _, answer = s.post(CHAT, ASK | CHOICE | {"reasoning_effort": "none"})
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}


def test_a_budget_in_chats(serve):
    s = serve(OWN, template=THINKS)
    assert chat(s, thinking_budget=1) == ("hm", "red") and chat(s, thinking_budget=50) == ("hm then", "red")
    assert chat(s, thinking_budget=1, **CHOICE) == ("hm", "red")


@pytest.mark.parametrize("off", [{"chat_template_kwargs": {"enable_thinking": False}}, {"chat_template_kwargs": {"thinking": False}},
                                 {"reasoning_effort": "none"}])
def test_where_thinking_is_off_the_form_begins_at_once(serve, off):
    s = serve(OWN, template=THINKS)
    thoughts, text = chat(s, **CHOICE, **off)
    assert thoughts is None and text in CHOICE["guided_choice"]
    assert [kind for kind, _ in blocks(s, **FORMAT)] == ["text"]


def test_a_prompt_that_closes_the_thoughts(serve):
    s = serve(["</think>", "<think>", "hm"], template=THINKS.replace("<|assistant|>{%", "<|assistant|><think>\n\n</think>{%"))
    thoughts, text = chat(s, **CHOICE)
    assert thoughts is None and text in CHOICE["guided_choice"]


def test_a_prefilled_answer_goes_on(serve):
    s = serve(OWN, template=THINKS.replace("\n", ""))
    _, answer = s.post(CHAT, ASK | CHOICE | {"messages": [*ASK["messages"], {"role": "assistant", "content": ""}]})
    message = answer["choices"][0]["message"]
    assert "reasoning_content" not in message and message["content"] in CHOICE["guided_choice"]


HARMONY = ("{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}"
           "<|start|>assistant{% endif %}{# <|channel|>analysis<|message|> <|channel|>commentary to=functions. #}")


@pytest.mark.parametrize("pieces", [
    ["<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "<|start|>", "assistant", "red"],
    ["<|channel|>analysis<|message|>", "hm", "<|end|>", "<|start|>", "assistant", "<|channel|>final<|message|>", "red"],
    ["<|channel|>final<|message|>", "red"],
])
def test_headers_stand_between_thoughts_and_answer(serve, monkeypatch, pieces):
    monkeypatch.setattr(tape, "END", "<|return|>")
    monkeypatch.setattr(tape, "ASSISTANT", "<|start|>assistant")
    s = serve(pieces, special=[p for p in pieces if p.startswith("<|")], template=HARMONY, context=512)
    thoughts = "hm" if "hm" in pieces else None
    assert chat(s, **CHOICE) == (thoughts, "red")
    _, answer = s.post(CHAT, ASK | {"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "verf", "parameters": SCHEMA}}]})
    message = answer["choices"][0]["message"]
    assert message.get("reasoning_content") == thoughts and message["content"] is None
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [{"kleur": "rood"}]


@pytest.fixture(scope="module")
def dice(program, tmp_path_factory):
    """A server whose model has random weights and a vocabulary of single characters: what it says, the form says."""
    golden = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "hf" / "llama"
    folder = tape.dress(golden, tmp_path_factory.mktemp("dice") / "m")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] += "{# <think> </think> <tool_call> #}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    s = Served(program, folder)
    yield s
    assert s.stop() == 0


def throw(dice, **fields):
    """Sixteen answers at a temperature where anything goes."""
    status, answer = dice.post(CHAT, ASK | {"temperature": 2, "n": 16, "thinking_budget": 3, "add_generation_prompt": True} | fields)
    assert status == 200, answer
    return [(choice["message"], choice["finish_reason"]) for choice in answer["choices"]]


@pytest.mark.parametrize("pattern", ["[a-c]{3}", "<t[0-9]|b+c?", "(?:<think)?[xy]{2}"])
def test_whatever_is_drawn_has_the_form(dice, pattern):
    """Also where the opening mark and the form begin alike."""
    drawn = [answer for seed in range(4) for answer in throw(dice, guided_regex=pattern, seed=seed)]
    assert all(finish == "stop" and re.fullmatch(pattern, message["content"]) for message, finish in drawn)
    assert {"reasoning_content" in message for message, _ in drawn} == {True, False}


@pytest.mark.parametrize("parallel", [True, False])
def test_whatever_is_drawn_is_calls_or_has_the_form(dice, parallel):
    number = {"type": "object", "properties": {"c": {"type": "integer", "minimum": 1, "maximum": 30}}, "required": ["c"],
              "additionalProperties": False}
    truth = {"type": "object", "properties": {"c": {"type": "boolean"}}, "required": ["c"], "additionalProperties": False}
    kinds = set()
    for message, finish in throw(dice, tools=[{"type": "function", "function": {"name": "w", "parameters": number}}], max_tokens=400,
                                 parallel_tool_calls=parallel, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": truth}}):
        calls = [call["function"] for call in message.get("tool_calls", [])]
        kinds.add(bool(calls))
        assert all(call["name"] == "w" and 1 <= json.loads(call["arguments"])["c"] <= 30 for call in calls)
        assert parallel or len(calls) <= 1
        if finish == "tool_calls":
            assert calls and not message["content"]
        elif finish == "stop":
            assert not calls and json.loads(message["content"])["c"] in (True, False)
    assert kinds == {True, False}
