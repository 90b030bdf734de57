"""One call of an operator: what it has besides q, k and v, and what backward keeps of it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional

import numpy as np

from ._arrays import Array, carried, doubles_of, gates, integers, key_masks, pointer, view
from ._checks import check_count
from ._core import ArgumentError, ffi
from ._names import LINEAR
from ._segments import segment_rows

if TYPE_CHECKING:
    from ._operator import Operator


class Gradients(NamedTuple):
    """What `Operator.backward` gives. q, k and v are as the inputs; the others are None where there are none."""

    q: Array
    k: Array
    v: Array
    gate: Optional[Array]
    state: Optional[Array]
    decay: Optional[Array]
    parameters: Dict[str, Array]


class Saved(NamedTuple):
    """What backward needs of a forward: the arrays of the call and floats of the library's, which grow with B H T."""

    q: Array
    k: Array
    v: Array
    y: Array
    gate: Optional[Array]
    state: Optional[Array]
    extras: Dict[str, Any]
    floats: Array


def extras_of(operator: Operator, q: Array, k: Array, lengths: Any, query_lengths: Any, key_mask: Any, segments: Any,
              gate: Any, state: Any, return_state: bool, offset: int) -> Dict[str, Any]:
    """The arguments of `Operator.forward` that are given, checked, by the names of an ll_attention_call."""
    B, T, S = q.shape[0], q.shape[2], k.shape[2]
    e: Dict[str, Any] = {"offset": check_count("offset", offset, 0, 1 << 52)}
    if lengths is not None:
        e["lengths"] = integers("lengths", lengths, (B,), "(B)")
    if query_lengths is not None:
        e["query_lengths"] = integers("query_lengths", query_lengths, (B,), "(B)")
    if key_mask is not None:
        e["key_mask"] = key_masks(key_mask, (B, S))
    if segments is not None:
        e["segments"] = segment_rows(segments, B, T, S)
    if gate is not None:
        e["gate"] = gates(gate, (B, operator.heads, T, 1), operator.check_finite)
    sequences = B if segments is None else len(e["segments"])
    if state is not None or return_state:
        size = operator.state_size
        if state is not None:
            e["state_in"] = carried("state", state, (sequences, size), doubles_of(operator._config, size))
            _check_offset(operator, e["state_in"], offset)
        if return_state:
            e["state_out"] = np.zeros((sequences, size), np.float32)
    return e


def _check_offset(operator: Operator, state: Array, offset: int) -> None:
    """The last number of a state is how many tokens count in it, but for relative-s2, and above 2^24 it is rounded."""
    tells = operator.causal and operator.kernel in LINEAR and operator.position not in ("none", "relative-s2")
    had = float(state[:, -1].max(initial=0)) if tells else 0
    if offset < had <= 1 << 24:
        raise ArgumentError(f"offset: is {offset}, and the state has had {had:.0f} tokens; it must be how many tokens came "
                            "before, which positions are counted from")


def call_of(q: Array, k: Array, v: Array, y: Array, extras: Dict[str, Any]) -> Any:
    call = ffi.new("ll_attention_call *", {"struct_size": ffi.sizeof("ll_attention_call")})
    call.B, call.T, call.S = q.shape[0], q.shape[2], k.shape[2]
    call.q, call.k, call.v, call.y = view(q), view(k), view(v), view(y)
    call.query_offset = call.key_offset = extras["offset"]
    call.bf16 = extras["bf16"]
    for name, kind in (("lengths", "int *"), ("query_lengths", "int *"), ("key_mask", "float *"),
                       ("state_in", "float *"), ("state_out", "float *")):
        setattr(call, name, pointer(extras.get(name), kind))
    call.gate = view(extras.get("gate"))
    if extras.get("segments") is not None:
        call.segment, call.segments = pointer(extras["segments"], "ll_segment *"), len(extras["segments"])
    return call
