"""Other people's clients against the server: the default model, and models that play their answers."""
import importlib.util
import pathlib
import sys

import pytest

E2E = pathlib.Path(__file__).resolve().parent.parent / "e2e"
sys.path.insert(0, str(E2E))
from served import Served  # noqa: E402
from tape import write_tape  # noqa: E402

spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
e2e = importlib.util.module_from_spec(spec)
spec.loader.exec_module(e2e)
pytest_addoption, program, smollm2 = e2e.pytest_addoption, e2e.program, e2e.smollm2

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}\n{% endfor %}"
# the answer to a tool's result is another tape
CALLING = TURNS + "{% if messages[-1].role == 'tool' %}<|answer|>{% else %}<|assistant|>{% endif %}{# <think> </think> <tool_call> #}"


@pytest.fixture(scope="session")
def served(program, smollm2, tmp_path_factory):
    """smollm2-135m; `talk` says "Red apple pie"; `agent` thinks, calls the weather of Gent, and says "It rains." to the
    result; `agents` calls it for two places at once."""
    folder = tmp_path_factory.mktemp("models")
    write_tape(folder / "talk", ["Red", " apple", " pie"], context=2048)
    call = ['<tool_call>{"name":"weather",', '"arguments":{"city":', '"Gent"}}', "</tool_call>"]
    write_tape(folder / "agent", ["<think>", "look", " outside", "</think>", "\n\n", *call], template=CALLING, context=2048,
               also=[["<|answer|>", "It", " rains."]], special=["<|answer|>"])
    both = ['<tool_call>{"name":"weather","arguments":{"city":"Gent"}}', "</tool_call>", "\n",
            '<tool_call>{"name":"weather","arguments":{"city":"Luik"}}', "</tool_call>\n"]
    write_tape(folder / "agents", both, template=CALLING, context=2048, also=[["<|answer|>", "Both", " rain."]])
    s = Served(program, smollm2, folder / "talk", folder / "agent", folder / "agents")
    s.url = f"http://127.0.0.1:{s.port}"
    yield s
    assert s.stop() == 0
