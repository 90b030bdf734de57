"""Images as arrays: (B, height, width, channels) of 0..255 as the rows of numbers that models of images read."""
from __future__ import annotations

from typing import Any, Mapping, Tuple

from ._arrays import Array, as_numpy
from ._core import ArgumentError

FORMATS = ("idx", "cifar10", "pathfinder", "png")


def reads_images(recipe: Mapping[str, str]) -> bool:
    return recipe["model.patch"] != "0" or recipe["data.format"] in FORMATS


def image_rows(name: str, x: Any, recipe: Mapping[str, str]) -> Tuple[Array, bool]:
    """The numbers of images, a row each, and whether there was one image without B."""
    a = as_numpy(name, x)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{name}: its dtype is {a.dtype}; images are integers of 0 to 255, as uint8 "
                        f"(({name} * 255).round().astype('uint8') for numbers of 0 to 1)")
    width, height, channels = (int(recipe[key]) for key in ("position.width", "position.height", "model.channels"))
    axes = "(B, height, width" + (", 3) or (height, width, 3)" if channels == 3 else ") or (B, height, width, 1)")
    one = channels == 3 and a.ndim == 3
    images = a[None] if one else a[..., None] if a.ndim == 3 else a
    if images.ndim != 4 or images.shape[3] != channels:
        raise ArgumentError(f"{name}: its shape is {a.shape}; the model reads images {axes}")
    if width and height and images.shape[1:3] != (height, width):
        raise ArgumentError(f"{name}: its images are {images.shape[2]} x {images.shape[1]}; the model reads {width} x "
                            f"{height}: resize them with a bilinear filter, as `longline classify FILE.png` does")
    return images.reshape(len(images), -1), one


def patch_numbers(recipe: Mapping[str, str]) -> int:
    """How many numbers of an image make one vector of `encode`."""
    return max(int(recipe["model.patch"]) ** 2 * int(recipe["model.channels"]), 1)
