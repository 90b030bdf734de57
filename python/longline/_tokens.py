"""Tokens: batches of them, text to them and back, and streams of them through a model."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple, Union

import numpy as np

from ._arrays import Array, integers, pointer
from ._checks import check_count, check_flag, check_native, check_number, check_seed
from ._core import ArgumentError, LonglineError, NotCopied, check, ffi, lib, own
from ._lock import give_lock
from ._recipe import encoded

if TYPE_CHECKING:
    from ._model import Model

PIECE = 256  # tokens that the library reads at once


def pad(name: str, tokens: Any, lengths: Any, fill: int = 0) -> Tuple[Array, Optional[Array], bool]:
    """Tokens (B, T), their lengths or None, and whether there was one sequence without B."""
    one = False
    rows = None
    if isinstance(tokens, (list, tuple)) and tokens and not isinstance(tokens[0], (int, np.integer)):
        rows = [integers(f"{name}[{i}]", row, (None,), "(tokens)") for i, row in enumerate(tokens)]
        if lengths is None and len({len(row) for row in rows}) > 1:
            lengths = [len(row) for row in rows]
        array = np.full((len(rows), max(len(row) for row in rows)), fill, np.int32)
        for i, row in enumerate(rows):
            array[i, : len(row)] = row
    else:
        array = np.asarray(tokens) if not hasattr(tokens, "__dlpack__") else tokens
        one = array.ndim == 1
        array = integers(name, array[None] if one else array, (None, None), "(B, T)")
    if array.size == 0:
        raise ArgumentError(f"{name}: its shape is {array.shape}; it must have at least one token")
    n = None if lengths is None else integers("lengths", lengths, (len(array),), "(B)")
    if n is not None and (n.min() < 0 or n.max() > array.shape[1]):
        wrong = n.min() if n.min() < 0 else n.max()
        raise ArgumentError(f"lengths: has {wrong}; a row of {name} has 0..{array.shape[1]} tokens in use")
    if n is not None and rows is not None:
        for i, row in enumerate(rows):
            if n[i] > len(row):
                raise ArgumentError(f"lengths: has {n[i]} for {name}[{i}], which has {len(row)} tokens")
    return array, n, one


class Tokenizer(NotCopied):
    """How a model makes tokens of text: bytes, words or parts of them, letters of proteins, events of music."""

    instead = "each model has its own, model.tokenizer"
    _lock: Any

    def __init__(self, model: "Model") -> None:
        out = ffi.new("ll_tokenizer **")
        check(lib.ll_tokenizer_create(out, model._m))
        self._t = own(out[0], lib.ll_tokenizer_free, model._m, model._owner)
        give_lock(self)

    def encode(self, text: Union[str, bytes], before: bool = False, after: bool = False) -> Array:
        """The tokens of a text; ArgumentError for text that has none.

        before, after: with those that an imported model has before or after every text, as [CLS] and [SEP].
        """
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"text: is a {type(text).__name__}; it must be str or bytes")
        try:
            raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        except UnicodeEncodeError as error:
            raise ArgumentError(f"text: its character {error.start} is half of a surrogate pair, which UTF-8 does not "
                                "have") from None
        tokens, count = ffi.new("int **"), ffi.new("size_t *")
        check(lib.ll_tokenizer_encode(self._t, raw, len(raw), tokens, count))
        try:
            found = np.frombuffer(ffi.buffer(tokens[0], count[0] * 4), np.int32)
            ends = self._special(lib.LL_SPECIAL_BEFORE, before), self._special(lib.LL_SPECIAL_AFTER, after)
            return np.concatenate([ends[0], found, ends[1]])
        finally:
            lib.ll_text_free(tokens[0])

    def _special(self, which: int, wanted: bool) -> Array:
        count = ffi.new("size_t *")
        at = lib.ll_tokenizer_special(self._t, which, count)
        return np.frombuffer(ffi.buffer(at, count[0] * 4), np.int32) if wanted and count[0] else np.empty(0, np.int32)

    def decode(self, tokens: Any, continues: bool = False) -> str:
        """The text of tokens, put one after the other; bytes that are no UTF-8 become U+FFFD.

        continues: they go on a text, so that the blank is kept that BERT's and LLaMA's tokens have before a word.
        """
        numbers = integers("tokens", tokens, (None,), "(tokens)").tolist()
        for token in numbers:
            if not 0 <= token < self.vocabulary:
                raise ArgumentError(f"tokens: has {token}; it must be in 0..{self.vocabulary - 1}")
        text = b"".join(map(self._text, numbers))
        if not check_flag("continues", continues) and text[:1] == b" " and self._has_blank():
            text = text[1:]
        return text.decode("utf-8", "replace")

    def _text(self, token: int) -> bytes:
        size = ffi.new("size_t *")
        with self._lock:  # the text is valid until the next call
            at = lib.ll_tokenizer_text(self._t, token, size)
            return bytes(ffi.buffer(at, size[0]))

    def _has_blank(self) -> bool:
        """Does the first word of a text get a blank before it?"""
        try:
            return self._text(self.encode("a")[0])[:1] == b" "
        except LonglineError:
            return False

    @property
    def vocabulary(self) -> int:
        """Tokens that stand for text are below this."""
        return int(lib.ll_tokenizer_vocab(self._t))

    def __repr__(self) -> str:
        return f"<longline.Tokenizer of {self.vocabulary:,} tokens>"


def _vocab(model: "Model") -> int:
    return int(lib.ll_model_size(model._m).vocab)


def is_seq2seq(model: "Model") -> bool:
    return model.recipe["model.task"] == "seq2seq"


def source_tokens(model: "Model", text: Union[str, bytes]) -> Array:
    """The tokens of a text that an encoder reads: it has a begin token before it and an end token after it."""
    return _marked(model, text, True)


def _marked(model: "Model", text: Union[str, bytes], ends: bool) -> Array:
    vocab = _vocab(model)
    if vocab != lib.LL_TOKEN_COUNT:
        raise ArgumentError(f"text: the model has {vocab} different tokens, and bytes with begin and end are "
                            f"{lib.LL_TOKEN_COUNT}; give tokens")
    tail = [lib.LL_TOKEN_END] if ends else []
    return np.array([lib.LL_TOKEN_BEGIN, *model.tokenizer.encode(text), *tail], np.int32)


class TokenStream(NotCopied):
    """Tokens through a model one after the other, in memory that does not grow (linear attention).

    Calls of a stream from several threads wait for each other, and for calls of its model. Of an encoder-decoder
    (task = seq2seq) a text of the source gets a begin token (257) before it and an end token (258) after it. The first
    text of the target gets a begin token. Ctrl-C ends `feed`, `score` and `generate` within a long text. `position` then
    says how many tokens were read, and the stream can go on with the next. A stream whose `source` it ends has none.
    """

    instead = "stream.clone() goes on from here, and stream.save(path) writes it"

    def __init__(self, model: "Model", _native: Any = None) -> None:
        check_native("model", model, "_m", "Model")
        if _native is None:
            out = ffi.new("ll_stream **")
            with model._lock:
                check(lib.ll_stream_create(out, model._m))
            _native = out[0]
        self.model = model
        self._s = own(_native, lib.ll_stream_free, model._m, model._owner)

    @property
    def _lock(self) -> Any:
        """A stream reads the model's weights, and reports where the model does."""
        return self.model._lock

    @classmethod
    def load(cls, model: "Model", path: Any) -> "TokenStream":
        """From a file that `save` wrote, to the same bits; ArgumentError for the state of another model."""
        check_native("model", model, "_m", "Model")
        out = ffi.new("ll_stream **")
        with model._lock:
            check(lib.ll_stream_load(out, model._m, encoded("path", path)))
        return cls(model, out[0])

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        with self._lock:
            check(lib.ll_stream_save(self._s, encoded("path", path)))

    def clone(self) -> "TokenStream":
        """A second stream that goes on from here, on its own. O(state)."""
        out = ffi.new("ll_stream **")
        with self._lock:
            check(lib.ll_stream_clone(out, self._s))
        return TokenStream(self.model, out[0])

    def __copy__(self) -> "TokenStream":
        return self.clone()

    def reset(self) -> None:
        with self._lock:
            lib.ll_stream_reset(self._s)

    def source(self, tokens: Any) -> None:
        """seq2seq: what the stream's target is made from; resets the stream."""
        if isinstance(tokens, (str, bytes)) and is_seq2seq(self.model):
            tokens = source_tokens(self.model, tokens)
        t = self._tokens("source", tokens)
        self.model._watched(lib.ll_stream_source, self._s, pointer(t, "int *"), len(t))

    def _tokens(self, name: str, tokens: Any) -> Array:
        if isinstance(tokens, (str, bytes)):
            begins = self.position == 0 and is_seq2seq(self.model)
            tokens = (_marked(self.model, tokens, False) if begins
                      else self.model.tokenizer.encode(tokens, before=self.position == 0))
        t = integers(name, np.atleast_1d(tokens), (None,), "(tokens)")
        if not len(t):
            raise ArgumentError(f"{name}: it must have at least one token")
        return t

    def _pieces(self, t: Array) -> Iterator[slice]:
        """Cuts tokens, so that Ctrl-C is heard between two pieces, which changes no bit. Where the stream would refuse a
        token there is one piece, so that it reads none."""
        whole = t.min() < 0 or t.max() >= _vocab(self.model) or len(t) > lib.ll_stream_left(self._s)
        step = len(t) if whole else PIECE
        return (slice(i, min(i + step, len(t))) for i in range(0, len(t), step))

    def feed(self, tokens: Any, logits: bool = True) -> Optional[Array]:
        """Feeds tokens (or text); gives the logits (V) of the token after the last."""
        t = self._tokens("tokens", tokens)
        out = np.empty(_vocab(self.model), np.float32) if logits else None
        with self._lock:
            for piece in self._pieces(t):
                part = t[piece]
                check(lib.ll_stream_feed(self._s, pointer(part, "int *"), len(part), pointer(out)))
        return out

    def score(self, tokens: Any) -> Array:
        """Feeds tokens; gives the log-probability of each, given all before it."""
        t = self._tokens("tokens", tokens)
        out = np.empty(len(t), np.float32)
        with self._lock:
            for piece in self._pieces(t):
                part = t[piece]
                check(lib.ll_stream_score(self._s, pointer(out[piece]), pointer(part, "int *"), len(part)))
        return out

    @property
    def position(self) -> int:
        """How many tokens were fed."""
        return int(lib.ll_stream_position(self._s))

    @property
    def bytes(self) -> int:
        """Its memory: the state, and room to compute in."""
        with self._lock:
            return int(lib.ll_stream_bytes(self._s))

    def generate(self, prompt: Any = None, tokens: Optional[int] = None, *, temperature: float = 1.0, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 0, source: Any = None) -> Iterator[int]:
        """Feeds the prompt at once; then draws tokens as they are asked for. See `Model.generate`."""
        how = self._begin(prompt, tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, source=source)
        return self._draw(how, tokens, _vocab(self.model), self._end())

    def _end(self) -> int:
        """The token that ends a target of an encoder-decoder; -1 for other models."""
        marks = is_seq2seq(self.model) and _vocab(self.model) == lib.LL_TOKEN_COUNT
        return int(lib.LL_TOKEN_END) if marks else -1

    def _begin(self, prompt: Any, tokens: Optional[int], *, temperature: float = 1.0, top_k: int = 0,
               top_p: float = 1.0, seed: int = 0, source: Any = None) -> Any:
        """Feeds the prompt; gives how to draw."""
        check_number("top_p", top_p, 0, 1)
        how = ffi.new("ll_sampling *", {"struct_size": ffi.sizeof("ll_sampling"),
                                        "temperature": check_number("temperature", temperature, 0),
                                        "top_k": check_count("top_k", top_k, 0),
                                        "top_p": top_p, "seed": check_seed("seed", seed)})
        if tokens is not None:
            check_count("tokens", tokens, 0)
        if source is not None:
            self.source(source)
        if prompt is not None and not hasattr(prompt, "__len__"):
            raise TypeError(f"prompt: is a {type(prompt).__name__}; it must be a str, bytes or a list of tokens")
        if prompt is not None and len(prompt):
            self.feed(prompt, logits=False)
        elif self.position == 0 and self._end() >= 0:
            self.feed([lib.LL_TOKEN_BEGIN], logits=False)
        elif self.position == 0:
            raise ArgumentError("prompt: there is none, and nothing was fed before; give at least one token")
        return how

    def _draw(self, how: Any, tokens: Optional[int], below: int, end: int = -1) -> Iterator[int]:
        """So many tokens, each less than `below`, or those before the token `end`, which is not fed.

        Where learned positions end, the tokens end with one that is not fed either: it has no position.
        """
        logits = np.empty(_vocab(self.model), np.float32)
        separator = int(self.model.recipe["model.separator"])  # learned positions begin again with it
        left = tokens
        while left is None or left > 0:
            with self._lock:  # never held where a token is handed out
                check(lib.ll_stream_logits(self._s, pointer(logits)))
                token = int(lib.ll_sample(pointer(logits), below, how, self.position))
                if token == end:
                    return
                full = lib.ll_stream_left(self._s) == 0 and token != separator
                if not full:
                    self.feed([token], logits=False)
            yield token
            if full:
                return
            left = left if left is None else left - 1

    def generate_text(self, prompt: Any, tokens: int, **how: Any) -> str:
        """The text of so many tokens after a prompt. Only tokens that stand for text are drawn.

        Of an encoder-decoder: the text up to the end of the target, as `longline generate` writes it.
        """
        tokenizer, end = self.model.tokenizer, self._end()
        check_count("tokens", tokens, 0)
        below = tokenizer.vocabulary if end < 0 else lib.LL_TOKEN_COUNT
        drawn: List[int] = list(self._draw(self._begin(prompt, tokens, **how), tokens, below, end))
        return tokenizer.decode(np.array([t for t in drawn if t < tokenizer.vocabulary], np.int32), continues=True)

    def __repr__(self) -> str:
        return f"<longline.TokenStream at position {self.position:,} of {self.model!r}>"
