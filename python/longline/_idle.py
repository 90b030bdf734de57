"""Options of an operator that would have no effect."""
from __future__ import annotations

from typing import Any, Dict, Tuple

from ._core import ArgumentError
from ._names import LINEAR

# Positions of images, and those of them that take tokens before them without an image, too.
IMAGES = ("permute2d", "conv-spe", "relative-s1", "relative-s2")
BEFORE = ("relative-s1", "relative-s2")
SPE = ("sine-spe", "conv-spe")

# Options by name: their default, and the kernels and positions that read them.
READ_BY: Dict[str, Tuple[Any, Tuple[str, ...]]] = {
    "window": (128, ("local",)),
    "landmarks": (64, ("nystrom",)),
    "iterations": (6, ("nystrom",)),
    "buckets": (64, ("reformer",)),
    "chunk": (64, ("reformer",)),
    "rounds": (4, ("reformer",)),
    "length": (4096, ("linformer",)),
    "rank": (256, ("linformer",)),
    "realizations": (64, SPE),
    "gated": (True, SPE),
    "sines": (5, ("sine-spe",)),
    "taps": (16, ("conv-spe",)),
    "scales": (8, ("relative-s1",)),
    "clip": (6, ("shaw", "relative-s2")),
    "base": (10000.0, ("rope",)),
    "rotary": (0, ("rope",)),
    "permutation": ("long", ("permute", "permute2d")),
}


def refuse_idle(kernel: str, position: str, given: Dict[str, Any]) -> None:
    """Options that are given, and that this kernel or position would ignore."""
    for name, (default, readers) in READ_BY.items():
        as_usual = type(given[name]) is type(default) and given[name] == default
        if kernel not in readers and position not in readers and not as_usual:
            raise ArgumentError(f"{name}: nothing reads it with kernel {kernel!r} and position {position!r}, but "
                                f"{' and '.join(readers)} would; leave it out")
    if kernel == "value" and given["scale"] is not None:
        raise ArgumentError("scale: kernel 'value' compares no keys; leave it out")
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
