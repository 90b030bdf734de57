"""A server one of whose allocations is refused, or that and all that follow, those of libraries included:

    serve_memory.py PROGRAM MODEL SHIM FOLDER SAMPLES

SAMPLES numbers of allocations are tried, evenly spaced; 0: all of LL_FROM, LL_FROM + LL_STEP, .. LL_TO. Each time a
server starts, or ends with exit code 1 and a message. It gets the same requests again and again. An answer is the usual
one, an error in JSON, or a closed connection. After one refused allocation later answers are the usual ones, and SIGTERM
ends it. Without any memory it may end by itself and say why. Prints what is wrong, and at the end the number of trials
and of crashes within libraries."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

program, model, shim, folder, samples = sys.argv[1:6]
LIMIT = 30  # seconds for an answer or for an end
LIBRARIES = r"crash in .*/lib(jansson|microhttpd|gnutls|stdc)"


class Server:
    def __init__(self, **environment):
        self.log = os.path.join(folder, "served.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, "serve", model, "--listen", "127.0.0.1:0", "--threads", "1",
                 "--state-dir", os.path.join(folder, "kept")],
                stderr=log, env={**os.environ, "LD_PRELOAD": shim, **environment})
        self.port = None
        end = time.monotonic() + LIMIT
        while self.port is None and self.process.poll() is None and time.monotonic() < end:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said())
            self.port = int(found.group(1)) if found else time.sleep(0.002)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def ask(self, method, path, body=None):
        """Status and JSON or text; (0, None): the connection was closed."""
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
            data = None if body is None else json.dumps(body)
            c.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            r = c.getresponse()
            text = r.read().decode()
            kind = r.getheader("Content-Type")
            c.close()
            return r.status, json.loads(text) if kind == "application/json" else text
        except (ConnectionError, http.client.HTTPException):
            return 0, None

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            return self.process.wait()


def without_names(answer):
    """What is the same each time: no identifiers and times."""
    if isinstance(answer, dict):
        names = ("id", "session", "created", "last_used", "name")
        return {key: without_names(value) for key, value in answer.items() if key not in names}
    if isinstance(answer, list):
        return [without_names(value) for value in answer]
    return re.sub(r'"(id|created)": ?("[^"]*"|\d+),? ?', "", answer) if isinstance(answer, str) else answer


def requests(s):
    """The answers to one request of each kind."""
    text = {"prompt": "line 1", "max_tokens": 5, "seed": 1}
    chat = {"messages": [{"role": "user", "content": "1"}], "max_tokens": 3, "seed": 1}
    answers = [s.ask("GET", "/health"), s.ask("GET", "/v1/models"),
               s.ask("POST", "/v1/completions", {**text, "logprobs": 2, "n": 2}),
               s.ask("POST", "/v1/completions", {**text, "stream": True}),
               s.ask("POST", "/v1/chat/completions", chat),
               s.ask("POST", "/v1/embeddings", {"input": ["a", "b c"]}),
               s.ask("POST", "/v1/score", {"input": "line", "per_token": True}),
               s.ask("POST", "/v1/attention", {"input": "line", "layer": 0}),
               s.ask("POST", "/v1/completions", {"prompt": 1})]
    status, session = s.ask("POST", "/v1/sessions", {"prompt": "line 1"})
    answers.append((status, session))
    if status in (200, 201):
        at = "/v1/sessions/" + session["id"]
        answers += [s.ask("POST", at + "/append", {"prompt": " of"}),
                    s.ask("POST", at + "/generate", {"max_tokens": 3, "seed": 2}),
                    s.ask("POST", at + "/save", {}), s.ask("POST", at + "/restore", {}), s.ask("DELETE", at)]
    status, metrics = s.ask("GET", "/metrics")
    answers.append((status, bool(metrics)))
    return [(status, without_names(answer)) for status, answer in answers]


def is_fair(answer, usual):
    status, body = answer
    return answer == usual or status == 0 or (status >= 400 and isinstance(body, dict) and "error" in body)


def what_is_wrong(s, usual, manner):
    if s.port is None and s.process.poll() is None:
        return "it does not start"
    if s.port is None:
        return "" if s.said() else "it ends without a word"
    rounds = [requests(s), requests(s)]
    if manner == "once" and rounds[1] != usual:  # it was refused to the second
        rounds.append(requests(s))
    for answers in rounds:
        for i, answer in enumerate(answers[:9]):
            begun = i == 3 and answer[0] == 200  # a stream may end early
            if not begun and not is_fair(answer, usual[i]):
                return f"answer {i} is {str(answer)[:300]}"
    if s.process.poll() is not None:
        return "" if manner == "all" and "out of memory" in s.said() else "it ended by itself"
    if manner == "once" and rounds[-1] != usual:
        return "later answers are " + str([pair for pair in zip(rounds[-1], usual) if pair[0] != pair[1]])[:600]
    return ""


def numbers(count):
    if int(samples):
        return sorted({1 + i * (count - 1) // (int(samples) - 1) for i in range(int(samples))})
    first, last, step = (int(os.environ.get(name, usual)) for name, usual in
                         (("LL_FROM", 1), ("LL_TO", count), ("LL_STEP", 1)))
    return range(first, min(count, last) + 1, step)


def main():
    counted = os.path.join(folder, "count")
    s = Server(LL_COUNT=counted)
    usual = requests(s)
    if s.end() != 0 or any(status not in (200, 201) for status, _ in usual[:8]):
        raise SystemExit("without trouble: " + s.said() + str(usual))
    with open(counted, encoding="ascii") as f:
        count = int(f.read())
    trials = theirs = 0
    for n in numbers(count):
        for manner in os.environ.get("LL_MANNERS", "once all").split():
            s = Server(LL_AT=str(n), LL_ALL=manner)
            wrong = what_is_wrong(s, usual, manner)
            code = s.end()
            trials += 1
            if code not in (0, 1) and re.search(LIBRARIES, s.said()):
                theirs += 1
            elif wrong or code not in (0, 1):
                print(f"    allocation {n} of {count} ({manner}): exit code {code}; {wrong} {s.said()[-300:]}")
    print(f"{trials} trials, {theirs} crashes inside libraries")


main()
