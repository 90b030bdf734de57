"""Models: scores, embeddings, classes, generation, states, parameters, files and bytes."""
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import longline
from longline import Batch, Model, Recipe, Trainer

TOKENS = np.random.default_rng(0).integers(0, 256, (3, 12))


def test_tokens_end_where_learned_positions_do():
    model = Model({"model.width": 16, "model.heads": 2, "model.layers": 1, "model.ff": 16, "attention.kernel": "elu1",
                   "position.type": "learned", "position.decay": "none", "position.max-length": 20, "train.length": 20,
                   "data.format": "demo"})
    whole = list(model.stream().generate("abc", seed=3))
    assert len(whole) == 18  # the last one has no position
    assert list(model.stream().generate("abc", 17, seed=3)) == whole[:17]
    assert len(model.stream().generate_text("abc", 900)) > 0


def test_a_separator_drawn_behind_the_last_position_goes_on():
    """Its own position is the first, and 3 tokens have the others. The text ends with one that has none."""
    model = Model({"model.vocab": 3, "model.separator": 1, "model.width": 16, "model.heads": 2, "model.layers": 1,
                   "model.ff": 16, "attention.kernel": "elu1", "position.type": "learned", "position.decay": "none",
                   "position.max-length": 4, "train.length": 4})
    runs = ["".join(map(str, model.stream().generate([1], seed=seed))).split("1") for seed in range(5)]
    assert all(len(run[-1]) == 4 and max(map(len, run[:-1]), default=0) <= 3 for run in runs)
    assert any(len(text) == 3 for run in runs for text in run[:-1])


def test_score_is_logp(small):
    logp = small.logp(TOKENS)
    assert logp.shape == (3, 12, 256) and np.allclose(np.exp(logp).sum(-1), 1, atol=1e-5)
    score = small.score(TOKENS)
    assert (score[:, 0] == 0).all()
    assert np.allclose(score[:, 1:], np.take_along_axis(logp[:, :-1], TOKENS[:, 1:, None], 2)[..., 0], atol=1e-5)
    ragged = small.score([row[:n] for row, n in zip(TOKENS, (12, 5, 1))])
    assert np.array_equal(ragged[1, :5], score[1, :5]) and (ragged[1, 5:] == 0).all()
    assert np.array_equal(small.score(TOKENS[0]), score[0])
    assert np.allclose(small.stream().score(TOKENS[0]), score[0], atol=1e-5)
    assert np.array_equal(small.score("abc"), small.score([97, 98, 99]))


def test_encode(small):
    every = small.encode(TOKENS, pool="all")
    assert np.allclose(every.mean(1), small.encode(TOKENS), atol=1e-5)
    assert np.array_equal(every[:, -1], small.encode(TOKENS, pool="last"))
    assert np.array_equal(small.encode(TOKENS, pool="all", layer=0)[0, 0], small.parameters()["embedding.weight"][TOKENS[0, 0]])


def test_classify():
    model = Model({"model.task": "classify", "model.classes": 3, "model.width": 16, "model.heads": 2, "model.ff": 16,
                   "model.layers": 1, "train.learning-rate": 0.02, "train.warmup": 0})
    trainer = Trainer(model)
    batch = Batch([[i] * n for i in range(3) for n in (3, 5)], targets=[0, 0, 1, 1, 2, 2])
    for _ in range(60):
        trainer.step(batch)
    names, p = model.classify([[2, 2], [0] * 7])
    assert names == ["2", "0"] and p.shape == (2, 3) and np.allclose(p.sum(1), 1)
    loss, gradients = model.loss(batch)
    assert loss < 0.2 and set(gradients) == set(model.parameters())


def test_text_is_drawn_from_tokens_that_have_some():
    model = Model({"model.vocab": 1000, "model.width": 16, "model.heads": 2, "model.layers": 1, "model.ff": 16})
    assert max(model.generate("ab", 20)) > 255  # no byte
    assert model.stream().generate_text("ab", 20)


def test_generate_keeps_its_state(small, tmp_path):
    whole = list(small.generate("ab", 12, seed=3))
    small.reset()
    tokens = small.generate("ab", seed=3)
    first = [next(tokens) for _ in range(5)]
    small.save_state(tmp_path / "state")
    rest = list(small.generate(None, 7, seed=3))
    assert first + rest == whole and small.state.position == 14
    small.load_state(tmp_path / "state")
    assert list(small.generate(None, 7, seed=3)) == rest
    assert len(small.state.generate_text("x", 4)) > 0
    size = small.stream().bytes
    stream = small.stream()
    stream.feed(np.zeros(2000, int))
    assert stream.bytes == size
    with pytest.raises(ValueError, match="prompt: there is none"):
        small.stream().generate()
    with pytest.raises(ValueError, match="another model"):
        Model({**small.recipe, "train.seed": 9}).load_state(tmp_path / "state")


def test_how_tokens_are_drawn(small):
    greedy = list(small.stream().generate("a", 6, temperature=0))
    stream, last = small.stream(), "a"
    for token in greedy:
        assert token == stream.feed(last).argmax()
        last = [token]
    for how in ({"top_p": 0}, {"top_k": 1}):
        assert list(small.stream().generate("a", 6, **how)) == greedy
    one, two = (list(small.stream().generate("a", 20, seed=seed)) for seed in (1, 2))
    assert one != two and one == list(small.stream().generate("a", 20, seed=1))


def test_parameters_are_views(small):
    before = small.score(TOKENS)
    parameters = small.parameters()
    assert parameters["blocks.1.in.weight" if "blocks.1.in.weight" in parameters else "blocks.1.feed.in.weight"].shape == (32, 48)
    parameters["embedding.weight"][...] *= 1.5
    assert not np.array_equal(small.score(TOKENS), before)
    alone = Model(small.recipe).parameters()["embedding.weight"]  # the array keeps the model
    assert np.isfinite(alone).all() and alone.shape == (256, 32)


def test_files_and_bytes(small, tmp_path):
    path = tmp_path / "model.safetensors"
    small.save(path)
    expected = small.score(TOKENS)
    for model in (Model.load(path), Model.load(path, mmap=True), Model.from_bytes(small.to_bytes()),
                  pickle.loads(pickle.dumps(small))):
        assert np.array_equal(model.score(TOKENS), expected)
        assert dict(model.recipe) == dict(small.recipe)
    assert path.read_bytes() == small.to_bytes()
    with pytest.raises(ValueError, match="load it with ll_model_load_bytes, in Python without mmap"):
        Trainer(Model.load(path, mmap=True))
    with pytest.raises(longline.FormatError, match="cut"):
        Model.from_bytes(small.to_bytes()[:1000], "cut")
    with pytest.raises(OSError, match="nothing.safetensors"):
        Model.load(tmp_path / "nothing.safetensors")


def test_quantize(small):
    before = small.stream().feed(TOKENS[0])
    small.quantize("int8")
    after = small.stream().feed(TOKENS[0])
    assert 0 < np.abs(after - before).max() < 0.1


def test_recipe():
    recipe = Recipe({"attention.kernel": "favor", "model.tied-embedding": False})
    assert recipe["model.tied-embedding"] == "off" and len(recipe) > 50
    assert dict(Recipe(text=str(recipe))) == dict(recipe)
    assert recipe.changed() == {"attention.kernel": "favor", "model.tied-embedding": "off"}
    with pytest.raises(ValueError, match="attention.kernel"):
        recipe["attention.kernal"] = "favor"
    for key in ("no.key", 3, None, "model.width\0", "\ud800"):
        assert key not in recipe and recipe.get(key, "none") == "none"
        with pytest.raises(KeyError, match="there is no key"):
            recipe[key]
    model = Model({"model.width": 16, "model.heads": 2, "model.ff": 16})
    with pytest.raises(longline.ArgumentError, match=r"train.batch: model.recipe is a copy.*model.set\('train.batch', 7\)"):
        model.recipe["train.batch"] = 7
    model.set("train.batch", 7)
    other = model.recipe.copy()
    other["train.batch"] = 8
    assert model.recipe["train.batch"] == "7" and Model(other).recipe["train.batch"] == "8"
    assert "steps" in Recipe.help("attention.redraw")


def test_notebook_manners(small):
    assert "embedding.weight" in small._repr_html_() and "<table>" in small.recipe._repr_html_()
    assert "elu1" in repr(small)
    stream = small.stream()
    stream.feed("abc")
    assert repr(stream) == f"<longline.TokenStream at position 3 of {small!r}>"
    assert repr(small.tokenizer) == "<longline.Tokenizer of 256 tokens>"
    operator = longline.Operator("elu1", heads=2, key_size=4, causal=True)
    assert repr(operator.stream(3)) == f"<longline.Stream of batch 3 of {operator!r}>"


@pytest.mark.parametrize("channels", [1, 3])
def test_images(channels):
    """Images as arrays are the rows of their numbers; all vectors of an image are those of its patches."""
    model = Model({"model.task": "classify", "model.classes": 3, "model.patch": 4, "model.channels": channels,
                   "position.width": 8, "position.height": 12, "train.length": 96 * channels, "model.width": 16,
                   "model.heads": 2, "model.layers": 1, "model.ff": 16, "data.format": "idx", "data.classes": "a,b,c"})
    images = np.random.default_rng(5).integers(0, 256, (5, 12, 8, channels), dtype=np.uint8)
    names, p = model.classify(images)
    assert p.shape == (5, 3) and set(names) <= set("abc")
    assert np.array_equal(model.logp(images.reshape(5, -1)), model.logp(images))
    assert np.array_equal(model.classify(images[:, ::-1])[1], model.classify(images[:, ::-1].copy())[1])
    vectors = model.encode(images, pool="all")
    assert vectors.shape == (5, 6, 16)
    assert np.allclose(vectors.mean(1), model.encode(images), atol=1e-5)
    loss, gradients = model.loss(Batch(images, targets=[0, 1, 2, 0, 1]))
    assert np.isfinite(loss) and gradients["embedding.patch.weight"].any()
    if channels == 3:
        assert np.array_equal(model.logp(images[0]), model.logp(images)[0])
    else:
        assert np.array_equal(model.logp(images[..., 0]), model.logp(images))
    for tokens in ("ab", ["ab", "cd"], images.reshape(5, -1)[:, 1:], [images[0].ravel(), images[1].ravel()[:7]]):
        with pytest.raises(ValueError, match=f"tokens; the model reads images of {96 * channels} numbers"):
            model.classify(tokens)
        with pytest.raises(ValueError, match="the model reads images of"):
            model.encode(tokens)
    with pytest.raises(TypeError, match="images are integers of 0 to 255"):
        model.classify(images / np.float32(255))
    with pytest.raises(ValueError, match=r"the model reads images \(B, height, width"):
        model.classify(np.zeros((5, 12, 8, 2), np.uint8))


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pictures_of_pillow(mode):
    Image = pytest.importorskip("PIL.Image")
    channels = len(mode) // 3 * 2 + 1
    model = Model({"model.task": "classify", "model.classes": 3, "model.patch": 4, "model.channels": channels,
                   "position.width": 8, "position.height": 12, "train.length": 96 * channels, "model.width": 16,
                   "model.heads": 2, "model.layers": 1, "model.ff": 16, "data.format": "idx"})
    shape = (12, 8, 3) if channels == 3 else (12, 8)
    arrays = [np.random.default_rng(i).integers(0, 256, shape, dtype=np.uint8) for i in range(2)]
    pictures = [Image.fromarray(a) for a in arrays]
    assert np.array_equal(model.logp(pictures), model.logp(arrays))
    assert np.array_equal(model.logp(pictures[1]), model.logp(arrays)[1])
    assert model.classify([pictures[0].resize((20, 30)), pictures[1]])[1].shape == (2, 3)
    with pytest.raises(ValueError, match=rf"tokens\[1\]: is a picture of mode RGBA; .*tokens\[1\].convert\('{mode}'\)"):
        model.classify([pictures[0], pictures[1].convert("RGBA")])


def test_pixels_of_whole_images():
    """A classifier of pixels one by one has no patches that refuse a part of an image."""
    model = Model({"model.task": "classify", "model.classes": 3, "position.type": "permute2d", "position.width": 4,
                   "position.height": 3, "train.length": 12, "attention.kernel": "relu", "model.width": 16,
                   "model.heads": 2, "model.layers": 1,
                   "model.ff": 16, "data.format": "idx"})
    assert model.classify("twelve bytes")[1].shape == (1, 3)
    for call in (model.classify, model.encode, model.logp):
        with pytest.raises(ValueError, match="tokens: has 2 tokens; the model reads images of 12 numbers"):
            call("ab")
    with pytest.raises(ValueError, match="tokens: has 11 tokens"):
        model.loss(Batch([[1] * 12, [1] * 11], targets=[0, 1]))


@pytest.mark.parametrize("channels, resize, side", [(1, "bilinear", 0), (3, "bilinear", 0), (3, "bicubic", 14)])
def test_images_are_resized(channels, resize, side):
    """Images of another size become what Pillow makes of them, byte for byte; a list may mix sizes."""
    from PIL import Image
    model = Model({"model.task": "classify", "model.classes": 3, "model.patch": 4, "model.channels": channels,
                   "position.width": 8, "position.height": 12, "train.length": 96 * channels, "model.width": 16,
                   "model.heads": 2, "model.layers": 1, "model.ff": 16, "data.format": "idx",
                   "data.resize-filter": resize, "data.resize-side": side})
    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}

    def pillow(image):
        picture = Image.fromarray(image[..., 0] if channels == 1 else image)
        small = picture.resize((side, side) if side else (8, 12), filters[resize])
        top, left = ((side - 12) // 2, (side - 8) // 2) if side else (0, 0)
        return np.asarray(small).reshape(side or 12, side or 8, channels)[top:top + 12, left:left + 8]

    random = np.random.default_rng(6)
    images = [random.integers(0, 256, (h, w, channels), dtype=np.uint8) for h, w in ((30, 21), (5, 40), (13, 8))]
    expected = model.logp(np.stack([pillow(image) for image in images]))
    assert np.array_equal(model.logp(images), expected)
    assert np.array_equal(model.logp(images[0][None]), expected[:1])
    assert np.array_equal(model.logp(images[1].astype(np.int64)[None, :, ::-1][:, :, ::-1]), expected[1:2])
    same = random.integers(0, 256, (2, 12, 8, channels), dtype=np.uint8)  # as it is
    assert np.array_equal(model.logp(same), model.logp(same.reshape(2, -1)))
    assert model.encode(images, pool="all").shape == (3, 6, 16)
    assert np.isfinite(model.loss(Batch(images, targets=[0, 1, 2]))[0])
    with pytest.raises(ValueError, match=r"tokens: has 256; an image that is resized has numbers of 0 to 255"):
        model.logp(np.full((1, 5, 5, channels), 256))
    with pytest.raises(ValueError, match=r"tokens\[1\]: its shape is \(12, 8, 2\); the model reads images \(height"):
        model.logp([same[0], same[0][..., :1].repeat(2, 2)])
    with pytest.raises(TypeError, match=r"tokens\[0\]: its dtype is float64; images are integers"):
        model.logp([same[0] / 255.0])


def test_images_of_no_size_are_not_resized():
    """A model without a size of its own reads images as they are, and all of a list must be as large."""
    model = Model({"model.task": "classify", "model.classes": 3, "model.width": 16, "model.heads": 2, "model.layers": 1,
                   "model.ff": 16, "data.format": "idx", "position.type": "none"})
    images = np.random.default_rng(7).integers(0, 256, (2, 5, 6), dtype=np.uint8)
    assert np.array_equal(model.logp(list(images)), model.logp(images.reshape(2, -1)))
    with pytest.raises(ValueError, match=r"tokens\[1\]: it has 15 numbers and tokens\[0\] 30; the model has no size"):
        model.logp([images[0], images[1][:3, :5]])


def test_errors(small):
    for words, call in [
        ("token 256 at position 0 of sequence 0 is not in 0..255", lambda: small.score([256, 1])),
        (r"tokens\[0\]: its dtype is float64", lambda: small.score([[0.5]])),
        ("lengths: its shape", lambda: small.score(TOKENS, [1, 2])),
        ("lengths: has 13; a row of tokens has 0..12", lambda: small.score(TOKENS, [13, 2, 1])),
        ("pool: is 'max'", lambda: small.encode(TOKENS, pool="max")),
        ("there is no layer 7", lambda: small.encode(TOKENS, layer=7)),
        ("the model's task is lm", lambda: small.classify(TOKENS)),
        ("targets: their shape", lambda: small.loss(Batch(TOKENS, targets=TOKENS[:, 1:]))),
        ("target 300", lambda: small.loss(Batch(TOKENS, targets=TOKENS + 300 - TOKENS))),
        ("only seq2seq models have sources", lambda: small.loss(Batch(TOKENS, source=TOKENS))),
        ("temperature", lambda: small.generate("a", temperature=-1)),
        ("heads", lambda: Model({"model.width": 30, "model.heads": 4})),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            call()
    small.parameters()["embedding.weight"][...] = np.nan
    with pytest.raises(longline.Diverged):
        small.score(TOKENS)
    with pytest.raises(longline.Diverged, match="tensor embedding.weight is not a number at element 0"):
        small.to_bytes()


@pytest.mark.skipif(not shutil.which("localedef"), reason="no localedef: numbers are not tested with a decimal comma")
def test_comma_locale(tmp_path):
    """A program in a locale that writes 0,25 reads and writes 0.25 in recipes and files."""
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], check=True)
    code = """
import locale, longline
locale.setlocale(locale.LC_ALL, "")
assert locale.localeconv()["decimal_point"] == ","
model = longline.Model({"model.width": 16, "model.heads": 2, "model.layers": 1, "train.learning-rate": 0.25})
model.save("a.safetensors")
again = longline.Model.load("a.safetensors")
print(model.recipe["train.learning-rate"], again.recipe["train.learning-rate"])
try:
    model.set("train.learning-rate", 1000.5)
except longline.ArgumentError as error:
    print(error)
"""
    environment = dict(os.environ, LOCPATH=str(tmp_path), LC_ALL="de_DE.UTF-8",
                       PYTHONPATH=str(pathlib.Path(longline.__file__).parent.parent))
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and lines[0] == "0.25 0.25" and "1000.5" in lines[1], result.stdout + result.stderr


def test_values_keep_quotes_and_spaces():
    recipe = longline.Recipe()
    for path in (' "a" b ', '"', 'x"y"', "# no comment"):
        recipe["data.train"] = path
        assert recipe["data.train"] == path
    with pytest.raises(ValueError, match="there is no key 'data.train=a'"):
        recipe["data.train=a"] = "b"


@pytest.fixture
def imported(tmp_path):
    """Folders of other programs' models, and what imports one of them."""
    program = pathlib.Path(longline.__file__).parents[2] / "longline"
    if not program.exists():
        pytest.skip("the program is not built: make builds it")
    root = pathlib.Path(__file__).parents[2]
    subprocess.run([sys.executable, root / "tests" / "python" / "write_models.py", tmp_path], check=True)

    def load(folder):
        subprocess.run([program, "import", folder, "-o", tmp_path / "model.safetensors"], check=True, capture_output=True)
        return longline.Model.load(tmp_path / "model.safetensors")

    return load


def test_text_of_tokens_begins_without_a_blank(imported, tmp_path):
    """BERT's words have one before them; text that goes on another one keeps it."""
    tokenizer = imported(tmp_path / "bert-pairs").tokenizer
    tokens = tokenizer.encode("word word", before=True, after=True)
    assert [tokenizer.decode(x) for x in (tokens[1:-1], tokens, [])] == ["word word", "[CLS] word word [SEP]", ""]
    assert tokenizer.decode(tokens[2:-1], continues=True) == " word"
    gpt2 = imported(tmp_path / "gpt2-text").tokenizer
    assert [gpt2.decode(gpt2.encode(x)) for x in (" word", "  a")] == [" word", "  a"]


def test_texts_of_imported_models_have_their_tokens(imported, tmp_path):
    """A GPT-2 whose vocabulary has <s> and </s>: they go around texts, and not around tokens."""
    gpt2 = tmp_path / "gpt2-text"
    vocabulary = json.loads((gpt2 / "vocab.json").read_text())
    names = {"<|endoftext|>": "<s>", "\u010a\u010a": "</s>"}
    (gpt2 / "vocab.json").write_text(json.dumps({names.get(k, k): v for k, v in vocabulary.items()}))
    merges = (gpt2 / "merges.txt").read_text().splitlines()
    (gpt2 / "merges.txt").write_text("\n".join(m for m in merges if m != "\u010a \u010a") + "\n")
    model = imported(gpt2)
    text = model.tokenizer.encode("some words").tolist()
    around = [vocabulary["<|endoftext|>"], *text, vocabulary["\u010a\u010a"]]
    assert model.tokenizer.encode("some words", before=True, after=True).tolist() == around
    assert np.array_equal(model.encode("some words"), model.encode(around))
    assert np.array_equal(model.score("some words"), model.score(around))
    made = list(model.generate("some words", 5, temperature=0))
    model.state.reset()
    assert made == list(model.generate(around[:-1], 5, temperature=0))
    stream = longline.TokenStream(model)
    stream.feed("some")
    stream.feed(" words")
    assert stream.position == len(around) - 1
