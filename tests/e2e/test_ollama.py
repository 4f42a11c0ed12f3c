"""Ollama's API over HTTP, on models that play their answer."""
import json

import pytest

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.name or '' }}{{ m.reasoning_content or '' }}{{ m.content }}\n{% endfor %}"
HERMES = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}{# <think> </think> <tool_call> #}"
THINKING = TURNS + "{% if add_generation_prompt %}<|assistant|><think>{% if not enable_thinking %}</think>{% endif %}{% endif %}"
TOOLS = [{"type": "function", "function": {"name": "lees", "parameters": {"type": "object", "properties": {"pad": {"type": "string"}}}}}]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def lines(s, path, body):
    status, text = s.call("POST", path, body)
    assert status == 200 and text.endswith("\n")
    answers = [json.loads(line) for line in text.splitlines()]
    assert [a["done"] for a in answers] == [False] * (len(answers) - 1) + [True]
    assert all(a["model"] == body["model"] and a["created_at"].endswith("Z") for a in answers)
    return answers


def test_a_chat_streams_by_default(serve):
    s = serve(["Red", " apple", " pie"])
    answers = lines(s, "/api/chat", CHAT)
    assert all(a["message"]["role"] == "assistant" for a in answers)
    assert [a["message"]["content"] for a in answers] == ["Red", " apple", " pie", ""]
    end = answers[-1]
    assert end["done_reason"] == "stop" and end["eval_count"] == 4
    assert end["prompt_eval_count"] == len("<|user|>hello\nA")
    assert end["total_duration"] >= end["prompt_eval_duration"] + end["eval_duration"] > 0
    status, whole = s.post("/api/chat", CHAT | {"stream": False})
    assert status == 200 and whole["done"] and whole["message"] == {"role": "assistant", "content": "Red apple pie"}


def test_options(serve):
    s = serve(["Red", " apple", " pie"])
    answer = s.post("/api/chat", CHAT | {"stream": False, "options": {"num_predict": 2, "temperature": 0}})[1]
    assert (answer["message"]["content"], answer["done_reason"]) == ("Red apple", "length")
    answer = s.post("/api/chat", CHAT | {"stream": False, "options": {"stop": ["ple p"], "num_predict": -1, "top_k": 40, "seed": 1}})[1]
    assert (answer["message"]["content"], answer["done_reason"]) == ("Red ap", "stop")
    status, answer = s.post("/api/chat", CHAT | {"options": {"temperature": "hot"}})
    assert status == 400 and "temperature" in answer["error"]


def test_generate(serve):
    s = serve(["Red", " apple", " pie"])
    answers = lines(s, "/api/generate", {"model": "m:latest", "prompt": "hello"})
    assert [a["response"] for a in answers] == ["Red", " apple", " pie", ""]
    assert answers[-1]["prompt_eval_count"] == len("<|user|>hello\nA")
    ask = {"model": "m", "prompt": "hello", "stream": False}
    assert s.post("/api/generate", ask | {"system": "brief"})[1]["prompt_eval_count"] == len("<|system|>brief\n<|user|>hello\nA")
    raw = s.post("/api/generate", ask | {"prompt": "hi Red", "raw": True, "system": "brief"})[1]
    assert (raw["response"], raw["prompt_eval_count"]) == (" apple pie", 4)
    for empty in ({"model": "m"}, {"model": "m", "prompt": ""}):
        answer = s.post("/api/generate", empty)[1]
        assert (answer["done"], answer["done_reason"], answer["response"]) == (True, "load", "")
    assert s.post("/api/chat", {"model": "m", "messages": []})[1]["done_reason"] == "load"


def test_the_context_of_a_text_goes_on(serve):
    """All ids so far, before the next prompt; not where the prompt goes in as it is."""
    s = serve(["Red", " apple"])
    ask = {"model": "m", "prompt": "hello", "stream": False, "options": {"temperature": 0}}
    first = s.post("/api/generate", ask)[1]
    text = s.post("/detokenize", {"tokens": first["context"]})[1]["content"]
    assert text == "<|user|>hello\n<|assistant|>Red apple<|end|>"
    second = s.post("/api/generate", ask | {"prompt": "more", "context": first["context"]})[1]
    assert second["context"][:len(first["context"])] == first["context"] and second["response"] == "Red apple"
    assert second["prompt_eval_count"] == len(first["context"]) + len("<|user|>more\nA")
    assert s.post("/detokenize", {"tokens": second["context"]})[1]["content"] == text + text.replace("hello", "more")
    streamed = lines(s, "/api/generate", ask | {"prompt": "more", "context": first["context"], "stream": True})
    assert streamed[-1]["context"] == second["context"] and not any("context" in line for line in streamed[:-1])
    assert s.post("/api/generate", ask | {"context": []})[1]["context"] == first["context"]
    assert "context" not in s.post("/api/generate", ask | {"raw": True})[1] and "context" not in s.post("/api/chat", CHAT | {"stream": False})[1]
    for wrong in ({"context": "x"}, {"context": ["x"]}, {"context": [10**6]}, {"context": [-1]}, {"context": [1], "raw": True}):
        status, answer = s.post("/api/generate", ask | wrong)
        assert status == 400 and "'context'" in answer["error"], wrong
    status, answer = s.post("/api/generate", ask | {"context": [1] * 300})
    assert status == 400 and answer["error"].startswith("This model's maximum context length is 256 tokens.")


def test_thinking_and_calls(serve):
    s = serve(["<think>", "add", " them", "</think>", "\n\n", "Ok.", '<tool_call>{"name":"lees","arguments":{"pad":"a.txt"}}</tool_call>'],
              template=HERMES)
    body = CHAT | {"tools": TOOLS}
    answers = lines(s, "/api/chat", body)
    assert "".join(a["message"].get("thinking", "") for a in answers).strip() == "add them"
    assert "".join(a["message"]["content"] for a in answers) == "Ok."
    calls = [call["function"] for a in answers for call in a["message"].get("tool_calls", [])]
    assert calls == [{"index": 0, "name": "lees", "arguments": {"pad": "a.txt"}}]
    message = s.post("/api/chat", body | {"stream": False})[1]["message"]
    assert (message["thinking"].strip(), message["content"]) == ("add them", "Ok.")
    assert [call["function"] for call in message["tool_calls"]] == calls
    history = [*CHAT["messages"], {"role": "assistant", "content": "Yes.", "thinking": "hm", "tool_calls": message["tool_calls"]},
               {"role": "tool", "tool_name": "lees", "content": "text"}]
    answer = s.post("/api/chat", CHAT | {"messages": history, "stream": False})[1]
    assert answer["prompt_eval_count"] == len("<|user|>hello\nAhmYes.\n<|tool|>leestext\nA")


@pytest.mark.parametrize("think, pieces, message", [
    (True, ["<think>", "add", "</think>", "six"], {"role": "assistant", "content": "six", "thinking": "add"}),
    (False, ["</think>", "six"], {"role": "assistant", "content": "six"}),
])
def test_think(serve, think, pieces, message):
    s = serve(pieces, template=THINKING)
    assert s.post("/api/chat", CHAT | {"think": think, "stream": False})[1]["message"] == message
    for wrong in (5, "", []):
        status, answer = s.post("/api/chat", CHAT | {"think": wrong})
        assert status == 400 and "think" in answer["error"]


@pytest.mark.parametrize("level", ["low", "medium", "high", "max", "much"])
def test_levels_of_thinking(serve, level):
    s = serve(["<think>", "add", "</think>", "six"], template="{{ reasoning_effort }}" + THINKING)
    answer = s.post("/api/chat", CHAT | {"think": level, "stream": False})[1]
    assert answer["message"] == {"role": "assistant", "content": "six", "thinking": "add"}
    assert answer["prompt_eval_count"] == len(level + "<|user|>hello\nA") + 1


@pytest.mark.parametrize("path, ask", [("/api/chat", CHAT), ("/api/generate", {"model": "m", "prompt": "hello"})])
def test_scores(serve, path, ask):
    """As the chat API has them, a token's beside the piece that it is."""
    s = serve(["Red", " apple"])
    ask = ask | {"logprobs": True, "top_logprobs": 2, "options": {"temperature": 0}}
    scores = s.post(path, ask | {"stream": False})[1]["logprobs"]
    assert [(t["token"], bytes(t["bytes"])) for t in scores] == [("Red", b"Red"), (" apple", b" apple"), ("<|end|>", b"<|end|>")]
    for token in scores:
        first, second = token["top_logprobs"]
        assert first == {key: token[key] for key in ("token", "bytes", "logprob")} and second["logprob"] < first["logprob"] < 0
    pieces = lines(s, path, ask)
    assert [t for piece in pieces for t in piece.get("logprobs", [])] == scores
    assert [[t["token"] for t in piece["logprobs"]] for piece in pieces] == [["Red"], [" apple"], ["<|end|>"]]
    chat = s.post("/v1/chat/completions", {"messages": CHAT["messages"], "logprobs": True, "top_logprobs": 2, "temperature": 0})[1]
    assert chat["choices"][0]["logprobs"]["content"] == scores
    assert "top_logprobs" not in s.post(path, ask | {"stream": False, "logprobs": False, "top_logprobs": 0})[1]
    for change in ({"logprobs": False}, {"top_logprobs": 21}):
        status, answer = s.post(path, ask | change)
        assert status == 400 and "top_logprobs" in answer["error"]


def test_a_suffix_is_what_comes_after(serve):
    """The template is of no use then; what stands between ends at the tokens for that, too."""
    s = serve(["<|fim_prefix|>", "no"], also=[["<|fim_suffix|>"], ["<|fim_middle|>", "Ha", "lf", "<|file_sep|>", "over"]])
    ask = {"model": "m", "prompt": "ab", "suffix": "cd", "system": "x", "stream": False, "options": {"temperature": 0}}
    answer = s.post("/api/generate", ask)[1]
    assert (answer["response"], answer["done_reason"]) == ("Half", "stop")
    assert answer["prompt_eval_count"] == 3 + 4  # three marks and four bytes
    assert "".join(a["response"] for a in lines(s, "/api/generate", ask | {"stream": True})) == "Half"
    assert s.post("/api/generate", ask | {"prompt": ""})[1]["response"] == "Half"
    assert "insert" in s.post("/api/show", {"model": "m"})[1]["capabilities"]


def test_a_raw_prompt_has_a_form_as_well(serve):
    s = serve(["Red"], context=512)
    schema = {"type": "object", "properties": {"kleur": {"enum": ["rood"]}}, "required": ["kleur"], "additionalProperties": False}
    answer = s.post("/api/generate", {"model": "m", "prompt": "hi", "raw": True, "format": schema, "stream": False})[1]
    assert json.loads(answer["response"]) == {"kleur": "rood"}


def test_what_would_change_the_models_is_refused(serve):
    s = serve(["Red"])
    for method, path, way in (("POST", "/api/pull", "lockstep pull"), ("POST", "/api/push", "upload"), ("POST", "/api/create", "lockstep import"),
                              ("POST", "/api/copy", "copy"), ("POST", "/api/blobs/sha256:00", "lockstep import"),
                              ("DELETE", "/api/delete", "lockstep rm")):
        status, text = s.call(method, path, {"model": "m"})
        assert status == 403 and way in json.loads(text)["error"], path


def test_models(serve):
    s = serve(["Red"], template=HERMES)
    tags = json.loads(s.call("GET", "/api/tags")[1])["models"]
    assert [m["name"] for m in tags] == ["m"] and tags[0]["size"] > 4 * 320 * 320
    assert tags[0]["details"]["family"] == "llama" and tags[0]["details"]["quantization_level"] == "F32"
    assert json.loads(s.call("GET", "/api/ps")[1])["models"][0]["context_length"] == 256
    assert json.loads(s.call("GET", "/api/version")[1])["version"]
    status, show = s.post("/api/show", {"model": "m"})
    assert status == 200 and show["capabilities"] == ["completion", "tools", "thinking"] and show["template"] == HERMES
    assert show["model_info"]["llama.context_length"] == 256
    parameters = show["model_info"]["general.parameter_count"]
    v = 320
    assert parameters == 2 * v * v + 3 * v + 3 * 64 * v + 4 * v * v and show["details"]["parameter_size"] == f"{parameters / 1e6:.2f}M"


def test_show_names_the_defaults_as_a_modelfile_does(serve):
    sampling = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05}
    shown = serve(["Red"], generation=sampling).post("/api/show", {"model": "m"})[1]["parameters"]
    assert [line.split() for line in shown.splitlines()] == [
        ["temperature", "0.7"], ["top_k", "20"], ["top_p", "0.95"], ["repeat_penalty", "1.05"], ["stop", '"<|end|>"']]


def test_format(serve):
    s = serve(["Red"], context=512)
    schema = {"type": "object", "properties": {"kleur": {"enum": ["rood"]}}, "required": ["kleur"], "additionalProperties": False}
    for path, key in (("/api/chat", "message"), ("/api/generate", "response")):
        answer = s.post(path, CHAT | {"prompt": "hello", "format": schema, "stream": False})[1]
        assert answer["done_reason"] == "stop"
        assert json.loads(answer[key]["content"] if key == "message" else answer[key]) == {"kleur": "rood"}
    answer = s.post("/api/chat", CHAT | {"format": "json", "stream": False, "options": {"num_predict": 40}})[1]
    assert answer["message"]["content"].lstrip().startswith("{")


def test_what_is_wrong_is_named(serve):
    s = serve(["Red"], "--api-key", "one")
    assert s.call("GET", "/api/tags")[0] == 401
    assert isinstance(json.loads(s.call("GET", "/api/tags")[1])["error"], str)

    def refused(path, body):
        status, text = s.call("POST", path, body, {"Authorization": "Bearer one"})
        assert status == 400
        return json.loads(text)["error"]

    assert "model" in refused("/api/chat", {"messages": []})
    assert "messages[0]" in refused("/api/chat", CHAT | {"messages": [{"role": "user", "content": "x", "images": ["aa"]}]})
    assert "messages[0].role" in refused("/api/chat", CHAT | {"messages": [{"role": "robot", "content": "x"}]})
    assert "messages" in refused("/api/chat", CHAT | {"messages": {}})
    assert "format" in refused("/api/chat", CHAT | {"format": "xml"})
    assert "prompt" in refused("/api/generate", {"model": "m", "prompt": ["a"]})
    assert "suffix" in refused("/api/generate", {"model": "m", "prompt": "a", "suffix": "b"})
    assert "suffix" in refused("/api/chat", CHAT | {"suffix": "b"})
    assert "JSON" in refused("/api/chat", b'{"a":1')
