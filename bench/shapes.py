"""The shapes of the models with random weights that the speed targets name: which tensors they have, what they are called here
and in GGUF, and what their config.json and GGUF header say. bench/make_models.py writes them.

The time of a step does not depend on the values of weights, and no such model can be downloaded here.
"""
import dataclasses

import numpy as np

VOCAB, CONTEXT, HIDDEN, THETA, EPS = 49152, 8192, 2048, 100000.0, 1e-5


@dataclasses.dataclass
class Tensor:
    """kind: "matrix" (4 bits), "embedding" (8 bits), "float" (left alone), or a function of its shape that gives its
    values. heads: those whose rows GGUF stores permuted. turn: what GGUF stores instead of the values."""
    here: str
    there: str
    shape: tuple
    kind: object = "matrix"
    heads: int = 0
    turn: object = None


def ones(shape):
    return np.ones(shape, np.float32)


class Llama:
    """1B, dense."""
    name, architecture = "1b", "llama"
    layers, ffn, heads, kv_heads, head_dim = 16, 8192, 32, 8, 64

    def attention(self, i, permuted):
        here, there = f"model.layers.{i}.self_attn.", f"blk.{i}.attn_"
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield Tensor(here + "q_proj.weight", there + "q.weight", (q, HIDDEN), heads=self.heads if permuted else 0)
        yield Tensor(here + "k_proj.weight", there + "k.weight", (kv, HIDDEN), heads=self.kv_heads if permuted else 0)
        yield Tensor(here + "v_proj.weight", there + "v.weight", (kv, HIDDEN))
        yield Tensor(here + "o_proj.weight", there + "output.weight", (HIDDEN, q))

    def feed_forward(self, i):
        here, there = f"model.layers.{i}.mlp.", f"blk.{i}.ffn_"
        yield Tensor(here + "gate_proj.weight", there + "gate.weight", (self.ffn, HIDDEN))
        yield Tensor(here + "up_proj.weight", there + "up.weight", (self.ffn, HIDDEN))
        yield Tensor(here + "down_proj.weight", there + "down.weight", (HIDDEN, self.ffn))

    def layer(self, i):
        here, there = f"model.layers.{i}.", f"blk.{i}."
        yield Tensor(here + "input_layernorm.weight", there + "attn_norm.weight", (HIDDEN,), ones)
        yield from self.attention(i, permuted=True)
        yield Tensor(here + "post_attention_layernorm.weight", there + "ffn_norm.weight", (HIDDEN,), ones)
        yield from self.feed_forward(i)

    def tensors(self):
        yield Tensor("model.embed_tokens.weight", "token_embd.weight", (VOCAB, HIDDEN), "embedding")
        for i in range(self.layers):
            yield from self.layer(i)
        yield Tensor("model.norm.weight", "output_norm.weight", (HIDDEN,), ones)

    def config(self):
        return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
                "num_hidden_layers": self.layers, "intermediate_size": self.ffn, "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim, "rms_norm_eps": EPS,
                "rope_theta": THETA, "max_position_embeddings": CONTEXT, "hidden_act": "silu"}

    def write_header(self, out):
        out.add_context_length(CONTEXT)
        out.add_embedding_length(HIDDEN)
        out.add_block_count(self.layers)
        out.add_feed_forward_length(self.ffn)
        out.add_head_count(self.heads)
        out.add_head_count_kv(self.kv_heads)
        out.add_rope_dimension_count(self.head_dim)
        out.add_rope_freq_base(THETA)
        out.add_layer_norm_rms_eps(EPS)


class Mixture(Llama):
    """16 layers of 32 experts, 4 of them chosen: 2.6B, of which a token needs 0.5B."""
    name, architecture = "moe", "qwen3moe"
    ffn, heads, kv_heads, head_dim = 768, 16, 4, 128
    experts, chosen = 32, 4

    def feed_forward(self, i):
        here, there = f"model.layers.{i}.mlp.", f"blk.{i}.ffn_"
        experts = here + "switch_mlp."
        yield Tensor(here + "gate.weight", there + "gate_inp.weight", (self.experts, HIDDEN), "float")
        yield Tensor(experts + "gate_proj.weight", there + "gate_exps.weight", (self.experts, self.ffn, HIDDEN))
        yield Tensor(experts + "up_proj.weight", there + "up_exps.weight", (self.experts, self.ffn, HIDDEN))
        yield Tensor(experts + "down_proj.weight", there + "down_exps.weight", (self.experts, HIDDEN, self.ffn))

    def attention(self, i, permuted):
        yield from super().attention(i, permuted=False)
        for part in "qk":
            yield Tensor(f"model.layers.{i}.self_attn.{part}_norm.weight", f"blk.{i}.attn_{part}_norm.weight",
                         (self.head_dim,), ones)

    def config(self):
        return super().config() | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
                                   "moe_intermediate_size": self.ffn, "num_experts": self.experts,
                                   "num_experts_per_tok": self.chosen, "norm_topk_prob": True, "decoder_sparse_step": 1,
                                   "mlp_only_layers": []}

    def write_header(self, out):
        super().write_header(out)
        out.add_expert_count(self.experts)
        out.add_expert_used_count(self.chosen)
        out.add_expert_feed_forward_length(self.ffn)
        out.add_key_length(self.head_dim)
        out.add_value_length(self.head_dim)


class Mamba2:
    """1.3B of recurrent layers."""
    name, architecture = "mamba2", "mamba2"
    layers, inner, head_dim, state, conv = 48, 4096, 64, 128, 4
    heads = inner // head_dim

    def layer(self, i):
        here, there = f"backbone.layers.{i}.", f"blk.{i}."
        channels, heads = self.inner + 2 * self.state, self.heads

        def column(values):
            return values.reshape(-1, 1)

        yield Tensor(here + "norm.weight", there + "attn_norm.weight", (HIDDEN,), ones)
        yield Tensor(here + "mixer.in_proj.weight", there + "ssm_in.weight", (self.inner + channels + heads, HIDDEN))
        yield Tensor(here + "mixer.conv1d.weight", there + "ssm_conv1d.weight", (channels, self.conv, 1),
                     lambda shape: np.full(shape, 0.25, np.float32), turn=lambda w: w[:, :, 0])
        yield Tensor(here + "mixer.conv1d.bias", there + "ssm_conv1d.bias", (channels,), ones)
        yield Tensor(here + "mixer.dt_bias", there + "ssm_dt.bias", (heads,),
                     lambda shape: np.linspace(-6, -2, shape[0], dtype=np.float32))
        yield Tensor(here + "mixer.A_log", there + "ssm_a", (heads,),
                     lambda shape: np.linspace(0, 2.75, shape[0], dtype=np.float32), turn=lambda a: column(-np.exp(a)))
        yield Tensor(here + "mixer.D", there + "ssm_d", (heads,), ones, turn=column)
        yield Tensor(here + "mixer.norm.weight", there + "ssm_norm.weight", (self.inner,), ones,
                     turn=lambda w: w.reshape(1, -1))
        yield Tensor(here + "mixer.out_proj.weight", there + "ssm_out.weight", (HIDDEN, self.inner))

    def tensors(self):
        yield Tensor("backbone.embeddings.weight", "token_embd.weight", (VOCAB, HIDDEN), "embedding")
        for i in range(self.layers):
            yield from self.layer(i)
        yield Tensor("backbone.norm_f.weight", "output_norm.weight", (HIDDEN,), ones)

    def config(self):
        return {"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": HIDDEN,
                "num_hidden_layers": self.layers, "num_heads": self.heads, "head_dim": self.head_dim, "n_groups": 1,
                "state_size": self.state, "conv_kernel": self.conv, "expand": 2, "intermediate_size": self.inner,
                "layer_norm_epsilon": EPS, "hidden_act": "silu", "use_bias": False, "use_conv_bias": True,
                "rms_norm": True, "time_step_limit": [0.0, 1e9], "max_position_embeddings": CONTEXT}

    def write_header(self, out):
        out.add_context_length(CONTEXT)
        out.add_embedding_length(HIDDEN)
        out.add_block_count(self.layers)
        out.add_feed_forward_length(0)
        out.add_head_count(0)
        out.add_layer_norm_rms_eps(EPS)
        out.add_ssm_conv_kernel(self.conv)
        out.add_ssm_inner_size(self.inner)
        out.add_ssm_state_size(self.state)
        out.add_ssm_time_step_rank(self.heads)
        out.add_ssm_group_count(1)


MODELS = {shape.name: shape() for shape in (Llama, Mixture, Mamba2)}
