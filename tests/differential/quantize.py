#!/usr/bin/env python3
"""`lockstep quantize` beside mlx_lm.convert: the goldens (and any other float checkpoint) through both, all tensors compared.

    tests/differential/quantize.py FOLDER... [--bits N] [--group N] [--mode M] [--recipe mixed_4_6]   compares, and says what differs
    tests/differential/quantize.py --record    what mlx_lm.convert writes for the goldens, as hashes: tests/goldens/quantized.txt
    tests/differential/quantize.py --values    what mlx.core.quantize gives for awkward values: tests/data/encode/mlx.safetensors

test_reference.py runs the comparison over all goldens. Needs mlx and mlx-lm (requirements.txt); mlx_lm.convert runs as it is,
but for the tokenizer, which goldens do not have.
"""
import argparse
import contextlib
import importlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDENS = ROOT / "tests" / "goldens"
mx.set_default_device(mx.cpu)
convert_module = importlib.import_module("mlx_lm.convert")
utils = importlib.import_module("mlx_lm.utils")

# Beyond four bits for all: every form, on checkpoints whose rows are long enough.
VARIED = ("mlx/llama", "hf/llama", "hf/qwen3_moe", "hf/phi3", "mlx/gpt2")
FORMS = ([("affine", bits, group, None) for bits, group in ((2, 64), (3, 32), (5, 64), (6, 32), (8, 64))]
         + [("mxfp4", 4, 32, None), ("mxfp8", 8, 32, None), ("nvfp4", 4, 16, None)]
         + [("affine", 4, 32, name) for name in ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")])


class NoTokenizer:
    def save_pretrained(self, folder):
        pass


def load(path, **_):
    model, config = utils.load_model(pathlib.Path(path), lazy=True)
    return model, NoTokenizer(), config


convert_module.load = load


def theirs(source, out, mode, bits, group, recipe):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        convert_module.convert(str(source), str(out), quantize=True, q_mode=mode, q_bits=bits, q_group_size=group,
                               quant_predicate=recipe)


def ours(source, out, mode, bits, group, recipe):
    """None, or the error."""
    command = [str(ROOT / "build" / "lockstep"), "quantize", str(source), "-o", str(out), "--mode", mode, "--bits", str(bits),
               "--group", str(group)] + (["--recipe", recipe] if recipe else [])
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else None


def tensors(folder):
    """name: (dtype as safetensors has it, shape, bytes), read without any library, so that all dtypes stay what they are."""
    found = {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        n = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[8 + n + begin:8 + n + end])
    return found


def settings(folder):
    """config.json without what mlx-lm's classes put into text_config while they load it."""
    config = json.loads((folder / "config.json").read_text())
    config.pop("text_config", None)
    for key in ("quantization", "quantization_config"):  # {"bits": 8} means groups of 64
        for entry in config[key].values():
            if isinstance(entry, dict):
                entry.setdefault("group_size", 64)
    return config


def differences(a, b):
    found = []
    left, right = tensors(a), tensors(b)
    for name in sorted(set(left) | set(right)):
        if name not in right:
            found.append(f"{name} is missing")
        elif name not in left:
            found.append(f"{name} is not in theirs")
        elif left[name][:2] != right[name][:2]:
            found.append(f"{name} is {right[name][:2]}, theirs {left[name][:2]}")
        elif left[name][2] != right[name][2]:
            n = sum(x != y for x, y in zip(left[name][2], right[name][2], strict=True))
            found.append(f"{name}: {n} of {len(left[name][2])} bytes differ")
    left, right = settings(a), settings(b)
    for key in sorted(set(left) | set(right)):
        if left.get(key) != right.get(key):
            found.append(f"config.json: {key} is {right.get(key)}, theirs {left.get(key)}")
    return found


def compare(source, mode, bits, group, recipe):
    """What differs, a list; None where mlx-lm does not convert this."""
    with tempfile.TemporaryDirectory() as scratch:
        a, b = pathlib.Path(scratch) / "theirs", pathlib.Path(scratch) / "ours"
        try:
            theirs(source, a, mode, bits, group, recipe)
        except (Exception, SystemExit):
            return None
        problem = ours(source, b, mode, bits, group, recipe)
        if problem:
            return [problem]
        found = differences(a, b)
        try:
            utils.load_model(b, lazy=True)
        except Exception as problem:
            found.append(f"mlx-lm does not load it: {problem}")
        return found


def goldens():
    return sorted(path.parent for layout in ("mlx", "hf") for path in (GOLDENS / layout).glob("*/config.json"))


def forms_of(folder):
    name = f"{folder.parent.name}/{folder.name}"
    return [("affine", 4, 32, None), ("affine", 4, 64, None)] + (FORMS if name in VARIED else [])


# Sizes that wider() multiplies, so that every matrix divides by the groups and families' exceptions count.
SIZES = ("hidden_size", "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "d_model", "n_embd", "dim",
         "ffn_hidden_size", "expert_ffn_hidden_size", "kv_lora_rank", "q_lora_rank", "mlp_hidden_size", "intermediate_size_mlp",
         "shared_intermediate_size", "share_expert_dim", "dense_intermediate_size", "moe_shared_expert_intermediate_size",
         "moe_routed_expert_intermediate_size")


def multiply(config, factor):
    for key, value in config.items():
        if isinstance(value, dict):
            multiply(value, factor)
        elif key in SIZES and isinstance(value, int):
            config[key] = value * factor


def wider(golden, factor, folder):
    """A random checkpoint in MLX layout of the golden's family with wider matrices; False where its config does not allow that."""
    config = json.loads((golden / "config.json").read_text())
    multiply(config, factor)
    try:
        model_class, args = utils._get_classes(config)
        model = model_class(args.from_dict(json.loads(json.dumps(config))))
    except (Exception, SystemExit):
        return False
    r = np.random.default_rng(1)
    found = {name: mx.array(r.standard_normal(x.shape).astype(np.float32) * 0.05).astype(mx.bfloat16)
             if mx.issubdtype(x.dtype, mx.floating) else x for name, x in tree_flatten(model.parameters())}
    mx.save_safetensors(str(folder / "model.safetensors"), found, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    return True


# ---- what the suite, which has no Python libraries, compares with ----

def fnv(found):
    h = 0xCBF29CE484222325
    for name in sorted(found, key=str.encode):
        dtype, shape, data = found[name]
        head = name.encode() + b"\0" + dtype.encode() + b"\0" + b"".join(n.to_bytes(8, "little") for n in shape)
        for byte in head + data:
            h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def record():
    lines = []
    for folder in goldens():
        name, done = f"{folder.parent.name}/{folder.name}", set()
        for mode, bits, group, recipe in forms_of(folder):
            if (mode, bits, recipe) in done:
                continue  # groups of 64 are for those that do not go with 32
            with tempfile.TemporaryDirectory() as scratch:
                out = pathlib.Path(scratch) / "theirs"
                try:
                    theirs(folder, out, mode, bits, group, recipe)
                except (Exception, SystemExit):
                    continue
                found = tensors(out)
            done.add((mode, bits, recipe))
            lines.append(f"{fnv(found):016x} {mode} {bits} {group} {recipe or '-'} {name}")
    (GOLDENS / "quantized.txt").write_text("\n".join(lines) + "\n")
    print(len(lines), "conversions recorded")


def awkward(rows, cols):
    """Random rows of many sizes, and rows that lie on ties, ends and edges."""
    r = np.random.default_rng(6)
    sizes = np.exp2(r.integers(-14, 8, (rows, cols // 32, 1))).repeat(32, 2).reshape(rows, cols)
    w = (r.standard_normal((rows, cols)) * sizes).astype(np.float32)
    w[1], w[2], w[3], w[4] = 0, 1e-38, np.abs(w[3]), -np.abs(w[4])
    w[5], w[6], w[7], w[8] = 6, 448 * 4, 3e-5, -0.0
    w[9], w[10] = np.round(w[9] * 4) / 4, np.round(w[10] * 8) / 16
    w[11] *= 1e-4
    w[12] *= 1e-5
    w[13] = 1e-42
    w[14] = np.where(r.random(cols) < 0.9, 0, w[14])
    w[15] = r.choice([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5, -6], cols)
    return w


def values():
    found = {}
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        w = mx.array(awkward(20, 128)).astype(dtype)
        kind = str(dtype).split(".")[-1]
        found[f"{kind}.values"] = w
        for mode, bits, group in ([("affine", b, g) for b in (2, 3, 4, 5, 6, 8) for g in (32, 64, 128)]
                                  + [("mxfp4", 4, 32), ("nvfp4", 4, 16), ("mxfp8", 8, 32)]):
            parts = mx.quantize(w, group_size=group, bits=bits, mode=mode)
            for part, x in zip(("weight", "scales", "biases"), parts):
                found[f"{kind}.{mode}.{bits}.{group}.{part}"] = x
    path = ROOT / "tests" / "data" / "encode" / "mlx.safetensors"
    path.parent.mkdir(exist_ok=True)
    mx.save_safetensors(str(path), found, {"mlx": mx.__version__})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--mode", default="affine")
    parser.add_argument("--recipe")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--values", action="store_true")
    args = parser.parse_args()
    if args.record:
        record()
    if args.values:
        values()
    failed = 0
    for folder in args.folders:
        found = compare(folder, args.mode, args.bits, args.group, args.recipe)
        failed += bool(found)
        print(folder, "not converted by mlx-lm" if found is None else "; ".join(found) or "the same", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
