"""A prompt that is longer than the context, in the words by which each protocol's clients know it."""
import pytest

from served import Served
from tape import write_tape

USER = [{"role": "user", "content": "x" * 99}]
OPENAI = "This model's maximum context length is 64 tokens. However, the prompt has 100 tokens: shorten the prompt or raise --ctx"


@pytest.fixture(scope="module")
def served(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_tape(folder / "m", ["Ok."], template="{{ messages[0].content }}<|assistant|>")
    s = Served(program, folder / "m", "--ctx", "64")
    yield s
    assert s.stop() == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path, body", [("/v1/chat/completions", {"messages": USER}), ("/v1/responses", {"input": "x" * 99}),
                                        ("/v1/completions", {"prompt": "x" * 100})])
def test_openais_words(served, path, body, stream):
    status, answer = served.post(path, body | {"stream": stream})
    assert status == 400
    assert answer["error"] == {"message": OPENAI, "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_words(served, stream):
    status, answer = served.post("/v1/messages", {"messages": USER, "max_tokens": 5, "stream": stream})
    assert status == 400
    assert answer["error"] == {"type": "invalid_request_error", "message": "prompt is too long: 100 tokens > 64 maximum"}


def test_ollamas_words(served):
    assert served.post("/api/chat", {"model": "m", "messages": USER}) == (400, {"error": OPENAI})


def test_as_long_as_the_model_takes(program, tmp_path):
    write_tape(tmp_path / "m", ["Ok."], context=64, template="{{ messages[0].content }}<|assistant|>")
    s = Served(program, tmp_path / "m")
    _, answer = s.post("/v1/chat/completions", {"messages": USER})
    assert answer["error"]["message"] == OPENAI.removesuffix(" or raise --ctx")
    assert s.stop() == 0
