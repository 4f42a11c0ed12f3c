"""HTTP itself: where messages begin and end, errors that libevent would answer by itself, and whom a server without a key
listens to."""
import gzip
import http.client
import json
import socket

import pytest

from served import Served
from tape import write_tape

CHAT = {"messages": [{"role": "user", "content": "x"}]}
LIMIT = 32 << 20


@pytest.fixture
def tape(serve):
    return serve(["Red", " one"])


def exchange(server, data):
    """All bytes that come back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(data)
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
    return answer


def ask(server, line, *headers, body=b"", host="localhost"):
    """One request on a connection of its own; (status, headers, body)."""
    names = ([f"Host: {host}"] if host is not None else []) + [*headers, "Connection: close"]
    return take(exchange(server, "\r\n".join([line, *names, "", ""]).encode() + body))


def take(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    return int(first.split()[1]), {name.lower(): value for name, value in (h.split(": ", 1) for h in rest)}, body


def message(path, body):
    """The text of an error in the shape of that path's protocol, which it must have."""
    value = json.loads(body)
    if path.startswith("/api/"):
        assert set(value) == {"error"}
        return value["error"]
    if path.startswith("/v1/messages"):
        assert value["type"] == "error" and value["request_id"].startswith("req_")
    else:
        assert set(value["error"]) == {"message", "type", "param", "code"}
    return value["error"]["message"]


def test_head_is_get_without_a_body(tape):
    for path in ("/", "/health", "/v1/models", "/metrics", "/openapi.json", "/page/app.js", "/nothing"):
        kept = http.client.HTTPConnection("127.0.0.1", tape.port, timeout=20)
        for method in ("HEAD", "GET", "HEAD", "GET"):  # on one connection, where a body would be taken for the next answer
            kept.request(method, path)
            answer = kept.getresponse()
            length = int(answer.getheader("Content-Length"))
            assert len(answer.read()) == (length if method == "GET" else 0) and length > 0, path
        kept.close()
    status, headers, body = ask(tape, "HEAD /v1/chat/completions HTTP/1.1")
    assert (status, headers["allow"], body) == (405, "POST", b"") and int(headers["content-length"]) > 0
    status, headers, body = ask(tape, "HEAD / HTTP/1.1", f"If-None-Match: {ask(tape, 'GET / HTTP/1.1')[1]['etag']}")
    assert (status, body) == (304, b"") and "content-length" not in headers


def test_a_body_of_head_is_not_the_next_request(tape):
    hidden = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = exchange(tape, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(hidden) + hidden)
    assert answer.startswith(b"HTTP/1.1 200 OK") and answer.count(b"HTTP/1.1 ") == 1


def test_a_stream_over_http_1_0_ends_with_its_connection(tape):
    body = json.dumps(CHAT | {"stream": True}).encode()
    keep = b"Connection: keep-alive\r\n"
    for version, connection in ((b"1.0", b""), (b"1.0", keep), (b"1.0", b"Connection: close\r\n"), (b"0.9", keep)):
        head = b"POST /v1/chat/completions HTTP/%s\r\n%sContent-Length: %d\r\n\r\n" % (version, connection, len(body))
        status, headers, events = take(exchange(tape, head + body))
        assert status == 200 and "content-length" not in headers and "transfer-encoding" not in headers
        assert headers["connection"] == "close"
        assert b'"content": "Red"' in events and events.endswith(b"data: [DONE]\n\n")
    plain = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"  # a whole answer keeps it, as was asked
    answer = exchange(tape, plain + b"GET /health HTTP/1.0\r\n\r\n")
    assert answer.count(b'{"status": "ok"}') == 2


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_what_can_not_be_read_is_answered_in_the_shape_of_its_path(tape, path):
    chunked = "Transfer-Encoding: chunked"
    for line, headers, body, status, said in (
            (f"POST {path} HTTP/1.1", [f"Content-Length: {LIMIT + 1}"], b"x" * (LIMIT + 1), 413, f"{LIMIT} bytes"),
            (f"POST {path} HTTP/1.1", [f"X-Long: {'a' * 70000}"], b"", 400, "65536 bytes"),
            (f"POST {path}?{'a' * 70000} HTTP/1.1", [], b"", 400, "65536 bytes"),
            (f"POST {path} HTTP/9.9", [], b"", 400, "first line"),
            (f"POST {path} HTTP/1.1", ["no colon"], b"", 400, "header"),
            (f"POST {path} HTTP/1.1", ["Content-Length: x"], b"", 400, "header"),
            (f"POST {path} HTTP/1.1", [chunked], b"zz\r\n{}\r\n0\r\n\r\n", 400, "chunks"),
            (f"POST {path} HTTP/1.1", [chunked], b"2;a=b\r\n{}\r\n0\r\n\r\n", 400, "extensions"),
            (f"POST {path} HTTP/1.1", [chunked], b"%x\r\n" % (LIMIT + 1), 400, f"{LIMIT} bytes"),
            (f"POST {path} HTTP/1.1", ["Expect: tea", "Content-Length: 2"], b"{}", 417, "Expect"),
            (f"BREW {path} HTTP/1.1", [], b"", 501, "method")):
        got, answered, text = ask(tape, line, *headers, body=body)
        assert got == status and answered["content-type"] == "application/json", (line[:60], headers)
        assert said in message(path, text) and int(answered["content-length"]) == len(text)
        assert answered["connection"] == "close" and answered["x-request-id"].startswith("req_")


def test_a_request_sent_ahead_that_can_not_be_read_is_answered_too(tape):
    answer = exchange(tape, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nBREW /v1/messages HTTP/1.1\r\n\r\n")
    first, rest = answer.split(b'{"status": "ok"}')
    assert first.startswith(b"HTTP/1.1 200 ")
    assert take(rest)[0] == 501 and message("/v1/messages", take(rest)[2])
    assert tape.call("GET", "/health") == (200, '{"status": "ok"}')
    assert exchange(tape, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").startswith(b"HTTP/1.1 400 ")  # TLS


def test_a_large_body_is_refused_to_who_asks_first_as_well(tape):
    with socket.create_connection(("127.0.0.1", tape.port), timeout=20) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"[]")
        status, _, body = take(client.recv(1 << 16))
        assert status == 400 and "object" in message("/", body)
    too_much = [f"Content-Length: {LIMIT + 1}", "Expect: 100-continue"]
    assert ask(tape, "POST /v1/chat/completions HTTP/1.1", *too_much, body=b" " * (LIMIT + 1))[0] == 413


def test_every_method_is_told_what_a_path_takes(tape):
    for method in ("PUT", "PATCH", "DELETE", "GET"):
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
            status, headers, body = ask(tape, f"{method} {path} HTTP/1.1", "Content-Length: 2", body=b"{}")
            assert (status, headers["allow"]) == (405, "POST") and f"not {method}" in message(path, body)


def test_a_request_has_one_end(tape):
    """A body that two programs see the end of at different places hides a request from one of them."""
    path = "/v1/chat/completions"
    for headers, body, status, said in (
            (["Content-Length: 2", "Content-Length: 3"], b"{} ", 400, "Content-Length"),
            (["Content-Length: 2", "Transfer-Encoding: chunked"], b"2\r\n{}\r\n0\r\n\r\n", 400, ""),  # Debian's libevent sees these two itself
            (["Content-Length: +2"], b"{}", 400, "'+2'"),
            (["Content-Length : 2"], b"{}", 400, "'Content-Length '"),
            (["Transfer-Encoding: gzip, chunked"], b"2\r\n{}\r\n0\r\n\r\n", 501, "gzip, chunked"),
            (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], b"2\r\n{}\r\n0\r\n\r\n", (400, 501), ""),
            (["Host: a.localhost", "Content-Length: 2"], b"{}", 400, "Host")):
        head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()
        answer = exchange(tape, head + body)  # nobody asked for it to be closed
        got, answered, text = take(answer)
        assert got in (status if isinstance(status, tuple) else (status,)) and answered["connection"] == "close", headers
        assert said in message(path, text) and answer.count(b"HTTP/1.1 ") == 1
    assert ask(tape, f"POST {path} HTTP/1.1", "Content-Length: 2", "Content-Length: 2", body=b"[]")[0] == 400
    body = json.dumps(CHAT).encode()
    assert ask(tape, f"POST {path} HTTP/1.1", f"Content-Length: {len(body)}", f"Content-Length: {len(body)}", body=body)[0] == 200
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    assert ask(tape, f"POST {path} HTTP/1.1", "Transfer-Encoding: Chunked", body=chunks)[0] == 200


def test_an_error_that_quotes_is_json(tape):
    for path in ("/v1/nothing", "/v1/messages/nothing", "/api/nothing"):
        for line, header, quoted in ((f"GET {path} HTTP/1.1", b'Host: \xff"\\\xc3', '\ufffd"\\\ufffd'),
                                     (f"POST {path} HTTP/1.1", b"Host: localhost\r\nContent-Encoding: \xfe\x01", "\ufffd?")):
            answer = exchange(tape, line.encode() + b"\r\nConnection: close\r\n" + header + b"\r\n\r\n")
            assert quoted in message(path, take(answer)[2].decode())
    assert "\ufffd" in message("/", take(exchange(tape, b"GET /\xff HTTP/1.1\r\nConnection: close\r\n\r\n"))[2].decode())


def test_a_compressed_body_is_named(tape):
    body = gzip.compress(json.dumps(CHAT).encode())
    status, headers, text = ask(tape, "POST /v1/messages HTTP/1.1", "Content-Encoding: gzip", f"Content-Length: {len(body)}", body=body)
    assert status == 415 and headers["accept-encoding"] == "identity"
    assert "Content-Encoding: gzip" in message("/v1/messages", text)
    body = json.dumps(CHAT).encode()
    assert ask(tape, "POST /v1/chat/completions HTTP/1.1", "Content-Encoding: identity", f"Content-Length: {len(body)}", body=body)[0] == 200


def test_a_name_that_was_pointed_here_is_refused(program, tape, tmp_path):
    for host in ("localhost", f"localhost:{tape.port}", "LOCALHOST.", "me.localhost:80", "127.0.0.1", f"127.0.0.1:{tape.port}", "127.8.9.1",
                 "[::1]", "[::1]:8080", "", None):
        assert ask(tape, "GET /v1/models HTTP/1.1", host=host)[0] == 200, host
    for host in ("evil.example", f"evil.example:{tape.port}", "localhost.evil.example", "notlocalhost", "127.0.0.1.evil.example", "128.0.0.1",
                 "192.168.1.7:8080", "0.0.0.0", "localhost:80@evil.example", "localhost:x", "[::1", "[::2]", "[::1]x", ".localhost", "::1"):
        for path in ("/", "/v1/models", "/health", "/api/tags"):
            status, _, body = ask(tape, f"GET {path} HTTP/1.1", host=host)
            assert status == 403 and f"'{host}'" in message(path, body) and "--api-key" in message(path, body), (host, path)
    write_tape(tmp_path / "n", ["Red"])
    for arguments, host, status in ((["--api-key", "k"], "evil.example", 401), (["--cors", "http://a.example,https://Chat.example:99"], "chat.example", 200),
                                    (["--cors", "https://chat.example"], "evil.example", 403), (["--cors", "*"], "evil.example", 200),
                                    (["--host", "127.0.0.1"], "evil.example", 403)):
        s = Served(program, tmp_path / "n", *arguments)
        try:
            assert ask(s, "GET /v1/models HTTP/1.1", host=host)[0] == status, (arguments, host)
        finally:
            assert s.stop() == 0


def test_a_strange_page_changes_nothing(program, tape, tmp_path):
    body = json.dumps(CHAT)

    def post(server, origin, *headers, host="localhost"):
        return ask(server, "POST /v1/chat/completions HTTP/1.1", f"Origin: {origin}", "Content-Type: text/plain", f"Content-Length: {len(body)}",
                   *headers, body=body.encode(), host=host)

    for origin in ("https://evil.example", "http://evil.example:8080", "null", "http://localhost.evil.example", "https://127.0.0.1.evil.example",
                   "http://192.168.1.7", "://", "x", "http://", "https://evil.example/http://localhost"):
        status, headers, text = post(tape, origin)
        assert status == 403 and f"'{origin}'" in message("/", text) and "access-control-allow-origin" not in headers, origin
        assert ask(tape, "DELETE /v1/responses/x HTTP/1.1", f"Origin: {origin}")[0] == 403
        assert ask(tape, "GET /v1/models HTTP/1.1", f"Origin: {origin}")[0] == 200  # whose answer its browser does not show it
    assert tape.metric("lockstep_jobs_total") == 0
    for origin in (f"http://127.0.0.1:{tape.port}", f"http://localhost:{tape.port}", "http://localhost:3000", "https://[::1]:1", "app://obsidian.md",
                   "tauri://localhost", "vscode-webview://0a1b", "file://", "chrome-extension://abc"):
        assert post(tape, origin)[0] == 200, origin
    for host in (f"127.0.0.1:{tape.port}", f"localhost:{tape.port}"):  # the page's own, as it is reached
        assert post(tape, f"http://{host}", "Sec-Fetch-Site: same-origin", host=host)[0] == 200
        assert post(tape, "null", "Sec-Fetch-Site: same-origin", host=host)[0] == 200  # after its Referrer-Policy
    assert post(tape, "null", "Sec-Fetch-Site: cross-site")[0] == 403
    write_tape(tmp_path / "n", ["Red"])
    for arguments, origin, headers, status in ((["--api-key", "k"], "https://evil.example", ["x-api-key: k"], 200),
                                               (["--cors", "https://chat.example"], "https://chat.example", [], 200),
                                               (["--cors", "https://chat.example"], "https://evil.example", [], 403),
                                               (["--cors", "null"], "null", [], 200), (["--cors", "*"], "null", [], 200)):
        s = Served(program, tmp_path / "n", *arguments)
        try:
            assert post(s, origin, *headers)[0] == status, (arguments, origin)
        finally:
            assert s.stop() == 0


def test_blanks_around_a_key_are_no_part_of_it(program, tmp_path):
    write_tape(tmp_path / "m", ["Red"])
    keys = tmp_path / "keys"
    keys.write_bytes(b"  # people\n \t\none \n\ttwo\t\r\n  three and a half")
    s = Served(program, tmp_path / "m", "--api-key-file", keys, "--api-key", " four ")
    try:
        for header in ("Authorization: Bearer one", "Authorization: Bearer  two", "authorization: bearer \t three and a half ", "x-api-key: four"):
            assert ask(s, "GET /v1/models HTTP/1.1", header)[0] == 200, header
        for header in ("Authorization: Bearer", "Authorization: Bearer  ", "Authorization: Bearer on e", "x-api-key: # people", "x-api-key: three"):
            assert ask(s, "GET /v1/models HTTP/1.1", header)[0] == 401, header
    finally:
        assert s.stop() == 0
