"""Starts `longline serve`, and has what its test clients share: the arguments of serve_client.py, requests, checks."""
import atexit
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

program, model, folder = sys.argv[1:4]
JSON = {"Content-Type": "application/json"}


def check(name, good, more=""):
    print(("[ ok ] " if good else "[ FAIL ] ") + name + ("" if good else f": {str(more)[:2000]}"), flush=True)


class Server:
    """One server process on a port of its own. files: its soft and hard limit of open files."""

    def __init__(self, *options, served=model, listen="127.0.0.1:0", environment=None, files=None):
        self.log = open(os.path.join(folder, "log"), "w+b")
        self.process = subprocess.Popen([program, "serve", served, "--listen", listen, *options], stderr=self.log,
                                        env={**os.environ, **(environment or {})},
                                        preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)))
        atexit.register(self.process.kill)
        self.port = self.wait_for_port()

    def find_port(self):
        """None: it has ended, or did not start within 30 seconds."""
        end = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < end:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said())
            if found:
                return int(found.group(1))
            time.sleep(0.005)
        return None

    def wait_for_port(self):
        port = self.find_port()
        if port is None:
            raise SystemExit("[ FAIL ] the server starts: " + self.said())
        return port

    def said(self, *parts):
        """What it wrote, with each of the parts, for which it has 10 seconds: the log has a request after its answer."""
        end = time.monotonic() + 10
        while True:
            with open(self.log.name, encoding="utf-8", errors="replace") as f:
                text = f.read()
            if all(part in text for part in parts) or time.monotonic() > end:
                return text
            time.sleep(0.01)

    def ask(self, method, path, body=None, headers=JSON):
        """Returns status, headers, and the answer as JSON or text."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        c.request(method, path, data, headers)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        if r.getheader("Content-Type") == "application/json":
            return r.status, r, json.loads(text)
        return r.status, r, text

    def post(self, path, body, headers=JSON):
        return self.ask("POST", path, body, headers)

    def raw(self, data=b"", timeout=30):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        s.sendall(data)
        return s

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


def read_all(s):
    out = b""
    try:
        while True:
            part = s.recv(65536)
            if not part:
                return out
            out += part
    except (ConnectionError, TimeoutError):
        return out


def request(body, path="/v1/completions", more=b""):
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n").encode() + more + b"\r\n" + data


def events(text):
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1] == "[DONE]"
