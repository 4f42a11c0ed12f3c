"""The `openai` package: chats, streams, tools, answers of a form, embeddings, responses; with threads and with asyncio."""
import asyncio
import json
import typing

import openai
import pydantic
import pytest

SMOLLM2 = "smollm2-135m"
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
WEATHER = {"type": "function", "function": {"name": "weather", "description": "of a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}


class Capital(pydantic.BaseModel):
    name: typing.Literal["Paris", "Rome"]
    country: typing.Literal["France", "Italy"]
    inhabitants: int = pydantic.Field(ge=1, le=99)


@pytest.fixture(scope="module")
def client(served):
    return openai.OpenAI(base_url=served.url + "/v1", api_key="any", max_retries=0)


@pytest.fixture
def asynchronous(served):
    return openai.AsyncOpenAI(base_url=served.url + "/v1", api_key="any", max_retries=0)


def test_models(client):
    assert {"talk", SMOLLM2} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("talk").id == "talk"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_a_conversation(client):
    messages = [*FRANCE]
    first = client.chat.completions.create(model=SMOLLM2, messages=messages, max_tokens=30, temperature=0)
    assert first.choices[0].message.content == ANSWER and first.choices[0].finish_reason == "stop"
    messages += [first.choices[0].message, {"role": "user", "content": "And of Italy?"}]
    second = client.chat.completions.create(model=SMOLLM2, messages=messages, max_tokens=20, temperature=0)
    assert second.choices[0].message.content and second.usage.prompt_tokens_details.cached_tokens > 0
    assert client.chat.completions.create(model="talk", messages=messages).choices[0].message.content == "Red apple pie"


def test_a_stream(client):
    stream = client.chat.completions.create(model=SMOLLM2, messages=FRANCE, max_tokens=30, temperature=0, stream=True,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == ANSWER
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].usage.completion_tokens == 8
    with client.chat.completions.stream(model="talk", messages=FRANCE, logprobs=True, n=2) as helper:
        kinds = [event.type for event in helper]
        final = helper.get_final_completion()
    assert "content.delta" in kinds and "content.done" in kinds and "logprobs.content.delta" in kinds
    assert [choice.message.content for choice in final.choices] == ["Red apple pie"] * 2


def test_a_stream_that_is_left(client):
    for _ in range(5):
        with client.chat.completions.create(model=SMOLLM2, messages=FRANCE, max_tokens=500, stream=True) as stream:
            next(iter(stream))
    assert client.chat.completions.create(model="talk", messages=FRANCE).choices[0].message.content == "Red apple pie"


def test_with_asyncio(asynchronous):
    async def whole(model):
        answer = await asynchronous.chat.completions.create(model=model, messages=FRANCE, max_tokens=30, temperature=0)
        return answer.choices[0].message.content

    async def pieces(model):
        stream = await asynchronous.chat.completions.create(model=model, messages=FRANCE, max_tokens=30, temperature=0, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def everything():
        async with asynchronous:
            return await asyncio.gather(*(get(model) for model in (SMOLLM2, "talk") * 4 for get in (whole, pieces)))

    assert asyncio.run(everything()) == [ANSWER, ANSWER, "Red apple pie", "Red apple pie"] * 4


def test_a_tool_is_called_and_answered(client):
    messages = [{"role": "user", "content": "Is it dry in Gent?"}]
    choice = client.chat.completions.create(model="agent", messages=messages, tools=[WEATHER]).choices[0]
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Gent"} and choice.message.reasoning_content == "look outside"
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    choice = client.chat.completions.create(model="agent", messages=messages, tools=[WEATHER]).choices[0]
    assert choice.message.content == "It rains." and choice.finish_reason == "stop"


def test_tools_in_a_stream(client):
    with client.chat.completions.stream(model="agents", messages=FRANCE, tools=[WEATHER]) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    assert [(event.index, event.parsed_arguments) for event in done] == [(0, {"city": "Gent"}), (1, {"city": "Luik"})]


def test_a_tool_that_must_be_called(client):
    choice = client.chat.completions.create(model=SMOLLM2, messages=FRANCE, tools=[WEATHER], temperature=0, max_tokens=200,
                                            tool_choice={"type": "function", "function": {"name": "weather"}}).choices[0]
    assert list(json.loads(choice.message.tool_calls[0].function.arguments)) == ["city"]


def test_parsed_answers(client):
    for parse in (client.chat.completions.parse, client.beta.chat.completions.parse):
        message = parse(model=SMOLLM2, messages=FRANCE, response_format=Capital, temperature=0, max_tokens=200).choices[0].message
        assert isinstance(message.parsed, Capital)
    message = client.chat.completions.parse(model="agent", messages=FRANCE, tools=[WEATHER]).choices[0].message
    assert message.tool_calls[0].function.parsed_arguments == {"city": "Gent"}
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model=SMOLLM2, messages=FRANCE, response_format=Capital, max_tokens=2)


def test_completions(client):
    answer = client.completions.create(model=SMOLLM2, prompt="The capital of France is", max_tokens=4, temperature=0, logprobs=2)
    assert answer.choices[0].text.startswith(" Paris") and len(answer.choices[0].logprobs.tokens) == 4
    stream = client.completions.create(model=SMOLLM2, prompt="The capital of France is", max_tokens=4, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == answer.choices[0].text


def test_embeddings(client):
    texts = ["hello", "hello world"]
    data = client.embeddings.create(model="talk", input=texts).data  # the package asks for base64
    floats = client.embeddings.create(model="talk", input=texts, encoding_format="float").data
    assert [item.index for item in data] == [0, 1]
    for got, expected in zip(data, floats):
        assert got.embedding == pytest.approx(expected.embedding, abs=1e-9) and len(got.embedding) == 320
    assert floats[0].embedding.index(max(floats[0].embedding)) == ord("o")


def test_errors(client):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=FRANCE)
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="talk", messages=[])
    assert error.value.param == "messages" and error.value.request_id
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="talk", messages=[{"role": "user", "content": "x" * 3000}])
    assert error.value.code == "context_length_exceeded"


def test_a_response(client):
    answer = client.responses.create(model=SMOLLM2, input="What is the capital of France?", temperature=0, max_output_tokens=30)
    assert answer.status == "completed" and answer.output_text == ANSWER and answer.usage.output_tokens == 8
    more = client.responses.create(model=SMOLLM2, input="And of Italy?", previous_response_id=answer.id, max_output_tokens=20, temperature=0)
    assert more.usage.input_tokens > answer.usage.input_tokens and more.previous_response_id == answer.id
    assert client.responses.retrieve(answer.id).output_text == ANSWER
    assert len(client.responses.input_items.list(answer.id).data) == 1
    client.responses.delete(answer.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_a_response_in_a_stream(client):
    with client.responses.stream(model="talk", input="hello", instructions="Be brief.") as stream:
        events = list(stream)
        assert stream.get_final_response().output_text == "Red apple pie"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"


def test_a_response_with_a_tool(client):
    tool = {"type": "function", **WEATHER["function"]}
    answer = client.responses.create(model="agent", input="Dry in Gent?", tools=[tool])
    (call,) = [item for item in answer.output if item.type == "function_call"]
    assert call.name == "weather" and json.loads(call.arguments) == {"city": "Gent"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    answer = client.responses.create(model="agent", previous_response_id=answer.id, input=[result], tools=[tool])
    assert answer.output_text == "It rains."


def test_a_parsed_response(client):
    answer = client.responses.parse(model=SMOLLM2, input="Of France?", text_format=Capital, temperature=0, max_output_tokens=200)
    assert isinstance(answer.output_parsed, Capital)


def test_responses_with_asyncio(asynchronous):
    async def everything():
        async with asynchronous:
            stream = await asynchronous.responses.create(model="talk", input="hello", stream=True)
            texts = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            return "".join(texts), (await asynchronous.responses.create(model="talk", input="hello", store=False)).output_text

    assert asyncio.run(everything()) == ("Red apple pie", "Red apple pie")
