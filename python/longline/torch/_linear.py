"""Attention as a module, in the place of torch.nn.MultiheadAttention."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn

from .._attention import check_options
from .._checks import check_count, check_flag
from .._core import ArgumentError
from .._operator import Operator
from ._weights import rename
from .functional import check, linear_attention

_DRAWN = ("favor", "linformer", "reformer")  # kernels that read seed and layer


class LinearAttention(nn.Module):
    """Projections of queries, keys and values, attention of longline, and the projection of its result.

    embed_dim, num_heads, bias, kdim, vdim   as nn.MultiheadAttention
    batch_first                              likewise, but True unless given: (B, T, C); theirs is False, (T, B, C)
    kernel, position, causal, **options      as `longline.Operator`

    Other libraries' names of arguments are taken: dim, heads, dim_head, nb_features, generalized_attention (performer-
    pytorch; kernel "relu", here without a projection), d_model, n_heads (fast-transformers). `load_state_dict` takes the
    weights of their modules and of nn.MultiheadAttention, without their random features.

    What is drawn is no parameter of the module: random features, permutations, and the numbers of positions and of
    linformer. It follows from the options `seed` and `layer`, not from torch.manual_seed. Give each module of a stack a
    `layer` of its own; those with the same one draw the same. Only the projections train. A `state_dict` has seed and
    layer as `draws`, so that a strict load into a module that draws other features is an error.
    """

    def __init__(self, embed_dim: Optional[int] = None, num_heads: Optional[int] = None, dropout: float = 0.0,
                 bias: bool = True, *, kdim: Optional[int] = None, vdim: Optional[int] = None, batch_first: bool = True,
                 kernel: str = "favor", position: str = "none", causal: bool = False, device: Any = None,
                 dtype: Any = None, **options: Any) -> None:
        super().__init__()
        embed_dim = _one_of("embed_dim", embed_dim, options, "dim", "d_model")
        num_heads = _one_of("num_heads", num_heads, options, "heads", "n_heads")
        given = options.pop("dim_head", None)
        if given is None and embed_dim % num_heads:
            raise ArgumentError(f"num_heads: {num_heads} does not divide embed_dim {embed_dim}; give dim_head, too")
        head_size = embed_dim // num_heads if given is None else check_count("dim_head", given)
        if dropout:
            raise ArgumentError("dropout: there is no matrix to drop from; it must be 0 (drop what comes out)")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, head_size
        self.batch_first = check_flag("batch_first", batch_first)
        self._configure(kernel, position, causal, options)
        inner, kind = head_size * num_heads, dict(device=device, dtype=dtype)
        self.kdim = embed_dim if kdim is None else check_count("kdim", kdim)
        self.vdim = embed_dim if vdim is None else check_count("vdim", vdim)
        self.dropout = 0.0
        # nn.TransformerEncoderLayer asks for these before it takes its path in C++, which would pass this module by.
        self._qkv_same_embed_dim, self.in_proj_weight, self.in_proj_bias = False, None, None
        self.query = nn.Linear(embed_dim, inner, bias, **kind)
        self.key = nn.Linear(self.kdim, inner, bias, **kind)
        self.value = nn.Linear(self.vdim, inner, bias, **kind)
        self.out_proj = nn.Linear(inner, embed_dim, bias, **kind)
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight)

    def _configure(self, kernel: str, position: str, causal: bool, options: Dict[str, Any]) -> None:
        """Another kernel between the same projections. Where it cannot be, the module stays as it was."""
        if kernel == "gla":
            raise ArgumentError("kernel: 'gla' needs a gate for every token, which this module does not have; use "
                                "longline.torch.functional.linear_attention(.., gate=)")
        if options.get("value_size") not in (None, self.head_dim):
            raise ArgumentError(f"value_size: is {options['value_size']}; the values of this module have dim_head, "
                                f"{self.head_dim}, numbers a head")
        options = dict(options)
        if options.pop("generalized_attention", False) and kernel == "favor":
            kernel = "relu"
        nb_features = options.pop("nb_features", None)
        if nb_features:
            options["features"] = nb_features
        check_options(options)
        try:
            operators = {causal: self._made(kernel, position, causal, options)}
        except ArgumentError:
            if causal:
                raise
            operators = {True: self._made(kernel, position, True, options)}  # may be used with a causal mask
        self.kernel, self.position, self.causal, self.options = kernel, position, causal, options
        self._operators = operators

    def _made(self, kernel: str, position: str, causal: bool, options: Dict[str, Any]) -> Operator:
        return Operator(kernel, position, heads=self.num_heads, key_size=self.head_dim, causal=causal, **options)

    def _draws(self) -> Optional[torch.Tensor]:
        """The seed and layer of what is drawn, or None where nothing is."""
        if (self.kernel in _DRAWN or isinstance(self.options.get("projection"), str)
                or self.position not in ("none", "rope", "rope-linear", "t5")):
            numbers = np.array([self.options.get("seed", 0), self.options.get("layer", 0)], np.uint64)
            return torch.from_numpy(numbers.view(np.int64))
        return None

    def _save_to_state_dict(self, destination: Dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        draws = self._draws()
        if draws is not None:
            destination[prefix + "draws"] = draws

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, metadata: Any, strict: bool,
                              missing: List[str], unexpected: List[str], errors: List[str]) -> None:
        rename(state_dict, prefix)
        theirs, own = state_dict.pop(prefix + "draws", None), self._draws()
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        if theirs is not None and own is not None and theirs.tolist() != own.tolist():
            (seed, layer), (own_seed, own_layer) = (x.cpu().numpy().view(np.uint64).tolist() for x in (theirs, own))
            # torch reports these keys where it is strict, and gives them back where it is not.
            unexpected.append(f"{prefix}draws: the weights belong to what seed={seed}, layer={layer} draw, and this module "
                              f"has seed={own_seed}, layer={own_layer}; make it with those, or load with strict=False")

    def __getstate__(self) -> dict:
        """Copies and files of the module have no operators in them; these are made again."""
        return {**self.__dict__, "_operators": {}}

    def operator(self, causal: bool) -> Operator:
        """The operator of this module: made once, for each direction."""
        if causal not in self._operators:
            self._operators[causal] = self._made(self.kernel, self.position, causal, self.options)
        return self._operators[causal]

    def forward(self, query: torch.Tensor, key: Optional[torch.Tensor] = None, value: Optional[torch.Tensor] = None,
                key_padding_mask: Optional[torch.Tensor] = None, need_weights: bool = False,
                attn_mask: Optional[torch.Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False, mask: Optional[torch.Tensor] = None,
                ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """As nn.MultiheadAttention: (B, T, C) with batch_first, else (T, B, C); gives (output, None): there is
        no matrix of weights to give.

        key and value default to query. key_padding_mask (B, S), or (S,) of one sequence: True removes a key. `mask` is
        performer-pytorch's: True keeps one. attn_mask: only the causal one has a linear form; one that removes nothing
        is as none, and any other is refused.
        """
        key = query if key is None else key
        value = key if value is None else value
        for name, x, size in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            check(name, x)
            if x.dim() not in (2, 3) or x.dim() != query.dim() or x.shape[-1] != size:
                axes = "(B, T, C)" if self.batch_first else "(T, B, C)"
                raise ArgumentError(f"{name}: its shape is {tuple(x.shape)}; it must be {axes}, or (T, C) for one "
                                    f"sequence, with C = {size}")
        single = query.dim() == 2
        if single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask, mask = (x.unsqueeze(0) if isinstance(x, torch.Tensor) and x.dim() == 1 else x
                                      for x in (key_padding_mask, mask))
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        causal = self.causal or bool(is_causal)
        if attn_mask is not None:
            causal = _is_causal(attn_mask, query.shape[1], key.shape[1]) or causal
        keep = _keep(key_padding_mask, mask, key.shape[0], key.shape[1])
        q, k, v = (layer(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
                   for layer, x in ((self.query, query), (self.key, key), (self.value, value)))
        options = {}
        if keep is not None:
            if self.kernel in ("softmax", "local", "linformer", "nystrom", "reformer", "value"):
                n = _lengths(keep)
                if not causal:  # else padding is behind every token that counts
                    options = {"lengths": n}
                    if self.kernel not in ("local", "reformer", "value"):  # these give 0 for queries of padding
                        options["query_lengths"] = torch.full_like(n, q.shape[2])
            else:
                options["key_mask"] = keep
        if len(q) == len(k) == len(v) == 0:
            y = q + (k + v).sum(2, keepdim=True)  # no sequence: as empty as q, and of gradient 0 for all projections
        else:
            y = linear_attention(q, k, v, operator=self.operator(causal), **options)
        out = self.out_proj(y.transpose(1, 2).flatten(2))
        if single:
            out = out[0]
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return out, None

    def extra_repr(self) -> str:
        return (f"{self.embed_dim}, {self.num_heads}, kernel={self.kernel!r}, position={self.position!r}, "
                f"causal={self.causal}")


def _one_of(name: str, value: Optional[int], options: dict, *others: str) -> int:
    for other in others:
        if other in options:
            given = options.pop(other)
            if value is not None and value != given:
                raise ArgumentError(f"{other}: is {given}, but {name} is {value}; they mean the same")
            value = given
    return check_count(name, value)


def _is_causal(mask: Any, T: int, S: int) -> bool:
    """True for a mask of nn.Transformer.generate_square_subsequent_mask, or of fast-transformers; False for one that
    removes no pair; else ArgumentError."""
    mask = getattr(mask, "bool_matrix", mask)
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"attn_mask: is a {type(mask).__name__}; it must be a torch.Tensor")
    hidden = ~torch.ones(T, S, dtype=torch.bool).tril()
    removed = _removed("attn_mask", mask)
    fits = removed.dim() >= 2 and removed.shape[-2:] == hidden.shape
    if fits and hidden.any() and not removed.any():
        return False
    hidden = hidden.expand_as(removed) if fits else hidden  # (B H, T, S): all are the causal one
    keeps = mask.dtype == torch.bool and torch.equal(~removed, hidden)  # fast-transformers: True keeps a pair
    if not fits or not (torch.equal(removed, hidden) or keeps):
        raise ArgumentError("attn_mask: it is not the causal one; linear attention has no other masks of pairs "
                            "(a key's are key_padding_mask)")
    return True


def _keep(padding: Optional[torch.Tensor], mask: Optional[torch.Tensor], B: int, S: int) -> Optional[torch.Tensor]:
    """(B, S) 1 where a key counts."""
    if padding is not None and mask is not None:
        raise ArgumentError("mask: key_padding_mask is given, too; give one of them")
    if padding is None and mask is None:
        return None
    given = padding if padding is not None else mask
    assert given is not None
    if not isinstance(given, torch.Tensor):
        raise TypeError(f"key_padding_mask: is a {type(given).__name__}; it must be a torch.Tensor")
    if tuple(given.shape) != (B, S):
        raise ArgumentError(f"key_padding_mask: its shape is {tuple(given.shape)}; it must be (B, S) = ({B}, {S})")
    if mask is None:
        return (~_removed("key_padding_mask", given)).float()
    return (given if given.dtype == torch.bool else given != 0).float()


def _removed(name: str, mask: torch.Tensor) -> torch.Tensor:
    """True where a mask of nn.MultiheadAttention removes a key: booleans and whole numbers, or floats that are added to
    logits: 0, or -inf or as good as that."""
    if not mask.is_floating_point():
        return mask.bool()
    removed = mask <= -1e4
    if not bool((removed | (mask == 0)).all()):
        raise ArgumentError(f"{name}: a float mask is added to logits, which linear attention does not have; its numbers "
                            "must be 0 or -inf")
    return removed


def _lengths(keep: torch.Tensor) -> torch.Tensor:
    n = keep.sum(1).int()
    front = torch.arange(keep.shape[1])[None] < n[:, None]
    if not torch.equal(front.float(), keep):
        raise ArgumentError("key_padding_mask: with this kernel the keys that count must come first in each row")
    return n
