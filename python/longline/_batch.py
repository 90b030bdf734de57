"""What a model learns from, and what an evaluation gives."""
from __future__ import annotations

from typing import Any, NamedTuple

from ._html import table


class Batch(NamedTuple):
    """A batch to learn from.

    tokens   (B, T) integers, or B lists of different lengths; task "match": sequences 2i and 2i + 1 are a pair
    targets  tasks lm, mlm, seq2seq: (B, T), classify: (B), match: (B / 2); -1 is not counted. None for language models:
             the next token of each, so that (B, T + 1) tokens give T targets
    lengths  (B) tokens in use, from the front; None: all, or those of the lists
    source   (B, S) or lists: what a seq2seq model reads; texts get a begin and an end token
    """

    tokens: Any
    targets: Any = None
    lengths: Any = None
    source: Any = None
    source_lengths: Any = None


class Evaluation(NamedTuple):
    """Loss on a split: nats and bits a token (or example), accuracy, how many; by word and byte where there is text.

    unknown: the share of tokens that are unknown words, which make the figures by word and byte too low; NaN without.
    left_out: how many files were not read, because data.classes does not name their folders.
    """

    loss: float
    bits_per_token: float
    accuracy: float
    count: int  # type: ignore[assignment]
    bits_per_word: float
    bits_per_byte: float
    seconds: float
    unknown: float
    left_out: int

    def _repr_html_(self) -> str:
        return table(self._fields, [[f"{x:.6g}" for x in self]])
