"""Clients of `longline serve` that read slowly or not at all."""
import http.client
import json
import os
import re
import signal
import socket
import time

from serve_process import Server, check, events, read_all, request

# An answer of some 15 MB. Sockets and the server keep 6 MB for a client that does not read.
LONG = {"prompt": "line", "max_tokens": 2000, "n": 8, "logprobs": 20, "seed": 1, "stream": True, "ignore_end": True}


def stalled(s, body):
    """A client that has sent a request and reads nothing."""
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    c.settimeout(60)
    c.connect(("127.0.0.1", s.port))
    c.sendall(request(body, more=b"Connection: close\r\n"))
    return c


def logged(s, path):
    """The first line of the log about a path, which has 30 seconds to be there."""
    for _ in range(300):
        for line in s.said().split("\n"):
            if line.startswith("{") and json.loads(line).get("path") == path:
                return json.loads(line)
        time.sleep(0.1)
    return {}


def test_pause():
    """--idle is for what a client sends: it may stop reading for longer than that."""
    s = Server("--idle", "1")
    c = stalled(s, LONG)
    time.sleep(3)
    got = read_all(c)
    check("a stream that was not read for a while is whole", got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), got[-300:])
    check("its line in the log has no cut", "cut" not in logged(s, "/v1/completions"), s.said())
    check("it ends", s.end() == 0)


def test_unread():
    """What nobody reads is not generated, and others are answered meanwhile. All of it is there once it is read."""
    s = Server()
    c = stalled(s, LONG)
    made, before = -1, -2
    for _ in range(300):
        made, before = int(re.search(r"generated_tokens_total (\d+)", s.ask("GET", "/metrics")[2]).group(1)), made
        if made == before > 0:
            break
        time.sleep(0.2)
    check("a stream that is not read stops", made == before < 16000, made)
    check("another one is answered", s.post("/v1/completions", {"prompt": "a", "max_tokens": 5})[0] == 200)
    made = re.search(r"generated_tokens_total (\d+)", s.ask("GET", "/metrics")[2]).group(1)
    check("it goes on waiting", int(made) < 16000, made)
    answer = http.client.HTTPResponse(c)
    answer.begin()
    parts = [event["choices"][0] for event in events(answer.read().decode())[0]]
    whole = s.post("/v1/completions", {**LONG, "stream": False, "logprobs": 0})[2]["choices"]
    for k in (0, 7):
        text = "".join(p["text"] for p in parts if p["index"] == k)
        check(f"choice {k} is whole once it is read", text == whole[k]["text"], len(text))
    check("it ends", s.end() == 0)


def test_cut():
    """Who reads nothing for --send-timeout is cut off, and who goes away is noticed. The log says so."""
    s = Server("--send-timeout", "1")
    c = stalled(s, LONG)
    line = logged(s, "/v1/completions")
    check("the log has an answer that was cut off", line.get("cut") == "timeout" and line.get("status") == 200, line)
    check("not all of it was sent", b"[DONE]" not in read_all(c))
    check("it ends", s.end() == 0)
    s = Server()
    c = stalled(s, LONG)
    c.recv(100)
    c.close()
    line = logged(s, "/v1/completions")
    check("the log has a client that went away", line.get("cut") == "client", line)
    check("it ends", s.end() == 0)


def test_long_text():
    """A text whose tokens the token thread makes is read as the same one of numbers."""
    s = Server("--max-tokens", "40", "--max-input", "19800")
    text = "line 17 of 3 says it. " * 900
    asked = {"max_tokens": 9, "seed": 1, "echo": True}
    long, same = (s.post("/v1/completions", {**asked, "prompt": p})[2] for p in (text, list(text.encode())))
    check("a long text", long.get("choices") == same["choices"] and long["usage"] == same["usage"], (long, same))
    answer = s.post("/v1/completions", {**asked, "prompt": text, "model": "none"})
    check("is refused at once where it can be", answer[0] == 404, answer)
    check("and works for the side thread", s.post("/v1/embeddings", {"input": text})[0] == 200)
    for ask in (text + "x", [1] * 19801):
        status, _, answer = s.post("/v1/embeddings", {"input": ask})
        check("which reads --max-input tokens at most", status == 400 and answer["error"]["message"] ==
              "'input' has 19801 tokens; this server reads at most 19800 at once", answer)
    check("others read more", s.post("/v1/score", {"input": text + "x"})[0] == 200)
    usage = s.post("/v1/completions", {"prompt": "a", "max_tokens": -1, "ignore_end": True})[2]["usage"]
    check("max_tokens of -1 is the server's limit", usage["completion_tokens"] == 40, usage)
    check("it ends", s.end() == 0)


def resident(s):
    with open(f"/proc/{s.process.pid}/status", encoding="utf-8") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


def test_waiting():
    """A request that waits keeps its tokens, not the JSON that they came in."""
    s = Server("--batch", "1")
    first = stalled(s, {**LONG, "n": 1, "max_tokens": 60000})
    first.recv(100)
    before, count = resident(s), 200000
    held = [s.raw(request({"prompt": [1] * count, "max_tokens": 1})) for _ in range(6)]
    while int(re.search(r"waiting_requests (\d+)", s.ask("GET", "/metrics")[2]).group(1)) < len(held) - 1:
        time.sleep(0.05)
    bytes_a_token = (resident(s) - before) / count / len(held)
    check("tokens that wait take little memory", bytes_a_token < 24 or "TSAN_OPTIONS" in os.environ, bytes_a_token)
    for c in [first, *held]:
        c.close()
    check("it ends", s.end() == 0)


def test_long_json():
    """Requests of much JSON are read beside all else, whatever is in them: meanwhile they are counted as waiting."""
    s = Server()
    many = {str(i): 1 for i in range(200000)}
    clients = [s.raw(request({"prompt": "a", "logit_bias": many}, more=b"Connection: close\r\n")) for _ in range(4)]
    counted, tries = False, 2000
    while not counted and (tries := tries - 1):
        counted = "longline_waiting_requests 0\n" not in s.ask("GET", "/metrics")[2]
    check("the server answers while much JSON is read", counted)
    answers = [json.loads(read_all(c).split(b"\r\n\r\n", 1)[1])["error"]["param"] for c in clients]
    check("which is refused for what it says", answers == ["logit_bias"] * 4, answers)
    status, _, answer = s.ask("GET", "/v1/sessions", "{" + " " * 20000 + "}")
    check("a long request that names no model", status == 200 and answer["data"] == [], answer)
    check("it ends", s.end() == 0)


def test_stall():
    """Time in which the server itself stands still is not that of a client that sends."""
    s = Server("--idle", "1")
    clients = [s.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n") for _ in range(300)]
    s.process.send_signal(signal.SIGSTOP)
    for c in clients:
        c.sendall(b"Connection: close\r\n\r\n")
    time.sleep(3)
    s.process.send_signal(signal.SIGCONT)
    answers = [read_all(c) for c in clients]
    check("who sent all is answered after a stall", all(b" 200 " in a for a in answers), answers)
    check("it ends", s.end() == 0)


def test_half():
    """Who goes away within a request holds no connection for longer than --idle, also where its end came with its bytes."""
    s = Server("--idle", "1")
    s.process.send_signal(signal.SIGSTOP)
    for half in (b"POST /v1/comp", request({"prompt": "a"})[:-9]):
        for _ in range(20):
            s.raw(half).close()
    s.process.send_signal(signal.SIGCONT)
    for _ in range(300):
        if left := "longline_connections 1\n" in s.ask("GET", "/metrics")[2]:
            break
        time.sleep(0.1)
    check("who goes away within a request leaves no connection", left, s.ask("GET", "/metrics")[2])
    check("it ends", s.end() == 0)


def test_slow():
    test_stall()
    test_half()
    test_long_text()
    test_long_json()
    test_waiting()
    test_pause()
    test_unread()
    test_cut()
