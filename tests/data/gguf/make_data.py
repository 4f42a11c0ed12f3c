#!/usr/bin/env python3
"""Makes the GGUF test data of this folder: `python3 make_data.py` with numpy and gguf installed (made with gguf 0.19.0).

blocks.bin  per tensor type: type, values, bytes (uint32 each), the bytes of one row, the float32 values that
            gguf.quants.dequantize gives for it. The oracle of the reference decoder.
mixed.gguf  a llama of two layers that holds every type the import reads but for those that are looked up, q and k among the K-quants, biases on q, k, v,
            and a small byte-level vocabulary. Weights are random bytes with tame scales.
"""
import pathlib
import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, GGUFWriter
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "e2e"))
from tape import byte_alphabet  # noqa: E402

QUANTISED = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K]
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}  # where a block's f16 numbers stand
LOOKED_UP = [T.IQ4_NL, T.IQ4_XS, T.IQ3_XXS, T.IQ3_S, T.IQ2_XXS, T.IQ2_XS, T.IQ2_S, T.IQ1_S, T.IQ1_M, T.TQ1_0, T.TQ2_0]
HALVES.update({kind: [0] for kind in LOOKED_UP})
HALVES.update({T.IQ1_M: [], T.TQ1_0: [52], T.TQ2_0: [64]})


def random_rows(rng, kind, rows, columns, scale):
    """Random blocks whose f16 numbers are finite: of `scale`'s size, some zero, negative or subnormal."""
    values, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * columns // values, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = (rng.standard_normal(len(blocks)) * scale).astype(np.float16)
        halves[::17] = np.float16(0)
        halves[5::17] = np.float16(-3e-6)
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(-1, 2)
    if kind == T.IQ1_M:  # the highest bits of its f16 number
        blocks[:, 55] = blocks[:, 55] & 0x8F | 0x30
    return blocks.reshape(rows, -1)


def floats(rng, kind, rows, columns, scale=0.05):
    x = (rng.standard_normal((rows, columns)) * scale).astype(np.float32)
    if kind == T.F16:
        return x.astype(np.float16).view(np.uint8).reshape(rows, -1)
    if kind == T.BF16:
        return (x.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(rows, -1)
    return x.view(np.uint8).reshape(rows, -1)


def make_blocks():
    rng = np.random.default_rng(1)
    with open(HERE / "blocks.bin", "wb") as out:
        for kind in [T.F32, T.F16, T.BF16] + QUANTISED + LOOKED_UP:
            row = random_rows(rng, kind, 1, 512 if kind in LOOKED_UP else 1024, 0.5) if kind in HALVES else floats(rng, kind, 1, 64)
            if kind == T.Q4_1:  # the case of cases.md 25
                row[0, :20] = np.frombuffer(bytes.fromhex("003800bc1032547698badcfe" + "0f" * 8), np.uint8)
            values = np.ascontiguousarray(dequantize(row if kind in HALVES or kind == T.BF16 else
                                                     row.view(np.float32 if kind == T.F32 else np.float16), kind)
                                          .astype(np.float32)).reshape(-1)
            out.write(struct.pack("<III", kind, len(values), row.size) + row.tobytes() + values.tobytes())


def add_metadata(w, vocab):
    w.add_uint32("llama.block_count", 2)
    w.add_uint32("llama.context_length", 512)
    w.add_uint32("llama.embedding_length", 256)
    w.add_uint32("llama.feed_forward_length", 64)
    w.add_uint32("llama.attention.head_count", 2)
    w.add_array("llama.attention.head_count_kv", [1, 1])
    w.add_uint32("llama.attention.key_length", 32)
    w.add_uint32("llama.attention.value_length", 32)
    w.add_uint32("llama.rope.dimension_count", 32)
    w.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    w.add_float32("llama.rope.freq_base", 500000.0)
    w.add_string("tokenizer.ggml.model", "gpt2")
    w.add_string("tokenizer.ggml.pre", "llama-bpe")
    w.add_array("tokenizer.ggml.tokens", vocab)
    w.add_array("tokenizer.ggml.token_type", [1] * (len(vocab) - 4) + [3, 3, 3, 4])
    w.add_array("tokenizer.ggml.merges", ["t h", "th e", "\u0120 the", "a n"])
    n = len(vocab)
    w.add_uint32("tokenizer.ggml.bos_token_id", n - 4)
    w.add_uint32("tokenizer.ggml.eos_token_id", n - 3)
    w.add_uint32("tokenizer.ggml.eot_token_id", n - 2)
    w.add_string("tokenizer.chat_template", "{% for m in messages %}{{ m['content'] }}\n{% endfor %}")


def add_tensors(w, n_vocab):
    rng = np.random.default_rng(2)

    def add(name, kind, rows, columns):
        data = random_rows(rng, kind, rows, columns, 0.004) if kind in HALVES else floats(rng, kind, rows, columns)
        w.add_tensor(name, data, raw_dtype=kind)

    def vector(name, n):
        w.add_tensor(name, (1 + 0.1 * rng.standard_normal(n)).astype(np.float32))

    add("token_embd.weight", T.Q6_K, n_vocab, 256)
    vector("output_norm.weight", 256)
    add("output.weight", T.Q8_0, n_vocab, 256)
    kinds = [[T.Q2_K, T.Q3_K, T.Q4_0, T.Q4_1, T.Q5_K, T.Q4_K, T.Q5_0], [T.Q4_K, T.Q5_1, T.Q6_K, T.BF16, T.F16, T.Q2_K, T.F32]]
    shapes = [("attn_q", 64, 256), ("attn_k", 32, 256), ("attn_v", 32, 256), ("attn_output", 256, 64),
              ("ffn_gate", 64, 256), ("ffn_up", 64, 256), ("ffn_down", 256, 64)]
    for layer in range(2):
        vector(f"blk.{layer}.attn_norm.weight", 256)
        vector(f"blk.{layer}.ffn_norm.weight", 256)
        for (name, rows, columns), kind in zip(shapes, kinds[layer]):
            add(f"blk.{layer}.{name}.weight", kind, rows, columns)
        for name, rows in (("attn_q", 64), ("attn_k", 32), ("attn_v", 32)):
            vector(f"blk.{layer}.{name}.bias", rows)


def make_mixed():
    vocab = byte_alphabet() + ["th", "the", "\u0120the", "an", "<|begin|>", "<|end|>", "<|turn|>", "<tool>"]
    w = GGUFWriter(HERE / "mixed.gguf", "llama")
    add_metadata(w, vocab)
    add_tensors(w, len(vocab))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


make_blocks()
make_mixed()
