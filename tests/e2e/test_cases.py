"""The server's part of cases.md, number by number: faults that people met in other servers. Number 19 is in
test_anthropic.py; 20 at length in test_same_bytes.py; 28 at length in test_embeddings.py."""
import http.client
import json
import pathlib
import threading
import time

import pytest

from served import Served
from storm import PATH, answer_of, send_and_leave
from tape import END, dress, write_tape

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"
TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
HERMES = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# <tool_call> #}"
THINKING = TURNS + "{% if add_generation_prompt %}<|assistant|><think>\n{% if enable_thinking is false %}</think>{% endif %}{% endif %}"
ASK = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 100}
PARAMETERS = {"type": "object", "properties": {"pad": {"type": "string", "maxLength": 9}}, "required": ["pad"],
              "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("lees", "tijd")]


@pytest.fixture
def serve(program, tmp_path):
    """serve(pieces, *flags, **tape) -> a server whose model plays them."""
    running = []

    def start(pieces, *flags, **tape):
        write_tape(tmp_path / "m", pieces, **tape)
        running.append(Served(program, tmp_path / "m", *flags))
        return running[-1]

    yield start
    assert [s.stop() for s in running] == [0] * len(running)


def whole(served, **fields):
    status, answer = served.post(PATH, ASK | fields)
    assert status == 200, answer
    return answer["choices"][0]


def deltas(served, **fields):
    """The deltas of a stream, and why it ended: every chunk has one choice and only the last a reason (number 16)."""
    chunks = served.stream(PATH, ASK | {"stream": True} | fields)
    assert all(len(chunk["choices"]) == 1 for chunk in chunks)
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert all(reason is None for reason in reasons[:-1]) and reasons[-1]
    return [chunk["choices"][0]["delta"] for chunk in chunks], reasons[-1]


def joined(parts, key):
    return "".join(part.get(key) or "" for part in parts)


SPLIT = {"merges": ["ð Ł", "Į ±", "Ġ o", "Ġo k"]}  # go, blank, the halves of an emoji, " ok"
SPLIT_PIECES = [ord("g"), ord("o"), ord(" "), 256, 257, 259]


def test_3_a_character_over_two_tokens(serve):
    s = serve(SPLIT_PIECES, **SPLIT)
    assert whole(s)["message"]["content"] == "go 🌱 ok"
    parts, reason = deltas(s)
    texts = [part["content"] for part in parts if part.get("content")]
    assert texts == ["g", "o", " ", "🌱", " ok"] and reason == "stop"
    assert whole(s, max_tokens=4)["message"]["content"] == "go \ufffd"


@pytest.mark.parametrize("stop, text", [(["ple p"], "Red ap"), (["pie now!"], "Red apple pie now"), ("apple", "Red ")])
def test_5_stop_strings_span_tokens(serve, stop, text):
    s = serve(["Red", " apple", " pie", " now"])
    choice = whole(s, stop=stop)
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
    parts, reason = deltas(s, stop=stop)
    assert (joined(parts, "content"), reason) == (text, "stop")


def test_10_content_in_parts_or_null(serve):
    s = serve(["Red"], template="{% for m in messages %}{{ m.content }};{% endfor %}")
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for messages, rendered in (([{"role": "user", "content": parts}], "AB;"),
                               ([{"role": "user", "content": parts}, {"role": "assistant", "content": None, "tool_calls": [call]},
                                 {"role": "tool", "tool_call_id": "c", "content": parts[:1]}], "AB;;A;")):
        status, answer = s.post(PATH, ASK | {"messages": messages, "max_tokens": 1})
        assert status == 200 and answer["usage"]["prompt_tokens"] == len(rendered)
        # the same ids as the text that the template should give: all of it but the last token comes from the cache
        status, answer = s.post("/v1/completions", {"prompt": rendered, "max_tokens": 1})
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == len(rendered) - 1
    status, answer = s.post(PATH, ASK | {"messages": [{"role": "user", "content": [parts[0], {"type": "image_url", "image_url": {"url": "x"}}]}]})
    assert status == 400 and "messages[0].content[1]" in answer["error"]["message"]


def test_11_reasoning_that_the_prompt_opened(serve):
    s = serve(["<think>\n", "add", 10, "</thi", "nk>", "\n\n", ord("6")], template=THINKING)
    message = whole(s)["message"]
    assert (message["reasoning_content"].strip(), message["content"].strip()) == ("add", "6")
    parts, _ = deltas(s)
    for key in ("reasoning_content", "content"):
        assert joined(parts, key) == message[key] and not any("</thi" in (part.get(key) or "") for part in parts)


def test_11_reasoning_that_is_off(serve):
    s = serve(["</think>", ord("6")], template=THINKING)
    message = whole(s, chat_template_kwargs={"enable_thinking": False})["message"]
    assert message["content"] == "6" and "reasoning_content" not in message


CALLS = ['<tool_call>{"name":"lees",', '"arguments":{"pad":"a.txt"}}', "</tool_call>\n", '<tool_call>{"name":"lees","arguments":{"pad":"b.txt"}}',
         "</tool_call>"]


def test_12_two_calls_in_a_stream(serve):
    s = serve(CALLS, template=HERMES)
    choice = whole(s, tools=TOOLS)
    parts, reason = deltas(s, tools=TOOLS)
    assert choice["finish_reason"] == reason == "tool_calls"
    calls = {}
    for part in parts:
        for call in part.get("tool_calls", []):
            if call["index"] not in calls:
                assert call["id"] and call["function"]["name"] == "lees"
                calls[call["index"]] = {"id": call["id"], "arguments": ""}
            calls[call["index"]]["arguments"] += call["function"]["arguments"]
    assert list(calls) == [0, 1] and calls[0]["id"] != calls[1]["id"]
    wanted = [{"pad": "a.txt"}, {"pad": "b.txt"}]
    assert [json.loads(call["arguments"]) for call in calls.values()] == wanted
    assert [json.loads(call["function"]["arguments"]) for call in choice["message"]["tool_calls"]] == wanted


def test_13_arguments_that_are_not_json(serve):
    bad = '<tool_call>{"name":"lees","arguments":{"re":"\\d+"}}</tool_call>'
    s = serve([bad], template=HERMES)
    assert "\\d+" in whole(s, tools=TOOLS)["message"]["content"]
    parts, reason = deltas(s, tools=TOOLS)
    assert "\\d+" in joined(parts, "content") and reason == "stop"
    assert s.call("GET", "/health")[0] == 200 and whole(s)["message"]["content"]


def test_14_the_choice_of_tools(serve):
    s = serve(CALLS, template=HERMES, context=1024)
    choice = whole(s, tools=TOOLS, tool_choice="none")
    assert "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"
    choice = whole(s, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "tijd"}}, max_tokens=500)
    (call,) = choice["message"]["tool_calls"]  # the tape would have called lees
    assert call["function"]["name"] == "tijd" and choice["finish_reason"] == "tool_calls"
    assert list(json.loads(call["function"]["arguments"])) == ["pad"]
    for fields in ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "weg"}}}, {"tool_choice": "required"},
                   {"tools": [], "tool_choice": "required"}, {"tools": TOOLS, "tool_choice": "soms"}):
        status, answer = s.post(PATH, ASK | fields)
        assert status == 400 and answer["error"]["param"] == "tool_choice"


def test_15_the_shape_of_scores(serve):
    s = serve(SPLIT_PIECES, **SPLIT)
    scores = whole(s, logprobs=True)["logprobs"]["content"]
    assert [score["bytes"] for score in scores[:-1]] == [[103], [111], [32], [240, 159], [140, 177], [32, 111, 107]]
    assert bytes(sum((score["bytes"] for score in scores[:-1]), [])).decode() == "go 🌱 ok"
    assert all(score["top_logprobs"] == [] and -100 < score["logprob"] <= 0 for score in scores)
    assert whole(s, logprobs=True, top_logprobs=None)["logprobs"]["content"] == scores
    for score in whole(s, logprobs=True, top_logprobs=2)["logprobs"]["content"]:
        first, second = score["top_logprobs"]
        assert first["logprob"] >= second["logprob"] and first["token"] == score["token"]
    for fields in ({"logprobs": True, "top_logprobs": 21}, {"top_logprobs": 2}):
        assert s.post(PATH, ASK | fields)[0] == 400


def test_16_the_last_chunks_of_a_stream(serve):
    s = serve(["Red", " apple"])
    parts, reason = deltas(s)
    assert joined(parts, "content") == "Red apple" and reason == "stop"
    assert not any("usage" in chunk for chunk in s.stream(PATH, ASK | {"stream": True}))
    chunks = s.stream(PATH, ASK | {"stream": True, "stream_options": {"include_usage": True}})
    usage = chunks[-1]["usage"]
    assert chunks[-1]["choices"] == [] and usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop" and all(chunk["usage"] is None for chunk in chunks[:-1])


def test_17_limits(serve):
    s = serve(["a ", "b "], "--ctx", 64, loop=True, template="{{ messages[0].content }}<|assistant|>")
    status, answer = s.post(PATH, ASK | {"max_tokens": None, "max_completion_tokens": 3})
    assert answer["usage"]["completion_tokens"] == 3 and answer["choices"][0]["finish_reason"] == "length"
    for field, value in (("max_tokens", -5), ("max_tokens", 0), ("max_completion_tokens", -1), ("max_completion_tokens", 0)):
        status, answer = s.post(PATH, ASK | {field: value})
        assert status == 400 and answer["error"]["param"] == field
    status, answer = s.post(PATH, ASK | {"messages": [{"role": "user", "content": "x" * 99}]})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert "100" in answer["error"]["message"] and "64" in answer["error"]["message"]
    status, answer = s.post(PATH, {"temperature": 0, "messages": [{"role": "user", "content": "x" * 59}]})
    assert answer["usage"] == answer["usage"] | {"prompt_tokens": 60, "completion_tokens": 4}
    assert answer["choices"][0]["finish_reason"] == "length"
    assert s.post("/v1/completions", {"prompt": "xy", "echo": True, "max_tokens": 0})[0] == 200


def test_18_a_form_that_ends(serve):
    s = serve([ord(" ")], loop=True)  # a blank follows a blank
    schema = {"type": "object", "properties": {"volledige naam": {"enum": ["x"]}}, "required": ["volledige naam"],
              "additionalProperties": False}
    choice = whole(s, max_tokens=200, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    text = choice["message"]["content"]
    assert choice["finish_reason"] == "stop" and json.loads(text) == {"volledige naam": "x"} and " " * 17 not in text


SCORED = {"logprobs": True, "top_logprobs": 5, "logits_hash": True}


@pytest.mark.parametrize("flags", [[], ["--batch", "7", "--parallel", "7"], ["--batch", "512", "--threads", "1"]])
def test_20_company_changes_nothing(program, tmp_path, flags):
    model = dress(GOLDENS / "hf" / "llama", tmp_path / "m")
    body = ASK | SCORED | {"messages": [{"role": "user", "content": "What of the night?" * 4}], "max_tokens": 64, "ignore_eos": True}
    alone = Served(program, model)
    expected, _ = answer_of(alone, body)
    assert alone.stop() == 0 and len(expected[0][2]) == 64
    s, found = Served(program, model, *flags), []
    other = threading.Thread(target=send_and_leave, args=(s.port, body | {"max_tokens": 150, "temperature": 2}, 40, 0))
    other.start()
    three = [threading.Thread(target=lambda: found.append(answer_of(s, body)[0])) for _ in range(4)]
    for thread in three:
        thread.start()
    for thread in (*three, other):
        thread.join()
    assert s.stop() == 0
    assert found == [expected] * 4


def test_22_longrope_on_both_sides(program, tmp_path):
    """Each step over the boundary of 16 has the logits of a fresh reading of the same tokens."""
    s = Served(program, dress(GOLDENS / "hf" / "phi3-longrope", tmp_path / "m"))
    prompt = list(range(40, 53))
    body = {"temperature": 0, "logprobs": 1, "logits_hash": True, "ignore_eos": True}
    _, answer = s.post("/v1/completions", body | {"prompt": prompt, "max_tokens": 8})
    scores = answer["choices"][0]["logprobs"]
    ids, hashes = scores["token_ids"], scores["logits_hash"]
    assert len(ids) == 8
    for n in range(8):
        fresh = Served(program, tmp_path / "m")
        _, answer = fresh.post("/v1/completions", body | {"prompt": prompt + ids[:n], "max_tokens": 1})
        assert answer["choices"][0]["logprobs"]["logits_hash"] == [hashes[n]]
        assert fresh.stop() == 0
    assert s.stop() == 0


def resident(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_26_a_client_that_leaves_frees_its_slot(serve):
    s = serve(["a ", "b "], "--parallel", 1, loop=True, context=1 << 20)
    endless = ASK | {"max_tokens": 900000}
    begun = time.monotonic()
    send_and_leave(s.port, endless, 3, 0)
    connection = http.client.HTTPConnection("127.0.0.1", s.port)
    connection.request("POST", PATH, json.dumps(endless))
    time.sleep(0.1)
    connection.close()
    assert whole(s, max_tokens=3)["finish_reason"] == "length"
    assert time.monotonic() - begun < 10  # all of it would take minutes


def test_26_a_client_that_leaves_while_its_prompt_is_read(program, smollm2):
    s = Served(program, smollm2, "--parallel", 1)
    begun = time.monotonic()
    whole(s, max_tokens=1)
    usual = time.monotonic() - begun
    body = ASK | {"messages": [{"role": "user", "content": "word and " * 2000}]}
    send_and_leave(s.port, body, 0, 0.5)
    begun = time.monotonic()
    whole(s, max_tokens=1)
    taken = time.monotonic() - begun
    assert s.stop() == 0
    assert taken < 2 * usual + 2


def test_26_a_client_that_leaves_the_queue_harms_nobody(program, tmp_path):
    model = dress(GOLDENS / "hf" / "llama", tmp_path / "m")
    s, found = Served(program, model, "--parallel", 1), []
    body = ASK | SCORED | {"max_tokens": 200, "ignore_eos": True}
    expected, _ = answer_of(s, body)
    first = threading.Thread(target=lambda: found.append(answer_of(s, body)[0]))
    first.start()
    for i in range(5):
        send_and_leave(s.port, body | {"temperature": 1}, 0, 0.002 * i)
    first.join()
    assert found == [expected] and s.stop() == 0


def test_26_cached_prompts_have_a_cap(program, tmp_path):
    """300 prompts of 200 tokens are 30 MB of states."""
    if any(mark in program.read_bytes() for mark in (b"__asan_init", b"__tsan_init")):
        pytest.skip("a sanitizer keeps freed memory")
    s = Served(program, dress(GOLDENS / "hf" / "llama", tmp_path / "m"), "--memory", "0.004")
    for i in range(300):
        if i == 20:
            before = resident(s.process)
        assert s.post("/v1/completions", {"prompt": [(i * 7 + j * (i + 1)) % 125 + 3 for j in range(200)], "max_tokens": 1})[0] == 200
    grown = resident(s.process) - before
    assert s.stop() == 0
    assert grown < 12 << 20


def test_27_bodies_that_are_not_what_they_should_be(serve):
    s = serve(["Red"])
    user = {"role": "user", "content": "x"}
    for body, named in (({"messages": {}}, "messages"), ({"messages": []}, "messages"), ({}, "messages"),
                        ({"messages": [{"role": "user", "content": None}]}, "content"), ({"messages": ["x"]}, "messages[0]"),
                        ({"messages": [{"role": "robot", "content": "x"}]}, "role"), ({"messages": [user], "n": 0}, "n"),
                        ({"messages": [user], "stream": "yes"}, "stream"), ({"messages": [user], "seed": 1.5}, "seed")):
        status, answer = s.post(PATH, body)
        assert status == 400 and set(answer["error"]) == {"message", "type", "param", "code"}, body
        assert named in answer["error"]["message"] and answer["error"]["type"] == "invalid_request_error"
    for raw in (b'{"a":1', b"", b"[]", b'"x"', b'{"model":"m","zz":' + b"[" * 100000 + b"]" * 100000 + b"}", b"\xff\xfe", b'{"a":1}x'):
        status, text = s.call("POST", PATH, raw)
        assert status == 400 and set(json.loads(text)["error"]) == {"message", "type", "param", "code"}
    status, text = s.call("POST", PATH, b'{"messages":[{"role":"user","content":"\\ud800"}]}')
    assert status in (200, 400)  # and it was UTF-8
    assert whole(s)["message"]["content"] == "Red"


def test_28_an_end_token_that_the_tokenizer_adds_is_read(program, tmp_path):
    ids, path = write_tape(tmp_path / "m", ["Red"]), tmp_path / "m" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": END, "type_id": 0}}],
        "pair": [], "special_tokens": {END: {"id": END, "ids": [ids[END]], "tokens": [END]}}}
    path.write_text(json.dumps(tokenizer))
    s = Served(program, tmp_path / "m")
    status, answer = s.post("/v1/embeddings", {"input": ["hello", "hello world"]})
    assert status == 200 and answer["usage"]["prompt_tokens"] == 6 + 12
    for item in answer["data"]:  # the last row's own token
        vector = item["embedding"]
        assert vector.index(max(vector)) == ids[END] and abs(sum(x * x for x in vector) - 1) < 1e-5
    for value in ("", [], "x" * 300):
        assert s.post("/v1/embeddings", {"input": value})[0] == 400
    assert s.stop() == 0
