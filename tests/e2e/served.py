"""A running `lockstep serve`, and plain HTTP to talk to it."""
import http.client
import json
import re
import signal
import subprocess


class Served:
    """A running `lockstep serve`."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([str(program), "serve", *map(str, arguments), "--port", "0"],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            match = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if match:
                self.port = int(match.group(1))
                return
        raise AssertionError("the server did not start")

    def call(self, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method, path, data, dict(headers))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def post(self, path, body):
        status, text = self.call("POST", path, body)
        return status, json.loads(text)

    def stream(self, path, body):
        status, text = self.call("POST", path, body)
        assert status == 200
        events = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]

    def metric(self, name):
        """A value of /metrics, summed over its labels."""
        status, text = self.call("GET", "/metrics")
        values = re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.M)
        assert status == 200 and values, name
        return sum(map(float, values))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        self.process.stderr.close()
        return status
