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
    linear: bool  # kernels: has features, and so may have a projection and decay
    eps: float    # kernels: what models add to every feature


def _table(at: Any) -> Dict[str, Mechanism]:
    rows: Dict[str, Mechanism] = {}
    while True:
        row = at(len(rows))
        if row == ffi.NULL:
            return rows
        name = text(row.name)
        rows[name] = Mechanism(name, text(row.what), text(row.paper), text(row.cost), bool(row.causal), bool(row.whole),
                               len(rows), bool(row.decay), row.eps)


KERNELS: Dict[str, Mechanism] = _table(lib.ll_kernel_at)
POSITIONS: Dict[str, Mechanism] = _table(lib.ll_position_at)
# Kernels with features, and those of them whose features are a function of q alone, not random.
LINEAR = tuple(name for name, row in KERNELS.items() if row.linear)
MAPS = tuple(name for name in LINEAR if KERNELS[name].number != lib.LL_KERNEL_FAVOR)
# Parameters of positions that are read in place.
DATA_PARAMETERS = ("freqs", "offsets", "gains", "filter_q", "filter_k", "gate", "inv_freq", "alpha", "beta", "rpe",
                   "bias", "distance_k", "distance_v")


def choices(key: str) -> Dict[str, int]:
    """The words of a recipe's key, with their numbers in the library."""
    i = 0
    while (row := lib.ll_recipe_key_at(i)) != ffi.NULL:
        if text(row.name) == key:
            return {word: number for number, word in enumerate(text(row.choices).split("|"))}
        i += 1
    raise KeyError(key)


FEATURE_KINDS = choices("attention.features")


def lookup(argument: str, name: Any, known: Dict[str, Any]) -> Any:
    """The entry of a table, or ArgumentError that names the argument and suggests the nearest name."""
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ArgumentError(f"{argument}: is {name!r}; it must be one of {', '.join(known)}{hint}")
