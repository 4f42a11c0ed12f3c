#!/usr/bin/env python3
"""Loads lockstep's server and llama-server with the same requests, in turns and in one sitting, and writes
docs/benchmarks-serve.md.

    ./dev bench-serve                      builds and makes what is missing, then runs this
    bench/serve.py --peer build/peer --files build/bench --smollm2 build/models/smollm2-135m --smollm2-gguf FILE.gguf

16 clients stream 32 greedy answers of 128 tokens, whatever the model says about its end. Prompts are token ids, cut from one
text of words drawn from a seed, so both sides read the same and none begins like another; in the second load all begin with the
same 600. Each load meets a server that has just started and answered one short request. llama-server runs with a micro-batch of
512 and of 128, and the faster one counts. The client only notes when bytes came and reads them afterwards, because it shares the
CPUs with the server. Nothing else should run meanwhile.
"""
import argparse
import contextlib
import datetime
import http.client
import json
import math
import os
import pathlib
import random
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from compare import ROOT, commit, machine, run, shown

THREADS = "2"
CLIENTS, REQUESTS, OUT = 16, 32, 128
SHORTEST, LONGEST = 200, 800  # tokens of a prompt
SHARED, OWN = 600, (20, 200)  # tokens that all prompts of the second load begin with, and those that follow
LONG_PROMPT, STREAMED = 4000, 3800
SLOT = 1024  # positions of one of llama-server's slots: LONGEST + OUT fit
UBATCHES = (512, 128)
SMOLLM2, LARGE = "SmolLM2-135M, Q4_1", "1B, 4-bit group 64 / Q4_0"
WORDS = ("the a of and to in is was for that with on as by it from at an be this which or are not have one two three new "
         "river stone garden letter window market winter bridge captain music doctor engine forest island journey kitchen "
         "ladder mountain number ocean paper question road silver table under valley water yellow zebra machine simple "
         "carry build answer follow gather measure remember wander quietly often never almost before after between").split()

# (load, reading, most or least, ratio to the peer by model)
TARGETS = [
    ("plain", "tokens/s", "least", {SMOLLM2: 2.5, LARGE: 2.0}),
    ("plain", "first token, median", "most", {SMOLLM2: 0.6, LARGE: 0.6}),
    ("plain", "first token, 95 %", "most", {SMOLLM2: 0.6, LARGE: 0.6}),
    ("plain", "gap, 95 %", "most", {SMOLLM2: 0.5, LARGE: 0.5}),
    ("shared", "tokens/s", "least", {SMOLLM2: 4.0, LARGE: 4.0}),
]
LOADS = {"plain": f"prompts of {SHORTEST} to {LONGEST}",
         "shared": f"a shared beginning of {SHARED}, then {OWN[0]} to {OWN[1]}"}


def percentile(values, share):
    """The least value that this share of the values does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


# ---- what is asked ----

class Prompts:
    """Prompts as lists of ids, cut one after the other from a text that is the same in every run."""

    def __init__(self, program, tokenizer, n):
        text = " ".join(random.Random(1).choices(WORDS, k=n))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            self.ids = json.loads(run([program, "tokenize", tokenizer, "--no-special", "--file", file.name]))
        self.used = 0

    def take(self, n):
        if self.used + n > len(self.ids):
            sys.exit(f"the text has only {len(self.ids)} tokens")
        self.used += n
        return self.ids[self.used - n:self.used]


def make_loads(prompts, requests):
    r = random.Random(2)
    plain = [prompts.take(r.randint(SHORTEST, LONGEST)) for _ in range(requests)]
    shared = prompts.take(SHARED)
    return {"plain": plain, "shared": [shared + prompts.take(r.randint(*OWN)) for _ in range(requests)]}


def request_body(ids, n):
    return {"model": "m", "prompt": ids, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}}


# ---- clients ----

class Answer:
    """A streamed answer on a connection of its own: bytes and when they came."""

    def __init__(self, port, body):
        self.n_prompt, self.n_out, self.parts, self.done = len(body["prompt"]), body["max_tokens"], [], False
        data = json.dumps(body).encode()
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n")
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.sent = time.monotonic()
        self.socket.sendall(head.encode() + data)

    def receive(self):
        part = self.socket.recv(1 << 16)
        self.parts.append((time.monotonic(), part))
        self.done = not part

    def events(self):
        """(when its last byte came, event) of each."""
        whole, ends, length = b"".join(part for _, part in self.parts), [], 0
        for when, part in self.parts:
            length += len(part)
            ends.append((length, when))
        if b" 200 " not in whole[:16]:
            sys.exit(f"a server answered: {whole[:1000].decode(errors='replace')}")
        at = 0
        for match in re.finditer(rb"data: (\{.*\})\n\n", whole):
            while ends[at][0] < match.end():
                at += 1
            yield ends[at][1], json.loads(match.group(1))

    def times(self):
        """When text came."""
        return [when for when, event in self.events() if event.get("choices") and event["choices"][0].get("text")]

    def check(self):
        usage = [event["usage"] for _, event in self.events() if event.get("usage")][-1]
        found, due = (usage["prompt_tokens"], usage["completion_tokens"]), (self.n_prompt, self.n_out)
        if found != due:
            sys.exit(f"an answer has (prompt, answer) tokens {found} instead of {due}")


class Clients:
    """Open requests to one server, in one thread."""

    def __init__(self, port):
        self.port, self.selector, self.n_open = port, selectors.DefaultSelector(), 0

    def open(self, ids, n):
        answer = Answer(self.port, request_body(ids, n))
        self.selector.register(answer.socket, selectors.EVENT_READ, answer)
        self.n_open += 1
        return answer

    def close(self, answer):
        self.selector.unregister(answer.socket)
        answer.socket.close()
        self.n_open -= 1

    def poll(self):
        """Waits for bytes. One answer alone is read without asking first: this client's time is taken from the server."""
        answers = [key.data for key in self.selector.get_map().values()]
        for answer in answers if len(answers) == 1 else [key.data for key, _ in self.selector.select()]:
            answer.receive()
            if answer.done:
                self.close(answer)

    def run(self, prompts, n, width):
        """Answers to the prompts, `width` at a time, each asked for as soon as one of the others has ended."""
        answers, waiting = [], list(reversed(prompts))
        while waiting or self.n_open:
            while waiting and self.n_open < width:
                answers.append(self.open(waiting.pop(), n))
            self.poll()
        for answer in answers:
            answer.check()
        return answers


# ---- servers ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_up(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


@contextlib.contextmanager
def serving(command, warm):
    """Clients of a server that has answered one short request."""
    port = free_port()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([*map(str, command), "--port", str(port)], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            while not is_up(port):
                if process.poll() is not None:
                    log.seek(0)
                    sys.exit(f"{' '.join(map(str, command))}\nended:\n{log.read()[-2000:]}")
                time.sleep(0.05)
            clients = Clients(port)
            clients.run([warm], 8, 1)
            yield clients
        finally:
            process.terminate()
            process.wait()


class Sides:
    def __init__(self, args):
        self.program, self.peer = args.program, args.llama_server or args.peer / "build" / "bin" / "llama-server"
        self.models = {SMOLLM2: (args.smollm2, args.smollm2_gguf),
                       LARGE: (args.files / "1b-mlx4", args.files / "1b-q4_0.gguf")}

    def our_command(self, model, activations=16):
        return [self.program, "serve", self.models[model][0], "--threads", THREADS,
                *(["--activations", activations] if activations != 16 else [])]

    def peer_command(self, model, ubatch):
        return [self.peer, "-m", self.models[model][1], "-np", str(CLIENTS), "-c", str(CLIENTS * SLOT), "-ub", str(ubatch),
                "-ctk", "f16", "-ctv", "f16", "-t", THREADS, "-tb", THREADS]

    def generate_command(self, model, ids):
        return [self.program, "generate", self.models[model][0], "--ids", ids, "-n", str(2 * OUT), "--threads", THREADS, "--json"]


# ---- readings ----

def read_load(clients, prompts):
    begun = time.monotonic()
    answers = clients.run(prompts, OUT, CLIENTS)
    seconds = time.monotonic() - begun
    times = [answer.times() for answer in answers]
    first = [t[0] - answer.sent for t, answer in zip(times, answers)]
    gaps = [b - a for t in times for a, b in zip(t, t[1:])]
    return {"tokens/s": len(answers) * OUT / seconds, "first token, median": statistics.median(first),
            "first token, 95 %": percentile(first, 0.95), "gap, 95 %": percentile(gaps, 0.95),
            "gap, mean": statistics.mean(gaps), "gap, longest": max(gaps)}  # one may be late seldom, and very late


def read_long_prompt(clients, streamed, long_prompt):
    """Gaps of one stream: when it is alone, while another request's long prompt is read, and alone again, when it has grown."""
    stream = clients.open(streamed, STREAMED)
    while len(stream.parts) < 100:
        clients.poll()
    other = clients.open(long_prompt, 1)
    while not other.done:
        clients.poll()
    parts = len(stream.parts)
    while not stream.done and len(stream.parts) < parts + 100:
        clients.poll()
    if not stream.done:
        clients.close(stream)
    times, end = stream.times(), other.times()[0]
    solo = [b - a for a, b in zip(times, times[1:]) if b < other.sent]
    company = [b - a for a, b in zip(times, times[1:]) if a > other.sent and b < end]
    after = [b - a for a, b in zip(times, times[1:]) if a > end]
    if len(company) < 10:
        sys.exit(f"the stream had only {len(company)} tokens while the prompt was read")
    return {"solo": statistics.median(solo), "median": statistics.median(company), "95 %": percentile(company, 0.95),
            "longest": max(company), "seconds": end - other.sent, "after": statistics.median(after) if after else math.nan}


def read_one_client(clients, ids):
    times = clients.run([ids], 2 * OUT, 1)[0].times()
    return (2 * OUT - 1) / (times[-1] - times[0])  # not every token of a text can be read by itself


def measure_ours(sides, model, loads, prompts, pairs):
    found = {}
    for name, load in loads.items():
        with serving(sides.our_command(model), prompts.take(SHORTEST)) as clients:
            found[name] = read_load(clients, load)
        print(f"{model}, ours, {name}: {found[name]}", flush=True)
    with serving(sides.our_command(model, 8), prompts.take(SHORTEST)) as clients:
        found["plain, 8 bits"] = read_load(clients, loads["plain"])
    print(f"{model}, ours, plain, --activations 8: {found['plain, 8 bits']}", flush=True)
    with serving(sides.our_command(model), prompts.take(SHORTEST)) as clients:
        found["long"] = read_long_prompt(clients, prompts.take(SHORTEST), prompts.take(LONG_PROMPT))
        print(f"{model}, ours, a long prompt: {found['long']}", flush=True)
        ids, found["one"], found["generate"] = prompts.take(SHORTEST), [], []
        for _ in range(pairs):
            found["one"].append(read_one_client(clients, ids))
            done = json.loads(run(sides.generate_command(model, ",".join(map(str, ids)))))
            found["generate"].append(done["timings"]["decode_tps"])
    print(f"{model}, ours, one client: {found['one']}, generate: {found['generate']}", flush=True)
    return found


def measure_plain(sides, model, load, prompts):
    """With the better micro-batch."""
    found = {}
    for ubatch in UBATCHES:
        with serving(sides.peer_command(model, ubatch), prompts.take(SHORTEST)) as clients:
            found[ubatch] = read_load(clients, load)
        print(f"{model}, llama-server -ub {ubatch}, plain: {found[ubatch]}", flush=True)
    best = max(found, key=lambda ubatch: found[ubatch]["tokens/s"])
    return {"plain": found[best], "ubatch": best}


def measure_shared(sides, model, load, prompts, ubatch):
    with serving(sides.peer_command(model, ubatch), prompts.take(SHORTEST)) as clients:
        found = read_load(clients, load)
    print(f"{model}, llama-server -ub {ubatch}, shared: {found}", flush=True)
    return found


# ---- the page ----

def middle(rounds, load, reading):
    return statistics.median(found[load][reading] for found in rounds)


def shown_reading(reading, value):
    return f"{value:.1f}" if reading == "tokens/s" else f"{value:.2f} s" if "first" in reading else f"{value * 1000:.0f} ms"


def eight_bit_table(found):
    """What the stated trade gives, on the first load: llama-server rounds activations to 8 bits always."""
    lines = ["| model | reading | ours | llama-server | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for model, (ours, peer) in found.items():
        for reading in ours[0]["plain, 8 bits"]:
            a, b = middle(ours, "plain, 8 bits", reading), middle(peer, "plain", reading)
            lines.append(f"| {model} | {reading} | {shown_reading(reading, a)} | {shown_reading(reading, b)} | {a / b:.2f} |")
    return lines


def load_table(found):
    lines = ["| model | load | reading | ours | llama-server | ratio | target | |", "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"]
    for model, (ours, peer) in found.items():
        goals = {(load, reading): (kind, by_model[model]) for load, reading, kind, by_model in TARGETS}
        for load, what in LOADS.items():
            for reading in ours[0][load] if load in peer[-1] else ():
                a, b = middle(ours, load, reading), middle(peer, load, reading)
                kind, goal = goals.get((load, reading), (None, None))
                met = "" if kind is None else "yes" if (a / b >= goal if kind == "least" else a / b <= goal) else "**no**"
                aim = "" if kind is None else f"{'≥' if kind == 'least' else '≤'} {goal:.1f}"
                lines.append(f"| {model} | {what} | {reading} | {shown_reading(reading, a)} | {shown_reading(reading, b)} | "
                             f"{a / b:.2f} | {aim} | {met} |")
    return lines


def solo_table(found):
    lines = ["| model | what | reading | target | |", "| --- | --- | ---: | ---: | --- |"]
    for model, (ours, _) in found.items():
        solo, late = middle(ours, "long", "solo"), middle(ours, "long", "95 %")
        lines.append(f"| {model} | gap of a stream alone, median | {solo * 1000:.1f} ms | | |")
        lines.append(f"| {model} | its gap while a prompt of {LONG_PROMPT} is read, 95 % | {late * 1000:.1f} ms, {late / solo:.2f} solo | "
                     f"≤ 3 solo | {'yes' if late <= 3 * solo else '**no**'} |")
        lines.append(f"| {model} | gap of the stream alone afterwards, median | {middle(ours, 'long', 'after') * 1000:.1f} ms | | |")
        lines.append(f"| {model} | longest gap while the prompt is read | {middle(ours, 'long', 'longest') * 1000:.1f} ms | | |")
        one = statistics.median(v for f in ours for v in f["one"])
        generate = statistics.median(v for f in ours for v in f["generate"])
        lines.append(f"| {model} | one client, tokens/s; `lockstep generate` {generate:.1f} | {one:.1f}, {one / generate:.3f} | "
                     f"≥ 0.97 | {'yes' if one >= 0.97 * generate else '**no**'} |")
    return lines


def page(sides, version, found, rounds):
    commands = []
    for model, (_, peer) in found.items():
        commands += [shown(sides.our_command(model)), *(shown(sides.peer_command(model, ubatch)) for ubatch in UBATCHES),
                     f"# -ub {peer[-1]['ubatch']} was the better one"]
    commands.append(shown(sides.generate_command(next(iter(found)), "$IDS")))
    return "\n".join([
        "# Benchmarks of the server", "",
        f"Written by `./dev bench-serve` (bench/serve.py); do not edit. Both sides in turns, medians of {rounds} round"
        f"{'s' if rounds > 1 else ''}, {THREADS} threads each, with the client on the same CPUs.", "",
        f"- {datetime.date.today()}, {machine()}",
        f"- lockstep {version}; llama-server from the source archive of llama-cpp-python (bench/build_peer.py), Release, native", "",
        f"{CLIENTS} clients stream {REQUESTS} answers of {OUT} tokens, greedy, end token ignored, from /v1/completions. "
        "Prompts are token ids, the same for both. A gap is the time between two pieces of an answer's text; waits that are "
        "seldom but long show in their mean, not at 95 %. `1B` is the llama of random weights of "
        "[benchmarks.md](benchmarks.md); the whole text of an answer is what its weights make of it, on either side.", "",
        *load_table(found), "",
        "The first load with `--activations 8`, our numeric setting of the precision that llama-server always computes in:", "",
        *eight_bit_table(found), "", "Of our server alone:", "", *solo_table(found), "",
        "## Commands", "", "```", *commands, "```", "",
        "with `--port` besides, and this body of each request:", "", "```",
        json.dumps(request_body(["..."], OUT)).replace('"..."', "..."), "```", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "lockstep")
    parser.add_argument("--peer", type=pathlib.Path, default=ROOT / "build" / "peer")
    parser.add_argument("--llama-server", type=pathlib.Path, help="default: the one in --peer")
    parser.add_argument("--files", type=pathlib.Path, required=True, help="what bench/make_models.py wrote")
    parser.add_argument("--smollm2", type=pathlib.Path, required=True)
    parser.add_argument("--smollm2-gguf", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="fewer only to try this script")
    parser.add_argument("--pairs", type=int, default=3, help="of one client and generate")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name holds it")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "benchmarks-serve.md")
    args = parser.parse_args()
    version, sides, found = commit(), Sides(args), {}
    for model in [name for name in sides.models if args.only in name]:
        ours, peer = found.setdefault(model, ([], []))
        for _ in range(args.rounds):
            prompts = Prompts(args.program, args.smollm2, 50000)  # the 1B has the same vocabulary
            loads = make_loads(prompts, args.requests)
            ours.append(measure_ours(sides, model, loads, prompts, args.pairs))
            peer.append(measure_plain(sides, model, loads["plain"], prompts))
            args.output.write_text(page(sides, version, found, args.rounds))  # whoever stops here has this much
            peer[-1]["shared"] = measure_shared(sides, model, loads["shared"], prompts, peer[-1]["ubatch"])
            args.output.write_text(page(sides, version, found, args.rounds))
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
