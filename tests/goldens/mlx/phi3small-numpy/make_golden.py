"""Makes this folder: a random Phi-3-small of odd sizes and its logits, from the model written out in NumPy, float64, position by
position: no other program's code. mlx-lm's class fails at prompt lengths that are no multiple of its block."""
import json
import pathlib
import struct

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
HIDDEN, HEADS, KV_HEADS, LAYERS, WIDTH, VOCAB, EPS, THETA = 48, 6, 2, 3, 40, 131, 1e-5, 1000000.0
BLOCK, LOCAL, STRIDE, DENSE_EVERY, LIMIT, POSITION_SCALE = 32, 1, 3, 2, 2.5, 0.5
MUP_ATTENTION, MUP_EMBEDDING, MUP_WIDTH = 1.25, 6.0, 3.0
DIM = HIDDEN // HEADS
SHORT, LONG, CONTINUED = 5, 110, 8

random = np.random.default_rng(20240423)
W = {}


def tensor(name, *shape, scale=None, plus=0.0):
    """Values that float16 holds, as they are stored."""
    values = random.normal(size=shape) * (scale or 1.2 / np.sqrt(shape[-1])) + plus
    W[name] = values.astype("<f2")
    return W[name].astype(np.float64)


def norm_weights(name):
    return tensor(name + ".weight", HIDDEN, scale=0.2, plus=1.0), tensor(name + ".bias", HIDDEN, scale=0.1)


def matrix(name, rows, cols, scale=None):
    return tensor(name + ".weight", rows, cols, scale=scale), tensor(name + ".bias", rows, scale=0.3)


def norm(x, w):
    x = x - x.mean()
    return x / np.sqrt((x * x).mean() + EPS) * w[0] + w[1]


def rotate(x, position):
    """x [heads, DIM]"""
    angle = position * POSITION_SCALE / THETA ** (np.arange(0, DIM, 2) / DIM)
    a, b, c, s = x[:, :DIM // 2], x[:, DIM // 2:], np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def sees(head, position, other):
    own, block = position // BLOCK, other // BLOCK
    return own - block < LOCAL or (block + head + 1) % STRIDE == 0


class Layer:
    def __init__(self, number):
        p = f"model.layers.{number}."
        self.sparse = number % DENSE_EVERY == 0
        self.norm, self.mlp_norm = norm_weights(p + "input_layernorm"), norm_weights(p + "post_attention_layernorm")
        self.qkv = matrix(p + "self_attn.query_key_value", (HEADS + 2 * KV_HEADS) * DIM, HIDDEN, scale=0.4)
        self.dense = matrix(p + "self_attn.dense", HIDDEN, HIDDEN)
        self.up, self.down = matrix(p + "mlp.up_proj", 2 * WIDTH, HIDDEN, scale=0.3), matrix(p + "mlp.down_proj", HIDDEN, WIDTH)
        self.keys, self.values, self.limited = [], [], 0

    def attention(self, x, position):
        group = HEADS // KV_HEADS
        qkv = (self.qkv[0] @ x + self.qkv[1]).reshape(KV_HEADS, group + 2, DIM)
        queries = rotate(qkv[:, :group].reshape(HEADS, DIM), position)
        self.keys.append(rotate(qkv[:, group], position))
        self.values.append(qkv[:, group + 1])
        out = np.zeros((HEADS, DIM))
        for h in range(HEADS):
            seen = [j for j in range(position + 1) if not self.sparse or sees(h, position, j)]
            scores = np.array([queries[h] @ self.keys[j][h // group] for j in seen]) * MUP_ATTENTION / DIM
            weights = np.exp(scores - scores.max())
            out[h] = sum(w * self.values[j][h // group] for w, j in zip(weights / weights.sum(), seen))
        return self.dense[0] @ out.reshape(-1) + self.dense[1]

    def mlp(self, x):
        both = self.up[0] @ x + self.up[1]
        self.limited += (both[0::2] > LIMIT).sum() + (np.abs(both[1::2]) > LIMIT).sum()
        gelu, linear = np.minimum(both[0::2], LIMIT), np.clip(both[1::2], -LIMIT, LIMIT)
        return self.down[0] @ (gelu / (1 + np.exp(-1.702 * gelu)) * (linear + 1)) + self.down[1]

    def run(self, x, position):
        x = x + self.attention(norm(x, self.norm), position)
        return x + self.mlp(norm(x, self.mlp_norm))


embedding = tensor("model.embed_tokens.weight", VOCAB, HIDDEN, scale=0.35)
layers = [Layer(i) for i in range(LAYERS)]
final_norm = norm_weights("model.final_layernorm")


def run(ids, continued=0):
    """Logits of each position, and of `continued` more whose ids are the best so far."""
    for layer in layers:
        layer.keys, layer.values = [], []
    ids, rows = list(ids), []
    for position in range(len(ids) + continued):
        if position == len(ids):
            ids.append(int(np.argmax(rows[-1])))
        x = embedding[ids[position]] * MUP_EMBEDDING
        for layer in layers:
            x = layer.run(x, position)
        rows.append(embedding @ norm(x, final_norm) / MUP_WIDTH)
    return ids, np.array(rows)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, t in sorted(tensors.items()):
        kind = {"<f2": "F16", "<f4": "F32"}[t.dtype.str]
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


config = {
    "model_type": "phi3small", "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": LAYERS, "ff_intermediate_size": WIDTH, "vocab_size": VOCAB, "layer_norm_epsilon": EPS,
    "max_position_embeddings": 256, "rope_embedding_base": THETA, "rope_position_scale": POSITION_SCALE,
    "gegelu_limit": LIMIT, "mup_attn_multiplier": MUP_ATTENTION, "mup_embedding_multiplier": MUP_EMBEDDING,
    "mup_width_multiplier": MUP_WIDTH, "mup_use_scaling": True, "dense_attention_every_n_layers": DENSE_EVERY,
    "blocksparse_block_size": BLOCK, "blocksparse_num_local_blocks": LOCAL, "blocksparse_vert_stride": STRIDE,
    "attention_bias": False, "hidden_act": "gegelu", "rope_scaling": None}
prompts = {"short": random.integers(0, VOCAB, SHORT).tolist(), "long": random.integers(0, VOCAB, LONG).tolist()}
short_ids, short = run(prompts["short"], CONTINUED)
long_ids, long = run(prompts["long"], CONTINUED)
print("std", long.std(), "max", np.abs(long).max(), "values past a limit", [int(layer.limited) for layer in layers])
write_safetensors(HERE / "model.safetensors", W)
write_safetensors(HERE / "golden.safetensors", {"short": short[:SHORT].astype("<f4"), "long": long[:LONG].astype("<f4"),
                                                "long_cont": long[LONG:].astype("<f4")})
(HERE / "config.json").write_text(json.dumps(config, indent=1) + "\n")
(HERE / "golden.json").write_text(json.dumps({
    "name": "phi3small-numpy", "reference": "make_golden.py", "prompts": prompts,
    "continuation": {"short": short_ids[SHORT:], "long": long_ids[LONG:]}, "tolerance_abs_f32": 0.001,
    "note": "an independent NumPy program (make_golden.py beside it), at a length that is no multiple of the block"}) + "\n")
