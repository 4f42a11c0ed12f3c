#!/usr/bin/env python3
"""Measures `lockstep quantize` beside mlx_lm.convert on a bf16 checkpoint of the 1B shape and prints a table.

    bench/quantize.py --tokenizer build/models/smollm2-135m -o build/bench        needs mlx-lm: `./dev reference` fetches it

The checkpoint is made once (2.1 GB). Both sides run in turns, times are medians over the rounds, with files in the page cache before
and synced after; the private memory is the most that was seen of ours. mlx-lm runs as its command does, in one process per run,
its start and imports not counted. Nothing else should run meanwhile.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(1, str(ROOT / "build" / "reference" / "python"))
import numpy as np  # noqa: E402

import shapes  # noqa: E402
from compare import private_dirty, run  # noqa: E402

THEIRS = """
import sys, time, importlib
import mlx.core as mx
mx.set_default_device(mx.cpu)
convert = importlib.import_module("mlx_lm.convert").convert
begun = time.monotonic()
convert(sys.argv[1], sys.argv[2], quantize=True, q_mode=sys.argv[3], q_bits=int(sys.argv[4]), q_group_size=int(sys.argv[5]))
print("seconds", time.monotonic() - begun)
"""
FORMS = (("affine", 4, 64), ("affine", 6, 64), ("mxfp4", 4, 32))


def make(folder, tokenizer):
    """A llama of 1B with random weights, in one file of BF16."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    model, r = shapes.Llama(), np.random.default_rng(1)
    pool = (r.standard_normal(1 << 24).astype(np.float32) * 0.02).view(np.uint32) >> 16
    pool = pool.astype(np.uint16)
    header, at, tensors = {}, 0, list(model.tensors())
    for tensor in tensors:
        n = 2 * int(np.prod(tensor.shape))
        header[tensor.here] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(part / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            left = int(np.prod(tensor.shape))
            while left:
                begin = int(r.integers(0, pool.size // 2))
                chunk = pool[begin:begin + left]
                out.write(chunk.tobytes())
                left -= chunk.size
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": shapes.HIDDEN,
              "intermediate_size": model.ffn, "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
              "num_key_value_heads": model.kv_heads, "head_dim": model.head_dim, "vocab_size": shapes.VOCAB,
              "max_position_embeddings": shapes.CONTEXT, "rms_norm_eps": shapes.EPS, "rope_theta": shapes.THETA,
              "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    (part / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, part)
    part.rename(folder)


def warm(folder):
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass


def ours(program, source, out, form):
    """The command; its result replaces an older one."""
    shutil.rmtree(out, ignore_errors=True)
    mode, bits, group = form
    return [program, "quantize", source, "-o", out, "--mode", mode, "--bits", str(bits), "--group", str(group)]


def seconds_of(side, program, source, out, form):
    warm(source)
    shutil.rmtree(out, ignore_errors=True)
    run(["sync"])
    if side == "theirs":
        taken = float(run([sys.executable, "-c", THEIRS, source, out, *map(str, form)]).split("seconds")[-1])
    else:
        begun = time.monotonic()
        run(ours(program, source, out, form))
        taken = time.monotonic() - begun
    begun = time.monotonic()
    run(["sync"])  # ours has synced its files already, theirs has not
    return taken + time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "lockstep")
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="a folder whose tokenizer has 49152 entries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    source, out = args.output / "1b-bf16", args.output / "1b-quantized"
    if not source.exists():
        make(source, args.tokenizer)
    size = (source / "model.safetensors").stat().st_size
    print(f"{'form':<22}{'lockstep':>10}{'mlx_lm':>10}{'ratio':>8}{'MB/s read':>11}{'private MB':>12}")
    for form in FORMS:
        taken = {"ours": [], "theirs": []}
        for _ in range(args.rounds):
            for side, seconds in taken.items():
                seconds.append(seconds_of(side, args.program, source, out, form))
        mine, peer = (statistics.median(taken[side]) for side in ("ours", "theirs"))
        private = private_dirty(ours(args.program, source, out, form)) / 1e6
        name = f"{form[0]} {form[1]} bits g{form[2]}"
        print(f"{name:<22}{mine:>9.2f}s{peer:>9.2f}s{peer / mine:>8.1f}{size / mine / 1e6:>11.0f}{private:>12.1f}", flush=True)
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
