"""The `anthropic` package: messages, streams, thinking, tools, counting; with threads and with asyncio."""
import asyncio

import anthropic
import pydantic
import pytest

SMOLLM2 = "smollm2-135m"
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
COLD = {"temperature": 0}  # the package has no name for it
WEATHER = {"name": "weather", "description": "of a city",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}}


@pytest.fixture(scope="module")
def client(served):
    return anthropic.Anthropic(base_url=served.url, api_key="any", max_retries=0)


@pytest.fixture
def asynchronous(served):
    return anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=0)


def test_a_conversation(client):
    first = client.messages.create(model=SMOLLM2, max_tokens=30, messages=FRANCE, extra_body=COLD)
    assert first.content[0].text == ANSWER and first.stop_reason == "end_turn" and first.usage.output_tokens == 8
    messages = [*FRANCE, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And of Italy?"}]
    count = client.messages.count_tokens(model=SMOLLM2, messages=messages).input_tokens
    second = client.messages.create(model=SMOLLM2, max_tokens=10, messages=messages)
    assert second.usage.input_tokens + second.usage.cache_read_input_tokens == count
    assert second.usage.cache_read_input_tokens > 0
    assert client.messages.create(model="talk", max_tokens=9, system="Brief.", messages=messages).content[0].text == "Red apple pie"


def test_limits_and_stops(client):
    short = client.messages.create(model="talk", max_tokens=1, messages=FRANCE)
    assert (short.content[0].text, short.stop_reason) == ("Red", "max_tokens")
    stopped = client.messages.create(model="talk", max_tokens=9, messages=FRANCE, stop_sequences=["e p"])
    assert (stopped.content[0].text, stopped.stop_reason, stopped.stop_sequence) == ("Red appl", "stop_sequence", "e p")


def test_a_stream(client):
    with client.messages.stream(model=SMOLLM2, max_tokens=30, messages=FRANCE, extra_body=COLD) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == ANSWER and final.usage.output_tokens == 8
    for _ in range(5):  # clients that leave
        with client.messages.stream(model=SMOLLM2, max_tokens=500, messages=FRANCE) as stream:
            next(iter(stream))


def test_thinking_and_a_tool(client):
    messages = [{"role": "user", "content": "Is it dry in Gent?"}]
    with client.messages.stream(model="agent", max_tokens=50, messages=messages, tools=[WEATHER],
                                thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
        final = stream.get_final_message()
    thought, call = final.content
    assert (thought.type, thought.thinking, final.stop_reason) == ("thinking", "look outside", "tool_use")
    assert (call.type, call.name, call.input) == ("tool_use", "weather", {"city": "Gent"})
    assert client.messages.create(model="agent", max_tokens=50, messages=messages, tools=[WEATHER]).content[-1].input == {"city": "Gent"}
    messages += [{"role": "assistant", "content": final.content},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]}]
    answer = client.messages.create(model="agent", max_tokens=50, messages=messages, tools=[WEATHER])
    assert answer.content[0].text == "It rains." and answer.stop_reason == "end_turn"


def test_a_tool_that_must_be_called(client):
    answer = client.messages.create(model=SMOLLM2, max_tokens=200, messages=FRANCE, tools=[WEATHER], extra_body=COLD,
                                    tool_choice={"type": "tool", "name": "weather"})
    assert answer.stop_reason == "tool_use" and list(answer.content[-1].input) == ["city"]


class Capital(pydantic.BaseModel):
    capital: bool
    name: str = pydantic.Field(max_length=12)


def test_a_parsed_answer(client):
    answer = client.messages.parse(model=SMOLLM2, max_tokens=200, messages=FRANCE, extra_body=COLD, output_format=Capital)
    assert isinstance(answer.parsed_output, Capital)


def test_models_and_errors(client):
    assert {"talk", SMOLLM2} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("talk").display_name == "talk"
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="nobody", max_tokens=5, messages=FRANCE)
    with pytest.raises(anthropic.BadRequestError) as error:
        client.messages.create(model="talk", max_tokens=5, messages=[{"role": "user", "content": "x" * 3000}])
    assert error.value.body["error"]["type"] == "invalid_request_error" and error.value.request_id


def test_with_asyncio(asynchronous):
    async def whole(model):
        return (await asynchronous.messages.create(model=model, max_tokens=30, messages=FRANCE, extra_body=COLD)).content[0].text

    async def pieces(model):
        async with asynchronous.messages.stream(model=model, max_tokens=30, messages=FRANCE, extra_body=COLD) as stream:
            return "".join([text async for text in stream.text_stream])

    async def everything():
        async with asynchronous:
            return await asyncio.gather(*(get(model) for model in (SMOLLM2, "talk") * 4 for get in (whole, pieces)))

    assert asyncio.run(everything()) == [ANSWER, ANSWER, "Red apple pie", "Red apple pie"] * 4
