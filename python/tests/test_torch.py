"""PyTorch: gradients against definitions written in torch in double, drop-in modules, refusals."""
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


def test_drop_in_for_multihead_attention():
    torch.manual_seed(0)
    for batch_first in (False, True):
        theirs = torch.nn.MultiheadAttention(24, 3, batch_first=batch_first).eval()
        mine = ll.convert(theirs, kernel="softmax")
        x = torch.randn(2, 10, 24)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(10 if batch_first else 2)
        for options in ({}, {"attn_mask": mask}):
            assert torch.allclose(mine(x, x, x, **options)[0], theirs(x, x, x, **options)[0], atol=1e-5)
    padding = torch.zeros(2, 10, dtype=torch.bool)
    padding[1, 7:] = True
    want = theirs(x, x, x, key_padding_mask=padding)[0]
    assert torch.allclose(mine(x, x, x, key_padding_mask=padding)[0], want, atol=1e-5)
    linear = ll.convert(theirs, kernel="elu1")
    short = linear(x[1:, :7])[0]
    assert torch.allclose(linear(x, key_padding_mask=padding)[0][1:, :7], short, atol=1e-5)
    assert torch.allclose(linear(x, mask=~padding)[0][1:, :7], short, atol=1e-5)
    cross = linear(x[:, :4], x, x)[0]
    assert cross.shape == (2, 4, 24)
    one, hidden = x[1], padding[1]  # one sequence, whose mask has one axis as theirs
    want = theirs(one, one, one, key_padding_mask=hidden)[0]
    assert torch.allclose(mine(one, key_padding_mask=hidden)[0], want, atol=1e-5)
    assert torch.allclose(linear(one, key_padding_mask=hidden)[0][:7], short[0], atol=1e-5)
    assert torch.allclose(linear(one, mask=~hidden)[0][:7], short[0], atol=1e-5)


def test_weights_of_other_modules():
    """load_state_dict takes the names of nn.MultiheadAttention, of performer-pytorch and of fast-transformers."""
    torch.manual_seed(1)
    x = torch.randn(2, 7, 24)
    for more in ({}, {"kdim": 8, "vdim": 8}):
        theirs = torch.nn.MultiheadAttention(24, 3, batch_first=True, **more)
        mine = ll.nn.LinearAttention(24, 3, kernel="softmax", **more)
        mine.load_state_dict(theirs.state_dict())
        key = torch.randn(2, 9, 8) if more else x
        assert torch.allclose(mine(x, key, key)[0], theirs(x, key, key)[0], atol=1e-5)
    state = mine.state_dict()
    names = {"query": "to_q", "key": "to_k", "value": "to_v", "out_proj": "to_out"}
    theirs = {f"layers.0.{names[n.split('.')[0]]}.{n.split('.')[1]}": w for n, w in state.items()}
    theirs["layers.0.fast_attention.projection_matrix"] = torch.zeros(3)
    whole = torch.nn.ModuleDict({"layers": torch.nn.ModuleList([ll.nn.LinearAttention(24, 3, kdim=8, vdim=8)])})
    whole.load_state_dict(theirs)
    assert all(torch.equal(w, state[n]) for n, w in whole["layers"][0].named_parameters())
    with pytest.raises(RuntimeError, match="to_r.weight"):
        mine.load_state_dict({**state, "to_r.weight": torch.zeros(1)})


@pytest.mark.parametrize("options", [dict(features=8), dict(kernel="elu1", position="permute"), dict(kernel="reformer"),
                                     dict(kernel="relu", projection="orthogonal")])
def test_weights_belong_to_what_is_drawn(options):
    """A strict load names the seed and layer that other features were drawn with."""
    def make(**more):
        return torch.nn.ModuleDict({"a": ll.nn.LinearAttention(24, 3, **{"kernel": "favor", **options, **more})})

    state = make(seed=2**63, layer=2).state_dict()
    assert all(isinstance(x, torch.Tensor) for x in state.values())  # as safetensors needs
    assert str(make(seed=2**63, layer=2).load_state_dict(state)) == "<All keys matched successfully>"
    for more, words in ((dict(layer=2), "seed=0, layer=2"), (dict(seed=2**63), "layer=0")):
        with pytest.raises(RuntimeError, match=f"a.draws: .* seed={2**63}, layer=2 draw, .* {words}; make it with those"):
            make(**more).load_state_dict(state)
    other = make()
    assert len(other.load_state_dict(state, strict=False).unexpected_keys) == 1
    assert torch.equal(other["a"].query.weight, state["a.query.weight"])
    plain = ll.nn.LinearAttention(24, 3, kernel="elu1")  # draws nothing
    assert not set(plain.state_dict()) - {n for n, _ in plain.named_parameters()}
    plain.load_state_dict({n[2:]: x for n, x in state.items()})
    other["a"].load_state_dict(plain.state_dict())


def test_performers_modules():
    torch.manual_seed(2)
    x, context = torch.randn(2, 9, 32), torch.randn(2, 5, 32)
    a = ll.nn.SelfAttention(dim=32, heads=4, dim_head=8, causal=True, nb_features=40, qkv_bias=True)
    y = a(x)
    assert y.shape == x.shape and a.operator(True).features == 40
    q, k, v = (f(x).unflatten(-1, (4, 8)).transpose(1, 2).double() for f in (a.query, a.key, a.value))
    W = torch.from_numpy(a.operator(True).projection.astype(float))
    want = definition(q, k, v, "favor", True, W).transpose(1, 2).flatten(2).float()
    assert torch.allclose(a.out_proj(want), y, atol=1e-5)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1, 6:] = False
    b = ll.nn.SelfAttention(32, heads=4, generalized_attention=True, dropout=0.5).eval()
    assert (b.kernel, b.head_dim, b.query.bias, b.operator(False).features) == ("relu", 64, None, 266)
    assert torch.allclose(b(x, mask=mask)[1, :6], b(x[1:, :6])[0], atol=1e-5)
    q, k, v = (f(x).unflatten(-1, (4, 64)).transpose(1, 2) for f in (b.query, b.key, b.value))
    y = linear_attention(q, k, v, kernel="relu", projection="orthogonal", features=266, scale=64**-0.5)  # as the page says
    assert torch.equal(b(x), b.out_proj(y.transpose(1, 2).flatten(2)))
    assert (b.train()(x) == 0).any()  # what comes out is dropped
    c = ll.nn.CrossAttention(32, heads=4)
    few = torch.ones(2, 5, dtype=torch.bool)
    few[:, 3:] = False
    assert torch.allclose(c(x, context=context, context_mask=few), c(x, context=context[:, :3]), atol=1e-5)
    for words, call in [("local_heads: is 2", lambda: ll.nn.SelfAttention(32, heads=4, local_heads=2)),
                        ("no_projection", lambda: ll.nn.SelfAttention(32, heads=4, no_projection=True)),
                        ("kernel_fn", lambda: ll.nn.SelfAttention(32, heads=4, kernel_fn=torch.nn.GELU())),
                        ("kernel: is 'elu1'; here generalized_attention decides it",
                         lambda: ll.nn.SelfAttention(32, heads=4, generalized_attention=True, kernel="elu1")),
                        ("features: is 8; here nb_features", lambda: ll.nn.CrossAttention(32, heads=4, features=8)),
                        ("bias: is True; here qkv_bias", lambda: ll.nn.SelfAttention(32, heads=4, bias=True)),
                        ("kernel: is 'relu'; here attention", lambda: ll.nn.AttentionLayer("elu1", 32, 4, kernel="relu")),
                        ("pos_emb: must be None", lambda: b(x, pos_emb=x)),
                        ("self-attention has none", lambda: b(x, context=context)),
                        ("cross-attention needs one", lambda: c(x))]:
        with pytest.raises(ValueError, match=words):
            call()


class Mask:
    """As fast-transformers' masks are read: True is kept."""

    def __init__(self, matrix):
        self.bool_matrix = matrix


def test_fast_transformers_layer():
    torch.manual_seed(3)
    x = torch.randn(2, 6, 32)
    layer = ll.nn.AttentionLayer("elu1", d_model=32, n_heads=4)
    full, ragged = Mask(torch.ones(6, 6, dtype=torch.bool)), Mask(torch.ones(2, 6, dtype=torch.bool))
    triangle = Mask(torch.ones(6, 6, dtype=torch.bool).tril())
    whole = layer(x, x, x, full, ragged, ragged)
    assert torch.allclose(whole, ll.nn.LinearAttention.forward(layer, x)[0])
    causal = layer(x, x, x, attn_mask=triangle, query_lengths=ragged, key_lengths=ragged)
    assert torch.allclose(causal[:, :4], layer(*[x[:, :4]] * 3, Mask(triangle.bool_matrix[:4, :4])), atol=1e-5)
    ragged.bool_matrix[1, 4:] = False
    assert torch.allclose(layer(x, x, x, full, ragged, ragged)[1, :4], layer(*[x[1:, :4]] * 3)[0], atol=1e-5)
    assert ll.nn.AttentionLayer("favor", 32, 4, d_keys=16, d_values=16, features=32).head_dim == 16
    with pytest.raises(ValueError, match="d_values: is 4; it must be d_keys, 8"):
        ll.nn.AttentionLayer("elu1", 32, 4, d_values=4)
    with pytest.raises(TypeError, match="attention: is a Linear; it must be the name of a kernel"):
        ll.nn.AttentionLayer(torch.nn.Linear(1, 1), 32, 4)
    with pytest.raises(ValueError, match="attn_mask: it is not the causal one"):
        layer(x, x, x, Mask(torch.eye(6, dtype=torch.bool)))


def test_names_of_other_libraries():
    ll.nn.LinearAttention(dim=32, heads=4, nb_features=None, generalized_attention=True)  # their default
    a = ll.nn.LinearAttention(dim=32, heads=4, nb_features=64, causal=True)  # performer-pytorch
    assert a.operator(True).features == 64 and a(torch.zeros(1, 6, 32))[0].shape == (1, 6, 32)
    assert ll.nn.LinearAttention(dim=32, heads=4, generalized_attention=True).kernel == "relu"
    assert ll.nn.LinearAttention(dim=32, heads=4, dim_head=16).operator(False).key_size == 16
    b = ll.nn.LinearAttention(d_model=32, n_heads=4, kernel="elu1")  # fast-transformers
    assert b.embed_dim == 32 and b.batch_first  # theirs; not torch's, whose next argument would be add_bias_kv
    with pytest.raises(TypeError, match="positional arguments"):
        ll.nn.LinearAttention(32, 4, 0.0, True, False)
    triangle = ~torch.ones(3, 3, dtype=torch.bool).tril()
    assert b(torch.zeros(1, 3, 32), attn_mask=triangle.expand(4, 3, 3))[0].shape == (1, 3, 32)
    for words, call in [("num_heads: is None", lambda: ll.nn.LinearAttention(32)),
                        ("does not divide", lambda: ll.nn.LinearAttention(30, 4)),
                        ("dropout", lambda: ll.nn.LinearAttention(32, 4, dropout=0.1)),
                        ("not the causal one", lambda: b(torch.zeros(1, 3, 32), attn_mask=torch.eye(3).bool())),
                        ("attn_mask: a float mask", lambda: b(torch.zeros(1, 3, 32), attn_mask=torch.ones(3, 3).triu(1))),
                        ("attn_mask: a float mask", lambda: b(torch.zeros(1, 3, 32),
                                                              attn_mask=torch.ones(3, 3).triu(1) * float("nan"))),
                        ("key_padding_mask: a float mask", lambda: b(torch.zeros(1, 3, 32),
                                                                     key_padding_mask=torch.full((1, 3), 0.5))),
                        ("not the causal one", lambda: b(torch.zeros(1, 3, 32), attn_mask=torch.stack(
                            [triangle, torch.eye(3).bool()])))]:
        with pytest.raises(ValueError, match=words):
            call()


def test_causal_masks():
    """A mask of floats has torch's meaning alone: -inf removes a pair. One of booleans may have that of fast-transformers."""
    layer, x, lower = ll.nn.LinearAttention(8, 2, kernel="elu1"), torch.randn(1, 5, 8), torch.ones(5, 5).tril() > 0
    causal = layer(x, is_causal=True)[0]
    for mask in (lower, ~lower, torch.zeros(5, 5).masked_fill(~lower, -torch.inf)):
        assert torch.equal(layer(x, attn_mask=mask)[0], causal)
    with pytest.raises(ValueError, match="not the causal one"):
        layer(x, attn_mask=torch.zeros(5, 5).masked_fill(lower, -torch.inf))


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
