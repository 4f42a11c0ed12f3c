#!/usr/bin/env python3
"""Installs the Python packages of a list into a folder, for the interpreter that runs this, unless they are there.

    tools/install_packages.py REQUIREMENTS FOLDER

Beside the folder a file `interpreter` names that interpreter: whoever uses the packages must use it too.
"""
import pathlib
import shutil
import subprocess
import sys


def install(wanted, target):
    installed = target / "requirements.txt"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        part = target.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-warn-conflicts",
                        "--root-user-action=ignore", "--target", str(part),
                        "-r", str(wanted)], check=True)
        shutil.copy(wanted, part)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)


if __name__ == "__main__":
    install(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    (pathlib.Path(sys.argv[2]).parent / "interpreter").write_text(sys.executable)
