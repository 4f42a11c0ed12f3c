#!/usr/bin/env python3
"""Makes the models with random weights that the speed targets name (bench/shapes.py), for both engines, from the same weights.

    bench/make_models.py --peer build/peer --vocab SmolLM2.gguf -o build/bench [NAME ...]

writes of each NAME (1b, moe, mamba2; all unless told)
    NAME-mlx4/       safetensors in MLX layout: affine 4 bits, group 64, with an 8-bit embedding (tied), and its tokenizer.json
    NAME-q4_0.gguf   Q4_0 with a Q8_0 embedding, for llama.cpp
and of 1b also
    1b-q4_k_m.gguf   llama.cpp's own mixture, to be run there and imported here

The vocabulary and merges are those of the GGUF given. numpy and yaml are needed; the gguf package is taken from llama.cpp's
source tree (--peer, made by bench/build_peer.py), whose llama-quantize makes the quantised files from a float16 one.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

from shapes import MODELS, VOCAB

SEED = 20240517


def values(index, tensor):
    """A tensor is a function of its place alone, so both files can be written one tensor at a time."""
    if callable(tensor.kind):
        return tensor.kind(tensor.shape)
    draw = np.random.Generator(np.random.SFC64([SEED, index])).standard_normal(tensor.shape, np.float32)
    return draw * np.float32(0.02)


def quantize_affine(w, bits, group):
    """MLX's affine form: w ~ code * scale + bias per group along the row; codes packed low bits first into uint32."""
    parts = w.reshape(w.shape[0], -1, group)
    low, high = parts.min(axis=2), parts.max(axis=2)
    scale = np.maximum((high - low) / (2**bits - 1), 1e-7).astype(np.float16)
    bias = low.astype(np.float16)
    codes = np.rint((parts - bias[..., None].astype(np.float32)) / scale[..., None].astype(np.float32))
    codes = np.clip(codes, 0, 2**bits - 1).astype(np.uint8).reshape(w.shape[0], -1)
    packed = codes if bits == 8 else codes[:, 0::2] | codes[:, 1::2] << 4
    return packed.view("<u4"), scale, bias


BITS = {"matrix": 4, "embedding": 8}


def mlx_parts(tensor):
    """(name, dtype, shape) of what one tensor becomes in the MLX folder."""
    if tensor.kind not in BITS:
        return [(tensor.here, "F16", tensor.shape)]
    *rows, columns = tensor.shape
    stem = tensor.here.removesuffix(".weight")
    return [(tensor.here, "U32", (*rows, columns * BITS[tensor.kind] // 32)),
            (stem + ".scales", "F16", (*rows, columns // 64)), (stem + ".biases", "F16", (*rows, columns // 64))]


def mlx_arrays(tensor, w):
    if tensor.kind not in BITS:
        return [w.astype(np.float16)]
    return quantize_affine(w.reshape(-1, w.shape[-1]), BITS[tensor.kind], 64)


def write_safetensors(path, model):
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for tensor in model.tensors():
        for part, dtype, shape in mlx_parts(tensor):
            size = int(np.prod(shape)) * (4 if dtype == "U32" else 2)
            header[part] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for index, tensor in enumerate(model.tensors()):
            for array in mlx_arrays(tensor, values(index, tensor)):
                array.tofile(out)


def write_mlx_folder(folder, model, vocab):
    folder.mkdir(parents=True, exist_ok=True)
    embedding = next(t.here for t in model.tensors() if t.kind == "embedding").removesuffix(".weight")
    config = model.config() | {
        "vocab_size": VOCAB, "tie_word_embeddings": True, "torch_dtype": "float16", "bos_token_id": 1, "eos_token_id": 2,
        "quantization": {"group_size": 64, "bits": 4, embedding: {"group_size": 64, "bits": 8}}}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocab), ensure_ascii=False))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": vocab["tokens"][2],
                "chat_template": vocab["template"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    write_safetensors(folder / "model.safetensors", model)


def tokenizer_json(vocab):
    special = [{"id": i, "content": vocab["tokens"][i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i, kind in enumerate(vocab["types"]) if kind == 3]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence",
                              "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(vocab["tokens"])}, "merges": vocab["merges"]}}


def read_vocab(gguf, path):
    fields = gguf.GGUFReader(path).fields
    return {"tokens": fields["tokenizer.ggml.tokens"].contents(), "types": fields["tokenizer.ggml.token_type"].contents(),
            "merges": fields["tokenizer.ggml.merges"].contents(), "pre": fields["tokenizer.ggml.pre"].contents(),
            "template": fields["tokenizer.chat_template"].contents()}


def permute(w, heads):
    """GGUF keeps the two halves of a rotated head interleaved."""
    if heads == 0:
        return w
    return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def gguf_array(tensor, w):
    if tensor.turn:
        return np.ascontiguousarray(tensor.turn(w))
    w = permute(w, tensor.heads)
    return w.astype(np.float16) if tensor.kind in BITS else w


def write_f16_gguf(gguf, path, model, vocab):
    out = gguf.GGUFWriter(path, model.architecture)
    model.write_header(out)
    out.add_vocab_size(VOCAB)
    out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre(vocab["pre"])
    out.add_token_list(vocab["tokens"])
    out.add_token_types(vocab["types"])
    out.add_token_merges(vocab["merges"])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_add_bos_token(False)
    out.add_chat_template(vocab["template"])
    for index, tensor in enumerate(model.tensors()):
        out.add_tensor(tensor.there, gguf_array(tensor, values(index, tensor)))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def quantize_gguf(args, f16, name, kind, options):
    print(f"quantizing {name}-{kind}.gguf", flush=True)
    part = args.output / f"{name}-{kind}.part"
    program = str(args.peer / "build" / "bin" / "llama-quantize")
    done = subprocess.run([program, *options, str(f16), str(part), kind.upper(), "2"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"llama-quantize failed:\n{done.stderr[-2000:]}")
    part.rename(args.output / f"{name}-{kind}.gguf")  # a file that is there is whole


def make(args, gguf, name, vocab):
    model = MODELS[name]
    print(f"writing {name}-mlx4/", flush=True)
    write_mlx_folder(args.output / f"{name}-mlx4", model, vocab)
    print("writing the float16 GGUF", flush=True)
    f16 = args.output / f"{name}-f16.gguf"
    write_f16_gguf(gguf, f16, model, vocab)
    if name == "1b":
        quantize_gguf(args, f16, name, "q4_k_m", [])
    quantize_gguf(args, f16, name, "q4_0", ["--token-embedding-type", "q8_0"])
    f16.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=pathlib.Path, required=True, help="the folder bench/build_peer.py made")
    parser.add_argument("--vocab", type=pathlib.Path, required=True, help="SmolLM2's GGUF, for its vocabulary")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="those whose files are not there yet, unless told")
    args = parser.parse_args()
    unknown = set(args.names) - set(MODELS)
    if unknown:
        parser.error(f"no model named {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    sys.path.insert(0, str(args.peer / "llama.cpp" / "gguf-py"))
    import gguf
    args.output.mkdir(parents=True, exist_ok=True)
    names = args.names or [name for name in MODELS if not (args.output / f"{name}-q4_0.gguf").exists()]
    if names:
        vocab = read_vocab(gguf, args.vocab)
    for name in names:
        make(args, gguf, name, vocab)


if __name__ == "__main__":
    main()
