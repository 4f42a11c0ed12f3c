"""Command lines that are wrong, and what is said about them: one clear line, and the status scripts rely on."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LLAMA = ROOT / "tests" / "goldens" / "mlx" / "llama"


def assert_one_line(result, status, text):
    lines = result.err.splitlines()
    assert result.status == status, result.err
    assert text in lines[0]
    assert result.out == ""
    assert len(lines) == (2 if status == 2 else 1), result.err
    if status == 2:
        assert lines[1].startswith("usage: lockstep ")


@pytest.mark.parametrize("arguments, text", [
    (["generat", "x"], "unknown command generat: did you mean generate?"),
    (["frobnicate"], "unknown command frobnicate"),
    (["generate", LLAMA], "give one of --prompt, --ids and --messages"),
    (["generate", LLAMA, "--ids", "1", "--prompt", "x"], "give one of --prompt, --ids and --messages"),
    (["generate", "--ids", "1"], "an argument is missing"),
    (["generate", LLAMA, "--ids", "1", "-n", "many"], "-n many: it must be a whole number"),
    (["generate", LLAMA, "--ids", "1", "--tmp", "1"], "unknown flag --tmp: did you mean --temp?"),
    (["generate", LLAMA, "--ids", "1", "--width", "2"], "--width does not belong to generate"),
    (["generate", LLAMA, "--ids", "1", "--kv", "q17"], "--kv q17: it must be one of i16|f32|f16|bf16"),
    (["generate", LLAMA, "--ids"], "--ids needs a value"),
    (["tokenize", LLAMA], "give one of --text, --file and --jsonl"),
    (["detokenize", LLAMA], "--ids is missing"),
    (["template", LLAMA], "give one of --messages, --jsonl and --replies"),
    (["trace", LLAMA, "--ids", "1"], "-o is missing"),
    (["compare", "a"], "an argument is missing"),
    (["perplexity", LLAMA], "--file is missing"),
    (["import", "x.gguf"], "-o is missing"),
    (["run", LLAMA, "two", "words"], "one argument too many"),
])
def test_wrong_usage_is_2_with_the_usage_line(lockstep, arguments, text):
    assert_one_line(lockstep(*arguments), 2, text)


@pytest.mark.parametrize("arguments, text", [
    (["generate", "no/such/model", "--ids", "1"], "no/such/model"),
    (["generate", LLAMA, "--ids", "1,128"], "id 128 of the prompt is outside the vocabulary (0 to 127)"),
    (["generate", LLAMA, "--ids", "1,-1"], "id -1 of the prompt is outside the vocabulary (0 to 127)"),
    (["generate", LLAMA, "--ids", "1,a"], 'ids are whole numbers separated by commas'),
    (["generate", LLAMA, "--ids", ""], "the prompt is empty"),
    (["generate", LLAMA, "--ids", ",".join(["1"] * 257)], "the prompt has 257 tokens, the context holds 256"),
    (["generate", LLAMA, "--ids", "1,2,3", "--ctx", "2"], "the prompt has 3 tokens, the context holds 2"),
    (["generate", LLAMA, "--ids", "1", "--logit-bias", "5"], "--logit-bias 5: it must be ID=V"),
    (["generate", LLAMA, "--ids", "1", "--logit-bias", "500=1"], "id 500 is outside the vocabulary"),
    (["generate", LLAMA, "--ids", "1", "--stop", "x"], "stop strings need a tokenizer"),
    (["generate", LLAMA, "--ids-file", "no/such/file"], "no/such/file: cannot open"),
    (["generate", LLAMA, "--prompt", "x"], "tokenizer.json"),
    (["trace", LLAMA, "--ids", "1,999", "-o", "unused.safetensors"], "999"),
    (["trace", LLAMA, "--ids", "1", "--chunks", "0", "-o", "unused.safetensors"], "a step has at least one row"),
    (["trace", LLAMA, "--ids", "1", "-o", "no/such/folder/x.safetensors"], "no/such/folder/x.safetensors"),
    (["compare", "no/a.safetensors", "no/b.safetensors"], "no/a.safetensors"),
    (["perplexity", LLAMA, "--file", "no/such/file"], "no/such/file: cannot open"),
    (["bench", LLAMA, "-p", "4000"], "4000 positions, the context holds 256"),
    (["import", "no/such.gguf", "-o", "unused"], "no/such.gguf"),
    (["rm", "no-such-model"], "no-such-model"),
])
def test_bad_input_is_1_with_one_line(lockstep, arguments, text):
    assert_one_line(lockstep(*arguments), 1, text)


def test_a_gguf_path_gets_the_import_command(lockstep, tmp_path):
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUF" + bytes(20))
    result = lockstep("run", path, "x")
    assert result.status == 1 and "lockstep import" in result.err and len(result.err.splitlines()) == 1


def test_a_truncated_shard_is_named(lockstep, tmp_path):
    for path in LLAMA.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shard = tmp_path / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    result = lockstep("generate", tmp_path, "--ids", "1", "-n", "1")
    assert_one_line(result, 1, "model-00002-of-00002.safetensors")


def test_help_and_version(lockstep):
    assert lockstep("--help").out.startswith("lockstep ")
    assert lockstep("help", "trace").out == lockstep("trace", "--help").out
    assert lockstep("--version").out == lockstep("run", "--version").out
    for command in ("run", "generate", "import", "list", "rm", "inspect", "tokenize", "detokenize", "template", "trace",
                    "compare", "check", "perplexity", "bench"):
        result = lockstep(command, "--help")
        assert result.status == 0 and result.out.startswith(f"usage: lockstep {command}") and "--threads" in result.out
    bare = lockstep()
    assert bare.status == 2 and "usage: lockstep COMMAND" in bare.err


def test_the_page_in_docs_is_made_from_the_tables(lockstep):
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == lockstep("help", "--markdown").out


def test_a_closed_pipe_ends_in_silence(program):
    done = subprocess.run(["sh", "-c", '"$0" help --markdown | head -c 1', str(program)], capture_output=True, timeout=60,
                          check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"#", b"")


def test_a_full_disk_is_an_error(program):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(program), "help"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1 and b"cannot write the output: No space left on device" in done.stderr
