"""Images as arrays: (B, height, width, channels) of 0..255 as the rows of numbers that models of images read."""
from __future__ import annotations

import os
import struct
import tempfile
from typing import Any, List, Mapping, Sequence, Tuple

import numpy as np

from ._arrays import Array, as_numpy
from ._core import ArgumentError, check, ffi, lib, own

FORMATS = ("idx", "cifar10", "pathfinder", "png")


def reads_images(recipe: Mapping[str, str]) -> bool:
    return recipe["model.patch"] != "0" or recipe["data.format"] in FORMATS


def _is_picture(x: Any) -> bool:
    """Is this an image of Pillow?"""
    return hasattr(x, "getbands") and hasattr(x, "convert")


def are_images(x: Any) -> bool:
    """Is this an array of an image or of several, a picture, or a list of images, which may differ in size?"""
    if isinstance(x, (list, tuple)):
        return bool(x) and all(_is_picture(image) or getattr(image, "ndim", 0) > 1 for image in x)
    return _is_picture(x) or getattr(x, "ndim", 0) > 2


def image_rows(name: str, x: Any, recipe: Mapping[str, str]) -> Tuple[Array, bool]:
    """The numbers of images, a row each, and whether there was one image without B.

    Images of another size than the model's are resized as `longline classify FILE.png` resizes pictures.
    """
    if isinstance(x, (list, tuple)):
        return _rows_of_list(name, x, recipe), False
    if _is_picture(x):
        return _rows_of_list(name, [x], recipe), True
    a, rgb = _integers(name, x), recipe["model.channels"] == "3"
    one = rgb and a.ndim == 3
    axes = "(B, height, width, 3) or (height, width, 3)" if rgb else "(B, height, width) or (B, height, width, 1)"
    return _rows(name, a, a[None] if one else a[..., None] if a.ndim == 3 else a, axes, recipe), one


def _rows_of_list(name: str, images: Sequence[Any], recipe: Mapping[str, str]) -> Array:
    rgb, rows = recipe["model.channels"] == "3", []
    axes = "(height, width, 3)" if rgb else "(height, width) or (height, width, 1)"
    for i, x in enumerate(images):
        if _is_picture(x):
            x = _pixels(f"{name}[{i}]", x, "RGB" if rgb else "L")
        a = _integers(f"{name}[{i}]", x)
        rows.append(_rows(f"{name}[{i}]", a, a[None, ..., None] if not rgb and a.ndim == 2 else a[None], axes, recipe))
        if rows[i].shape != rows[0].shape:
            raise ArgumentError(f"{name}[{i}]: it has {rows[i].shape[1]} numbers and {name}[0] {rows[0].shape[1]}; the "
                                "model has no size of its own, so that all images must be as large")
    return np.concatenate(rows)


def _rows(name: str, given: Array, images: Array, axes: str, recipe: Mapping[str, str]) -> Array:
    """The rows of what was given, as images (B, height, width, channels)."""
    if images.ndim != 4 or images.shape[3] != int(recipe["model.channels"]):
        raise ArgumentError(f"{name}: its shape is {given.shape}; the model reads images {axes}")
    return _resized(name, images, recipe)


def _pixels(name: str, picture: Any, mode: str) -> Array:
    if picture.mode != mode:
        raise ArgumentError(f"{name}: is a picture of mode {picture.mode}; the model reads those of mode {mode} "
                            f"({name}.convert('{mode}'))")
    return np.asarray(picture)


def _integers(name: str, x: Any) -> Array:
    a = as_numpy(name, x)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{name}: its dtype is {a.dtype}; images are integers of 0 to 255, as uint8 "
                        f"(({name} * 255).round().astype('uint8') for numbers of 0 to 1)")
    return a


def _resized(name: str, images: Array, recipe: Mapping[str, str]) -> Array:
    """Images (B, height, width, channels) as rows. With a size of 0 the model reads images of any size."""
    size = tuple(int(recipe[key]) for key in ("position.height", "position.width"))
    if not all(size) or images.shape[1:3] == size or not images.size:
        return images.reshape(len(images), -1)
    if images.min() < 0 or images.max() > 255:
        raise ArgumentError(f"{name}: has {images.min() if images.min() < 0 else images.max()}; an image that is "
                            "resized has numbers of 0 to 255")
    handle, path = tempfile.mkstemp(suffix=".idx")
    try:
        with os.fdopen(handle, "wb") as file:  # the library resizes what it reads from an idx file
            axes = images.shape if images.shape[3] == 3 else images.shape[:3]
            file.write(struct.pack(f">{len(axes) + 1}I", 0x800 + len(axes), *axes))
            file.write(np.ascontiguousarray(images, np.uint8).tobytes())
        return _read(path, size, recipe)
    finally:
        os.unlink(path)


def _read(path: str, size: Tuple[int, ...], recipe: Mapping[str, str]) -> Array:
    numbers = size[0] * size[1] * int(recipe["model.channels"])
    name = ffi.new("char[]", os.fsencode(path))
    options = {"struct_size": ffi.sizeof("ll_input_options"), "format": lib.LL_INPUT_IDX, "piece": numbers,
               "height": size[0], "width": size[1], "channels": int(recipe["model.channels"]),
               "side": int(recipe["data.resize-side"]), "bicubic": recipe["data.resize-filter"] == "bicubic"}
    out, sequence, found = ffi.new("ll_input **"), ffi.new("ll_sequence *"), ffi.new("int *")
    check(lib.ll_input_open(out, ffi.new("char *[]", [name]), 1, ffi.new("ll_input_options *", options)))
    source = own(out[0], lib.ll_input_close)
    rows: List[Array] = []
    while True:
        check(lib.ll_input_next(source, sequence, found))
        if not found[0]:
            return np.stack(rows)
        rows.append(np.frombuffer(ffi.buffer(sequence.text, sequence.size), np.uint8).copy())


def check_whole(name: str, numbers: int, lengths: Any, recipe: Mapping[str, str]) -> None:
    """A classifier of images of a size reads whole ones."""
    if recipe["model.task"] not in ("classify", "match") or not reads_images(recipe):
        return
    image = int(recipe["position.height"]) * int(recipe["position.width"]) * int(recipe["model.channels"])
    wrong = [n for n in ([numbers] if lengths is None else lengths.tolist()) if n != image]
    if image and wrong:
        raise ArgumentError(f"{name}: has {wrong[0]} tokens; the model reads images of {image} numbers")


def patch_numbers(recipe: Mapping[str, str]) -> int:
    """How many numbers of an image make one vector of `encode`."""
    return max(int(recipe["model.patch"]) ** 2 * int(recipe["model.channels"]), 1)
