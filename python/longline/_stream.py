"""A causal operator as a recurrence."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arrays import Array, check_result, empty_like_layout, gates, view
from ._checks import check_count, check_native
from ._core import ArgumentError, NotCopied, check, ffi, lib, own
from ._lock import give_lock

if TYPE_CHECKING:
    from ._operator import Operator


class Stream(NotCopied):
    """A causal operator fed with any number of tokens at a time, in constant memory for linear kernels.

    How tokens are cut into calls changes no bit. `bytes` is its memory: the state, and room to compute in.
    """

    instead = "stream.clone() goes on from here"
    _lock: Any

    def __init__(self, operator: Operator, batch: int = 1, _native: Any = None) -> None:
        check_native("operator", operator, "_op", "Operator")
        self.operator, self.batch = operator, check_count("batch", batch)
        if _native is None:
            out = ffi.new("ll_attention_stream **")
            check(lib.ll_attention_stream_create(out, operator._op, self.batch))
            _native = out[0]
        self._s = own(_native, lib.ll_attention_stream_free, operator._op, operator._keep)
        give_lock(self)

    def feed(self, q: Any, k: Any, v: Any, *, gate: Any = None) -> Array:
        """The next n >= 1 tokens: q (B, H, n, D), k, v, gate as in `Operator.forward`; gives y (B, H, n, E)."""
        q, k, v, axes = self.operator._inputs(q, k, v)
        if q.shape[0] != self.batch:
            raise ArgumentError(f"q: has {q.shape[0]} sequences; this stream has {self.batch}")
        if gate is not None:
            gate = gates(gate, (self.batch, self.operator.heads, q.shape[2], 1), self.operator.check_finite)
        y = empty_like_layout(q, self.operator.value_size)
        with self._lock:
            check(lib.ll_attention_stream_feed(self._s, q.shape[2], *(view(x) for x in (q, k, v, gate, y))))
        if self.operator.check_finite:
            check_result(y)
        return y[(0,) * (4 - axes)]

    def reset(self) -> None:
        """Back to before the first token."""
        with self._lock:
            self._s = Stream(self.operator, self.batch)._s

    def clone(self) -> "Stream":
        """A second stream that goes on from here to the same bits, on its own. O(state)."""
        out = ffi.new("ll_attention_stream **")
        with self._lock:
            check(lib.ll_attention_stream_clone(out, self._s))
        return Stream(self.operator, self.batch, out[0])

    def __copy__(self) -> "Stream":
        return self.clone()

    @property
    def bytes(self) -> int:
        return int(lib.ll_attention_stream_bytes(self._s))

    def __repr__(self) -> str:
        return f"<longline.Stream of batch {self.batch} of {self.operator!r}>"
