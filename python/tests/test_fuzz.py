"""Any argument gives a right result or a Python exception that names the argument, and no crash."""
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import longline

QUICK = settings(max_examples=120, deadline=None, database=None, derandomize=True,
                 suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
WORDS = ("lengths", "key_mask", "segments", "state", "gate", "gates", "offset", "kernel", "position", "decay", "projection",
         "permutation", "scale", "features", "image", "feature_kind", "parameters", "window")
# "q: ..", "segments[1]: ..", "the result: .."; or a sentence of the library that has the name as a word of its own.
NAMED = re.compile(rf"(q|k|v|the result|{'|'.join(WORDS)})(\[[^]]*\])?: |no memory|.*\b({'|'.join(WORDS)})\b", re.DOTALL)

sizes = st.integers(0, 5)
dtypes = st.sampled_from(["f4", "f4", "f4", "f4", ">f4", "f8", "f2", "i4", "i8", "u1", "?", "c8", "O", "S3"])


@st.composite
def any_array(draw, shape=None):
    """Wrong and right types, shapes, strides (negative, zero, unaligned), and numbers that are not finite."""
    dtype = draw(dtypes)
    shape = draw(st.lists(sizes, max_size=5)) if shape is None or draw(st.integers(0, 9)) == 0 else list(shape)
    a = np.random.default_rng(draw(st.integers(0, 3))).standard_normal([2 * n for n in shape])
    how = draw(st.sampled_from(["whole", "whole", "whole", "steps", "back", "transposed", "fixed", "unaligned"]))
    with np.errstate(all="ignore"):
        a = a.astype(dtype) if dtype not in ("O", "S3") else a.astype("f4").astype(dtype)
    a = np.asarray(a[tuple(slice(None, n) for n in shape)])
    if how == "steps":
        a = np.repeat(a, 2, -1)[..., ::2] if a.ndim else a
    elif how == "back" and a.ndim:
        a = a[..., ::-1] if draw(st.booleans()) or a.ndim < 2 else a[::-1]
    elif how == "transposed" and a.ndim > 1:
        a = a.swapaxes(-1, -2)
    elif how == "fixed" and a.ndim > 2:
        a = np.broadcast_to(a[:1], a.shape)
    elif how == "unaligned" and dtype == "f4":
        raw = np.zeros(a.size * 4 + 1, np.uint8)[1:].view("f4").reshape(a.shape)
        raw[...] = a
        a = raw
    else:
        a = np.ascontiguousarray(a)
    if dtype == "f4" and a.size and a.flags.writeable and draw(st.integers(0, 4)) == 0:
        a.flat[draw(st.integers(0, a.size - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 3e38, 1e-45]))
    return a


anything = st.one_of(st.none(), st.integers(-3, 2**40), st.floats(), st.text(max_size=3), any_array(), st.lists(sizes, max_size=3),
                     st.lists(st.lists(st.integers(-2, 6), max_size=3), max_size=3))


def allowed(error):
    """The exception is one of longline's, or a TypeError, and says what the named argument must be."""
    words = str(error)
    assert NAMED.match(words), f"{type(error).__name__}: {words}"


def test_what_is_allowed():
    for words in ("q: its shape is (1,)", "segments[1]: is 5", "parameters['x']: is text", "no memory for 8 bytes",
                  "a window of 0 tokens"):
        allowed(ValueError(words))
    for words in ("", "invalid value", "unknown error", "cannot broadcast", "it must fit", "a v: is 5"):
        with pytest.raises(AssertionError):
            allowed(ValueError(words))


@st.composite
def calls(draw):
    B, H, T, D = (draw(st.integers(1, 3)) for _ in range(4))
    q, k, v = (draw(any_array((B, H, T, D))) for _ in range(3))
    options = {}
    for name in ("lengths", "key_mask", "segments", "state", "gate", "offset", "decay", "projection", "permutation", "features",
                 "window", "image", "scale", "feature_kind", "parameters"):
        if draw(st.integers(0, 11)) == 0:
            options[name] = draw(anything)
    if draw(st.integers(0, 4)) == 0:
        options["lengths"] = draw(st.lists(st.integers(-1, 4), min_size=B, max_size=B))
    kernel = draw(st.sampled_from([*longline.KERNELS, "no", None, 3]))
    position = draw(st.sampled_from([*longline.POSITIONS, "none", "none", "none", "", 7]))
    return (q, k, v), dict(kernel=kernel, position=position, causal=draw(st.booleans()), **options)


@QUICK
@given(calls(), st.booleans())
def test_attention(call, backward):
    tensors, options = call
    options.setdefault("features", 4)
    try:
        y = longline.attention(*tensors, **options)
    except (longline.LonglineError, TypeError) as error:
        allowed(error)
        return
    assert y.shape[-1] == tensors[2].shape[-1] and y.shape[:-1] == tensors[0].shape[:-1]
    assert all(a.dtype == np.float32 for a in tensors)
    if np.abs(np.concatenate([a.ravel() for a in tensors])).max(initial=0) < 10:
        assert np.isfinite(y).all()


@QUICK
@given(st.lists(any_array((1, 2, 3, 4)), min_size=3, max_size=3), any_array((1, 2, 3, 4)))
def test_backward_and_streams(tensors, dy):
    operator = longline.Operator("elu1", heads=2, key_size=4, causal=True)
    try:
        y, saved = operator.forward(*tensors, save=True)
        operator.backward(saved, dy)
        operator.step(*tensors)
    except (longline.LonglineError, TypeError) as error:
        assert re.match(r"(q|k|v|dy|the result): ", str(error)), str(error)


@pytest.fixture(scope="module")
def model():
    return longline.Model({"model.width": 16, "model.heads": 2, "model.layers": 1, "model.ff": 16, "model.vocab": 20,
                           "attention.kernel": "elu1"})


@QUICK
@given(anything, anything, st.sampled_from(["score", "logp", "encode", "loss", "feed", "generate", "targets"]))
def test_models(model, tokens, other, what):
    try:
        if what in ("score", "logp", "encode"):
            assert np.isfinite(getattr(model, what)(tokens, other)).all()
        elif what == "loss":
            assert model.loss(tokens)[0] > 0
        elif what == "targets":
            model.loss(longline.Batch(tokens, targets=other))
        elif what == "feed":
            model.stream().feed(tokens)
        else:
            list(model.stream().generate(tokens, 2, seed=other if isinstance(other, int) else 0))
    except (longline.LonglineError, TypeError) as error:
        assert str(error)


@QUICK
@given(st.binary(max_size=300), st.integers(0, 2**31), st.integers(0, 255))
def test_bytes_of_models(model, junk, at, value):
    content = bytearray(model.to_bytes())
    content[at % len(content)] = value
    for data in (junk, bytes(content), bytes(content[: at % len(content)])):
        try:
            assert np.isfinite(longline.Model.from_bytes(data).score([1, 2, 3])).all()
        except longline.LonglineError as error:
            assert str(error)


@QUICK
@given(st.dictionaries(st.one_of(st.sampled_from(list(longline.Recipe())), st.text(max_size=8)),
                       st.one_of(st.integers(), st.text(max_size=8), st.floats(), st.booleans()), max_size=4), st.text(max_size=50))
def test_recipes(settings_, text):
    for make in (lambda: longline.Recipe(settings_), lambda: longline.Recipe(text=text)):
        try:
            dict(make())
        except (longline.LonglineError, KeyError, UnicodeError) as error:
            assert str(error)
