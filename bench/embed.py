#!/usr/bin/env python3
"""Sentence vectors of all-MiniLM-L6-v2: lockstep against sentence-transformers, both in float32 on the same threads.

    bench/embed.py --model build/models/all-minilm-l6-v2 --python PYTHON [--threads 2] [--rounds 5]

1,000 sentences of 20 words in the mean (made here, always the same). Each round runs one and then the other; medians are shown.
Counted is tokenizing and computing, not loading: what `embed --verbose` says, and `encode` after a warm-up. PYTHON is one that has
sentence-transformers; this program itself needs nothing.
"""
import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SENTENCES, SEED = 1000, 1
WORDS = ("the of and a to in is was he for it with as his on be at by had not are but from or have an they which one you were her all she there "
         "would their we him been has when who will more no if out so said what up its about into than them can only other new some could time "
         "these two may then do first any my now such like our over man me even most made after also did many before must through back years "
         "where much your way well down should because each just those people how too little state good very make world still own see men work "
         "long get here between both life being under never day same another know while last might us great old year off come since against go "
         "came right used take three harbour engine window letter morning committee violin mountain quarterly translation yesterday quickly "
         "photograph kitchen railway government temperature laboratory butterfly independent").split()
PEER = """
import json, sys, time
import torch
torch.set_num_threads(int(sys.argv[3]))
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
texts = open(sys.argv[2], encoding="utf-8").read().splitlines()
model.encode(texts[:64])
started = time.perf_counter()
vectors = model.encode(texts)
print(json.dumps({"seconds": time.perf_counter() - started, "vectors": vectors[::50].tolist()}))
"""


def sentences():
    rng = random.Random(SEED)
    return [" ".join(rng.choice(WORDS) for _ in range(max(3, round(rng.gauss(20, 8))))) for _ in range(SENTENCES)]


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr.strip()[-400:]}")
    return done


def ours(args, path):
    done = run([args.lockstep, "embed", args.model, "--file", path, "--threads", args.threads, "--verbose"])
    seconds = float(re.search(r"tokens in ([\d.]+) s", done.stderr)[1])
    return seconds, [json.loads(line) for line in done.stdout.splitlines()[::50]]


def theirs(args, path):
    report = json.loads(run([args.python, "-c", PEER, args.model, path, args.threads]).stdout.splitlines()[-1])
    return report["seconds"], report["vectors"]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build" / "lockstep")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    times = {"lockstep": [], "sentence-transformers": []}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "texts"
        path.write_text("\n".join(sentences()) + "\n", encoding="utf-8")
        for _ in range(args.rounds):
            seconds, mine = ours(args, path)
            times["lockstep"].append(seconds)
            seconds, reference = theirs(args, path)
            times["sentence-transformers"].append(seconds)
            assert min(map(cosine, mine, reference)) > 0.99999
    medians = {name: statistics.median(t) for name, t in times.items()}
    for name, t in times.items():
        print(f"{name}: {SENTENCES / medians[name]:.0f} sentences/s (median of {args.rounds}; {min(t):.2f} to {max(t):.2f} s)")
    print(f"{medians['sentence-transformers'] / medians['lockstep']:.2f} times as fast")


if __name__ == "__main__":
    main()
