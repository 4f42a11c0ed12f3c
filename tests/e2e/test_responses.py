"""/v1/responses: items in and out, the order of a stream's events, and what is kept."""
import json

import pytest

from served import Served
from tape import write_tape

PATH = "/v1/responses"
ASK = {"input": "What is the capital of France?", "temperature": 0, "max_output_tokens": 30}
CALL = '<tool_call>{"name":"weer","arguments":{"stad":"Gent"}}</tool_call>'
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
            "{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.id }}:{{ c.function.name }}:"
            "{{ c.function.arguments|tojson }}]{% endfor %}"
            "{% if m.tool_call_id %}@{{ m.tool_call_id }}{% endif %}{% endfor %}"
            "{% if tools %}<tools>{{ tools|tojson }}</tools><tool_call>{% endif %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
TOOL = {"type": "function", "name": "weer", "description": "het weer",
        "parameters": {"type": "object", "properties": {"stad": {"type": "string"}}}}


@pytest.fixture(scope="module")
def served(program, smollm2):
    s = Served(program, smollm2)
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="module")
def tape(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_tape(folder / "tool", ["Kijk. ", CALL], template=TEMPLATE, context=2048)
    thinking = TEMPLATE.replace("<|assistant|>{% endif %}", "<|assistant|><think>{% endif %}{# </think> #}")
    write_tape(folder / "think", ["<think>", "hm, ", "zes", "\n</think>\n\n", "6 ", "dus"], template=thinking, context=2048)
    s = Served(program, folder / "tool", folder / "think")
    yield s
    assert s.stop() == 0


def stream(served, body):
    """The events of a stream, whose names and numbers are as they must be."""
    status, text = served.call("POST", PATH, body | {"stream": True})
    assert status == 200 and "[DONE]" not in text
    events = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        name, data = lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))
        assert data["type"] == name and data["sequence_number"] == len(events)
        events.append(data)
    return events


def without_ids(items):
    return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in items]


def joined(events, name):
    return "".join(event["delta"] for event in events if event["type"] == name)


def test_a_text_is_answered(served):
    status, answer = served.post(PATH, ASK | {"metadata": {"a": "b"}})
    assert status == 200 and answer["object"] == "response" and answer["status"] == "completed"
    assert answer["id"].startswith("resp_") and answer["metadata"] == {"a": "b"} and answer["error"] is None
    (message,) = answer["output"]
    assert message["type"] == "message" and message["role"] == "assistant" and message["status"] == "completed"
    (part,) = message["content"]
    assert part == {"type": "output_text", "text": "The capital of France is Paris.", "annotations": [], "logprobs": []}
    usage = answer["usage"]
    assert usage["input_tokens"] == 37 and usage["output_tokens"] == 8 and usage["total_tokens"] == 45
    for key in ("instructions", "incomplete_details", "previous_response_id", "max_output_tokens", "tools", "tool_choice",
                "parallel_tool_calls", "text", "reasoning", "temperature", "top_p", "truncation", "created_at", "model"):
        assert key in answer, key


def test_the_events_come_in_order(served):
    _, whole = served.post(PATH, ASK)
    events = stream(served, ASK)
    names = [event["type"] for event in events]
    deltas = names.count("response.output_text.delta")
    assert names == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                     *["response.output_text.delta"] * deltas, "response.output_text.done", "response.content_part.done",
                     "response.output_item.done", "response.completed"] and deltas > 1
    assert joined(events, "response.output_text.delta") == whole["output"][0]["content"][0]["text"] == events[-4]["text"]
    assert events[0]["response"]["status"] == "in_progress" and events[0]["response"]["output"] == []
    final = events[-1]["response"]
    assert without_ids(final["output"]) == without_ids(whole["output"]) and final["output"][0] == events[-2]["item"]
    assert final["usage"] == whole["usage"] | {"input_tokens_details": final["usage"]["input_tokens_details"]}
    assert {event["item_id"] for event in events if "item_id" in event} == {final["output"][0]["id"]}


def test_a_limit_makes_it_incomplete(served):
    _, answer = served.post(PATH, ASK | {"max_output_tokens": 3})
    assert answer["status"] == "incomplete" and answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["usage"]["output_tokens"] == 3 and answer["output"][0]["status"] == "incomplete"
    events = stream(served, ASK | {"max_output_tokens": 3})
    assert events[-1]["type"] == "response.incomplete" and events[-1]["response"]["status"] == "incomplete"


def test_it_answers_as_chat_does(served):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Who are you?"}]
    _, chat = served.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 12})
    parts = [{"type": "message", "role": m["role"], "content": [
        {"type": "output_text" if m["role"] == "assistant" else "input_text", "text": m["content"]}]} for m in messages[1:]]
    for body in ({"instructions": "Be brief.", "input": parts}, {"input": messages},
                 {"input": [{"role": "developer", "content": "Be brief."}, *messages[1:]]}):
        _, answer = served.post(PATH, body | {"temperature": 0, "max_output_tokens": 12})
        assert answer["output"][0]["content"][0]["text"] == chat["choices"][0]["message"]["content"]
        assert answer["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]


def test_scores_come_when_asked_for(served):
    _, chat = served.post("/v1/chat/completions", {"messages": [{"role": "user", "content": ASK["input"]}], "temperature": 0,
                                                   "max_tokens": 30, "logprobs": True, "top_logprobs": 2})
    expected = chat["choices"][0]["logprobs"]["content"]
    body = ASK | {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    _, answer = served.post(PATH, body)
    scores = answer["output"][0]["content"][0]["logprobs"]
    assert scores == expected[:len(scores)] and len(scores) >= 7
    events = stream(served, body)
    told = [score for event in events if event["type"] == "response.output_text.delta" for score in event["logprobs"]]
    assert told == scores


def test_the_conversation_is_kept(served):
    _, first = served.post(PATH, ASK | {"instructions": "Be brief."})
    _, second = served.post(PATH, {"input": "And of Spain?", "previous_response_id": first["id"], "temperature": 0,
                                   "max_output_tokens": 20})
    said = first["output"][0]["content"][0]["text"]
    messages = [{"role": "user", "content": ASK["input"]}, {"role": "assistant", "content": said},
                {"role": "user", "content": "And of Spain?"}]
    _, chat = served.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 20})
    assert second["output"][0]["content"][0]["text"] == chat["choices"][0]["message"]["content"]
    assert second["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]  # without the first one's instructions
    assert second["previous_response_id"] == first["id"]
    status, text = served.call("GET", f"{PATH}/{second['id']}")
    assert status == 200 and json.loads(text) == second
    items = json.loads(served.call("GET", f"{PATH}/{second['id']}/input_items?order=asc")[1])
    assert [item["content"][0]["text"] for item in items["data"]] == [m["content"] for m in messages]
    assert items["data"][1] == first["output"][0] and items["has_more"] is False
    page = json.loads(served.call("GET", f"{PATH}/{second['id']}/input_items?limit=2")[1])
    assert [item["id"] for item in page["data"]] == [item["id"] for item in items["data"][:0:-1]] and page["has_more"] is True
    rest = json.loads(served.call("GET", f"{PATH}/{second['id']}/input_items?after={page['last_id']}")[1])
    assert rest["data"] == items["data"][:1] and rest["first_id"] == rest["last_id"] == items["data"][0]["id"]


def test_what_is_not_kept_is_not_found(served):
    _, first = served.post(PATH, ASK | {"store": False})
    assert first["store"] is False
    status, text = served.call("GET", f"{PATH}/{first['id']}")
    assert status == 404 and json.loads(text)["error"]["message"]
    status, answer = served.post(PATH, ASK | {"previous_response_id": first["id"]})
    assert status == 400 and answer["error"]["param"] == "previous_response_id"
    _, kept = served.post(PATH, ASK)
    status, answer = served.post(f"{PATH}/{kept['id']}/cancel", {})
    assert status == 400 and "background" in answer["error"]["message"]
    status, text = served.call("DELETE", f"{PATH}/{kept['id']}")
    assert status == 200 and json.loads(text) == {"id": kept["id"], "object": "response", "deleted": True}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("GET", "/nothing")):
        assert served.call(method, f"{PATH}/{kept['id']}{path}")[0] == 404
    assert served.call("POST", f"{PATH}/{kept['id']}/cancel", {})[0] == 404


def test_tools_are_called(tape):
    body = {"model": "tool", "input": "weer?", "tools": [TOOL], "temperature": 0}
    _, answer = tape.post(PATH, body)
    message, call = answer["output"]
    assert message["content"][0]["text"] == "Kijk."
    assert call["type"] == "function_call" and call["name"] == "weer" and json.loads(call["arguments"]) == {"stad": "Gent"}
    assert call["call_id"] and call["id"].startswith("fc_") and call["status"] == "completed"
    events = stream(tape, body)
    names = [event["type"] for event in events]
    at = names.index("response.output_item.done") + 1
    deltas = names.count("response.function_call_arguments.delta")
    assert names[at:] == ["response.output_item.added", *["response.function_call_arguments.delta"] * deltas,
                          "response.function_call_arguments.done", "response.output_item.done", "response.completed"]
    assert events[at]["item"]["arguments"] == "" and events[at]["output_index"] == 1
    assert json.loads(joined(events, "response.function_call_arguments.delta")) == {"stad": "Gent"}
    assert without_ids(events[-1]["response"]["output"]) == without_ids(answer["output"])
    _, none = tape.post(PATH, body | {"tool_choice": "none"})
    assert [item["type"] for item in none["output"]] == ["message"]


def test_calls_and_results_go_back_in(tape):
    """The prompt's tokens are bytes and marks, so their number tells what the template saw."""
    items = [{"role": "user", "content": "q"},
             {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
             {"type": "function_call", "call_id": "c1", "name": "weer", "arguments": '{"stad": "Gent"}'},
             {"type": "function_call", "call_id": "c2", "name": "weer", "arguments": '{}'},
             {"type": "function_call_output", "call_id": "c1", "output": "zon"},
             {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "reg"},
                                                                          {"type": "input_text", "text": "en"}]}]
    prompt = '<|user|>q<|assistant|>(hm)[c1:weer:{"stad": "Gent"}][c2:weer:{}]<|tool|>zon@c1<|tool|>regen@c2<|assistant|>'
    _, answer = tape.post(PATH, {"model": "tool", "input": items})
    _, raw = tape.post("/v1/completions", {"model": "tool", "prompt": prompt})
    assert answer["usage"]["input_tokens"] == raw["usage"]["prompt_tokens"]
    assert raw["usage"]["prompt_tokens_details"]["cached_tokens"] == raw["usage"]["prompt_tokens"] - 1  # the same ids
    status, again = tape.post(PATH, {"model": "tool", "previous_response_id": answer["id"], "input": "en?"})
    assert status == 200 and again["usage"]["input_tokens"] > answer["usage"]["input_tokens"]


def test_thoughts_are_an_item(tape):
    body = {"model": "think", "input": "3+3?", "temperature": 0}
    _, answer = tape.post(PATH, body)
    thought, message = answer["output"]
    assert thought["type"] == "reasoning" and thought["summary"] == [] and thought["id"].startswith("rs_")
    assert thought["content"][0]["type"] == "reasoning_text" and thought["content"][0]["text"].strip() == "hm, zes"
    assert message["content"][0]["text"] == "6 dus"
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] == 3
    events = stream(tape, body)
    names = [event["type"] for event in events]
    assert names[2:4] == ["response.output_item.added", "response.content_part.added"]
    assert joined(events, "response.reasoning_text.delta") == thought["content"][0]["text"]
    assert names.index("response.reasoning_text.done") < names.index("response.output_text.delta")
    assert without_ids(events[-1]["response"]["output"]) == without_ids(answer["output"])


def test_an_answer_has_the_form_that_is_asked_for(served):
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"],
              "additionalProperties": False}
    _, answer = served.post(PATH, ASK | {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema,
                                                             "strict": True}}})
    assert json.loads(answer["output"][0]["content"][0]["text"])["city"] in ("Paris", "Rome")


def test_what_is_wrong_is_named(served, tape):
    part = {"type": "input_image", "image_url": "x"}
    for change, param in (({"input": None}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"),
                          ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
                          ({"input": [{"role": "user", "content": None}]}, "input[0].content"),
                          ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, part]}]},
                           "input[0].content[1]"),
                          ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0]"),
                          ({"input": ["a"]}, "input[0]"), ({"input": [{"type": "web_search_call"}]}, "input[0]"),
                          ({"input": [{"type": "function_call", "call_id": "a", "name": "b"}]}, "input[0]"),
                          ({"instructions": 3}, "instructions"), ({"max_output_tokens": 0}, "max_output_tokens"),
                          ({"background": True}, "background"), ({"conversation": "conv_1"}, "conversation"),
                          ({"tools": [{"type": "web_search"}]}, "tools[0]"), ({"tools": [{"type": "function"}]}, "tools[0]"),
                          ({"tool_choice": "required"}, "tool_choice"), ({"tool_choice": "soms"}, "tool_choice"),
                          ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "zoek"}}, "tool_choice"),
                          ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "zzz", "tools": [TOOL]}}, "tool_choice"),
                          ({"store": 1}, "store"), ({"top_logprobs": 21}, "top_logprobs"), ({"metadata": []}, "metadata"),
                          ({"previous_response_id": 4}, "previous_response_id"), ({"temperature": "hot"}, "temperature")):
        status, answer = served.post(PATH, ASK | change)
        assert status == 400 and answer["error"]["param"] == param, (change, answer)
    status, answer = served.post(PATH, ASK | {"input": "a " * 9000})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
