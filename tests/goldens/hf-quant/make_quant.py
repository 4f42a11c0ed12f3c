#!/usr/bin/env python3
"""Goldens of published quantised forms that have none elsewhere: tiny random checkpoints, packed as each form's library
packs them (compressed-tensors does its own packing; GPTQ and BitNet are packed here, field by field), then read back
from the packed tensors by code that shares nothing with the packing, and run by transformers in float32.

    make_quant.py OUT [NAME...]

needs numpy, torch, transformers, safetensors and compressed-tensors. deepseek_v3-fp8, gpt_oss-mxfp4 and llama-awq are
from another script."""
import json
import re
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
SHORT, N_LONG, N_CONT = [1, 2, 3, 4, 5], 40, 16
LLAMA = dict(model_type="llama", hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=128, rms_norm_eps=1e-5, max_position_embeddings=256, rope_theta=10000.0, hidden_act="silu", bos_token_id=1,
             eos_token_id=2, tie_word_embeddings=False, torch_dtype="float16", architectures=["LlamaForCausalLM"])
MOE = dict(LLAMA, model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64,
           head_dim=16, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, hidden_act="silu")
BITNET = dict(LLAMA, model_type="bitnet", architectures=["BitNetForCausalLM"], hidden_act="relu2", torch_dtype="bfloat16")
LINEAR = r"layers\.\d+\..*(q|k|v|o|gate|up|down)_proj\.weight$"


def rng(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def build(cfg, name):
    """The float model, with random weights, and its tensors as they are saved."""
    config = transformers.AutoConfig.for_model(**cfg)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    r = rng(name)
    dtype = getattr(torch, cfg["torch_dtype"])
    with torch.no_grad():
        for k, p in model.named_parameters():
            if p.ndim == 1:
                v = 1 + 0.2 * r.standard_normal(p.shape)
            else:
                v = r.standard_normal(p.shape) * (0.35 if "embed" in k else (2.5 if "lm_head" in k else 1.3) / p.shape[-1] ** 0.5)
            p.copy_(torch.from_numpy(v.astype(np.float32)).to(dtype).float())
    import tempfile

    with tempfile.TemporaryDirectory() as td:
        model.save_pretrained(td)
        W = load_file(str(Path(td) / "model.safetensors"))
    return W, dtype


# ---- GPTQ ----

def stream(fields, bits):
    """[n, m] unsigned -> [n * bits / 32, m] int32: each column as a little-endian bit stream."""
    n, m = fields.shape
    b = ((fields[:, None, :] >> np.arange(bits)[None, :, None]) & 1).reshape(n * bits, m)
    pad = -(n * bits) % 32
    b = np.concatenate([b, np.zeros((pad, m), b.dtype)]).reshape(-1, 32, m).astype(np.uint64)
    return (b << np.arange(32, dtype=np.uint64)[None, :, None]).sum(1).astype(np.uint32)


def unstream(words, bits, n):
    """The inverse, by Python integers of whole columns."""
    out = np.zeros((n, words.shape[1]), np.int64)
    for c in range(words.shape[1]):
        whole = sum(int(w) << (32 * i) for i, w in enumerate(words[:, c]))
        for k in range(n):
            out[k, c] = whole >> (bits * k) & ((1 << bits) - 1)
    return out


def gptq(w, r, bits, group, sym, act_order, v2):
    w = w.numpy().T.astype(np.float64)  # [in, out]
    n, m = w.shape
    size = group if group > 0 else n
    order = r.permutation(n) if act_order else np.arange(n)
    g_idx = np.empty(n, np.int32)
    g_idx[order] = np.arange(n) // size
    groups, top = -(-n // size), (1 << bits) - 1
    scales, zeros, q = np.zeros((groups, m), np.float16), np.zeros((groups, m), np.int64), np.zeros((n, m), np.int64)
    for g in range(groups):
        part = w[g_idx == g]
        if sym:
            scales[g] = 2 * np.abs(part).max(0) / top
            zeros[g] = (top + 1) // 2
        else:
            low, high = np.minimum(part.min(0), 0), np.maximum(part.max(0), 0)
            scales[g] = (high - low) / top
            zeros[g] = np.clip(np.round(-low / scales[g].astype(np.float64)), 0 if v2 else 1, top)
        q[g_idx == g] = np.clip(np.round(part / scales[g].astype(np.float64) + zeros[g]), 0, top)
    T = dict(qweight=stream(q, bits), qzeros=stream(((zeros if v2 else zeros - 1) & top).T, bits).T, scales=scales, g_idx=g_idx)
    return {k: torch.from_numpy(np.ascontiguousarray(v.view(np.int32) if v.dtype == np.uint32 else v)) for k, v in T.items()}


def read_gptq(T, bits, v2):
    words, zwords = T["qweight"].numpy().view(np.uint32), T["qzeros"].numpy().view(np.uint32)
    s, g = T["scales"].float().numpy(), T["g_idx"].numpy()
    q = unstream(words, bits, len(g))
    z = unstream(zwords.T, bits, s.shape[1]).T + (0 if v2 else 1)
    return torch.from_numpy(((q - z[g]).astype(np.float32) * s[g]).T.copy())


def gptq_job(bits, group, sym=True, act_order=False, v2=False, **more):
    def pack(name, w, r):
        return gptq(w, r, bits, group, sym, act_order, v2)

    cfg = dict(quant_method="gptq", bits=bits, group_size=group, sym=sym, desc_act=act_order, damp_percent=0.01, static_groups=False,
               true_sequential=True, checkpoint_format="gptq_v2" if v2 else "gptq", **more)
    return cfg, pack, lambda name, T: read_gptq(T, bits, v2)


# ---- compressed-tensors ----

def compressed(format, weights, inputs=None, ignore=("lm_head",), targets=("Linear",), scale_dtype=torch.bfloat16, kv=None):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(targets=list(targets), weights=args)
    packer = BaseCompressor.get_value_from_registry(format)

    def pack(name, w, r):
        out, n = w.shape
        strategy, G = weights["strategy"], weights.get("group_size")
        if strategy == "block":
            bh, bw = weights["block_structure"]
            padded = torch.zeros(-(-out // bh) * bh, -(-n // bw) * bw)
            padded[:out, :n] = w
            parts = padded.reshape(-(-out // bh), bh, -(-n // bw), bw).permute(0, 2, 1, 3).flatten(2)
        else:
            parts = w.reshape(1, 1, -1) if strategy == "tensor" else w.reshape(out, -1, G if "group" in strategy else n)
        low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
        T = {"weight": w}
        if format.startswith("nvfp4"):
            T["weight_global_scale"] = (6.0 * 448.0 / w.abs().max()).reshape(1)
            T["weight_scale"] = (torch.maximum(-low, high) / 6 * T["weight_global_scale"]).to(torch.float8_e4m3fn).float()
        elif format.startswith("mx"):
            T["weight_scale"] = 2.0 ** torch.floor(torch.log2(torch.maximum(-low, high))) / (4 if "4" in format else 256)
        elif weights.get("type") == "float":
            T["weight_scale"] = (torch.maximum(-low, high) / 448).to(scale_dtype)
        elif weights["symmetric"]:
            T["weight_scale"] = (torch.maximum(-low, high) * 2 / (2 ** args.num_bits - 1)).to(scale_dtype)
        else:
            T["weight_scale"] = ((high - low) / (2 ** args.num_bits - 1)).to(scale_dtype)
            zero = torch.round(-2 ** (args.num_bits - 1) - low / T["weight_scale"].float())
            T["weight_zero_point"] = zero.clamp(-2 ** (args.num_bits - 1), 2 ** (args.num_bits - 1) - 1).to(torch.int8)
        if strategy == "tensor":
            T["weight_scale"] = T["weight_scale"].reshape(1)
        C = packer.compress({k: v.clone() for k, v in T.items()}, scheme)
        if inputs and inputs.get("dynamic") is False:
            C["input_scale"] = torch.tensor([0.02], dtype=scale_dtype)
        return C

    def read(name, T):
        return read_compressed(T, weights, format)

    cfg = dict(quant_method="compressed-tensors", format=format, quantization_status="compressed", ignore=list(ignore), kv_cache_scheme=kv,
               global_compression_ratio=None, version="0.20.1", sparsity_config={}, transform_config={},
               config_groups={"group_0": dict(targets=list(targets), weights=dict(weights, dynamic=False, observer="minmax", observer_kwargs={}),
                                              input_activations=inputs, output_activations=None, format=format)})
    return cfg, pack, read


FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def read_compressed(T, weights, format):
    if "weight_packed" in T and format == "pack-quantized":
        out, n = [int(x) for x in T["weight_shape"]]
        bits = weights["num_bits"]
        q = unstream(T["weight_packed"].numpy().view(np.uint32).T, bits, n).T.astype(np.float32)
        z = np.full(tuple(T["weight_scale"].shape), 2.0 ** (bits - 1), np.float32)
        if "weight_zero_point" in T:
            z = unstream(T["weight_zero_point"].numpy().view(np.uint32), bits, out).astype(np.float32)
    elif "weight_packed" in T:
        b = T["weight_packed"].numpy()
        q = FP4[np.stack([b & 15, b >> 4], -1).reshape(b.shape[0], -1)]
        z = 0
    else:
        q, z = T["weight"].float().numpy(), T["weight_zero_point"].float().numpy() if "weight_zero_point" in T else 0
    s = T["weight_scale"]
    s = 2.0 ** (s.float().numpy() - 127) if s.dtype == torch.uint8 else s.float().numpy()
    if "weight_global_scale" in T:
        s = (s / T["weight_global_scale"].numpy()).astype(np.float32)
    if weights["strategy"] == "block":
        bh, bw = weights["block_structure"]
        s = s.repeat(bh, 0).repeat(bw, 1)[: q.shape[0], : q.shape[1]]
    elif s.size > 1:
        times = q.shape[1] // s.shape[1]
        s, z = s.repeat(times, 1), z.repeat(times, 1) if isinstance(z, np.ndarray) else z
    return torch.from_numpy(((q - z) * s).astype(np.float32))


# ---- FP8 and BitNet ----

def fp8_job(static):
    def pack(name, w, r):
        s = (w.abs().max() / 448).float()
        T = {"weight": (w / s).to(torch.float8_e4m3fn), "weight_scale": s.reshape(() if static else (1,))}
        return dict(T, input_scale=torch.tensor(0.03)) if static else T

    cfg = dict(quant_method="fp8", activation_scheme="static" if static else "dynamic", ignored_layers=["lm_head", "model.layers.1.self_attn.o_proj"])
    return cfg, pack, lambda name, T: T["weight"].float() * T["weight_scale"].float()


def bitnet_job(auto):
    def pack(name, w, r):
        mean = w.abs().mean()
        q = (torch.round(w / mean).clamp(-1, 1) + 1).to(torch.uint8)
        quarter = w.shape[0] // 4
        packed = sum(q[i * quarter : (i + 1) * quarter] << (2 * i) for i in range(4)).to(torch.uint8)
        return {"weight": packed, "weight_scale": (mean if auto else 1 / mean).to(torch.bfloat16).reshape(1)}

    def read(name, T):
        b, s = T["weight"].numpy(), T["weight_scale"].float().numpy()
        q = np.concatenate([(b >> (2 * i)) & 3 for i in range(4)]).astype(np.float32) - 1
        return torch.from_numpy(q * s if auto else q / s)

    return dict(quant_method="bitnet", linear_class="autobitlinear" if auto else "bitlinear", quantization_mode="offline", modules_to_not_convert=None), pack, read


def bitnet_online_job():
    """The checkpoint has floats, and the layers round them as they run (transformers' WeightQuant)."""
    def read(name, T):
        w = T["weight"].float().numpy()
        s = np.float32(1.0) / np.abs(w).mean(dtype=np.float64).astype(np.float32)
        return torch.from_numpy(np.clip(np.rint(w * s), -1, 1).astype(np.float32) / s)

    return dict(quant_method="bitnet", linear_class="autobitlinear", quantization_mode="online"), lambda name, w, r: {"weight": w.to(torch.bfloat16)}, read


def compressed_act_order():
    """Inputs in groups of any order: packed by the library in the order of the groups, then put back."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32

    cfg, pack_plain, _ = compressed("pack-quantized", W4(symmetric=False))
    cfg["config_groups"]["group_0"]["weights"]["actorder"] = "group"

    def pack(name, w, r):
        order = r.permutation(w.shape[1])
        g = np.empty(len(order), np.int32)
        g[order] = np.arange(len(order)) // 32
        T = pack_plain(name, w[:, order], r)
        q = unpack_from_int32(T["weight_packed"], 4, w.shape)
        return dict(T, weight_packed=pack_to_int32(q[:, np.argsort(order)].contiguous(), 4), weight_g_idx=torch.from_numpy(g))

    def read(name, T):
        (out, n), g = [int(x) for x in T["weight_shape"]], T["weight_g_idx"].numpy()
        q = unstream(T["weight_packed"].numpy().view(np.uint32).T, 4, n).T
        z = unstream(T["weight_zero_point"].numpy().view(np.uint32), 4, out)
        return torch.from_numpy((q - z[:, g]).astype(np.float32) * T["weight_scale"].float().numpy()[:, g])

    return cfg, pack, read


def W4(**k):
    return dict(dict(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32), **k)


def W8(**k):
    return dict(dict(num_bits=8, type="int", symmetric=True, strategy="channel"), **k)


DYNAMIC = dict(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
FLOAT = dict(num_bits=8, type="float", symmetric=True)

JOBS = {
    "gptq-int4": (LLAMA, lambda: gptq_job(4, 32)),
    "gptq-int4-actorder": (LLAMA, lambda: gptq_job(4, 32, sym=False, act_order=True)),
    "gptq-int4-moe-actorder": (MOE, lambda: gptq_job(4, 32, act_order=True, modules_to_not_convert=["mlp.gate", "lm_head"])),
    "gptq-int8-v2": (LLAMA, lambda: gptq_job(8, -1, sym=False, v2=True)),
    "gptq-int3": (LLAMA, lambda: gptq_job(3, 32, sym=False)),
    "gptq-int2-g16": (LLAMA, lambda: gptq_job(2, 16, sym=False, v2=True)),
    "ct-int4-group": (LLAMA, lambda: compressed("pack-quantized", W4())),
    "ct-int4-asym": (LLAMA, lambda: compressed("pack-quantized", W4(symmetric=False), scale_dtype=torch.float16, ignore=["lm_head", "re:.*layers\\.1\\.mlp.*"])),
    "ct-int4-actorder": (LLAMA, compressed_act_order),
    "ct-int8-channel": (LLAMA, lambda: compressed("int-quantized", W8(), DYNAMIC)),
    "ct-fp8-channel": (LLAMA, lambda: compressed("float-quantized", dict(FLOAT, strategy="channel"), dict(DYNAMIC, type="float"))),
    "ct-fp8-tensor": (LLAMA, lambda: compressed("float-quantized", dict(FLOAT, strategy="tensor"), dict(DYNAMIC, type="float", strategy="tensor", dynamic=False),
                                                kv=dict(num_bits=8, type="float", strategy="tensor", dynamic=False, symmetric=True))),
    "ct-fp8-block": (MOE, lambda: compressed("float-quantized", dict(FLOAT, strategy="block", block_structure=[128, 128]), ignore=["lm_head", "re:.*mlp\\.gate$"],
                                             scale_dtype=torch.float32)),
    "ct-nvfp4": (LLAMA, lambda: compressed("nvfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16))),
    "fp8-tensor-static": (LLAMA, lambda: fp8_job(True)),
    "fp8-tensor": (LLAMA, lambda: fp8_job(False)),
    "bitnet-offline": (BITNET, lambda: bitnet_job(True)),
    "bitnet-online": (BITNET, bitnet_online_job),
    "bitnet-llama": (dict(LLAMA, torch_dtype="bfloat16"), lambda: bitnet_job(False)),
}


def skipped(cfg, module):
    for key in (cfg.get("modules_to_not_convert") or []) + (cfg.get("ignored_layers") or []):
        if module.endswith(key):
            return True
    for key in cfg.get("ignore") or []:
        if (key.startswith("re:") and re.match(key[3:], module)) or key == module:
            return True
    return False


def run(model, ids, n):
    """Logits of all rows of ids and of n greedy tokens after them."""
    ids, rows = list(ids), []
    with torch.no_grad():
        first = model(torch.tensor([ids]), use_cache=False).logits[0]
        toks, last = [], first[-1]
        for _ in range(n):
            toks.append(int(last.argmax()))
            last = model(torch.tensor([ids + toks]), use_cache=False).logits[0][-1]
            rows.append(last)
    return first, toks, torch.stack(rows)


def make(out, name):
    base, job = JOBS[name]
    quant, pack, read = job()
    cfg = {k: v for k, v in base.items()}
    W, dtype = build(cfg, name)
    r, stored, plain = rng(name + " codes"), {}, {}
    orders = {}
    for k, v in W.items():
        module = k[: -len(".weight")]
        if not re.search(LINEAR, k) or skipped(quant, module):
            stored[k] = v.to(dtype)
            plain[k] = stored[k].float()
            continue
        # q, k and v, or gate and up, have the same inputs, and so the same order of them
        of = re.sub(r"(q|k|v)_proj$", "qkv", re.sub(r"(gate|up)_proj$", "gate_up", module))
        orders.setdefault(of, r.integers(1 << 30))
        T = pack(name, v.float(), np.random.default_rng(orders[of]))
        stored.update({f"{module}.{t}": x.contiguous() for t, x in T.items()})
    d = Path(out) / name
    d.mkdir(parents=True, exist_ok=True)
    save_file(stored, str(d / "model.safetensors"), metadata={"format": "pt"})
    (d / "config.json").write_text(json.dumps(dict(cfg, quantization_config=quant), indent=2) + "\n")
    # from here on only what was saved counts
    again = load_file(str(d / "model.safetensors"))
    modules = {}
    for k, v in again.items():
        module, _, part = k.rpartition(".")
        modules.setdefault(module, {})[part] = v
    for module, T in modules.items():
        if f"{module}.weight" not in plain and module + ".weight" in W:
            plain[f"{module}.weight"] = read(name, T)
    worst = max(float((plain[k] - W[k].float()).abs().max()) for k in W)
    import tempfile

    with tempfile.TemporaryDirectory() as td:
        save_file({k: v.contiguous() for k, v in plain.items()}, str(Path(td) / "model.safetensors"), metadata={"format": "pt"})
        (Path(td) / "config.json").write_text(json.dumps(dict(cfg, torch_dtype="float32")))
        model = transformers.AutoModelForCausalLM.from_pretrained(td, dtype=torch.float32, attn_implementation="eager").float().eval()
    r = rng(name + " prompt")
    long = [int(x) for x in r.integers(3, cfg["vocab_size"], N_LONG)]
    J = dict(name=name, family=cfg["model_type"], layout="hf-quant", reference="transformers on dequantised weights (make_quant.py)",
             versions=dict(transformers=transformers.__version__, torch=torch.__version__.split("+")[0]), compute_dtype="float32",
             prompts=dict(short=SHORT, long=long), argmax={}, continuation={}, tolerance_abs_f32=1e-3 if "fp8" in name else 4e-3)
    G = {}
    for key, ids in (("short", SHORT), ("long", long)):
        rows, toks, cont = run(model, ids, N_CONT)
        G[key] = rows.contiguous()
        J["argmax"][key] = rows.argmax(-1).tolist()
        J["continuation"][key] = toks
        if key == "long":
            G["long_cont"] = cont.contiguous()
    save_file(G, str(d / "golden.safetensors"))
    (d / "golden.json").write_text(json.dumps(J) + "\n")
    print(f"{name}: logits std {float(G['long'].std()):.2f}, quantisation moves weights by up to {worst:.3f}")


if __name__ == "__main__":
    for job in sys.argv[2:] or JOBS:
        make(sys.argv[1], job)
