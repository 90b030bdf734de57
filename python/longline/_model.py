"""Trained models: scores, embeddings, classes, generation, parameters, and losses of batches in memory."""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from ._arrays import Array, integers, pointer
from ._batch import Batch, Evaluation
from ._checks import check_count
from ._core import ArgumentError, FileError, Watch, check, ffi, lib
from ._html import table
from ._images import are_images, check_whole, image_rows, patch_numbers, reads_images
from ._lock import give_lock
from ._names import lookup
from ._recipe import Recipe, assignment, encoded, text_of
from ._tokens import TokenStream, Tokenizer, is_seq2seq, pad, source_tokens

Path = Union[str, "os.PathLike[str]"]


class _Memory:
    """Floats of a native object as an array, which keeps the object."""

    def __init__(self, owner: Any, data: Any, shape: Tuple[int, ...]) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (int(ffi.cast("uintptr_t", data)), False), "shape": shape, "typestr": "<f4",
                                    "version": 3}


class Model:
    """A model, new from a recipe or from a file that longline wrote.

    >>> import longline
    >>> model = longline.Model({"model.width": 32, "model.heads": 2, "model.layers": 1, "model.ff": 64})
    >>> model.parameters()["embedding.weight"].shape
    (256, 32)

    Calls of one model and of its streams, from several threads, wait for each other. Tokens are integers (B, T), lists
    of lists of different lengths, or, where the model has a tokenizer, a str or a list of them. Models of images read
    (B, height, width, 3) or (B, height, width), integers of 0 to 255, or a list of images, which may be Pillow's. Images
    of another size are resized as `longline classify` resizes pictures.
    """

    _lock: Any

    def __init__(self, recipe: Any, *, _native: Any = None) -> None:
        if _native is None:
            recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
            out = ffi.new("ll_model **")
            with recipe._lock:
                check(lib.ll_model_create(out, recipe._r))
            _native = out[0]
            self._own(_native)
        else:
            self._own(_native)

    def _own(self, native: Any, owner: Any = None) -> None:
        self._m = ffi.gc(native, lib.ll_model_free) if owner is None else native
        self._owner = owner
        give_lock(self)
        self._stream: Optional[TokenStream] = None
        self._tokenizer: Optional[Tokenizer] = None

    @classmethod
    def load(cls, path: Path, *, mmap: bool = False) -> "Model":
        """From a .safetensors file: last.safetensors, best.safetensors.

        mmap leaves the parameters in the file, which costs no memory; such a model cannot be trained.
        """
        out = ffi.new("ll_model **")
        name = encoded("path", path)
        if mmap:
            check(lib.ll_model_load(out, name))
        else:
            if not os.path.isfile(path):
                check(lib.ll_model_load(out, name))  # fails with the library's words
            try:
                with open(path, "rb") as file:
                    content = file.read()
            except OSError as error:
                raise FileError(f"cannot read {os.fspath(path)!r}: {error.strerror}") from None
            check(lib.ll_model_load_bytes(out, ffi.from_buffer(content), len(content), name))
        return cls(None, _native=out[0])

    @classmethod
    def from_bytes(cls, content: Any, name: str = "bytes") -> "Model":
        """From the bytes of such a file; nothing of them is kept."""
        out = ffi.new("ll_model **")
        try:
            buffer = ffi.from_buffer(content)
        except (BufferError, TypeError, ValueError) as error:
            raise TypeError(f"content: is a {type(content).__name__} ({error}); it must be bytes, or a buffer that "
                            "lies dense in memory") from None
        check(lib.ll_model_load_bytes(out, buffer, len(buffer), encoded("name", name)))
        return cls(None, _native=out[0])

    def to_bytes(self) -> bytes:
        """What `save` would write."""
        out, size = ffi.new("char **"), ffi.new("size_t *")
        with self._lock:
            check(lib.ll_model_save_bytes(self._m, out, size))
        try:
            return bytes(ffi.buffer(out[0], size[0]))
        finally:
            lib.ll_text_free(out[0])

    def save(self, path: Path) -> None:
        """Written beside its place, then renamed, so that no half file is ever seen."""
        with self._lock:
            check(lib.ll_model_save(self._m, encoded("path", path)))

    def __reduce__(self) -> Any:
        return Model.from_bytes, (self.to_bytes(),)

    # ---- What it is ----

    @property
    def recipe(self) -> Recipe:
        """A copy of the recipe that made it, with every key. `set` changes a key, and `copy` gives a recipe to change."""
        with self._lock:
            recipe = Recipe(text=text_of(lib.ll_model_recipe(self._m)))
        recipe._of_model = True
        return recipe

    def set(self, key: str, value: Any) -> None:
        """Changes a key of [data] or [train] in the model's recipe; ArgumentError for keys that say what it is,
        and in callbacks of a run."""
        with self._lock:
            check(lib.ll_model_set(self._m, assignment(key, value)))

    @property
    def task(self) -> str:
        return self.recipe["model.task"]

    @property
    def classes(self) -> List[str]:
        """Names of a classifier's classes, or their numbers; empty for other models."""
        n = lib.ll_model_size(self._m).classes
        names = self.recipe["data.classes"].split(",") if "data.classes" in self.recipe else []
        return names if len(names) == n else [str(i) for i in range(n)]

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to the model's tokens, and back."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = Tokenizer(self)
            return self._tokenizer

    def _tensors(self) -> Iterator[Any]:
        i = 0
        while True:
            tensor = lib.ll_model_tensor(self._m, i)
            if tensor.name == ffi.NULL:
                return
            if tensor.data != ffi.NULL:
                yield tensor
            i += 1

    def parameters(self) -> Dict[str, Array]:
        """All parameters but quantized ones by name: views, so that writing to one changes the model, until `quantize`
        rounds it: views of before are then apart from the model.

        Matrices are (in, out), those of one column (in,)."""
        keep = (self._m, self._owner)
        return {self._name(t): np.asarray(_Memory(keep, t.data, self._shape(t))) for t in self._tensors()}

    @staticmethod
    def _name(tensor: Any) -> str:
        name: bytes = ffi.string(tensor.name)
        return name.decode()

    @staticmethod
    def _shape(tensor: Any) -> Tuple[int, ...]:
        return (tensor.rows,) if tensor.cols == 1 else (tensor.rows, tensor.cols)

    def size(self) -> int:
        """How many parameters it has."""
        return int(lib.ll_model_size(self._m).parameters)

    # ---- Batches ----

    def _watched(self, call: Any, *arguments: Any) -> None:
        """A call that Ctrl-C stops."""
        watch = Watch(lambda done, total: False)
        handle = ffi.new_handle(watch)
        with self._lock:
            lib.ll_model_watch(self._m, lib.longline_on_done, handle)
            try:
                status = call(*arguments)
            finally:
                lib.ll_model_watch(self._m, ffi.NULL, ffi.NULL)
            watch.check(status)

    def _tokens(self, tokens: Any, lengths: Any, name: str = "tokens") -> Tuple[Array, Optional[Array], bool]:
        def encode(text: Any) -> Array:
            framed = name == "source" and is_seq2seq(self)
            return source_tokens(self, text) if framed else self.tokenizer.encode(text, before=True, after=True)

        if isinstance(tokens, (str, bytes)):
            tokens = encode(tokens)
        if isinstance(tokens, (list, tuple)) and tokens and isinstance(tokens[0], (str, bytes)):
            tokens = [encode(x) for x in tokens]
        one = False
        if are_images(tokens) and reads_images(self.recipe):
            tokens, one = image_rows(name, tokens, self.recipe)
        rows, n, flat = pad(name, tokens, lengths)
        check_whole(name, rows.shape[1], n, self.recipe)
        return rows, n, one or flat

    def logp(self, tokens: Any, lengths: Any = None) -> Array:
        """Log-probabilities (nats). Language models: (B, T, V) of the token after each; classifiers: (B, classes)."""
        t, n, one = self._tokens(tokens, lengths)
        (B, T), recipe = t.shape, self.recipe
        task = recipe["model.task"]
        shape = {"classify": (B, int(recipe["model.classes"])), "match": (B // 2, int(recipe["model.classes"]))}.get(
            task, (B, T, int(recipe["model.vocab"])))
        out = np.empty(shape, np.float32)
        self._watched(lib.ll_model_logp, self._m, pointer(out), pointer(t, "int *"), pointer(n, "int *"), B, T)
        return out[0] if one and task != "match" else out

    def score(self, tokens: Any, lengths: Any = None) -> Array:
        """Language models: log-probability (nats) of every token given those before it, (B, T); 0 for the first."""
        t, n, one = self._tokens(tokens, lengths)
        out = np.empty(t.shape, np.float32)
        self._watched(lib.ll_model_score, self._m, pointer(out), pointer(t, "int *"), pointer(n, "int *"), *t.shape)
        return out[0] if one else out

    def encode(self, tokens: Any, lengths: Any = None, *, layer: int = -1, pool: str = "mean") -> Array:
        """Embeddings (B, C): pool "mean", "first" or "last"; pool "all": (B, T, C), of images (B, patches, C).

        layer 0 is what enters the first block, k what leaves block k, -1 what leaves the last, after its norm.
        """
        kinds = {"mean": lib.LL_EMBED_MEAN, "first": lib.LL_EMBED_FIRST, "last": lib.LL_EMBED_LAST,
                 "all": lib.LL_EMBED_ALL}
        kind = lookup("pool", pool, kinds)
        check_count("layer", layer, -1)
        t, n, one = self._tokens(tokens, lengths)
        C = int(lib.ll_model_size(self._m).width)
        vectors = t.shape[1] // patch_numbers(self.recipe)
        out = np.empty((len(t), vectors, C) if pool == "all" else (len(t), C), np.float32)
        self._watched(lib.ll_model_encode, self._m, layer, kind, pointer(out), pointer(t, "int *"), pointer(n, "int *"),
                      *t.shape)
        return out[0] if one else out

    def classify(self, tokens: Any, lengths: Any = None) -> Tuple[List[str], Array]:
        """Classifiers: the likeliest class of each sequence (of each pair), and the probabilities (B, classes)."""
        if not self.classes and self.task != "match":
            raise ArgumentError(f"the model's task is {self.task}; classify is for task = classify or match")
        p = np.exp(np.atleast_2d(self.logp(tokens, lengths)))
        names = self.classes or [str(i) for i in range(p.shape[1])]
        return [names[int(i)] for i in p.argmax(1)], p

    def evaluate(self, split: str = "test", max_batches: int = 0) -> Evaluation:
        """The loss on a split of the recipe's data: "train", "valid" or "test"; max_batches 0: all of it."""
        result = ffi.new("ll_evaluation *", {"struct_size": ffi.sizeof("ll_evaluation")})
        most = check_count("max_batches", max_batches, 0)
        self._watched(lib.ll_evaluate, self._m, encoded("split", split), most, result)
        return Evaluation(*(getattr(result, name) for name in Evaluation._fields))

    def quantize(self, precision: str) -> None:
        """Rounds matrices to "bfloat16", "int8" or "int4", for good: generation then reads fewer bytes.

        ArgumentError while a run trains the model, in a callback, too."""
        kinds = {"float32": lib.LL_FLOAT32, "bfloat16": lib.LL_BFLOAT16, "int8": lib.LL_INT8,
                 "int4": lib.LL_INT4}
        kind = lookup("precision", precision, kinds)
        with self._lock:
            check(lib.ll_model_quantize(self._m, kind))

    # ---- Streams ----

    def stream(self) -> TokenStream:
        """A new stream of tokens through the model, in constant memory for linear attention."""
        return TokenStream(self)

    @property
    def state(self) -> TokenStream:
        """The stream that `generate` goes on with."""
        with self._lock:
            if self._stream is None:
                self._stream = TokenStream(self)
            return self._stream

    def generate(self, prompt: Any = None, tokens: Optional[int] = None, *, temperature: float = 1.0, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 0, source: Any = None) -> Iterator[int]:
        """Tokens one after the other, without end or so many.

        The state is kept: the next call goes on where this one ended, unless `reset` is called. A draw is a function of
        (seed, position). source: what a seq2seq model reads first; without a prompt its target begins at the begin
        token (257), and the tokens end before the end token (258). Tokens end where learned positions do.
        """
        return self.state.generate(prompt, tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
                                   source=source)

    def reset(self) -> None:
        """The next `generate` begins anew."""
        self._stream = None

    def save_state(self, path: Path) -> None:
        """Writes the state that `generate` goes on with; its size does not grow with what came before."""
        self.state.save(path)

    def load_state(self, path: Path) -> None:
        """Goes on from such a file to the same bits; ArgumentError for the state of another model."""
        self._stream = TokenStream.load(self, path)

    # ---- Learning ----

    def loss(self, batch: Any, *, gradients: bool = True, draw: int = 0) -> Tuple[float, Dict[str, Array]]:
        """The mean loss (nats) of a batch, and its gradient by parameter name.

        batch      a `Batch`, or tokens of which each is to be predicted from those before it (language models)
        gradients  False: the loss alone, as in evaluation: without dropout, and with stochastic positions (sine-spe,
                   conv-spe) drawn once and for all; the dictionary is empty
        draw       another number, other dropout masks, and other draws of stochastic positions
        """
        value, block = self._loss(batch, gradients, draw)
        return value, self._by_name(block)

    def _by_name(self, block: Optional[Array]) -> Dict[str, Array]:
        if block is None:
            return {}
        return {self._name(t): block[t.offset : t.offset + t.rows * t.cols].reshape(self._shape(t))
                for t in self._tensors()}

    def _loss(self, batch: Any, gradients: bool, draw: int) -> Tuple[float, Optional[Array]]:
        b, keep = self._batch(batch, draw)
        loss = ffi.new("ll_loss *", {"struct_size": ffi.sizeof("ll_loss")})
        block = np.empty(lib.ll_model_size(self._m).block, np.float32) if gradients else None
        self._watched(lib.ll_model_loss, self._m, b, pointer(block), loss)
        del keep
        return float(loss.loss), block

    def _batch(self, batch: Any, draw: int) -> Tuple[Any, Any]:
        if isinstance(batch, dict):
            try:
                batch = Batch(**batch)
            except TypeError as error:
                what = str(error).split("() ")[-1]
                raise ArgumentError(f"batch: {what}; its keys are {', '.join(Batch._fields)}") from None
        if not isinstance(batch, Batch):
            if isinstance(batch, (tuple, list)) and len(batch) == 2 and all(getattr(x, "ndim", 0) for x in batch):
                raise ArgumentError("batch: is a pair of arrays; of inputs and targets it must be longline.Batch(*batch)")
            one = batch[0] if isinstance(batch, (tuple, list)) and len(batch) == 1 else None
            if getattr(one, "ndim", 0) == 2 and not reads_images(self.recipe):
                raise ArgumentError("batch: is a list of one array, as a DataLoader gives it; give the array, batch[0]")
            batch = Batch(batch)
        task = self.task
        t, n, _ = self._tokens(batch.tokens, batch.lengths)
        if batch.targets is None:
            if task != "lm":
                raise ArgumentError(f"targets: are missing; only task = lm has the next tokens for them, not {task}")
            if t.shape[1] < 2:
                raise ArgumentError("tokens: have one token a row; without targets there must be at least two, of which "
                                    "each but the first is to be predicted")
            targets = t[:, 1:].copy()
            if n is not None:
                n = np.maximum(n - 1, 0).astype(np.int32)
            t = np.ascontiguousarray(t[:, :-1])
        elif task in ("classify", "match"):
            targets = integers("targets", batch.targets, (len(t) // (2 if task == "match" else 1),), "one an example")
        else:
            targets = pad("targets", batch.targets, None, fill=-1)[0]
            if targets.shape != t.shape:
                raise ArgumentError(f"targets: their shape is {targets.shape}; it must be that of tokens, {t.shape}")
        b = ffi.new("ll_memory_batch *", {"struct_size": ffi.sizeof("ll_memory_batch"),
                                          "draw": check_count("draw", draw, 0, 2**63 - 1)})
        b.B, b.T = t.shape
        b.tokens, b.targets, b.lengths = (pointer(a, "int *") for a in (t, targets, n))
        source = source_lengths = None
        if batch.source is not None:
            source, source_lengths, _ = self._tokens(batch.source, batch.source_lengths, "source")
            if len(source) != len(t):
                raise ArgumentError(f"source: has {len(source)} sequences; tokens has {len(t)}")
            b.S = source.shape[1]
            b.source, b.source_lengths = pointer(source, "int *"), pointer(source_lengths, "int *")
        return b, (t, n, targets, source, source_lengths)

    def __repr__(self) -> str:
        r = self.recipe
        return (f"<longline.Model {r['model.task']} {r['attention.kernel']} {r['position.type']}: {self.size():,} "
                f"parameters, {r['model.layers']} layers of width {r['model.width']}>")

    def _repr_html_(self) -> str:
        rows = [(name, " x ".join(map(str, a.shape)), f"{a.std():.3g}") for name, a in self.parameters().items()]
        return table(("parameter", "shape", "standard deviation"), rows, repr(self)[1:-1]) + self.recipe._repr_html_()
