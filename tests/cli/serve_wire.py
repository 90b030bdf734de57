"""What clients of OpenAI's interface read in answers of `longline serve`."""
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


def test_wire(s):
    test_chunks(s)
    test_offsets(s)
