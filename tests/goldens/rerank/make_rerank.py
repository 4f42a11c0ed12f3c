#!/usr/bin/env python3
"""Makes the folders beside this file: small random cross-encoders with tokenizers of their own, the ids of pairs of texts as
Python's `tokenizers` gives them, the logits of transformers and the scores of sentence-transformers, all in float32.

    tests/goldens/rerank/make_rerank.py [NAME...]

Needs torch, transformers 5.24.0, sentence-transformers 6.2.0 and tokenizers; tests/goldens/rerank.c and the end-to-end tests read what
is written here and need none of them. A pair of golden.json has the texts, the ids and types cut to the model's length (`cut`: how many
were left out), a logit per label, and the score of CrossEncoder.predict where there is one label. Pairs for which `by_ids` is set are
given as ids alone, from the model's whole vocabulary.
"""
import json
import pathlib
import sys
import tempfile
import zlib

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
MAX = 24  # tokens of a pair, so that some of them are cut
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
TEXTS = [
    "what do cats eat", "Cats eat fish, and sometimes a mouse.", "The sky is blue today.", "Fish swim in the sea",
    "how many people live in Berlin?", "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
    "New York is famous for the Metropolitan Museum of Art.", "Où se trouve la bibliothèque ?", "naïve café — coöperate",
    "a", "", "eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat eat",
    "A query that is longer than all that a pair may have, which is four and twenty tokens and not one more than that, with the others",
]
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 0), (4, 5), (4, 6), (7, 8), (9, 9), (9, 11), (11, 9), (0, 10), (12, 11), (12, 1), (0, 11), (3, 12),
         (11, 11), (12, 12)]
SHARED = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
BERT = dict(SHARED, model_type="bert", hidden_act="gelu", type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0, architectures=["BertForSequenceClassification"],
            position_embedding_type="absolute", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, gradient_checkpointing=False)
XLMR = dict(BERT, model_type="xlm-roberta", type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2, max_position_embeddings=66,
            classifier_dropout=None, output_past=True, architectures=["XLMRobertaForSequenceClassification"])
MODERN = dict(SHARED, model_type="modernbert", num_hidden_layers=3, hidden_activation="gelu", norm_eps=1e-5, norm_bias=False, global_rope_theta=160000.0,
              local_rope_theta=10000.0, attention_bias=False, global_attn_every_n_layers=3, local_attention=8, mlp_bias=False, classifier_bias=False,
              classifier_activation="gelu", classifier_dropout=0.0, classifier_pooling="mean", pad_token_id=0, bos_token_id=2, eos_token_id=3,
              cls_token_id=2, sep_token_id=3, architectures=["ModernBertForSequenceClassification"])
QWEN3 = dict(SHARED, model_type="qwen3", num_key_value_heads=2, head_dim=16, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1000000.0, attention_bias=False,
             tie_word_embeddings=True, use_sliding_window=False, sliding_window=None, pad_token_id=0, architectures=["Qwen3ForSequenceClassification"])
LLAMA = dict(SHARED, model_type="llama", num_key_value_heads=2, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False, mlp_bias=False,
             tie_word_embeddings=False, pad_token_id=0, bos_token_id=2, eos_token_id=3, architectures=["LlamaForSequenceClassification"])
ONE = dict(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})
THREE = dict(id2label={"0": "contradiction", "1": "entailment", "2": "neutral"}, label2id={"contradiction": 0, "entailment": 1, "neutral": 2})
# name: config, tokenizer, activation file (sentence-transformers' own), what is stored
JOBS = {
    "bert": (dict(BERT, **ONE, sentence_transformers={"activation_fn": IDENTITY, "version": "4.1.0"}), "wordpiece", None, torch.float32),
    "bert-labels": (dict(BERT, **THREE), "wordpiece", None, torch.bfloat16),
    "xlm_roberta": (dict(XLMR, **ONE), "unigram", None, torch.bfloat16),
    "roberta": (dict(XLMR, **ONE, model_type="roberta", architectures=["RobertaForSequenceClassification"], sbert_ce_default_activation_function=IDENTITY),
                "bytes", None, torch.float32),
    "modernbert": (dict(MODERN, **ONE), "modern", SIGMOID, torch.bfloat16),
    "modernbert-cls": (dict(MODERN, **ONE, classifier_pooling="cls", classifier_bias=True, norm_bias=True), "modern", None, torch.bfloat16),
    "qwen3": (dict(QWEN3, **ONE), "decoder", None, torch.bfloat16),
    "llama": (dict(LLAMA, **ONE), "decoder", None, torch.bfloat16),
}


def specials(*names):
    return [tokenizers.AddedToken(name, special=True, normalized=False) for name in names]


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def wordpiece():
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    train(t, trainers.WordPieceTrainer(vocab_size=140, special_tokens=specials(*names), show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t, dict(tokenizer_class="BertTokenizer", do_lower_case=True, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
                   mask_token="[MASK]")


def unigram():
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    train(t, trainers.UnigramTrainer(vocab_size=150, special_tokens=specials(*names), unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t, dict(tokenizer_class="XLMRobertaTokenizer", bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>",
                   unk_token="<unk>", mask_token="<mask>")


def byte_level(names, size):
    t = Tokenizer(models.BPE(unk_token=None))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return train(t, trainers.BpeTrainer(vocab_size=size, special_tokens=specials(*names), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


def byte_pairs():
    t = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], 320)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return t, dict(tokenizer_class="RobertaTokenizer", bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>",
                   unk_token="<unk>", mask_token="<mask>")


def modern():
    t = byte_level(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], 320)
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t, dict(tokenizer_class="PreTrainedTokenizerFast", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]",
                   model_input_names=["input_ids", "attention_mask"])


def decoder():
    t = byte_level(["<pad>", "<unk>", "<s>", "</s>"], 320)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t, dict(tokenizer_class="PreTrainedTokenizerFast", pad_token="<pad>", eos_token="</s>", model_input_names=["input_ids", "attention_mask"])


TOKENIZERS = {"wordpiece": wordpiece, "unigram": unigram, "bytes": byte_pairs, "modern": modern, "decoder": decoder}


def value(name, p, salt):
    """Norms near 1, small biases, matrices that neither fade nor blow up; the last one wide, so that pairs differ."""
    rng = np.random.default_rng([zlib.crc32(salt.encode()), zlib.crc32(name.encode())])
    x = rng.standard_normal(p.shape).astype(np.float32)
    if name.endswith("bias"):
        return 0.15 * x
    if p.ndim == 1:
        return 1 + 0.2 * x
    if "embed" in name:
        return 0.5 * x
    last = name in ("classifier.weight", "classifier.out_proj.weight", "score.weight")
    return x * (1.6 if last else 1.3) / np.sqrt(p.shape[-1])


def write(path, data):
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_modules(folder, activation):
    """As CrossEncoder.save_pretrained does."""
    write(folder / "modules.json", [dict(idx=0, name="0", path="", type="sentence_transformers.base.modules.transformer.Transformer")])
    write(folder / "config_sentence_transformers.json", dict(model_type="CrossEncoder", prompts={}, default_prompt_name=None, activation_fn=activation))
    write(folder / "sentence_bert_config.json", dict(transformer_task="sequence-classification", module_output_name="scores",
          modality_config=dict(text=dict(method="forward", method_output_name="logits"))))


def write_model(folder, config, salt, dtype):
    loaded = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(1)
    model = transformers.AutoModelForSequenceClassification.from_config(loaded, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(np.asarray(value(name, p.numpy(), salt), np.float32)))
    with tempfile.TemporaryDirectory() as saved:
        model.to(dtype).save_pretrained(saved)
        tensors = load_file(f"{saved}/model.safetensors")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def encode(t, pair, types):
    t.no_truncation()
    whole = len(t.encode(*pair).ids)
    t.enable_truncation(max_length=MAX, strategy="longest_first")
    e = t.encode(*pair)
    return dict(ids=e.ids, types=e.type_ids if types else [0] * len(e.ids), cut=whole - len(e.ids))


def logits_of(model, ids, types):
    more = {"token_type_ids": torch.tensor([types])} if model.config.model_type == "bert" else {}
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **more).logits[0].tolist()


def make(name):
    config, kind, activation, dtype = JOBS[name]
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    t, said = TOKENIZERS[kind]()
    file = folder / "tokenizer.json"
    if file.exists():  # trainers break ties in no fixed order, so a tokenizer that is there stays
        t = Tokenizer.from_file(str(file))
    t.no_truncation()
    t.save(str(file), pretty=False)
    write(folder / "tokenizer_config.json", dict(said, model_max_length=MAX))
    write(folder / "config.json", dict(config, vocab_size=t.get_vocab_size()))
    if activation:
        write_modules(folder, activation)
    write_model(folder, config, name, dtype)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    ce = sentence_transformers.CrossEncoder(str(folder), device="cpu", model_kwargs=dict(attn_implementation="eager", dtype=torch.float32))
    texts = [(TEXTS[a], TEXTS[b]) for a, b in PAIRS]
    pairs = []
    for pair in texts:
        e = encode(t, pair, config["model_type"] == "bert")
        features = ce.preprocess([list(pair)])
        assert features["input_ids"][0].tolist() == e["ids"], (name, pair)
        if config["model_type"] == "bert":
            assert features["token_type_ids"][0].tolist() == e["types"], (name, pair)
        pairs.append(dict(query=pair[0], document=pair[1], **e, logits=logits_of(model, e["ids"], e["types"])))
    scores = ce.predict(texts)
    for p, score in zip(pairs, scores):
        if scores.ndim == 1:
            p["score"] = float(score)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    low = 5 if config["model_type"] not in ("qwen3", "llama") else 4  # no padding, which shifts the positions of RoBERTa
    for n in (1, 2, 3, MAX, MAX - 1):
        ids = [int(i) for i in rng.integers(low, t.get_vocab_size(), n)]
        types = [int(i >= n // 2) if config["model_type"] == "bert" else 0 for i in range(n)]
        pairs.append(dict(by_ids=True, ids=ids, types=types, logits=logits_of(model, ids, types)))
    versions = dict(transformers=transformers.__version__, torch=torch.__version__, tokenizers=tokenizers.__version__)
    versions["sentence-transformers"] = sentence_transformers.__version__
    head = dict(name=name, family=config["model_type"], reference="transformers", versions=versions, storage_dtype=str(dtype).removeprefix("torch."),
                max_tokens=MAX, labels=len(config["id2label"]), tolerance_abs_f32=1e-5)
    lines = ",\n  ".join(json.dumps(p, ensure_ascii=False) for p in pairs)
    (folder / "golden.json").write_text(json.dumps(head, indent=1)[:-2] + ',\n "pairs": [\n  ' + lines + "\n ]\n}\n", encoding="utf-8")
    print(name, "logits", [round(p["logits"][0], 3) for p in pairs], "activation", ce.activation_fn)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or JOBS:
        make(chosen)
