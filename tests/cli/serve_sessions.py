"""Sessions of `longline serve`: use, a killed server, eviction, and owners."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from serve_process import JSON, Server, check, events, folder, model, program, read_all, request


def make(s, text, headers=JSON):
    return "/v1/sessions/" + s.post("/v1/sessions", {"prompt": text}, headers)[2]["id"]


def tokens(answer):
    return answer["choices"][0]["logprobs"]["tokens"]


def generate(s, path, n, **more):
    status, _, answer = s.post(path + "/generate", {"max_tokens": n, "seed": 5, **more})
    return answer["choices"][0]["text"] if status == 200 else answer


def test_sessions(s):
    asked = {"seed": 5, "logprobs": 0}  # as tokens, because text may be cut within a character
    whole = tokens(s.post("/v1/completions", {**asked, "prompt": "line 3 of 5", "max_tokens": 40})[2])
    a = make(s, "line 3")
    check("append", s.post(a + "/append", {"prompt": " of 5"})[2]["position"] == 11)
    first = tokens(s.post(a + "/generate", {**asked, "max_tokens": 15})[2])
    b = "/v1/sessions/" + s.post(a + "/fork", "")[2]["id"]
    rest = tokens(s.post(a + "/generate", {**asked, "max_tokens": 25})[2])
    check("a session goes on as one completion", len(whole) == 40 and first + rest == whole, (first, rest, whole))
    check("a fork goes on alike", tokens(s.post(b + "/generate", {**asked, "max_tokens": 25})[2]) == rest)
    check("save", s.post(a + "/save", "")[2]["saved"])
    more = generate(s, a, 10)
    check("restore goes back", s.post(a + "/restore", "")[0] == 200 and generate(s, a, 10) == more)
    check("a session that was not saved has nothing to go back to", s.post(b + "/restore", "")[0] == 409)
    check("delete", s.ask("DELETE", b)[2]["deleted"] and s.ask("GET", b)[0] == 404)
    c = make(s, "line 3")
    running = s.raw(request({"max_tokens": 60000, "stream": True, "ignore_end": True}, c + "/generate", b"Connection: close\r\n"))
    running.recv(100)
    check("delete while a request runs", s.ask("DELETE", c)[2].get("deleted") and s.ask("GET", c)[0] == 404 and
          s.ask("DELETE", c)[0] == 404)
    check("which ends with an error", b"has been deleted" in read_all(running).rsplit(b"data: ", 1)[1])
    check("nothing to go on from", s.post("/v1/sessions", {})[0] == 200 and
          s.post("/v1/sessions/" + s.post("/v1/sessions", {})[2]["id"] + "/generate", {})[2]["error"]["param"] == "prompt")


def test_broken_off():
    """A session whose request is broken off has read every token that was generated."""
    options = "--state-dir", os.path.join(folder, "four"), "--drain", "0"
    s = Server(*options)
    a = make(s, "line 3")
    asked = request({"max_tokens": 60000, "stream": True, "ignore_end": True}, a + "/generate", b"Connection: close\r\n")
    gone = s.raw(asked)
    gone.recv(100)
    gone.close()
    while s.ask("GET", a)[2]["busy"]:
        time.sleep(0.01)
    made = int(re.search(r"generated_tokens_total (\d+)", s.ask("GET", "/metrics")[2]).group(1))
    position = s.ask("GET", a)[2]["position"]
    check("by a client that went away", position == 6 + made, (position, made))
    running = s.raw(asked)
    running.recv(100)
    s.process.send_signal(signal.SIGTERM)
    end = read_all(running)
    check("by the end of the server", b"going down" in end and s.process.wait(60) == 0, end[-300:])
    made = json.loads(next(x for x in reversed(s.said().split("\n")) if a in x))["tokens"]
    s = Server(*options)
    after = s.ask("GET", a)[2]["position"]
    check("to which it adds as many tokens", after == position + made, (position, made, after))
    check("it ends", s.end() == 0)


def test_kill(options):
    s = Server(*options)
    a, b = make(s, "line 3 of 5 says"), make(s, "line 8")
    s.post(a + "/save", "")
    expected = generate(s, a, 30)
    s.end(signal.SIGKILL)
    s = Server(*options)
    states = os.path.join(folder, "two")
    told, size = s.ask("GET", a)[2], sum(os.path.getsize(os.path.join(states, name)) for name in os.listdir(states))
    check("a session on disk tells its position", told["position"] == 16 and told["bytes"] == size and not told["in_memory"], told)
    check("kill -9 loses no saved session", generate(s, a, 30) == expected)
    check("a session that was not saved is lost", s.ask("GET", b)[0] == 404)
    s.post(a + "/restore", "")
    generate(s, a, 7)
    position = s.ask("GET", a)[2]["position"]
    check("SIGTERM ends it", s.end() == 0)
    s = Server(*options)
    check("SIGTERM keeps positions", s.ask("GET", a)[2]["position"] == position, s.ask("GET", a))
    check("SIGTERM saves sessions", s.post(a + "/append", {"prompt": "x"})[2]["position"] == position + 1)
    many = [make(s, f"line {i}") for i in range(12)]
    s.end()
    s = Server(*options, "--session-memory", "65536")
    texts = [generate(s, m, 5) for m in many]
    check("sessions that have no room in memory are on disk", "longline_sessions 13" in s.ask("GET", "/metrics")[2] and
          all(isinstance(t, str) for t in texts) and sum(x["in_memory"] for x in s.ask("GET", "/v1/sessions")[2]["data"]) < 5)
    again = [make(s, f"line {i}") for i in range(12)]
    check("to the same bits", [generate(s, m, 5) for m in again] == texts)
    second = subprocess.run([program, "serve", model, "--listen", "127.0.0.1:0", *options], capture_output=True)
    check("one folder, one server", second.returncode == 2 and b"another server has it" in second.stderr, second)
    stream = s.raw(request({"prompt": "a", "max_tokens": 3000, "stream": True}))
    stream.recv(100)
    s.process.send_signal(signal.SIGTERM)
    check("what runs is ended before", b"data: [DONE]" in read_all(stream))
    check("and the exit code is 0", s.process.wait(60) == 0)


def test_files():
    """What the files of a session say counts, not when they were written; a damaged one harms nothing that is in memory."""
    states, copy = os.path.join(folder, "files"), os.path.join(folder, "files-copy")
    s = Server("--state-dir", states)
    a = make(s, "line 3")
    s.post(a + "/save", "")
    s.post(a + "/append", {"prompt": " of 5"})
    s.end()
    shutil.copytree(states, copy, copy_function=shutil.copyfile)
    for name in os.listdir(copy):  # .swap was written last
        os.utime(os.path.join(copy, name), (1e9, 1e9))
    stale = [os.path.join(states, name) for name in sorted(os.listdir(states))]
    check("one file of save, one of the end", len(stale) == 2 and stale[1].endswith("swap"), stale)
    s = Server("--state-dir", copy)
    check("a copy of the folder has lost nothing", s.ask("GET", a)[2]["position"] == 11, s.ask("GET", a)[2])
    expected = generate(s, a, 9)
    s.end()
    s = Server("--state-dir", states)
    swap = open(stale[1], "rb").read()
    s.post(a + "/append", {"prompt": "x"})
    s.post(a + "/save", "")
    s.end()
    with open(stale[1], "wb") as f:
        f.write(swap)
    s = Server("--state-dir", states)
    check("what a killed server left behind a later save is removed", s.ask("GET", a)[2]["position"] == 12 and
          not os.path.exists(stale[1]), s.ask("GET", a)[2])
    s.end()
    s = Server("--state-dir", copy)
    b = make(s, "line 3")
    s.post(b + "/save", "")
    s.post(b + "/append", {"prompt": " of 5"})
    os.truncate(next(os.path.join(copy, name) for name in os.listdir(copy) if b[13:] in name), 1000)
    check("restore from a damaged file is refused", s.post(b + "/restore", "")[0] == 500)
    check("and leaves the session as it was", generate(s, b, 9) == expected, expected)
    check("it ends", s.end() == 0)


def test_quota():
    """The quota of the disk is for what it holds after a file is written."""
    states = os.path.join(folder, "quota")
    s = Server("--state-dir", states)
    s.post(make(s, "line 3") + "/save", "")
    size = sum(os.path.getsize(os.path.join(states, name)) for name in os.listdir(states))
    s.end()
    s = Server("--state-dir", states, "--session-disk", str(size * 5 // 2))  # two fit, but not a third
    a, b = make(s, "line 3"), make(s, "line 4")
    check("a session is saved", s.post(a + "/save", "")[0] == 200)
    check("another has no room", s.post(b + "/save", "")[0] == 507)
    s.post(a + "/append", {"prompt": "x"})
    status, _, again = s.post(a + "/save", "")
    check("the first is saved again, in place of its own file", status == 200 and again["saved"], again)
    check("the end cannot save the other one, which is a failure", s.end() == 1)
    check("and it says so", "longline serve: 1 session could not be saved\n" in s.said(), s.said())


def memory(s, headers):
    return int(re.search(r"resident_memory_bytes (\d+)", s.ask("GET", "/metrics", headers=headers)[2]).group(1))


def test_keys():
    path = os.path.join(folder, "keys")
    with open(path, "w", encoding="utf-8") as f:
        f.write("# ours\none-0123456789abcdef alice\ntwo-0123456789abcdef\n")
    os.chmod(path, 0o600)
    s = Server("--api-keys", path, "--max-sessions", "2")
    one, two = ({**JSON, "Authorization": f"Bearer {k}-0123456789abcdef"} for k in ("one", "two"))
    for name, h in (("no key", JSON), ("another", {**JSON, "Authorization": "Bearer one-0123456789abcdeg"}),
                    ("a beginning", {**JSON, "Authorization": "Bearer one"})):
        status, _, answer = s.post("/v1/completions", {"prompt": "a"}, h)
        check(f"401 with {name}", status == 401 and answer["error"]["code"] == "invalid_api_key", answer)
    check("200 with a key", s.post("/v1/completions", {"prompt": "a"}, one)[0] == 200)
    a = make(s, "line 3", one)
    check("another key does not see the session", s.ask("GET", a, headers=two)[0] == 404 and s.ask("GET", a, headers=one)[0] == 200)
    make(s, "x", one)
    check("so many sessions a key", s.post("/v1/sessions", {}, one)[0] == 429 and s.post("/v1/sessions", {}, two)[0] == 200)
    check("health asks for none", s.ask("GET", "/health", headers={})[0] == 200)
    held = [s.raw(b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n")]
    early = held[0].recv(100)
    check("but other methods of it do, before the body", b" 401 " in early[:20], early)
    before = memory(s, one)
    held += [s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000001\r\n\r\n" + b"a" * 8000000) for _ in range(8)]
    time.sleep(1)
    check("bodies that nobody needs are not kept", memory(s, one) - before < 16e6, (before, memory(s, one)))
    held[1].sendall(b"a")
    check("who sends one is answered", b" 200 " in held[1].recv(100)[:20])
    for c in held:
        c.close()
    check("the log names the key, not what it is", '"key":"alice"' in s.said('"key":"alice"') and "0123456789abcdef" not in s.said())
    s.end()


def in_memory(s):
    return [x["in_memory"] for x in s.ask("GET", "/v1/sessions")[2]["data"]]


def test_growth(path):
    """A model with exact attention, whose sessions grow as they read: they keep to the memory that they may take, too."""
    empty, text = {"prompt": "a"}, {"prompt": "a" * 600}
    s = Server(served=path)
    small, large = (s.post("/v1/sessions", body)[2]["bytes"] for body in (empty, text))
    s.end()
    states = os.path.join(folder, "growth")
    s = Server("--state-dir", states, "--session-memory", str(large + 3 * small), served=path)
    names = [make(s, "a") for _ in range(4)]
    check("small sessions are in memory", large > 2 * small and in_memory(s) == [True] * 4, (small, large))
    for name in names:
        s.post(name + "/append", text)
    check("of those that have grown one is", in_memory(s) == [True, False, False, False], s.ask("GET", "/v1/sessions")[2])
    check("a copy of it takes its place", s.post(names[3] + "/fork", "")[0] == 200 and
          in_memory(s) == [True, False, False, False, False], s.ask("GET", "/v1/sessions")[2])
    check("they go on alike", len({generate(s, name, 9) for name in names}) == 1)
    check("it ends", s.end() == 0)
    s = Server("--state-dir", states, "--session-memory", "65536", served=path)
    s.post(names[0] + "/append", empty)
    check("one that is larger than all of it goes back to its file", "session_memory_bytes 0\n" in s.ask("GET", "/metrics")[2])
    check("it ends", s.end() == 0)
    s = Server("--state-dir", os.path.join(folder, "full"), "--session-disk", "0", "--session-memory", str(2 * small), served=path)
    a, b = make(s, "line 3"), make(s, "line 4")
    check("where the disk is full, too, one grows", s.post(a + "/append", text)[0] == 200 and "quota" in s.said("quota"), s.said())
    answers = [s.post(b + "/append", empty), s.post(b + "/generate", {})]
    check("then others get 507", [x[0] for x in answers] == [507] * 2, answers)
    check("the end cannot save them", s.end() == 1)
    s = Server("--session-memory", str(large + small), served=path)
    a, b = make(s, "a"), make(s, "a")
    s.post(a + "/append", text)
    check("a session that grows may exceed it while it runs", s.post(b + "/append", text)[0] == 200)
    answers = [s.post(a + "/append", empty), s.post(b + "/generate", {}), s.post(a + "/fork", ""), s.post("/v1/sessions", empty)]
    check("429 afterwards", [x[0] for x in answers] == [429] * 4, answers)
    s.ask("DELETE", b)
    check("until one is deleted", s.post(a + "/append", empty)[0] == 200 and s.post(a + "/fork", "")[0] == 429)
    check("it ends", s.end() == 0)


def test_broken(path):
    """A model whose logits after the byte 0 are not finite. A session that breaks by it does not disturb others."""
    s = Server("--state-dir", os.path.join(folder, "three"), "--session-memory", "65536", served=path)
    a = make(s, "line 3")
    s.post(a + "/save", "")
    text = generate(s, a, 5)
    b = make(s, "line 3")
    for each in (a, b):
        status, _, answer = s.post(each + "/append", {"prompt": [0]})
        check("500 where the model gives no number", status == 500 and "not finite" in answer["error"]["message"], answer)
        check("409 afterwards", s.post(each + "/generate", {})[0] == 409)
    many = [s.post("/v1/sessions", {"prompt": f"line {i}"}) for i in range(12)]
    check("sessions beside it", all(status == 200 for status, _, _ in many), many)
    check("it goes back to what was saved", s.post(a + "/restore", "")[0] == 200 and generate(s, a, 5) == text)
    check("or is deleted", s.post(b + "/restore", "")[0] == 409 and s.ask("DELETE", b)[0] == 200)
    check("it ends", s.end() == 0)


def test_learned(path):
    """A model whose learned positions end at 128. A text ends there; a prompt beyond them is refused, and nothing of it is read."""
    with open(path + ".chat.json", "w", encoding="utf-8") as f:
        f.write('{"roles": {"user": ["line ", " of"]}, "begin": ""}')
    s = Server(served=path)
    asked = {"prompt": "a" * 100, "max_tokens": 400, "seed": 2, "ignore_end": True}
    status, _, whole = s.post("/v1/completions", asked)
    choice = whole["choices"][0] if status == 200 else {}
    check("a text ends where learned positions end", choice.get("finish_reason") == "length" and
          whole["usage"]["completion_tokens"] >= 29, whole)
    _, _, text = s.post("/v1/completions", {**asked, "stream": True})
    parts, done = events(text)
    check("a stream, too", done and all("choices" in p for p in parts) and parts[-1]["choices"][0]["finish_reason"] == "length" and
          "".join(p["choices"][0]["text"] for p in parts) == choice.get("text"), text)
    status, _, chat = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "17"}], "seed": 1})
    check("and a chat without max_tokens", status == 200 and chat["choices"][0]["finish_reason"] in ("length", "stop"), chat)
    status, _, many = s.post("/v1/completions", {**asked, "prompt": ["a" * 100, "b" * 128], "n": 2})
    check("all choices, also after a prompt that fills them", status == 200 and
          all(c["finish_reason"] == "length" and c["text"] for c in many["choices"]), many)
    a = make(s, "a" * 100)
    text = s.post(a + "/generate", {"max_tokens": 400, "seed": 2})[2]
    session = s.ask("GET", a)[2]
    ended = "choices" in text and text["choices"][0]["finish_reason"]
    check("a session, which has read all of it", ended in ("length", "stop") and not session["busy"] and
          session["position"] == 100 + text["usage"]["completion_tokens"] and (ended == "stop" or session["position"] == 128),
          (text, session))
    full = make(s, "a" * 128)
    more = s.post(full + "/generate", {"max_tokens": 5})[2]
    check("a full session gets an empty text", more["choices"][0]["text"] == "" and more["choices"][0]["finish_reason"] == "length", more)
    for name, path, body, param in (
            ("a prompt", "/v1/completions", {"prompt": ["a", "b" * 129]}, "prompt"),
            ("a score", "/v1/score", {"input": "a" * 129}, "input"),
            ("a chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 129}]}, "messages"),
            ("what is appended", full + "/append", {"prompt": "a"}, "prompt"),
            ("a session's prompt", make(s, "a") + "/generate", {"prompt": "a" * 200}, "prompt")):
        status, _, answer = s.post(path, body)
        error = answer.get("error", {})
        check(f"400 for {name} beyond them", status == 400 and "learned positions end at 128" in error["message"] and
              "item" not in error["message"] and error["param"] == param, answer)
    check("nothing of it was read", [x["position"] for x in s.ask("GET", "/v1/sessions")[2]["data"]][0] == 1)
    check("others go on", s.post("/v1/completions", {"prompt": "a", "max_tokens": 3})[0] == 200)
    check("a session that cannot read its prompt is not made", s.post("/v1/sessions", {"prompt": "a" * 200})[0] == 400 and
          len(s.ask("GET", "/v1/sessions")[2]["data"]) == 3)
    s.end()
