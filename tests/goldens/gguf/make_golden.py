"""Makes mixed.safetensors: the logits of tests/data/gguf/mixed.gguf (every weight type that import reads, K-quants among them) for IDS, from a
llama written out in NumPy, float64, over weights that the `gguf` package (0.19.0) dequantised. Independent of lockstep from
the file to the logits."""
import json
import pathlib
import struct

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).resolve().parent
IDS = [1, 200, 37, 5, 263, 90, 90, 12]
HEADS, KV_HEADS, DIM, EPS, THETA = 2, 1, 32, 1e-5, 500000.0

reader = GGUFReader(HERE.parent.parent / "data" / "gguf" / "mixed.gguf")
W = {t.name: dequantize(t.data, t.tensor_type).reshape(tuple(reversed(t.shape.tolist()))).astype(np.float64) for t in reader.tensors}


def unpermute(w, heads):
    """GGUF keeps the rows of q and k in interleaved pairs; half-split rotation wants them apart."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def rotate(x, heads):
    x = x.reshape(len(x), heads, DIM)
    angle = np.arange(len(x))[:, None] / THETA ** (np.arange(0, DIM, 2) / DIM)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :DIM // 2], x[..., DIM // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def attention(x, p):
    q = rotate(x @ unpermute(W[p + "attn_q.weight"], HEADS).T + unpermute(W[p + "attn_q.bias"], HEADS), HEADS)
    k = rotate(x @ unpermute(W[p + "attn_k.weight"], KV_HEADS).T + unpermute(W[p + "attn_k.bias"], KV_HEADS), KV_HEADS)
    v = (x @ W[p + "attn_v.weight"].T + W[p + "attn_v.bias"]).reshape(len(x), KV_HEADS, DIM)
    out = np.empty((len(x), HEADS, DIM))
    for h in range(HEADS):
        kv = h // (HEADS // KV_HEADS)
        scores = q[:, h] @ k[:, kv].T / np.sqrt(DIM)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = weights / weights.sum(-1, keepdims=True) @ v[:, kv]
    return out.reshape(len(x), -1) @ W[p + "attn_output.weight"].T


x = W["token_embd.weight"][IDS]
for layer in range(2):
    p = f"blk.{layer}."
    x = x + attention(norm(x, W[p + "attn_norm.weight"]), p)
    y = norm(x, W[p + "ffn_norm.weight"])
    gate, up = y @ W[p + "ffn_gate.weight"].T, y @ W[p + "ffn_up.weight"].T
    x = x + (gate / (1 + np.exp(-gate)) * up) @ W[p + "ffn_down.weight"].T
logits = (norm(x, W["output_norm.weight"]) @ W["output.weight"].T).astype("<f4")
print("std", logits.std(), "max", np.abs(logits).max())

data = np.array(IDS, "<i4").tobytes() + logits.tobytes()
n = 4 * len(IDS)
header = json.dumps({"ids": {"dtype": "I32", "shape": [len(IDS)], "data_offsets": [0, n]},
                     "logits": {"dtype": "F32", "shape": list(logits.shape), "data_offsets": [n, len(data)]}}).encode()
header += b" " * (-len(header) % 8)
(HERE / "mixed.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
