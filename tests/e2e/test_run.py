"""`lockstep run`: one answer, standard input, and a person at a terminal (a pseudo-terminal that waits for what it expects)."""
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

import pytest

from tape import write_tape

PIECES = ["Red", " apple", " pie"]
ANSWER = "Red apple pie"


@pytest.fixture
def tape(tmp_path):
    write_tape(tmp_path / "tape", PIECES)
    return tmp_path / "tape"


def test_one_prompt(lockstep, tape):
    result = lockstep("run", tape, "hello")
    assert (result.status, result.out) == (0, ANSWER + "\n")
    assert re.search(r"tokens read.*4 written.*tok/s", result.err)


def test_the_prompt_from_standard_input(lockstep, tape):
    result = lockstep("run", tape, text_in="hello\n\n")
    assert (result.status, result.out) == (0, ANSWER + "\n")
    empty = lockstep("run", tape, text_in="\n")
    assert empty.status == 1 and empty.err == "lockstep: standard input has no prompt\n"


def test_flags_of_the_answer(lockstep, tape):
    assert lockstep("run", tape, "hello", "--stop", "pie").out == "Red apple \n"
    cut = lockstep("run", tape, "hello", "-n", 1)
    assert cut.out == "Red\n" and "cut at -n" in cut.err
    long = lockstep("run", tape, "x" * 300)
    assert long.status == 1 and "the context holds 256" in long.err and long.out == ""


def test_a_model_without_a_template_is_said(lockstep, tmp_path):
    write_tape(tmp_path / "raw", PIECES, template=None)
    result = lockstep("run", tmp_path / "raw", "hello")
    assert result.status == 1 and "template" in result.err and len(result.err.splitlines()) == 1


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, program, arguments, env):
        self.text, self.seen = "", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(program, [str(program), *map(str, arguments)], {**os.environ, "TERM": "xterm", "NO_COLOR": "1", **env})

    def expect(self, pattern, timeout=60):
        """Waits for a pattern in what comes after the last one found; the match."""
        end = time.monotonic() + timeout
        while True:
            match = re.compile(pattern).search(self.text, self.seen)
            if match:
                self.seen = match.end()
                return match
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"{pattern!r} did not come; after {self.text[self.seen:]!r}"
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, f"the program ended before {pattern!r}; after {self.text[self.seen:]!r}"
            self.text += data.decode("utf-8", "replace")

    def await_editor(self):
        """Waits for the prompt, and until the line editor has the terminal: before that a Ctrl-D would be the terminal's own, and
        lost to the editor."""
        self.expect(">>> ")
        end = time.monotonic() + 60
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            assert time.monotonic() < end, "the line editor did not take the terminal"
            time.sleep(0.001)

    def send(self, text):
        os.write(self.fd, text.encode())

    def status(self):
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal(program, tmp_path):
    opened = []

    def open_terminal(*arguments):
        t = Terminal(program, arguments, {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data")})
        opened.append(t)
        t.expect(">>> ")
        return t

    yield open_terminal
    for t in opened:
        if t.pid:
            os.kill(t.pid, signal.SIGKILL)
            os.waitpid(t.pid, 0)
            os.close(t.fd)


def test_a_conversation(terminal, tape):
    t = terminal("run", tape)
    t.send("hello\r")
    t.expect(ANSWER)
    first = int(t.expect(r"\[(\d+) tokens read").group(1))
    t.expect(">>> ")
    t.send("hi\r")
    t.expect(ANSWER)
    # The second turn renders everything again; what was read in the first is not read again.
    assert int(t.expect(r"\[(\d+) tokens read").group(1)) < first
    t.expect(">>> ")
    t.send("/regenerate\r")
    t.expect(ANSWER)
    assert t.expect(r"\[(\d+) tokens read").group(1) == "1"
    t.expect(">>> ")
    t.send("/clear\r")
    t.expect(">>> ")
    t.send("hello\r")
    t.expect(r"\[(\d+) tokens read")
    t.expect(">>> ")
    t.send("/bye\r")
    assert t.status() == 0


def test_reasoning_stands_before_the_answer(terminal, tmp_path):
    """The mark that ends it is never shown; the second turn gives the template both parts, and finds them read already."""
    template = ("{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
                "{{ m.content }}{{ '<|end|>' if m.role == 'assistant' else '\\n' }}{% endfor %}"
                "{% if add_generation_prompt %}<|assistant|><think>{% endif %}")
    write_tape(tmp_path / "thinker", ["<think>", "hm", " hm", "</think>", "Red", " apple"], template=template)
    t = terminal("run", tmp_path / "thinker")
    t.send("hello\r")
    t.expect(r"hm hm\r\n\r\nRed apple\r\n")
    first = int(t.expect(r"\[(\d+) tokens read").group(1))
    t.expect(">>> ")
    t.send("hi\r")
    assert int(t.expect(r"\[(\d+) tokens read").group(1)) < first
    t.expect(">>> ")
    t.send("/bye\r")
    assert t.status() == 0


def test_slash_commands(terminal, tape):
    t = terminal("run", tape, "--system", "Be brief.")
    for typed, answer in (("/help", "/regenerate"), ("/system", "Be brief."), ("/system Be long.", ">>> "),
                          ("/regenerat", "did you mean /regenerate"), ("/regenerate", "there is no answer"),
                          ("/system", "Be long."), ("/system -", ">>> "), ("/system", "no system prompt")):
        t.send(typed + "\r")
        t.expect(re.escape(typed))  # the echo
        t.expect(re.escape(answer))
    t.await_editor()
    t.send("\x04")
    assert t.status() == 0


def test_several_lines(terminal, tmp_path):
    """The template shows the question's length, so the answer's prompt is known to hold all lines."""
    write_tape(tmp_path / "tape", PIECES, template="{% if messages|length > 1 %}{{ messages[-3].content|tojson }}{% endif %}"
                                                  "{{ messages[-1].content }}<|assistant|>")
    t = terminal("run", tmp_path / "tape")
    t.send("one\\\r")
    t.expect(r"\.\.\. ")
    t.send("two\r")
    assert int(t.expect(r"\[(\d+) tokens read").group(1)) == len("one\ntwo") + 1
    t.expect(">>> ")
    t.send("/clear\r")
    t.expect(">>> ")
    t.send('"""three\r')
    t.expect(r"\.\.\. ")
    t.send('four"""\r')
    assert int(t.expect(r"\[(\d+) tokens read").group(1)) <= len("three\nfour") + 1
    t.expect(">>> ")
    t.send("/clear\r")
    t.expect(">>> ")
    t.send("\x1b[200~five\rsix\nseven\x1b[201~")
    t.expect("seven")
    t.send("\r")
    assert int(t.expect(r"\[(\d+) tokens read").group(1)) <= len("five\nsix\nseven") + 1
    t.expect(">>> ")
    t.send("/bye\r")
    assert t.status() == 0
    history = (tmp_path / "state" / "lockstep" / "history").read_text()
    assert "one" in history and "seven" in history


def test_ctrl_c_stops_the_answer_and_not_the_program(terminal, tmp_path):
    write_tape(tmp_path / "endless", ["tick", "tock"], loop=True, context=1000000)
    t = terminal("run", tmp_path / "endless")
    t.send("hello\r")
    t.expect("ticktocktick")
    t.send("\x03")
    t.expect("stopped")
    t.await_editor()
    t.send("half a line")
    t.expect("half a line")  # the terminal throws away what is unread at a Ctrl-C
    t.send("\x03")
    t.await_editor()
    t.send("\x03")
    t.expect("Ctrl-C again or /bye to leave")
    t.await_editor()
    t.send("x\x15\r")  # something else in between: the count begins again
    t.expect(r"\x1b\[\?2004l")  # the line was read: it is drawn anew for the x already
    t.await_editor()
    t.send("\x03")
    t.expect("Ctrl-C again")
    t.await_editor()
    t.send("\x03")
    assert t.status() == 130


def test_ctrl_c_without_a_conversation_ends_with_130(program, tmp_path):
    write_tape(tmp_path / "endless", ["tick", "tock"], loop=True, context=1000000)
    t = Terminal(program, ["generate", tmp_path / "endless", "--prompt", "tick"], {})
    t.expect("tocktick")
    t.send("\x03")
    assert t.status() == 130


def test_history_of_an_earlier_session(terminal, tape):
    t = terminal("run", tape)
    t.send("remember this\r")
    t.expect("tokens read")
    t.expect(">>> ")
    t.send("/bye\r")
    assert t.status() == 0
    t = terminal("run", tape)
    t.send("\x1b[A\x1b[A")
    t.expect("remember this")
    t.send("\x15\x04")
    assert t.status() == 0


def test_control_characters_do_not_reach_the_terminal(terminal, tmp_path):
    write_tape(tmp_path / "tape", ["safe", "\x1b[31mred", "end"])
    t = terminal("run", tmp_path / "tape")
    t.send("hello\r")
    t.expect(re.escape("safe?[31mredend"))


def test_ctrl_c_in_a_trace_leaves_nothing_half_written(program, tmp_path):
    write_tape(tmp_path / "endless", ["tick", "tock"], loop=True, context=1000000)
    (tmp_path / "ids").write_text("256,257," * 50000 + "256")
    out, part = tmp_path / "out.safetensors", tmp_path / "out.safetensors.part"
    running = subprocess.Popen([str(program), "trace", str(tmp_path / "endless"), "--ids-file", str(tmp_path / "ids"), "-o",
                                str(out), "--isa", "scalar"], stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not part.exists() and time.monotonic() < end:
        assert running.poll() is None, running.stderr.read()
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    assert not part.exists() and not out.exists()
    running.stderr.close()
