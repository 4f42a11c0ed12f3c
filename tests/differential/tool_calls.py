#!/usr/bin/env python3
"""Renders assistant turns with tool calls through every template of a folder (*.jinja), as models were trained to write
them, and requires that lockstep reads the same calls, reasoning and text back.

    python3 tests/differential/tool_calls.py FOLDER [--binary build/lockstep] [--show]

The templates are those of templates.py. A template that refuses a conversation, or renders no calls at all, is listed
and not counted. Rendering is lockstep's own (templates.py proves it); only Python's standard library is needed."""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
PLAIN = "XYZZY"
TRICKY = "a \"quoted\" 'word' \\d+ {x: [1]} <b>&amp;</b>, Zoë 🌱"
LINES = "int main(void) {\n    return 0; // }\n}"
# What ends a turn, and is an end token of the model; some templates open the next turn at once.
END_TOKENS = re.compile(r"(<\|eo[mt]_id\|>|<\|tool_response>|<\|END_OF_TURN_TOKEN\|>.*|<\|eot\|>|<\|call\|>|<\|calls\|>|</s>|"
                        r"<SPECIAL_12>|<｜end▁of▁sentence｜>.*|<\|end_of_msg\|>|<｜hy_eos:opensource｜>)\s*$", re.S)
ONE_CALL = ("openai-gpt-oss", "GigaChat3")  # templates that render the first call only
OPENED = ("Apriel-1.6",)  # the prompt opens the reasoning with words that the rendered turn does not have
# Turns that no model can have written: name of the template, what the case has, and why.
IMPOSSIBLE = [("NVIDIA-Nemotron-Nano-v2", lambda c: c["content"], "text before a call is rendered as a turn of its own"),
              ("LFM2.5-8B-A1B", lambda c: TRICKY in c["calls"][0][1].values(), "quotes inside quotes are not escaped")]


def function(name, **properties):
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": {
        "type": "object", "properties": properties, "required": []}}}


STRING, INTEGER = {"type": "string", "description": "d"}, {"type": "integer", "description": "d"}
TOOLS = [
    function("get_weather", city=STRING, days=INTEGER, share={"type": "number", "description": "d"},
             exact={"type": "boolean", "description": "d"},
             where={"type": "object", "description": "d", "properties": {"lat": {"type": "number", "description": "d"}}},
             tags={"type": "array", "description": "d", "items": STRING}),
    function("now"),
    function("write-file.v2", path=STRING, text=STRING),
]
CALLS = {
    "types": [("get_weather", {"city": "Oslo", "days": 2, "share": 0.5, "exact": True, "where": {"lat": -1.5}, "tags": ["a", "b"]})],
    "none": [("now", {})],
    "two": [("get_weather", {"city": "Gent"}), ("now", {})],
    "three": [("now", {}), ("get_weather", {"days": -3}), ("now", {})],
    "looks like a number": [("get_weather", {"city": "42"}), ("get_weather", {"city": "true"})],
    "tricky": [("write-file.v2", {"path": TRICKY, "text": "x"})],
    "lines": [("write-file.v2", {"path": "a.c", "text": LINES})],
    "nested": [("get_weather", {"where": {"lat": 1}, "tags": ["x y", "1", ""], "exact": False})],
}


def turn(calls, content, reasoning):
    message = {"role": "assistant", "content": content, "tool_calls": [
        {"id": f"abcdefgh{i}", "type": "function", "function": {"name": n, "arguments": a}} for i, (n, a) in enumerate(calls)]}
    if reasoning:
        message["reasoning_content"] = message["reasoning"] = message["thinking"] = reasoning
    return message


def run(binary, folder, flag, lines):
    path = Path(folder, "in.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    p = subprocess.run([*binary.split(), "template", folder, flag, str(path)], capture_output=True)
    out = p.stdout.decode().split("\n")[:-1]
    if len(out) != len(lines):
        raise RuntimeError(p.stderr.decode() or f"status {p.returncode}")
    return [json.loads(line) for line in out]


def reply_of(base, prompt, full, plain):
    """(prompt, reply): the assistant's turn as the model would write it after its generation prompt."""
    header = 0
    while header < min(len(prompt), len(full)) and prompt[header] == full[header]:
        header += 1
    if header < len(prompt):  # the prompt opens or closes a block that the turn does not have: cut before the mark
        mark = max(prompt.rfind(c, len(base), header) for c in "<[")
        if mark >= 0 and not re.search(r"[>\]]", prompt[mark:header]):
            header = mark
    reply = full[header:]
    end = plain[plain.rindex(PLAIN) + len(PLAIN):] if PLAIN in plain else ""
    if end and reply.endswith(end):
        reply = reply[:-len(end)]
    return prompt[:header], END_TOKENS.sub("", reply)


def conversations():
    for name, calls in CALLS.items():
        for content, reasoning in (("", ""), ("Let me see.", ""), ("", "hm,\nwell"), ("Let me see.", "because")):
            for thinking in (True, False):
                if reasoning and not thinking:
                    continue
                kwargs = {"tools": TOOLS, "enable_thinking": thinking, "thinking": thinking, "functions": "f", "datetime": "d"}
                messages = [{"role": "user", "content": "Q?"}]
                yield {"name": f"{name}, {content!r}, {reasoning!r}, thinking {thinking}", "calls": calls, "content": content,
                       "reasoning": reasoning, "base": {**kwargs, "messages": messages, "add_generation_prompt": False},
                       "prompt": {**kwargs, "messages": messages, "add_generation_prompt": True},
                       "full": {**kwargs, "messages": messages + [turn(calls, content, reasoning)], "add_generation_prompt": False},
                       "plain": {**kwargs, "messages": messages + [{"role": "assistant", "content": PLAIN}],
                                 "add_generation_prompt": False}}


def string_arguments(conversation):
    """The same with arguments as text, for templates that join it."""
    copy = json.loads(json.dumps(conversation))
    for message in copy["messages"]:
        for c in message.get("tool_calls", []):
            c["function"]["arguments"] = json.dumps(c["function"]["arguments"], ensure_ascii=False)
    return copy


def differences(want, got, reply):
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in got.get("tool_calls", [])]
    if calls != [(n, a) for n, a in want["calls"]]:
        return f"calls {json.dumps(calls, ensure_ascii=False)}"
    content = want["content"] if want["content"] and want["content"] in reply else ""
    reasoning = want["reasoning"] if want["reasoning"] and want["reasoning"] in reply else ""
    found, thought = got["content"], got.get("reasoning_content", "")
    if reasoning == "" and content and thought.strip() == content and not found:
        return None  # a template that files the text of a turn with calls as reasoning (gpt-oss, Nemotron)
    if found.strip() != content:
        return f"content {found!r}"
    if thought.strip() != reasoning:
        return f"reasoning {thought!r}"
    return None


def check(file, a, counts):
    cases = list(conversations())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "chat_template.jinja").write_bytes(file.read_bytes())
        Path(folder, "tokenizer_config.json").write_text(json.dumps(TOKENS))
        lines = [c[k] for c in cases for k in ("base", "prompt", "full", "plain")]
        texts = run(a.binary, folder, "--jsonl", lines)
        again = run(a.binary, folder, "--jsonl", [string_arguments(c["full"]) for c in cases])
        replies, wanted, refused = [], [], set()
        for i, case in enumerate(cases):
            base, prompt, full, plain = texts[4 * i:4 * i + 4]
            if isinstance(full, dict):
                full = again[i]
            if isinstance(full, dict) or isinstance(prompt, dict):
                refused.add(full.get("error") if isinstance(full, dict) else prompt["error"])
                continue
            base, plain = ("" if isinstance(t, dict) else t for t in (base, plain))
            opened = prompt
            prompt, reply = reply_of(base, prompt, full, plain)
            if file.name.startswith(OPENED) and case["reasoning"] and case["reasoning"] in reply:
                prompt = opened
            impossible = [why for name, has, why in IMPOSSIBLE if file.name.startswith(name) and has(case)]
            if impossible:
                refused.add(impossible[0])
                continue
            if file.name.startswith(ONE_CALL):
                case["calls"] = case["calls"][:1]
            if case["calls"][0][0] not in reply:
                refused.add("renders no calls")
                continue
            replies.append({"prompt": prompt, "reply": reply, "tools": TOOLS})
            wanted.append(case)
        got = run(a.binary, folder, "--replies", replies) if replies else []
    bad = 0
    for case, line, message in zip(wanted, replies, got):
        problem = message["error"] if "error" in message else differences(case, message, line["reply"])
        if problem:
            bad += 1
            print(f"DIFF  {file.name} [{case['name']}]\n   prompt: ...{line['prompt'][-60:]!r}\n   reply:  {line['reply']!r}\n   {problem}")
    counts["templates"] += bool(replies)
    counts["turns"] += len(replies)
    counts["different"] += bad
    for reason in refused if a.show or not replies else ():
        print(f"      {file.name}: {reason}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--binary", default="build/lockstep")
    ap.add_argument("--show", action="store_true", help="also list what single conversations a template refused")
    a = ap.parse_args()
    counts = {"templates": 0, "turns": 0, "different": 0}
    for file in sorted(a.folder.glob("*.jinja")):
        check(file, a, counts)
    print(f"{counts['templates']} templates, {counts['turns']} turns with calls, {counts['different']} different")
    return 1 if counts["different"] or not counts["turns"] else 0


if __name__ == "__main__":
    sys.exit(main())
