"""Commands that turn text into answers, on a checkpoint whose answers are known (tape.py)."""
import json
import math
import subprocess

import pytest

from tape import ASSISTANT, END, write_tape

PIECES = ["Red", " apple", " pie", " now"]


@pytest.fixture
def tape(tmp_path):
    return tmp_path / "tape", write_tape(tmp_path / "tape", PIECES)


def write_messages(tmp_path, *contents):
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([{"role": "user", "content": c} for c in contents]), encoding="utf-8")
    return path


def answer(lockstep, *arguments):
    result = lockstep("generate", *arguments, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_generate_from_messages(lockstep, tape, tmp_path):
    folder, ids = tape
    got = answer(lockstep, folder, "--messages", write_messages(tmp_path, "hello"))
    assert got["ids"] == [ids[p] for p in (*PIECES, END)]
    assert (got["text"], got["finish_reason"]) == ("Red apple pie now", "stop")
    plain = lockstep("generate", folder, "--messages", tmp_path / "messages.json")
    assert (plain.status, plain.out, plain.err) == (0, "Red apple pie now\n", "")
    assert lockstep("generate", folder, "--messages", "-", text_in=(tmp_path / "messages.json").read_text()).out == plain.out


def test_generate_from_raw_text_and_from_ids(lockstep, tape):
    folder, ids = tape
    assert answer(lockstep, folder, "--prompt", "so: Red")["text"] == " apple pie now"
    got = answer(lockstep, folder, "--ids", ids[" apple"], "-n", 1)
    assert (got["text"], got["ids"], got["finish_reason"]) == (" pie", [ids[" pie"]], "length")


@pytest.mark.parametrize("stops, text, reason", [
    (["ple p"], "Red ap", "stop"),
    (["pie now!"], "Red apple pie now", "stop"),
    (["apple"], "Red ", "stop"),
    (["xyz", "e n"], "Red apple pi", "stop"),
    (["Red"], "", "stop"),
])
def test_stop_strings_span_tokens(lockstep, tape, stops, text, reason):
    """cases.md, number 5."""
    folder, _ = tape
    flags = [flag for stop in stops for flag in ("--stop", stop)]
    got = answer(lockstep, folder, "--prompt", ASSISTANT, *flags)
    assert (got["text"], got["finish_reason"]) == (text, reason)
    assert lockstep("generate", folder, "--prompt", ASSISTANT, *flags).out == text + "\n"


def test_a_limit_releases_what_a_stop_string_withheld(lockstep, tape):
    folder, _ = tape
    got = answer(lockstep, folder, "--prompt", ASSISTANT, "--stop", "apple pie", "-n", 2)
    assert (got["text"], got["finish_reason"]) == ("Red apple", "length")


def test_characters_over_two_tokens(lockstep, tmp_path):
    """cases.md, number 3. The halves of an emoji as tokens of their own: bytes, which the tape can not hold, so the bias plays them."""
    folder = tmp_path / "tape"
    ids = write_tape(folder, ["go"])
    flags = [f"{b}={100 - i}" for i, b in enumerate("🌱".encode())]
    got = answer(lockstep, folder, "--ids", ids["go"], "-n", 4, "--presence-penalty", 50,
                 *[x for flag in flags for x in ("--logit-bias", flag)])
    assert got["text"] == "🌱" and got["ids"] == list("🌱".encode())
    cut = answer(lockstep, folder, "--ids", ids["go"], "-n", 3, "--presence-penalty", 50,
                 *[x for flag in flags for x in ("--logit-bias", flag)])
    assert cut["text"] == "\ufffd"


def test_one_begin_token(lockstep, tmp_path):
    """cases.md, number 6: the template writes it, or the post-processor does, never both."""
    folder = tmp_path / "tape"
    ids = write_tape(folder, ["<s>", "Red"], special=["<s>"], template="<s>{{ messages[0].content }}")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [ids["<s>"]], "tokens": ["<s>"]}}}
    path.write_text(json.dumps(tokenizer))
    assert json.loads(lockstep("tokenize", folder, "--text", "Red").out) == [ids["<s>"], ids["Red"]]
    assert answer(lockstep, folder, "--prompt", "Red")["timings"]["prompt_tokens"] == 2
    assert answer(lockstep, folder, "--messages", write_messages(tmp_path, "Red"))["timings"]["prompt_tokens"] == 2


def test_tool_arguments_as_text(lockstep, tmp_path):
    """cases.md, number 9: messages are a client's, so the template gets the mapping; a line of variables is taken as it stands."""
    folder, messages, line = tmp_path / "tape", tmp_path / "messages.json", tmp_path / "line.jsonl"
    write_tape(folder, ["Red"], template="{% for k, v in messages[0].tool_calls[0].function.arguments|items %}{{ k }}{{ v }}{% endfor %}")
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": "bc"}'}}]}
    messages.write_text(json.dumps([call]))
    line.write_text(json.dumps({"messages": [call]}))
    assert lockstep("template", folder, "--messages", messages).out.strip() == "abc"
    assert answer(lockstep, folder, "--messages", messages, "-n", 1)["timings"]["prompt_tokens"] == 3
    assert "Can only get item pairs from a mapping" in lockstep("template", folder, "--jsonl", line).out


def test_content_in_parts(lockstep, tmp_path):
    """cases.md, number 10: text parts are one text with nothing between; null is empty; other parts are named."""
    folder, messages = tmp_path / "tape", tmp_path / "messages.json"
    write_tape(folder, ["Red"], template="{% for m in messages %}{{ m.content }};{% endfor %}")
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    messages.write_text(json.dumps([{"role": "user", "content": parts}, call, {"role": "tool", "content": parts[:1]}]))
    assert lockstep("template", folder, "--messages", messages).out == "AB;;A;"
    messages.write_text(json.dumps([{"role": "user", "content": [parts[0], {"type": "image_url", "image_url": {"url": "x"}}]}]))
    for command in ("template", "generate"):
        refused = lockstep(command, folder, "--messages", messages)
        assert refused.status == 1 and 'messages[0].content[1]: only parts of type "text" are read, not "image_url"' in refused.err


def test_tokenize_and_detokenize(lockstep, tape, tmp_path):
    folder, ids = tape
    result = lockstep("tokenize", folder, "--text", "a Red é")
    assert json.loads(result.out) == [97, 32, ids["Red"], 32, 195, 169]
    path = tmp_path / "text"
    path.write_text("a\n", encoding="utf-8")
    assert json.loads(lockstep("tokenize", folder, "--file", path).out) == [97, 10]
    assert json.loads(lockstep("tokenize", folder, "--file", "-", text_in="é").out) == [195, 169]
    assert json.loads(lockstep("tokenize", folder, "--text", "").out) == []
    back = ",".join(map(str, [97, ids[END], 195, 169]))
    assert lockstep("detokenize", folder, "--ids", back).out == "a<|end|>é"
    assert lockstep("detokenize", folder, "--ids", back, "--skip-special").out == "aé"
    unknown = lockstep("detokenize", folder, "--ids", "97,5000")
    assert unknown.status == 1 and "5000" in unknown.err and unknown.out == ""


def test_tokenize_lines(lockstep, tape):
    folder, ids = tape
    lines = ['"ab"', '"Red\\n"', "5", '"\\ud83c\\udf31"', "not json", '""']
    out = [json.loads(text) for text in lockstep("tokenize", folder, "--jsonl", "-", text_in="\n".join(lines)).out.splitlines()]
    assert out[0] == [97, 98] and out[1] == [ids["Red"], 10] and out[3] == list("🌱".encode()) and out[5] == []
    assert set(out[2]) == {"error"} and set(out[4]) == {"error"} and len(out) == len(lines)


def test_invalid_utf8_is_said_with_its_place(lockstep, program, tape, tmp_path):
    folder, _ = tape
    path = tmp_path / "latin1"
    path.write_bytes(b"caf\xe9")
    for command in (["tokenize", folder, "--file", path], ["perplexity", folder, "--file", path]):
        result = lockstep(*command)
        assert result.status == 1 and "not UTF-8: byte 3 is 0xe9" in result.err and len(result.err.splitlines()) == 1
    for command in (["tokenize", folder, "--text"], ["generate", folder, "--prompt"], ["run", folder]):
        done = subprocess.run([str(program), *map(str, command), b"caf\xe9"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 1 and b"3" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_template(lockstep, tape, tmp_path):
    folder, _ = tape
    messages = write_messages(tmp_path, "hé", "b")
    assert lockstep("template", folder, "--messages", messages).out == "<|user|>hé\n<|user|>b\n<|assistant|>"
    assert lockstep("template", folder, "--messages", messages, "--no-generation-prompt").out == "<|user|>hé\n<|user|>b\n"
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        (folder / name).unlink()
    assert lockstep("template", folder, "--messages", messages).out.startswith("<|user|>h")  # needs the template only


def test_template_variables(lockstep, tmp_path):
    folder = tmp_path / "tape"
    write_tape(folder, ["Red"], template="{{ mood }}|{{ tools[0].name if tools else 'none' }}|{{ messages|length }}|{{ eos_token }}")
    messages = write_messages(tmp_path, "a")
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "clock"}]')
    assert lockstep("template", folder, "--messages", messages, "--tools", tools, "--kwargs", '{"mood": "fine"}').out == \
        "fine|clock|1|<|end|>"
    assert lockstep("template", folder, "--messages", messages).out == "|none|1|<|end|>"
    bad = lockstep("template", folder, "--messages", messages, "--kwargs", "[1]")
    assert bad.status == 1 and "--kwargs: it must be a JSON object" in bad.err
    not_an_array = lockstep("template", folder, "--messages", "-", text_in="{}")
    assert not_an_array.status == 1 and "it must hold a JSON array" in not_an_array.err


def test_template_lines(lockstep, tape):
    folder, _ = tape
    lines = ['{"messages": [{"role": "user", "content": "a"}]}',
             '{"messages": [{"role": "user", "content": "é\\n"}], "add_generation_prompt": true}', "[]", '{"messages": 5}']
    out = [json.loads(text) for text in lockstep("template", folder, "--jsonl", "-", text_in="\n".join(lines)).out.splitlines()]
    assert out[0] == "<|user|>a\n" and out[1] == "<|user|>é\n\n<|assistant|>"
    assert set(out[2]) == {"error"} and set(out[3]) == {"error"} and len(out) == 4


def test_perplexity_of_a_known_model(lockstep, tape):
    """"Red" is followed by " now" here, though the tape says " apple": logit 0 beside one of sqrt(V)."""
    folder, _ = tape
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    result = lockstep("perplexity", folder, "--file", "-", "--json", "--kv", "f32", text_in="Red now apple")
    got = json.loads(result.out)
    expected = math.log(math.exp(1 / math.sqrt(1 / vocab + 1e-6)) + vocab - 1)  # 1e-6: rms_norm_eps
    assert (got["n_ids"], got["n_scored"], got["windows"]) == (3, 2, 1)
    assert got["mean_nll"] == pytest.approx(expected, rel=1e-6) and got["ppl"] == pytest.approx(math.exp(got["mean_nll"]))
    windows = json.loads(lockstep("perplexity", folder, "--file", "/dev/stdin", "--json", "--ctx", "2",
                                  text_in="Red apple pie now").out)
    assert (windows["n_scored"], windows["windows"]) == (2, 2)
    short = lockstep("perplexity", folder, "--file", "-", text_in="a")
    assert short.status == 1 and "at least 2" in short.err


def test_generation_config_rules_run_and_not_generate(lockstep, tmp_path):
    folder = tmp_path / "tape"
    ids = write_tape(folder, ["a1", "b2"], generation={"suppress_tokens": [], "temperature": 5.0, "top_k": 0,
                                                       "eos_token_id": [256 + 2, 256 + 3]})
    assert ids["b2"] == 258
    got = answer(lockstep, folder, "--prompt", ASSISTANT)
    assert got["ids"] == [ids["a1"], ids["b2"]] and got["text"] == "a1" and "seed" not in got
    sampled = lockstep("run", folder, "hello", "-n", 8)
    assert sampled.status == 0 and "seed " in sampled.err


def test_ids_of_a_padded_vocabulary_have_no_text(lockstep, tape):
    folder, ids = tape
    got = answer(lockstep, folder, "--ids", ids["Red"], "-n", 2, "--logit-bias", "319=1000")
    assert (got["ids"], got["text"]) == ([319, 319], "")
