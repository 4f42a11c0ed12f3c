"""schemathesis on what /openapi.json publishes, and JSON that is broken: whatever comes, the server answers in order."""
import json
import random

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from served import Served
from tape import write_tape


@pytest.fixture(scope="module")
def published(program, tmp_path_factory):
    """A server whose model is small, so that what costs time is the asking."""
    folder = tmp_path_factory.mktemp("model") / "m"
    write_tape(folder, ["Red", " apple", " pie"], context=128)
    s = Served(program, folder)
    yield s
    status, text = s.call("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "temperature": 0})
    assert status == 200 and json.loads(text)["choices"][0]["message"]["content"] == "Red apple pie"
    assert s.stop() == 0


def test_what_is_published_is_answered(published):
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{published.port}/openapi.json")
    asked = set()
    for operation in (found.ok() for found in schema.get_all_operations()):

        @hypothesis.settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(case=operation.as_strategy())
        def ask(case):
            case.call_and_validate(checks=[not_a_server_error, status_code_conformance, content_type_conformance], timeout=60)

        ask()
        asked.add(operation.label)
    assert len(asked) > 20 and "POST /v1/chat/completions" in asked


BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "h\u00e9llo \\ \" \U0001f331"}], "max_tokens": 3, "stop": ["x"],
                   "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
                   "logit_bias": {"5": 1.5}, "response_format": {"type": "json_object"}, "prompt": "a", "input": ["b"]}).encode()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank",
                                  "/v1/messages", "/api/chat", "/api/generate", "/api/embed", "/tokenize", "/apply-template"])
def test_json_that_is_broken(published, path):
    draw = random.Random(path)
    for _ in range(400):
        body = bytearray(BODY)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(body))
            kind = draw.randrange(4)
            if kind == 0:
                body[at] = draw.randrange(256)
            elif kind == 1:
                del body[at:at + draw.randint(1, 20)]
            elif kind == 2:
                body[at:at] = body[draw.randrange(len(body)):][:draw.randint(1, 30)]
            else:
                body[at:at] = draw.choice([b"{", b"[", b"null", b"1e999", b"-", b"\\u0000", b"\\ud800", b"\x00", b'"', b"9" * 40])
        status, text = published.call("POST", path, bytes(body))
        assert status in (200, 400, 404), (status, bytes(body), text)
        assert status == 200 or "error" in json.loads(text)
