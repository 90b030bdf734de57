"""What an argument that is no array must be: a number, a flag, one of the package's objects."""
from __future__ import annotations

import math
from typing import Any, Tuple

import numpy as np

from ._core import ArgumentError

MOST = 2**31 - 1


def check_count(name: str, value: Any, least: int = 1, most: int = MOST) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not least <= value <= most:
        raise ArgumentError(f"{name}: is {value!r}; it must be an integer from {least} to {most}")
    return int(value)


def check_seed(name: str, value: Any) -> int:
    return check_count(name, value, 0, 2**64 - 1)


def check_pair(name: str, value: Any) -> Tuple[int, int]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentError(f"{name}: is {value!r}; it must be two integers (width, height)")
    return check_count(name, value[0]), check_count(name, value[1])


def check_number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A real number of that range; NaN is in none."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        limits = "" if math.isinf(least) else f" from {least:g}" + ("" if math.isinf(most) else f" to {most:g}")
        raise ArgumentError(f"{name}: is {value!r}; it must be a number{limits}")
    return float(value)


def check_positive(name: str, value: Any) -> float:
    if not check_number(name, value) > 0:
        raise ArgumentError(f"{name}: is {value!r}; it must be a positive number")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)) and not (isinstance(value, int) and value in (0, 1)):
        raise ArgumentError(f"{name}: is {value!r}; it must be True or False")
    return bool(value)


def check_native(name: str, value: Any, attribute: str, kind: str) -> None:
    """An object of the package, known by what it holds of the library: its class need not be imported."""
    if not hasattr(value, attribute):
        raise TypeError(f"{name}: is a {type(value).__name__}; it must be a longline.{kind}")


def check_type(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name}: is a {type(value).__name__}; it must be a longline.{kind.__name__}")
    return value
