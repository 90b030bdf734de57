"""The server and the commands give an imported model the same tokens around a text, and long texts keep nobody waiting. Run by
serve_special.sh."""
import json
import subprocess

from serve_process import Server, check, model, program, read_all, request


def command(*words, text=None):
    return subprocess.run([program, *words], input=text, capture_output=True, check=True, encoding="utf-8",
                          errors="replace").stdout


server = Server()
greedy = {"max_tokens": 12, "temperature": 0}
expected = command("generate", model, "--prompt", "some words", "--tokens", "12", "--temperature", "0")
_, _, answer = server.post("/v1/completions", {"prompt": "some words", **greedy})
texts = [text.replace("\ufffd", "") for text in (answer["choices"][0]["text"], expected.rstrip("\n"))]
check("a completion is what generate writes", texts[0] == texts[1] != "", texts)
check("the token before the text is one of its tokens", answer["usage"]["prompt_tokens"] > 1, answer)

_, _, made = server.post("/v1/sessions", {"prompt": "some "})
at = "/v1/sessions/" + made["id"]
server.post(at + "/append", {"prompt": "words"})
_, _, more = server.post(at + "/generate", greedy)
_, _, parts = server.post("/v1/sessions", {})
check("a session begins with it", parts["position"] == 1, parts)
check("and has it once", more["choices"][0]["text"] == answer["choices"][0]["text"], (answer, more))

_, _, answer = server.post("/v1/score", {"input": "some words"})
row = command("score", model, "-", text="some words\n").split("\n")[1].split("\t")
found = answer["data"][0]
check("a score is that of score", abs(found["logprob"] - float(row[2])) < 1e-3, (found, row))

own = {}
for text in ("a word", "<s>a word"):
    _, _, answer = server.post("/v1/score", {"input": text})
    row = command("score", model, "-", text=text + "\n").split("\n")[1].split("\t")
    own[text] = answer["usage"]["prompt_tokens"]
    check(f"a score of '{text}' is that of score", abs(answer["data"][0]["logprob"] - float(row[2])) < 1e-3, (answer, row))
with open("chat.json", "w", encoding="utf-8") as f:
    f.write('{"roles": {"user": ["<s>", ""]}, "begin": ""}')
chats = Server("--chat-template", "chat.json")
_, _, answer = chats.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a word"}], "max_tokens": 1})
check("a chat has the token of its template once", chats.end() == 0 and answer["usage"]["prompt_tokens"] == own["a word"] - 1 ==
      own["<s>a word"] - 2, (answer, own))  # a score has the token after a text as well

_, _, answer = server.post("/v1/embeddings", {"input": "some words"})
vector = [float(x) for x in command("encode", model, "-", text="some words\n").split("\n")[-2].split(",")[1:]]
found = answer["data"][0]["embedding"]
check("an embedding is that of encode", max(abs(a - b) for a, b in zip(found, vector)) < 1e-3, (found, vector))
# Most tokens of this vocabulary have no text.
answers = [server.post("/v1/completions", {"prompt": "x", "max_tokens": 3, "seed": i, "logprobs": 1, "temperature": 3,
                                           "ignore_end": True})[2] for i in range(30)]
logs = [a["choices"][0]["logprobs"] for a in answers]
check("a log-probability for each token, of those without text too", all(len(log["tokens"]) == 3 for log in logs) and
      any(log["tokens"][-1] == "" for log in logs), logs)
_, _, answer = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "logprobs": 20, "temperature": 0})
log = answer["choices"][0]["logprobs"]
check("of alternatives with the same text the likeliest is given", log["tokens"] == [""] and len(log["top_logprobs"][0]) < 20 and
      log["top_logprobs"][0][""] == log["token_logprobs"][0], log)
check("the server ends", server.end() == 0)

# Tokens of long texts are made beside all else: while one is read, the others are counted as waiting.
server = Server("--max-prompt", "100")
long = request({"prompt": "some words of a text " * 380000}, more=b"Connection: close\r\n")
clients = [server.raw(long, timeout=120) for _ in range(4)]
counted, tries = False, 2000
while not counted and (tries := tries - 1):
    counted = any(f"longline_waiting_requests {n}\n" in server.ask("GET", "/metrics")[2] for n in (1, 2, 3))
check("the server answers while long texts become tokens", counted)
check("also who sends a short text", server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200)
answers = [json.loads(read_all(c).split(b"\r\n\r\n", 1)[1])["error"]["message"] for c in clients]
check("each long text is refused", all("this server reads at most 100 of a prompt" in a for a in answers), answers)
check("it ends", server.end() == 0)
