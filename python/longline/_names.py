"""Kernels and positions by name: the table that the library has, and what each needs."""
from __future__ import annotations

import difflib
from typing import Any, Dict, NamedTuple

from ._core import ArgumentError, ffi, lib, text


class Mechanism(NamedTuple):
    """A row of the library's table, as `longline list` prints it."""

    name: str
    what: str
    paper: str
    cost: str
    causal: bool
    whole: bool
    number: int


def _table(at: Any) -> Dict[str, Mechanism]:
    rows: Dict[str, Mechanism] = {}
    while True:
        row = at(len(rows))
        if row == ffi.NULL:
            return rows
        name = text(row.name)
        rows[name] = Mechanism(name, text(row.what), text(row.paper), text(row.cost), bool(row.causal), bool(row.whole),
                               len(rows))


KERNELS: Dict[str, Mechanism] = _table(lib.ll_kernel_at)
POSITIONS: Dict[str, Mechanism] = _table(lib.ll_position_at)
FEATURE_KINDS = {"positive": lib.LL_FEATURES_POSITIVE, "hyperbolic": lib.LL_FEATURES_HYPERBOLIC,
                 "trigonometric": lib.LL_FEATURES_TRIGONOMETRIC, "gaussian": lib.LL_FEATURES_GAUSSIAN}
# Kernels whose features are a function of q alone; the rest are exact, approximate, or have no features.
MAPS = ("relu", "elu1", "exp", "sigmoid", "abs", "gelu", "cos", "tanh", "identity", "square", "gla")
LINEAR = ("favor", *MAPS)


def lookup(argument: str, name: Any, known: Dict[str, Any]) -> Any:
    """The entry of a table, or ArgumentError that names the argument and suggests the nearest name."""
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ArgumentError(f"{argument}: is {name!r}; it must be one of {', '.join(known)}{hint}")
