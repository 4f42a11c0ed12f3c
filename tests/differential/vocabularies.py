"""tokenizer.json files of nine real models, from the vocabulary-only GGUF files in llama.cpp's source: what GGUF leaves out (the
pre-tokenizer, the merges of SentencePiece) is put back as the models' own files have it."""
import base64
import json
import struct

# how many bytes a GGUF value of that kind takes, and struct's letter
SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
BLANK = "\u2581"


class Metadata:
    """The keys and values of a GGUF file."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 0
        magic, version, _, count = self.scalar("<I"), self.scalar("<I"), self.scalar("<Q"), self.scalar("<Q")
        assert magic == 0x46554747 and version in (2, 3), path
        self.values = {}
        for _ in range(count):
            key = self.string()
            self.values[key.removeprefix("tokenizer.ggml.")] = self.value(self.scalar("<I"))

    def scalar(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        n = self.scalar("<Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(SCALARS[kind])
        item, n = self.scalar("<I"), self.scalar("<Q")
        return [self.value(item) for _ in range(n)]

    def __getitem__(self, key):
        return self.values[key]


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def digits(single):
    return {"type": "Digits", "individual_digits": single}


PRETOKENIZERS = {
    "gpt-2": [byte_level(True)],
    "qwen2": [split(QWEN2), byte_level(False)],
    "llama-bpe": [split(LLAMA3), byte_level(False)],
    "command-r": [digits(True), byte_level(True)],
    "falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), digits(False), split("[0-9][0-9][0-9]")],
}
SPM_DECODERS = [{"type": "Replace", "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]


def added(m):
    return [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": kind != USER_DEFINED}
            for i, (text, kind) in enumerate(zip(m["tokens"], m["token_type"])) if kind in (UNKNOWN, CONTROL, USER_DEFINED)]


def around(m, before=(), after=()):
    """A TemplateProcessing with these tokens around the text."""
    ids = {m["tokens"][i]: i for i in (*before, *after)}
    single = [{"SpecialToken": {"id": m["tokens"][i], "type_id": 0}} for i in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + \
        [{"SpecialToken": {"id": m["tokens"][i], "type_id": 0}} for i in after]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in ids.items()}}


def document(m, model, **parts):
    empty = dict(truncation=None, padding=None, added_tokens=added(m), normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None)
    return {"version": "1.0", **empty, **parts, "model": model}


def bpe(vocab, merges, **options):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, **options, "vocab": vocab, "merges": merges}


def sequence(kind, plural, parts):
    return parts[0] if len(parts) == 1 else {"type": kind, plural: parts}


def byte_level_bpe(m, name):
    vocab = {t: i for i, (t, kind) in enumerate(zip(m["tokens"], m["token_type"])) if kind not in (UNKNOWN, CONTROL, USER_DEFINED)}
    for token in added(m) if name in ("gpt-2", "falcon") else []:
        vocab[token["content"]] = token["id"]
    return document(m, bpe(vocab, [x.split(" ") for x in m["merges"]], ignore_merges=name == "llama-bpe"),
                    normalizer={"type": "NFC"} if name in ("qwen2", "command-r") else None,
                    pre_tokenizer=sequence("Sequence", "pretokenizers", PRETOKENIZERS[name]), decoder=byte_level(True),
                    post_processor=around(m, [m["bos_token_id"]]) if name in ("llama-bpe", "command-r") else byte_level(True))


def spm_merges(m, vocab):
    """Every way to cut a token in two, best score first, as transformers makes them of a SentencePiece model."""
    merges = []
    for text, i in vocab.items():
        cuts = [(text[:k], text[k:]) for k in range(1, len(text))] if m["token_type"][i] == 1 else []
        known = sorted((c for c in cuts if c[0] in vocab and c[1] in vocab), key=lambda c: (vocab[c[0]], vocab[c[1]]))
        merges += [(m["scores"][i], c) for c in known]
    return [list(c) for _, c in sorted(merges, key=lambda x: -x[0])]


def llama_spm(m, _):
    vocab = {t: i for i, t in enumerate(m["tokens"])}
    normalizers = [{"type": "Prepend", "prepend": BLANK}, {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}]
    return document(m, bpe(vocab, spm_merges(m, vocab), unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                    normalizer={"type": "Sequence", "normalizers": normalizers}, post_processor=around(m, [m["bos_token_id"]]),
                    decoder={"type": "Sequence", "decoders": SPM_DECODERS + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]})


def gemma(m, _):
    vocab = {t: i for i, t in enumerate(m["tokens"])}
    return document(m, bpe(vocab, [x.split(" ") for x in m["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                    normalizer={"type": "Replace", "pattern": {"String": " "}, "content": BLANK},
                    pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                    post_processor=around(m, [m["bos_token_id"]]), decoder={"type": "Sequence", "decoders": SPM_DECODERS})


def bert(m, _):
    def plain(text, kind):
        if kind != 1 or text.startswith("[") and text.endswith("]") and len(text) > 2:
            return text
        return text[1:] if text.startswith(BLANK) else "##" + text

    vocab = {plain(*x): i for i, x in enumerate(zip(m["tokens"], m["token_type"]))}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}
    return document(m, model, normalizer=normalizer, pre_tokenizer={"type": "BertPreTokenizer"},
                    post_processor=around(m, [m["cls_token_id"]], [m["seperator_token_id"]]),
                    decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})


def xlm_roberta(m, _):
    charsmap = base64.b64encode(bytes(m["precompiled_charsmap"])).decode()
    normalizers = [{"type": "Precompiled", "precompiled_charsmap": charsmap}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    metaspace = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": True}
    model = {"type": "Unigram", "unk_id": m["unknown_token_id"], "vocab": [list(x) for x in zip(m["tokens"], m["scores"])], "byte_fallback": False}
    return document(m, model, normalizer={"type": "Sequence", "normalizers": normalizers}, decoder=metaspace,
                    pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
                    post_processor=around(m, [m["bos_token_id"]], [m["eos_token_id"]]))


# name: (the GGUF file's name, what builds it)
VOCABULARIES = {
    **{name: (name, byte_level_bpe) for name in PRETOKENIZERS},
    "gemma-4": ("gemma-4", gemma), "llama-spm": ("llama-spm", llama_spm), "bert-bge": ("bert-bge", bert),
    "xlm-roberta": ("nomic-bert-moe", xlm_roberta),
}


def write(name, folder, path):
    """The tokenizer.json of `name`, indented as Python `tokenizers` saves it."""
    source, build = VOCABULARIES[name]
    text = json.dumps(build(Metadata(folder / f"ggml-vocab-{source}.gguf"), name), indent=2, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
