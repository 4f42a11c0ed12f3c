"""/openapi.json: every path that is served, and of each body the fields that are read."""
import json
import pathlib
import re

from served import Served
from tape import write_tape

ROUTES = pathlib.Path(__file__).resolve().parent.parent.parent / "src" / "serve" / "routes.c"
PAGE = {"/", "/page/*", "/openapi.json"}  # for browsers, and itself


def test_the_paths_are_those_that_are_served(program, tmp_path):
    write_tape(tmp_path / "m", ["Red"])
    s = Served(program, tmp_path / "m")
    status, text = s.call("GET", "/openapi.json")
    document = json.loads(text)
    assert s.stop() == 0
    assert status == 200 and document["openapi"].startswith("3.1")
    published = {(method.upper(), re.sub(r"\{id\}.*", "*", path)) for path, item in document["paths"].items() for method in item}
    served = set(re.findall(r'\{"([A-Z]+)", "([^"]+)"', ROUTES.read_text(encoding="utf-8")))
    assert published == {route for route in served if route[1] not in PAGE}
    fields = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert fields["required"] == ["messages"]
    assert fields["properties"]["top_logprobs"] == {"type": ["integer", "null"], "minimum": 0, "maximum": 20}
    assert fields["properties"]["stop"] == {"type": ["string", "array", "null"]} and "input" not in fields["properties"]
