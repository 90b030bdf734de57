"""Options of an operator that would have no effect."""
from __future__ import annotations

from typing import Any, Dict

from ._core import ArgumentError
from ._names import LINEAR

# Positions of images, and those of them that take tokens before them without an image, too.
IMAGES = ("permute2d", "conv-spe", "relative-s1", "relative-s2")
BEFORE = ("relative-s1", "relative-s2")


def refuse_idle(kernel: str, position: str, given: Dict[str, Any]) -> None:
    """Options that are given, and that this kernel or position would ignore."""
    if kernel not in LINEAR and given["feature_eps"] is not None:
        raise ArgumentError(f"feature_eps: kernel {kernel!r} has no features; leave it out")
    if kernel not in LINEAR and not given["normalise"]:
        raise ArgumentError(f"normalise: kernel {kernel!r} is no linear one, whose divisor can be left out; it must be "
                            "True")
    if given["features"] is not None and given["projection"] is None and kernel != "favor":
        hint = ", or give projection='orthogonal'" if kernel in LINEAR else ""
        raise ArgumentError(f"features: are rows of a projection, and kernel {kernel!r} has none here; leave it out"
                            f"{hint}")
    if given["image"] is not None and position not in IMAGES:
        raise ArgumentError(f"image: position {position!r} is in one dimension; leave it out, or use one of "
                            f"{', '.join(IMAGES)}")
    if given["before"] and position not in (IMAGES if given["image"] is not None else BEFORE):
        raise ArgumentError(f"before: position {position!r} does not tell tokens before an image from others"
                            f"{'; give image, too' if position in IMAGES else '; leave it out'}")
