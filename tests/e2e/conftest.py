"""Fixtures of the command-line tests: the program of the build under test, and the default model where it was fetched.

The program is run as a person runs it: with its own store in a temporary folder, no terminal, and nothing on standard input
unless a test gives it.
"""
import dataclasses
import os
import pathlib
import subprocess

import pytest

from served import Served
from tape import write_tape

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIMEOUT = 120


def pytest_addoption(parser):
    parser.addoption("--build", default=str(ROOT / "build"), help="the folder that holds the program")


@dataclasses.dataclass
class Result:
    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def program(request):
    path = pathlib.Path(request.config.getoption("--build")) / "lockstep"
    assert path.exists(), f"{path} is not built"
    return path


@pytest.fixture
def lockstep(program, tmp_path):
    """lockstep("tokenize", folder, "--text", "a") -> Result. Text in and out is UTF-8; `bytes_in` gives raw input."""

    def call(*arguments, text_in="", bytes_in=None, env=None, timeout=TIMEOUT):
        environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), **(env or {})}
        done = subprocess.run([str(program), *map(str, arguments)], input=text_in.encode() if bytes_in is None else bytes_in,
                              capture_output=True, env=environment, timeout=timeout, check=False)
        return Result(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    return call


@pytest.fixture
def serve(program, tmp_path):
    """serve(pieces, **tape) -> a server whose only model, "m", plays them."""
    running = []

    def start(pieces, *arguments, **tape):
        write_tape(tmp_path / "m", pieces, **tape)
        running.append(Served(program, tmp_path / "m", *arguments))
        return running[-1]

    yield start
    assert [s.stop() for s in running] == [0] * len(running)


@pytest.fixture(scope="session")
def smollm2():
    """The default model's folder. `./dev test` fetches it; a plain `make test` may not have it."""
    folder = ROOT / "build" / "models" / "smollm2-135m"
    if not (folder / "config.json").exists():
        pytest.skip("build/models/smollm2-135m is not there: ./dev test fetches it")
    return folder
