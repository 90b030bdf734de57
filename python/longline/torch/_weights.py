"""Weights of other modules under the names of LinearAttention."""
from __future__ import annotations

from typing import Any, Dict

_NAMES = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out": "out_proj", "query_projection": "query",
          "key_projection": "key", "value_projection": "value", "out_projection": "out_proj",
          "q_proj": "query", "k_proj": "key", "v_proj": "value"}


def rename(state: Dict[str, Any], prefix: str) -> None:
    """Weights of nn.MultiheadAttention, of performer-pytorch and of fast-transformers get the names of LinearAttention."""
    for name in [name for name in state if name.startswith(prefix)]:
        own = name[len(prefix):]
        if own.startswith(("fast_attention.", "inner_attention.")):  # their features; ours are drawn by the operator
            del state[name]
        elif own in ("in_proj_weight", "in_proj_bias"):
            for part, rows in zip(("query", "key", "value"), state.pop(name).chunk(3)):
                state[f"{prefix}{part}.{own[8:]}"] = rows
        else:
            head, _, rest = own.rpartition("." if "." in own else "_")
            if head in _NAMES:
                state[f"{prefix}{_NAMES[head]}.{rest}"] = state.pop(name)
