#!/usr/bin/env python3
"""Makes the 1B-shaped llama with random weights that the speed targets name, for both engines, from the same weights.

    bench/make_1b.py --peer build/peer --vocab SmolLM2.gguf -o build/bench

writes
    1b-mlx4/       safetensors in MLX layout: affine 4 bits, group 64, with an 8-bit embedding (tied), and its tokenizer.json
    1b-q4_0.gguf   Q4_0 with a Q8_0 embedding, for llama.cpp
    1b-q4_k_m.gguf llama.cpp's own mixture, to be run there and imported here

Random weights: the time of a step does not depend on their values, and no such model can be downloaded here. The vocabulary
and merges are those of the GGUF given. numpy and yaml are needed; the gguf package is taken from llama.cpp's source tree (--peer, made
by bench/build_peer.py), whose llama-quantize makes the two quantised files from a float16 one.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

HIDDEN, LAYERS, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB, CONTEXT = 2048, 16, 8192, 32, 8, 64, 49152, 8192
THETA, EPS = 100000.0, 1e-5
SEED = 20240517


def shapes():
    """(name here, name in GGUF, shape, heads whose rows GGUF stores permuted) of every tensor, in file order."""
    yield "model.embed_tokens.weight", "token_embd.weight", (VOCAB, HIDDEN), 0
    for i in range(LAYERS):
        here, there = f"model.layers.{i}.", f"blk.{i}."
        yield here + "input_layernorm.weight", there + "attn_norm.weight", (HIDDEN,), 0
        yield here + "self_attn.q_proj.weight", there + "attn_q.weight", (HEADS * HEAD_DIM, HIDDEN), HEADS
        yield here + "self_attn.k_proj.weight", there + "attn_k.weight", (KV_HEADS * HEAD_DIM, HIDDEN), KV_HEADS
        yield here + "self_attn.v_proj.weight", there + "attn_v.weight", (KV_HEADS * HEAD_DIM, HIDDEN), 0
        yield here + "self_attn.o_proj.weight", there + "attn_output.weight", (HIDDEN, HEADS * HEAD_DIM), 0
        yield here + "post_attention_layernorm.weight", there + "ffn_norm.weight", (HIDDEN,), 0
        yield here + "mlp.gate_proj.weight", there + "ffn_gate.weight", (FFN, HIDDEN), 0
        yield here + "mlp.up_proj.weight", there + "ffn_up.weight", (FFN, HIDDEN), 0
        yield here + "mlp.down_proj.weight", there + "ffn_down.weight", (HIDDEN, FFN), 0
    yield "model.norm.weight", "output_norm.weight", (HIDDEN,), 0


def values(index, shape):
    """A tensor is a function of its index alone, so both files can be written one tensor at a time."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    draw = np.random.Generator(np.random.SFC64([SEED, index])).standard_normal(shape, np.float32)
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


def mlx_parts(name, shape):
    """(name, dtype, shape) of what one tensor becomes in the MLX folder."""
    if len(shape) == 1:
        return [(name, "F16", shape)]
    bits, stem = bits_of(name), name.removesuffix(".weight")
    packed = (shape[0], shape[1] * bits // 32)
    groups = (shape[0], shape[1] // 64)
    return [(name, "U32", packed), (stem + ".scales", "F16", groups), (stem + ".biases", "F16", groups)]


def bits_of(name):
    return 8 if "embed_tokens" in name else 4


def write_safetensors(path):
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, _, shape, _ in shapes():
        for part, dtype, part_shape in mlx_parts(name, shape):
            size = int(np.prod(part_shape)) * (4 if dtype == "U32" else 2)
            header[part] = {"dtype": dtype, "shape": part_shape, "data_offsets": [offset, offset + size]}
            offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for index, (name, _, shape, _) in enumerate(shapes()):
            w = values(index, shape)
            arrays = [w.astype(np.float16)] if len(shape) == 1 else quantize_affine(w, bits_of(name), 64)
            for array in arrays:
                array.tofile(out)


def write_mlx_folder(folder, vocab):
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
              "num_hidden_layers": LAYERS, "intermediate_size": FFN, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCAB, "rms_norm_eps": EPS,
              "rope_theta": THETA, "max_position_embeddings": CONTEXT, "tie_word_embeddings": True, "hidden_act": "silu",
              "torch_dtype": "float16", "bos_token_id": 1, "eos_token_id": 2,
              "quantization": {"group_size": 64, "bits": 4, "model.embed_tokens": {"group_size": 64, "bits": 8}}}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocab), ensure_ascii=False))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": vocab["tokens"][2],
                "chat_template": vocab["template"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    write_safetensors(folder / "model.safetensors")


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


def write_f16_gguf(gguf, path, vocab):
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FFN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_rope_dimension_count(HEAD_DIM)
    out.add_rope_freq_base(THETA)
    out.add_layer_norm_rms_eps(EPS)
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
    for index, (_, name, shape, heads) in enumerate(shapes()):
        w = permute(values(index, shape), heads)
        out.add_tensor(name, w if len(shape) == 1 else w.astype(np.float16))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=pathlib.Path, required=True, help="the folder bench/build_peer.py made")
    parser.add_argument("--vocab", type=pathlib.Path, required=True, help="SmolLM2's GGUF, for its vocabulary")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    sys.path.insert(0, str(args.peer / "llama.cpp" / "gguf-py"))
    import gguf
    vocab = read_vocab(gguf, args.vocab)
    args.output.mkdir(parents=True, exist_ok=True)
    print("writing 1b-mlx4/", flush=True)
    write_mlx_folder(args.output / "1b-mlx4", vocab)
    print("writing the float16 GGUF", flush=True)
    f16 = args.output / "1b-f16.gguf"
    write_f16_gguf(gguf, f16, vocab)
    quantize = str(args.peer / "build" / "bin" / "llama-quantize")
    for name, options in (("q4_0", ["--token-embedding-type", "q8_0"]), ("q4_k_m", [])):
        print(f"quantizing 1b-{name}.gguf", flush=True)
        part = args.output / f"1b-{name}.part"
        done = subprocess.run([quantize, *options, str(f16), str(part), name.upper(), "2"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"llama-quantize failed:\n{done.stderr[-2000:]}")
        part.rename(args.output / f"1b-{name}.gguf")  # a file that is there is whole
    f16.unlink()


if __name__ == "__main__":
    main()
