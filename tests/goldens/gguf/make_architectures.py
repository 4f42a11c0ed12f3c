"""Makes the folders beside this file: GGUF files of each architecture that import knows, written by llama.cpp's own converter.

    make_architectures.py LLAMA_CPP [NAME...]

LLAMA_CPP is llama.cpp's source tree (made with that of llama-cpp-python 0.3.36); torch, transformers 5.24.0 and safetensors are
needed. CONVERTED are the checkpoints of tests/goldens/hf, whose logits are the reference, ENCODERS those of tests/goldens/embed. MADE
are checkpoints that only a GGUF file's limits ask for, or whose weights are quantised; their logits are computed here, in float32,
and lie beside the file.
Quantised rows are random blocks, which the `gguf` package dequantises for the checkpoint; where a row of a converted tensor equals
one, its block takes its place, so that whatever the converter does to the order of rows is done to the blocks.
"""
import json
import pathlib
import shutil
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(sys.argv[1]) / "gguf-py"), sys.argv[1]]
import conversion
import gguf
import numpy as np
import torch
import transformers
from conversion.base import ModelBase, ModelType, get_model_architecture
from gguf.quants import dequantize
from safetensors import safe_open
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
HF, EMBED, MLX = HERE.parent / "hf", HERE.parent / "embed", HERE.parent / "mlx"
T = gguf.GGMLQuantizationType
CONVERTED = ["llama-llama3rope", "llama-yarn", "mixtral", "qwen2", "qwen2_moe", "qwen3", "gemma", "gemma4_text", "gemma4_text-e2b",
             "gemma4_text-moe", "phi3-longrope", "phi3-partial", "deepseek_v2", "deepseek_v3", "granite-bias", "granitemoe", "lfm2",
             "lfm2_moe", "gpt_oss", "olmo2", "olmo3-yarn", "starcoder2", "cohere", "cohere2", "mamba", "falcon_mamba",
             "granitemoehybrid", "falcon_h1", "smollm3", "ministral3", "glm4_moe", "exaone4", "seed_oss", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe", "mamba2",
             "nemotron_h", "nemotron_h-moe", "jamba", "jamba-dense",
             "glm", "glm4", "minimax_m2-hf", "ernie4_5", "ernie4_5_moe", "olmoe", "stablelm",
             "exaone", "glm4_moe_lite", "gemma3n_text"]
# What the converter wants to find in config.json; of Nomic's what its first files say.
MISSING = {"cohere2": {"rotary_pct": 1.0}, "rwkv7": {"architectures": ["RWKV7ForCausalLM"]},
           "rwkv7-odd": {"architectures": ["RWKV7ForCausalLM"]},
           "bailing_moe": {"architectures": ["BailingMoeV2ForCausalLM"], "head_dim": 8, "moe_shared_expert_intermediate_size": 16},
           "bitnet": {"architectures": ["BitnetForCausalLM"]}, "internlm2": {"architectures": ["InternLM2ForCausalLM"]}, "minicpm": {"architectures": ["MiniCPMForCausalLM"]},
           "deepseek": {"architectures": ["DeepseekForCausalLM"]},
           "nomic_bert": {"n_positions": 8192, "activation_function": "swiglu", "causal": False, "qkv_proj_bias": False,
                          "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False, "rotary_emb_fraction": 1.0,
                          "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_emb_base": 1000}}
PLAIN = ["nemotron_h"]  # whose config.json is read as it is: transformers would add words of mixtures
TOLERANCE = {"qwen3_5-quantised": 4e-3, "qwen3_5-tiled": 4e-3}  # integers, whose inputs are rounded, and a rule that doubles it
MULTIPLIED = ["falcon_h1"]  # weights that are no longer of bfloat16 when converted
FROM_MLX = ["rwkv7", "rwkv7-odd", "bailing_moe", "internlm2", "minicpm", "deepseek"]  # checkpoints of tests/goldens/mlx
ENCODERS = ["bert-cls", "xlm_roberta", "nomic_bert", "embeddinggemma", "modernbert"]
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": 96, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GEMMA = {**SMALL, "query_pre_attn_scalar": 16, "sliding_window": 8, "rms_norm_eps": 1e-6}
# Without a word in the file, a reader takes the window of Gemma 2 and 3 in turns, of every second and sixth layer.
MADE = {
    "gemma2-turns": ("Gemma2", {**GEMMA, "num_hidden_layers": 3, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 6.0}, {}),
    "gemma3-turns": ("Gemma3Text", {**GEMMA, "num_hidden_layers": 7, "num_key_value_heads": 1, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}, {}),
    "qwen3_moe-quantised": ("Qwen3Moe", {**SMALL, "hidden_size": 256, "num_hidden_layers": 2, "moe_intermediate_size": 32,
                                         "num_experts": 3, "num_experts_per_tok": 2, "norm_topk_prob": True, "num_attention_heads": 2,
                                         "num_key_value_heads": 1, "mlp_only_layers": [], "rope_theta": 1e6},
                            {"layers.0.mlp.experts.gate_up": T.Q4_K, "layers.1.mlp.experts.gate_up": T.Q6_K,
                             "experts.down": T.Q8_0, "embed_tokens": T.Q5_K, "lm_head": T.Q3_K, "q_proj": T.Q4_0, "k_proj": T.Q5_1,
                             "v_proj": T.Q2_K}),
    "qwen3_next": ("Qwen3Next", {**SMALL, "num_hidden_layers": 4, "moe_intermediate_size": 16, "num_experts": 4,
                                 "num_experts_per_tok": 2, "shared_expert_intermediate_size": 24, "linear_num_value_heads": 6,
                                 "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
                                 "norm_topk_prob": True, "mlp_only_layers": []}, {}),
    # What is looked up, and the three values: every type in one matrix at least.
    "qwen3-iq": ("Qwen3", {**SMALL, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2,
                           "num_key_value_heads": 1, "head_dim": 32},
                 {"embed_tokens": T.IQ4_NL, "lm_head": T.TQ2_0, "0.self_attn.q_proj": T.IQ4_XS, "0.self_attn.k_proj": T.IQ3_XXS,
                  "0.self_attn.v_proj": T.IQ3_S, "0.mlp.gate_proj": T.IQ2_XXS, "0.mlp.up_proj": T.IQ2_XS, "0.mlp.down_proj": T.IQ4_XS,
                  "1.self_attn.q_proj": T.IQ2_S, "1.self_attn.k_proj": T.IQ1_S, "1.self_attn.v_proj": T.IQ1_M,
                  "1.mlp.gate_proj": T.TQ1_0, "1.mlp.up_proj": T.IQ4_XS, "1.mlp.down_proj": T.IQ3_S}),
    "qwen3_5-three": ("Qwen3_5Text", {**SMALL, "num_hidden_layers": 2, "full_attention_interval": 2, "linear_num_value_heads": 6,
                                      "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 16}, {}),
    "qwen3_5-quantised": ("Qwen3_5Text", {**SMALL, "hidden_size": 64, "num_hidden_layers": 2, "full_attention_interval": 2,
                                          "linear_num_value_heads": 6, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
                                          "linear_value_head_dim": 32, "intermediate_size": 64},
                          {"in_proj_qkv": T.Q8_0, "in_proj_z": T.Q4_0, "in_proj_a": T.Q5_1, "linear_attn.out_proj": T.Q8_0}),
    "qwen3_5-tiled": ("Qwen3_5Text", {**SMALL, "hidden_size": 64, "num_hidden_layers": 2, "full_attention_interval": 2,
                                      "linear_num_value_heads": 6, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
                                      "linear_value_head_dim": 128, "intermediate_size": 64},
                      {"in_proj_qkv": T.Q8_0, "in_proj_z": T.Q8_0, "linear_attn.out_proj": T.Q4_K}),
    "phi": ("Phi", {**SMALL, "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_key_value_heads": 4, "hidden_act": "gelu_new"},
            {"q_proj": T.Q8_0, "k_proj": T.Q8_0, "v_proj": T.Q8_0}),
    # The first BitNet, whose gate is silu; its weights are three values already.
    "bitnet": ("BitNet", {**SMALL, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2,
                          "num_key_value_heads": 1, "head_dim": 128, "hidden_act": "silu"}, {"_proj": T.TQ2_0, "embed_tokens": T.Q8_0}),
    "llama4": ("Llama4Text", {**SMALL, "intermediate_size": 24, "intermediate_size_mlp": 48, "num_hidden_layers": 4,
                              "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}, {}),
    "gpt_oss-mxfp4": ("GptOss", {**SMALL, "intermediate_size": 32, "num_hidden_layers": 2, "num_local_experts": 3,
                                 "num_experts_per_tok": 2, "sliding_window": 8}, {"experts.gate_up_proj": T.MXFP4,
                                                                                   "experts.down_proj": T.MXFP4}),
}
LOOKED_UP = {T.IQ4_NL: 80, T.IQ4_XS: 1400, T.IQ3_XXS: 270, T.IQ3_S: 155, T.IQ2_XXS: 120, T.IQ2_XS: 120, T.IQ2_S: 120, T.IQ1_S: 6.5,
             T.TQ1_0: 0.8, T.TQ2_0: 1.2}  # and what their values spread by
HALVES = {**dict.fromkeys(LOOKED_UP, [0]), T.TQ1_0: [52], T.TQ2_0: [64], T.Q8_0: [0], T.Q4_0: [0], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
SPREAD = {**LOOKED_UP, T.Q8_0: 80, T.Q4_0: 4.6, T.Q5_1: 17, T.Q2_K: 16, T.Q3_K: 74, T.Q4_K: 290, T.Q5_K: 570, T.Q6_K: 1360}


def random_blocks(rng, kind, rows, columns):
    """Blocks [rows, bytes] whose values spread by about 0.08."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * columns // values, size), dtype=np.uint8)
    if kind == T.MXFP4:
        blocks[:, 0] = rng.integers(122, 125, len(blocks))
    if kind == T.IQ1_M:  # an f16 number in four nibbles: 0.008
        blocks[:, 49::2] = blocks[:, 49::2] & 0x0F | np.array([0x00, 0x10, 0x00, 0x20], np.uint8)
    for at in HALVES.get(kind, []):
        scale = (0.08 / SPREAD[kind] * rng.uniform(0.7, 1.4, (len(blocks), 1))).astype("<f2")
        blocks[:, at:at + 2] = (-scale if at == 2 and kind == T.Q5_1 else scale).view(np.uint8)
    return blocks.reshape(rows, -1)


def fill(model, kinds, seed):
    """Random weights in place; returns the quantised rows as {their float32 bytes: (type, block bytes)}."""
    rng, rows = np.random.default_rng(seed), {}
    for name, p in sorted(model.named_parameters()):
        kind = next((k for part, k in kinds.items() if part in name), None)
        value = rng.standard_normal(tuple(p.shape)).astype(np.float32)
        if p.ndim == 1 or name.endswith("bias"):
            value = 0.1 * value + (1 if "norm" in name and "Gemma" not in type(model).__name__ else 0)
        elif kind is None:
            value = (0.12 * torch.from_numpy(value)).bfloat16().float().numpy()
        else:
            turned = "GptOss" in type(model).__name__  # experts are [inputs, outputs] there
            shape = value.swapaxes(-1, -2).shape if turned else value.shape
            blocks = random_blocks(rng, kind, int(np.prod(shape[:-1])), shape[-1])
            flat = dequantize(blocks, kind).astype(np.float32)
            rows.update({row.tobytes(): (kind, block.tobytes()) for row, block in zip(flat, blocks)})
            value = flat.reshape(shape).swapaxes(-1, -2) if turned else flat.reshape(shape)
            if "linear_attn.out_proj" in name:  # whose columns the converter puts in the order that these blocks have
                keys, values = model.config.linear_num_key_heads, model.config.linear_num_value_heads
                value = value.reshape(len(value), values // keys, keys, -1).swapaxes(1, 2).reshape(value.shape)
        p.data = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))
    return rows


def reference(model, vocab):
    """golden.json and golden.safetensors as those of tests/goldens/hf."""
    rng = np.random.default_rng(7)
    short, long = list(range(1, 6)), [int(i) for i in rng.integers(3, vocab, 40)]

    def run(ids):
        return model(torch.tensor([ids])).logits[0].float()

    after = []
    while len(after) < 16:
        after.append(int(run(long + after)[-1].argmax()))
    whole = run(long + after)
    logits = {"short": run(short), "long": whole[:40].contiguous(), "long_cont": whole[40:].contiguous()}
    meta = {"reference": f"transformers {transformers.__version__}, float32", "class": type(model).__name__,
            "prompts": {"short": short, "long": long}, "continuation": {"long": after},
            "logits_std": float(whole.std()), "tolerance_abs_f32": 1e-3}
    return meta, logits


def dummy_vocabulary(self):
    n = {**self.hparams, **self.hparams.get("text_config", {})}["vocab_size"]
    self.gguf_writer.add_token_type_count(self.hparams.get("type_vocab_size", 1))
    self.gguf_writer.add_tokenizer_model("gpt2")
    self.gguf_writer.add_tokenizer_pre("smollm")
    self.gguf_writer.add_token_list(["a", "b", "ab"] + [f"t{i}" for i in range(3, n)])
    self.gguf_writer.add_token_types([1] * n)
    self.gguf_writer.add_token_merges(["a b"])


RENAMES = {".gate.gate_proj.": ".gate.", ".attn_sub_norm.": ".inner_attn_ln.", ".ffn_sub_norm.": ".ffn_layernorm."}


def as_published(path):
    """Experts one by one again, and others by their own names, where mlx-lm or transformers has them otherwise."""
    with safe_open(path, "pt") as f:
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    for name in list(tensors):
        if ".switch_mlp." in name:
            for i, expert in enumerate(tensors.pop(name)):
                tensors[name.replace(".switch_mlp.", f".experts.{i}.")] = expert.contiguous()
        for ours, theirs in RENAMES.items():
            if ours in name:
                tensors[name.replace(ours, theirs)] = tensors.pop(name)
    save_file(tensors, path)


def convert(source, target, kind):
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent) / target.parent.name  # the model's name in the file
        folder.mkdir()
        for name in ("config.json", "model.safetensors", "modules.json", "1_Pooling", "2_Dense", "3_Dense"):
            if (source / name).is_dir():
                shutil.copytree(source / name, folder / name)
            elif (source / name).exists():
                shutil.copy(source / name, folder)
        if target.parent.name in [*FROM_MLX, "bitnet"]:
            as_published(folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **MISSING.get(target.parent.name, {})}))
        params = ModelBase.load_hparams(folder, False)
        words = {str(i): i for i in range({**params, **params.get("text_config", {})}["vocab_size"])}  # Gemma's converter counts them
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": words}, "added_tokens": []}))
        model = conversion.get_model_class(get_model_architecture(params, ModelType.TEXT))
        for wrapped in (model, conversion.get_model_class("LlamaForCausalLM")):  # the latter is inside Mistral 3's
            wrapped.set_vocab = dummy_vocabulary
        model.no_mtp = True  # layers that predict further tokens: these have none
        if target.parent.name == "bitnet":
            model.weight_quant = lambda self, weight: weight
        if target.parent.name == "embeddinggemma":  # every third layer sees all there, not every sixth
            original = model.set_gguf_parameters
            model.set_gguf_parameters = lambda self: (original(self), self.gguf_writer.add_sliding_window_pattern(3))
        with torch.inference_mode():
            model(folder, kind, target, hparams=config if target.parent.name in PLAIN else None, eager=True,
                  sentence_transformers_dense_modules=(source / "2_Dense").exists()).write()


def rewrite(path, change, keys=None, renamed=None):
    """The file with tensors [(name, data, type)] that `change` makes of its own, with other values of some keys, perhaps of a renamed
    architecture."""
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(f"{path}.new", arch=renamed or arch)
    for field in reader.fields.values():
        value = (keys or {}).get(field.name, field.contents())
        if field.name.startswith("GGUF.") or field.name == "general.architecture" or value is None:
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name.replace(f"{arch}.", f"{renamed or arch}."), value, field.types[0], sub_type=inner)
    if renamed == "qwen3vlmoe":
        writer.add_num_deepstack_layers(2)
        writer.add_rope_dimension_sections([4, 2, 2, 0])
    for name, data, kind in change([(t.name, np.ascontiguousarray(t.data), t.tensor_type) for t in reader.tensors]):
        writer.add_tensor(name, np.ascontiguousarray(data), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pathlib.Path(f"{path}.new").replace(path)
    print(path.parent.name, sorted({t.tensor_type.name for t in gguf.GGUFReader(path).tensors}))


def put_blocks(path, rows):
    """The file with every tensor whose rows are all known blocks as those blocks."""
    def change(tensors):
        for name, data, kind in tensors:
            found = [rows.get(row.tobytes()) for row in data.reshape(-1, data.shape[-1])] if data.dtype == np.float32 else [None]
            if all(found):
                data, kind = np.frombuffer(b"".join(b for _, b in found), np.uint8).reshape(*data.shape[:-1], -1), found[0][0]
            yield name, data, kind

    rewrite(path, change)


def experts_one_by_one(tensors):
    """Mixtral's experts as files of early 2024 have them."""
    for name, data, kind in tensors:
        if "_exps." in name:
            yield from ((name.replace("_exps.", f".{i}."), data[i], kind) for i in range(len(data)))
        else:
            yield name, data, kind


def latent_in_one(tensors):
    """DeepSeek's two matrices of the latent vector as one, as files of 2024 have them. k_b is [heads, rank, dims], turned."""
    tensors = {name: (data, kind) for name, data, kind in tensors}
    for name, (data, kind) in tensors.items():
        if ".attn_v_b." in name:
            continue
        if ".attn_k_b." in name:
            as_values = lambda x: x.view(np.uint16) if kind == T.BF16 else x  # noqa: E731
            k, v = as_values(data).swapaxes(1, 2), as_values(tensors[name.replace("_k_b.", "_v_b.")][0])
            both = np.concatenate([k, v], axis=1)
            data, name = both.reshape(-1, both.shape[-1]).copy().view(data.dtype), name.replace("_k_b.", "_kv_b.")
        yield name, data, kind


def projections_by_heads(tensors):
    """Qwen3-Next's q, k, v and z as one tensor, key head by key head, as the checkpoint and files of 2025 have them."""
    tensors = {name: (data, kind) for name, data, kind in tensors}
    heads, wide, values = 2, 8, 3 * 16
    for name, (data, kind) in tensors.items():
        if ".attn_gate." in name:
            continue
        if ".attn_qkv." in name:
            q, k, v = np.split(data, [heads * wide, 2 * heads * wide])
            z = tensors[name.replace("_qkv.", "_gate.")][0]
            parts = [x.reshape(heads, n, -1) for x, n in ((q, wide), (k, wide), (v, values), (z, values))]
            data, name = np.concatenate(parts, axis=1).reshape(-1, data.shape[-1]), name.replace("attn_qkv.", "ssm_in.")
        yield name, data, kind


def queries_keys_values_in_one(tensors):
    """As files of Phi-2 and GLM 4 of 2024 have them."""
    tensors = {name: (data, kind) for name, data, kind in tensors}
    for name, (data, kind) in tensors.items():
        if ".attn_k." in name or ".attn_v." in name:
            continue
        if ".attn_q." in name:
            data = np.concatenate([tensors[name.replace("_q.", f"_{x}.")][0] for x in "qkv"])
            name = name.replace("attn_q.", "attn_qkv.")
        yield name, data, kind


# What older converters wrote, made of what the newer one writes: the checkpoint, the change, the keys that were other ones. And Qwen 3
# VL's mixture, which is that of Qwen 3 by another name: the converter does not read small checkpoints of it.
RENAMED = {"qwen3_vl_moe": "qwen3vlmoe"}
OLDER = {"qwen3_vl_moe": ("qwen3_moe-quantised", lambda tensors: tensors, {}),
         "mixtral-older": ("mixtral", experts_one_by_one, {}), "qwen3_next-older": ("qwen3_next", projections_by_heads, {}),
         "phi-older": ("phi", queries_keys_values_in_one, {}), "glm-older": ("glm", queries_keys_values_in_one, {}),
         "deepseek_v2-older": ("deepseek_v2", latent_in_one, {
             "deepseek2.attention.key_length": 24, "deepseek2.attention.value_length": 16, "deepseek2.attention.head_count_kv": 4,
             "deepseek2.attention.key_length_mla": None, "deepseek2.attention.value_length_mla": None,
             "deepseek2.expert_gating_func": None})}


def save(target, meta, logits):
    save_file(logits, target / "golden.safetensors")
    (target / "golden.json").write_text(json.dumps(meta, indent=1) + "\n")


def make(name):
    family, settings, kinds = MADE[name]
    target = HERE / name
    config = getattr(transformers, f"{family}Config")(**settings, tie_word_embeddings="Gemma" in family or family == "BitNet")
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")(config).float().eval()
    rows = fill(model, kinds, seed=len(name))
    target.mkdir(exist_ok=True)
    with torch.inference_mode():
        meta, logits = reference(model, settings["vocab_size"])
    save(target, {**meta, "tolerance_abs_f32": TOLERANCE.get(name, 1e-3)}, logits)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        convert(pathlib.Path(folder), target / "model.gguf", gguf.LlamaFileType.ALL_F32)
    put_blocks(target / "model.gguf", rows)


def make_older(name):
    origin, change, keys = OLDER[name]
    (HERE / name).mkdir(exist_ok=True)
    shutil.copy(HERE / origin / "model.gguf", HERE / name)
    rewrite(HERE / name / "model.gguf", change, keys, RENAMED.get(name))
    for file in ("golden.json", "golden.safetensors"):
        shutil.copy((HERE if origin in MADE else HF) / origin / file, HERE / name)


for wanted in sys.argv[2:] or CONVERTED + FROM_MLX + ENCODERS + list(MADE) + list(OLDER):
    if wanted in MADE or wanted in OLDER:
        (make if wanted in MADE else make_older)(wanted)
        continue
    (HERE / wanted).mkdir(exist_ok=True)
    source = (EMBED if wanted in ENCODERS else MLX if wanted in FROM_MLX else HF) / wanted
    exact = "bfloat16" in json.loads((source / "golden.json").read_text())["storage_dtype"] and wanted not in MULTIPLIED
    convert(source, HERE / wanted / "model.gguf", gguf.LlamaFileType.MOSTLY_BF16 if exact else gguf.LlamaFileType.ALL_F32)
