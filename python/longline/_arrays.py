"""Arrays in and out: what an argument must be, and where its numbers lie. Nothing here copies.

An argument may be a NumPy array or anything with `__dlpack__` on the CPU (torch, JAX, CuPy on the host); the latter is
read through DLPack, where it lies.
"""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from ._core import ArgumentError, Diverged, ffi

Array = np.ndarray
CPU = 1  # kDLCPU
TooHard = getattr(np, "exceptions", np).TooHardError  # in np.exceptions since 1.25, and there alone since 2.0


def as_numpy(name: str, x: Any) -> Array:
    """The array itself, or a NumPy view of what DLPack gives; TypeError names the argument."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name}: is a masked array, whose mask would be ignored; give {name}.filled(0), and a "
                        "key_mask or lengths")
    if isinstance(x, np.ndarray):
        return x
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{name}: is a {type(x).__name__}; it must be a NumPy array, or have __dlpack__ on the CPU")
    try:
        device = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else CPU
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name}: has no device that DLPack knows ({error}); it must be on the CPU") from None
    if int(device) != CPU:
        where = getattr(x, "device", f"DLPack device {int(device)}")
        raise TypeError(f"{name}: is on {where}; it must be on the CPU (for torch: {name}.cpu())")
    if getattr(x, "requires_grad", False):
        raise TypeError(f"{name}: needs a gradient, which nothing gives here; give {name}.detach() (gradients of q, k, v, a "
                        "gate and a state: longline.torch.functional.linear_attention)")
    if getattr(x, "is_neg", bool)():
        raise TypeError(f"{name}: is a negated view, whose sign DLPack does not give; give {name}.resolve_neg()")
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name}: cannot be read through DLPack ({error}); it must be float32 on the CPU "
                        f"({_widened(name, x)})") from None


def _widened(name: str, x: Any) -> str:
    """What makes float32 of it: a tensor of torch has no astype."""
    return f"{name}.float()" if hasattr(x, "float") else f"{name}.astype('float32')"


def _check_float32(name: str, a: Array, x: Any) -> None:
    if a.dtype != np.float32 or not a.dtype.isnative:
        raise TypeError(f"{name}: its dtype is {a.dtype}; it must be float32 ({_widened(name, x)})")


def floats(name: str, x: Any, shape: Sequence[Optional[int]], meaning: str, finite: bool = True) -> Array:
    """A float32 array of this shape (None: any size) whose last axis is dense.

    `meaning` names the axes in messages: "(B, H, T, D)". Zero and positive strides serve, negative ones do not.
    """
    a = as_numpy(name, x)
    _check_float32(name, a, x)
    if a.ndim != len(shape) or any(want is not None and have != want for have, want in zip(a.shape, shape)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ArgumentError(f"{name}: its shape is {a.shape}; it must be {meaning} = ({wanted})")
    if a.size and a.shape[-1] > 1 and a.strides[-1] != a.itemsize:
        raise ArgumentError(f"{name}: its last axis has a stride of {a.strides[-1]} bytes; it must be 4, dense "
                            f"(numpy.ascontiguousarray({name}))")
    if any(s < 0 or s % a.itemsize for s, n in zip(a.strides, a.shape) if n > 1) or a.ctypes.data % a.itemsize:
        raise ArgumentError(f"{name}: its strides are {a.strides} bytes; they must be multiples of 4, none negative, "
                            f"and its data aligned (numpy.ascontiguousarray({name}))")
    if finite:
        check_finite(name, a)
    return a


def check_finite(name: str, a: Array) -> None:
    """ArgumentError names the first element that is NaN or infinite. One pass where all is well."""
    if a.size == 0:
        return
    with np.errstate(all="ignore"):
        if math.isfinite(float(a.sum())):
            return
    bad = ~np.isfinite(a)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ArgumentError(f"{name}: is {a[where]} at {list(where)}; it must be finite")


def check_result(y: Array) -> None:
    """Diverged where what came of finite inputs is not finite."""
    try:
        check_finite("the result", y)
    except ArgumentError as error:
        found = str(error).split(";")[0]
        raise Diverged(f"{found}; q, k or v are too large for this kernel, smaller ones help") from None


def numbers(name: str, x: Any) -> Array:
    """A list of numbers, or an array, as float32."""
    if hasattr(x, "__dlpack__"):
        x = as_numpy(name, x)
    try:
        return np.asarray(x, np.float32)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: is not an array of numbers ({error})") from None


def carried(name: str, state: Any, shape: Sequence[Optional[int]], doubles: slice) -> Array:
    """A state, or a gradient at one: the maximum of no token, which is in it, is -inf. `doubles` are pairs of floats that
    hold one number in double precision; half of such a number may have the bits of a NaN."""
    a = np.ascontiguousarray(floats(name, state, shape, "(sequences, state_size)", finite=False))
    wide = np.ascontiguousarray(a[:, doubles]).view(np.float64)
    if any(np.isnan(x).any() for x in (a[:, : doubles.start], wide, a[:, doubles.stop :])):
        raise ArgumentError(f"{name}: has NaN in it; it must be what an earlier call returned")
    return a


def doubles_of(config: Any, size: int) -> slice:
    """Where a state of so many floats has doubles: the sums and counts of heads without keys (relative-s2), which come
    before the last values of these heads and whether each counts."""
    w = config.encoding
    if not w.keyless:
        return slice(0, 0)
    kept = (w.clip - 1) * (config.width if w.axes == 2 else 1) + 1
    end = size - w.keyless * kept * (config.E + 1)
    return slice(end - 2 * w.keyless * (config.E + 2), end)


def gates(gate: Any, shape: Sequence[int], finite: bool) -> Array:
    """The gate of a call, of this shape (B, H, T, 1) or without the last axis."""
    a = gate[..., None] if getattr(gate, "ndim", 0) == 3 else gate
    a = floats("gate", a, shape, "(B, heads, T), or (B, heads, T, 1)")
    if finite and a.size and a.max() > 0:
        raise ArgumentError(f"gate: has {a.max()}; it is the log of a decay and must be at most 0")
    return a


def key_masks(mask: Any, shape: Sequence[int]) -> Array:
    """The key_mask of a call as dense float32, from numbers or booleans."""
    # DLPack of older versions of torch has no booleans, but NumPy reads them.
    a = np.asarray(mask) if str(getattr(mask, "dtype", "")).endswith("bool") else as_numpy("key_mask", mask)
    a = np.ascontiguousarray(floats("key_mask", a.astype(np.float32) if a.dtype.kind in "biu" else mask, shape, "(B, S)"))
    if not np.isin(a, (0, 1)).all():
        raise ArgumentError("key_mask: has other numbers than 0 and 1; 1 keeps a key, 0 removes it")
    return a


def integers(name: str, x: Any, shape: Sequence[Optional[int]], meaning: str) -> Array:
    """Integers as a dense int32 array; converted where they are of another integer type (tokens are few)."""
    try:
        a = np.asarray(x) if not hasattr(x, "__dlpack__") else as_numpy(name, x)
    except ValueError as error:
        raise ArgumentError(f"{name}: is no array of integers ({error})") from None
    if a.size >= 2**31:
        raise ArgumentError(f"{name}: its shape is {a.shape}; it must have less than 2147483648 numbers")
    if a.size == 0 and a.dtype == np.float64:
        a = a.astype(np.int32)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{name}: its dtype is {a.dtype}; it must be an integer type")
    if a.ndim != len(shape) or any(want is not None and have != want for have, want in zip(a.shape, shape)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ArgumentError(f"{name}: its shape is {a.shape}; it must be {meaning} = ({wanted})")
    if a.size and (int(a.max()) > 2**31 - 1 or int(a.min()) < -(2**31)):
        raise ArgumentError(f"{name}: has numbers that do not fit 32 bits")
    return np.ascontiguousarray(a, dtype=np.int32)


def overlap(a: Array, b: Array) -> bool:
    """Have they a number in common? Where that is hard to say, no."""
    try:
        return bool(np.shares_memory(a, b, max_work=10000))
    except TooHard:
        return False


def overlaps_itself(a: Array) -> bool:
    """May two of its elements share a place? Not where each axis steps over all that the shorter steps reach."""
    reach = a.itemsize
    for step, n in sorted((s, n) for s, n in zip(a.strides, a.shape) if n > 1):
        if step < reach:
            return a.size > 0
        reach += (n - 1) * step
    return False


def pointer(a: Optional[Array], kind: str = "float *") -> Any:
    """Where an array begins, or NULL for None. The array must be kept while the pointer is used."""
    return ffi.NULL if a is None else ffi.cast(kind, a.ctypes.data)


def view(a: Optional[Array]) -> Any:
    """An `ll_view` of a (B, H, T, n) array: its address and strides in floats."""
    if a is None:
        return ffi.new("ll_view *")[0]
    steps = [s // a.itemsize if n > 1 else 0 for s, n in zip(a.strides, a.shape)]
    return ffi.new("ll_view *", {"data": pointer(a), "batch": steps[0], "head": steps[1], "token": steps[2]})[0]


def four(name: str, x: Any, meaning: str, finite: bool) -> Tuple[Array, int]:
    """A (B, H, T, n) array of what has 2 to 4 axes, leading ones of size 1 put in front; and how many it had."""
    a = as_numpy(name, x)
    if not 2 <= a.ndim <= 4:
        raise ArgumentError(f"{name}: its shape is {a.shape}; it must be {meaning}, or without B, or without B and H")
    _check_float32(name, a, x)
    axes = a.ndim
    while a.ndim < 4:
        a = a[None]
    if 0 in (a.shape[1], a.shape[3]):
        raise ArgumentError(f"{name}: its shape is {a.shape}; it must be {meaning}, of at least one head and number")
    return floats(name, a, (None, None, None, None), meaning, finite), axes


def empty_like_layout(a: Array, last: int) -> Array:
    """A new (B, H, T, last) array whose axes lie in memory in the order of a's, so that results keep the layout."""
    order = sorted(range(3), key=lambda i: (-a.strides[i] if a.shape[i] > 1 else 0, i))
    if any(a.shape[i] > 1 and a.strides[i] == 0 for i in range(3)):
        order = [0, 1, 2]
    shape = [a.shape[i] for i in order] + [last]
    out = np.empty(shape, np.float32)
    return out.transpose([*(order.index(i) for i in range(3)), 3])
