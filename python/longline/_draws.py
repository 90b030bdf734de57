"""What an operator draws, or starts from, where the caller does not say: projections, permutations, positions."""
from __future__ import annotations

from typing import Dict, Optional, Tuple

import numpy as np

from ._arrays import Array, pointer
from ._checks import check_count, check_seed
from ._core import ArgumentError, lib
from ._names import KERNELS, MAPS, POSITIONS, lookup


# Maps that are flat or 0 at 0, where vectors of 0 would have no gradient.
FLAT = tuple(name for name in MAPS if name not in ("elu1", "exp", "sigmoid"))
SIZE_MOST = 2**16  # of every size of a head, as in the library


def projection(features: int, size: int, kind: str = "orthogonal", seed: int = 0) -> Array:
    """Random rows (features, size) for the random features of a kernel.

    kind "orthogonal": blocks of orthogonal rows, uniform among all rotations, each as long as a standard normal vector
    (Choromanski et al. 2021, section 2.4); "iid": standard normal rows. A function of its arguments alone.
    """
    random = np.random.default_rng([check_seed("seed", seed), check_count("features", features, 1, SIZE_MOST),
                                    check_count("size", size, 1, SIZE_MOST)])
    if kind == "iid":
        return random.standard_normal((features, size)).astype(np.float32)
    if kind != "orthogonal":
        raise ArgumentError(f"projection: is {kind!r}; it must be an array, 'orthogonal' or 'iid'")
    rows = []
    for _ in range(0, features, size):
        # Signs by the diagonal of R make the rotation uniform; without them the estimate is biased.
        q, r = np.linalg.qr(random.standard_normal((size, size)))
        rows.append((q * np.sign(np.diag(r))).T)
    lengths = np.sqrt(random.chisquare(size, features))
    return np.ascontiguousarray(np.concatenate(rows)[:features] * lengths[:, None], np.float32)


def permutation(features: int, heads: int, cycles: str = "long", seed: int = 0, layer: int = 0) -> Array:
    """Permutations (heads, features) for position "permute" (Chen 2021); "permute2d" takes half as many features.

    cycles "long": one cycle of more than half of the features, of another length in each head; "random": uniform among
    all permutations, as published.
    """
    check_seed("seed", seed)
    p = np.empty((check_count("heads", heads, 1, SIZE_MOST),
                  check_count("features", features, 1, 2 * SIZE_MOST)), np.int32)
    check_count("layer", layer, 0)
    for h in range(heads):
        row = pointer(p[h], "int32_t *")
        if cycles == "long":
            lib.ll_permutation_long(row, features, layer * heads + h)
        elif cycles == "random":
            lib.ll_permutation_random(row, features, seed, layer, h)
        else:
            raise ArgumentError(f"cycles: is {cycles!r}; it must be 'long' or 'random'")
    return p


def rotation(features: int, heads: int, seed: int = 0) -> Dict[str, Array]:
    """basis (heads, features, features) and theta (heads, features / 2) of random rotations: position "orthogonal"."""
    random = np.random.default_rng([seed, features, heads, 7])
    basis = np.linalg.qr(random.standard_normal((heads, features, features)))[0]
    return {"basis": np.ascontiguousarray(basis, np.float32),
            "theta": random.uniform(-np.pi, np.pi, (heads, features // 2)).astype(np.float32)}


def position_parameters(position: str, heads: int, key_size: int, value_size: int, *, scales: int = 8, axes: int = 1,
                        sines: int = 5, taps: int = 16, clip: int = 6, causal: bool = False, gated: bool = True,
                        image: bool = False, seed: int = 0, kernel: str = "favor") -> Dict[str, Array]:
    """First values of a position's trainable parameters, as the library's models start from them.

    Those of "relative-s2" depend on the kernel.
    """
    lookup("position", position, POSITIONS)
    lookup("kernel", kernel, KERNELS)
    for name, size in {"heads": heads, "key_size": key_size, "value_size": value_size, "scales": scales, "axes": axes,
                       "sines": sines, "taps": taps, "clip": clip}.items():
        check_count(name, size, 1, SIZE_MOST)
    random = np.random.default_rng([check_seed("seed", seed), heads, key_size, 11])
    H, D = heads, key_size

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    p: Dict[str, Array] = {}
    if position == "t5":
        p["bias"] = np.zeros((H, 32), np.float32)
    elif position == "shaw":
        n = clip + 1 if causal else 2 * clip + 1
        p["distance_k"], p["distance_v"] = normal(n, D) * np.float32(0.02), normal(n, value_size) * np.float32(0.02)
    elif position == "relative-s1":
        p["inv_freq"] = (64.0 ** (-np.arange(scales) / scales)).astype(np.float32)
        p["alpha"], p["beta"] = normal(H, axes * scales), normal(H, axes * scales)
    elif position == "relative-s2":
        p["rpe"] = normal(clip + 1, D) * np.float32(0.02) if kernel in FLAT else np.zeros((clip + 1, D), np.float32)
    elif position == "sine-spe":
        gains = normal(H, D, sines)
        gains *= (2 / (gains**2).sum(-1, keepdims=True) ** 0.25).astype(np.float32)
        p["freqs"], p["offsets"], p["gains"] = normal(H, D, sines) - 4, normal(H, D, sines), gains
    elif position == "conv-spe":
        shape = (H, D, taps, taps) if image else (H, D, taps)
        root = np.sqrt(np.prod(shape[2:]) / 2)
        p["filter_q"] = (random.random(shape) / root).astype(np.float32)
        p["filter_k"] = (random.random(shape) / root).astype(np.float32)
    if gated and position in ("sine-spe", "conv-spe"):
        p["gate"] = normal(H, D)
    return p


def decays(heads: int, first: float = 2, last: float = 5) -> Array:
    """r of each head, 1 / (1 + exp(-x)) with x from `first` towards `last`: position.decay = fixed of a recipe."""
    return (1 / (1 + np.exp(-(first + (last - first) * np.arange(heads) / heads)))).astype(np.float32)


def widths(position: str, key_size: int, realizations: int, scales: int, axes: int) -> int:
    """Size of queries and keys after the position's stage before the feature map."""
    if position in ("sine-spe", "conv-spe"):
        return realizations
    return key_size + 2 * scales * axes if position == "relative-s1" else key_size


def kept_shapes(position: str, heads: int, key_size: int, features: int, sines: int, realizations: int,
                image: bool) -> Dict[str, Tuple[Optional[int], ...]]:
    """Shapes of what a caller may give besides the parameters that train, in place of draws. None: any size."""
    noise: Dict[str, Tuple[Optional[int], ...]] = {
        "sine-spe": (heads, key_size, 2 * sines, realizations),
        "conv-spe": (heads, key_size, None, None, realizations) if image else (heads, key_size, None, realizations)}
    if position in noise:
        return {"noise": noise[position], "gate_noise": (heads, key_size, realizations)}
    angles = {"rope": key_size // 2, "rope-linear": features // 2}
    return {"theta": (angles[position],)} if position in angles else {}
