"""Answers taken apart: `template --replies` on texts, `generate --parse` and `run` on a model that plays them."""
import json

import pytest

from tape import ASSISTANT, END, write_tape

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.reasoning_content or '' }}{{ m.content }}\n{% endfor %}"
# What the comment shows is all that a template needs to imply a form.
HERMES = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# </think> <tool_call> #}"
THINKING = TURNS + "{% if add_generation_prompt %}<|assistant|><think>{% if off %}</think>{% endif %}{% endif %}"
KIMI = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# <|tool_call_argument_begin|> #}"
TOOLS = [{"type": "function", "function": {"name": "zoek", "parameters": {"properties": {"n": {"type": "integer"}}}}}]


def write(folder, name, value):
    path = folder / name
    path.write_text(json.dumps(value) if not isinstance(value, str) else value, encoding="utf-8")
    return path


def parse(lockstep, folder, *flags):
    messages = write(folder.parent, "messages.json", [{"role": "user", "content": "hello"}])
    result = lockstep("generate", folder, "--messages", messages, "--parse", *flags)
    assert (result.status, result.err) == (0, "")
    return json.loads(result.out)


def call(n, arguments, name="zoek", ident=None):
    return {"id": ident or f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_two_calls(lockstep, tmp_path):
    """cases.md, number 12."""
    write_tape(tmp_path / "tape", ["Ok.\n", "<tool_", "call>{\"name\":\"lees\",", "\"arguments\":{\"pad\":\"a.txt\"}}", "</tool_call>\n",
                                   "<tool_call>{\"name\":\"lees\",\"arguments\":{\"pad\":\"b.txt\"}}", "</tool_call>"], template=HERMES)
    tools = write(tmp_path, "tools.json", TOOLS)
    calls = [call(0, '{"pad":"a.txt"}', "lees"), call(1, '{"pad":"b.txt"}', "lees")]
    got = parse(lockstep, tmp_path / "tape", "--tools", tools)
    assert got == {"role": "assistant", "content": "Ok.", "tool_calls": calls}
    whole = parse(lockstep, tmp_path / "tape", "--tools", tools, "--json")
    assert whole["message"] == got and whole["finish_reason"] == "stop" and whole["text"].startswith("Ok.\n<tool_call>{")
    assert "tool_calls" not in parse(lockstep, tmp_path / "tape")  # no tools: none can be called
    assert parse(lockstep, tmp_path / "tape", "--tool-parser", "hermes") == got
    assert "tool_calls" not in parse(lockstep, tmp_path / "tape", "--tools", tools, "--tool-parser", "none")


def test_a_call_that_is_not_json(lockstep, tmp_path):
    """cases.md, number 13."""
    bad = "<tool_call>{\"name\":\"zoek\",\"arguments\":{\"re\":\"\\d+\"}}</tool_call>"
    write_tape(tmp_path / "tape", [bad], template=HERMES)
    got = parse(lockstep, tmp_path / "tape", "--tools", write(tmp_path, "tools.json", TOOLS))
    assert got == {"role": "assistant", "content": bad}


@pytest.mark.parametrize("kwargs, pieces, content, reasoning", [
    ({}, ["<think>", "add\n", "</thi", "nk>", "\n\n", "six"], "six", "add"),
    ({"off": True}, ["</think>", "six"], "six", None),
])
def test_reasoning_that_the_prompt_opened(lockstep, tmp_path, kwargs, pieces, content, reasoning):
    """cases.md, number 11."""
    write_tape(tmp_path / "tape", pieces, template=THINKING)
    got = parse(lockstep, tmp_path / "tape", "--kwargs", json.dumps(kwargs))
    assert (got["content"], got.get("reasoning_content")) == (content, reasoning)
    shown = lockstep("run", tmp_path / "tape", "hello", "--kwargs", json.dumps(kwargs))
    assert (shown.status, shown.out) == (0, content + "\n")  # a pipe gets the answer alone
    plain = lockstep("run", tmp_path / "tape", "hello", "--kwargs", json.dumps(kwargs), "--reasoning-parser", "none")
    assert plain.out == "".join(p for p in pieces[1:]) + "\n"


def test_special_tokens_of_a_form_are_seen(lockstep, tmp_path):
    marks = ["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
             "<|tool_calls_section_end|>", "<|other|>"]
    write_tape(tmp_path / "tape", ["Hm", marks[5], marks[0], marks[1], "functions.zoek:3", marks[2], '{"n": 1}', marks[3], marks[4]],
               special=marks, template=KIMI)
    got = parse(lockstep, tmp_path / "tape", "--tools", write(tmp_path, "tools.json", TOOLS))
    assert got == {"role": "assistant", "content": "Hm", "tool_calls": [call(0, '{"n": 1}', ident="functions.zoek:3")]}


def test_replies_from_a_file(lockstep, tmp_path):
    """Only the template of the folder is needed; a line's own tools go before those of --tools."""
    folder = tmp_path / "model"
    folder.mkdir()
    write(folder, "chat_template.jinja", TURNS + "{# <arg_key> </think> #}")
    reply = "<tool_call>zoek<arg_key>n</arg_key><arg_value>12</arg_value></tool_call>"
    text = [{"name": "zoek", "parameters": {"properties": {"n": {"type": "string"}}}}]
    lines = [{"reply": reply}, {"reply": reply, "tools": text}, {"reply": "so</think>\nHi", "prompt": "...<think>\n"},
             {"reply": "Hi"}, {"answer": ""}, 7]
    path = write(tmp_path, "replies.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + "nonsense\n")
    result = lockstep("template", folder, "--replies", path, "--tools", write(tmp_path, "tools.json", TOOLS))
    assert (result.status, result.err) == (0, "")
    got = [json.loads(line) for line in result.out.splitlines()]
    assert got[:4] == [{"role": "assistant", "content": "", "tool_calls": [call(0, '{"n": 12}')]},
                       {"role": "assistant", "content": "", "tool_calls": [call(0, '{"n": "12"}')]},
                       {"role": "assistant", "content": "Hi", "reasoning_content": "so"},
                       {"role": "assistant", "content": "Hi"}]
    assert [g["error"] for g in got[4:]] == ["the line has no \"reply\" that is a text"] * 2 + ["line 1 column 1: a JSON value must stand here"]


@pytest.mark.parametrize("flags, status, message", [
    (["--tool-parser", "hermes2"], 1, "--tool-parser hermes2: it must be one of auto, none, hermes, qwen-xml,"),
    (["--reasoning-parser", "x"], 1, "--reasoning-parser x: it must be one of auto, none, think,"),
    (["--jsonl", "y"], 2, "give one of --messages, --jsonl and --replies"),
])
def test_wrong_use(lockstep, tmp_path, flags, status, message):
    write(tmp_path, "chat_template.jinja", TURNS)
    result = lockstep("template", tmp_path, "--replies", "-", *flags)
    assert result.status == status and message in result.err


def test_parse_needs_messages(lockstep, tmp_path):
    write_tape(tmp_path / "tape", ["Hi"])
    result = lockstep("generate", tmp_path / "tape", "--prompt", "x", "--parse")
    assert result.status == 2 and "--parse goes with --messages" in result.err
