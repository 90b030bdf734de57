"""longline inside PyTorch: attention as an autograd function and as a module, on the CPU.

>>> import torch, longline.torch
>>> attention = longline.torch.nn.LinearAttention(64, 4, kernel="relu", batch_first=True)
>>> attention(torch.zeros(2, 10, 64))[0].shape
torch.Size([2, 10, 64])
"""
try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("longline.torch needs PyTorch (Debian: python3-torch; pip install torch)") from error

from . import functional, nn
from ._convert import convert

__all__ = ["convert", "functional", "nn"]
