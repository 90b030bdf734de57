"""Packed rows: several sequences in one row of a batch, one after the other."""
from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import Array, as_numpy, integers
from ._core import ArgumentError


def segment_rows(given: Any, B: int, T: int, S: int) -> Array:
    """ll_segment rows from lengths: of one row, or of each row."""
    if hasattr(given, "__dlpack__"):
        given = as_numpy("segments", given)
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise TypeError(f"segments: is a {type(given).__name__}; it must be a list of lengths, or one for each row")
    one = len(given) and not (isinstance(given[0], (list, tuple)) or getattr(given[0], "ndim", 0) > 0)
    rows = [given] if one else list(given)
    if len(rows) != B:
        raise ArgumentError(f"segments: has {len(rows)} lists; it must have one for each of the {B} rows")
    if S != T:
        raise ArgumentError(f"segments: q has {T} tokens and k {S}; packed rows need as many keys as queries")
    out = []
    for row, lengths in enumerate(rows):
        lengths = integers(f"segments[{row}]", lengths, (None,), "lengths of sequences")
        if (lengths < 1).any() or int(lengths.sum(dtype=np.int64)) > T:
            raise ArgumentError(f"segments[{row}]: is {lengths.tolist()}; it must be lengths from 1, in all at most "
                                f"{T}")
        at = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
        out += [(row, a, n, a, n) for a, n in zip(at, lengths)]
    if not out:
        raise ArgumentError("segments: there is no sequence")
    return np.array(out, np.int32)
