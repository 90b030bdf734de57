"""Linear attention, relative positions and streams of constant memory, on CPUs."""
from ._checks import check_count as _check_count
from ._core import (ArgumentError, Diverged, FileError, FormatError, LonglineError, OutOfMemory, Stopped, lib as _lib,
                    text as _text)
from ._draws import permutation, position_parameters, projection
from ._names import KERNELS, POSITIONS, Mechanism
from ._attention import attention
from ._batch import Batch, Evaluation
from ._call import Gradients, Saved
from ._model import Model
from ._operator import Operator
from ._recipe import Recipe
from ._stream import Stream
from ._tokens import TokenStream
from ._train import Progress, Trainer

__version__: str = _text(_lib.ll_version())


def set_threads(n: int = 0) -> None:
    """Threads that later calls use, at most 256; 0: one for each core that the process may use. They change no bit of a
    result."""
    _lib.ll_set_threads(_check_count("n", n, 0, 256))


def threads() -> int:
    """Threads that calls use."""
    return int(_lib.ll_threads())


def cpu() -> str:
    """The instruction tier in use: "scalar", "avx2", "avx512", "avx512bf16", "neon", "neonbf16"."""
    return _text(_lib.ll_cpu())


__all__ = ["ArgumentError", "Batch", "Diverged", "Evaluation", "FileError", "FormatError", "Gradients", "KERNELS",
           "LonglineError", "Mechanism", "Model", "Operator", "OutOfMemory", "POSITIONS", "Progress", "Recipe", "Saved",
           "Stopped", "Stream", "TokenStream", "Trainer", "attention", "cpu", "permutation", "position_parameters",
           "projection", "set_threads", "threads"]
