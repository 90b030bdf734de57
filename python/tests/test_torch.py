"""PyTorch: gradients against definitions written in torch in double, states, refusals."""
import gc
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")  # Debian: python3-torch, which make deps installs

import longline  # noqa: E402
import longline.torch as ll  # noqa: E402

linear_attention = ll.functional.linear_attention


def definition(q, k, v, kernel, causal, W=None, gate=None):
    """Attention by its matrix."""
    D = q.shape[-1]
    if kernel == "softmax":
        w = q @ k.transpose(-1, -2) / D**0.5
        if causal:
            w = w.masked_fill(~torch.ones(w.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
        return w.softmax(-1) @ v
    if kernel == "favor":
        q, k = (x * D**-0.25 for x in (q, k))
        q, k = (torch.exp(x @ W.T - (x * x).sum(-1, keepdim=True) / 2) for x in (q, k))
    elif kernel == "elu1":
        q, k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    else:
        q, k = (torch.relu(x) + 1e-3 for x in (q, k))
    w = q @ k.transpose(-1, -2)
    if gate is not None:
        total = gate[..., 0].cumsum(-1)
        w = w * (total[..., :, None] - total[..., None, :]).clamp(max=0).exp()
    if causal:
        w = w.tril()
    return w / w.sum(-1, keepdim=True) @ v


def tensors(*shape, n=3, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(*shape, requires_grad=True) for _ in range(n)]


def compare(kernel, causal, gated=False, layout=False):
    q, k, v = tensors(2, 3, 30, 8)
    gate = (-torch.rand(2, 3, 30, 1)).requires_grad_() if gated else None
    operator = longline.Operator(kernel, heads=3, key_size=8, causal=causal,
                                 features=20 if kernel == "favor" else None)
    W = torch.from_numpy(operator.projection.astype(float)) if kernel == "favor" else None
    leaves = [q, k, v] + ([gate] if gated else [])
    given = [x.transpose(1, 2).contiguous().transpose(1, 2) if layout else x for x in leaves[:3]]
    y = linear_attention(*given, operator=operator, gate=gate)
    g = torch.randn(y.shape)
    mine = torch.autograd.grad((y * g).sum(), leaves)
    doubles = [x.detach().double().requires_grad_() for x in leaves]
    want = definition(*doubles[:3], kernel, causal, W, doubles[3] if gated else None)
    theirs = torch.autograd.grad((want * g.double()).sum(), doubles)
    assert (y.double() - want).abs().max() < 2e-5
    for a, b in zip(mine, theirs):
        assert (a.double() - b).abs().max() < 1e-4 * (1 + b.abs().max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", ["softmax", "favor", "elu1", "relu"])
def test_gradients(kernel, causal):
    compare(kernel, causal)


def test_gradients_of_other_layouts_and_gates():
    compare("elu1", True, gated=True)
    compare("favor", False, layout=True)


def close(mine, theirs):
    return all((a - b).abs().max() < 1e-4 * (1 + b.abs().max()) for a, b in zip(mine, theirs))


@pytest.mark.parametrize("kernel, options", [
    ("elu1", {}), ("elu1", {"gated": True}), ("favor", {"features": 16}), ("relu", {"position": "permute", "decay": "fixed"}),
    ("elu1", {"position": "rope"}), ("local", {"window": 7})])
def test_a_state_is_carried(kernel, options):
    """Parts of a sequence give what the whole gives; gradients go through the state."""
    gated = "gated" in options
    operator = longline.Operator(kernel, heads=3, key_size=8, causal=True,
                                 **{name: x for name, x in options.items() if name != "gated"})
    leaves = tensors(2, 3, 30, 8) + ([(-torch.rand(2, 3, 30)).requires_grad_()] if gated else [])
    y, state = [], None
    for part in slice(0, 8), slice(8, 9), slice(9, 30):
        q, k, v, *gate = (x[:, :, part] for x in leaves)
        out, state = linear_attention(q, k, v, operator=operator, gate=gate[0] if gated else None, state=state,
                                      return_state=True, offset=part.start)
        y.append(out)
    whole = linear_attention(*leaves[:3], operator=operator, gate=leaves[3] if gated else None)
    assert torch.allclose(torch.cat(y, 2), whole, atol=1e-5)
    g = torch.randn(whole.shape)
    assert close(*(torch.autograd.grad((out * g).sum(), leaves) for out in (torch.cat(y, 2), whole)))


def test_states_of_packed_rows():
    """A state for each sequence: each is fed twice, and is then as if it had both copies end to end."""
    leaves, rows = tensors(2, 3, 30, 8), [(0, 0, 20), (0, 20, 30), (1, 0, 5), (1, 5, 10)]
    how = dict(kernel="elu1", causal=True)
    _, state = linear_attention(*leaves, **how, segments=[[20, 10], [5, 5]], return_state=True)
    y = linear_attention(*leaves, **how, segments=[[20, 10], [5, 5]], state=state)
    assert len(state) == 4
    cut = [[x[b:b + 1, :, begin:end] for x in (*leaves, y)] for b, begin, end in rows]
    twice = [linear_attention(*(torch.cat([x, x], 2) for x in part[:3]), **how)[:, :, part[0].shape[2]:] for part in cut]
    assert all(torch.allclose(part[3], want, atol=1e-5) for part, want in zip(cut, twice))
    assert close(*(torch.autograd.grad(sum(x.pow(2).sum() for x in out), leaves, retain_graph=True)
                   for out in ([part[3] for part in cut], twice)))


def test_a_state_that_is_detached_ends_the_gradient():
    q, k, v = tensors(1, 2, 20, 4)
    first, state = linear_attention(*(x[:, :, :12] for x in (q, k, v)), "elu1", causal=True, return_state=True)
    rest = [x[:, :, 12:] for x in (q, k, v)]
    cut = linear_attention(*rest, "elu1", causal=True, state=state.detach(), offset=12)
    assert not any(d[:, :, :12].any() for d in torch.autograd.grad(cut.sum(), (k, v)))
    through = linear_attention(*rest, "elu1", causal=True, state=state, offset=12)
    assert all(d[:, :, :12].any() for d in torch.autograd.grad(through.sum(), (k, v), retain_graph=True))
    state.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        through.sum().backward()
    half = [x.detach().bfloat16().requires_grad_() for x in rest]
    y, left = linear_attention(*half, "elu1", causal=True, state=state.detach(), return_state=True, offset=12)
    (y.float().sum() + left.sum()).backward()
    assert (y.dtype, left.dtype, half[0].grad.dtype) == (torch.bfloat16, torch.float32, torch.bfloat16)


def test_states_that_are_refused():
    q, k, v = tensors(1, 2, 20, 4)
    state = linear_attention(q, k, v, "elu1", causal=True, return_state=True)[1]
    for options, kind, words in [(dict(state=state.double()), TypeError, "state: its dtype is torch.float64; it must be"),
                                 (dict(state=state.detach().numpy()), TypeError, "state: is a ndarray"),
                                 (dict(state=state[:, :-1]), ValueError, "state: its shape is"),
                                 (dict(return_state="no"), ValueError, "return_state: is 'no'")]:
        with pytest.raises(kind, match=words):
            linear_attention(q, k, v, "elu1", causal=True, **options)
    keyless = dict(kernel="elu1", position="relative-s2", causal=True, return_state=True)
    with pytest.raises(ValueError, match="state: position 'relative-s2' has double-precision sums"):
        linear_attention(q, k[:, :1], v, **keyless)
    assert len(linear_attention(*(x.detach() for x in (q, k[:, :1], v)), **keyless)) == 2
    with pytest.raises(TypeError, match="projection: needs a gradient, which nothing gives here; give projection.detach"):
        linear_attention(q, k, v, projection=torch.nn.Parameter(torch.randn(5, 4)))


def test_gradcheck_of_the_definition():
    """The definitions themselves: torch.autograd.gradcheck in double."""
    q, k, v = (torch.randn(1, 1, 5, 3, dtype=torch.double, requires_grad=True) for _ in range(3))
    for kernel in ("softmax", "elu1"):
        assert torch.autograd.gradcheck(lambda *x: definition(*x, kernel, True), (q, k, v))


def test_nothing_is_copied():
    q, k, v = (x.transpose(1, 2) for x in tensors(2, 30, 3, 8))  # (B, H, T, D) views of (B, T, H, D)
    seen = []
    operator = longline.Operator("elu1", heads=3, key_size=8)
    forward = operator.forward
    operator.forward = lambda *a, **o: (seen.extend(x.ctypes.data for x in a), forward(*a, **o))[1]
    y = linear_attention(q, k, v, operator=operator)
    assert seen == [x.data_ptr() for x in (q, k, v)]
    assert y.transpose(1, 2).is_contiguous()


def test_bfloat16():
    q, k, v = (x.detach().bfloat16().requires_grad_() for x in tensors(1, 2, 20, 8))
    y = linear_attention(q, k, v, "elu1", causal=True)
    y.float().sum().backward()
    wide = definition(*(x.detach().double() for x in (q, k, v)), "elu1", True)
    assert y.dtype == q.grad.dtype == torch.bfloat16 and (y.double() - wide).abs().max() < 0.02


def test_bfloat16_multiplies_bfloat16_where_the_processor_does():
    """The bits are those of an operator that is told to, on tensors that bfloat16 has widened."""
    q, k, v = (x.detach().bfloat16() for x in tensors(1, 2, 20, 8))
    operator = longline.Operator("favor", heads=2, key_size=8, features=16)
    bf16 = longline.cpu().endswith("bf16")
    expected = operator.forward(*(x.float().numpy() for x in (q, k, v)), bf16=bf16)
    assert torch.equal(linear_attention(q, k, v, operator=operator), torch.from_numpy(expected).bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backward_frees_what_it_read(dtype):
    """A loss that is kept, as sums of losses do, keeps no activations."""
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in tensors(1, 2, 20, 8))
    operator, kept = longline.Operator("elu1", heads=2, key_size=8, causal=True), []
    forward = operator.forward

    def watched(*a, **o):
        y, state, saved = forward(*a, **o)
        kept.extend(weakref.ref(x) for x in (saved.q, saved.v, saved.floats, state))
        return y, state, saved

    operator.forward = watched
    loss = linear_attention(q, k, v, operator=operator, return_state=True)[0].sum()
    gc.collect()
    assert all(x() is not None for x in kept) and len(kept) == 4
    loss.backward()
    gc.collect()
    assert [x() for x in kept] == [None] * 4 and loss.grad_fn is not None


def test_double_backward_is_refused():
    q, k, v = tensors(1, 1, 8, 4)
    (d,) = torch.autograd.grad(linear_attention(q, k, v, "elu1").pow(2).sum(), q)  # once is fine
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(linear_attention(q, k, v, "elu1").pow(2).sum(), q, create_graph=True)


def test_dlpack_in_and_out():
    q, k, v = (x.detach() for x in tensors(1, 2, 10, 4))
    y = longline.attention(q, k, v, kernel="elu1")  # torch tensors where they lie
    assert np.array_equal(y, longline.attention(*(x.numpy() for x in (q, k, v)), kernel="elu1"))
    back = torch.from_dlpack(y)
    assert back.data_ptr() == y.ctypes.data
    from longline._arrays import floats
    assert floats("q", q, (1, 2, 10, 4), "").ctypes.data == q.data_ptr()
    with pytest.raises(TypeError, match="q: needs a gradient"):
        longline.attention(*tensors(1, 2, 10, 4))


@pytest.mark.parametrize("changed", range(5))
def test_changes_in_place_are_refused(changed):
    """Backward reads q, k, v, the gate and the result where they lie."""
    leaves = tensors(1, 2, 10, 4) + [(-torch.rand(1, 2, 10, 1)).requires_grad_()]
    given = [x * 1 for x in leaves]
    y = linear_attention(*given[:3], "elu1", causal=True, gate=given[3])
    (given + [y])[changed].mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("name, array, value", [
    ("key_mask", torch.ones(1, 20), 0), ("lengths", torch.full((1,), 20, dtype=torch.int32), 9),
    ("query_lengths", np.full(1, 20, np.int32), 9), ("segments", torch.tensor([[12, 8]], dtype=torch.int32), 3)])
def test_masks_and_lengths_may_change_before_backward(name, array, value):
    q, k, v = tensors(1, 2, 20, 4)
    y = linear_attention(q, k, v, "elu1", **{name: array})
    want = torch.autograd.grad(y.square().sum(), (q, k, v), retain_graph=True)
    array[..., array.shape[-1] // 2:] = value
    for mine, theirs in zip(torch.autograd.grad(y.square().sum(), (q, k, v)), want):
        assert torch.equal(mine, theirs)


def test_masks_and_gates_of_either_form():
    """Booleans of NumPy and of torch, whole numbers, and a gate without its last axis."""
    q, k, v = tensors(2, 2, 10, 4)
    keep = torch.arange(10)[None] < torch.tensor([10, 6])[:, None]
    want = linear_attention(q, k, v, "elu1", key_mask=keep).detach()
    for mask in (keep, keep.numpy(), keep.int(), keep.numpy().astype("f4")):
        assert torch.equal(linear_attention(q, k, v, "elu1", key_mask=mask), want)
        assert np.array_equal(longline.attention(*(x.detach() for x in (q, k, v)), "elu1", key_mask=mask), want.numpy())
    gate = (-torch.rand(2, 2, 10)).requires_grad_()
    grads = [torch.autograd.grad(linear_attention(q, k, v, "elu1", causal=True, gate=g).sum(), gate)[0]
             for g in (gate, gate[..., None])]
    assert torch.equal(*grads) and grads[0].any()


def test_tensors_of_other_types_are_told_to_be_floats():
    q = torch.zeros(1, 2, 5, 4)
    for x in (q.half(), q.bfloat16(), q.double()):
        with pytest.raises(TypeError, match=r"k: .*it must be float32.*\(k.float\(\)\)"):
            longline.attention(q, x, q)


class OnDevice:
    """A tensor that says to DLPack that it is on a GPU."""

    device = "cuda:0"

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        raise AssertionError("must not be asked")


def test_refusals():
    q, k, v = tensors(1, 2, 10, 4)
    with pytest.raises(TypeError, match="k: is on meta; longline computes on the CPU"):
        linear_attention(q, k.to("meta"), v)
    with pytest.raises(TypeError, match=r"v: its dtype is torch.float64; it must be .* \(v.float\(\)\)"):
        linear_attention(q, k, v.double())
    with pytest.raises(TypeError, match="k: its dtype is torch.bfloat16; it must be that of q"):
        linear_attention(q, k.bfloat16(), v)
    with pytest.raises(TypeError, match="q: its layout is torch.sparse_coo"):
        linear_attention(q.detach().to_sparse(), k, v)
    with pytest.raises(TypeError, match="q: is a ndarray; it must be a torch.Tensor"):
        linear_attention(q.detach().numpy(), k, v)
    with pytest.raises(ValueError, match="v: is nan at"):
        linear_attention(q, k, v / 0 * 0)
    with pytest.raises(TypeError, match="k: is on cuda:0; it must be on the CPU"):
        longline.attention(q.detach(), OnDevice(), v.detach())


@pytest.mark.parametrize("name, options, first, then", [
    ("projection", {"kernel": "relu"}, torch.eye(4)[:3], -torch.eye(4)[:3]),
    ("decay", {"kernel": "elu1", "causal": True}, torch.tensor([0.5, 0.9]), torch.ones(2)),
    ("permutation", {"kernel": "relu", "position": "permute"}, torch.tensor([[1, 2, 3, 0]] * 2, dtype=torch.int32),
     torch.tensor([[1, 0, 3, 2]] * 2, dtype=torch.int32))])
def test_options_that_change_in_place(name, options, first, then):
    """A tensor has the hash of its identity, whatever its numbers are."""
    q, k, v = (x.detach() for x in tensors(1, 2, 10, 4))
    for call in (linear_attention, lambda *a, **o: torch.from_dlpack(longline.attention(*a, **o))):
        option = first.clone()
        before = call(q, k, v, **options, **{name: option})
        option.copy_(then)
        after = call(q, k, v, **options, **{name: option})
        assert torch.equal(after, call(q, k, v, **options, **{name: then.numpy()})) and not torch.equal(after, before)


def test_threads_do_not_fight():
    """Each number of threads can be set alone. torch's products in an autograd thread change no bit of longline's results."""
    torch.set_num_threads(2)
    q, k, v = tensors(1, 2, 200, 16)
    first = linear_attention(q, k, v, "favor", causal=True)
    longline.set_threads(1)
    assert torch.equal(first, linear_attention(q, k, v, "favor", causal=True)) and torch.get_num_threads() == 2
