"""Attention of a model in PyTorch swapped for longline's, weights kept."""
from __future__ import annotations

from typing import Any, Dict

import torch
from torch import nn

from .._core import ArgumentError
from ._linear import LinearAttention

ATTENTION = (nn.MultiheadAttention, LinearAttention)


def _from_multihead(old: nn.MultiheadAttention, kernel: str, position: str, options: Any) -> LinearAttention:
    if old.bias_k is not None or old.add_zero_attn:
        raise ArgumentError("model: an nn.MultiheadAttention with add_bias_kv or add_zero_attn has no linear form")
    new = LinearAttention(old.embed_dim, old.num_heads, bias=old.in_proj_bias is not None, kdim=old.kdim, vdim=old.vdim,
                          batch_first=old.batch_first, kernel=kernel, position=position,
                          dtype=old.out_proj.weight.dtype, **options)
    with torch.no_grad():
        weights = (old.in_proj_weight.chunk(3) if old.in_proj_weight is not None
                   else (old.q_proj_weight, old.k_proj_weight, old.v_proj_weight))
        biases = old.in_proj_bias.chunk(3) if old.in_proj_bias is not None else (None,) * 3
        for layer, weight, bias in zip((new.query, new.key, new.value), weights, biases):
            layer.weight.copy_(weight)
            layer.weight.requires_grad_(weight.requires_grad)
            if bias is not None:
                layer.bias.copy_(bias)
                layer.bias.requires_grad_(bias.requires_grad)
        new.out_proj.load_state_dict(old.out_proj.state_dict())
        for name, value in old.out_proj.named_parameters():
            new.out_proj.get_parameter(name).requires_grad_(value.requires_grad)
    return new.train(old.training)


def _converted(module: nn.Module, kernel: str, position: str, options: Dict[str, Any]) -> LinearAttention:
    if isinstance(module, LinearAttention):
        others = {name: value for name, value in options.items() if name != "causal"}
        module._configure(kernel, position, options.get("causal", module.causal), others)
        return module
    return _from_multihead(module, kernel, position, options)


def convert(model: nn.Module, kernel: str = "favor", position: str = "none", **options: Any) -> nn.Module:
    """Swaps every nn.MultiheadAttention in a model, in place, for `LinearAttention` with its weights; gives the model.
    A `LinearAttention` that is in it stays, and gets this kernel, this position and these options in place of its own;
    it stays causal unless causal=False is given. ArgumentError for a model that has neither.

    Weights that need no gradient need none afterwards. Each module draws random features of its own: `layer` counts them.

    nn.TransformerEncoder and its layers then leave their fast path in C++. kernel "softmax" without a position gives
    what the model gave before, but for rounding; so the swap can be tested before a kernel is chosen, and convert called
    again with that. options are those of `longline.Operator`. Dropout inside of attention is lost.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: is a {type(model).__name__}; it must be a torch.nn.Module")
    if isinstance(model, ATTENTION):
        return _converted(model, kernel, position, options)
    layer = options.pop("layer", 0)
    swapped: Dict[nn.Module, LinearAttention] = {}  # what a model has in several places stays one module
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if isinstance(child, ATTENTION):
                if child not in swapped:
                    of_layer = {**options, "layer": layer + len(swapped)}
                    swapped[child] = _converted(child, kernel, position, of_layer)
                setattr(parent, name, swapped[child])
        if isinstance(parent, nn.TransformerEncoder):
            parent.enable_nested_tensor = False
    if not swapped:
        raise ArgumentError(f"model: this {type(model).__name__} has no torch.nn.MultiheadAttention that could be swapped; "
                            "attention that is written in other ways can call "
                            "longline.torch.functional.linear_attention(q, k, v)")
    return model
