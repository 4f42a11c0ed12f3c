"""The exactness tests bite: tests/exactness/mutants builds lockstep with one rule of docs/arithmetic.md broken at a time."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_every_mutant_is_caught():
    run = subprocess.run([sys.executable, str(ROOT / "tests" / "exactness" / "mutants")], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("red, as it must be") >= 5
