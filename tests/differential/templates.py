#!/usr/bin/env python3
"""Renders every template of a folder (*.jinja) with every conversation below, in transformers (jinja2 3.1.6 with its
settings) and in lockstep, and requires the same text or an error in both.

    python3 tests/differential/templates.py FOLDER [--binary build/lockstep] [--show]

The templates of real models are in the source distribution of llama-cpp-python (models/templates of its llama.cpp
tree); they are fetched for the test and not part of this repository. Needs transformers 5 (results noted for 5.24)."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
from transformers.utils import chat_template_utils as reference  # noqa: E402

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, ident="call_1"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, **more):
    return {"role": "tool", "content": content, **more}


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city, \"now\" <b>&</b> é.",
           "parameters": {"type": "object", "properties": {
               "city": {"type": "string", "description": "Name of the city", "enum": ["Oslo", "Gent"]},
               "days": {"type": "integer", "description": "How many", "default": 1},
               "units": {"type": ["string", "null"], "description": "Units"},
               "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                         "required": ["lat"]},
               "tags": {"type": "array", "items": {"type": "string"}},
               "any": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
               "required": ["city", "where"]}, "return": {"type": "string"}}}
NOW = {"type": "function", "function": {"name": "now", "description": "The time.",
       "parameters": {"type": "object", "properties": {}}}}
CALLED = [user("Weather in Oslo?"),
          assistant("", tool_calls=[call("get_weather", {"city": "Oslo", "days": 2, "where": {"lat": 1.5}, "x": None, "y": True})]),
          tool("{\"t\": -3}", tool_call_id="call_1", name="get_weather")]
LONG = [system("You are terse.")]
for i in range(6):
    LONG += [user(f"question {i}"), assistant(f"answer {i}", reasoning_content=f"I think {i}")]

CONVERSATIONS = {
    "one": dict(messages=[user("Hello!")]),
    "one, no prompt": dict(messages=[user("Hello!")], add_generation_prompt=False),
    "system": dict(messages=[system("Be brief."), user("Hi")]),
    "system only": dict(messages=[system("Be brief.")]),
    "developer": dict(messages=[{"role": "developer", "content": "Be kind."}, user("Hi")]),
    "turns": dict(messages=[user("2+2?"), assistant("4"), user("  and 3+3?\n")]),
    "system and turns": dict(messages=[system(" You are a pirate. \n"), user("Name?"), assistant("Arr. "), user("Ship?")]),
    "ends with assistant": dict(messages=[user("Say x"), assistant("x")], add_generation_prompt=False),
    "unicode": dict(messages=[user("héllo 世界 👩‍💻 \"quoted\" <b>&amp;</b> {{ x }} {% y %}\n\n```c\nint a;\n```\u00a0 \u2028end")]),
    "empty": dict(messages=[user("")]),
    "blank": dict(messages=[user("  \n"), assistant("\n"), user("\t")]),
    "tools": dict(messages=[user("Weather in Oslo?")], tools=[WEATHER, NOW]),
    "tools and system": dict(messages=[system("Use tools."), user("Weather?")], tools=[WEATHER]),
    "no tools": dict(messages=[user("Weather?")], tools=[]),
    "tool result": dict(messages=CALLED, tools=[WEATHER]),
    "tool result, then": dict(messages=CALLED + [assistant("Minus three."), user("Thanks")], tools=[WEATHER]),
    "tool result as mapping": dict(messages=CALLED[:2] + [tool({"t": -3, "l": [1, 2.0]}, name="get_weather")], tools=[WEATHER]),
    "call without content": dict(messages=[user("?"), {"role": "assistant", "content": None, "tool_calls": [call("now", {})]},
                                           tool("12:00", tool_call_id="call_1"), user("ok")], tools=[NOW]),
    "call with string": dict(messages=[user("?"), {"role": "assistant", "tool_calls": [call("get_weather", "{\"city\": \"Gent\"}")]},
                                       tool("warm", tool_call_id="call_1")], tools=[WEATHER]),
    "two calls": dict(messages=[user("Both?"), assistant("Let me see.", tool_calls=[
        call("get_weather", {"city": "Oslo", "where": {"lat": 1}}, "abcdefgh1"), call("now", {}, "abcdefgh2")]),
        tool("cold", tool_call_id="abcdefgh1", name="get_weather"), tool("noon", tool_call_id="abcdefgh2", name="now"),
        user("And?")], tools=[WEATHER, NOW]),
    "nine letter id": dict(messages=[user("?"), assistant("", tool_calls=[call("now", {}, "abcdefgh1")]),
                                     tool("noon", tool_call_id="abcdefgh1")], tools=[NOW]),
    "thinking on": dict(messages=[user("Think.")], enable_thinking=True, thinking=True, reasoning_effort="high"),
    "thinking off": dict(messages=[user("Do not.")], enable_thinking=False, thinking=False, reasoning_effort="low"),
    "reasoning": dict(messages=[user("1+1?"), assistant("2", reasoning_content="easy\n"), user("2+2?")], enable_thinking=True),
    "reasoning and call": dict(messages=[user("?"), assistant("", reasoning_content="hm", tool_calls=[call("now", {})]),
                                         tool("noon", tool_call_id="call_1", name="now")], tools=[NOW], enable_thinking=True),
    "think in content": dict(messages=[user("1+1?"), assistant("<think>\neasy\n</think>\n\n2"), user("2+2?")]),
    "parts": dict(messages=[user([{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}])]),
    "parts everywhere": dict(messages=[system([{"type": "text", "text": "Sys"}]), user([{"type": "text", "text": "Hi"}]),
                                       assistant([{"type": "text", "text": "Yo"}]), user([{"type": "text", "text": "?"}])]),
    "image": dict(messages=[user([{"type": "image"}, {"type": "text", "text": "What?"}])]),
    "unknown part": dict(messages=[user([{"type": "smell", "smell": 1}])]),
    "long": dict(messages=LONG + [user("last")]),
    "roles do not alternate": dict(messages=[user("a"), user("b")]),
    "assistant first": dict(messages=[assistant("a"), user("b")]),
    "unknown role": dict(messages=[{"role": "robot", "content": "beep"}]),
    "documents": dict(messages=[user("Cite.")], documents=[{"title": "T", "text": "Body", "doc_id": 1}]),
    "citations": dict(messages=[user("Cite.")], documents=[{"title": "T", "contents": "B"}], citation_mode="accurate"),
    "continue": dict(messages=[user("Say"), assistant("x y ")], add_generation_prompt=False, continue_final_message=True),
    "continue parts": dict(messages=[user("Say"), assistant([{"type": "text", "text": "abc"}])],
                           add_generation_prompt=False, continue_final_message=True),
    "continue reasoning": dict(messages=[user("Say"), assistant("", reasoning_content="so")],
                               add_generation_prompt=False, continue_final_message="reasoning_content"),
    "date": dict(messages=[user("When?")], date_string="26 Jul 2024", strict=True),
    "numbers": dict(messages=[user("?"), assistant("", tool_calls=[call("f", {
        "a": 1e16, "b": 1e-7, "c": 0.1, "d": 100.0, "e": -0.0, "f": 12345678901234567890, "g": [1, [2, {}], []]})]),
        tool("3", name="f", tool_call_id="call_1")], tools=[NOW]),
    "builtin tools": dict(messages=[user("?")], builtin_tools=["browser", "python", "code_interpreter"],
                          tools_in_user_message=False, tools=[NOW], custom_tools=None),
    "model identity": dict(messages=[user("?")], model_identity="You are X.", response_format={"type": "json"}),
}


def expected(template, conversation):
    kwargs = {k: v for k, v in conversation.items() if k != "messages"}
    kwargs.setdefault("add_generation_prompt", True)
    try:
        messages = reference._normalize_chat_messages(json.loads(json.dumps(conversation["messages"])))
        for name, value in TOKENS.items():
            kwargs.setdefault(name, value)
        return reference.render_jinja_template([messages], chat_template=template, **kwargs)[0][0], None
    except Exception as e:  # noqa: BLE001 - any error of the reference is "an error"
        return None, f"{type(e).__name__}: {e}"


def ours(binary, template, conversations):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "chat_template.jinja").write_bytes(template.encode())
        Path(folder, "tokenizer_config.json").write_text(json.dumps(TOKENS))
        lines = Path(folder, "in.jsonl")
        lines.write_text("".join(json.dumps({"add_generation_prompt": True, **c}) + "\n" for c in conversations))
        p = subprocess.run([*binary.split(), "template", folder, "--jsonl", str(lines)], capture_output=True)
        out = p.stdout.decode().split("\n")[:-1]  # not splitlines: U+2028 is no end of a line here
        if len(out) != len(conversations):
            message = (p.stderr.decode() or "no output").strip().splitlines()[-1]
            return [(None, message if p.returncode == 1 else f"CRASH {p.returncode} {p.stderr.decode()[-2000:]}")] * len(conversations)
        result = [json.loads(line) for line in out]
        return [(r, None) if isinstance(r, str) else (None, r["error"]) for r in result]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--binary", default="build/lockstep")
    ap.add_argument("--show", action="store_true", help="also print errors that both report")
    a = ap.parse_args()
    total = bad = errors = 0
    files = sorted(a.folder.glob("*.jinja"))
    for file in files:
        template = file.read_bytes().decode()
        got = ours(a.binary, template, list(CONVERSATIONS.values()))
        for (name, conversation), (text, error) in zip(CONVERSATIONS.items(), got):
            want, want_error = expected(template, conversation)
            total += 1
            errors += want is None
            if text == want and "CRASH" not in (error or ""):
                if a.show and error:
                    print(f"both  {file.name} [{name}]\n   reference: {want_error[:200]}\n   lockstep:  {error[:200]}")
                continue
            bad += 1
            print(f"DIFF  {file.name} [{name}]\n   reference: {want_error or ascii(want)}\n   lockstep:  {error or ascii(text)}")
    print(f"{len(files)} templates, {total} renderings, {errors} of them an error in the reference, {bad} different")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main())
