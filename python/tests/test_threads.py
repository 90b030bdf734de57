"""Threads that share objects, children of os.fork, and Ctrl-C within a call."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import longline
from longline import Model

TOKENS = np.random.default_rng(0).integers(0, 256, (3, 12))


def test_threads_share_a_model(small):
    expected = small.score(TOKENS)
    results = []
    threads = [threading.Thread(target=lambda: results.append(small.score(TOKENS))) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 6 and all(np.array_equal(r, expected) for r in results)


def wait_for(owner, calls):
    """None of these calls, each on a thread, ends while another call of the owner holds its lock; then all do."""
    ended = threading.Semaphore(0)
    threads = [threading.Thread(target=lambda call=call: (call(), ended.release())) for call in calls]
    with owner._lock:
        for t in threads:
            t.start()
        assert not ended.acquire(timeout=0.3)
    for t in threads:
        t.join()
    assert all(ended.acquire(blocking=False) for _ in calls)


def test_streams_wait_for_their_model(small, tmp_path):
    """Weights that change meanwhile would be read half old, half new."""
    stream = small.stream()
    stream.feed("ab")
    stream.save(tmp_path / "state")
    calls = [lambda: stream.feed("c"), lambda: stream.score("c"), stream.clone, stream.reset, small.stream,
             lambda: stream.save(tmp_path / "again"), lambda: small.load_state(tmp_path / "state"),
             lambda: next(small.generate("ab", 1))]
    wait_for(small, calls)


def test_recipes_wait(small, tmp_path):
    """A text that another thread replaces meanwhile would be read after it is freed."""
    wait_for(small, [lambda: small.recipe, lambda: small.task, lambda: small.tokenizer])
    recipe = small.recipe.copy()
    wait_for(recipe, [lambda: str(recipe), recipe.copy, recipe.changed, lambda: recipe["model.width"],
                      lambda: recipe.__setitem__("model.width", 64), lambda: Model(recipe),
                      lambda: longline.Trainer(recipe, tmp_path)])


def test_a_key_changes_while_others_read(small):
    recipe, end = small.recipe.copy(), time.monotonic() + 1.5

    def repeat(call):
        for i in range(10**9):
            if time.monotonic() > end:
                return
            call("x" * (i * 977 % 5000))

    calls = [lambda value: small.set("data.train", value), lambda value: recipe.__setitem__("data.train", value),
             lambda value: small.score("hello"), lambda value: str(recipe)]
    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(small.recipe["data.train"] + recipe["data.train"]) == {"x"}


def test_the_first_step_makes_one_stream():
    operator = longline.Operator("elu1", heads=1, key_size=4, causal=True)
    x = np.ones((1, 1, 1, 4), "f4")
    wait_for(operator, [lambda: operator.step(x, x, x)] * 4)
    stream = operator.stream()
    for _ in range(4):
        stream.feed(x, x, x)
    assert np.array_equal(operator.step(x, x, 2 * x), stream.feed(x, x, 2 * x))


def test_forked_children_find_no_lock(small):
    """A child has no thread that would release what threads of its parent held. What the forking thread holds it has."""
    code = f"""
import os, signal, threading, time, longline, numpy as np
model = longline.Model({small.recipe.changed()!r})
stream = longline.Operator("elu1", heads=1, key_size=4, causal=True).stream()
recipe = longline.Recipe()
x = np.ones((1, 1, 2, 4), "f4")
score = model.score("ab")
held, forked = threading.Semaphore(0), threading.Event()
def hold(thing):
    with thing._lock:
        held.release()
        forked.wait()
def child(*calls):
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        [call() for call in calls]
    return pid
def uses():
    assert (model.score("ab") == score).all() and model.stream().feed("ab").shape == (256,)
    assert model.tokenizer.decode([97]) == "a" and stream.feed(x, x, x).shape == x.shape
    assert "[model]" in str(recipe)
for thing in model, model.tokenizer, stream, recipe:
    threading.Thread(target=hold, args=(thing,), daemon=True).start()
    held.acquire()
children = [child(uses, lambda: os._exit(0))]
forked.set()
with model._lock:
    children.append(child(uses))
if not children[-1]:
    threading.Thread(target=lambda: (uses(), os._exit(0))).start()
    time.sleep(20)
threading.Thread(target=lambda: [model.score("ab" * 9999) for _ in range(10**9)], daemon=True).start()
for _ in range(5):
    time.sleep(0.05)
    children.append(child(uses, lambda: os._exit(0)))
print([os.waitpid(pid, 0)[1] for pid in children], flush=True)
os._exit(0)
"""
    environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(longline.__file__).parent.parent))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == f"{[0] * 7}\n", done.stdout + done.stderr


@contextlib.contextmanager
def interrupted():
    """Raises KeyboardInterrupt after 0.2 seconds, as Ctrl-C does, and expects it soon."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_within_a_text(small):
    """A stream knows how many tokens it has read, and goes on to the same bits."""
    tokens = np.random.default_rng(4).integers(0, 256, 2_000_000)
    for call in (lambda s, t: s.feed(t), lambda s, t: s.score(t), lambda s, t: next(s.generate(t, 1))):
        stream, whole = small.stream(), small.stream()
        with interrupted():
            call(stream, tokens)
        read = stream.position
        assert 0 < read < len(tokens)
        expected = whole.feed(tokens[:read + 1000])
        for part in np.split(tokens[read:read + 1000], [1, 300]):
            logits = stream.feed(part)
        assert np.array_equal(logits, expected)
    for text in (np.append(tokens[:1000], 256), [*tokens[:1000], -1]):  # nothing of what is refused is read
        for call in stream.feed, stream.score:
            with pytest.raises(longline.ArgumentError, match="is not in 0..255"):
                call(text)
    assert stream.position == read + 1000


def test_ctrl_c_within_a_source():
    model = Model({"model.task": "seq2seq", "model.vocab": 259, "model.width": 32, "model.heads": 2, "model.layers": 2,
                   "model.ff": 48, "attention.kernel": "elu1"})
    stream = model.stream()
    with interrupted():
        stream.source(np.ones(1_000_000, int))
    with pytest.raises(longline.ArgumentError, match="no source"):
        stream.feed([257])
    stream.source("again")
    assert stream.feed([257]).shape == (259,)


def test_a_generator_leaves_the_model_free(small):
    tokens = small.generate("ab", 3)
    next(tokens)
    other = threading.Thread(target=lambda: (small.quantize("int8"), small.stream().feed("ab")), daemon=True)
    other.start()
    other.join(20)
    assert not other.is_alive() and len(list(tokens)) == 2
