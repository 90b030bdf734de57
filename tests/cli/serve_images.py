"""Models of images that `longline serve` has."""
from serve_process import Server, check


def test_images(path):
    """A model of images reads whole images, as the command does."""
    s = Server(served=path)
    for where in ("classify", "embeddings"):
        for n in (1, 15, 17):
            status, _, answer = s.post("/v1/" + where, {"input": "0" * n})
            check(f"{n} numbers are no image", status == 400 and answer["error"]["param"] == "input" and answer["error"]["message"]
                  == f"'input' has {n} tokens; the model reads images of 16 numbers", answer)
        check("16 are one", s.post("/v1/" + where, {"input": ["0" * 16, list(range(16))]})[0] == 200)
    check("it ends", s.end() == 0)


def test_patches(path):
    """The tokens of a model that cuts images into patches are a CLS token and the patches. Each head's weights add up to one."""
    s = Server(served=path)
    names = [None, *(f"patch {i}" for i in range(4))]
    for query in (-1, 0, 4):
        status, _, a = s.post("/v1/attention", {"input": "0123456789abcdef", "query": query})
        check(f"attention of patch {query}", status == 200 and a["query"] == query % 5 and a["tokens"] == names and
              len(a["weights"]) == 2 and all(len(w) == 5 and abs(sum(w) - 1) < 2e-3 for w in a["weights"]), a)
    error = s.post("/v1/attention", {"input": "0123456789abcdef", "query": 5})[2]["error"]
    check("beyond the patches there is none", error["message"] == "'query' is 5; the input has tokens 0 to 4", error)
    check("it ends", s.end() == 0)
