"""What the Makefile needs of the machine it runs on."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def planned(tmp_path, path):
    """The commands that a build into an empty folder would run."""
    done = subprocess.run(["make", "-n", f"BUILD={tmp_path}/build", "all"], cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_build_needs_no_python(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.get_exec_path():
        for program in pathlib.Path(folder).glob("*"):
            if not program.name.startswith("python") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    assert "check_layers" in planned(tmp_path, os.environ["PATH"])
    without = planned(tmp_path, str(tools))
    assert "check_layers" not in without and "kernels_scalar" in without
