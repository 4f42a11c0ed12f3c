#!/usr/bin/env python3
"""Builds llama.cpp, the peer of every comparison, from the source archive of the package llama-cpp-python.

    bench/build_peer.py [-o build/peer] [--sdist FILE.tar.gz]

Release, for this machine's instructions, as its users build it. Leaves -o/build/bin/ with llama-bench, llama-batched-bench,
llama-completion, llama-quantize, llama-perplexity and llama-server (without its web page). Needs pip, cmake and a C++ compiler;
about a quarter of an hour on two cores.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

VERSION = "0.3.36"
TARGETS = ["llama-bench", "llama-batched-bench", "llama-completion", "llama-quantize", "llama-perplexity", "llama-server"]
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF",
           "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=ON", "-DLLAMA_BUILD_UI=OFF",
           "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF"]


def fetch(folder):
    found = list(folder.glob(f"llama_cpp_python-{VERSION}.tar.gz"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python",
                   "-d", str(folder), f"llama-cpp-python=={VERSION}"]
        subprocess.run(command, check=True)
        found = list(folder.glob(f"llama_cpp_python-{VERSION}.tar.gz"))
    return found[0]


def mend_tile_config(source):
    """gcc before 13 takes _tile_loadconfig for reading 8 of the 64 bytes, leaves out the other stores, and llama.cpp dies of
    an illegal instruction on machines with AMX. A barrier keeps the stores; nothing else is changed."""
    file = source / "ggml" / "src" / "ggml-cpu" / "amx" / "mmq.cpp"
    call, barrier = "    _tile_loadconfig(&tc);", '    __asm__ volatile("" : : "r"(&tc) : "memory");\n'
    text = file.read_text()
    if barrier not in text:
        file.write_text(text.replace(call, barrier + call))


def unpack(archive, folder):
    """Only vendor/llama.cpp of the archive, as folder/llama.cpp."""
    target = folder / "llama.cpp"
    if target.exists():
        return target
    part = folder / "llama.cpp.part"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as tar:
        prefix = tar.getnames()[0].split("/")[0] + "/vendor/llama.cpp/"
        for member in tar.getmembers():
            if member.name.startswith(prefix):
                member.name = member.name.removeprefix(prefix)
                tar.extract(member, part)
    part.rename(target)  # a tree that is there is whole
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/peer"))
    parser.add_argument("--sdist", type=pathlib.Path, help="the archive, if it is here already")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    source = unpack(args.sdist or fetch(args.output), args.output)
    mend_tile_config(source)
    build = args.output / "build"
    subprocess.run(["cmake", "-S", str(source), "-B", str(build), *OPTIONS], check=True)
    subprocess.run(["cmake", "--build", str(build), "-j", str(args.jobs), "--target", *TARGETS], check=True)
    print(f"built {', '.join(TARGETS)} in {build / 'bin'}")


if __name__ == "__main__":
    main()
