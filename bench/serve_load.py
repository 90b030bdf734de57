#!/usr/bin/env python3
"""Load on `longline serve`: bench/serve_load.py PROGRAM MODEL [--clients 1,8,64,256] [--seconds 10] [--sessions 0]
[--session-memory BYTES].

Starts a server on loopback. So many clients at a time stream completions for so many seconds, each its next as soon as
one ends. Prints tokens a second, and the median and the 99th percentile of the time to the first token and between
tokens, as clients see them. One process with one thread is all clients: it takes part of a core itself. With --sessions N
it opens N sessions, goes on with each once, and prints what they hold.
"""
import argparse
import json
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


def start(program, model, options):
    log = tempfile.NamedTemporaryFile("w+", suffix=".log")
    process = subprocess.Popen([program, "serve", model, "--listen", "127.0.0.1:0", *options], stderr=log)
    for _ in range(1200):
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", open(log.name, encoding="utf-8").read())
        if found:
            return process, int(found.group(1)), log
        if process.poll() is not None:
            break
        time.sleep(0.05)
    sys.exit("the server did not start: " + open(log.name, encoding="utf-8").read())


class Client:
    """One connection after the other, each with one streamed completion."""

    def __init__(self, load, number):
        self.load, self.number = load, number
        self.begin()

    def begin(self):
        self.number += 1000
        prompt = "It was the best of times. " * self.load.repeat
        body = json.dumps({"prompt": prompt, "max_tokens": self.load.tokens, "seed": self.number, "stream": True}).encode()
        self.buffer, self.last, self.began = b"", None, time.monotonic()
        self.socket = socket.create_connection(("127.0.0.1", self.load.port))
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.load.selector.register(self.socket, selectors.EVENT_READ, self)

    def read(self):
        data = self.socket.recv(1 << 16)
        now = time.monotonic()
        if not data:
            self.load.selector.unregister(self.socket)
            self.socket.close()
            self.load.done += 1
            self.begin()
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for _ in range(sum(line.startswith(b"data: {") for line in lines)):
            (self.load.first if self.last is None else self.load.between).append(now - (self.last or self.began))
            self.last = now


class Load:
    def __init__(self, port, tokens, repeat):
        self.port, self.tokens, self.repeat = port, tokens, repeat

    def run(self, clients, seconds):
        self.selector, self.first, self.between, self.done = selectors.DefaultSelector(), [], [], 0
        before = generated(self.port)
        start = time.monotonic()
        for i in range(clients):
            Client(self, i)
        while time.monotonic() - start < seconds:
            for key, _ in self.selector.select(0.1):
                key.data.read()
        rate = (generated(self.port) - before) / (time.monotonic() - start)
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        while "longline_active_choices 0\n" not in get(self.port, "/metrics"):
            time.sleep(0.1)
        return rate


def get(port, path):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120).read().decode()


def generated(port):
    return int(re.search(r"^longline_generated_tokens_total (\d+)", get(port, "/metrics"), re.M).group(1))


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=120))


def share(x, part):
    return sorted(x)[min(len(x) - 1, int(part * len(x)))] * 1e3 if x else float("nan")


def open_sessions(port, n):
    start = time.monotonic()
    ids = [post(port, "/v1/sessions", {"prompt": f"number {i}: It was"})["id"] for i in range(n)]
    opened = time.monotonic()
    for each in ids:
        post(port, f"/v1/sessions/{each}/generate", {"max_tokens": 1, "seed": 1})
    end = time.monotonic()
    copies = [post(port, f"/v1/sessions/{each}/fork", {})["id"] for each in ids[-100:]]
    forked = time.monotonic()
    for each in copies:
        post(port, f"/v1/sessions/{each}/save", {})
    saved = time.monotonic()
    for each in copies:
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/sessions/{each}", method="DELETE")).read()
    numbers = dict(re.findall(r"^longline_(session_\w+|sessions\w*|resident_memory_bytes) (\d+)", get(port, "/metrics"), re.M))
    print(f"{len(copies)} of them: forked in {(forked - end) / len(copies) * 1e3:.2f} ms each, saved in "
          f"{(saved - forked) / len(copies) * 1e3:.2f} ms each")
    print(f"{n} sessions: opened in {(opened - start) / n * 1e3:.2f} ms each, gone on with in {(end - opened) / n * 1e3:.2f} ms "
          f"each; {int(numbers['session_memory_bytes']) / 1e6:.0f} MB in memory, {int(numbers['session_disk_bytes']) / 1e6:.0f} MB "
          f"on disk, the process {int(numbers['resident_memory_bytes']) / 1e6:.0f} MB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("model")
    p.add_argument("--clients", default="1,8,64,256")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--repeat", type=int, default=1, help="of a prompt of 26 bytes")
    p.add_argument("--sessions", type=int, default=0)
    p.add_argument("--session-memory", type=int, default=1 << 30)
    a = p.parse_args()
    levels = [int(n) for n in a.clients.split(",") if n]
    with tempfile.TemporaryDirectory() as folder:
        process, port, _log = start(a.program, a.model, ["--batch", str(max([*levels, 64])), "--state-dir", folder,
                                                      "--session-memory", str(a.session_memory)])
        try:
            print("clients  tokens/s  first p50  first p99  between p50  between p99  (ms)")
            for n in levels:
                load = Load(port, a.tokens, a.repeat)
                rate = load.run(n, a.seconds)
                print(f"{n:7d} {rate:9.0f} {share(load.first, 0.5):10.1f} {share(load.first, 0.99):10.1f} "
                      f"{share(load.between, 0.5):12.1f} {share(load.between, 0.99):12.1f}", flush=True)
            if a.sessions:
                open_sessions(port, a.sessions)
        finally:
            process.terminate()
            process.wait(60)


main()
