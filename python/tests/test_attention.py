"""Operators against definitions in double precision, and which arguments are accepted."""
import copy
import threading
import time

import numpy as np
import pytest

import longline
from longline import Operator, attention
from longline._arrays import doubles_of


def softmax(q, k, v, causal):
    q, k, v = (x.astype(float) for x in (q, k, v))
    logits = np.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    if causal:
        logits = np.where(np.tril(np.ones(logits.shape[-2:], bool)), logits, -np.inf)
    w = np.exp(logits - logits.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ v


def weighted(fq, fk, v, causal, r=1.0):
    """Linear attention from features in double, by its matrix."""
    w = np.einsum("bhtm,bhsm->bhts", fq, fk)
    if causal:
        i = np.arange(w.shape[-1])
        far = i[:, None] - i[None, :]
        w = w * np.where(far >= 0, np.reshape(r, (-1, 1, 1)) ** np.maximum(far, 0), 0)
    return w / w.sum(-1, keepdims=True) @ v


FEATURES = {
    "relu": lambda x: np.maximum(x, 0) + 1e-3,
    "elu1": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "abs": lambda x: np.abs(x) + 1e-3,
    "square": lambda x: x * x + 1e-3,
}


@pytest.mark.parametrize("causal", [False, True])
def test_softmax(qkv, causal):
    assert np.abs(attention(*qkv, causal=causal) - softmax(*qkv, causal)).max() < 2e-6


@pytest.mark.parametrize("base, rotary", [(10000.0, 0), (500, 4)])
def test_rope(qkv, base, rotary):
    """Pairs of neighbours are rotated: Su et al. 2021, equation 15."""
    q, k, v = qkv.astype(float)
    n = rotary or q.shape[-1]
    angle = np.arange(q.shape[2])[:, None] * float(base) ** (-np.arange(0, n, 2) / n)

    def rotated(x):
        y = x.copy()
        y[..., 0:n:2] = x[..., 0:n:2] * np.cos(angle) - x[..., 1:n:2] * np.sin(angle)
        y[..., 1:n:2] = x[..., 1:n:2] * np.cos(angle) + x[..., 0:n:2] * np.sin(angle)
        return y

    want = softmax(rotated(q), rotated(k), v, True)
    assert np.abs(attention(*qkv, position="rope", causal=True, base=base, rotary=rotary) - want).max() < 2e-6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", FEATURES)
def test_linear(qkv, kernel, causal):
    q, k, v = qkv.astype(float)
    want = weighted(FEATURES[kernel](q), FEATURES[kernel](k), v, causal)
    assert np.abs(attention(*qkv, kernel=kernel, causal=causal) - want).max() < 2e-5


@pytest.mark.parametrize("causal", [False, True])
def test_favor_is_its_features(qkv, causal):
    """phi(x) = exp(Wx - |x|^2 / 2) of x / D^(1/4): Choromanski et al. 2021, lemma 1."""
    operator = Operator("favor", heads=3, key_size=8, causal=causal, features=24)
    W = operator.projection.astype(float)

    def phi(x):
        x = x.astype(float) * 8**-0.25
        return np.exp(x @ W.T - (x * x).sum(-1, keepdims=True) / 2)

    want = weighted(phi(qkv[0]), phi(qkv[1]), qkv[2].astype(float), causal)
    assert np.abs(operator.forward(*qkv) - want).max() < 2e-5


def test_gla_is_its_recurrence(qkv):
    """S_t = r_t S_(t-1) + k_t v_t', y_t = S_t' q_t: Yang et al. 2024 with a scalar gate."""
    q, k, v = qkv.astype(float)
    gate = -np.random.default_rng(4).random(qkv.shape[1:4], dtype=np.float32)
    state, want = np.zeros((*q.shape[:2], q.shape[-1], v.shape[-1])), np.empty_like(v)
    for t in range(q.shape[2]):
        state = np.exp(gate[:, :, t, None, None].astype(float)) * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        want[:, :, t] = np.einsum("bhde,bhd->bhe", state, q[:, :, t])
    got = attention(*qkv, kernel="gla", causal=True, gate=gate)
    assert np.abs(got - want).max() < 2e-5 * np.abs(want).max()
    with pytest.raises(longline.ArgumentError, match="causal"):
        attention(*qkv, kernel="gla", gate=gate)


def test_gla_as_a_stream(qkv):
    """How tokens are cut into calls changes no bit, and the numbers are those of a call."""
    gate = -np.abs(qkv[0][..., 0])
    operator = longline.Operator("gla", heads=qkv[0].shape[1], key_size=qkv[0].shape[3], causal=True)
    pieces = [operator.step(*(x[:, :, a:b] for x in qkv), gate=gate[:, :, a:b]) for a, b in ((0, 1), (1, 9), (9, None))]
    streamed = np.concatenate(pieces, axis=2)
    whole = operator.stream(len(gate)).feed(*qkv, gate=gate[..., None])
    assert np.array_equal(streamed, whole)
    assert np.allclose(whole, operator.forward(*qkv, gate=gate), atol=1e-5)
    with pytest.raises(longline.ArgumentError, match="gate: its shape"):
        operator.step(*qkv, gate=gate[:, :, :3])
    with pytest.raises(longline.ArgumentError, match="gla needs a gate"):
        operator.step(*qkv)


def test_favor_estimates_softmax(qkv):
    q, k, v = np.float32(0.5) * qkv
    errors = [np.abs(attention(q, k, v, kernel="favor", features=m) - softmax(q, k, v, False)).mean() for m in (32, 2048)]
    assert errors[1] < 0.3 * errors[0] and errors[1] < 0.01


def test_permute_with_decay(qkv):
    """Position i permutes the features i times (Chen 2021, equation 6)."""
    p = longline.permutation(8, 3, "random", seed=5)
    operator = Operator("elu1", "permute", heads=3, key_size=8, causal=True, permutation=p, decay=[0.9, 0.95, 1])

    def powers(f):
        out, index = np.empty_like(f), np.tile(np.arange(8), (3, 1))
        for t in range(f.shape[2]):
            for h in range(3):
                out[:, h, t] = f[:, h, t][:, index[h]]
            index = np.stack([p[h][index[h]] for h in range(3)])
        return out

    q, k = (powers(FEATURES["elu1"](x.astype(float))) for x in qkv[:2])
    want = weighted(q, k, qkv[2].astype(float), True, np.array([0.9, 0.95, 1]))
    assert np.abs(operator.forward(*qkv) - want).max() < 2e-5


@pytest.mark.parametrize("kernel, position, options", [
    ("softmax", "rope", {}), ("favor", "permute", {"decay": "fixed", "features": 16}), ("relu", "rope-linear", {}),
    ("elu1", "relative-s1", {}), ("favor", "sine-spe", {"realizations": 16, "features": 16}), ("softmax", "t5", {}),
    ("softmax", "shaw", {}), ("elu1", "relative-s2", {}), ("local", "none", {"window": 7}),
    ("value", "none", {}), ("reformer", "none", {"buckets": 2, "chunk": 5, "rounds": 1, "seed": 1})])
def test_backward_is_the_slope(qkv, kernel, position, options, monkeypatch):
    """The derivative of sum(g y) along a random direction of inputs and parameters, against central differences.

    No token of reformer changes its bucket. Gradients of what is not read are written, too."""
    monkeypatch.setattr("longline._operator.empty_like_layout", lambda x, n: np.full((*x.shape[:3], n), np.nan, "f4"))
    causal = position != "relative-s1"
    operator = Operator(kernel, position, heads=3, key_size=8, causal=causal, **options)
    q, k, v = (x[:, :, :20].copy() for x in qkv)
    k = k[:, : 3 - operator.keyless].copy()
    random = np.random.default_rng(3)
    y, saved = operator.forward(q, k, v, save=True)
    g = random.standard_normal(y.shape, dtype=np.float32)
    d = operator.backward(saved, g)
    names = sorted(operator.parameters)
    arrays = [q, k, v, *(operator.parameters[n] for n in names)]
    gradients = [d.q, d.k, d.v, *(d.parameters[n] for n in names)]
    directions = [random.standard_normal(a.shape, dtype=np.float32) for a in arrays]
    slope = sum(float((a.astype(float) * b).sum()) for a, b in zip(gradients, directions))
    h = 2e-3
    values = []
    for sign in (1, -1):
        for a, b in zip(arrays, directions):
            a += np.float32(sign * h) * b
        values.append(float((operator.forward(q, k, v).astype(float) * g).sum()))
        for a, b in zip(arrays, directions):
            a -= np.float32(sign * h) * b
    assert abs((values[0] - values[1]) / (2 * h) - slope) < 0.02 * max(1, abs(slope))


@pytest.mark.parametrize("kernel", ["favor", "elu1"])
def test_state_and_steps(qkv, kernel):
    operator = Operator(kernel, "permute", heads=3, key_size=8, causal=True, decay="fixed",
                        features=16 if kernel == "favor" else None)
    whole = operator.forward(*qkv)
    first, state = operator.forward(*(x[:, :, :24] for x in qkv), return_state=True)
    rest = operator.forward(*(x[:, :, 24:] for x in qkv), state=state, offset=24)
    assert np.abs(np.concatenate([first, rest], 2) - whole).max() < 1e-5
    parts = [operator.step(*(x[:, :, a:b] for x in qkv)) for a, b in ((0, 1), (1, 9), (9, 40))]
    assert np.abs(np.concatenate(parts, 2) - whole).max() < 1e-5
    operator.reset()
    assert np.array_equal(operator.step(*(x[:, :, :1] for x in qkv)), parts[0])
    stream = operator.stream(2)
    size = stream.bytes
    stream.feed(*(x[:, :, :30] for x in qkv))
    other, third = stream.clone(), copy.copy(stream)
    tail = [x[:, :, 30:] for x in qkv]
    ahead = stream.feed(*tail)
    assert all(np.array_equal(ahead, s.feed(*tail)) for s in (other, third)) and stream.bytes == size


def test_packed_rows_and_lengths(qkv):
    for causal in (False, True):
        operator = Operator("elu1", heads=3, key_size=8, causal=causal)
        packed = operator.forward(*qkv, segments=[[10, 30], [25]])
        for row, a, b in ((0, 0, 10), (0, 10, 40), (1, 0, 25)):
            alone = operator.forward(*(x[row : row + 1, :, a:b] for x in qkv))
            assert np.abs(packed[row : row + 1, :, a:b] - alone).max() < 1e-6
        assert (packed[1, :, 25:] == 0).all()
        padded = operator.forward(*qkv, lengths=[40, 25])
        assert np.abs(padded[1, :, :25] - packed[1, :, :25]).max() < 1e-6


def test_lengths_and_masks_may_change_before_backward(qkv):
    operator = Operator("elu1", heads=3, key_size=8)
    given = {"lengths": np.array([40, 25], np.int32), "query_lengths": np.array([30, 35], np.int32),
             "key_mask": (np.arange(80).reshape(2, 40) % 3 > 0).astype(np.float32)}
    saved = operator.forward(*qkv, save=True, **given)[1]
    before = operator.backward(saved, qkv[2])
    for array in given.values():
        array[...] = 1
        assert all(np.array_equal(a, b) for a, b in zip(before[:3], operator.backward(saved, qkv[2])))


def test_gate(qkv):
    gate = -np.abs(np.random.default_rng(1).standard_normal((2, 3, 40), dtype=np.float32))
    y, saved = Operator("elu1", heads=3, key_size=8, causal=True).forward(*qkv, gate=gate, save=True)
    q, k, v = qkv.astype(float)
    total = np.cumsum(gate.astype(float), -1)
    w = np.einsum("bhtm,bhsm->bhts", FEATURES["elu1"](q), FEATURES["elu1"](k))
    w = np.tril(w * np.exp(np.minimum(total[..., :, None] - total[..., None, :], 0)))
    assert np.abs(y - w / w.sum(-1, keepdims=True) @ v).max() < 1e-5


def test_nothing_is_copied(qkv):
    """Transposed views are read without a copy, results have the layout of the queries, and `out` is written in place."""
    operator = Operator("elu1", heads=3, key_size=8)
    tokens_first = np.ascontiguousarray(qkv.transpose(0, 1, 3, 2, 4))
    views = tokens_first.transpose(0, 1, 3, 2, 4)
    y, saved = operator.forward(*views, save=True)
    for mine, given in zip((saved.q, saved.k, saved.v), tokens_first):
        assert mine.ctypes.data == given.ctypes.data and np.shares_memory(mine, given)
    assert y.transpose(0, 2, 1, 3).flags.c_contiguous
    assert np.array_equal(y, operator.forward(*qkv))
    out = np.zeros((2, 3, 40, 8), np.float32)
    assert operator.forward(*qkv, out=out).ctypes.data == out.ctypes.data and np.array_equal(out, y)
    shared = np.broadcast_to(qkv[1][:1], qkv[1].shape)  # a stride of 0
    assert operator.forward(qkv[0], shared, qkv[2], save=True)[1].k.ctypes.data == qkv[1].ctypes.data


def test_overlap_that_is_hard_to_find(qkv, monkeypatch):
    """`out` is taken where NumPy gives up, whichever of its versions it is."""
    from longline import _arrays

    def give_up(*_, **__):
        raise _arrays.TooHard("no answer within max_work")

    monkeypatch.setattr(np, "shares_memory", give_up)
    out = np.zeros((2, 3, 40, 8), np.float32)
    assert np.array_equal(Operator("elu1", heads=3, key_size=8).forward(*qkv, out=out), out)


def test_axes_that_are_left_out(qkv):
    whole = attention(*qkv, kernel="elu1")
    assert np.array_equal(attention(*(x[1] for x in qkv), kernel="elu1"), whole[1])
    assert np.array_equal(attention(*(x[1, 2] for x in qkv), kernel="elu1"), whole[1, 2])


def test_same_bits_for_any_number_of_threads(qkv):
    results = []
    for n in (1, 2, 5):
        longline.set_threads(n)
        assert longline.threads() == n
        results.append(attention(*qkv, kernel="favor", causal=True))
    assert all(np.array_equal(results[0], r) for r in results)


@pytest.mark.parametrize("kernel, causal", [("favor", True), ("favor", False), ("elu1", False), ("softmax", True)])
def test_products_of_bfloat16(qkv, kernel, causal):
    """Near those of floats, but not equal; backward rounds as forward did."""
    q, k, v = qkv
    options = {"features": 32} if kernel == "favor" else {}
    operator = Operator(kernel, heads=q.shape[1], key_size=q.shape[3], value_size=v.shape[3], causal=causal, **options)
    y, saved = operator.forward(q, k, v, save=True)
    half, rounded = operator.forward(q, k, v, bf16=True, save=True)
    d, near = operator.backward(saved, v[..., ::-1].copy()), operator.backward(rounded, v[..., ::-1].copy())
    for a, b in ((y, half), (d.q, near.q), (d.k, near.k), (d.v, near.v)):
        assert 0 < np.abs(a - b).max() < 0.03 * np.abs(a).max()


def test_the_lock_is_released():
    """While one thread is in a call, another one runs Python."""
    q = np.zeros((1, 4, 4000, 64), np.float32)
    longline.set_threads(1)
    counted, done = 0, threading.Event()
    thread = threading.Thread(target=lambda: (attention(q, q, q), done.set()))
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0)
    thread.join()
    assert counted > 100  # a held lock would let this loop run but a few times


def test_mechanisms_have_words():
    assert longline.KERNELS["favor"].paper and longline.POSITIONS["permute"].paper == "Chen 2021"


def test_errors_name_the_argument(qkv):
    q, k, v = qkv
    wrong = [
        (TypeError, "k: its dtype is float64; it must be float32", (q, k.astype(float), v), {}),
        (TypeError, "v: its dtype is >f4", (q, k, v.astype(">f4")), {}),
        (TypeError, "q: is a list", ([1.0], k, v), {}),
        (ValueError, "q: its last axis has a stride of 8 bytes", (np.repeat(q, 2, -1)[..., ::2], k, v), {}),
        (ValueError, "q: its strides are", (q[:, ::-1], k, v), {}),
        (ValueError, r"v: its shape is \(2, 3, 39, 8\); it must be", (q, k, v[:, :, 1:]), {}),
        (ValueError, "k: has 39 tokens and q 40", (q, k[:, :, 1:], v[:, :, 1:]), {"causal": True}),
        (ValueError, "kernel: is 'favour'.* did you mean 'favor'", (q, k, v), {"kernel": "favour"}),
        (ValueError, "position: is 'rotary'", (q, k, v), {"position": "rotary"}),
        (ValueError, "linear kernels have none; use softmax", (q, k, v), {"kernel": "elu1", "position": "t5"}),
        (ValueError, r"segments\[0\]: is \[50\]", (q, k, v), {"segments": [[50], [1]]}),
        (ValueError, "segments: has 1 lists", (q, k, v), {"segments": [3]}),
        (ValueError, "lengths: its shape", (q, k, v), {"lengths": [1]}),
        (ValueError, r"state: its shape is \(3,\)", (q, k, v), {"kernel": "elu1", "state": np.zeros(3, np.float32)}),
        (ValueError, "offset: is -1", (q, k, v), {"offset": -1}),
    ]
    for kind, words, arrays, options in wrong:
        with pytest.raises(kind, match=words):
            attention(*arrays, **options)
    for name, at in (("q", 0), ("k", 1), ("v", 2)):
        for bad in (np.nan, np.inf, -np.inf):
            arrays = [x.copy() for x in qkv]
            arrays[at][1, 2, 3, 4] = bad
            with pytest.raises(ValueError, match=rf"{name}: is .* at \[1, 2, 3, 4\]; it must be finite"):
                attention(*arrays, kernel="relu")
    assert issubclass(longline.ArgumentError, longline.LonglineError)


@pytest.mark.parametrize("shape", [(1, 0, 16, 8), (1, 2, 16, 0)])
def test_no_heads_or_no_width_names_the_array(shape):
    x = np.zeros(shape, np.float32)
    with pytest.raises(longline.ArgumentError, match=r"^q: its shape is .*at least one head"):
        attention(x, x, x, kernel="relu")


@pytest.mark.parametrize("kernel", [name for name in longline.KERNELS if longline.KERNELS[name].linear and name != "gla"])
def test_vectors_of_distances_can_learn(kernel, qkv):
    """Where features are flat or 0 at 0, vectors of 0 would have a gradient of 0 for ever."""
    q, k, v = (x[:, :2] for x in qkv)
    operator = longline.Operator(kernel, "relative-s2", heads=2, key_size=8, causal=True)
    y, saved = operator.forward(q, k[:, :1], v, save=True)
    assert np.abs(operator.backward(saved, q).parameters["rpe"]).max() > 0


def test_first_gains_of_sines():
    """2 N(0, 1) over the root of the norm of the 5 of a feature: the mean of squares is 4 E |n| / 5 = 1.7021."""
    gains = longline.position_parameters("sine-spe", 64, 256, 8)["gains"]
    assert abs((gains.astype(float) ** 2).mean() - 1.7021) < 0.05


WIDE_NAN = np.array([np.nan]).view(np.float32)


def half_a_nan():
    """Values of 2 heads, (1, 2, 4, 8), whose first two have a sum in double precision with the low word of a NaN."""
    v = np.zeros((1, 2, 4, 8), np.float32)
    v[:, :, 0], v[:, :, 1], v[:, :, 2:] = 1, 511 * 2.0**-30, 0.5
    assert np.isnan((v[0, 0, 0].astype(float) + v[0, 0, 1]).view(np.float32)).any()
    return v


@pytest.mark.parametrize("image", [None, (2, 3)])
def test_doubles_of_a_state(qkv, image):
    """Heads without keys have sums in double precision. Half of one may look like a NaN; a whole one that is NaN is none."""
    operator = longline.Operator("elu1", "relative-s2", heads=2, key_size=8, causal=True, image=image, clip=3)
    q, k, v = qkv[0][:1, :2, :4], qkv[1][:1, :1, :4], half_a_nan()
    whole = operator.forward(q, k, v)
    (_, state), rest = operator.forward(*(x[:, :, :2] for x in (q, k, v)), return_state=True), slice(2, 4)
    tail = [x[:, :, rest] for x in (q, k, v)]
    y, after, saved = operator.forward(*tail, state=state, offset=2, return_state=True, save=True)
    assert np.isnan(state).any() and np.abs(y - whole[:, :, rest]).max() < 1e-5
    assert np.isfinite(operator.backward(saved, y, state).q).all()
    at = doubles_of(operator._config, operator.state_size)
    sums = np.ascontiguousarray(state[:, at]).view(float)[0]
    assert np.array_equal(sums, [1 + 511 * 2.0**-30] * 8 + [2, 2])  # and how many values they are of, and how many are kept
    for i, nan in ((0, [np.nan]), (at.start, WIDE_NAN), (at.stop - 2, WIDE_NAN), (at.stop, [np.nan]), (-1, [np.nan])):
        wrong = state.copy()
        wrong[0, np.arange(i, i + len(nan))] = nan
        with pytest.raises(ValueError, match="state: has NaN in it"):
            operator.forward(*tail, state=wrong, offset=2)
        with pytest.raises(ValueError, match="dstate: has NaN in it"):
            operator.backward(saved, y, wrong)


def test_out_has_a_place_for_each_element(qkv):
    q, k, v = qkv
    operator = longline.Operator("elu1", heads=3, key_size=8)
    whole = operator.forward(q, k, v)
    for out in (np.zeros((40, 3, 2, 8), "f4").transpose(2, 1, 0, 3), np.zeros((4, 3, 80, 9), "f4")[::2, :, ::2, 1:]):
        assert np.array_equal(operator.forward(q, k, v, out=out), whole) and np.array_equal(out, whole)
    for strides in ((3840, 1280, 4, 4), (3840, 1280, 28, 4), (1280, 1280, 32, 4), (64, 1280, 32, 4), (3840, 1280, 0, 4)):
        shared = np.lib.stride_tricks.as_strided(np.zeros(4000, np.float32), q.shape, strides)
        with pytest.raises(ValueError, match="out: it must be writable, each element with a place of its own"):
            operator.forward(q, k, v, out=shared)
