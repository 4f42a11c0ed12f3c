"""Requests to compare, and a storm of others to send them in: different lengths, sampling and forms, connections that
are closed in the middle, slow readers, requests that are refused. Everything is drawn from a seed.
"""
import concurrent.futures
import http.client
import json
import random
import threading
import time

from served import Served

PATH = "/v1/chat/completions"
ALPHABET = "abcdefgh ijklmnop,.ABC 0123456789"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 6}, "b": {"enum": ["x", "yz"]},
                                           "c": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}},
          "required": ["a", "b"], "additionalProperties": False}
FORMS = [{}, {}, {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}},
         {"guided_regex": "[a-f]{3,9}(?:-[0-9]+)?"}, {"guided_choice": ["yes", "no", "perhaps"]},
         {"response_format": {"type": "json_object"}}, {"guided_grammar": 'root ::= ("ab" | "c" [0-9]){2,8}'}]
SAMPLINGS = [{"temperature": 0}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.5, "top_k": 20, "min_p": 0.01},
             {"temperature": 1, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.2},
             {"temperature": 0, "logit_bias": {"101": 3, "33": -100}}]


class Draw:
    """What a model is asked: prompts of at most `longest` characters, of which many begin alike, and answers."""

    def __init__(self, seed, longest, answer):
        self.random, self.longest, self.answer = random.Random(seed), longest, answer
        self.beginnings = [self.text(longest * 2 // 3) for _ in range(3)]

    def text(self, n):
        return "".join(self.random.choices(ALPHABET, k=n))

    def prompt(self):
        n = self.random.choice([1, 5, self.longest // 4, self.longest // 2, self.longest])
        if self.random.random() < 0.5:
            return self.text(n)
        return (self.random.choice(self.beginnings)[:max(n - 3, 1)] + self.text(3))[:n]

    def request(self, i):
        r = self.random
        return {"messages": [{"role": "user", "content": self.prompt()}], "max_tokens": r.randint(1, self.answer), "seed": i,
                **SAMPLINGS[i % len(SAMPLINGS)], **FORMS[i // 2 % len(FORMS)], **({"n": 3} if i % 11 == 0 else {}),
                "logprobs": True, "top_logprobs": 20, "logits_hash": True, **({"ignore_eos": True} if i % 3 == 0 else {})}


def answer_of(served, body):
    """All that a request gives: of each choice the text, why it ended, and ids, scores and hashes of all steps."""
    if not body.get("stream"):
        status, answer = served.post(PATH, body)
        assert status == 200, answer
        return [[c["message"]["content"], c["finish_reason"], c["logprobs"]["content"]] for c in answer["choices"]], answer["usage"]
    choices = [["", None, []] for _ in range(body.get("n", 1))]
    for chunk in served.stream(PATH, body | {"stream_options": {"include_usage": True}}):
        for c in chunk["choices"]:
            choice = choices[c["index"]]
            choice[0] += c["delta"].get("content") or ""
            choice[1] = c["finish_reason"] or choice[1]
            choice[2] += (c["logprobs"] or {"content": []})["content"]
    return choices, chunk["usage"]


def send_and_leave(port, body, lines, seconds):
    """Sends a request, reads that many lines of its stream, waits a little, and closes the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", PATH, json.dumps(body | {"stream": True}))
    if lines:
        answer = connection.getresponse()
        for _ in range(lines):
            if not answer.readline():
                break
    time.sleep(seconds)
    connection.close()


class Storm:
    """With it, `width` others keep a server busy. What they get is not looked at, but nobody may get a wrong status."""

    def __init__(self, served, seed, width, longest, answer):
        self.served, self.over, self.wrong, self.sent = served, threading.Event(), [], 0
        self.draws = [Draw(seed * 1000 + i // 2, longest, answer) for i in range(width)]  # two of a kind each
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(width)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def work(self, number):
        draw, i = self.draws[number], number
        try:
            while not self.over.is_set():
                self.one(draw, i)
                self.sent += 1
                i += 1
        except Exception as error:  # pylint: disable=broad-except
            self.wrong.append(repr(error))

    def one(self, draw, i):
        body, kind = draw.request(i), i % 5
        if kind == 0:
            send_and_leave(self.served.port, body, 0, draw.random.random() * 0.02)
        elif kind == 1:
            send_and_leave(self.served.port, body, draw.random.randint(1, 12), 0)
        elif kind == 2:
            assert self.served.post(PATH, body | {"temperature": -1})[0] == 400
            send_and_leave(self.served.port, body, 3, 0.05)
        else:
            answer_of(self.served, body | {"stream": kind == 3})


def answers_alone(program, model, bodies, workers=2):
    """Each from a server of its own that has never seen another request."""
    def one(body):
        served = Served(program, model)
        try:
            return answer_of(served, body | {"stream": False})[0]
        finally:
            assert served.stop() == 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, bodies))


def answers_in_storm(served, bodies, workers=4):
    """(answers, cached tokens) while a storm is on. Every second one is a stream; every third was sent before and left
    while its prompt was read."""
    def one(numbered):
        i, body = numbered
        if i % 3 == 0:
            send_and_leave(served.port, body, 0, 0.001 * (i % 7))
        return answer_of(served, body | {"stream": i % 2 == 1})
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(one, enumerate(bodies)))
    return [answer for answer, _ in results], sum(usage["prompt_tokens_details"]["cached_tokens"] for _, usage in results)
