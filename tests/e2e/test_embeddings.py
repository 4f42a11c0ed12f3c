"""/v1/embeddings and /v1/rerank. A TAPE checkpoint gives the last row of a text as its token's unit vector, and with mean
pooling the text's vector is how often each byte is in it, so every value is known by hand."""
import base64
import http.client
import json
import math
import pathlib
import struct

import pytest

from served import Served
from tape import write_tape

PATH = "/v1/embeddings"
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "embed" / "bert"


def write_json(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def write_embedder(folder, *, config=None):
    """Mean pooling, brought to length 1, texts of at most 16 tokens, prompts, and sizes it may be cut to."""
    write_tape(folder, ["nee"], config={"matryoshka_dimensions": [100, 64], **(config or {})})
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))])
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 320, "pooling_mode_mean_tokens": True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 16, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", {"prompts": {"query": "q:", "passage": "p:"}})


@pytest.fixture(scope="module")
def served(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_tape(folder / "last", ["ja"])
    write_embedder(folder / "mean")
    s = Served(program, folder / "last", folder / "mean", GOLDEN)
    yield s
    assert s.stop() == 0


def vectors(answer):
    assert [item["index"] for item in answer["data"]] == list(range(len(answer["data"])))
    return [item["embedding"] for item in answer["data"]]


def test_the_last_row_is_the_vector(served):
    status, answer = served.post(PATH, {"model": "last", "input": "hello"})
    assert status == 200 and answer["object"] == "list" and answer["model"] == "last"
    assert answer["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    (vector,) = vectors(answer)
    assert len(vector) == 320 and vector.index(max(vector)) == ord("o")
    assert abs(vector[ord("o")] - 1) < 1e-5 and sum(map(abs, vector)) == vector[ord("o")]


def test_a_batch_has_the_bits_of_single_calls(served):
    texts = ["hello", "hello world", "zzz", "hello"] * 20
    _, answer = served.post(PATH, {"model": "mean", "input": texts})
    alone = {text: vectors(served.post(PATH, {"model": "mean", "input": text})[1])[0] for text in set(texts)}
    assert vectors(answer) == [alone[text] for text in texts]
    assert answer["usage"]["prompt_tokens"] == 20 * (5 + 11 + 3 + 5)
    vector = alone["hello"]
    length = math.sqrt(1 + 1 + 4 + 1)
    for letter, count in (("h", 1), ("e", 1), ("l", 2), ("o", 1), ("x", 0)):
        assert abs(vector[ord(letter)] - count / length) < 1e-5


def test_base64_holds_the_same_floats(served):
    body = {"model": "mean", "input": ["hello", "ab"]}
    plain = vectors(served.post(PATH, body)[1])
    packed = vectors(served.post(PATH, body | {"encoding_format": "base64"})[1])
    for text, vector in zip(packed, plain):
        data = base64.b64decode(text, validate=True)
        assert data == struct.pack("<320f", *vector)


def test_ollamas_answer_holds_the_same_floats(served):
    texts = ["hello", "hello world"]
    status, answer = served.post("/api/embed", {"model": "mean", "input": texts})
    assert status == 200 and answer["prompt_eval_count"] == 5 + 11
    assert answer["embeddings"] == vectors(served.post(PATH, {"model": "mean", "input": texts})[1])
    status, answer = served.post("/api/embed", {"model": "mean", "input": ""})
    assert status == 400 and "input" in answer["error"]


def test_ollamas_old_form_has_one_vector(served):
    status, answer = served.post("/api/embeddings", {"model": "mean:latest", "prompt": "hello", "options": {}, "keep_alive": "5m"})
    assert status == 200 and list(answer) == ["embedding"]
    assert [answer["embedding"]] == vectors(served.post(PATH, {"model": "mean", "input": "hello"})[1])
    for prompt in ({"prompt": ""}, {"prompt": ["a"]}, {"prompt": "a" * 17}, {}):
        status, answer = served.post("/api/embeddings", {"model": "mean"} | prompt)
        assert status == 400 and "prompt" in answer["error"]


def test_ids_are_texts_too(served):
    by_text = vectors(served.post(PATH, {"model": "mean", "input": "ab"})[1])
    assert vectors(served.post(PATH, {"model": "mean", "input": [97, 98]})[1]) == by_text
    lists = vectors(served.post(PATH, {"model": "mean", "input": [[97, 98], [98]]})[1])
    assert lists[0] == by_text[0] and lists[1][98] == pytest.approx(1)


def test_vectors_are_cut_where_the_files_say_so(served):
    body = {"model": "mean", "input": "AAz"}  # z is byte 122: beyond the first 100 values
    (vector,) = vectors(served.post(PATH, body | {"dimensions": 100})[1])
    assert len(vector) == 100 and vector[65] == pytest.approx(1, abs=1e-6) and sum(vector) == vector[65]
    assert len(vectors(served.post(PATH, body | {"dimensions": 320})[1])[0]) == 320
    for model, size in (("mean", 99), ("mean", 321), ("last", 100), ("mean", 0)):
        status, answer = served.post(PATH, {"model": model, "input": "a", "dimensions": size})
        assert status == 400 and answer["error"]["param"] == "dimensions", (model, size)
    assert served.post(PATH, {"model": "last", "input": "a", "dimensions": 320})[0] == 200


def test_a_prompt_by_name(served):
    body = {"model": "mean", "input": "a"}
    assert vectors(served.post(PATH, body | {"prompt_name": "query"})[1]) == vectors(
        served.post(PATH, body | {"input": "q:a"})[1])
    status, answer = served.post(PATH, body | {"prompt_name": "verse"})
    assert status == 400 and answer["error"]["param"] == "prompt_name" and "passage" in answer["error"]["message"]


def test_what_is_wrong_is_named(served):
    for change, param in (({"input": ""}, "input"), ({"input": []}, "input"), ({"input": None}, "input"),
                          ({"input": ["a", ""]}, "input[1]"), ({"input": [[]]}, "input"), ({"input": [5, "a"]}, "input"),
                          ({"input": [320]}, "input"), ({"input": {}}, "input"), ({"encoding_format": "hex"}, "encoding_format"),
                          ({"encoding_format": 3}, "encoding_format"), ({"dimensions": "3"}, "dimensions"),
                          ({"input": ["a"] * 2049}, "input")):
        status, answer = served.post(PATH, {"model": "mean", "input": "a"} | change)
        assert status == 400 and answer["error"]["param"] == param, change
    status, answer = served.post(PATH, {"model": "mean", "input": "12345678901234567"})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert "17" in answer["error"]["message"] and "16" in answer["error"]["message"]
    assert served.post(PATH, {"model": "nobody", "input": "a"})[0] == 404


def test_an_encoder_gives_vectors_and_no_answers(served, lockstep):
    done = lockstep("embed", GOLDEN, "--ids", "5,9,2", "--ids", "7,8", "--json")
    _, answer = served.post(PATH, {"model": "bert", "input": [[5, 9, 2], [7, 8]]})
    assert vectors(answer) == json.loads(done.out)["embeddings"]
    status, answer = served.post("/v1/completions", {"model": "bert", "prompt": [5, 9]})
    assert status == 400 and "output head" in answer["error"]["message"]


def test_answers_and_vectors_go_on_together(served):
    """Vectors are made in pieces between steps; nobody's bytes change."""
    from concurrent.futures import ThreadPoolExecutor
    body = {"model": "mean", "input": ["hello world", "abc"] * 60}
    alone = served.post(PATH, body)[1]
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(served.post, PATH, body) for _ in range(4)]
        texts = [pool.submit(served.post, "/v1/completions", {"model": "last", "prompt": "<|assistant|>"}) for _ in range(4)]
        assert all(answer.result()[1]["data"] == alone["data"] for answer in answers)
        assert all(text.result()[1]["choices"][0]["text"] == "ja" for text in texts)


def test_whoever_leaves_takes_nothing_along(served):
    body = json.dumps({"model": "mean", "input": ["hello world"] * 400})
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", served.port)
        connection.request("POST", PATH, body)
        connection.close()
    assert vectors(served.post(PATH, {"model": "mean", "input": "a"})[1])[0][97] == pytest.approx(1)


def test_documents_are_ranked_by_their_cosine(served):
    body = {"model": "mean", "query": "ab", "documents": ["zz", "ab", {"text": "abb"}, "ab"]}
    status, answer = served.post("/v1/rerank", body)
    assert status == 200 and answer["model"] == "mean"
    assert [r["index"] for r in answer["results"]] == [2, 1, 3, 0]
    # With the prompts: q:ab is {q, :, a, b}, p:abb {p, :, a, b, b}.
    expected = {1: 3 / 4, 3: 3 / 4, 2: (1 + 1 + 2) / math.sqrt(4 * 7), 0: 1 / math.sqrt(4 * 6)}
    for result in answer["results"]:
        assert result["relevance_score"] == pytest.approx(expected[result["index"]], abs=1e-5)
        assert "document" not in result
    assert answer["usage"]["total_tokens"] == 4 + 4 + 4 + 5 + 4
    _, top = served.post("/v1/rerank", body | {"top_n": 3, "return_documents": True})
    assert [r["document"]["text"] for r in top["results"]] == ["abb", "ab", "ab"]
    for change, param in (({"query": ""}, "query"), ({"query": None}, "query"), ({"documents": []}, "documents"),
                          ({"documents": ["a", 3]}, "documents[1]"), ({"documents": ["a", ""]}, "documents[1]"),
                          ({"top_n": 0}, "top_n"), ({"documents": "a"}, "documents")):
        status, answer = served.post("/v1/rerank", body | change)
        assert status == 400 and answer["error"]["param"] == param, change


def test_the_command_line_ranks_alike(lockstep, tmp_path):
    write_embedder(tmp_path / "mean")
    done = lockstep("rerank", tmp_path / "mean", "--query", "ab", "--text", "zz", "--text", "ab", "--text", "abb", "--json")
    answer = json.loads(done.out)
    assert [r["index"] for r in answer["results"]] == [2, 1, 0] and answer["tokens"] == 4 + 4 + 4 + 5
    assert answer["results"][1] == {"index": 1, "relevance_score": pytest.approx(3 / 4, abs=1e-5)}
    done = lockstep("rerank", tmp_path / "mean", "--query", "ab", "--text", "x" * 20, "--json")
    assert json.loads(done.out)["results"][0]["truncated_tokens"] == 20 + 2 - 16 and "1 of 2 texts were longer than the 16" in done.err
