"""Requests of `longline serve` that wait, and what ends them."""
import os
import select
import signal
import time

from serve_process import Server, check, folder, read_all, request

LONG = {"prompt": "a", "max_tokens": 60000, "stream": True, "ignore_end": True}


def waits_for(s, n, name="waiting_requests"):
    """Is the metric n within 10 seconds?"""
    for _ in range(200):
        if f"longline_{name} {n}\n" in s.ask("GET", "/metrics")[2]:
            return True
        time.sleep(0.05)
    return False


def running(s, body, path="/v1/completions"):
    """A client whose stream has begun."""
    c = s.raw(request(body, path, b"Connection: close\r\n"))
    c.recv(100)
    return c


def test_queue():
    s = Server("--batch", "1", "--queue", "1", "--session-memory", "65536")
    made = [s.ask("POST", "/v1/sessions", None, {})[0] for _ in range(6)]
    check("429 where no more sessions fit into memory", made[0] == 200 and made[-1] == 429, made)
    long = request({"prompt": "a", "max_tokens": 60000, "stream": True})
    first = s.raw(long)
    first.recv(100)
    held = [s.raw(long) for _ in range(4)]  # one may wait; the rest are refused at once
    refused = b""
    while b" 429 " not in refused and (ready := select.select(held, [], [], 10)[0]):
        refused = ready[0].recv(1000)
        if b" 429 " not in refused:
            held.remove(ready[0])
    check("429 and Retry-After where too many wait", refused and b" 429 " in refused and b"Retry-After" in refused, refused)
    for c in [first, *held]:
        c.close()
    check("it ends all the same", s.end() == 0)


def test_drain():
    """--drain is for requests of the side thread as well, those that wait and the one that runs."""
    s = Server("--drain", "0")
    body = request({"input": ["a" * 60000] * 64}, "/v1/embeddings", b"Connection: close\r\n")
    held = [s.raw(body) for _ in range(3)]
    waits_for(s, 2)
    check("it ends", s.end() == 0)
    answers = [read_all(c) for c in held]
    check("503 at SIGTERM with --drain 0", all(b" 503 " in a[:20] and b"going down" in a for a in answers), answers)


def test_gone():
    """Whoever waits for a whole answer and goes away leaves the batch to others."""
    s = Server("--batch", "1", "--max-tokens", "1000000000")
    for stream, behind in ((False, b""), (True, b""), (False, b"\r\n")):  # nobody reads what is behind its request
        c = s.raw(request({"prompt": "a", "max_tokens": 900000000, "stream": stream}))
        waits_for(s, 1, "active_choices")
        c.sendall(behind)
        c.close()
        done = s.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[0]
        check("the next is answered after one that is gone", done == 200, done)
    check("it ends", s.end() == 0)


def test_count():
    """--queue bounds all requests that wait, whoever is to answer them."""
    s = Server("--batch", "1", "--queue", "3")
    first = running(s, LONG)
    one = request({"prompt": "a", "max_tokens": 1}, more=b"Connection: close\r\n")
    held = [s.raw(one) for _ in range(3)]
    check("so many wait as --queue says, and all are counted", waits_for(s, 3), s.ask("GET", "/metrics"))
    for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/completions", {"prompt": "a" * 20000}),
                       ("/v1/embeddings", {"input": "a"})):
        status, _, answer = s.post(path, body)
        check("another is refused", status == 429, (path, answer))
    first.close()
    answers = [read_all(c) for c in held]
    check("those are answered in the end", all(b" 200 " in a[:20] for a in answers), answers)
    check("and no longer wait", waits_for(s, 0) and s.post("/v1/embeddings", {"input": "a" * 20000})[0] == 200)
    check("it ends", s.end() == 0)


def test_gone_at_the_end():
    """Who goes away while the server ends is noticed, and the server does not go on for nobody."""
    s = Server("--max-tokens", "1000000000", "--drain", "200")
    c = s.raw(request({"prompt": "a", "max_tokens": 900000000}))
    waits_for(s, 1, "active_choices")
    s.process.send_signal(signal.SIGTERM)
    s.said("ending what runs")
    c.close()
    check("it ends without those that are gone", s.process.wait(30) == 0)


def test_connections():
    """Connections, as many as there may be, leave files to save sessions in."""
    for hard, most in ((1000, 200), (128, 64)):
        s = Server("--max-connections", "200", "--state-dir", os.path.join(folder, "connections"), files=(100, hard))
        path = "/v1/sessions/" + s.post("/v1/sessions", {"prompt": "line 3"})[2]["id"]
        one = s.raw()
        idle = [s.raw() for _ in range(220)]
        time.sleep(0.5)
        one.sendall(request({}, path + "/save"))
        answer = one.recv(1000)
        check(f"a session is saved beside {most} connections", b" 200 " in answer[:20], answer)
        told = f"--max-connections {most} instead of 200, as {hard} files may be open (ulimit -n)" in s.said()
        check("the server says where fewer are possible", told == (hard == 128), s.said())
        for c in [one, *idle]:
            c.close()
        check("it ends", s.end() == 0)


def test_gone_waiting():
    """Who waits and goes away neither keeps its place in the queue nor keeps others waiting."""
    s = Server("--batch", "2", "--queue", "2")
    first = running(s, LONG)
    both = [s.raw(request({"prompt": "a", "n": 2})) for _ in range(2)]  # the first of them does not fit
    check("two wait for more places than there are", waits_for(s, 2) and s.post("/v1/completions", {"prompt": "a"})[0] == 429)
    for c in both:
        c.close()
    check("they wait no longer once they are gone", waits_for(s, 0), s.ask("GET", "/metrics"))
    check("who needs one place gets it", s.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200)
    first.close()
    check("it ends", s.end() == 0)


def test_calls():
    """Calls on sessions that take no place of the batch wait for none, nor do they count where too many wait."""
    s = Server("--batch", "2", "--queue", "1", "--state-dir", os.path.join(folder, "calls"))
    a, b = ("/v1/sessions/" + s.post("/v1/sessions", {"prompt": text})[2]["id"] for text in ("line 3", "line 8"))
    own, other = running(s, LONG, a + "/generate"), running(s, LONG)
    waits = s.raw(request({"prompt": "a"}))
    check("the batch is full, and so is the queue", waits_for(s, 1) and s.post("/v1/completions", {"prompt": "a"})[0] == 429)
    for method, path, status in (("GET", "/v1/sessions", 200), ("GET", a, 200), ("POST", a + "/fork", 409), ("POST", b + "/fork", 200),
                                 ("POST", b + "/save", 200), ("POST", b + "/restore", 200), ("POST", "/v1/sessions", 200),
                                 ("POST", b + "/append", 429), ("DELETE", b, 200), ("DELETE", a, 200)):
        got = s.ask(method, path, '{"prompt": "a"}' if "append" in path else "")
        check(f"{method} {path[:12]}{path[50:]} is answered at once", got[0] == status, got)
    check("delete ends what runs", b"has been deleted" in read_all(own))
    for c in (other, waits):
        c.close()
    check("it ends", s.end() == 0)


def test_queues():
    test_queue()
    test_count()
    test_calls()
    test_connections()
    test_drain()
    test_gone()
    test_gone_at_the_end()
    test_gone_waiting()
