"""TAPE checkpoints: real one-layer Llamas whose output is fixed, so that tests know every answer.

The embedding is the identity, o_proj and down_proj are zero, and row j of the head has a single 1 in column i where token j
follows token i on the tape: after the final norm the logit of the follower is sqrt(vocabulary) and all others are 0. Greedy
decoding plays the tape from the last token of the prompt on. A token stands on the tape once at most.

The tokenizer is byte-level: id n is byte n; the pieces of the wished text are added tokens from 256 on. Only Python's
standard library is used.
"""
import json
import pathlib
import struct

ASSISTANT, END = "<|assistant|>", "<|end|>"
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def byte_alphabet():
    """GPT-2's printable stand-in for each byte."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    alphabet, n = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in alphabet:
            alphabet[b] = chr(256 + n)
            n += 1
    return [alphabet[b] for b in range(256)]


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            out.write(data)


def matrix(rows, cols, ones=()):
    data = bytearray(4 * rows * cols)
    for row, col in ones:
        struct.pack_into("<f", data, 4 * (row * cols + col), 1.0)
    return "F32", [rows, cols], bytes(data)


def ones(n):
    return "F32", [n], struct.pack("<f", 1.0) * n


def byte_tokenizer(vocab, added, merges=()):
    """A byte-level tokenizer.json."""
    level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "post_processor": None, "pre_tokenizer": {**level, "add_prefix_space": False},
            "decoder": {**level, "add_prefix_space": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": [*merges]}}


def dress(golden, folder):
    """A golden's checkpoint of 128 tokens as a model to chat with: token n is the ASCII character n, token 2 the end.
    Its template writes the contents of the messages and nothing else."""
    folder.mkdir(parents=True)
    for path in golden.iterdir():
        if path.name.startswith("model") or path.name == "config.json":
            (folder / path.name).symlink_to(path)
    vocab = {c: i for i, c in enumerate(byte_alphabet()[:128]) if i != 2}
    added = [{"id": 2, "content": END, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer(vocab, added)))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"eos_token": END, "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}))
    return folder


def write_tape(folder, pieces, *, special=(), loop=False, context=256, template=TEMPLATE, generation=None, config=None,
               merges=(), also=()):
    """A checkpoint that answers every chat with the pieces and then the end token. Returns the id of each token by text.

    `special` pieces are marked special; every other piece is an ordinary added token, and a number is the id of a byte or of
    a merge: those ("a b") are tokens from 256 on. With `loop` the last piece is followed by the first, without end. `also`
    are further tapes, each played from its own first piece on, which the template must write.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tapes = [[ASSISTANT, *pieces, END], *([*tape, END] for tape in also)]
    every = [END, *(piece for tape in tapes for piece in tape[:-1])]
    assert len(set(every)) == len(every) and not set(every) & set(byte_alphabet())  # such a piece would be the byte's token
    ids = {text: 256 + len(merges) + i
           for i, text in enumerate(dict.fromkeys(piece for tape in tapes for piece in tape if isinstance(piece, str)))}
    vocab = -(-(256 + len(merges) + len(ids)) // 64) * 64
    played = [[ids.get(piece, piece) for piece in tape] for tape in tapes]
    follows = [pair for tape in played for pair in zip(tape[1:], tape)]
    if loop:
        follows[len(pieces)] = (played[0][1], played[0][-2])
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": matrix(vocab, vocab, ((i, i) for i in range(vocab))),
               "lm_head.weight": matrix(vocab, vocab, follows), "model.norm.weight": ones(vocab),
               layer + "input_layernorm.weight": ones(vocab), layer + "post_attention_layernorm.weight": ones(vocab),
               layer + "mlp.gate_proj.weight": matrix(64, vocab), layer + "mlp.up_proj.weight": matrix(64, vocab),
               layer + "mlp.down_proj.weight": matrix(vocab, 64)}
    for name in "qkvo":
        tensors[f"{layer}self_attn.{name}_proj.weight"] = matrix(vocab, vocab)
    write_safetensors(folder / "model.safetensors", tensors)


    def write(name, value):
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")

    write("config.json", {"model_type": "llama", "hidden_size": vocab, "vocab_size": vocab, "num_hidden_layers": 1,
                          "num_attention_heads": vocab // 64, "num_key_value_heads": vocab // 64,
                          "intermediate_size": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
                          "max_position_embeddings": context, "tie_word_embeddings": False,
                          "eos_token_id": ids[END], **(config or {})})
    if generation is not None:
        write("generation_config.json", generation)
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": text in (ASSISTANT, END, *special)} for text, i in ids.items()]
    tokens = [*byte_alphabet(), *(merge.replace(" ", "") for merge in merges)]
    write("tokenizer.json", byte_tokenizer({c: i for i, c in enumerate(tokens)}, added, merges))
    tokenizer_config = {"eos_token": END}
    if template:
        tokenizer_config["chat_template"] = template
    write("tokenizer_config.json", tokenizer_config)
    return ids
