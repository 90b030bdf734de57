"""What clients of OpenAI's interface read in answers of `longline serve`, and fields and methods that it refuses."""
from serve_process import check, events

CHAT = {"messages": [{"role": "user", "content": "17"}], "max_tokens": 20, "seed": 1}


def test_chunks(s):
    """A client joins what the chunks of a stream say, so that each thing is said once."""
    asked = {**CHAT, "stream": True, "n": 2, "stream_options": {"include_usage": True}}
    parts = events(s.post("/v1/chat/completions", asked)[2])[0]
    for index in (0, 1):
        deltas = [p["choices"][0]["delta"] for p in parts[:-1] if p["choices"][0]["index"] == index]
        check(f"the first chunk of choice {index} alone has the role", len(deltas) > 1 and
              [d.get("role") for d in deltas] == ["assistant"] + [None] * (len(deltas) - 1) and
              all("role" not in d for d in deltas[1:]), deltas)
    check("the last chunk has the usage, others null", parts[-1]["usage"]["completion_tokens"] > 0 and
          all("usage" in p and p["usage"] is None for p in parts[:-1]), parts)
    parts = events(s.post("/v1/chat/completions", {**asked, "stream_options": {}})[2])[0]
    check("none has it where it is not asked for", all("usage" not in p for p in parts), parts)
    long = {"prompt": "line", "max_tokens": 6000, "seed": 1, "stream": True, "ignore_end": True}
    parts, _ = events(s.post("/v1/completions", long)[2])
    check("one time for all chunks", len({p["created"] for p in parts}) == 1 and len(parts) > 1000, len(parts))


def test_offsets(s):
    """Offsets of tokens count characters of the text. Here a token is a byte."""
    prompt = "né€𝄞x" + "\ufffd"
    asked = {"prompt": prompt, "max_tokens": 40, "seed": 3, "logprobs": 0, "echo": True, "ignore_end": True, "temperature": 3}
    choice = s.post("/v1/completions", asked)[2]["choices"][0]
    offsets = choice["logprobs"]["text_offset"]
    inside = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 5, 5, 5]
    check("offsets count characters of the prompt", offsets[:len(inside)] == inside, offsets)
    whole = [(t, o) for t, o in zip(choice["logprobs"]["tokens"], offsets) if not t.startswith("bytes:")]
    check("and of the text after it", len(offsets) == len(inside) + 40 and sorted(offsets) == offsets and offsets[len(inside)] == 6 and
          len(whole) > 10 and all(choice["text"][o] == t for t, o in whole), choice)
    parts, _ = events(s.post("/v1/completions", {**asked, "stream": True})[2])
    got = sum((p["choices"][0]["logprobs"]["text_offset"] for p in parts), [])
    check("a stream has the same", got == offsets, (got, offsets))


def test_messages(s):
    """Fields of a message: those that clients send back with an answer may be empty; others are refused."""
    user = {"role": "user", "content": "17"}
    part = {"type": "text", "text": "17"}
    right = s.post("/v1/chat/completions", CHAT)[2]["choices"]
    empty = {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None, "name": "ann"}
    for message in ({**user, **empty}, {**user, "content": [part]}, {**user, "tool_calls": []}):
        status, _, answer = s.post("/v1/chat/completions", {**CHAT, "messages": [message]})
        check(f"taken: {message}", status == 200 and answer["choices"] == right, answer)
    cases = [({**user, "colour": "red"}, "messages.0.colour"), ({**user, "tool_calls": [{}]}, "messages.0.tool_calls"),
             ({**user, "refusal": "no"}, "messages.0.refusal"), ({**user, "audio": {"id": "a"}}, "messages.0.audio"),
             ({**user, "colour": None}, "messages.0.colour"), ({**user, "é" * 60: 1}, "messages.0." + "é" * 15),
             ({**user, "content": [{**part, "colour": 1}]}, "messages.0.content.0.colour"),
             ({**user, "role": "us\0er"}, "messages.0.role")]
    for message, param in cases:
        status, _, answer = s.post("/v1/chat/completions", {**CHAT, "messages": [message]})
        check(f"refused: {message}", status == 400 and answer["error"]["param"] == param, answer)
    error = s.post("/v1/chat/completions", {**CHAT, "max_completion_tokens": 21})[2].get("error", {})
    check("two different limits are refused", error.get("param") == "max_completion_tokens", error)
    check("the same one twice is taken", s.post("/v1/chat/completions", {**CHAT, "max_completion_tokens": 20})[2]["choices"] == right)
    error = s.post("/v1/chat/completions", {"messages": [user], "max_completion_tokens": 10 ** 9})[2]["error"]
    check("a limit is refused by its name", error["param"] == "max_completion_tokens", error)
    error = s.post("/v1/completions", {"model": "a\0b"})[2]["error"]
    check("a name with NUL is said to have one", "NUL" in error["message"] and error["param"] == "model", error)


def test_neutral(s):
    """Fields that clients send along, but that ask for nothing here; what would change the answer is refused."""
    right = s.post("/v1/chat/completions", CHAT)[2]["choices"]
    for fields in ({"tools": None, "response_format": None, "reasoning_effort": None, "audio": None, "web_search_options": None},
                   {"tools": [], "tool_choice": "none", "parallel_tool_calls": True, "service_tier": "auto"},
                   {"tool_choice": "auto", "response_format": {"type": "text"}, "modalities": ["text"], "functions": []},
                   {"prompt_cache_key": "x", "safety_identifier": "y", "frequency_penalty": 0.0, "logit_bias": {}},
                   {"stream_options": {"include_obfuscation": False, "include_usage": None}}):
        status, _, answer = s.post("/v1/chat/completions", {**CHAT, **fields})
        check(f"asks for nothing: {fields}", status == 200 and answer["choices"] == right, answer)
    for name, value in (("tools", [{"type": "function"}]), ("tool_choice", "required"), ("response_format", {"type": "json_object"}),
                        ("modalities", ["text", "audio"]), ("service_tier", "flex"), ("reasoning_effort", "high"),
                        ("stream_options", {"include_obfuscation": True}), ("audio", {}), ("frequency_penalty", 0.5)):
        status, _, answer = s.post("/v1/chat/completions", {**CHAT, name: value})
        check(f"would change the answer: {name}", status == 400 and answer["error"]["param"] == name, answer)
        said = answer["error"]["message"]
        check("and values are named if there are any", name == "stream_options" or
              said.endswith("it may be null") == (name == "audio"), said)
    for dimensions in (None, 32):
        status, _, answer = s.post("/v1/embeddings", {"input": "a", "dimensions": dimensions})
        check("the same of embeddings", status == 200 and len(answer["data"][0]["embedding"]) == 32, answer)
    error = s.post("/v1/embeddings", {"input": "a", "dimensions": 16})[2]["error"]
    check("fewer dimensions are refused", error["param"] == "dimensions" and "have 32" in error["message"], error)


def test_bytes(s):
    """Bytes of a path that are not UTF-8 are shown as U+FFFD."""
    for path, shown in (("%ff%fe", "\ufffd\ufffd"), ("a%c3%a9%e2%82", "a\u00e9\ufffd\ufffd"), ("%ed%a0%80", "\ufffd" * 3)):
        status, _, answer = s.ask("GET", "/v1/models/" + path)
        error = answer["error"]
        check(f"404 of the model {path}", status == 404 and error["param"] == "model" and
              error["message"] == f"there is no model '{shown}'", error)


def test_methods(s):
    """405, with the methods that a path has."""
    session = "/v1/sessions/sess_" + "0" * 32
    for method, path, allow in (
            ("GET", "/v1/completions", "POST"), ("PATCH", "/v1/sessions", "GET, POST"), ("POST", session, "GET, DELETE"),
            ("PUT", session + "/save", "POST"), ("POST", "/health", "GET, HEAD"), ("POST", "/", "GET, HEAD"),
            ("PATCH", "/metrics", "GET, HEAD"), ("POST", "/v1/models", "GET, HEAD"), ("DELETE", "/v1/models/run", "GET, HEAD")):
        status, answer, body = s.ask(method, path, None if method == "GET" else "{}")
        check(f"405 for {method} {path}", status == 405 and answer.getheader("Allow") == allow, (status, answer.getheaders(), body))
    status, answer, body = s.post(session + "/rename", {})
    check("404 for a path that sessions have not", status == 404 and body["error"]["param"] is None and
          "no such session" not in body["error"]["message"] and answer.getheader("Allow") is None, body)


def test_seeds(s):
    texts = [s.post("/v1/completions", {"prompt": "line", "seed": seed})[2] for seed in (2**63 - 1, 2**63 - 1, 2**63 - 2, 9 * 10**15 + 1)]
    check("seeds up to 2^63 - 1", all("choices" in t for t in texts) and texts[0]["choices"] == texts[1]["choices"] and
          texts[0]["choices"] != texts[2]["choices"], texts)
    for body, words in (({"seed": 2**63}, "integers go to 9223372036854775807"), ({"seed": -1}, "'seed' is -1, must be at least 0"),
                        ({"max_tokens": 10**16}, "must be at most 1e+15")):
        status, _, answer = s.post("/v1/completions", {"prompt": "a", **body})
        check(f"400 of {body}, with the limit", status == 400 and words in answer["error"]["message"], answer)


def test_wire(s):
    test_seeds(s)
    test_chunks(s)
    test_offsets(s)
    test_messages(s)
    test_neutral(s)
    test_bytes(s)
    test_methods(s)
