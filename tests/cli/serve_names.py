"""Names of models and of keys of `longline serve`, and what lies beside a model."""
import os
import shutil
import subprocess

from serve_process import JSON, Server, check, events, folder, model, program


def test_names():
    """A model has the name of its file without the ending, whatever else is in it."""
    names = ["a-3.1", "a-3.2", "b.safetensors.old"]
    models = os.path.join(folder, "models.d")
    os.mkdir(models)
    for name in names + ["я" * 100]:
        shutil.copy(model, os.path.join(models, name + ".safetensors"))
    keys = os.path.join(folder, "names.keys")
    with open(keys, "wb") as f:
        f.write("one-0123456789abcdef {}\n".format("ж" * 40).encode() + b"two-0123456789abcdef mod\xe8le\n")
    os.chmod(keys, 0o600)
    s = Server("--models", models, "--api-keys", keys, served=os.path.dirname(model) + "/")
    one, two = ({**JSON, "Authorization": f"Bearer {k}-0123456789abcdef"} for k in ("one", "two"))
    listed = s.ask("GET", "/v1/models", headers=one)[2]["data"]
    check("names with points, and of a folder; long ones end with a whole character", [m["id"] for m in listed] ==
          [os.path.basename(os.path.dirname(model)), *names, "я" * 63], s.said())
    check("the chat template of a folder of a run is that of its best model", [m["chat"] for m in listed] ==
          [True, False, False, False, False], listed)
    asked = {"model": "я" * 63, "prompt": "a", "max_tokens": 2, "stream": True}
    parts, done = events(s.post("/v1/completions", asked, one)[2])
    check("a stream has the name of the model", done and parts[0]["model"] == "я" * 63, parts)
    s.post("/v1/completions", {"prompt": "a"}, two)
    parts = '"key":"{}"'.format("ж" * 31), '"key":"mod\ufffdle"'
    log = s.said(*parts)
    check("the log has the names of keys", all(part in log for part in parts), log)
    check("it ends", s.end() == 0)
    latin = os.path.join(os.fsencode(folder), b"mod\xe8le.safetensors")
    shutil.copy(model, latin)
    refused = subprocess.run([program, "serve", latin, "--listen", "127.0.0.1:0"], capture_output=True, timeout=60)
    check("a name that is not UTF-8 is refused", refused.returncode == 2 and b"must be UTF-8; rename" in refused.stderr, refused)
