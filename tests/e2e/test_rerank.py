"""Cross-encoders as a person runs them: `lockstep rerank` and /v1/rerank on the goldens of tests/goldens/rerank, whose ids, types,
truncation and scores are those of sentence-transformers' CrossEncoder in float32."""
import json
import math
import pathlib

import pytest

from served import Served

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "rerank"
RANKING = ["bert", "llama", "modernbert", "modernbert-cls", "qwen3", "roberta", "xlm_roberta"]
TOLERANCE = 1e-5


def pairs_of(golden):
    """The pairs of texts of a golden, by query."""
    queries = {}
    for pair in json.loads((GOLDENS / golden / "golden.json").read_text(encoding="utf-8"))["pairs"]:
        if "query" in pair:
            queries.setdefault(pair["query"], []).append(pair)
    return queries


def texts(pairs):
    return [flag for pair in pairs for flag in ("--text", pair["document"])]


def check(results, pairs):
    """Every document once, the best first, with the score and the truncation of the golden."""
    scores = [r["relevance_score"] for r in results]
    assert scores == sorted(scores, reverse=True) and sorted(r["index"] for r in results) == list(range(len(pairs)))
    for result in results:
        pair = pairs[result["index"]]
        assert result["relevance_score"] == pytest.approx(pair["score"], abs=TOLERANCE)
        assert result.get("truncated_tokens", 0) == pair["cut"]


@pytest.mark.parametrize("golden", RANKING)
def test_scores_are_those_of_the_reference(lockstep, golden):
    queries = pairs_of(golden)
    assert len(queries) > 3 and any(pair["cut"] for pairs in queries.values() for pair in pairs)
    for query, pairs in queries.items():
        done = lockstep("rerank", GOLDENS / golden, "--query", query, *texts(pairs), "--json", "--kv", "f32")
        assert done.status == 0, done.err
        answer = json.loads(done.out)
        check(answer["results"], pairs)
        assert answer["tokens"] == sum(len(pair["ids"]) for pair in pairs)
        assert ("were cut" in done.err) == any(pair["cut"] for pair in pairs)


def lines(done):
    assert done.status == 0, done.err
    return [line.split("\t") for line in done.out.splitlines()]


@pytest.mark.parametrize("golden", ["bert", "modernbert", "qwen3", "xlm_roberta"])
def test_company_threads_and_instruction_sets_change_no_byte(lockstep, golden):
    query = "what do cats eat"
    documents = [pair["document"] for pairs in pairs_of(golden).values() for pair in pairs]
    flags = [flag for text in documents for flag in ("--text", text)]
    alone = {text: lines(lockstep("rerank", GOLDENS / golden, "--query", query, "--text", text))[0][0] for text in documents}
    for more in ([], ["--threads", 1], ["--threads", 3], ["--isa", "scalar"]):
        ranked = lines(lockstep("rerank", GOLDENS / golden, "--query", query, *flags, *more))
        assert [score for score, _, _ in ranked] == [alone[documents[int(index)]] for _, index, _ in ranked]


def test_the_head_is_checked_as_well(lockstep):
    for golden in ("bert-labels", "modernbert", "llama"):
        done = lockstep("check", GOLDENS / golden)
        assert done.status == 0 and done.out.startswith("exact: "), done.out
    said = lockstep("inspect", GOLDENS / "modernbert").out
    assert "sequence classifier: 1 label of the mean of all rows" in said
    assert "scores of pairs: the mean of all rows, the classifier, sigmoid; 1 value" in said
    assert "3 labels of the first row" in lockstep("inspect", GOLDENS / "bert-labels").out


def test_a_line_per_text_of_a_file(lockstep, tmp_path):
    documents = ["Fish swim in the sea", "", "Cats eat fish, and sometimes a mouse.\tReally"]
    path = tmp_path / "texts"
    path.write_text("\n".join(documents) + "\n", encoding="utf-8")
    by_file = lines(lockstep("rerank", GOLDENS / "bert", "--query", "what do cats eat", "--file", path))
    assert sorted((int(index), text) for _, index, text in by_file) == [(i, d.replace("\t", " ")) for i, d in enumerate(documents)]
    flags = [flag for text in documents for flag in ("--text", text)]
    assert by_file == lines(lockstep("rerank", GOLDENS / "bert", "--query", "what do cats eat", *flags))


def test_what_can_not_be_ranked(lockstep, tmp_path):
    for arguments, status, says in (
            (["bert-labels", "--query", "a", "--text", "b"], 1, "a score for each of 3 labels: only one of one label ranks documents"),
            (["bert", "--text", "b"], 2, "give --query"),
            (["bert", "--query", "a"], 2, "give --text or --file"),
            (["bert", "--query", "a", "--file", "/dev/null"], 1, "there are no texts"),
            (["bert", "--query", "a", "--text", "b", "--ctx", "3"], 1, "3 tokens are too few for a pair: its special ones are 3")):
        done = lockstep("rerank", GOLDENS / arguments[0], *arguments[1:])
        assert done.status == status and says in done.err, done.err
    for command in (["embed", "--ids", "5,6"], ["embed", "--text", "a"]):
        done = lockstep(command[0], GOLDENS / "bert", *command[1:])
        assert (done.status, done.out) == (1, "") and "this model is a cross-encoder: it scores pairs of texts" in done.err
    for golden in ("bert", "llama"):
        done = lockstep("generate", GOLDENS / golden, "--ids", "5,6")
        assert done.status == 1 and "it scores pairs of texts (lockstep rerank)" in done.err


@pytest.fixture(scope="module")
def served(program):
    s = Served(program, *(GOLDENS / golden for golden in RANKING), GOLDENS / "bert-labels", "--kv", "f32")
    yield s
    assert s.stop() == 0


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
@pytest.mark.parametrize("golden", RANKING)
def test_the_server_has_the_same_scores(served, golden, path):
    for query, pairs in pairs_of(golden).items():
        pairs = [pair for pair in pairs if pair["document"]]
        body = {"model": golden, "query": query, "documents": [pair["document"] for pair in pairs]}
        status, answer = served.post(path, body)
        assert status == 200 and answer["model"] == golden, answer
        check(answer["results"], pairs)
        tokens = sum(len(pair["ids"]) for pair in pairs)
        assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
        _, top = served.post(path, body | {"top_n": 1, "return_documents": True})
        (best,) = top["results"]
        assert best["document"]["text"] == pairs[best["index"]]["document"]
        assert {k: v for k, v in best.items() if k != "document"} == answer["results"][0]


def test_many_documents_have_the_bits_of_single_ones(served):
    documents = ["Cats eat fish, and sometimes a mouse.", "The sky is blue today.", "eat " * 60] * 30
    body = {"model": "modernbert", "query": "what do cats eat"}
    _, answer = served.post("/v1/rerank", body | {"documents": documents})
    alone = {d: served.post("/v1/rerank", body | {"documents": [d]})[1]["results"][0]["relevance_score"] for d in set(documents)}
    assert len(answer["results"]) == 90 and len(set(alone.values())) == 3
    assert all(r["relevance_score"] == alone[documents[r["index"]]] and 0 < r["relevance_score"] < 1 for r in answer["results"])


def test_a_sigmoid_is_there_unless_the_files_say_otherwise(served):
    for golden, sigmoid in (("xlm_roberta", True), ("modernbert", True), ("bert", False), ("roberta", False)):
        (pair, *_) = pairs_of(golden)["what do cats eat"]
        body = {"model": golden, "query": pair["query"], "documents": [pair["document"]]}
        score = served.post("/v1/rerank", body)[1]["results"][0]["relevance_score"]
        (logit,) = pair["logits"]
        assert score == pytest.approx(1 / (1 + math.exp(-logit)) if sigmoid else logit, abs=TOLERANCE)


def test_other_endpoints_say_what_it_is_for(served):
    for golden in ("bert", "qwen3"):
        for path, body in (("/v1/embeddings", {"input": "a"}), ("/api/embed", {"input": "a"}), ("/v1/completions", {"prompt": [5, 6]}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
                           ("/v1/messages", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}),
                           ("/v1/responses", {"input": "a"}), ("/api/generate", {"prompt": "a", "stream": False})):
            status, answer = served.post(path, {"model": golden} | body)
            said = answer["error"]["message"] if isinstance(answer["error"], dict) else answer["error"]
            assert status == 400 and "scores pairs of texts" in said, (path, answer)
    status, answer = served.post("/v1/rerank", {"model": "bert-labels", "query": "a", "documents": ["b"]})
    assert status == 400 and answer["error"]["param"] == "model" and "3 labels" in answer["error"]["message"]
    listed = json.loads(served.call("GET", "/v1/models")[1])
    assert {tuple(m["tasks"]) for m in listed["data"]} == {("rerank",)}


def test_what_is_wrong_is_named(served):
    body = {"model": "bert", "query": "a", "documents": ["b", {"text": "c"}]}
    assert served.post("/v1/rerank", body)[0] == 200
    for change, param in (({"query": ""}, "query"), ({"query": None}, "query"), ({"documents": []}, "documents"),
                          ({"documents": ["a", 3]}, "documents[1]"), ({"documents": ["a", ""]}, "documents[1]"),
                          ({"documents": ["a"] * 2049}, "documents"), ({"top_n": 0}, "top_n")):
        status, answer = served.post("/v1/rerank", body | change)
        assert status == 400 and answer["error"]["param"] == param, change
