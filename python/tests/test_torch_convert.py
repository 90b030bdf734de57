"""PyTorch: models whose attention is replaced keep their weights and train."""
import copy

import pytest

torch = pytest.importorskip("torch")  # Debian: python3-torch, which make deps installs

import longline.torch as ll  # noqa: E402


@pytest.mark.parametrize("norm_first", [False, True])
def test_convert_an_encoder(norm_first):
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, batch_first=True, norm_first=norm_first)
    encoder = torch.nn.TransformerEncoder(layer, 2)
    for p in encoder.parameters():
        torch.nn.init.normal_(p, std=0.2)
    x = torch.randn(2, 12, 24)
    for train in (True, False):  # eval takes torch's fast path before the conversion
        encoder.train(train)
        with torch.set_grad_enabled(train):
            want = encoder(x)
        mine = ll.convert(copy.deepcopy(encoder), kernel="softmax")
        assert sum(isinstance(m, ll.nn.LinearAttention) for m in mine.modules()) == 2
        with torch.set_grad_enabled(train):
            assert torch.allclose(mine(x), want, atol=1e-4)
    linear = ll.convert(encoder, kernel="favor", position="permute", features=32).train()
    optimizer = torch.optim.Adam(linear.parameters(), 1e-2)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = (linear(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.95 * losses[0]


def test_convert_a_shared_module():
    """What a model has in several places stays one module."""
    one = torch.nn.MultiheadAttention(8, 2)
    model = torch.nn.ModuleDict({"a": one, "b": torch.nn.ModuleList([one, one])})
    ll.convert(model, kernel="elu1")
    assert isinstance(model["a"], ll.nn.LinearAttention)
    assert model["a"] is model["b"][0] is model["b"][1]


def test_convert_again():
    """The swap is tested with softmax; the kernel that is chosen then takes its place, with the same weights."""
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, batch_first=True)
    encoder, x = torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 12, 24)
    want = ll.convert(copy.deepcopy(encoder), kernel="favor", features=8)
    weight = ll.convert(encoder, kernel="softmax").layers[0].self_attn.query.weight
    encoder(x)
    assert ll.convert(encoder, kernel="favor", features=8) is encoder
    assert torch.equal(encoder(x), want(x)) and encoder.layers[0].self_attn.query.weight is weight
    with pytest.raises(ValueError, match="features: are rows of a projection"):
        ll.convert(encoder, kernel="elu1", features=8)
    assert torch.equal(encoder(x), want(x))  # as it was
    one = ll.nn.SelfAttention(24, heads=3, causal=True)
    assert ll.convert(one, kernel="elu1") is one and one(x).shape == x.shape
    assert one.operator(True).kernel == "elu1" and one.causal and not ll.convert(one, kernel="relu", causal=False).causal


def test_convert_finds_no_attention():
    for model in (torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 2)):
        with pytest.raises(ValueError, match="^model: this .* has no torch.nn.MultiheadAttention"):
            ll.convert(model, kernel="elu1")


@pytest.mark.parametrize("kdim", [None, 6])
def test_convert_keeps_frozen_weights(kdim):
    old = torch.nn.MultiheadAttention(8, 2, kdim=kdim)
    old.out_proj.weight.requires_grad_(False)
    assert [n for n, p in ll.convert(old, kernel="elu1").named_parameters() if not p.requires_grad] == ["out_proj.weight"]
    for p in old.parameters():
        p.requires_grad_(False)
    assert not any(p.requires_grad for p in ll.convert(old, kernel="elu1").parameters())


def test_masks_of_a_converted_transformer():
    """A mask that removes no pair is as none; each module draws features of its own."""
    torch.manual_seed(2)
    model = torch.nn.Transformer(16, 2, 2, 1, 32, dropout=0.0, batch_first=True)
    model = ll.convert(model, kernel="favor", features=8).eval()
    x, y, none = torch.randn(2, 6, 16), torch.randn(2, 5, 16), torch.zeros(6, 6)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    want = model(x, y, tgt_mask=causal)
    for mask in (none, none.bool()):
        assert torch.equal(model(x, y, src_mask=mask, tgt_mask=causal, memory_mask=torch.zeros(5, 6)), want)
    first, second = (layer.self_attn.operator(False) for layer in model.encoder.layers)
    assert (first.projection != second.projection).any()


@pytest.mark.parametrize("kernel", ["local", "reformer", "value", "linformer", "nystrom", "softmax"])
def test_padding_of_kernels_without_features(kernel):
    """Tokens that count do not see padding."""
    attention = ll.nn.LinearAttention(16, 2, kernel=kernel)
    x = torch.randn(2, 6, 16)
    padding = torch.arange(6)[None] >= torch.tensor([6, 3])[:, None]
    other = torch.where(padding[..., None], torch.randn(2, 6, 16), x)
    a, b = (attention(z, key_padding_mask=padding)[0] for z in (x, other))
    assert torch.equal(a[~padding], b[~padding])
