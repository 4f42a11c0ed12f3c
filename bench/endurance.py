#!/usr/bin/env python3
"""Thousands of requests of every protocol against one server, among them clients that leave and requests that are wrong,
while a thousand other connections are open and idle.

    bench/endurance.py [--warm-up 40000] [--requests 20000] [--build build]

Most requests go to a golden of a few thousand weights, so what is worn is the server, and some to the default model. Fails when a status is not the one that
was due, when the process grows by more than 2 % after the warm-up or writes to its log, when anything is still open, running or waiting
at the end, when an idle connection was cut, or when an answer is no longer the one of the beginning.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from served import Served  # noqa: E402
from storm import PATH, Draw, answer_of, send_and_leave  # noqa: E402
from tape import dress, write_tape  # noqa: E402

WORKERS, IDLE, LONGEST, ANSWER = 16, 1000, 100, 16
USER = [{"role": "user", "content": "hello"}]


def right(draw, i):
    """(path, body, status) of a request."""
    body = {"model": "m", **draw.request(i)}
    text = draw.prompt()
    short = {"model": "m", "max_tokens": 5}
    return draw.random.choice([
        (PATH, body, 200), (PATH, body, 200), (PATH, body | {"stream": True}, 200),
        ("/v1/completions", {**short, "prompt": [text, text + "x"], "echo": True, "logprobs": 3}, 200),
        ("/v1/completions", {**short, "prompt": [65, 66, 67], "n": 2, "stream": True}, 200),
        ("/v1/responses", {"model": "m", "input": text, "max_output_tokens": 5, "stream": i % 2 == 0}, 200),
        ("/v1/messages", {**short, "messages": USER, "stream": i % 2 == 0}, 200),
        ("/v1/messages/count_tokens", {"model": "m", "messages": USER}, 200),
        ("/api/chat", {"model": "m", "messages": USER, "options": {"num_predict": 5}}, 200),
        ("/v1/embeddings", {"model": "tape", "input": [text, "y"]}, 200),
        ("/tokenize", {"model": "m", "content": text}, 200),
        (PATH, {"model": "tape", "messages": USER}, 200),
        *([(PATH, {"model": "smollm2-135m", "messages": USER, "max_tokens": 2}, 200)] if i % 8 == 0 else []),
    ])


def wrong(draw):
    r = draw.random
    return r.choice([
        (PATH, b'{"messages": [', 400), (PATH, b"\x00\xff", 400), (PATH, {"model": "nobody", "messages": USER}, 404),
        (PATH, {"model": "m", "messages": [{"role": "user", "content": "x" * 400}]}, 400),
        (PATH, {"model": "m", "messages": USER, "temperature": "hot"}, 400), ("/v1/nothing", {}, 404),
        ("/v1/completions", {"model": "m", "prompt": [99999]}, 400), ("/v1/messages", {"model": "m", "messages": USER}, 400),
        ("/v1/embeddings", {"model": "tape", "input": []}, 400), ("/v1/responses", {"model": "m"}, 400),
        (PATH, {"model": "m", "messages": USER, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}}, 400),
        (PATH, b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", 400),
    ])


def resident(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


class Endurance:
    def __init__(self, served, requests):
        self.served, self.requests, self.lock = served, requests, threading.Lock()
        self.started, self.faults, self.counts, self.sizes = 0, [], {}, []

    def next(self):
        with self.lock:
            self.started += 1
            if self.started % 1000 == 0 or self.started == 1:
                self.sizes.append(resident(self.served.process))
                print(f"{self.started:6} requests, {self.sizes[-1] / 1e6:.1f} MB resident", file=sys.stderr, flush=True)
            return self.started if self.started <= self.requests else None

    def work(self, number):
        draw = Draw(number, LONGEST, ANSWER)
        while (i := self.next()) is not None:
            try:
                self.one(draw, i)
            except Exception as error:  # pylint: disable=broad-except
                with self.lock:
                    self.faults.append(f"request {i}: {error!r}")

    def one(self, draw, i):
        kind = draw.random.random()
        if kind < 0.2:
            body = {"model": "m", **draw.request(i)}
            send_and_leave(self.served.port, body, draw.random.choice([0, 0, 1, 6]), draw.random.random() * 0.01)
            status = "left"
        else:
            path, body, due = wrong(draw) if kind < 0.4 else right(draw, i)
            status, text = self.served.call("POST", path, body)
            if status != due:
                raise AssertionError(f"{path} {body!r}: {status} instead of {due}: {text[:300]}")
        with self.lock:
            self.counts[status] = self.counts.get(status, 0) + 1

    def run(self):
        threads = [threading.Thread(target=self.work, args=(i,)) for i in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Idle:
    """Connections that are held open and used once a minute."""

    def __init__(self, served, n):
        self.connections, self.cut, self.over = [], 0, threading.Event()
        for _ in range(n):
            self.connections.append(http.client.HTTPConnection("127.0.0.1", served.port, timeout=30))
            self.connections[-1].auto_open = False
            self.connections[-1].connect()
        self.use()
        self.thread = threading.Thread(target=self.keep)
        self.thread.start()

    def use(self):
        for connection in self.connections:
            try:
                connection.request("GET", "/health")
                assert connection.getresponse().read()
            except Exception:  # pylint: disable=broad-except
                self.cut += 1

    def keep(self):
        while not self.over.wait(60):
            self.use()

    def close(self):
        self.over.set()
        self.thread.join()
        self.use()
        for connection in self.connections:
            connection.close()


def settled(served):
    """What is still there once everybody has gone; the request that asks is one of the open ones."""
    names = ("lockstep_running", "lockstep_waiting", "lockstep_open_requests")
    for _ in range(100):
        left = {name: int(served.metric(name)) for name in names}
        if left == dict(zip(names, (0, 0, 1))):
            return []
        time.sleep(0.05)
    return [f"still there at the end: {left}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm-up", type=int, default=40000, help="requests until the allocator has seen every mixture")
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--build", default=str(ROOT / "build"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        dress(ROOT / "tests" / "goldens" / "hf" / "llama", folder / "m")
        write_tape(folder / "tape", ["Red", " apple"])
        served = Served(pathlib.Path(args.build) / "lockstep", folder / "m", folder / "tape",
                        ROOT / "build" / "models" / "smollm2-135m", "--memory", "0.008")
        known = [{"model": "m", **Draw("known", LONGEST, ANSWER).request(i)} for i in range(20)]
        before = [answer_of(served, body)[0] for body in known]
        idle, run, begun = Idle(served, IDLE), Endurance(served, args.warm_up + args.requests), time.monotonic()
        run.run()
        seconds = time.monotonic() - begun
        idle.close()
        faults = run.faults[:20] + settled(served)
        warm, end = run.sizes[args.warm_up // 1000], resident(served.process)
        growth = end / warm - 1
        if growth > 0.02:
            faults.append(f"it grew from {warm} to {end} bytes")
        if idle.cut:
            faults.append(f"{idle.cut} idle connections were cut")
        if [answer_of(served, body)[0] for body in known] != before:
            faults.append("answers changed")
        os.set_blocking(served.process.stderr.fileno(), False)
        if (said := served.process.stderr.buffer.read()):
            faults.append(f"it said: {said[:2000]}")
        if (status := served.stop()) != 0:
            faults.append(f"the server ended with {status}")
    print(json.dumps({"warm_up": args.warm_up, "requests": args.requests, "seconds": round(seconds), "answers": {str(k): v for k, v in sorted(run.counts.items(), key=str)},
                      "idle_connections": IDLE, "resident_warm": warm, "resident_end": end, "growth": round(growth, 4),
                      "faults": len(run.faults)}))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
