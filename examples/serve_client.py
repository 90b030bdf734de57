"""A client of `longline serve`: python3 examples/serve_client.py [URL]. Streams a completion, then uses a session."""
import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"


def post(path, **fields):
    request = urllib.request.Request(url + path, json.dumps(fields).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request)


for line in post("/v1/completions", prompt="It was", max_tokens=80, temperature=0.8, seed=1, stream=True):
    if line.startswith(b"data: {"):
        print(json.loads(line[6:])["choices"][0]["text"], end="", flush=True)
session = "/v1/sessions/" + json.load(post("/v1/sessions", prompt="It was"))["id"]
fork = "/v1/sessions/" + json.load(post(session + "/fork"))["id"]
for each in (session, fork):
    print("\n--", json.load(post(each + "/generate", max_tokens=40, seed=2))["choices"][0]["text"])
