"""Attention in one call."""
from __future__ import annotations

import difflib
import inspect
from typing import Any, Dict

import numpy as np

from ._arrays import four
from ._checks import check_flag
from ._operator import Operator

_OPERATORS: Dict[Any, Operator] = {}
_OPTIONS = list(inspect.signature(Operator).parameters)


def attention(q: Any, k: Any, v: Any, kernel: str = "softmax", position: str = "none", causal: bool = False, *,
              state: Any = None, return_state: bool = False, segments: Any = None, lengths: Any = None,
              query_lengths: Any = None, key_mask: Any = None, gate: Any = None, offset: int = 0,
              **options: Any) -> Any:
    """Attention in one call: an `Operator` for the shapes of q, k and v, kept for the next call, and its `forward`.
    Where an option is an array or a tensor, each call makes its own operator.

    q (B, H, T, D), k (B, H, S, D), v (B, H, S, E), float32; gives y (B, H, T, E), or (y, state). What the operator
    draws is a function of seed and shapes, so equal calls give equal bits. `options` are those of `Operator`. Other
    arguments are those of `Operator.forward`; cross-attention with T = S and `lengths` needs query_lengths=[T] * B, too,
    or queries behind the lengths get 0.

    >>> import numpy as np, longline
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 100, 16), dtype=np.float32)
    >>> longline.attention(q, k, v, kernel="favor", position="permute", causal=True).shape
    (1, 2, 100, 16)
    """
    shape_q, shape_v = (four(n, x, "(B, H, T, D)", False)[0].shape for n, x in (("q", q), ("v", v)))
    operator = operator_for(kernel, position, causal, shape_q[1], shape_q[3], shape_v[3], options)
    return operator.forward(q, k, v, state=state, return_state=return_state, segments=segments, lengths=lengths,
                            query_lengths=query_lengths, key_mask=key_mask, gate=gate, offset=offset)


def _is_plain(option: Any) -> bool:
    """Can it never change? A tensor of torch can, although it has a hash."""
    if isinstance(option, tuple):
        return all(map(_is_plain, option))
    return option is None or isinstance(option, (str, int, float, np.integer, np.floating, np.bool_))


def _typed(option: Any) -> Any:
    """16 and 16.0 are equal, and the second is refused where features are counted."""
    return tuple(map(_typed, option)) if isinstance(option, tuple) else (type(option), option)


def check_options(options: Dict[str, Any]) -> None:
    """TypeError for an option that `Operator` does not have; it names the nearest."""
    for name in options:
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, 1)
            raise TypeError(f"{name}: is no option of attention" + (f"; the nearest is {near[0]}" if near else
                                                                   "; longline.Operator lists them"))


def operator_for(kernel: str, position: str, causal: bool, heads: int, key_size: int, value_size: int,
                 options: Dict[str, Any]) -> Operator:
    """The operator of these settings, kept for the next call, unless an option is an array or tensor, which may
    change."""
    given: Any = (kernel, position, check_flag("causal", causal), heads, key_size, value_size, *sorted(options.items()))
    check_options(options)
    kept = _is_plain(given)
    key = _typed(given)
    if kept and key in _OPERATORS:
        return _OPERATORS[key]
    operator = Operator(kernel, position, causal=causal, heads=heads, key_size=key_size, value_size=value_size,
                        **options)
    if kept:
        if len(_OPERATORS) >= 32:
            _OPERATORS.pop(next(iter(_OPERATORS)), None)
        _OPERATORS[key] = operator
    return operator
