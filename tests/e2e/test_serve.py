"""The server as clients see it over HTTP: the chat endpoint, whole and streamed, its errors, and the same bytes as
`generate`."""
import http.client
import json
import socket
import subprocess
import threading
import time

import pytest

from served import Served
from tape import write_tape


@pytest.fixture(scope="module")
def served(program, smollm2):
    s = Served(program, smollm2)
    yield s
    assert s.stop() == 0


ASK = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 30, "temperature": 0}


def test_a_chat_is_answered(served):
    status, answer = served.post("/v1/chat/completions", ASK)
    assert status == 200
    choice = answer["choices"][0]
    assert choice["message"]["content"] == "The capital of France is Paris."
    assert choice["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 37
    assert answer["usage"]["completion_tokens"] == 8


def test_a_stream_is_the_whole_answer_in_pieces(served):
    chunks = served.stream("/v1/chat/completions", ASK | {"stream": True})
    assert all(len(chunk["choices"]) == 1 for chunk in chunks)
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == "The capital of France is Paris."
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons[-1] == "stop" and reasons[:-1] == [None] * (len(chunks) - 1)
    chunks = served.stream("/v1/chat/completions", ASK | {"stream": True, "stream_options": {"include_usage": True}})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] == 45
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_what_is_wrong_is_named(served):
    for change, param in (({"messages": {}}, "messages"), ({"messages": []}, "messages"),
                          ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
                          ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
                          ({"max_tokens": -5}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"),
                          ({"temperature": "hot"}, "temperature"), ({"top_logprobs": 3}, "top_logprobs"),
                          ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"tool_choice": "soms"}, "tool_choice")):
        status, answer = served.post("/v1/chat/completions", ASK | change)
        assert status == 400, change
        assert answer["error"]["param"] == param, change
        assert param.split("[")[0].split(".")[0] in answer["error"]["message"]
    assert served.call("POST", "/v1/chat/completions", b'{"a":1')[0] == 400
    assert served.call("POST", "/v1/chat/completions", b'{"zz":' + b"[" * 100000 + b"]" * 100000 + b"}")[0] == 400
    status, answer = served.post("/v1/chat/completions", ASK | {"messages": [{"role": "user", "content": "a " * 9000}]})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert "8192" in answer["error"]["message"]
    assert served.call("GET", "/health") == (200, '{"status": "ok"}')


def test_scores_have_the_true_bytes(served):
    status, answer = served.post("/v1/chat/completions", ASK | {"logprobs": True, "top_logprobs": 2})
    assert status == 200
    content = answer["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(token["bytes"]) for token in content[:-1]).decode() == "The capital of France is Paris."
    for token in content:
        assert token["logprob"] <= 0 and len(token["top_logprobs"]) == 2
        assert token["top_logprobs"][0]["logprob"] >= token["top_logprobs"][1]["logprob"]


def test_the_server_answers_as_generate_does(served, lockstep, smollm2, tmp_path):
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps(ASK["messages"]))
    done = lockstep("generate", smollm2, "--messages", messages, "-n", "40", "--temp", "0.8", "--top-p", "0.9", "--seed",
                    "7", "--json")
    ids = json.loads(done.out)["ids"]
    body = ASK | {"max_tokens": 40, "temperature": 0.8, "top_p": 0.9, "seed": 7, "logits_hash": True}
    _, alone = served.post("/v1/chat/completions", body)
    assert [token["id"] for token in alone["choices"][0]["logprobs"]["content"]] == ids
    _, four = served.post("/v1/chat/completions", body | {"n": 4})
    assert four["choices"][0]["logprobs"] == alone["choices"][0]["logprobs"]
    assert len({choice["message"]["content"] for choice in four["choices"]}) > 1


def test_keys_are_asked_for(program, smollm2, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# people\nthree\n")
    s = Served(program, smollm2, "--api-key", "one", "--api-key-file", keys)
    try:
        assert s.call("GET", "/health")[0] == 200
        assert s.call("GET", "/v1/models")[0] == 401
        for header in ({"Authorization": "Bearer one"}, {"x-api-key": "three"}):
            assert s.call("GET", "/v1/models", headers=header)[0] == 200
        for header in ({"Authorization": "Bearer on"}, {"x-api-key": "one2"}, {"x-api-key": ""}):
            assert s.call("GET", "/v1/models", headers=header)[0] == 401
    finally:
        assert s.stop() == 0


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}


def test_answers_have_the_form_that_is_asked_for(served):
    schema = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 12}, "country": {"enum": ["France", "Spain"]}},
              "required": ["capital", "country"], "additionalProperties": False}
    wanted = ASK | {"max_tokens": 100, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    for seed in range(3):
        status, answer = served.post("/v1/chat/completions", wanted | {"temperature": 1.5, "seed": seed})
        assert status == 200 and answer["choices"][0]["finish_reason"] == "stop"
        value = json.loads(answer["choices"][0]["message"]["content"])
        assert set(value) == {"capital", "country"} and value["country"] in ("France", "Spain")
    status, answer = served.post("/v1/chat/completions", ASK | {"guided_regex": "(?:Paris|Rome)!{2}"})
    assert answer["choices"][0]["message"]["content"] in ("Paris!!", "Rome!!")
    status, answer = served.post("/v1/chat/completions", ASK | {"guided_choice": ["yes", "no"]})
    assert answer["choices"][0]["message"]["content"] in ("yes", "no")
    status, answer = served.post("/v1/chat/completions", ASK | {"guided_grammar": "root ::= \"<\" [0-9]{3} \">\""})
    assert len(answer["choices"][0]["message"]["content"]) == 5
    status, answer = served.post("/v1/chat/completions", ASK | {"response_format": {"type": "json_object"}, "max_tokens": 60})
    assert answer["choices"][0]["message"]["content"].startswith("{")
    bad = {"type": "json_schema", "json_schema": {"schema": {"type": "array", "uniqueItems": True}}}
    status, answer = served.post("/v1/chat/completions", ASK | {"response_format": bad})
    assert status == 400 and "uniqueItems" in answer["error"]["message"]


def test_a_choice_of_tools_is_kept(served):
    asked = ASK | {"tools": [WEATHER, CLOCK], "max_tokens": 100}
    status, answer = served.post("/v1/chat/completions", asked | {"tool_choice": {"type": "function", "function": {"name": "weather"}}})
    choice = answer["choices"][0]
    assert status == 200 and choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    assert call["function"]["name"] == "weather" and 1 <= arguments["days"] <= 9 and isinstance(arguments["city"], str)
    _, answer = served.post("/v1/chat/completions", asked | {"tool_choice": "required", "parallel_tool_calls": False})
    assert len(answer["choices"][0]["message"]["tool_calls"]) == 1
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "name": "clock"}]}}
    _, answer = served.post("/v1/chat/completions", asked | {"tool_choice": allowed, "parallel_tool_calls": False})
    function = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    assert function["name"] == "clock" and json.loads(function["arguments"]) == {}
    _, answer = served.post("/v1/chat/completions", asked | {"tool_choice": "none"})
    assert "tool_calls" not in answer["choices"][0]["message"]
    for choice in ("soms", {"type": "function", "function": {"name": "nobody"}}, {"type": "function"}):
        assert served.post("/v1/chat/completions", asked | {"tool_choice": choice})[0] == 400
    for tools in (None, []):
        status, answer = served.post("/v1/chat/completions", ASK | {"tools": tools, "tool_choice": "required"})
        assert status == 400 and answer["error"]["param"] == "tool_choice"
    custom = {"type": "custom", "name": "shell"}
    status, answer = served.post("/v1/chat/completions", ASK | {"tools": [custom]})
    assert status == 400 and "shell" in answer["error"]["message"]


def test_models_are_loaded_when_asked_for(program, smollm2, tmp_path):
    second = tmp_path / "second"
    second.symlink_to(smollm2)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{\"model_type\": \"nothing\"}")
    s = Served(program, smollm2, second, broken, "--keep", "2")
    try:
        def loaded():
            return {m["id"]: m["loaded"] for m in json.loads(s.call("GET", "/v1/models")[1])["data"]}

        assert loaded() == {"smollm2-135m": True, "second": False, "broken": False}
        status, answer = s.post("/v1/chat/completions", ASK | {"model": "second"})
        assert status == 200 and answer["model"] == "second"
        assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."
        assert loaded()["second"]
        status, answer = s.post("/v1/chat/completions", ASK | {"model": "broken"})
        assert status == 500 and "has no weights" in answer["error"]["message"]
        status, answer = s.post("/v1/chat/completions", ASK | {"model": "elsewhere"})
        assert status == 404 and answer["error"]["code"] == "model_not_found"
        deadline = time.monotonic() + 20
        while any(loaded().values()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not any(loaded().values())
        assert s.post("/v1/chat/completions", ASK | {"model": str(smollm2)})[0] == 200  # and it comes back
    finally:
        assert s.stop() == 0


def test_what_may_change_a_byte_is_told(served):
    _, text = served.call("GET", "/v1/exactness")
    (model,) = json.loads(text)["models"]
    assert model["id"] == "smollm2-135m" and model["kv"] == "i16" and model["activations"] == 16
    assert len(model["checkpoint"]) == 16 and model["ignored_config"] == [] and model["width_limit"] is None
    assert model["check"] is None  # nobody has asked for one


def test_what_the_check_found_is_told(program, tmp_path, lockstep):
    write_tape(tmp_path / "m", ["Red", " wine"], context=32)
    write_tape(tmp_path / "n", ["White"], context=32)
    s = Served(program, tmp_path / "m", tmp_path / "n", "--check")
    s.post("/v1/chat/completions", ASK | {"model": "n"})  # so that it is loaded
    models = json.loads(s.call("GET", "/v1/exactness")[1])["models"]
    assert s.stop() == 0
    for model in models:
        found = lockstep("check", tmp_path / model["id"]).out
        assert found == f"exact: {model['check']['runs']} runs, no byte differs\n"
        assert model["check"]["exact"] is True and model["check"]["difference"] is None
    assert [model["id"] for model in models] == ["m", "n"]


TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
HERMES = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# <tool_call> #}"


def test_one_call_is_one_where_calls_are_not_parallel(serve):
    s = serve(["Ok.", '<tool_call>{"name":"weather","arguments":{"city":"Gent"}}', "</tool_call>\n",
               '<tool_call>{"name":"weather","arguments":{"city":"Brugge"}}', "</tool_call>"], template=HERMES)
    asked = {"messages": [{"role": "user", "content": "x"}], "tools": [WEATHER], "temperature": 0}
    _, both = s.post("/v1/chat/completions", asked)
    assert len(both["choices"][0]["message"]["tool_calls"]) == 2
    _, one = s.post("/v1/chat/completions", asked | {"parallel_tool_calls": False})
    (call,) = one["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Gent"}
    assert one["choices"][0]["finish_reason"] == "tool_calls"
    _, three = s.post("/v1/chat/completions", asked | {"parallel_tool_calls": False, "n": 3, "logprobs": True})
    for choice in three["choices"]:
        (call,) = choice["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"city": "Gent"} and choice["finish_reason"] == "tool_calls"
        assert [t["token"] for t in choice["logprobs"]["content"]][2:] == ["</tool_call>\n"]
    assert one["usage"]["completion_tokens"] == 3 and three["usage"]["completion_tokens"] == 9  # what was cut is not counted
    chunks = s.stream("/v1/chat/completions", asked | {"parallel_tool_calls": False, "n": 3, "stream": True})
    parts = [(c["choices"][0]["index"], call) for c in chunks for call in c["choices"][0]["delta"].get("tool_calls", [])]
    assert sorted(index for index, call in parts if "id" in call) == [0, 1, 2] and all(call["index"] == 0 for _, call in parts)
    assert "Brugge" not in str(parts)
    assert sorted(c["choices"][0]["index"] for c in chunks if c["choices"][0]["finish_reason"] == "tool_calls") == [0, 1, 2]


def test_slow_senders_are_cut_and_connections_counted(serve):
    s = serve(["ok"], "--request-timeout", "1", "--connections", "3")
    slow = socket.create_connection(("127.0.0.1", s.port), timeout=20)
    for byte in b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{":
        slow.sendall(bytes([byte]))
    begun = time.monotonic()
    try:
        while time.monotonic() - begun < 15:
            slow.sendall(b" ")  # never silent, never done
            time.sleep(0.1)
    except OSError:
        pass
    assert time.monotonic() - begun < 10
    idle = [socket.create_connection(("127.0.0.1", s.port), timeout=20) for _ in range(6)]
    time.sleep(0.5)
    probe = threading.Thread(target=lambda: s.call("GET", "/health"))
    probe.start()
    probe.join(1)
    assert probe.is_alive()  # it waits to be accepted
    for connection in idle:
        connection.close()
    probe.join(20)
    assert not probe.is_alive()
    kept = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
    for _ in range(3):  # a connection that is kept is not slow between its requests
        kept.request("GET", "/health")
        assert kept.getresponse().read() == b'{"status": "ok"}'
        time.sleep(1.2)
    kept.close()


def test_a_connection_gets_all_of_its_bytes_after_another_has_closed(serve):
    """Its socket has the number of the other's. A stream of the other's that still read from it took the second part."""
    s = serve(["ok"])
    body = json.dumps({"content": "a" * 20000}).encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", s.port), timeout=5) as client:
            client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            answer = b""
            while part := client.recv(1 << 16):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200 ") and json.loads(answer.split(b"\r\n\r\n", 1)[1])["tokens"]


def test_who_is_lost_is_told_the_way(serve):
    s = serve(["Red"])
    for method, path, status, said in (("GET", "/nowhere", 404, "/openapi.json"), ("POST", "/chat/completions", 404, "'/v1/chat/completions'"),
                                       ("POST", "/v1/v1/messages", 404, "'/v1/messages'"), ("GET", "/v1/models/", 404, "'/v1/models'"),
                                       ("GET", "/v1/chat/completions", 405, "takes POST, not GET"), ("POST", "/", 405, "takes GET"),
                                       ("DELETE", "/v1/models/x", 405, "takes GET, not DELETE")):
        got, text = s.call(method, path, {} if method != "GET" else None)
        assert got == status and said in json.loads(text)["error"]["message"], path
    assert json.loads(s.call("GET", "/v1/messages/batches")[1])["type"] == "error"  # each in the shape of its protocol
    assert "/openapi.json" in json.loads(s.call("POST", "/api/nothing", {})[1])["error"]
    connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
    connection.request("GET", "/v1/embeddings")
    assert connection.getresponse().getheader("Allow") == "POST"
    connection.close()


def test_a_template_that_does_not_parse_is_no_secret(program, tmp_path):
    write_tape(tmp_path / "m", ["Red"], template="{% for m in messages")
    done = subprocess.run([str(program), "serve", str(tmp_path / "m"), "--host", "nowhere.invalid"], capture_output=True, text=True, timeout=60, check=False)
    assert "the chat template does not parse" in done.stderr
    write_tape(tmp_path / "m", ["Red"], template=None)
    done = subprocess.run([str(program), "serve", str(tmp_path / "m"), "--host", "nowhere.invalid"], capture_output=True, text=True, timeout=60, check=False)
    assert "template" not in done.stderr and done.returncode == 1


def test_who_is_open_to_others_is_told(program, tmp_path):
    write_tape(tmp_path / "m", ["Red"])

    def said(*arguments):  # 192.0.2.1 is nobody's (RFC 5737): what can be said before it cannot be bound
        return subprocess.run([str(program), "serve", str(tmp_path / "m"), *arguments], capture_output=True, text=True, timeout=60, check=False).stderr

    assert "whoever reaches 192.0.2.1 can use this server" in said("--host", "192.0.2.1")
    assert "whoever" not in said("--host", "192.0.2.1", "--api-key", "one")


def test_an_answer_has_a_least_length(serve):
    s = serve(["Red", " wine"])
    ask = {"messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 20}
    _, short = s.post("/v1/chat/completions", ask)
    assert short["usage"]["completion_tokens"] == 3
    _, answer = s.post("/v1/chat/completions", ask | {"min_tokens": 8})
    assert answer["choices"][0]["message"]["content"].startswith("Red wine") and answer["usage"]["completion_tokens"] >= 9
    _, answer = s.post("/v1/completions", {"prompt": "<|assistant|>", "temperature": 0, "min_tokens": 8})
    assert answer["usage"]["completion_tokens"] >= 9
    status, answer = s.post("/v1/chat/completions", ask | {"functions": [{"name": "f"}]})
    assert status == 400 and answer["error"]["param"] == "functions"


@pytest.mark.parametrize("marks, call", [
    ("<tool_call>", ['<tool_call>\n{"name": "weather", "arguments": {"city": ', '"Gent"}}', "\n</tool_call>"]),
    ("<tool_call> <function= <parameter=", ["<tool_call>\n", "<function=weather>\n<parameter=city>\nGent\n", "</parameter>\n</function>\n", "</tool_call>"]),
])
def test_a_form_and_tools_to_choose_from(program, tmp_path, marks, call):
    """A model may call, in its own form, or answer in the form that is asked for; but nothing else."""
    template = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# " + marks + " #}"
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": {
        "type": "object", "properties": {"kleur": {"enum": ["rood"]}}, "required": ["kleur"], "additionalProperties": False}}}
    weather = {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Gent"]}}, "required": ["city"], "additionalProperties": False}}}
    ask = {"messages": [{"role": "user", "content": "x"}], "tools": [weather], "response_format": form, "temperature": 0, "max_tokens": 200}
    for name, pieces in (("calls", call), ("answers", ['{"kleur"', ': "rood"}']), ("chats", ["Hello"])):
        write_tape(tmp_path / name, pieces, template=template, context=1024)
    s = Served(program, *(tmp_path / name for name in ("calls", "answers", "chats")))
    _, answer = s.post("/v1/chat/completions", ask | {"model": "calls"})
    (made,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(made["function"]["arguments"]) == {"city": "Gent"} and answer["choices"][0]["finish_reason"] == "tool_calls"
    _, answer = s.post("/v1/chat/completions", ask | {"model": "answers"})
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"kleur": "rood"}
    _, answer = s.post("/v1/chat/completions", ask | {"model": "chats"})  # it would say Hello
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "length" or "tool_calls" in choice["message"] or json.loads(choice["message"]["content"])
    _, answer = s.post("/v1/chat/completions", ask | {"model": "calls", "tool_choice": "none"})
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"kleur": "rood"}
    assert s.stop() == 0

def test_a_reader_that_falls_behind_misses_nothing(served):
    """Four megabytes: more than its socket and ours hold, so the server sends parts of events, or none, for a while."""
    asked = ASK | {"stream": True, "n": 32, "max_tokens": 100, "temperature": 1, "seed": 3, "logprobs": True, "top_logprobs": 20,
                   "ignore_eos": True}

    def parts(answer):
        events = [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: {")]
        whole = {}
        for event in events:
            for choice in event["choices"]:
                whole.setdefault(choice["index"], []).extend((choice.get("logprobs") or {}).get("content", []))
        return whole

    body, answers = json.dumps(asked).encode(), []
    for late in (False, True):
        with socket.socket() as client:
            if late:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.settimeout(60)
            client.connect(("127.0.0.1", served.port))
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if late:
                time.sleep(4)
            response = http.client.HTTPResponse(client)
            response.begin()
            answers.append(parts(response.read()))
    assert answers[0] == answers[1] and sorted(answers[0]) == list(range(32))
    assert all(len(choice) == 100 for choice in answers[0].values())
