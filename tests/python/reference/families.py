"""Forward passes of pretrained families in NumPy, and small models of each with random weights.

Written from the papers and the published configurations, not from any library's code: GPT-2 (Radford et al. 2019),
GPT-NeoX (Black et al. 2022), LLaMA (Touvron et al. 2023; grouped heads: Ainslie et al. 2023), BERT (Devlin et al. 2019),
RoBERTa (Liu et al. 2019), RoFormer (Su et al. 2021), ESM-2 (Lin et al. 2023). Arithmetic is in double; weights are
float32. A family is a function that makes (config, tensors, logits): logits(tokens) is (T, V).
"""

import math

import numpy as np


class Draws:
    """Random float32 tensors, kept by name."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.tensors = {}

    def weight(self, name, *shape, spread=0.2):
        x = (self.random.standard_normal(shape) * spread).astype(np.float32)
        self.tensors[name] = x
        return name

    def gain(self, name, n):
        self.tensors[name] = (1 + 0.3 * self.random.standard_normal(n)).astype(np.float32)

    def norm(self, name, n):
        self.gain(name + ".weight", n)
        self.weight(name + ".bias", n)

    def linear(self, name, inputs, outputs, bias=True):
        self.weight(name + ".weight", outputs, inputs, spread=1.3 / math.sqrt(inputs))
        if bias:
            self.weight(name + ".bias", outputs)


# ---- Layers, on arrays (T, ..) ----


def layer_norm(t, name, x, eps):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * t[name + ".weight"] + t[name + ".bias"]


def rms_norm(t, name, x, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * t[name + ".weight"]


def linear(t, name, x):
    y = x @ t[name + ".weight"].T.astype(np.float64)
    return y + t[name + ".bias"] if name + ".bias" in t else y


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_new(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def attention(q, k, v, causal, window=0):
    """q (T, H, D), k and v (T, G, D) with H a multiple of G: head h reads group h // (H / G).

    With a window a token sees so many tokens, itself included."""
    T, H, D = q.shape
    out = np.zeros((T, H, v.shape[2]))
    for h in range(H):
        g = h // (H // k.shape[1])
        scores = q[:, h] @ k[:, g].T / math.sqrt(D)
        if causal:
            near = np.triu(np.ones((T, T)), 1 - (window or T))
            scores = np.where(np.tril(near) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = weights / weights.sum(-1, keepdims=True) @ v[:, g]
    return out.reshape(T, -1)


def scaled(angle, rule):
    """Angles for longer sequences, by rope_scaling: "linear" (Chen et al. 2023), or "llama3" of LLaMA 3.1."""
    if not rule:
        return angle
    if rule["rope_type"] == "linear":
        return angle / rule["factor"]
    length, low, high = (rule[key] for key in
                         ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    wavelength = 2 * math.pi / angle
    smooth = (length / wavelength - low) / (high - low)
    between = (1 - smooth) * angle / rule["factor"] + smooth * angle
    return np.where(wavelength < length / high, angle,
                    np.where(wavelength > length / low, angle / rule["factor"], between))


def angles(T, n, base, rule=None):
    return np.arange(T)[:, None] * scaled(base ** (-np.arange(0, n, 2) / n), rule)[None]


def rotate_half(x, n, base, rule=None):
    """Rotates the first n channels, channel i with i + n/2 (GPT-NeoX, LLaMA, ESM-2)."""
    a = angles(len(x), n, base, rule)[:, None]
    first, second, rest = x[..., : n // 2], x[..., n // 2 : n], x[..., n:]
    turned = [first * np.cos(a) - second * np.sin(a), second * np.cos(a) + first * np.sin(a), rest]
    return np.concatenate(turned, -1)


def rotate_pairs(x, base):
    """Rotates neighbouring channels (RoFormer, equations 15 and 34)."""
    a = angles(len(x), x.shape[-1], base)[:, None]
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
    out[..., 1::2] = x[..., 1::2] * np.cos(a) + x[..., 0::2] * np.sin(a)
    return out


def heads(x, n):
    return x.reshape(len(x), n, -1)


# ---- Families ----


def gpt2(layers=2, width=16, n_head=2, vocab=29, positions=24, seed=1, prefix="transformer.", tied=True):
    d, C, eps = Draws(seed), width, 3e-4
    d.weight(prefix + "wte.weight", vocab, C, spread=0.5)
    d.weight(prefix + "wpe.weight", positions, C, spread=0.5)
    for i in range(layers):
        h = f"{prefix}h.{i}."
        d.norm(h + "ln_1", C)
        d.norm(h + "ln_2", C)
        for name, inputs, outputs in (("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C), ("mlp.c_fc", C, 4 * C),
                                      ("mlp.c_proj", 4 * C, C)):
            d.weight(h + name + ".weight", inputs, outputs, spread=1.3 / math.sqrt(inputs))
            d.weight(h + name + ".bias", outputs)
        d.tensors[h + "attn.bias"] = np.tril(np.ones((1, 1, positions, positions))).astype(np.float32)
    d.norm(prefix + "ln_f", C)
    if not tied:
        d.weight("lm_head.weight", vocab, C)
    t = d.tensors
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": layers, "n_head": n_head,
              "n_embd": C, "n_positions": positions, "vocab_size": vocab, "layer_norm_epsilon": eps,
              "activation_function": "gelu_new", "tie_word_embeddings": tied}

    def conv(name, x):
        return x @ t[name + ".weight"].astype(np.float64) + t[name + ".bias"]

    def logits(tokens):
        x = t[prefix + "wte.weight"][tokens].astype(np.float64) + t[prefix + "wpe.weight"][: len(tokens)]
        for i in range(layers):
            h = f"{prefix}h.{i}."
            q, k, v = np.split(conv(h + "attn.c_attn", layer_norm(t, h + "ln_1", x, eps)), 3, -1)
            x = x + conv(h + "attn.c_proj", attention(heads(q, n_head), heads(k, n_head), heads(v, n_head), True))
            x = x + conv(h + "mlp.c_proj", gelu_new(conv(h + "mlp.c_fc", layer_norm(t, h + "ln_2", x, eps))))
        x = layer_norm(t, prefix + "ln_f", x, eps)
        return x @ t[prefix + "wte.weight" if tied else "lm_head.weight"].T.astype(np.float64)

    return config, t, logits


def neox(layers=2, width=24, n_head=3, vocab=31, seed=2, parallel=True, share=0.5, base=1000):
    d, C, eps, p = Draws(seed), width, 1e-5, "gpt_neox."
    D = C // n_head
    d.weight(p + "embed_in.weight", vocab, C, spread=0.5)
    for i in range(layers):
        h = f"{p}layers.{i}."
        d.norm(h + "input_layernorm", C)
        d.norm(h + "post_attention_layernorm", C)
        d.linear(h + "attention.query_key_value", C, 3 * C)
        d.linear(h + "attention.dense", C, C)
        d.linear(h + "mlp.dense_h_to_4h", C, 5 * C)
        d.linear(h + "mlp.dense_4h_to_h", 5 * C, C)
    d.norm(p + "final_layer_norm", C)
    d.weight("embed_out.weight", vocab, C)
    t = d.tensors
    config = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": layers,
              "num_attention_heads": n_head, "hidden_size": C, "intermediate_size": 5 * C, "vocab_size": vocab,
              "max_position_embeddings": 32, "layer_norm_eps": eps, "hidden_act": "gelu", "rotary_pct": share,
              "rotary_emb_base": base, "use_parallel_residual": parallel, "tie_word_embeddings": False}

    def logits(tokens):
        x = t[p + "embed_in.weight"][tokens].astype(np.float64)
        n = int(D * share)
        for i in range(layers):
            h = f"{p}layers.{i}."
            a = layer_norm(t, h + "input_layernorm", x, eps)
            qkv = linear(t, h + "attention.query_key_value", a).reshape(len(x), n_head, 3, D)
            q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
            y = linear(t, h + "attention.dense",
                       attention(rotate_half(q, n, base), rotate_half(k, n, base), v, True))
            if not parallel:
                x = x + y
            b = layer_norm(t, h + "post_attention_layernorm", x, eps)
            f = linear(t, h + "mlp.dense_4h_to_h", gelu(linear(t, h + "mlp.dense_h_to_4h", b)))
            x = x + y + f if parallel else x + f
        return layer_norm(t, p + "final_layer_norm", x, eps) @ t["embed_out.weight"].T.astype(np.float64)

    return config, t, logits


def llama(layers=2, width=32, n_head=4, groups=2, vocab=37, seed=3, family="llama", head=8, tied=False, window=None, rule=None):
    d, C, eps, p, base, ff = Draws(seed), width, 1e-6, "model.", 5e5, 44
    qwen = family == "qwen2"
    d.weight(p + "embed_tokens.weight", vocab, C, spread=0.5)
    for i in range(layers):
        h = f"{p}layers.{i}."
        d.gain(h + "input_layernorm.weight", C)
        d.gain(h + "post_attention_layernorm.weight", C)
        d.linear(h + "self_attn.q_proj", C, n_head * head, qwen)
        d.linear(h + "self_attn.k_proj", C, groups * head, qwen)
        d.linear(h + "self_attn.v_proj", C, groups * head, qwen)
        d.linear(h + "self_attn.o_proj", n_head * head, C, False)
        d.linear(h + "mlp.gate_proj", C, ff, False)
        d.linear(h + "mlp.up_proj", C, ff, False)
        d.linear(h + "mlp.down_proj", ff, C, False)
    d.gain(p + "norm.weight", C)
    if not tied:
        d.weight("lm_head.weight", vocab, C)
    t = d.tensors
    config = {"model_type": family, "num_hidden_layers": layers, "num_attention_heads": n_head,
              "num_key_value_heads": groups, "hidden_size": C, "intermediate_size": ff, "vocab_size": vocab,
              "max_position_embeddings": 64, "rms_norm_eps": eps, "hidden_act": "silu", "rope_theta": base,
              "rope_scaling": rule, "attention_bias": False, "tie_word_embeddings": tied}
    if family == "llama":
        config["head_dim"] = head
    if family == "mistral":
        config["sliding_window"] = window
    if qwen and window:
        config.update(use_sliding_window=True, sliding_window=window, max_window_layers=0)

    def logits(tokens):
        x = t[p + "embed_tokens.weight"][tokens].astype(np.float64)
        for i in range(layers):
            h = f"{p}layers.{i}."
            a = rms_norm(t, h + "input_layernorm", x, eps)
            q = rotate_half(heads(linear(t, h + "self_attn.q_proj", a), n_head), head, base, rule)
            k = rotate_half(heads(linear(t, h + "self_attn.k_proj", a), groups), head, base, rule)
            v = heads(linear(t, h + "self_attn.v_proj", a), groups)
            x = x + linear(t, h + "self_attn.o_proj", attention(q, k, v, True, window))
            b = rms_norm(t, h + "post_attention_layernorm", x, eps)
            x = x + linear(t, h + "mlp.down_proj",
                           silu(linear(t, h + "mlp.gate_proj", b)) * linear(t, h + "mlp.up_proj", b))
        out = t[p + "embed_tokens.weight" if tied else "lm_head.weight"]
        return rms_norm(t, p + "norm", x, eps) @ out.T.astype(np.float64)

    return config, t, logits


def encoder_layer(d, h, C, ff, attention_norm, feed_norm):
    for name in ("query", "key", "value"):
        d.linear(f"{h}attention.self.{name}", C, C)
    d.linear(h + "attention.output.dense", C, C)
    d.norm(h + attention_norm, C)
    d.linear(h + "intermediate.dense", C, ff)
    d.linear(h + "output.dense", ff, C)
    d.norm(h + feed_norm, C)


def self_attention(t, h, a, n_head, turn):
    q, k, v = (heads(linear(t, f"{h}attention.self.{name}", a), n_head) for name in ("query", "key", "value"))
    return linear(t, h + "attention.output.dense", attention(turn(q), turn(k), v, False))


def lm_head(t, dense, norm, bias, table, x, eps):
    y = layer_norm(t, norm, gelu(linear(t, dense, x)), eps)
    return y @ t[table].T.astype(np.float64) + t[bias]


def bert(kind="bert", layers=2, width=16, n_head=2, vocab=41, seed=4, bare=False):
    """bert; roberta, whose positions begin after the number of the padding token; or roformer, which rotates."""
    d, C, ff, eps, rows, pad = Draws(seed), width, 40, 1e-12, 40, 1
    p = "" if bare else kind + "."
    types = 1 if kind == "roberta" else 2
    first = pad + 1 if kind == "roberta" else 0
    d.weight(p + "embeddings.word_embeddings.weight", vocab, C, spread=0.5)
    if kind != "roformer":
        d.weight(p + "embeddings.position_embeddings.weight", rows, C, spread=0.5)
    d.weight(p + "embeddings.token_type_embeddings.weight", types, C)
    d.norm(p + "embeddings.LayerNorm", C)
    for i in range(layers):
        encoder_layer(d, f"{p}encoder.layer.{i}.", C, ff, "attention.output.LayerNorm", "output.LayerNorm")
    if kind == "roberta":
        names = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias")
    else:
        names = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias")
    d.linear(names[0], C, C)
    d.norm(names[1], C)
    d.weight(names[2], vocab)
    d.linear(p + "pooler.dense", C, C)
    t = d.tensors
    config = {"model_type": kind, "architectures": [kind.capitalize() + "ForMaskedLM"], "num_hidden_layers": layers,
              "num_attention_heads": n_head, "hidden_size": C, "intermediate_size": ff, "vocab_size": vocab,
              "max_position_embeddings": rows, "type_vocab_size": types, "layer_norm_eps": eps, "hidden_act": "gelu",
              "pad_token_id": pad if kind == "roberta" else 0}
    if kind == "roformer":
        config.update(embedding_size=C, rotary_value=False)

    def logits(tokens, token_types=None):
        x = t[p + "embeddings.word_embeddings.weight"][tokens].astype(np.float64)
        x = x + t[p + "embeddings.token_type_embeddings.weight"][[0] * len(x) if token_types is None else token_types]
        if kind != "roformer":
            x = x + t[p + "embeddings.position_embeddings.weight"][first : first + len(x)]
        x = layer_norm(t, p + "embeddings.LayerNorm", x, eps)
        for i in range(layers):
            h = f"{p}encoder.layer.{i}."
            turn = (lambda q: rotate_pairs(q, 10000)) if kind == "roformer" else (lambda q: q)
            x = layer_norm(t, h + "attention.output.LayerNorm", x + self_attention(t, h, x, n_head, turn), eps)
            f = linear(t, h + "output.dense", gelu(linear(t, h + "intermediate.dense", x)))
            x = layer_norm(t, h + "output.LayerNorm", x + f, eps)
        return lm_head(t, *names, p + "embeddings.word_embeddings.weight", x, eps)

    return config, t, logits


def esm(layers=2, width=24, n_head=3, seed=5, vocab=33, mask=32):
    d, C, eps, p = Draws(seed), width, 1e-5, "esm."
    d.weight(p + "embeddings.word_embeddings.weight", vocab, C, spread=0.5)
    for i in range(layers):
        encoder_layer(d, f"{p}encoder.layer.{i}.", C, 4 * C, "attention.LayerNorm", "LayerNorm")
    d.norm(p + "encoder.emb_layer_norm_after", C)
    d.linear("lm_head.dense", C, C)
    d.norm("lm_head.layer_norm", C)
    d.weight("lm_head.bias", vocab)
    t = d.tensors
    t["lm_head.decoder.weight"] = t[p + "embeddings.word_embeddings.weight"]
    config = {"model_type": "esm", "architectures": ["EsmForMaskedLM"], "num_hidden_layers": layers,
              "num_attention_heads": n_head, "hidden_size": C, "intermediate_size": 4 * C, "vocab_size": vocab,
              "max_position_embeddings": 1026, "layer_norm_eps": eps, "hidden_act": "gelu", "pad_token_id": 1,
              "mask_token_id": mask, "token_dropout": True, "position_embedding_type": "rotary",
              "emb_layer_norm_before": False, "is_folding_model": False}

    def logits(tokens):
        tokens = np.asarray(tokens)
        x = t[p + "embeddings.word_embeddings.weight"][tokens].astype(np.float64)
        x[tokens == mask] = 0
        x = x * (1 - 0.15 * 0.8) / (1 - (tokens == mask).mean())
        for i in range(layers):
            h = f"{p}encoder.layer.{i}."
            a = layer_norm(t, h + "attention.LayerNorm", x, eps)
            x = x + self_attention(t, h, a, n_head, lambda q: rotate_half(q, q.shape[-1], 10000))
            b = layer_norm(t, h + "LayerNorm", x, eps)
            x = x + linear(t, h + "output.dense", gelu(linear(t, h + "intermediate.dense", b)))
        x = layer_norm(t, p + "encoder.emb_layer_norm_after", x, eps)
        return lm_head(t, "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder.weight", x, eps)

    return config, t, logits
