#!/usr/bin/env python3
"""Measures lockstep beside llama.cpp in one sitting and writes docs/benchmarks.md.

    ./dev bench                            builds and makes what is missing, then runs this
    bench/compare.py --peer build/peer --files build/bench --smollm2 build/models/smollm2-135m --smollm2-gguf FILE.gguf

Both sides run in turns, a round of each after the other, and each number is the median over the rounds, so that a slow
minute of the machine meets both. Nothing else should run meanwhile. The commands are printed into the page.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
THREADS = "2"
PROMPT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n")
START_RUNS = 15
SMOLLM2, LARGE, LARGE_K = "SmolLM2-135M, Q4_1", "1B, 4-bit group 64 / Q4_0", "1B, Q4_K_M"
MIXTURE, RECURRENT = "mixture, 4-bit group 64 / Q4_0", "Mamba 2 1.3B, 4-bit group 64 / Q4_0"

# (model, activations, what, least ratio to the peer)
TARGETS = [
    (SMOLLM2, 16, "prefill", 3.0), (SMOLLM2, 16, "decode", 1.5),
    (LARGE, 16, "prefill", 1.1), (LARGE, 16, "decode", 1.0), (LARGE, 16, "batch 8", 1.8),
    (LARGE_K, 16, "prefill", 1.1), (LARGE_K, 16, "decode", 1.0), (LARGE_K, 16, "batch 8", 1.8),
    (LARGE, 8, "prefill", 2.0), (LARGE, 8, "batch 8", 2.5),
    (MIXTURE, 16, "prefill", 1.3), (MIXTURE, 16, "decode", 1.1), (MIXTURE, 16, "batch 8", 1.8),
    (RECURRENT, 16, "prefill", 1.0),
]
READ_SHARES = {LARGE: 0.85, LARGE_K: 0.85, MIXTURE: 0.80, RECURRENT: 0.80}  # least decode_gbps / read_gbps


def run(command):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed:\n{done.stderr[-2000:]}")
    return done.stdout


class Sides:
    """The programs and files of both sides, and one measurement of each kind as a dictionary of numbers."""

    def __init__(self, args):
        self.program, self.bin = args.program, args.peer / "build" / "bin"
        files = args.files
        self.models = {SMOLLM2: (args.smollm2, args.smollm2_gguf), LARGE: (files / "1b-mlx4", files / "1b-q4_0.gguf"),
                       LARGE_K: (files / "1b-q4_k_m", files / "1b-q4_k_m.gguf"),
                       MIXTURE: (files / "moe-mlx4", files / "moe-q4_0.gguf"),
                       RECURRENT: (files / "mamba2-mlx4", files / "mamba2-q4_0.gguf")}
        folder, gguf = self.models[LARGE_K]
        if not folder.exists():
            run([self.program, "import", gguf, "-o", folder])

    def our_command(self, model, activations):
        command = [self.program, "bench", self.models[model][0], "-p", "512", "-n", "128", "--batch", "8", "--threads",
                   THREADS, "--json"]
        return command + (["--activations", "8"] if activations == 8 else [])

    def ours(self, model, activations):
        found = json.loads(run(self.our_command(model, activations)))
        batch = found["batch"]["8"]
        batch = batch["tps"] if isinstance(batch, dict) else batch
        return {"prefill": found["prefill_tps"], "decode": found["decode_tps"], "batch 8": batch,
                "gbps": found["decode_gbps"], "read": found["read_gbps"]}

    def peer_commands(self, model):
        gguf = self.models[model][1]
        return ([self.bin / "llama-bench", "-m", gguf, "-p", "512", "-n", "128", "-t", THREADS, "-r", "1", "-o", "json"],
                [self.bin / "llama-batched-bench", "-m", gguf, "-npp", "128", "-ntg", "64", "-npl", "8", "-t", THREADS,
                 "-c", "2048", "--output-format", "jsonl"])

    def theirs(self, model):
        single, batched = self.peer_commands(model)
        rows = json.loads(run(single))
        line = next(text for text in run(batched).splitlines() if text.startswith("{"))
        return {"prefill": next(row["avg_ts"] for row in rows if row["n_prompt"]),
                "decode": next(row["avg_ts"] for row in rows if row["n_gen"]), "batch 8": json.loads(line)["speed_tg"]}

    def start_commands(self, ids):
        folder, gguf = self.models[SMOLLM2]
        # --no-warmup is to the peer's advantage: it skips an empty step
        return ([self.program, "generate", folder, "--ids", ids, "-n", "1", "--threads", THREADS],
                [self.bin / "llama-completion", "-m", gguf, "-p", PROMPT, "-n", "1", "-t", THREADS, "-no-cnv", "--temp", "0",
                 "--no-warmup"])


def measure_rates(sides, rounds, models):
    """{(model, side): {what: [values]}}; side is 16 or 8 (ours, by activations) or "peer"."""
    found = {}
    for number in range(rounds):
        for model in models:
            for side in (16, "peer", 8):
                print(f"round {number + 1} of {rounds}: {model}, {'llama.cpp' if side == 'peer' else f'ours, {side}'}",
                      flush=True)
                values = sides.theirs(model) if side == "peer" else sides.ours(model, side)
                kept = found.setdefault((model, side), {})
                for what, value in values.items():
                    kept.setdefault(what, []).append(value)
    return found


def prompt_ids(sides):
    """PROMPT holds its own special tokens, so none are added."""
    folder = sides.models[SMOLLM2][0]
    return ",".join(map(str, json.loads(run([sides.program, "tokenize", folder, "--no-special", "--text", PROMPT]))))


def measure_start(sides, ids):
    """Seconds from start to exit, page cache warm, in turns: medians of ours and of the peer's."""
    taken = ([], [])
    for number in range(START_RUNS + 1):
        for side, command in enumerate(sides.start_commands(ids)):
            begun = time.monotonic()
            run(command)
            if number:  # the first of each only warms the page cache
                taken[side].append(time.monotonic() - begun)
    return [statistics.median(values) for values in taken]


def private_dirty(command):
    """The largest Private_Dirty seen while a command runs, in bytes."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            text = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
            match = re.search(r"Private_Dirty:\s+(\d+) kB", text)
            most = max(most, int(match.group(1)) * 1024 if match else 0)
        except (OSError, ProcessLookupError):
            pass
        time.sleep(0.005)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return most


def memory_rows(sides, ids):
    for model in (SMOLLM2, LARGE):
        folder = sides.models[model][0]
        config = json.loads((folder / "config.json").read_text())
        positions = len(ids.split(",")) + 64
        head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        kv = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * (2 * head_dim + 4) * positions
        files = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        dirty = private_dirty([sides.program, "generate", folder, "--ids", ids, "-n", "64", "--threads", THREADS])
        yield model, dirty, files + kv + 60_000_000


def commit():
    return run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude", "*"]).strip()


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{cpu.group(1) if cpu else platform.processor()}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}"


def median(found, model, side, what):
    return statistics.median(found[(model, side)][what])


def rate_table(found, models):
    lines = ["| model | what | ours, 16-bit | ours, `--activations 8` | llama.cpp | ratio, 16-bit | ratio, 8-bit |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for model in models:
        for what in ("prefill", "decode", "batch 8"):
            wide, narrow, peer = (median(found, model, side, what) for side in (16, 8, "peer"))
            lines.append(f"| {model} | {what} | {wide:.1f} | {narrow:.1f} | {peer:.1f} | {wide / peer:.2f} | {narrow / peer:.2f} |")
    return lines


def target_table(found, models):
    lines = ["| model | activations | what | target | reached | |", "| --- | ---: | --- | ---: | ---: | --- |"]
    for model, side, what, least in TARGETS:
        if model in models:
            ratio = median(found, model, side, what) / median(found, model, "peer", what)
            lines.append(f"| {model} | {side} | {what} | {least:.1f} | {ratio:.2f} | {'yes' if ratio >= least else '**no**'} |")
    for model, least in READ_SHARES.items():
        if model in models:
            values = found[(model, 16)]
            share = statistics.median(a / b for a, b in zip(values["gbps"], values["read"]))
            lines.append(f"| {model} | 16 | decode_gbps / read_gbps | {least:.2f} | {share:.2f} | "
                         f"{'yes' if share >= least else '**no**'} |")
    return lines


def shown(command):
    return " ".join(pathlib.Path(part).name if isinstance(part, pathlib.Path) else str(part) for part in command)


def page(sides, version, found, models, rounds, start, memory, ids):
    commands = [shown(sides.our_command(LARGE, 16)), *map(shown, sides.peer_commands(LARGE))]
    starts = [shown(command).replace(PROMPT, '"$PROMPT"').replace(ids, "$IDS") for command in sides.start_commands(ids)]
    return "\n".join([
        "# Benchmarks", "",
        "Written by `./dev bench` (bench/compare.py); do not edit. Both sides in turns, medians of "
        f"{rounds} rounds, 2 threads each. Tokens per second.", "",
        f"- {datetime.date.today()}, {machine()}",
        f"- lockstep {version}; llama.cpp from the source archive of llama-cpp-python (bench/build_peer.py), Release, native", "",
        "`1B` is a llama of random weights (hidden 2048, 16 layers, ffn 8192, 32/8 heads, vocabulary 49,152, tied), made for "
        "both sides by bench/make_models.py; its Q4_K_M file is imported here and run there. `prefill` is a prompt of 512, "
        "The mixture (qwen3moe) has 16 layers of 32 experts of 768, 4 chosen. "
        "`decode` 128 tokens of one sequence from an empty context, `batch 8` eight sequences of 128 decoding 64 each.", "",
        *rate_table(found, models), "", "## Targets", "", *target_table(found, models), "",
        "## Start and memory", "",
        f"From process start to exit, one token after a chat prompt of {ids.count(',') + 1} ids, page cache warm, median of "
        f"{START_RUNS}: {start[0]:.3f} s (target 0.25), llama-completion {start[1]:.3f} s.", "",
        "| model | Private_Dirty, `-n 64` | allowed (files + KV + 60 MB) | |", "| --- | ---: | ---: | --- |",
        *[f"| {m} | {d / 1e6:.1f} MB | {a / 1e6:.1f} MB | {'yes' if d <= a else '**no**'} |" for m, d, a in memory], "",
        "## Commands", "", "```", *commands, *starts, "```", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "lockstep")
    parser.add_argument("--peer", type=pathlib.Path, required=True)
    parser.add_argument("--files", type=pathlib.Path, required=True, help="what bench/make_models.py wrote")
    parser.add_argument("--smollm2", type=pathlib.Path, required=True)
    parser.add_argument("--smollm2-gguf", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name holds it")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "benchmarks.md")
    args = parser.parse_args()
    if not args.output.parent.is_dir():
        parser.error(f"{args.output.parent} is no folder")
    version = commit()  # what can fail comes before an hour of measuring
    sides = Sides(args)
    models = [model for model in sides.models if args.only in model]
    ids = prompt_ids(sides)
    start = measure_start(sides, ids)
    memory = list(memory_rows(sides, ids))
    found = measure_rates(sides, args.rounds, models)
    args.output.write_text(page(sides, version, found, models, args.rounds, start, memory, ids))
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
