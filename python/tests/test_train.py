"""Training: losses and gradients of batches in memory, steps, and runs from recipes."""
import os
import signal
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import longline
from longline import Batch, Model, Recipe, Trainer

TOKENS = np.random.default_rng(1).integers(0, 256, (4, 9))
RUN = {"model.width": 32, "model.heads": 2, "model.layers": 1, "model.ff": 32, "attention.kernel": "elu1",
       "data.format": "demo", "train.steps": 6, "train.batch": 2, "train.length": 32, "train.eval-every": 3,
       "train.eval-batches": 1, "train.report": "off"}


def test_loss_is_minus_the_score(small):
    loss, gradients = small.loss(TOKENS)
    assert np.isclose(loss, -small.score(TOKENS)[:, 1:].mean(), rtol=1e-5)
    assert small.loss(TOKENS, gradients=False) == (loss, {})
    assert {n: g.shape for n, g in gradients.items()} == {n: p.shape for n, p in small.parameters().items()}
    ragged = [row[:n] for row, n in zip(TOKENS, (9, 4, 2, 5))]
    assert np.isclose(small.loss(ragged)[0], -small.score(ragged).sum() / (8 + 3 + 1 + 4), rtol=1e-5)


def test_gradients_are_the_slope(small):
    _, gradients = small.loss(TOKENS)
    for name in ("embedding.weight", "blocks.0.attention.query.weight"):
        parameter, gradient = small.parameters()[name], gradients[name].copy()
        direction = gradient / np.linalg.norm(gradient)
        losses = []
        for h in (0.01, -0.01):
            parameter += np.float32(h) * direction
            losses.append(small.loss(TOKENS, gradients=False)[0])
            parameter -= np.float32(h) * direction
        assert np.isclose((losses[0] - losses[1]) / 0.02, np.linalg.norm(gradient), rtol=0.02)


def test_steps_are_adam(small):
    """The first update of Adam moves every parameter by the learning rate, against its gradient's sign."""
    small.set("train.weight-decay", 0)
    before = small.parameters()["embedding.weight"].copy()
    gradient = small.loss(TOKENS)[1]["embedding.weight"].copy()
    told = []
    trainer = Trainer(small, callbacks=[told.append])
    done = trainer.step(TOKENS)
    moved = small.parameters()["embedding.weight"] - before
    large = np.abs(gradient) > 1e-5
    assert large.any() and np.allclose(moved[large], -0.01 * np.sign(gradient[large]), rtol=1e-2)
    assert told == [done] and done.step == 1 and done.gradient_norm > 0
    losses = [p.loss for p in trainer.fit([TOKENS] * 30, progress=False)]
    assert losses[-1] < 0.5 * losses[0]
    assert "<table>" in trainer._repr_html_()
    trainer.callbacks.append(lambda p: p.step >= 33)
    assert len(trainer.fit([TOKENS] * 10)) == 2


def test_steps_after_the_schedule():
    """They are told once that they train nothing, and what would."""
    small = {"model.width": 16, "model.heads": 2, "model.layers": 1, "model.ff": 16, "train.steps": 3, "train.warmup": 0}
    for more in {}, {"train.schedule": "linear"}:
        trainer = Trainer(Model({**small, **more}))
        trainer.fit([TOKENS] * 3, progress=False)
        words = r"train.steps: is 3, where train.schedule = \w+ ends .*; set it .* model.set\("
        with pytest.warns(UserWarning, match=words) as warned:
            trainer.fit([TOKENS] * 3, progress=False)
        assert len(warned) == 1
        losses = [p.loss for p in trainer.fit([TOKENS] * 3, progress=False)]
        assert losses[0] == losses[2]
        trainer.model.set("train.steps", 100)
        assert trainer.step(TOKENS).loss > trainer.step(TOKENS).loss
    for more in {"train.schedule": "constant"}, {"train.schedule": "inverse-sqrt"}, {"train.final-rate": 0.001}:
        losses = [p.loss for p in Trainer(Model({**small, **more})).fit([TOKENS] * 9, progress=False)]  # no warning
        assert losses[-1] < losses[-2]


def test_progress_bar_of_a_second_fit(small, monkeypatch):
    """The bar goes on where the trainer is, and its end is that of these batches."""
    import tqdm.auto
    bars = []

    class Bar(tqdm.auto.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options, file=open(os.devnull, "w"))
            bars.append((self, self.initial, self.total))

        def close(self):
            self.shown = self.n
            super().close()
            self.fp.close()

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    trainer = Trainer(small)
    trainer.fit([TOKENS] * 3)
    trainer.fit([TOKENS] * 2)
    assert [(bar.shown, initial, total) for bar, initial, total in bars] == [(3, 0, 3), (5, 3, 5)]


def test_seq2seq_from_memory():
    model = Model({"model.task": "seq2seq", "model.vocab": 259, "model.width": 32, "model.heads": 2, "model.layers": 1,
                   "model.ff": 32, "attention.kernel": "elu1", "train.learning-rate": 0.01, "train.warmup": 0})
    batch = Batch([[257, 1, 2], [257, 3]], targets=[[1, 2, 258], [3, 258]], source=[[2, 1, 258], [3, 258]])
    steps = Trainer(model).fit([batch] * 40)
    assert steps[-1].loss < 0.3 * steps[0].loss


def test_texts_of_seq2seq_have_marks():
    """A text of a source lies between 257 and 258, a target begins with 257, and generation ends before 258."""
    model = Model({"model.task": "seq2seq", "model.vocab": 259, "model.width": 32, "model.heads": 2, "model.layers": 1,
                   "model.ff": 32, "attention.kernel": "elu1", "train.learning-rate": 0.01, "train.warmup": 0})
    batch = Batch([[257, *b"no"], [257, *b"yes"]], targets=[[*b"no", 258], [*b"yes", 258]], source=["ja", b"nein"])
    loss = model.loss(batch)[0]
    assert loss == model.loss(batch._replace(source=[[257, *b"ja", 258], [257, *b"nein", 258]]))[0]
    Trainer(model).fit([batch] * 80, progress=False)

    def answer(source, prompt=None, **how):
        return list(model.generate(prompt, source=source, temperature=0, **how))

    assert answer("ja") == [*b"no"] and answer("nein", tokens=50) == [*b"yes"]
    assert answer([257, *b"nein", 258], [257]) == [*b"yes"]
    assert answer("nein", "y") == [*b"es"] == answer("nein", [257, *b"y"]) and answer("nein", tokens=2) == [*b"ye"]
    for prompt, text in (None, "yes"), ("", "yes"), ("ye", "s"):
        assert model.stream().generate_text(prompt, 50, source="nein", temperature=0) == text
    streams = [model.stream() for _ in range(2)]
    for stream, source, first in zip(streams, ("ja", [257, *b"ja", 258]), (b"", [257])):
        stream.source(source)
        stream.feed([*first, *b"n"] if first else b"n")
    assert streams[0].position == 2 and np.array_equal(streams[0].feed("o"), streams[1].feed("o"))
    empty = model.stream()
    empty.source("")  # as `longline generate` reads it
    with pytest.raises(ValueError, match="the stream has no source to read"):
        model.stream().generate(None, 3)
    other = Model({**model.recipe, "model.vocab": 300})
    with pytest.raises(ValueError, match="the model has 300 different tokens, and bytes with begin and end are 259"):
        other.stream().source("ja")


def test_run_and_resume(tmp_path):
    events = []
    trainer = Trainer(RUN, tmp_path / "run", callbacks=[lambda p: events.append((p.step, p.event))])
    model = trainer.run(progress=False)
    assert [s for s, e in events if e == ""] == [1, 2, 3, 4, 5, 6] and (3, "eval") in events and events[-1][1] == "done"
    assert (tmp_path / "run" / "last.safetensors").exists()
    del trainer  # the model keeps it
    assert np.isfinite(model.score(b"some text")).all()
    # A run that a callback stopped resumes to the same bits.
    half = Trainer(RUN, tmp_path / "half", callbacks=[lambda p: p.step == 3 and p.event == ""])
    with pytest.raises(longline.Stopped, match="stopped after step 3"):
        half.run()
    again = Trainer(None, resume=tmp_path / "half").run()
    for name, value in model.parameters().items():
        assert np.array_equal(value, again.parameters()[name])
    assert np.isfinite(again.evaluate("valid", 1).loss)


def test_true_of_numpy_stops_too(tmp_path):
    """A comparison with a number of an array gives np.True_. What is no boolean stops nothing."""
    limit = np.array([2])
    with pytest.raises(longline.Stopped, match="stopped after step 2"):
        Trainer(RUN, tmp_path / "run", callbacks=[lambda p: np.float64(p.step), lambda p: p.step >= limit[0]]).run(False)


def test_who_goes_on(tmp_path):
    """A trainer that was stopped goes on itself, unless another has resumed its folder."""
    whole = Trainer(RUN, tmp_path / "whole").run(progress=False).parameters()
    trainers = [Trainer(RUN, tmp_path / name, callbacks=[lambda p: p.step == 2]) for name in "ab"]
    for trainer in trainers:
        with pytest.raises(longline.Stopped, match="stopped after step 2"):
            trainer.run(progress=False)
        trainer.callbacks.clear()
    other = Trainer(None, resume=tmp_path / "b")
    with pytest.raises(longline.FileError, match="another run is writing to"):
        trainers[1].run(progress=False)
    for model in (trainers[0].run(progress=False), other.run(progress=False)):
        assert all(np.array_equal(value, whole[name]) for name, value in model.parameters().items())
    before = (tmp_path / "b" / "last.safetensors").read_bytes()
    with pytest.raises(longline.FileError, match="another run has gone on in .* since this one left it at step 2"):
        trainers[1].run(progress=False)
    assert (tmp_path / "b" / "last.safetensors").read_bytes() == before


def test_what_a_callback_raises_comes_out(tmp_path):
    def fail(p):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        Trainer(RUN, tmp_path / "run", callbacks=[fail]).run()
    assert (tmp_path / "run" / "last.safetensors").exists()


@pytest.mark.parametrize("position", ["permute", "sine-spe"])
def test_other_threads_wait_for_a_run(tmp_path, position):
    """Its callbacks do not, and change no bit."""
    recipe = {**RUN, "position.type": position, "attention.kernel": "favor", "attention.redraw": 2}
    alone = Trainer(recipe, tmp_path / "alone").run(progress=False)
    waited = []

    def call(p):
        model = trainer.model
        assert np.isfinite(model.score(TOKENS)).all() and len(list(model.stream().generate("ab", 3))) == 3
        assert len(model.loss(TOKENS, draw=p.step)[1]) and model.evaluate("valid", 1).loss > 0
        if p.step == 2 and not p.event:
            other.start()
        if other.ident is not None:
            other.join(0.1)
            waited.append(other.is_alive())

    trainer = Trainer(recipe, tmp_path / "run", callbacks=[call])
    other = threading.Thread(target=lambda: trainer.model.score(TOKENS), daemon=True)
    model = trainer.run(progress=False)
    other.join(20)
    assert len(waited) > 5 and all(waited) and not other.is_alive()
    assert all(np.array_equal(value, model.parameters()[name]) for name, value in alone.parameters().items())


def test_a_step_is_one_call(small):
    """Steps of several threads are as many one after the other: each from the weights that the one before left."""
    other = Model.from_bytes(small.to_bytes())
    told = []
    trainer = Trainer(small, callbacks=[told.append])
    threads = [threading.Thread(target=lambda: [trainer.step(TOKENS) for _ in range(10)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(p.step for p in told) == list(range(1, 41))
    Trainer(other).fit([TOKENS] * 40, progress=False)
    assert all(np.array_equal(value, other.parameters()[name]) for name, value in small.parameters().items())


def test_a_run_keeps_its_floats(tmp_path):
    """A model is not quantized while it is trained, and not trained when it is quantized."""
    trainer = Trainer(RUN, tmp_path / "run", callbacks=[lambda p: p.step == 2 and trainer.model.quantize("int8")])
    with pytest.raises(longline.ArgumentError, match="a run is training the model; quantize it when the run has ended"):
        trainer.run(progress=False)
    trainer.callbacks.clear()
    trainer.model.quantize("int8")
    with pytest.raises(longline.ArgumentError, match="weights are int8 and cannot be trained"):
        trainer.run(progress=False)


def test_ctrl_c(tmp_path):
    """A signal during training saves the run and raises KeyboardInterrupt."""
    code = f"""
import longline
def tell(p):
    if p.step == 3: print("three", flush=True)
try:
    longline.Trainer(dict({RUN!r}, **{{"train.steps": 1000000}}), {str(tmp_path / 'run')!r}, callbacks=[tell]).run(False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    try:
        assert child.stdout.readline() == "three\n"
        os.kill(child.pid, signal.SIGINT)
        assert child.communicate(timeout=30)[0].endswith("interrupted\n")
    finally:
        child.kill()
        child.wait()
    assert Model.load(tmp_path / "run" / "last.safetensors").size() > 0


def test_errors(small, tmp_path):
    for words, call in [
        ("folder: a run needs a folder", lambda: Trainer(RUN)),
        ("has none; save with model.save", lambda: Trainer(small, tmp_path)),
        ("use step or fit", lambda: Trainer(small).run()),
        ("no data of its own|reads its recipe", lambda: Trainer(RUN, tmp_path / "a").step(TOKENS)),
        ("nothing to predict", lambda: small.loss(Batch(TOKENS, targets=np.full((4, 9), -1)))),
        ("no-file", lambda: Trainer(Recipe({**RUN, "data.format": "bytes", "data.train": "/no-file"}), tmp_path / "b")),
    ]:
        with pytest.raises((ValueError, OSError), match=words):
            call()
    small.parameters()["embedding.weight"][0, 0] = np.nan
    with pytest.raises(longline.Diverged):
        Trainer(small).step(np.zeros((1, 5), int))


def test_a_teacher(tmp_path):
    """A run learns from another: first attention, then logits."""
    exact = {**RUN, "attention.kernel": "softmax", "position.type": "rope"}
    Trainer(Recipe(exact), tmp_path / "exact").run(progress=False)
    told = []
    taught = {**exact, "attention.kernel": "relu", "position.type": "permute", "train.from": str(tmp_path / "exact"),
              "train.distil": "both", "train.distil-switch": 2, "train.distil-until": 4}
    Trainer(Recipe(taught), tmp_path / "linear", callbacks=[told.append]).run(progress=False)
    assert [p.matching for p in told if not p.event] == ["attention"] * 2 + ["logits"] * 2 + [""] * 2
    shown = []
    bar = types.SimpleNamespace(total=6, n=0, set_postfix_str=shown.append)
    for p in told:
        longline._train._show(bar, p)
    assert shown[0].startswith("distillation loss") and shown[-1].startswith("loss")
    with pytest.raises(longline.LonglineError, match="train.teacher"):
        Trainer(Recipe({**RUN, "train.distil": "logits"}), tmp_path / "none")
