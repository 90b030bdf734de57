"""Modules that are called, and give their result, as those of other libraries: performer-pytorch's SelfAttention and
CrossAttention, and fast-transformers' AttentionLayer."""
from __future__ import annotations

import math
from typing import Any, Dict, Optional

import torch
from torch import nn

from .._core import ArgumentError
from ._linear import LinearAttention


def _refuse_second(options: Dict[str, Any], **arguments: str) -> None:
    """ArgumentError for an option of LinearAttention that an argument of the module decides."""
    for name, argument in arguments.items():
        if name in options:
            raise ArgumentError(f"{name}: is {options[name]!r}; here {argument} decides it (longline.torch.nn.LinearAttention "
                                f"takes {name})")


# ---- performer-pytorch ----


class SelfAttention(LinearAttention):
    """performer_pytorch.SelfAttention: the same arguments and sizes, and `forward` gives the output alone.

    generalized_attention means kernel "relu" with an orthogonal projection and scale dim_head^-0.5; else it is "favor".
    kernel_fn may be nn.ReLU alone. A rotary pos_emb of the call becomes position="rope" here. Features are drawn once, as
    theirs are between two redraws.
    """

    crosses = False

    def __init__(self, dim: int, causal: bool = False, heads: int = 8, dim_head: Optional[int] = 64, local_heads: int = 0,
                 local_window_size: int = 256, nb_features: Optional[int] = None, feature_redraw_interval: int = 1000,
                 generalized_attention: bool = False, kernel_fn: Any = None, dropout: float = 0.0,
                 no_projection: bool = False, qkv_bias: bool = False, attn_out_bias: bool = True, *,
                 position: str = "none", **options: Any) -> None:
        if local_heads:
            raise ArgumentError(f"local_heads: is {local_heads}; it must be 0: all heads of a module are of one kernel")
        if no_projection:
            raise ArgumentError("no_projection: attention with separate softmaxes is not supported; it must be False")
        if kernel_fn is not None and not isinstance(kernel_fn, nn.ReLU):
            raise ArgumentError(f"kernel_fn: is {kernel_fn!r}; it must be nn.ReLU() or None")
        _refuse_second(options, kernel="generalized_attention", features="nb_features", bias="qkv_bias")
        size = dim_head or dim // heads
        features = nb_features or int(size * math.log(size))
        if generalized_attention:
            options = {"projection": "orthogonal", "scale": size**-0.5, **options}
        super().__init__(dim, heads, bias=qkv_bias, kernel="relu" if generalized_attention else "favor", causal=causal,
                         position=position, dim_head=size, features=features, **options)
        self.out_proj = nn.Linear(size * heads, dim, attn_out_bias)
        self.out_dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, pos_emb: Any = None, context: Optional[torch.Tensor] = None,  # type: ignore
                mask: Optional[torch.Tensor] = None, context_mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        """x (B, T, C) to (B, T, C); True in a mask (B, T) keeps a token as a key."""
        if pos_emb is not None:
            raise ArgumentError("pos_emb: must be None; rotations belong to the module here: position='rope'")
        if self.crosses != (context is not None):
            raise ArgumentError("context: " + ("is None; cross-attention needs one" if self.crosses else
                                               "self-attention has none; CrossAttention has"))
        y, _ = super().forward(x, context, mask=context_mask if self.crosses or context_mask is not None else mask)
        result: torch.Tensor = self.out_dropout(y)
        return result


class CrossAttention(SelfAttention):
    """performer_pytorch.CrossAttention: as SelfAttention, with keys and values from `context`."""

    crosses = True


# ---- fast-transformers ----


class AttentionLayer(LinearAttention):
    """fast_transformers.attention.AttentionLayer: the same calls, so that its TransformerEncoderLayer takes this one.

    attention            the name of a kernel, instead of their module
    causal, position, ** as `LinearAttention`; a lower triangular attn_mask makes a call causal, too
    """

    def __init__(self, attention: str, d_model: int, n_heads: int, d_keys: Optional[int] = None,
                 d_values: Optional[int] = None, d_model_keys: Optional[int] = None, event_dispatcher: Any = "", *,
                 causal: bool = False, position: str = "none", **options: Any) -> None:
        if not isinstance(attention, str):
            raise TypeError(f"attention: is a {type(attention).__name__}; it must be the name of a kernel: 'elu1' is that of "
                            "their LinearAttention(d) and CausalLinearAttention(d), 'favor' of their Favor")
        _refuse_second(options, kernel="attention")
        size = d_keys or d_model // n_heads
        if d_values not in (None, size):
            raise ArgumentError(f"d_values: is {d_values}; it must be d_keys, {size}")
        super().__init__(d_model, n_heads, kdim=d_model_keys, vdim=d_model_keys, kernel=attention, causal=causal,
                         position=position, dim_head=size, **options)

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor,  # type: ignore[override]
                attn_mask: Any = None, query_lengths: Any = None, key_lengths: Any = None) -> torch.Tensor:
        """(B, T, C) to (B, T, C). The masks are fast-transformers' own: FullMask, LengthMask, TriangularCausalMask.

        query_lengths is not read, as in their linear attention: rows of padding get some result.
        """
        shown = getattr(attn_mask, "bool_matrix", attn_mask)
        if shown is not None and bool(shown.all()):
            shown = None
        keep = getattr(key_lengths, "bool_matrix", key_lengths)
        if keep is not None and bool(keep.all()):
            keep = None
        y, _ = super().forward(queries, keys, values, attn_mask=shown, mask=keep)
        return y
