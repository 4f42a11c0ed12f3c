"""litellm, LangChain, llm and ollama: libraries that speak the same protocols in their own ways."""
import asyncio
import json
import os
import subprocess
import sys

import ollama
import pydantic
import pytest

SMOLLM2 = "smollm2-135m"
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": PARAMETERS}}


# ---- litellm ----

@pytest.fixture(scope="module")
def litellm():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch its price list
    import litellm as module  # pylint: disable=import-outside-toplevel
    module.telemetry = False
    return module


@pytest.mark.parametrize("provider, path", [("openai", "/v1"), ("anthropic", ""), ("ollama_chat", ""), ("hosted_vllm", "/v1")])
def test_litellm(litellm, served, provider, path):
    how = {"api_base": served.url + path, "api_key": "any", "num_retries": 0, "max_retries": 0, "temperature": 0, "max_tokens": 30}
    answer = litellm.completion(model=f"{provider}/{SMOLLM2}", messages=FRANCE, **how)
    assert answer.choices[0].message.content == ANSWER and answer.choices[0].finish_reason == "stop"
    stream = litellm.completion(model=f"{provider}/talk", messages=FRANCE, stream=True, **how)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Red apple pie"
    answer = asyncio.run(litellm.acompletion(model=f"{provider}/talk", messages=FRANCE, **how))
    assert answer.choices[0].message.content == "Red apple pie"


@pytest.mark.parametrize("provider, path", [("openai", "/v1"), ("anthropic", ""), ("hosted_vllm", "/v1")])
def test_litellm_with_a_tool(litellm, served, provider, path):
    how = {"api_base": served.url + path, "api_key": "any", "max_retries": 0, "max_tokens": 50, "tools": [WEATHER], "model": f"{provider}/agent"}
    messages = [{"role": "user", "content": "Is it dry in Gent?"}]
    message = litellm.completion(messages=messages, **how).choices[0].message
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Gent"}
    messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}]
    assert litellm.completion(messages=messages, **how).choices[0].message.content == "It rains."


def test_litellm_embeds(litellm, served):
    data = litellm.embedding(model="openai/talk", input=["hello"], api_base=served.url + "/v1", api_key="any", max_retries=0).data
    assert len(data[0]["embedding"]) == 320


# ---- LangChain ----

def chat(served, model, **options):
    from langchain_openai import ChatOpenAI  # pylint: disable=import-outside-toplevel
    return ChatOpenAI(base_url=served.url + "/v1", api_key="any", model=model, max_retries=0, temperature=0, **options)


class Capital(pydantic.BaseModel):
    """A capital."""
    name: str = pydantic.Field(max_length=12)
    large: bool


@pytest.mark.parametrize("responses", [False, True])
def test_langchain(served, responses):
    model = chat(served, SMOLLM2, max_tokens=30, use_responses_api=responses)
    answer = model.invoke([("human", FRANCE[0]["content"])])
    assert answer.text == ANSWER and answer.usage_metadata["output_tokens"] == 8
    talk = chat(served, "talk", use_responses_api=responses)
    assert "".join(chunk.text for chunk in talk.stream("hello")) == "Red apple pie"
    assert [m.text for m in talk.batch(["hello", "hello you"])] == ["Red apple pie"] * 2


def test_langchain_with_asyncio(served):  # once: it keeps its connections, which belong to one loop
    assert asyncio.run(chat(served, "talk").ainvoke("hello")).text == "Red apple pie"


@pytest.mark.parametrize("responses", [False, True])
def test_langchain_with_tools(served, responses):
    from langchain_core.messages import HumanMessage, ToolMessage  # pylint: disable=import-outside-toplevel
    model = chat(served, "agent", use_responses_api=responses).bind_tools([WEATHER])
    messages = [HumanMessage("Is it dry in Gent?")]
    answer = model.invoke(messages)
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Gent"})
    assert model.invoke([*messages, answer, ToolMessage("rain", tool_call_id=call["id"])]).text == "It rains."
    for forced in ("weather", "any"):
        forced = chat(served, SMOLLM2, max_tokens=200, use_responses_api=responses).bind_tools([WEATHER], tool_choice=forced)
        assert list(forced.invoke(messages).tool_calls[0]["args"]) == ["city"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_with_a_form(served, method):
    answer = chat(served, SMOLLM2, max_tokens=200).with_structured_output(Capital, method=method).invoke("The capital of France?")
    assert isinstance(answer, Capital)


def test_langchain_embeds(served):
    from langchain_openai import OpenAIEmbeddings  # pylint: disable=import-outside-toplevel
    model = OpenAIEmbeddings(base_url=served.url + "/v1", api_key="any", model="talk", max_retries=0, check_embedding_ctx_length=False)
    one, two = model.embed_documents(["hello", "hello world"])
    assert model.embed_query("hello") == one and len(two) == 320


# ---- llm ----

@pytest.fixture
def llm(served, tmp_path):
    """llm("talk", "hello", ...) -> what the command prints. Its settings are in a folder of its own."""
    models = [{"model_id": name, "model_name": name, "api_base": served.url + "/v1", "supports_schema": True, "supports_tools": True}
              for name in (SMOLLM2, "talk", "agent")]
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))

    def run(*arguments):
        done = subprocess.run([sys.executable, "-m", "llm", *arguments], capture_output=True, text=True, timeout=120, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LLM_USER_PATH": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_llm(llm):
    assert llm("-m", SMOLLM2, "-o", "temperature", "0", "-o", "max_tokens", "30", FRANCE[0]["content"]) == ANSWER
    assert llm("-m", "talk", "-s", "Be brief.", "hello") == "Red apple pie"
    assert llm("-m", "talk", "--no-stream", "hello") == llm("-c", "more") == "Red apple pie"
    form = json.loads(llm("-m", SMOLLM2, "-o", "temperature", "0", "--schema", json.dumps({
        "type": "object", "properties": {"name": {"enum": ["Paris", "Rome"]}}, "required": ["name"], "additionalProperties": False}),
        "The capital of France?"))
    assert form["name"] in ("Paris", "Rome")
    function = "def weather(city: str) -> str:\n    'of a city'\n    return 'rain in ' + city\n"
    assert llm("-m", "agent", "--functions", function, "Is it dry in Gent?").endswith("It rains.")


# ---- ollama ----

def weather(city: str) -> str:
    """The weather.

    Args:
      city: of which city
    """
    return "rain in " + city


def test_ollama(served):
    client = ollama.Client(host=served.url)
    short = {"temperature": 0, "num_predict": 30}
    assert client.chat(model=SMOLLM2, messages=FRANCE, options=short).message.content == ANSWER
    assert "".join(part.message.content for part in client.chat(model="talk", messages=FRANCE, stream=True)) == "Red apple pie"
    assert client.generate(model="talk", prompt="hello").response == "Red apple pie"
    assert {"talk", SMOLLM2} <= {model.model.removesuffix(":latest") for model in client.list().models}
    form = client.chat(model=SMOLLM2, messages=FRANCE, format=Capital.model_json_schema(), options={"num_predict": 200, "temperature": 0})
    assert isinstance(Capital.model_validate_json(form.message.content), Capital)
    with pytest.raises(ollama.ResponseError) as error:
        client.chat(model="nobody", messages=FRANCE)
    assert error.value.status_code == 404

    assert client.show("talk").capabilities == ["completion", "tools"] and client.ps().models
    with pytest.raises(ollama.ResponseError, match="lockstep pull"):
        client.pull("gemma3")

    async def pieces():
        stream = await ollama.AsyncClient(host=served.url).chat(model="talk", messages=FRANCE, stream=True)
        return "".join([part.message.content async for part in stream])
    assert asyncio.run(pieces()) == "Red apple pie"


def test_ollama_with_a_tool(served):
    client = ollama.Client(host=served.url)
    messages = [{"role": "user", "content": "Is it dry in Gent?"}]
    message = client.chat(model="agent", messages=messages, tools=[weather], think=True).message
    (call,) = message.tool_calls
    assert (message.thinking, call.function.name, call.function.arguments) == ("look outside", "weather", {"city": "Gent"})
    messages += [message, {"role": "tool", "tool_name": "weather", "content": weather(**call.function.arguments)}]
    assert client.chat(model="agent", messages=messages, tools=[weather]).message.content == "It rains."
