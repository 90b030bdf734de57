"""One attention operator: all heads of a layer, forward, backward, and as a stream."""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from . import _draws
from ._arrays import (Array, carried, check_result, doubles_of, empty_like_layout, floats, four, integers, numbers,
                      overlap, overlaps_itself, pointer, view)
from ._call import Gradients, Saved, call_of, extras_of
from ._checks import check_count, check_flag, check_number, check_pair, check_positive, check_seed, check_type
from ._core import ArgumentError, NotCopied, OutOfMemory, check, ffi, lib, own
from ._idle import refuse_idle
from ._lock import give_lock
from ._names import DATA_PARAMETERS, FEATURE_KINDS, KERNELS, LINEAR, MAPS, POSITIONS, lookup
from ._stream import Stream


class Operator(NotCopied):
    """Attention of one layer: y_i = sum_j A_ij v_j / sum_j A_ij.

    Linear kernels: A_ij = r^(i-j) <P^i phi(q_i), P^j phi(k_j)> in O(T) (Katharopoulos et al. 2020, equation 7;
    Choromanski et al. 2021, equation 5); "softmax": A_ij = exp(scale <q_i, k_j>) in O(T^2).

    kernel        a name of `longline.KERNELS`: "favor" estimates softmax by random features
    position      a name of `longline.POSITIONS`: "permute" (Chen 2021), "rope" (Su et al. 2021), "sine-spe", ..
                  With "relative-s2" half of the heads have no keys: k has the other heads, H - H // 2
    heads, key_size, value_size   H, D and E
    causal        token i sees 0..i
    features      rows of the projection of "favor", and of other linear kernels where `projection` is given; None: 256
    feature_kind  "positive", "hyperbolic", "trigonometric" or "gaussian" (favor)
    projection    (features, D) or "orthogonal" or "iid"; None: orthogonal for favor, none for other kernels
    permutation   (H, features) or "long" or "random", for position "permute"
    scale         multiplies the logits <q, k>; None: 1 / sqrt(D) for softmax and favor, 1 for other linear kernels
    decay         (H) in (0, 1] or "fixed": r above, causal linear kernels
    parameters    trainable arrays of the position by name (`longline.position_parameters`); they are kept, and read at
                  every call, so that changing them in place changes the operator
    base, rotary  "rope" rotates pair t of n channels by base^(-2t/n) a token; n is rotary, or D where that is 0.
                  parameters={"theta": ..} (D/2) has other angles
    image         (width, height) where tokens are pixels: "permute2d" and positions in two dimensions
    Other options: feature_eps, normalise, seed, layer, window, landmarks, iterations, buckets, chunk, rounds, length,
    rank, linformer_k, linformer_v, realizations, sines, taps, scales, clip, gated, before, check_finite.

    Raises ArgumentError with the reason where the parts do not fit together, and for options that have no effect with
    this kernel or position. Threads may share an operator.
    """

    instead = "make another with the same options and seed"
    _lock: Any

    def __init__(self, kernel: str = "softmax", position: str = "none", *, heads: int, key_size: int,
                 value_size: Optional[int] = None, causal: bool = False, features: Optional[int] = None,
                 feature_kind: str = "positive", projection: Union[None, str, Array] = None,
                 permutation: Union[str, Array] = "long", scale: Optional[float] = None,
                 feature_eps: Optional[float] = None, decay: Union[None, str, Sequence[float], Array] = None,
                 normalise: bool = True, parameters: Optional[Dict[str, Any]] = None,
                 image: Optional[Tuple[int, int]] = None, before: int = 0, seed: int = 0, layer: int = 0,
                 window: int = 128, landmarks: int = 64, iterations: int = 6, buckets: int = 64, chunk: int = 64,
                 rounds: int = 4, length: int = 4096, rank: int = 256, linformer_k: Optional[Array] = None,
                 linformer_v: Optional[Array] = None, realizations: int = 64, sines: int = 5, taps: int = 16,
                 scales: int = 8, clip: int = 6, gated: bool = True, base: float = 10000.0, rotary: int = 0,
                 check_finite: bool = True) -> None:
        self.kernel = lookup("kernel", kernel, KERNELS).name
        self.position = lookup("position", position, POSITIONS).name
        if self.position in ("sinusoidal", "learned"):
            raise ArgumentError(f"position: {position!r} is added to the vectors of tokens by a model; an operator has "
                                "none")
        self.heads = check_count("heads", heads, 1, _draws.SIZE_MOST)
        self.key_size = check_count("key_size", key_size, 1, _draws.SIZE_MOST)
        self.value_size = check_count("value_size", key_size if value_size is None else value_size, 1, _draws.SIZE_MOST)
        self.causal, self.check_finite = check_flag("causal", causal), check_flag("check_finite", check_finite)
        check_seed("seed", seed), check_count("layer", layer, 0)
        check_flag("normalise", normalise), check_count("before", before, 0)
        check_positive("base", base), check_count("rotary", rotary, 0, self.key_size)
        for name, size in (("realizations", realizations), ("scales", scales), ("sines", sines), ("taps", taps),
                           ("clip", clip), ("rank", rank)):
            check_count(name, size, 1, _draws.SIZE_MOST)
        self._keep: list = []  # arrays that the library borrows
        if image is not None:
            image = check_pair("image", image)
        refuse_idle(self.kernel, self.position, dict(
            feature_eps=feature_eps, normalise=normalise, features=features, projection=projection, image=image,
            before=before, scale=scale, window=window, landmarks=landmarks, iterations=iterations, buckets=buckets,
            chunk=chunk, rounds=rounds, length=length, rank=rank, realizations=realizations, gated=gated, sines=sines,
            taps=taps, scales=scales, clip=clip, permutation=permutation, base=base, rotary=rotary))
        features = check_count("features", 256 if features is None else features, 1, _draws.SIZE_MOST)
        two = image is not None and self.position in ("conv-spe", "relative-s1", "relative-s2")
        width = _draws.widths(self.position, self.key_size, realizations, scales, 2 if two else 1)
        c = self._config = ffi.new("ll_attention_config *")
        c.struct_size = ffi.sizeof("ll_attention_config")
        c.kernel, c.position = KERNELS[self.kernel].number, POSITIONS[self.position].number
        c.features = lookup("feature_kind", feature_kind, FEATURE_KINDS)
        c.causal, c.H, c.D, c.E = self.causal, self.heads, self.key_size, self.value_size
        c.query_max, c.key_max = lib.LL_MAX_TOKEN, lib.LL_MAX_PREFIX
        feature_eps = KERNELS[self.kernel].eps if feature_eps is None else feature_eps
        c.feature_eps = check_number("feature_eps", feature_eps, 0)
        if not normalise or self.kernel == "gla":
            c.den, c.query_max, c.key_max = lib.LL_DEN_NONE, lib.LL_MAX_NONE, lib.LL_MAX_NONE
        softmax_scale = width**-0.5 if scale is None else check_positive("scale", scale)
        if self.kernel in MAPS:
            c.input_scale = 1.0 if scale is None else check_positive("scale", scale) ** 0.5
        else:
            c.input_scale = softmax_scale**0.5 if self.kernel == "favor" else softmax_scale
        if image is not None:
            c.width, c.height = image
        c.before, c.encoding.base, c.encoding.rotary = before, base, rotary
        try:
            self._draw(projection, permutation, decay, features, width, seed, layer)
            self._place(parameters, dict(scales=scales, axes=2 if two else 1, sines=sines, taps=taps, clip=clip,
                                         gated=gated, image=two), realizations, seed, layer)
            self._approximate(dict(window=window, landmarks=landmarks, iterations=iterations, buckets=buckets,
                                   chunk=chunk, rounds=rounds, length=length, rank=rank), linformer_k, linformer_v,
                              seed, layer)
        except MemoryError as error:
            raise OutOfMemory(f"no memory for an operator of these sizes: {error}; use smaller ones") from None
        out = ffi.new("ll_attention **")
        check(lib.ll_attention_create(out, c))
        self._op = own(out[0], lib.ll_attention_free, self._keep)
        self._stream: Optional[Stream] = None
        give_lock(self)

    def _borrow(self, a: Array, kind: str = "float *") -> Any:
        self._keep.append(a)
        return pointer(a, kind)

    def _draw(self, projection: Any, permutation: Any, decay: Any, features: int, width: int, seed: int,
              layer: int) -> None:
        c, H = self._config, self.heads
        if projection is None and self.kernel == "favor":
            projection = "orthogonal"
        if projection is not None:
            if self.kernel not in LINEAR:
                raise ArgumentError(f"projection: kernel {self.kernel!r} has no features to project")
            if isinstance(projection, str):
                rows = check_count("features", features)
                projection = _draws.projection(rows, width, projection, seed + layer)
            self.projection = np.ascontiguousarray(floats("projection", projection, (None, width), "(features, D)"))
            if not len(self.projection):
                raise ArgumentError(f"projection: its shape is {self.projection.shape}; it must have at least one row "
                                    "(None: no projection)")
            c.M, c.projection = len(self.projection), self._borrow(self.projection)
        self.features = (c.M or width) * (2 if c.M and c.features != lib.LL_FEATURES_POSITIVE else 1)
        if self.position in ("permute", "permute2d"):
            n = self.features // (2 if self.position == "permute2d" else 1)
            if isinstance(permutation, str):
                permutation = _draws.permutation(n, H, permutation, seed, layer)
            p = integers("permutation", permutation, (H, n), "(heads, features)")
            if not (np.sort(p, axis=1) == np.arange(n)).all():
                raise ArgumentError(f"permutation: a row is no permutation of 0..{n - 1}")
            c.permutation = self._borrow(p, "int32_t *")
        if decay is not None:
            if isinstance(decay, str) and decay != "fixed":
                raise ArgumentError(f"decay: is {decay!r}; it must be 'fixed', or a number in (0, 1] for each head")
            r = _draws.decays(H) if isinstance(decay, str) else numbers("decay", decay)
            c.decay = self._borrow(np.ascontiguousarray(floats("decay", r, (H,), "(heads)")))

    def _place(self, given: Optional[Dict[str, Any]], sizes: Dict[str, Any], realizations: int, seed: int,
               layer: int) -> None:
        w = self._config.encoding
        start = _draws.position_parameters(self.position, self.heads, self.key_size, self.value_size,
                                           causal=self.causal, seed=seed + layer, kernel=self.kernel, **sizes)
        if self.position == "orthogonal":
            start.update(_draws.rotation(self.features, self.heads, seed + layer))
        if given is not None and not isinstance(given, dict):
            raise TypeError(f"parameters: is a {type(given).__name__}; it must be a dictionary of arrays by name")
        given = dict(given or {})
        shapes: Dict[str, Any] = _draws.kept_shapes(self.position, self.heads, self.key_size, self.features,
                                                    sizes["sines"], realizations, sizes["image"])
        shapes.update({name: a.shape for name, a in start.items()})
        for name in given:
            if name not in shapes:
                raise ArgumentError(f"parameters: position {self.position!r} has no {name!r}; it has "
                                    f"{', '.join(sorted(shapes)) or 'none'}")
        if "theta" in given and (w.base != 10000 or w.rotary):
            raise ArgumentError("base: parameters['theta'] has all angles; leave base and rotary out")
        self.parameters: Dict[str, Array] = {}
        for name in {**start, **given}:
            a = given.get(name, start.get(name))
            a = floats(f"parameters[{name!r}]", a, shapes[name], "its shape")
            if not a.flags.c_contiguous:
                raise ArgumentError(f"parameters[{name!r}]: it must be dense (numpy.ascontiguousarray)")
            setattr(w, name, self._borrow(a))
            if name in DATA_PARAMETERS:
                self.parameters[name] = a
            if name == "noise":
                w.noise_rows = a.shape[2]
                w.noise_cols = a.shape[3] if a.ndim == 5 else 0
        w.realizations, w.sines, w.taps, w.taps2 = realizations, sizes["sines"], sizes["taps"], 0
        if self.position == "conv-spe" and sizes["image"]:
            w.taps2 = sizes["taps"]
        w.scales, w.axes, w.clip = sizes["scales"], sizes["axes"], sizes["clip"]
        self.keyless = self.heads // 2 if self.position == "relative-s2" else 0
        w.keyless, w.seed, w.layer = self.keyless, seed, layer

    def _approximate(self, sizes: Dict[str, int], k: Optional[Array], v: Optional[Array], seed: int,
                     layer: int) -> None:
        b = self._config.approximate
        for name, value in sizes.items():
            setattr(b, name, check_count(name, value, 1, 2**24))
        b.seed, b.layer = seed, layer
        if self.kernel == "linformer":
            shape = (sizes["length"], sizes["rank"])
            start = np.random.default_rng([seed, layer, 13]).standard_normal((2, *shape)) / np.sqrt(sizes["rank"])
            pair = [start[i].astype(np.float32) if a is None else a for i, a in enumerate((k, v))]
            for name, a in zip(("linformer_k", "linformer_v"), pair):
                a = np.ascontiguousarray(floats(name, a, shape, "(length, rank)"))
                setattr(b, name, self._borrow(a))
                self.parameters[name] = a

    # ---- Calls ----

    def _inputs(self, q: Any, k: Any, v: Any) -> Tuple[Array, Array, Array, int]:
        D, E, H, finite = self.key_size, self.value_size, self.heads, self.check_finite
        q, axes = four("q", q, "(B, H, T, D)", finite)
        k, _ = four("k", k, "(B, H, S, D)", finite)
        v, _ = four("v", v, "(B, H, S, E)", finite)
        B, T, S = q.shape[0], q.shape[2], k.shape[2]
        floats("q", q, (B, H, T, D), "(B, heads, T, key_size)", False)
        of_keys = "(B, heads, S, key_size)" if not self.keyless else (
            f"(B, heads - {self.keyless} without keys, S, key_size)")
        floats("k", k, (B, H - self.keyless, S, D), of_keys, False)
        floats("v", v, (B, H, S, E), "(B, heads, S, value_size)", False)
        if min(B, T, S) < 1:
            raise ArgumentError(f"q: its shape is {q.shape}; there must be at least one sequence and one token")
        if self.causal and S != T:
            raise ArgumentError(f"k: has {S} tokens and q {T}; causal attention needs as many keys as queries")
        return q, k, v, axes

    @property
    def state_size(self) -> int:
        """Floats of the state of one sequence, whatever its length; ArgumentError where the state would grow."""
        out = ffi.new("size_t *")
        check(lib.ll_attention_state_floats(self._op, out))
        return int(out[0])

    def forward(self, q: Any, k: Any, v: Any, *, lengths: Any = None, query_lengths: Any = None, key_mask: Any = None,
                segments: Any = None, gate: Any = None, state: Any = None, return_state: bool = False,
                offset: int = 0, bf16: bool = False, save: bool = False, out: Optional[Array] = None) -> Any:
        """Attention over whole sequences.

        q             (B, H, T, D), or without B, or without B and H; float32; any strides that are not negative, with a
                      dense last axis. Nothing is copied. Also what has __dlpack__ on the CPU
        k, v          (B, H, S, D) and (B, H, S, E)
        lengths       (B) keys in use, from the front. Where T = S they count for queries, too: y is 0 behind them
        query_lengths (B) queries in use, from the front. Of queries that are other tokens than the keys, with T = S, give
                      [T] * B: all
        key_mask      (B, S) 1 or True keeps a key, 0 or False removes it
        segments      packed rows: lengths of the sequences that lie in a row one after the other, or a list for each row
        gate          (B, H, T) log of a decay for each token and head, at most 0: gated linear attention
        state, offset what earlier calls left (sequences, state_size), and how many tokens they had, from which positions
                      are counted
        bf16          products round to bfloat16, but for causal sums; faster where `longline.cpu()` ends in bf16
        out           where the result goes; a new array laid out as q
        save          keep for `backward` what it needs: lengths and key_mask are copied, other arrays are not

        Gives y (B, H, T, E); with return_state (y, state); with save, last, what `backward` takes. The lock of the
        interpreter is released. O(B H T M (D + E)) for linear kernels.
        """
        q, k, v, axes = self._inputs(q, k, v)
        e = extras_of(self, q, k, lengths, query_lengths, key_mask, segments, gate, state, return_state, offset)
        shape = (q.shape[0], self.heads, q.shape[2], self.value_size)
        if out is None:
            y = empty_like_layout(q, self.value_size)
        else:
            if not isinstance(out, np.ndarray):
                raise TypeError(f"out: is a {type(out).__name__}; it must be a NumPy array (of a torch tensor: out.numpy())")
            y = four("out", out, "(B, H, T, E)", False)[0]
            floats("out", y, shape, "(B, heads, T, value_size)", False)
            if not y.flags.writeable or overlaps_itself(y):
                raise ArgumentError("out: it must be writable, each element with a place of its own")
            read = [("q", q), ("k", k), ("v", v), *((n, x) for n, x in e.items() if isinstance(x, np.ndarray))]
            for name, x in read:
                if overlap(y, x):
                    raise ArgumentError(f"out: lies where {name} does, which is read meanwhile; give another array")
        e.update(bf16=bool(bf16))
        if save:  # backward reads these again; they are small, and torch would not notice a change
            e.update({name: e[name].copy() for name in ("lengths", "query_lengths", "key_mask") if name in e})
        call = call_of(q, k, v, y, e)
        saved = np.empty(0, np.float32)
        if save:
            n = lib.ll_attention_saved(self._op, call)
            saved = np.empty(max(int(n), 1), np.float32)
            call.saved = pointer(saved)
        check(lib.ll_attention_forward(self._op, call))
        if self.check_finite:
            check_result(y)
        result: Tuple[Any, ...] = (y[(0,) * (4 - axes)],)
        if return_state:
            result += (e["state_out"],)
        if save:
            e.update(axes=axes, operator=self)
            result += (Saved(q, k, v, y, e.get("gate"), e.get("state_in"), e, saved),)
        return result if len(result) > 1 else result[0]

    def backward(self, saved: Saved, dy: Any, dstate: Any = None) -> Gradients:
        """Gradients of sum(dy * y) with the call that gave `saved`; O of forward.

        dstate is the gradient at the state that was returned. Those of the position's parameters and of the decay are
        in the result. q, k, v, gate, state and the result y of the call are read again, where they lie, and must be
        unchanged: y = 2 * y, not y *= 2.
        """
        e = check_type("saved", saved, Saved).extras
        if e["operator"] is not self:
            raise ArgumentError("saved: another operator gave it; backward is for what forward of this one saved")
        dy, _ = four("dy", dy, "(B, H, T, E)", self.check_finite)
        floats("dy", dy, saved.y.shape, "the shape of y", False)
        call = call_of(saved.q, saved.k, saved.v, saved.y, e)
        call.saved, call.g = pointer(saved.floats), view(dy)
        d = [empty_like_layout(x, x.shape[3]) for x in (saved.q, saved.k, saved.v)]
        call.dq, call.dk, call.dv = (view(a) for a in d)
        dgate = dstate_in = ddecay = None
        if saved.gate is not None:
            dgate = np.zeros(saved.gate.shape, np.float32)
            call.dgate = view(dgate)
        if dstate is not None:
            if "state_out" not in e:
                raise ArgumentError("dstate: the call that was saved returned no state")
            shape = e["state_out"].shape
            dstate = carried("dstate", dstate, shape, doubles_of(self._config, shape[1]))
            call.dstate_out = pointer(dstate)
        if saved.state is not None:
            dstate_in = np.zeros(saved.state.shape, np.float32)
            call.dstate_in = pointer(dstate_in)
        if self._config.decay != ffi.NULL:
            ddecay = np.zeros(self.heads, np.float32)
            call.ddecay = pointer(ddecay)
        parameters = {name: np.zeros(a.shape, np.float32) for name, a in self.parameters.items()}
        for name, a in parameters.items():
            setattr(call.dapproximate if name.startswith("linformer") else call.dposition, name, pointer(a))
        check(lib.ll_attention_backward(self._op, call))
        dq, dk, dv = (a[(0,) * (4 - e["axes"])] for a in d)
        return Gradients(dq, dk, dv, dgate, dstate_in, ddecay, parameters)

    def stream(self, batch: int = 1) -> Stream:
        """The causal operator as a recurrence that begins here, for `batch` sequences side by side."""
        return Stream(self, batch)

    def step(self, q: Any, k: Any, v: Any, *, gate: Any = None) -> Array:
        """The next token, or the next n, of the operator's own stream: q (B, H, n, D) and so on; y (B, H, n, E).

        The first step after `reset` fixes B. Several sequences of calls at once: `stream`.
        """
        with self._lock:
            if self._stream is None:
                self._stream = Stream(self, four("q", q, "(B, H, n, D)", False)[0].shape[0])
            stream = self._stream
        return stream.feed(q, k, v, gate=gate)

    def reset(self) -> None:
        """Ends the operator's own stream; the next step is the first."""
        self._stream = None

    def __repr__(self) -> str:
        size = f"{self.key_size}" if self.key_size == self.value_size else f"{self.key_size}/{self.value_size}"
        return (f"<longline.Operator {self.kernel} {self.position}{' causal' if self.causal else ''}: "
                f"{self.heads} heads of {size}>")
