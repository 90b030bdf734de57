"""PyTorch: modules in the place of those of torch and of other libraries, and their weights."""
import pytest

torch = pytest.importorskip("torch")  # Debian: python3-torch, which make deps installs

import longline.torch as ll  # noqa: E402

linear_attention = ll.functional.linear_attention


def causal_favor(q, k, v, W):
    """Performer's attention by its matrix."""
    q, k = (x * q.shape[-1]**-0.25 for x in (q, k))
    q, k = (torch.exp(x @ W.T - (x * x).sum(-1, keepdim=True) / 2) for x in (q, k))
    w = (q @ k.transpose(-1, -2)).tril()
    return w / w.sum(-1, keepdim=True) @ v


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


def test_a_batch_of_no_sequence():
    """The last rank of many may have none. As from theirs the result is empty, and gradients of parameters are 0."""
    for mine in (ll.nn.LinearAttention(24, 3, kernel="elu1"), ll.nn.LinearAttention(24, 3, kernel="local", causal=True),
                 ll.nn.LinearAttention(24, 3, batch_first=False)):
        query, key = (torch.empty((0, n, 24) if mine.batch_first else (n, 0, 24), requires_grad=True) for n in (20, 30))
        key = query if mine.causal else key
        y = mine(query, key, key_padding_mask=torch.zeros(0, 20 if mine.causal else 30).bool())[0]
        assert y.shape == query.shape
        y.sum().backward()
        assert query.grad.shape == query.shape
        assert all(p.grad is not None and not p.grad.any() for p in mine.parameters())
    with pytest.raises(ValueError, match="k: its shape is"):
        mine(query, torch.ones(30, 1, 24))


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
    want = causal_favor(q, k, v, W).transpose(1, 2).flatten(2).float()
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
