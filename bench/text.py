#!/usr/bin/env python3
"""Measures tokenizers and chat templates beside Python's, in one sitting, and writes docs/benchmarks-text.md.

    ./dev bench-text                       fetches the Python libraries, vocabularies and templates, builds, and runs this
    bench/text.py [--rounds 5]             with build/reference in place (tests/differential/prepare.py)

Both sides run in turns, each number is the median over the rounds. Python `tokenizers` runs on one thread, with its tokenizer
loaded once and its word cache kept from round to round; ours starts anew each time. Nothing else should run meanwhile.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "build" / "reference"
os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
sys.path.insert(0, str(REFERENCE / "python"))
from tokenizers import Tokenizer  # noqa: E402
from transformers.utils.chat_template_utils import _compile_jinja_template  # noqa: E402

KINDS = {"qwen2": "byte-level BPE", "llama-bpe": "byte-level BPE", "gpt-2": "byte-level BPE", "command-r": "byte-level BPE",
         "falcon": "byte-level BPE", "gemma-4": "SentencePiece BPE", "llama-spm": "SentencePiece BPE", "bert-bge": "WordPiece",
         "xlm-roberta": "Unigram"}
TEMPLATES = ["Qwen3-Coder", "meta-llama-Llama-3.3-70B-Instruct", "openai-gpt-oss-120b", "google-gemma-4-31B-it", "Kimi-K3"]
SIZE, SHORT = 1 << 20, 1000  # bytes of the whole text, and of the short texts that it is cut in
LOADED, HELLO = "gemma-4", "Hello, world!"
TARGET_RATIO, TARGET_LOAD, TARGET_RENDER = 3.0, 120.0, 2.0


def words(r):
    """Words of every script, the frequent ones often: tokens of Gemma's vocabulary, where a low id is a frequent token."""
    vocab = json.loads((REFERENCE / "tokenizers" / LOADED / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = [t.replace("\u2581", " ") for t, i in sorted(vocab.items(), key=lambda x: x[1]) if i > 400 and not t.startswith("<")]
    while True:
        yield tokens[int(len(tokens) ** r.random()) - 1]


def mixed_text():
    """A third each of this repository's prose, its code, and words of many languages, in shuffled paragraphs."""
    r = random.Random(1)
    prose = "".join(p.read_text() for p in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if "benchmarks" not in p.name)
    code = "".join(p.read_text() for p in sorted((ROOT / "src").rglob("*.[ch]")) if "unicode_" not in p.name)
    many, n = [], 0
    for word in words(r):
        many.append(word + ("\n" if r.random() < 0.02 else ""))
        n += len(many[-1].encode())
        if n > SIZE / 3:
            break
    lines = (prose + code[:2 * SIZE // 3 - len(prose)] + "".join(many)).split("\n")
    blocks = ["\n".join(lines[i:i + 8]) for i in range(0, len(lines), 8)]
    r.shuffle(blocks)
    return "\n".join(blocks).encode()[:SIZE].decode(errors="ignore")


def conversation():
    """A hundred messages of an agent with five tools."""
    properties = {"path": {"type": "string", "description": "A path"}, "lines": {"type": "integer", "description": "How many"},
                  "mode": {"type": "string", "enum": ["read", "count"]}}
    tools = [{"type": "function", "function": {"name": f"tool_{i}", "description": "Looks at a file, as the options say.",
              "parameters": {"type": "object", "properties": properties, "required": ["path"]}}} for i in range(5)]
    messages = [{"role": "system", "content": "You are a careful assistant."}]
    for i in range(24):
        function = {"name": f"tool_{i % 5}", "arguments": {"path": f"src/file{i}.c", "lines": i}}
        messages += [{"role": "user", "content": f"What does src/file{i}.c hold, and how many lines has it? Answer briefly."},
                     {"role": "assistant", "content": "", "reasoning_content": "I must look.", "tool_calls":
                      [{"id": f"abcdefg{i:02d}", "type": "function", "function": function}]},
                     {"role": "tool", "content": f"file{i}: 120 lines\n" + "a line of text\n" * 5, "tool_call_id": f"abcdefg{i:02d}",
                      "name": f"tool_{i % 5}"},
                     {"role": "assistant", "content": f"It holds the part number {i}, in 120 lines."}]
    messages += [{"role": "user", "content": "Thanks."}, {"role": "assistant", "content": "You are welcome."}, {"role": "user", "content": "Bye."}]
    assert len(messages) == 100
    return {"messages": messages, "tools": tools, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}


def cut(text, size):
    """The same texts that text_timer.c encodes."""
    raw, parts, at = text.encode(), [], 0
    while at < len(raw):
        end = min(at + size, len(raw)) if size else len(raw)
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end += 1
        parts.append(raw[at:end].decode())
        at = end
    return parts


def clock(work):
    """Milliseconds and the result."""
    begun = time.perf_counter()
    result = work()
    return (time.perf_counter() - begun) * 1e3, result


class Bench:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.timer = folder / "text_timer"
        compiler = shutil.which("gcc") or shutil.which("clang")
        subprocess.run([compiler, "-O2", "-std=c11", f"-I{ROOT / 'src'}", "-o", self.timer, ROOT / "bench" / "text_timer.c",
                        ROOT / "build" / "liblockstep.a", "-lpcre2-8", "-lm", "-pthread"], check=True)
        self.text = mixed_text()
        (folder / "mixed.txt").write_text(self.text, encoding="utf-8")
        self.conversation = conversation()
        (folder / "conversation.json").write_text(json.dumps(self.conversation))

    def ours(self, *arguments):
        done = subprocess.run([self.timer, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
        ms, result = done.stdout.split()
        return float(ms), int(result)

    def in_turns(self, rounds, ours, theirs):
        """Medians of both; they must agree on the result."""
        a, b = [], []
        for _ in range(rounds):
            mine, other = ours(), theirs()
            if mine[1] != other[1]:
                sys.exit(f"the results differ: ours {mine[1]}, theirs {other[1]}")
            a.append(mine[0])
            b.append(other[0])
        return statistics.median(a), statistics.median(b)

    def encode(self, name, size, rounds):
        folder = REFERENCE / "tokenizers" / name
        theirs, parts = Tokenizer.from_file(str(folder / "tokenizer.json")), cut(self.text, size)
        return self.in_turns(rounds, lambda: self.ours("encode", folder, self.folder / "mixed.txt", size),
                             lambda: clock(lambda: sum(len(theirs.encode(p, add_special_tokens=False).ids) for p in parts)))

    def load(self, rounds):
        folder = REFERENCE / "tokenizers" / LOADED
        return self.in_turns(rounds, lambda: self.ours("load", folder, HELLO), lambda: clock(
            lambda: len(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(HELLO, add_special_tokens=False).ids)))

    def render(self, name, rounds):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        source = (REFERENCE / "templates" / f"{name}.jinja").read_bytes()
        (folder / "chat_template.jinja").write_bytes(source)
        template = _compile_jinja_template(source.decode())
        template.render(**self.conversation)
        return self.in_turns(rounds, lambda: self.ours("render", folder, self.folder / "conversation.json"),
                             lambda: clock(lambda: len(template.render(**self.conversation).encode())))


def yes(reached):
    return "yes" if reached else "**no**"


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def page(encoded, load, rendered, rounds):
    def rates(name):
        cells = []
        for ours, theirs in (encoded[name, 0], encoded[name, SHORT]):
            cells += [f"{SIZE / ours / 1e3:.1f}", f"{SIZE / theirs / 1e3:.1f}", f"{theirs / ours:.1f}"]
        return f"| {name} | {KINDS[name]} | {' | '.join(cells)} | {yes(all(encoded[name, s][1] / encoded[name, s][0] >= TARGET_RATIO for s in (0, SHORT)))} |"

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    import tokenizers
    size = (REFERENCE / "tokenizers" / LOADED / "tokenizer.json").stat().st_size
    return "\n".join([
        "# Benchmarks of text", "",
        f"Written by `./dev bench-text` (bench/text.py); do not edit. Both sides in turns, medians of {rounds} rounds, one thread each.", "",
        f"- {datetime.date.today()}, {cpu()}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}",
        f"- lockstep {commit}; Python tokenizers {tokenizers.__version__}, transformers' jinja2 environment", "",
        "## Encoding", "",
        f"MB/s over {SIZE:,} bytes: a third each of this repository's prose, its code, and words of many languages. `whole` is one text, "
        f"`short` the same in texts of {SHORT:,} bytes. Target: {TARGET_RATIO:.0f} times the Python library in both. The numbers of ids are equal.", "",
        "| tokenizer | kind | whole | Python | ratio | short | Python | ratio | reached |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |", *map(rates, KINDS), "",
        "## Loading", "",
        f"From the first byte of Gemma's tokenizer.json ({size / 1e6:.1f} MB) to the ids of a first text: **{load[0]:.0f} ms** "
        f"(target {TARGET_LOAD:.0f}: {yes(load[0] <= TARGET_LOAD)}), Python {load[1]:.0f} ms.", "",
        "## Chat templates", "",
        "A hundred messages of an agent with five tools, from parsed JSON to the prompt; Python's template is compiled beforehand, as ours is. "
        f"Target: {TARGET_RENDER:.0f} ms.", "",
        "| template | ms | Python, ms | reached |", "| --- | ---: | ---: | --- |",
        *[f"| {name} | {ours:.2f} | {theirs:.1f} | {yes(ours <= TARGET_RENDER)} |" for name, (ours, theirs) in rendered.items()], ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "benchmarks-text.md")
    args = parser.parse_args()
    bench = Bench(ROOT / "build" / "bench-text")
    load = bench.load(args.rounds)
    rendered = {name: bench.render(name, args.rounds) for name in TEMPLATES}
    encoded = {(name, size): bench.encode(name, size, args.rounds) for name in KINDS for size in (0, SHORT)}
    args.output.write_text(page(encoded, load, rendered, args.rounds))
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
