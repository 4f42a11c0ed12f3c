"""/tokenize, /detokenize and /apply-template: the same as the commands of those names."""
import json

import pytest

from served import Served
from tape import END, write_tape

TURNS = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }};{% endfor %}{% if tools %}{{ tools[0].function.name }}{% endif %}"
         "{{ mood }}{% if add_generation_prompt %}<|assistant|>{% endif %}")
MESSAGES = [{"role": "user", "content": "é"}]


@pytest.fixture(scope="module")
def served(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tape") / "m"
    write_tape(folder, ["ja"], template=TURNS)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
                                   {"SpecialToken": {"id": END, "type_id": 0}}], "pair": [],
                                   "special_tokens": {END: {"id": END, "ids": [258], "tokens": [END]}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    s = Served(program, folder)
    yield s
    assert s.stop() == 0


def test_texts_become_ids(served):
    assert served.post("/tokenize", {"content": "hé"}) == (200, {"count": 3, "max_model_len": 256, "tokens": [104, 195, 169]})
    assert served.post("/tokenize", {"content": "h", "add_special": True})[1]["tokens"] == [104, 258]
    assert served.post("/tokenize", {"prompt": "h"})[1]["tokens"] == [104, 258]
    assert served.post("/tokenize", {"prompt": "h", "add_special_tokens": False})[1]["tokens"] == [104]
    assert served.post("/tokenize", {"content": ""})[1] == {"count": 0, "max_model_len": 256, "tokens": []}
    pieces = served.post("/tokenize", {"content": "hé ja", "with_pieces": True})[1]["tokens"]
    assert pieces == [{"id": 104, "piece": "h"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]},
                      {"id": 32, "piece": " "}, {"id": 257, "piece": "ja"}]
    assert served.post("/tokenize", {"content": " ja", "return_token_strs": True})[1]["token_strs"] == ["Ġ", "ja"]


def test_messages_become_ids_as_chat_reads_them(served):
    body = {"messages": MESSAGES}
    ids = served.post("/tokenize", body)[1]["tokens"]
    assert ids == [*b"<|user|>\xc3\xa9;", 256]
    assert served.post("/v1/chat/completions", body)[1]["usage"]["prompt_tokens"] == len(ids)


def test_ids_become_a_text(served):
    for ids, text in (([104, 195, 169], "hé"), ([], ""), ([257, 258], "ja" + END), ([195], "\ufffd")):
        assert served.post("/detokenize", {"tokens": ids}) == (200, {"content": text, "prompt": text})


def test_messages_become_a_prompt(served):
    assert served.post("/apply-template", {"messages": MESSAGES}) == (200, {"prompt": "<|user|>é;<|assistant|>"})
    more = {"messages": MESSAGES, "tools": [{"type": "function", "function": {"name": "weer"}}],
            "chat_template_kwargs": {"mood": "blij"}, "add_generation_prompt": False}
    assert served.post("/apply-template", more)[1]["prompt"] == "<|user|>é;weerblij"


def test_what_is_wrong_is_named(served):
    for path, body, param in (("/tokenize", {}, "content"), ("/tokenize", {"content": 5}, "content"),
                              ("/tokenize", {"content": ["a"]}, "content"), ("/tokenize", {"prompt": [1]}, "prompt"),
                              ("/tokenize", {"content": "a", "with_pieces": 1}, "with_pieces"),
                              ("/tokenize", {"messages": []}, "messages"), ("/detokenize", {}, "tokens"),
                              ("/detokenize", {"tokens": "1"}, "tokens"), ("/detokenize", {"tokens": [-1]}, "tokens"),
                              ("/detokenize", {"tokens": [99999999999]}, "tokens"), ("/detokenize", {"tokens": [1.5]}, "tokens"),
                              ("/apply-template", {}, "messages"), ("/apply-template", {"messages": {}}, "messages"),
                              ("/apply-template", {"messages": [{"role": "robot"}]}, "messages[0].role")):
        status, answer = served.post(path, body)
        assert status == 400 and answer["error"]["param"] == param, (path, body, answer)
