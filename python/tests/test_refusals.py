"""Wrong arguments of every public function: an exception that names the argument and says what it must be."""
import copy
import io
import pickle

import numpy as np
import pytest

import longline

random = np.random.default_rng(0)
RECIPE = {"model.width": 16, "model.heads": 2, "model.layers": 1, "model.ff": 16, "attention.kernel": "elu1"}


def array(*shape):
    return random.standard_normal(shape, dtype=np.float32)


q, k, v = array(2, 2, 5, 4), array(2, 2, 5, 4), array(2, 2, 5, 4)
causal = longline.Operator("elu1", heads=2, key_size=4, causal=True)
softmax = longline.Operator("softmax", heads=2, key_size=4)
saved = causal.forward(q, k, v, save=True)[1]
model = longline.Model(RECIPE)
classifier = longline.Model({**RECIPE, "model.task": "classify", "model.classes": 3})


def attend(kernel="elu1", position="none", *, a=q, **options):
    return longline.attention(a, k, v, kernel, position, **options)


def out_over_mask():
    both = np.ones(q.size, np.float32)
    causal.forward(q, k, v, key_mask=both[:10].reshape(2, 5), out=both.reshape(q.shape))


WRONG = {
    # Arrays
    "masked": (lambda: attend(a=np.ma.masked_array(q, mask=q > 0)), TypeError, "q: is a masked array"),
    "too large": (lambda: longline.attention(q * np.float32(1e38), k * np.float32(1e38), v), longline.Diverged,
                  "q, k or v are too large"),
    "out over a mask": (out_over_mask, longline.ArgumentError, "out: lies where key_mask"),
    "out over q": (lambda: causal.forward(q, k, v, out=q), longline.ArgumentError, "out: lies where q"),
    "foreign saved": (lambda: softmax.backward(saved, q), longline.ArgumentError, "saved: another operator"),
    "no saved": (lambda: causal.backward(q, q), TypeError, "saved: is a ndarray"),
    "no operator": (lambda: longline.Stream(None), TypeError, "operator: is a NoneType"),
    # Options of operators
    "noise of one number": (lambda: attend(position="sine-spe", parameters={"noise": array(1, 1, 1, 1)}),
                            longline.ArgumentError, r"parameters\['noise'\]: its shape"),
    "noise of one axis": (lambda: attend(position="conv-spe", parameters={"noise": array(1)}), longline.ArgumentError,
                          r"parameters\['noise'\]: its shape"),
    "gate noise": (lambda: attend(position="sine-spe", parameters={"gate_noise": array(1)}), longline.ArgumentError,
                   r"parameters\['gate_noise'\]: its shape"),
    "angles": (lambda: attend(position="rope", parameters={"theta": array(1)}), longline.ArgumentError,
               r"parameters\['theta'\]: its shape"),
    "angles of none": (lambda: attend(parameters={"theta": array(1)}), longline.ArgumentError, "has no 'theta'"),
    "angles and base": (lambda: attend("softmax", "rope", base=500, parameters={"theta": np.ones(4, np.float32)}),
                        longline.ArgumentError, "leave base and rotary out"),
    "angles and rotary": (lambda: attend("softmax", "rope", rotary=4, parameters={"theta": np.ones(4, np.float32)}),
                          longline.ArgumentError, "leave base and rotary out"),
    "base of none": (lambda: attend("softmax", base=500), longline.ArgumentError, "base: nothing reads it"),
    "base": (lambda: attend("softmax", "rope", base=0), longline.ArgumentError, "base: is 0"),
    "rotary": (lambda: attend("softmax", "rope", rotary=3), longline.ArgumentError, "rotates an even number"),
    "parameters": (lambda: attend(parameters="x"), TypeError, "parameters: is a str"),
    "scale": (lambda: attend("softmax", scale="x"), longline.ArgumentError, "scale: is 'x'"),
    "decay word": (lambda: attend(decay="fixd", causal=True), longline.ArgumentError, "decay: is 'fixd'"),
    "decay words": (lambda: attend(decay=["a", "b"], causal=True), TypeError, "decay: is not an array"),
    "causal word": (lambda: attend(causal="no"), longline.ArgumentError, "causal: is 'no'"),
    "normalise word": (lambda: attend(normalise="no"), longline.ArgumentError, "normalise: is 'no'"),
    "undivided softmax": (lambda: attend("softmax", normalise=False), longline.ArgumentError,
                          "normalise: kernel 'softmax' is no linear one"),
    "undivided window": (lambda: attend("local", normalise=False), longline.ArgumentError, "normalise: kernel 'local'"),
    "eps of no features": (lambda: attend("reformer", feature_eps=0.1), longline.ArgumentError,
                           "feature_eps: kernel 'reformer' has no features; leave it out"),
    "features of none": (lambda: attend("softmax", features=8), longline.ArgumentError,
                         "features: are rows of a projection, and kernel 'softmax' has none here; leave it out$"),
    "features unprojected": (lambda: attend("elu1", features=8), longline.ArgumentError,
                             "leave it out, or give projection='orthogonal'"),
    "image in one dimension": (lambda: attend("elu1", "permute", image=(5, 1), causal=True), longline.ArgumentError,
                               "image: position 'permute' is in one dimension; leave it out, or use one of permute2d"),
    "image of rope": (lambda: attend("softmax", "rope", image=(5, 1)), longline.ArgumentError, "image: position 'rope'"),
    "before nothing": (lambda: attend("elu1", "sine-spe", before=1), longline.ArgumentError,
                       "before: position 'sine-spe' .*; leave it out"),
    "before no image": (lambda: attend("elu1", "conv-spe", before=1), longline.ArgumentError, "give image, too"),
    "seed": (lambda: attend("favor", seed=-1), longline.ArgumentError, "seed: is -1"),
    "large seed": (lambda: attend("reformer", seed=2**64), longline.ArgumentError, "seed: is"),
    "layer": (lambda: attend("favor", layer="a"), longline.ArgumentError, "layer: is 'a'"),
    "no rows": (lambda: attend("favor", projection=array(0, 4)), longline.ArgumentError,
                r"projection: its shape is \(0, 4\); it must have at least one row"),
    "features": (lambda: attend("favor", features=2**30), longline.ArgumentError, "features: is"),
    "no realizations": (lambda: attend(position="sine-spe", realizations=0), longline.ArgumentError, "realizations"),
    "no sines": (lambda: attend(position="sine-spe", sines=-1), longline.ArgumentError, "sines: is -1"),
    "too many taps": (lambda: attend(position="conv-spe", taps=2**30), longline.ArgumentError, "taps: is"),
    "segments": (lambda: attend(segments=5, causal=True), TypeError, "segments: is a int"),
    "ragged lengths": (lambda: attend(lengths=[[1], [2, 3]]), longline.ArgumentError, "lengths: is no array"),
    "mask of weights": (lambda: attend(key_mask=np.full((2, 5), 0.5, "f4")), longline.ArgumentError, "key_mask: has"),
    "growing gate": (lambda: attend("gla", causal=True, gate=np.ones((2, 2, 5), "f4")), longline.ArgumentError,
                     "gate: has 1.0"),
    # Draws and threads
    "no permutation": (lambda: longline.permutation(0, 1), longline.ArgumentError, "features: is 0"),
    "permutation seed": (lambda: longline.permutation(4, 2, "random", seed=-1), longline.ArgumentError, "seed: is -1"),
    "no projection": (lambda: longline.projection(4, 0), longline.ArgumentError, "size: is 0"),
    "position": (lambda: longline.position_parameters("x", 2, 4, 4), longline.ArgumentError, "position: is 'x'"),
    "threads": (lambda: longline.set_threads(-1), longline.ArgumentError, "n: is -1"),
    "many threads": (lambda: longline.set_threads(257), longline.ArgumentError, "n: is 257; .* from 0 to 256"),
    # Recipes and models
    "recipe": (lambda: longline.Model("x"), TypeError, "settings: is a str"),
    "key": (lambda: longline.Recipe()["model.widt"], KeyError, "nearest is model.width"),
    "key of a model": (lambda: model.set("model.width", 64), longline.ArgumentError,
                       '^"model.width": the model is fixed; only keys of'),
    "content": (lambda: longline.Model.from_bytes("x"), TypeError, "content: is a str"),
    "surrogate": (lambda: model.score("\ud800"), longline.ArgumentError, "text: its character 0"),
    "surrogate of a key": (lambda: longline.Recipe({"data.train": "a\ud800"}), longline.ArgumentError,
                           "value: its character 1"),
    "lengths": (lambda: model.loss(longline.Batch("abc", lengths=[9])), longline.ArgumentError, "lengths: has 9"),
    "lengths of padding": (lambda: model.score([[1, 2], [3]], lengths=[2, 2]), longline.ArgumentError,
                           r"lengths: has 2 for tokens\[1\], which has 1 tokens"),
    "many tokens": (lambda: model.logp(np.broadcast_to(np.int32(1), (2**20, 2**20))), longline.ArgumentError,
                    "tokens: its shape"),
    "layer of a model": (lambda: model.encode("abc", layer=2**40), longline.ArgumentError, "layer: is"),
    "batch": (lambda: model.loss({"tokens": "abc", "target": [1]}), longline.ArgumentError, "batch: .*target"),
    "draw": (lambda: model.loss("abc", draw="x"), longline.ArgumentError, "draw: is 'x'"),
    "temperature": (lambda: model.generate("a", 2, temperature="x"), longline.ArgumentError, "temperature: is 'x'"),
    "top_p": (lambda: model.generate("a", 2, top_p=-0.1), longline.ArgumentError, "top_p: is -0.1"),
    "prompt": (lambda: model.generate(5, 2), TypeError, "prompt: is a int"),
    "endless text": (lambda: model.stream().generate_text("a", None), longline.ArgumentError, "tokens: is None"),
    "no model": (lambda: longline.TokenStream(None), TypeError, "model: is a NoneType"),
    "classes": (lambda: classifier.loss(longline.Batch("abc", [3])), longline.ArgumentError, "target 3"),
    # Training
    "what": (lambda: longline.Trainer(5, "folder"), TypeError, "what: is a int"),
    "callbacks": (lambda: longline.Trainer(model, callbacks=[5]), TypeError, "callbacks: is"),
    "batches": (lambda: longline.Trainer(model).fit(5), TypeError, "batches: is a int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    call, kind, words = WRONG[name]
    with pytest.raises(kind, match=words):
        call()


def test_models_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none", "/proc/self/mem"):
        with pytest.raises(longline.FileError, match=str(path)):
            longline.Model.load(path)
    theirs = tmp_path / "model.safetensors"
    header = b'{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    theirs.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    for mmap in (False, True):
        with pytest.raises(longline.FileError, match="name a file; `longline import FOLDER -o model.safetensors`"):
            longline.Model.load(tmp_path, mmap=mmap)
        with pytest.raises(longline.FormatError, match="`longline import FOLDER -o model.safetensors` makes one"):
            longline.Model.load(theirs, mmap=mmap)


def test_noise_that_fits():
    noise, gates = array(2, 4, 10, 8), array(2, 4, 8)
    y = attend(position="sine-spe", realizations=8, parameters={"noise": noise, "gate_noise": gates})
    assert np.isfinite(y).all() and not np.array_equal(y, attend(position="sine-spe", realizations=8))


def test_kept_operators_are_of_the_same_types():
    """A call with 16 does not make 16.0 valid, nor True a number."""
    attend("favor", features=16, causal=True)
    with pytest.raises(longline.ArgumentError, match="features: is 16.0"):
        attend("favor", features=16.0, causal=True)
    attend(position="sine-spe", realizations=1)
    with pytest.raises(longline.ArgumentError, match="realizations: is True"):
        attend(position="relative-s1", realizations=True)


def test_query_lengths():
    y = attend(lengths=[5, 5], query_lengths=[3, 5])
    assert np.array_equal(y[0, :, :3], attend()[0, :, :3]) and not y[0, :, 3:].any()


def test_text_of_the_demo_has_bytes():
    demo = longline.Model({**RECIPE, "data.format": "demo", "train.length": 64})
    found = demo.evaluate("valid", 1)
    assert found.bits_per_byte == found.bits_per_token and found.bits_per_word > found.bits_per_byte


def test_copies():
    recipe = longline.Recipe({"model.width": 64})
    for other in (copy.copy(recipe), copy.deepcopy(recipe), pickle.loads(pickle.dumps(recipe))):
        other["model.width"] = 32
        assert recipe["model.width"] == "64"


@pytest.mark.parametrize("thing, words", [
    (causal, "longline.Operator: deepcopy and pickle cannot copy it; make another"),
    (causal.stream(), r"longline.Stream: deepcopy and pickle cannot copy it; stream.clone\(\)"),
    (model.stream(), r"TokenStream: .* stream.save\(path\)"),
    (model.tokenizer, "Tokenizer: .* model.tokenizer"),
    (longline.Trainer(model), r"Trainer: .* Trainer\(None, resume=folder\)"),
])
def test_no_copies(thing, words):
    for call in (copy.deepcopy, pickle.dumps, lambda x: pickle.dumps([x], 0)):
        with pytest.raises(TypeError, match=words):
            call(thing)


def test_refused_by_torch():
    torch = pytest.importorskip("torch")
    import longline.torch as torched

    x = torch.randn(2, 5, 16)
    module = torched.nn.LinearAttention(16, 4)
    wrong = [(lambda: torched.nn.LinearAttention(16, 4, kernel="x"), longline.ArgumentError, "kernel"),
             (lambda: torched.nn.LinearAttention(16, 4, nonsense=3), TypeError, "nonsense: is no option"),
             (lambda: torched.nn.LinearAttention(16, 4, feature=3), TypeError, "feature: .* the nearest is features"),
             (lambda: module(torch.zeros(2, 5, 15)), longline.ArgumentError, "query: its shape"),
             (lambda: module(torch.zeros(16)), longline.ArgumentError, "query: its shape"),
             (lambda: module("x"), TypeError, "query: is a str"),
             (lambda: module(x.half()), TypeError, "query: its dtype"),
             (lambda: module(x, attn_mask="x"), TypeError, "attn_mask: is a str"),
             (lambda: module(x, key_padding_mask="x"), TypeError, "key_padding_mask: is a str"),
             (lambda: torched.functional.linear_attention(x, x, x, operator=5), TypeError, "operator: is a int"),
             (lambda: torched.convert(None), TypeError, "model: is a NoneType")]
    for call, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call()


def test_modules_are_copied_and_saved():
    torch = pytest.importorskip("torch")
    import longline.torch as torched

    module, x = torched.nn.LinearAttention(16, 4, kernel="favor", features=8), torch.randn(2, 5, 16)
    y = module(x)[0]
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    for other in (copy.deepcopy(module), torch.load(file)):
        assert torch.equal(other(x)[0], y)


def test_options_without_effect():
    """Each is refused where nothing reads it, and names what would."""
    for name, value in dict(window=3, landmarks=5, iterations=2, buckets=4, chunk=5, rounds=2, length=7, rank=9,
                            realizations=3, gated=False, sines=2, taps=3, scales=2, clip=2,
                            permutation=np.zeros((2, 4), int)).items():
        with pytest.raises(longline.ArgumentError, match=f"^{name}: nothing reads it with kernel 'elu1'"):
            attend(**{name: value})
    with pytest.raises(longline.ArgumentError, match="^scale: kernel 'value'"):
        attend("value", scale=2.0)
    with pytest.raises(TypeError, match="^windo: is no option of attention; the nearest is window"):
        attend(windo=3)


CHANGED = dict(window=3, landmarks=5, iterations=2, buckets=2, chunk=5, rounds=2, length=20, rank=9, realizations=3,
               gated=False, sines=2, taps=3, scales=2, clip=2, permutation="random", scale=2.0, feature_eps=0.5,
               normalise=False, features=10, before=1, image=(3, 4))


def test_options_without_effect_are_the_refused_ones(monkeypatch):
    """With each kernel and each position an option is refused, or the library refuses it, or it changes the result."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal((1, 2, 12, 4)).astype(np.float32) for _ in range(3))

    def result(kernel, position, **options):
        options = {"nystrom": dict(landmarks=4), "reformer": dict(buckets=4, chunk=4)}.get(kernel, {}) | options
        if position == "permute2d":  # is for images alone
            options = {"image": (4, 3), **options}
        operator = longline.Operator(kernel, position, heads=2, key_size=4, causal=kernel == "gla", **options)
        gate = dict(gate=-np.abs(a[..., 0])) if kernel == "gla" else {}
        return operator.forward(a, b[:, operator.keyless:], c, **gate)

    def attempt(*pair, **options):
        try:
            return result(*pair, **options)
        except longline.ArgumentError:
            return None

    pairs = [(kernel, "none") for kernel in longline.KERNELS]
    for position in longline.POSITIONS:
        pairs += [pair for pair in (("relu", position), ("softmax", position)) if attempt(*pair) is not None][:1]
    assert len(pairs) == len(longline.KERNELS) + len(longline.POSITIONS) - 2  # two positions are those of models
    for pair in pairs:
        usual = result(*pair)
        for name, value in CHANGED.items():
            if (pair[0], name) == ("gla", "normalise"):
                continue  # it has no divisor, and may be asked for as what it is
            with monkeypatch.context() as patched:
                patched.setattr("longline._operator.refuse_idle", lambda *_: None)
                y = attempt(*pair, **{name: value})
            effect = y is None or not np.array_equal(y, usual)
            assert (y is not None and attempt(*pair, **{name: value}) is None) != effect, (pair, name)


def test_an_offset_that_the_state_contradicts():
    operator = longline.Operator("elu1", "rope", heads=2, key_size=4, causal=True)
    _, state = operator.forward(q, k, v, return_state=True)
    with pytest.raises(longline.ArgumentError, match="^offset: is 0, and the state has had 5 tokens"):
        operator.forward(q, k, v, state=state)
    operator.forward(q, k, v, state=state, offset=5)
    causal.forward(q, k, v, state=causal.forward(q, k, v, return_state=True)[1])  # without positions it means nothing


def test_counts_that_no_call_leaves():
    operator = longline.Operator("local", heads=2, key_size=4, causal=True, window=4)
    _, state = operator.forward(q, k, v, return_state=True)
    for count in (1e6, -1.0, 0.5):
        state[0, 0] = count
        with pytest.raises(longline.ArgumentError, match="tensor tokens holds .*, must be a whole number from 0 to 3"):
            operator.forward(q, k, v, state=state, offset=5)


def test_segments_and_results_of_other_libraries():
    torch = pytest.importorskip("torch")
    want = attend(segments=np.array([[2, 3], [1, 4]]))
    assert np.array_equal(attend(segments=torch.tensor([[2, 3], [1, 4]])), want)
    assert np.array_equal(attend(segments=[torch.tensor([2, 3]), torch.tensor([1, 4])]), want)
    with pytest.raises(TypeError, match="^out: is a Tensor; it must be a NumPy array"):
        softmax.forward(q, k, v, out=torch.empty(2, 2, 5, 4))
    with pytest.raises(TypeError, match="^decay: needs a gradient"):
        attend(causal=True, decay=torch.tensor([0.9, 0.8], requires_grad=True))


def test_options_of_a_module():
    pytest.importorskip("torch")
    import longline.torch as ll

    assert ll.nn.LinearAttention(np.int64(16), 2).embed_dim == 16
    assert ll.nn.LinearAttention(16, 3, dim_head=5).head_dim == 5
    for wrong, message in ((dict(dim_head=-4), "dim_head: is -4"), (dict(kdim=-1), "kdim: is -1"),
                           (dict(value_size=3), "value_size: is 3"), (dict(batch_first="no"), "batch_first: is 'no'"),
                           (dict(kernel="gla"), "kernel: 'gla' needs a gate")):
        with pytest.raises(longline.ArgumentError, match=message):
            ll.nn.LinearAttention(16, 2, **wrong)


def test_batches_that_are_pairs():
    with pytest.raises(longline.ArgumentError, match="it must be longline.Batch"):
        model.loss((np.zeros((2, 4), int), np.zeros((2, 4), int)))
    with pytest.raises(longline.ArgumentError, match=r"^batch: is a list of one array, .* give the array, batch\[0\]"):
        model.loss([np.zeros((2, 4), int)])
    with pytest.raises(longline.ArgumentError, match="^target -100 .*, nor -1, which does not count"):
        model.loss(longline.Batch([[1, 2]], [[-100, 3]]))
    with pytest.raises(longline.ArgumentError, match="^tokens: have one token a row"):
        model.loss([[1], [2]])
    with pytest.raises(TypeError, match="^key: is 3"):
        longline.Model({3: 4})
