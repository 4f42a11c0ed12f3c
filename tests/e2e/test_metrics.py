"""GET /metrics: what was asked, answered, shared and cached adds up."""
import re

from served import Served
from tape import write_tape


def read(s):
    """{name with labels: value}; the page must be well formed."""
    status, text = s.call("GET", "/metrics")
    assert status == 200 and text.endswith("\n")
    values, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r'([a-z_]+)((?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})?) ([0-9.e+-]+)', line)
            assert match, line
            assert re.sub("_(bucket|sum|count)$", "", match[1]) in kinds or match[1] in kinds, line
            assert match[1] + match[2] not in values
            values[match[1] + match[2]] = float(match[3])
    return values


def test_counts(serve):
    s = serve(["Red", " apple", " pie"])
    chat = {"messages": [{"role": "user", "content": "a" * 100}]}
    prompt = len("<|user|>" + "a" * 100 + "\nA")
    before = read(s)
    assert before['lockstep_jobs_total{model="m"}'] == before["lockstep_time_to_first_token_seconds_count"] == 0
    assert s.post("/v1/chat/completions", chat)[0] == 200
    assert s.post("/v1/chat/completions", chat | {"n": 3, "stream": False})[0] == 200
    assert s.call("POST", "/v1/chat/completions", chat | {"stream": True})[0] == 200
    assert s.post("/v1/chat/completions", {"messages": []})[0] == 400
    assert s.call("GET", "/nowhere")[0] == 404
    echo = {"prompt": "hello", "echo": True, "logprobs": 1, "max_tokens": 0}
    assert s.post("/v1/completions", echo)[0] == 200
    m = read(s)
    route = 'lockstep_requests_total{method="POST",route="/v1/chat/completions",status="%d"}'
    assert (m[route % 200], m[route % 400]) == (3, 1)
    assert m['lockstep_requests_total{method="",route="",status="404"}'] == 1
    assert m['lockstep_requests_total{method="GET",route="/metrics",status="200"}'] == 1  # this one is not answered yet
    of = lambda name, labels="": m['lockstep_%s{model="m"%s}' % (name, labels)]
    assert of("jobs_total") == 4 and of("jobs_cancelled_total") == of("jobs_failed_total") == of("jobs_refused_total") == 0
    assert of("answer_tokens_total") == 5 * 4
    assert of("prompt_tokens_total") == 3 * prompt + 5
    assert of("cached_tokens_total") == 4 * (prompt - 1)
    assert of("prefix_hits_total") == 4
    assert [of("prefix_misses_total", f',reason="{reason}"') for reason in ("new", "cut", "side", "bypassed")] == [1, 0, 0, 1]
    assert of("prompt_rows_total") == prompt + 4 + 5 and of("rows_total") == of("prompt_rows_total") + 5 * 3
    assert of("batch_width_count") == of("steps_total") > 0
    assert of("batch_width_bucket", ',le="1"') < of("batch_width_bucket", ',le="4"') == of("batch_width_bucket", ',le="+Inf"')
    assert of("running") == of("waiting") == 0 and 0 < of("state_bytes") <= of("state_budget_bytes")
    for name, n in (("time_to_first_token", 3), ("time_per_token", 3), ("queue", 4), ("answer", 4)):
        name = f"lockstep_{name}_seconds"
        buckets = [m[key] for key in m if key.startswith(name + "_bucket")]
        assert buckets == sorted(buckets) and buckets[-1] == m[name + "_count"] == n
        assert m[name + "_sum"] >= 0
    assert m["process_resident_memory_bytes"] > 1e6 and m["lockstep_open_requests"] == 1


def test_each_model_has_its_own(program, tmp_path):
    for name in ("m", "n"):
        write_tape(tmp_path / name, ["Red"])
    s = Served(program, tmp_path / "m", tmp_path / "n")
    try:
        assert not any('model="n"' in key for key in read(s))  # it is not loaded yet
        assert s.post("/api/generate", {"model": "n", "prompt": "hello", "stream": False})[1]["response"] == "Red"
        m = read(s)
        assert (m['lockstep_answer_tokens_total{model="m"}'], m['lockstep_answer_tokens_total{model="n"}']) == (0, 2)
    finally:
        assert s.stop() == 0
