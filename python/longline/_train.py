"""Training: runs from a recipe, and steps on batches from Python's memory."""
from __future__ import annotations

import contextlib
import math
import os
import warnings
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Union

import numpy as np

from ._arrays import pointer
from ._core import ArgumentError, LonglineError, NotCopied, Watch, check, ffi, lib, own, progress_bar, text
from ._html import table
from ._model import Model, Path
from ._recipe import Recipe, encoded


class Progress(NamedTuple):
    """What a callback is told. loss in nats a token or example, eta in seconds: NaN while unknown.

    event is "" after each step; else what was done there: "eval", "checkpoint", "done", or a failure that did not stop
    the run. Steps on batches from memory have no evaluation and no clock: valid_loss, valid_accuracy, learning_rate,
    tokens_per_second and seconds are NaN.

    matching is "attention" or "logits" while loss compares with a teacher (train.distil), else "". Of attention, loss
    is the share of the teacher's output that is missed.
    """

    step: int
    steps: int
    loss: float
    valid_loss: float
    valid_accuracy: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds: float
    eta: float
    event: str = ""
    matching: str = ""


Callback = Callable[[Progress], Any]


class Trainer(NotCopied):
    """Trains by a recipe with its data, or step by step on batches from memory.

    Trainer(recipe, "runs/mine").run()         a run in a folder, as `longline train` makes it
    Trainer(None, resume="runs/mine").run()    goes on, to the same bits as an uninterrupted run
    trainer = Trainer(model)                   batches from memory; `trainer.step(batch)`, `trainer.fit(batches)`

    callbacks are called with a `Progress` after each step; one that gives True stops the run, as Ctrl-C does, and
    all is saved.
    """

    instead = "a run goes on from its folder by Trainer(None, resume=folder), and a model is kept by model.save(path)"

    def __init__(self, what: Union[Recipe, Mapping[str, Any], Model, Path, None], folder: Optional[Path] = None, *,
                 resume: Optional[Path] = None, callbacks: Iterable[Callback] = ()) -> None:
        if not isinstance(callbacks, Iterable):
            raise TypeError(f"callbacks: is {callbacks!r}; it must be a list of functions of a Progress")
        self.callbacks: List[Callback] = list(callbacks)
        if not all(map(callable, self.callbacks)):
            raise TypeError(f"callbacks: is {self.callbacks!r}; each must be a function of a Progress")
        self.history: List[Progress] = []
        self._trainer = self._adam = None
        self.steps_made = 0
        self.stopped = False
        self._running = self._warned = False
        if isinstance(what, Model):
            if folder is not None or resume is not None:
                raise ArgumentError("folder: a trainer of batches from memory has none; save with model.save")
            self.model = what
            out = ffi.new("ll_adam **")
            with what._lock:
                check(lib.ll_adam_create(out, what._m))
            self._adam = own(out[0], lib.ll_adam_free, what._m, what._owner)
            return
        if folder is None and resume is None:
            raise ArgumentError("folder: a run needs a folder to write to")
        if not isinstance(what, (Mapping, str, bytes, os.PathLike, type(None))):
            raise TypeError(f"what: is a {type(what).__name__}; it must be a Recipe, a mapping, a Model or a path")
        recipe = what if what is None or isinstance(what, Recipe) else (
            Recipe(what) if isinstance(what, Mapping) else Recipe.load(what))
        out = ffi.new("ll_trainer **")
        path = [ffi.NULL if p is None else encoded("folder", p) for p in (folder, resume)]
        with contextlib.nullcontext() if recipe is None else recipe._lock:
            check(lib.ll_trainer_create(out, ffi.NULL if recipe is None else recipe._r, *path))
        self._trainer = ffi.gc(out[0], lib.ll_trainer_free)
        self.model = Model.__new__(Model)
        self.model._own(lib.ll_trainer_model(self._trainer), self._trainer)

    @property
    def folder(self) -> str:
        """Where the run is; "" for batches from memory."""
        return text(lib.ll_trainer_folder(self._trainer)) if self._trainer is not None else ""

    def _tell(self, progress: Progress) -> bool:
        if progress.event in ("", "eval"):
            self.history.append(progress)
        results = [callback(progress) for callback in self.callbacks]
        return any(isinstance(x, (bool, np.bool_)) and bool(x) for x in results)  # no other value means stop

    # ---- A run by its recipe ----

    def run(self, progress: bool = True) -> Model:
        """Runs to the last step and gives the model. Ctrl-C: all is saved, then KeyboardInterrupt.

        Then the folder is free: `run` of this trainer, or of one that resumes it, goes on. Where another has gone on,
        this one raises FileError.
        A callback's True: `Stopped`, all saved. What a callback raises is raised here, after everything was saved.
        Callbacks may call the model and its streams. Other threads that do so wait until this returns.
        """
        if self._trainer is None:
            raise ArgumentError("run: this trainer has no data of its own; use step or fit")
        if self._running:
            raise ArgumentError("run: this trainer runs already")
        bar = progress_bar(0, "train") if progress else None

        def report(p: Any) -> bool:
            event = text(p.event)
            if event == "computing":  # within a long step; Ctrl-C ends it
                return False
            now = Progress(p.step, p.steps, p.loss, p.valid_loss, p.valid_accuracy, p.learning_rate, p.gradient_norm,
                           p.tokens_per_second, p.seconds, p.eta, event, text(p.matching))
            _show(bar, now)
            return event != "evaluating" and self._tell(now)

        watch = Watch(report)
        handle = ffi.new_handle(watch)
        self._running = True
        try:
            with self.model._lock:
                watch.check(lib.ll_trainer_run(self._trainer, lib.longline_on_progress, handle))
        finally:
            self._running = False
            if bar is not None:
                bar.close()
        return self.model

    # ---- Batches from memory ----

    def step(self, batch: Any) -> Progress:
        """One update from a `Batch` (or tokens, for language models), by the model's train.* keys.

        UserWarning, once, where the schedule of the learning rate has ended at 0, after train.steps of these.
        """
        if self._adam is None:
            raise ArgumentError("step: this trainer reads its recipe's data; use run, or Trainer(model)")
        recipe = self.model.recipe
        self._check_rate(recipe)
        norm = ffi.new("double *")
        with self.model._lock:  # also between the gradients and the update
            loss, gradients = self.model._loss(batch, True, self.steps_made)
            check(lib.ll_adam_step(self._adam, pointer(gradients), norm))
            self.steps_made += 1
            made = self.steps_made
        steps, nan = int(recipe["train.steps"]), math.nan
        done = Progress(made, steps, loss, nan, nan, nan, norm[0], nan, nan, nan)
        self.stopped = self._tell(done)
        return done

    def _check_rate(self, recipe: Recipe) -> None:
        schedule, steps = recipe["train.schedule"], int(recipe["train.steps"])
        falls = schedule in ("linear", "cosine") and float(recipe["train.final-rate"]) == 0
        if falls and self.steps_made >= steps and not self._warned:
            self._warned = True
            warnings.warn(f"train.steps: is {steps}, where train.schedule = {schedule} ends with a learning rate of 0, so that "
                          "further steps train nothing; set it to the number of all steps, model.set(\"train.steps\", N), or "
                          "train.schedule to constant", UserWarning, stacklevel=3)

    def fit(self, batches: Iterable[Any], progress: bool = True) -> List[Progress]:
        """`step` for each batch, until they end or a callback gives True."""
        if not isinstance(batches, Iterable):
            raise TypeError(f"batches: is a {type(batches).__name__}; it must be an iterable of batches")
        total = len(batches) if hasattr(batches, "__len__") else 0  # type: ignore[arg-type]
        before = self.steps_made
        bar = progress_bar(total, "train", before) if progress else None
        done = []
        try:
            for batch in batches:
                done.append(self.step(batch))
                _show(bar, done[-1])
                if self.stopped:
                    break
        finally:
            if bar is not None:
                bar.close()
        return done

    def __repr__(self) -> str:
        steps = f", {self.history[-1].step} steps" if self.history else ""
        return f"<longline.Trainer {self.folder or 'of batches from memory'}{steps}>"

    def _repr_html_(self) -> str:
        every = max(1, len(self.history) // 20)
        rows = [(p.step, *("" if math.isnan(x) else f"{x:.4f}" for x in (p.loss, p.valid_loss)),
                 f"{p.gradient_norm:.3g}") for p in self.history[::every]]
        return table(("step", "loss", "held-out loss", "gradient norm"), rows, repr(self)[1:-1])


def _show(bar: Any, p: Progress) -> None:
    if bar is None:
        return
    if not bar.total and p.steps:
        bar.total = p.steps
    bar.n = p.step if p.event != "" or bar.n <= p.step else bar.n
    losses = ("distillation loss" if p.matching else "loss", p.loss), ("held-out", p.valid_loss)
    bar.set_postfix_str(", ".join(f"{name} {x:.4f}" for name, x in losses if not math.isnan(x)))


__all__ = ["LonglineError", "Progress", "Trainer"]
