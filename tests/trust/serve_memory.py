"""A server one of whose allocations is refused, or that and all that follow, those of libraries included:

    serve_memory.py PROGRAM MODEL FOLDER SHIM SAMPLES

SAMPLES numbers of allocations are tried, evenly spaced; 0: all of LL_FROM, LL_FROM + LL_STEP, .. LL_TO. Each time a
server starts, or ends with exit code 1 and a message. It gets the same requests again and again. An answer is the usual
one, an error in JSON, or a closed connection. After one refused allocation later answers are the usual ones, and
SIGTERM ends it. Without any memory it may end by itself and say why. Prints what is wrong, and at the end the number of
trials and of crashes within libraries. Exits with 1 if something was wrong."""
import http.client
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from serve_process import JSON, Server, folder  # it reads PROGRAM, MODEL and FOLDER

shim, samples = sys.argv[4:6]
LIMIT = 30  # seconds for an end
LIBRARIES = r"crash in .*/lib(jansson|microhttpd|gnutls|stdc)"


class Refused(Server):
    """A server with the shim, which may end by itself."""

    def __init__(self, **environment):
        super().__init__("--threads", "1", "--state-dir", os.path.join(folder, "kept"),
                         environment={"LD_PRELOAD": shim, **environment})

    def wait_for_port(self):
        return self.find_port()

    def answer(self, method, path, body=None):
        """Status and JSON or text; (0, None): the connection was closed."""
        try:
            status, _, answer = self.ask(method, path, body, {} if body is None else JSON)
            return status, answer
        except (ConnectionError, http.client.HTTPException):
            return 0, None

    def end_or_abort(self):
        """Its exit code; a server that does not end is made to print where it hangs."""
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
    answers = [s.answer("GET", "/health"), s.answer("GET", "/v1/models"),
               s.answer("POST", "/v1/completions", {**text, "logprobs": 2, "n": 2}),
               s.answer("POST", "/v1/completions", {**text, "stream": True}),
               s.answer("POST", "/v1/chat/completions", chat),
               s.answer("POST", "/v1/embeddings", {"input": ["a", "b c"]}),
               s.answer("POST", "/v1/score", {"input": "line", "per_token": True}),
               s.answer("POST", "/v1/attention", {"input": "line", "layer": 0}),
               s.answer("POST", "/v1/completions", {"prompt": 1})]
    status, session = s.answer("POST", "/v1/sessions", {"prompt": "line 1"})
    answers.append((status, session))
    if status in (200, 201):
        at = "/v1/sessions/" + session["id"]
        answers += [s.answer("POST", at + "/append", {"prompt": " of"}),
                    s.answer("POST", at + "/generate", {"max_tokens": 3, "seed": 2}),
                    s.answer("POST", at + "/save", {}), s.answer("POST", at + "/restore", {}), s.answer("DELETE", at)]
    status, metrics = s.answer("GET", "/metrics")
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
    s = Refused(LL_COUNT=counted)
    usual = requests(s)
    if s.end_or_abort() != 0 or any(status not in (200, 201) for status, _ in usual[:8]):
        raise SystemExit("without trouble: " + s.said() + str(usual))
    with open(counted, encoding="ascii") as f:
        count = int(f.read())
    trials = theirs = bad = 0
    for n in numbers(count):
        for manner in os.environ.get("LL_MANNERS", "once all").split():
            s = Refused(LL_AT=str(n), LL_ALL=manner)
            wrong = what_is_wrong(s, usual, manner)
            code = s.end_or_abort()
            trials += 1
            if code not in (0, 1) and re.search(LIBRARIES, s.said()):
                theirs += 1
            elif wrong or code not in (0, 1):
                bad += 1
                print(f"    allocation {n} of {count} ({manner}): exit code {code}; {wrong} {s.said()[-300:]}")
    print(f"{trials} trials, {theirs} crashes inside libraries")
    sys.exit(bad > 0)


main()
