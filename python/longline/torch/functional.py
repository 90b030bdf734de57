"""Attention as an autograd function: forward and backward of `longline.Operator` on torch tensors, without copies."""
from __future__ import annotations

from typing import Any, Optional

import torch

from .._checks import check_flag, check_type
from .._core import ArgumentError, lib, text
from .._attention import operator_for
from .._call import Saved
from .._operator import Operator

TYPES = (torch.float32, torch.bfloat16)
_ARRAYS = ("gate", "state_in", "state_out")  # of a call, besides q, k and v


def check(name: str, x: Any, like: Optional[torch.Tensor] = None) -> torch.Tensor:
    """A tensor that the library can read; TypeError names the argument."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: is a {type(x).__name__}; it must be a torch.Tensor")
    if x.device.type != "cpu":
        raise TypeError(f"{name}: is on {x.device}; longline computes on the CPU ({name}.cpu())")
    if x.layout != torch.strided:
        raise TypeError(f"{name}: its layout is {x.layout}; it must be dense ({name}.to_dense())")
    if x.dtype not in TYPES:
        raise TypeError(f"{name}: its dtype is {x.dtype}; it must be torch.float32 or torch.bfloat16 ({name}.float())")
    if like is not None and x.dtype != like.dtype:
        raise TypeError(f"{name}: its dtype is {x.dtype}; it must be that of q, {like.dtype}")
    return x


def _array(x: torch.Tensor) -> Any:
    """The tensor as NumPy sees it, where it lies; bfloat16 is widened, and a last axis that is not dense is copied."""
    x = x.detach()
    if x.dtype == torch.bfloat16:
        x = x.float()
    if x.dim() and x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    return x.numpy()


def _check_state(state: Any) -> None:
    if isinstance(state, torch.Tensor) and state.dtype != torch.float32:
        raise TypeError(f"state: its dtype is {state.dtype}; it must be torch.float32, as the call that left it gave it")
    check("state", state)


class _Attention(torch.autograd.Function):
    """Gradients of q, k, v, the gate and the state, by the library's backward. No graph is kept of them.

    The arrays of the call are kept by torch alone, which frees them after backward. Attributes of ctx live as long as the
    graph: as long as the loss, which programs often keep. Of these there are lengths, segments and the mask of keys.
    """

    @staticmethod
    def forward(ctx: Any, operator: Operator, options: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
                gate: Optional[torch.Tensor], state: Optional[torch.Tensor]) -> Any:
        ctx.operator, ctx.dtype = operator, q.dtype
        needs = any(ctx.needs_input_grad)
        given = {name: _array(x) for name, x in (("gate", gate), ("state", state)) if x is not None}
        # An operator's parameters that train would need gradients, too: those stay with longline.Operator.
        result = operator.forward(_array(q), _array(k), _array(v), save=needs, **options, **given)
        y, *rest = result if isinstance(result, tuple) else (result,)
        out = torch.from_numpy(y).to(q.dtype)
        left = torch.from_numpy(rest[0]) if options["return_state"] else None
        if needs:
            saved = rest[-1]
            ctx.extras = {name: x for name, x in saved.extras.items() if name not in _ARRAYS}
            arrays = (saved.q, saved.k, saved.v, saved.y, saved.floats, *(saved.extras.get(name) for name in _ARRAYS))
            # The first seven are for torch's check that none was changed in place: the arrays may lie where they do.
            ctx.save_for_backward(q, k, v, gate, state, out, left,
                                  *(None if a is None else torch.from_numpy(a) for a in arrays))
        return out if left is None else (out, left)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, dleft: Optional[torch.Tensor] = None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("longline.torch.functional.linear_attention: double backward (create_graph=True) is not "
                               "supported; its backward has no graph")
        arrays: Any = [None if x is None else x.numpy() for x in ctx.saved_tensors[7:]]
        q, k, v, y, floats, gate, state, _ = arrays
        given = {name: x for name, x in zip(_ARRAYS, arrays[5:]) if x is not None}
        saved = Saved(q, k, v, y, gate, state, {**ctx.extras, **given}, floats)
        d = ctx.operator.backward(saved, _array(dy), None if dleft is None else _array(dleft))
        types = (ctx.dtype,) * 4 + (torch.float32,)
        return (None, None, *(torch.from_numpy(a).to(dtype) if need and a is not None else None for a, dtype, need in
                              zip((d.q, d.k, d.v, d.gate, d.state), types, ctx.needs_input_grad[2:])))


def linear_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kernel: str = "favor", position: str = "none",
                     causal: bool = False, *, operator: Optional[Operator] = None,
                     gate: Optional[torch.Tensor] = None, state: Optional[torch.Tensor] = None, return_state: bool = False,
                     lengths: Any = None, query_lengths: Any = None, key_mask: Any = None, segments: Any = None,
                     offset: int = 0, **options: Any) -> Any:
    """`longline.attention` for tensors, with gradients.

    q, k, v   (B, H, T, D), (B, H, S, D), (B, H, S, E): float32 or bfloat16; on the CPU. Any strides that are not
              negative; float32 is read where it lies. Where the processor multiplies bfloat16 (`longline.cpu()` ends in
              bf16), products of such tensors round to it; sums, and elsewhere products, too, are in float32
    operator  a `longline.Operator` to use instead of kernel, position, causal and options
    gate      (B, H, T) or (B, H, T, 1): gated linear attention
    state, offset   what an earlier call left, float32, and how many tokens came before. Gradients go through it, to all
              calls before; state.detach() ends them there
    lengths, query_lengths, key_mask, segments   as in `longline.Operator.forward`; cross-attention with T = S and lengths
              needs query_lengths=[T] * B, too, or queries behind the lengths get 0

    Gives y (B, H, T, E) laid out as q; with return_state (y, state). RuntimeError for a double backward, and where q, k, v,
    the gate, a state or the result is changed in place before backward. Threads are longline's own
    (`longline.set_threads`); torch's wait meanwhile.
    """
    check("q", q)
    check("k", k, q)
    check("v", v, q)
    if operator is not None:
        check_type("operator", operator, Operator)
    if operator is None:
        if q.dim() < 2 or v.dim() < 2:
            raise ArgumentError(f"q: its shape is {tuple(q.shape)}; it must be (B, H, T, D), or without B and H")
        heads = q.shape[-3] if q.dim() > 2 else 1
        operator = operator_for(kernel, position, causal, heads, q.shape[-1], v.shape[-1], options)
    elif options:
        raise ArgumentError(f"{next(iter(options))}: an operator is given; its options are its own")
    if gate is not None:
        check("gate", gate, q)
        gate = gate.unsqueeze(-1) if gate.dim() == 3 else gate
        if gate.dim() != 4:
            raise ArgumentError(f"gate: its shape is {tuple(gate.shape)}; it must be (B, H, T), or (B, H, T, 1)")
    if state is not None:
        _check_state(state)
    if operator.keyless and torch.is_grad_enabled() and (return_state or state is not None) and any(
            x is not None and x.requires_grad for x in (q, k, v, gate, state)):
        raise ArgumentError(f"state: position {operator.position!r} has double-precision sums in it, whose gradients torch "
                            "cannot add; longline.Operator gives them")
    if torch.is_tensor(key_mask):
        key_mask = _array(key_mask.float())
    lengths, query_lengths, segments = (n.numpy() if torch.is_tensor(n) else n for n in (lengths, query_lengths, segments))
    call = dict(lengths=lengths, query_lengths=query_lengths, key_mask=key_mask, segments=segments, offset=offset,
                return_state=check_flag("return_state", return_state),
                bf16=q.dtype == torch.bfloat16 and text(lib.ll_cpu()).endswith("bf16"))
    return _Attention.apply(operator, call, q, k, v, gate, state)
