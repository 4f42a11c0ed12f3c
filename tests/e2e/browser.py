"""Headless Chromium over its DevTools protocol, with Python's standard library only: enough of a WebSocket to send commands and
wait for answers, and a page that is looked at, typed into and photographed."""
import base64
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

KEYS = {"Enter": 13, "Escape": 27, "ArrowUp": 38}


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class WebSocket:
    """A client's side of RFC 6455: texts only, masked as a client's must be."""

    def __init__(self, host, port, path):
        self.socket = socket.create_connection((host, port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.stream = self.socket.makefile("rb")
        assert b" 101 " in self.stream.readline()
        while self.stream.readline() != b"\r\n":
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        length = (bytes([0x80 | len(data)]) if len(data) < 126 else
                  bytes([0xFE]) + struct.pack(">H", len(data)) if len(data) < 65536 else
                  bytes([0xFF]) + struct.pack(">Q", len(data)))
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.socket.sendall(b"\x81" + length + mask + masked)

    def receive(self):
        text = b""
        while True:
            first, second = self.stream.read(2)
            length = second & 0x7F
            if length >= 126:
                length = int.from_bytes(self.stream.read(2 if length == 126 else 8), "big")
            data = self.stream.read(length)
            if first & 0x0F in (0, 1):
                text += data
                if first & 0x80:
                    return text.decode()

    def close(self):
        self.stream.close()
        self.socket.close()


class Browser:
    """One Chromium with one page. `requests`, `bodies` (JSON that was posted) and `problems` gather what the page asks the network for
    and complains of."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="lockstep-chromium-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-port=0",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self.read_port()
        for _ in range(100):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = [t for t in json.load(answer) if t["type"] == "page"]
            if pages:
                break
            time.sleep(0.1)
        self.socket = WebSocket("127.0.0.1", port, re.sub(r"^ws://[^/]+", "", pages[0]["webSocketDebuggerUrl"]))
        self.count, self.requests, self.bodies, self.problems = 0, [], [], []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")

    def read_port(self):
        """From the file that Chromium writes; its standard error, if nobody read it, would fill up and stop it."""
        path = pathlib.Path(self.profile.name) / "DevToolsActivePort"
        for _ in range(600):
            lines = path.read_text().split() if path.exists() else []
            if len(lines) == 2:
                return int(lines[0])
            time.sleep(0.1)
        raise AssertionError("Chromium did not start")

    def command(self, method, **parameters):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.count:
                assert "error" not in message, message
                return message["result"]
            self.note(message)

    def note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
            if "postData" in parameters["request"]:
                self.bodies.append(json.loads(parameters["request"]["postData"]))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.problems.append(str(parameters["args"]))

    def run(self, expression):
        """The value of a JavaScript expression in the page; a promise is waited for."""
        result = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(f"Boolean({expression})")
            if value:
                return value
            time.sleep(0.03)
        raise AssertionError(f"never true within {seconds} s: {expression}")

    def open(self, address, ready="document.readyState === 'complete'"):
        self.command("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address)}) && ({ready})")

    def click(self, selector):
        """A press of the mouse in the middle of what is there: what covers it would get it instead."""
        place = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                         " e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
                         " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, text):
        self.command("Input.insertText", text=text)

    def press(self, key, shift=False):
        shared = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", **shared)

    def resize(self, width, height, phone=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                     mobile=phone)
        self.command("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.wait(f"innerWidth === {width}")
        self.run("new Promise((laid) => requestAnimationFrame(() => requestAnimationFrame(laid)))")

    def prefer(self, scheme):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def photograph(self, path):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(base64.b64decode(self.command("Page.captureScreenshot")["data"]))

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=30)
        self.profile.cleanup()
