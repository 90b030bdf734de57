"""Clients of `longline serve`, good and bad: serve_client.py PROGRAM MODEL FOLDER LEARNED BROKEN FILMS WORDS IMAGES PATCHES EXACT.
LEARNED has learned positions, logits of BROKEN are not finite after the byte 0, FILMS classifies films, WORDS writes words,
IMAGES classifies images of 16 pixels, PATCHES the same in 4 patches, EXACT has exact attention. Prints a line for each check.
serve_process.py has the server, serve_sessions.py the tests of sessions, serve_names.py those of names, serve_wire.py
those of what clients read, serve_slow.py those of clients that read slowly, serve_queue.py those of requests that wait,
serve_images.py those of models of images."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from serve_images import test_images, test_patches
from serve_names import test_names
from serve_process import JSON, Server, check, events, folder, model, program, read_all, request
from serve_queue import test_queues
from serve_sessions import (test_broken, test_broken_off, test_files, test_growth, test_keys, test_kill, test_learned, test_quota,
                            test_sessions)
from serve_slow import test_slow
from serve_wire import test_wire

SECRET = "line 17 of 3 says it"  # a text that must not be in the log


# ---- Answers ----

def test_answers(s):
    body = {"prompt": SECRET, "max_tokens": 60, "seed": 3, "temperature": 0.9, "logprobs": 3}
    status, _, whole = s.post("/v1/completions", body)
    choice = whole["choices"][0]
    check("a completion", status == 200 and choice["finish_reason"] == "length", whole)
    generated = subprocess.run([program, "generate", model, "--prompt", SECRET, "--tokens", "60", "--seed", "3",
                                "--temperature", "0.9"], capture_output=True, check=True).stdout
    check("the text that generate writes", choice["text"] == generated.decode(errors="replace"), (choice, generated))
    check("usage", whole["usage"] == {"prompt_tokens": 20, "completion_tokens": 60, "total_tokens": 80}, whole["usage"])
    logs = choice["logprobs"]
    check("a log-probability for each token", len(logs["tokens"]) == 60 and all(len(t) == 3 for t in logs["top_logprobs"])
          and all(max(t.values()) >= p for t, p in zip(logs["top_logprobs"], logs["token_logprobs"])), logs)
    _, r, text = s.post("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    parts, done = events(text)
    check("a stream is server-sent events", r.getheader("Content-Type") == "text/event-stream" and done, text)
    check("it has the same text", "".join(p["choices"][0]["text"] for p in parts[:-1]) == choice["text"], text)
    check("and the same log-probabilities", sum((p["choices"][0]["logprobs"]["token_logprobs"] for p in parts[:-1]), [])
          == logs["token_logprobs"], text)
    check("and its usage last", parts[-1]["usage"] == whole["usage"] and parts[-2]["choices"][0]["finish_reason"] == "length")
    text = choice["text"]
    stop = re.search(r"[ -~]{2}", text[5:]).group(0)
    _, _, cut = s.post("/v1/completions", {**body, "stop": ["never in it" + "!" * 245, stop]})
    check("a stop text ends it and is not given", cut["choices"][0]["text"] == text[:text.index(stop)] and
          cut["choices"][0]["finish_reason"] == "stop", cut)
    _, _, many = s.post("/v1/completions", {**body, "n": 3})
    check("n choices, the first as if alone", many["choices"][0] == choice and many["choices"][1]["text"] != text
          and [c["index"] for c in many["choices"]] == [0, 1, 2], many)
    _, _, echo = s.post("/v1/completions", {**body, "echo": True, "max_tokens": 0})
    _, _, score = s.post("/v1/score", {"input": SECRET, "per_token": True})
    check("echo scores the prompt", echo["choices"][0]["text"] == SECRET and
          echo["choices"][0]["logprobs"]["token_logprobs"] == score["data"][0]["token_logprobs"], (echo, score))
    with open(os.path.join(folder, "one.txt"), "w", encoding="utf-8") as f:
        f.write(SECRET + "\n")
    scored = subprocess.run([program, "score", model, f.name, "--json"], capture_output=True, check=True).stdout
    check("score as the command", abs(json.loads(scored)["logp"] - score["data"][0]["logprob"]) < 1e-3, (scored, score))
    _, _, tokens = s.post("/v1/completions", {**body, "prompt": list(SECRET.encode())})
    check("a prompt of tokens", tokens["choices"][0] == choice, tokens)
    _, _, said = s.post("/v1/completions", {**body, "prompt": list(SECRET.encode()), "echo": True})
    _, _, same = s.post("/v1/completions", {**body, "echo": True})
    check("echo gives a prompt of tokens as text", said["choices"] == same["choices"], (said, same))
    _, _, zero = s.post("/v1/completions", {**body, "prompt": "a\0b", "echo": True, "max_tokens": 0})
    check("a prompt with the byte 0", zero["choices"][0]["text"] == "a\0b" and zero["usage"]["prompt_tokens"] == 3, zero)
    empty, line = (s.post("/v1/completions", {**body, "prompt": p, "echo": True})[2] for p in ("", "\n"))
    check("an empty prompt is a newline, which echo has, too", empty["choices"] == line["choices"] and
          empty["choices"][0]["text"][:1] == "\n" and empty["usage"] == line["usage"], (empty, line))
    _, _, both = s.post("/v1/completions", {**body, "prompt": ["x", SECRET]})
    check("two prompts", both["choices"][1] == {**choice, "index": 1}, both)
    _, _, chat = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "17"}], "max_tokens": 9, "seed": 1})
    _, _, same = s.post("/v1/completions", {"prompt": "line 17 of", "max_tokens": 9, "seed": 1})
    check("a chat by its template", chat["choices"][0]["message"] == {"role": "assistant", "content": same["choices"][0]["text"]},
          (chat, same))
    asked = {"messages": [{"role": "user", "content": "17"}], "max_tokens": 400, "seed": 1}
    _, _, ended = s.post("/v1/chat/completions", asked)
    _, _, more = s.post("/v1/chat/completions", {**asked, "stop": [f"never in it {i}" for i in range(16)]})
    check("the template's stop texts are beside all those of the request", ended["choices"][0]["finish_reason"] == "stop" and
          more["choices"] == ended["choices"], (ended, more))
    _, _, e = s.post("/v1/embeddings", {"input": ["a b", "c"]})
    check("embeddings", len(e["data"]) == 2 and len(e["data"][0]["embedding"]) == 32, e)
    test_attention(s)
    _, _, models = s.ask("GET", "/v1/models")
    name = models["data"][0]["id"]
    check("models", s.ask("GET", "/v1/models/" + name)[2]["id"] == name and s.post("/v1/completions", {**body, "model": name})[0] == 200)
    check("health", s.ask("GET", "/health")[2] == {"status": "ok"})
    metrics = s.ask("GET", "/metrics")[2]
    check("metrics", all(re.fullmatch(r"(# (HELP|TYPE) .*|longline_\w+(\{\w+=\"[^\"]*\"\})? -?[0-9.e+-]+)", line)
                         for line in metrics.split("\n") if line), metrics)
    page = s.ask("GET", "/")
    check("the page has a strict policy", "default-src 'none'" in page[1].getheader("Content-Security-Policy") and
          "unsafe" not in page[1].getheader("Content-Security-Policy"))


def test_attention(s):
    text = "line 17 of 3 says 5"
    a = s.post("/v1/attention", {"input": text})[2]
    n = len(text)
    check("attention of the last token, in the last layer", a["query"] == n - 1 and a["layer"] == 0 and a["layers"] == 1 and
          a["tokens"] == list(text) and len(a["weights"]) == 2 and all(len(w) == n for w in a["weights"]), a)
    check("its weights add up to one", all(abs(sum(w) - 1) < 2e-3 and min(w) >= 0 for w in a["weights"]), a)
    b = s.post("/v1/attention", {"input": list(text.encode()), "query": 6, "layer": 0})[2]
    check("of another, none to later tokens", b["query"] == 6 and all(w[7:] == [0] * (n - 7) and max(w[:7]) > 0 for w in b["weights"]), b)
    c = s.post("/v1/attention", {"input": text[:7]})[2]
    check("which change nothing", all(abs(x - y) < 1e-4 for v, w in zip(b["weights"], c["weights"]) for x, y in zip(v, w)), (b, c))


def test_refusals(s):
    ok = {"prompt": "a", "max_tokens": 1}
    sess = "/v1/sessions/sess_" + "0" * 32
    chat = {"role": "user", "content": "a"}
    cases = [
        ("/v1/completions", "{\"prompt\": ", 400, None), ("/v1/completions", "[1]", 400, None),
        ("/v1/completions", "{\"n\":1,\"n\":2}", 400, None), ("/v1/completions", "[" * 5000, 400, None),
        ("/v1/completions", {**ok, "temperature": -1}, 400, "temperature"),
        ("/v1/completions", {**ok, "temperature": "hot"}, 400, "temperature"),
        ("/v1/completions", {**ok, "top_p": 1.5}, 400, "top_p"), ("/v1/completions", {**ok, "n": 0}, 400, "n"),
        ("/v1/completions", {**ok, "n": 100}, 400, "n"), ("/v1/completions", {**ok, "seed": 0.5}, 400, "seed"),
        ("/v1/completions", {**ok, "stop": [1]}, 400, "stop"), ("/v1/completions", {**ok, "stop": ""}, 400, "stop"),
        ("/v1/completions", {**ok, "stop": ["a" * 256, "a" * 257]}, 400, "stop"),
        ("/v1/completions", {**ok, "max_tokens": 10 ** 9}, 400, "max_tokens"),
        ("/v1/completions", {**ok, "max_tokens": -2}, 400, "max_tokens"),
        ("/v1/completions", {**ok, "logprobs": 99}, 400, "logprobs"),
        ("/v1/completions", {**ok, "presence_penalty": 1}, 400, "presence_penalty"),
        ("/v1/completions", {**ok, "colour": "red"}, 400, "colour"),
        ("/v1/completions", {**ok, "prompt": [[1, 2], "a", 3.5]}, 400, "prompt"),
        ("/v1/completions", {**ok, "prompt": [1, 256]}, 400, "prompt"),
        ("/v1/completions", {**ok, "prompt": []}, 400, "prompt"),
        ("/v1/completions", {**ok, "prompt": ["a"] * 65}, 400, "prompt"),
        ("/v1/embeddings", {"input": ["a"] * 65}, 400, "input"), ("/v1/score", {"input": ["a"] * 257}, 400, "input"),
        ("/v1/chat/completions", {"messages": ["a"]}, 400, "messages.0"),
        ("/v1/completions%00", ok, 404, None),
        ("/v1/completions", {**ok, "stream_options": {}, "stream": 1}, 400, "stream"),
        ("/v1/completions", {**ok, "model": "no/such"}, 404, "model"), ("/v1/completions", {**ok, "model": "run\0"}, 400, "model"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages"), ("/v1/chat/completions", {}, 400, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "messages.0.content"),
        ("/v1/chat/completions", {"messages": [{"role": "pirate", "content": "a"}]}, 400, "messages.0.role"),
        ("/v1/chat/completions", {"messages": [chat], "top_logprobs": 2}, 400, "top_logprobs"),
        ("/v1/chat/completions", {"messages": [chat], "top_logprobs": 2, "logprobs": False}, 400, "top_logprobs"),
        ("/v1/embeddings", {}, 400, "input"), ("/v1/embeddings", {"input": "a", "encoding_format": "x"}, 400, "encoding_format"),
        ("/v1/classify", {"input": "a"}, 400, "model"), ("/v1/score", {"input": ""}, 400, "input"),
        ("/v1/attention", {}, 400, "input"), ("/v1/attention", {"input": "a", "layer": 1}, 400, "layer"),
        ("/v1/attention", {"input": "a", "query": 1}, 400, "query"), ("/v1/attention", {"input": "a" * 4097}, 400, "input"),
        ("/v1/attention", {"input": ["a", "b"]}, 400, "input"), ("/v1/attention", {"input": "a", "query": -2}, 400, "query"),
        ("/v1/nothing", ok, 404, None), ("/v1/sessions/../../etc/passwd", {}, 404, "session"), (sess + "/save", {}, 404, "session"),
        ("/v1/sessions/sess_%2e%2e%2f/save", {}, 404, "session"), (sess + "/append", {"prompt": "a"}, 404, "session"),
    ]
    for path, body, status, param in cases:
        got, _, answer = s.post(path, body)
        error = answer.get("error", {}) if isinstance(answer, dict) else {}
        check(f"{status} {param}: {path} {str(body)[:60]}", got == status and error.get("param") == param and
              error.get("message") and error.get("type") == "invalid_request_error", (got, answer))
    for name in ("é" * 80, "a" + "é" * 80):  # it is shortened, but not within a character
        error = s.post("/v1/completions", {**ok, name: 1})[2]["error"]
        check("a long name of a field", "there is no field 'a" in error["message"].replace("é", "a") and
              name.startswith(error["param"]) and error["param"], error)
        error = s.post("/v1/completions", {**ok, "model": name})[2]["error"]
        check("a long name of a model", "there is no model" in error["message"] and error["param"] == "model", error)
    foreign = {"Origin": "http://evil.example"}
    check("a page of another site makes no session", s.ask("POST", "/v1/sessions", None, foreign)[0] == 415 and
          s.ask("POST", "/v1/completions", "", foreign)[0] == 415)
    check("a program may, without a body", s.ask("DELETE", "/v1/sessions/" + s.ask("POST", "/v1/sessions", None, {})[2]["id"])[0] == 200)
    untyped = s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    check("415 of a body in chunks, without a type", b" 415 " in untyped.recv(100))
    untyped.close()
    for path, lengths in (("GET /health", b"Content-Length: 3\r\nContent-Length: 30\r\n"),
                          ("POST /v1/completions", b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n")):
        twice = s.raw(path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n")
        got = b"".join(iter(lambda: twice.recv(4096), b""))
        check(f"400 of two lengths, and the connection ends: {path}", b" 400 " in got and b"more than one header" in got, got)
        twice.close()
    check("405", s.ask("PUT", "/v1/completions", "{}")[0] == 405)
    check("415", s.post("/v1/completions", "{}", {"Content-Type": "text/plain"})[0] == 415)
    check("413 by its length", s.post("/v1/completions", {"prompt": "a" * 70000})[0] == 413)
    evil = {"Host": "evil.example:8080"}
    check("another site's name is refused", s.ask("GET", "/v1/models", headers=evil)[0] == 403 and
          s.ask("GET", "/", headers=evil)[0] == 403 and s.ask("GET", "/health", headers=evil)[0] == 200)


def test_classes(films):
    s = Server(served=films)
    texts = ["film 7 is good", "film 8 is dull", "good"]
    answer = s.post("/v1/classify", {"input": texts, "top": 2})[2]
    with open(os.path.join(folder, "films.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(texts) + "\n")
    said = subprocess.run([program, "classify", films, f.name, "--top", "2", "--json"], capture_output=True, check=True).stdout
    expected = [json.loads(line)["top"] for line in said.decode().strip().split("\n")]
    got = [d["classes"] for d in answer["data"]]
    check("classes, with their names, as the command", len(got) == 3 and all(
        [c["class"] for c in g] == [c["class"] for c in e] and abs(g[0]["probability"] - e[0]["probability"]) < 1e-5
        for g, e in zip(got, expected)), (got, expected))
    check("the right ones", [g[0]["class"] for g in got[:2]] == ["good", "dull"] and
          all(abs(sum(c["probability"] for c in g) - 1) < 1e-5 for g in got), got)
    check("usage of them", answer["usage"]["prompt_tokens"] == sum(len(t) for t in texts), answer["usage"])
    one = s.post("/v1/classify", {"input": texts[0]})[2]["data"]
    check("one class where no more are asked for", len(one) == 1 and len(one[0]["classes"]) == 1, one)
    a = s.post("/v1/attention", {"input": texts[0], "query": 0})[2]
    check("attention of the token before the text, to all of it", a["tokens"] == [None, *texts[0]] and
          all(len(w) == 1 + len(texts[0]) and w[-1] != 0 for w in a["weights"]), a)
    check("it makes no text", s.post("/v1/completions", {"prompt": "a"})[2]["error"]["param"] == "model")
    error = s.post("/v1/score", {"input": "a"})[2]["error"]
    check("nor a score", error["message"] == "the model 'films' (model.task = classify) gives no probabilities of sequences" and
          error["param"] == "model", error)
    check("and ends", s.end() == 0)


def test_words(path):
    """The echo of a model of words is the text of its tokens, and offsets are in it."""
    s = Server(served=path)
    body = {"echo": True, "max_tokens": 7, "seed": 2, "logprobs": 1}
    for prompt in ("line 3 of", "the   line\tis zzz of  \n 3   says", "line  \u00e9\u00e9 of"):
        whole = s.post("/v1/completions", {**body, "prompt": prompt})[2]
        text, logs = whole["choices"][0]["text"], whole["choices"][0]["logprobs"]
        ends = [*logs["text_offset"][1:], len(text)]
        check("each token is at its offset", whole["usage"]["completion_tokens"] == 7 and logs["tokens"] ==
              [text[a:b] for a, b in zip(logs["text_offset"], ends)] and text.split()[:1] != ["of"], whole)
        parts, _ = events(s.post("/v1/completions", {**body, "prompt": prompt, "stream": True})[2])
        check("in a stream, too", "".join(p["choices"][0]["text"] for p in parts) == text and logs["text_offset"] ==
              sum((p["choices"][0]["logprobs"]["text_offset"] for p in parts), []), parts)
        alone = s.post("/v1/completions", {**body, "prompt": prompt, "echo": False})[2]["choices"][0]
        check("and the same text follows", text.endswith(alone["text"]) and alone["text"], (text, alone))
    said = subprocess.run([program, "generate", path, "--prompt", "line 3 of", "--echo", "--tokens", "7", "--seed", "2"],
                          capture_output=True, check=True).stdout.decode()
    text = s.post("/v1/completions", {**body, "prompt": "line 3 of"})[2]["choices"][0]["text"]
    check("an echo as generate --echo prints it", said == text, (said, text))
    check("it ends", s.end() == 0)


# ---- The same bits, whatever runs at the same time ----

def test_parallel(s):
    bodies = [{"prompt": f"line {i} of {i * i}" * (1 + i * 3), "max_tokens": 20 + i, "seed": i, "logprobs": 2, "n": 1 + i % 3,
               "temperature": 1 + i % 2} for i in range(10)]
    alone = [s.post("/v1/completions", b)[2]["choices"] for b in bodies]
    got = [None] * len(bodies)

    def one(i):
        got[i] = s.post("/v1/completions", bodies[i])[2]["choices"]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(bodies))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check("the same bits beside others", got == alone)


# ---- Clients that are slow or broken ----

def test_bad_clients(s):
    slow = [s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX") for _ in range(20)]
    body = {"prompt": "a", "max_tokens": 3, "seed": 1}
    right = s.post("/v1/completions", body)[2]["choices"]
    gone = s.raw(request({"prompt": "a", "max_tokens": 60000, "stream": True}))
    gone.recv(100)
    gone.close()
    half = s.raw(request(body, more=b"Connection: close\r\n"))
    half.shutdown(socket.SHUT_WR)
    answer = read_all(half)
    check("a half-closed client gets its answer or nothing", not answer or
          json.loads(answer.split(b"\r\n\r\n", 1)[1])["choices"] == right, answer)
    bytewise = s.raw()
    bytewise.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request(body, more=b"Connection: close\r\n"):
        bytewise.sendall(bytes([byte]))
    check("one byte at a time", b'"finish_reason":"length"' in read_all(bytewise))
    data = json.dumps(body).encode()
    chunks = b"".join(b"1\r\n" + bytes([c]) + b"\r\n" for c in data) + b"0\r\n\r\n"
    chunked = s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    check("chunks of one byte", b'"finish_reason":"length"' in read_all(chunked))
    endless = s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(40):
            endless.sendall(b"1000\r\n" + b"a" * 4096 + b"\r\n")
        endless.sendall(b"0\r\n\r\n")
    except ConnectionError:
        pass
    answer = endless.recv(65536)
    check("a body without an end is cut off", b" 413 " in answer, answer)
    huge = s.raw()
    try:
        huge.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 200000 + b"\r\n\r\n")
    except ConnectionError:
        pass
    answer = read_all(huge)
    check("huge headers are refused", answer[9:12] in (b"431", b"413", b"400", b""), answer)
    check("others are served meanwhile", s.post("/v1/completions", body)[2]["choices"] == right)
    start = time.monotonic()
    closed = [read_all(c) for c in slow]
    check("who takes longer than --idle is cut off", time.monotonic() - start < 20 and all(b" 200 " not in c for c in closed), closed)
    for _ in range(100):
        if "longline_active_choices 0" in s.ask("GET", "/metrics")[2]:
            break
        time.sleep(0.1)
    check("who goes away leaves nothing running", "longline_active_choices 0" in s.ask("GET", "/metrics")[2])


def test_log(s):
    lines = s.said().split("\n")
    check("the log is lines of JSON", all(json.loads(line) for line in lines if line and not line.startswith("longline serve: ")))
    check("without anybody's texts", SECRET not in s.said() and "of 3 says" not in s.said())


def main():
    s = Server("--idle", "3", "--max-body", "65536", "--state-dir", os.path.join(folder, "one"))
    test_answers(s)
    test_refusals(s)
    test_wire(s)
    test_parallel(s)
    test_sessions(s)
    test_bad_clients(s)
    test_log(s)
    check("it ends at SIGTERM", s.end() == 0)
    test_queues()
    test_slow()
    test_names()
    test_quota()
    test_files()
    test_kill(("--state-dir", os.path.join(folder, "two")))
    test_broken_off()
    test_keys()
    test_learned(sys.argv[4])
    test_broken(sys.argv[5])
    test_classes(sys.argv[6])
    test_words(sys.argv[7])
    test_images(sys.argv[8])
    test_patches(sys.argv[9])
    test_growth(sys.argv[10])


signal.alarm(240)  # ends the test if something hangs
main()
