"""Attention as modules: LinearAttention takes the place of torch.nn.MultiheadAttention; SelfAttention, CrossAttention and
AttentionLayer take those of performer-pytorch's and fast-transformers' modules of these names."""
from ._linear import LinearAttention
from ._others import AttentionLayer, CrossAttention, SelfAttention

__all__ = ["AttentionLayer", "CrossAttention", "LinearAttention", "SelfAttention"]
