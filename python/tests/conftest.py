"""Definitions that the tests compare with: plain NumPy in double precision."""
import os

import numpy as np
import pytest

import longline

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", "/tmp/longline-hypothesis")


@pytest.fixture(autouse=True)
def two_threads():
    longline.set_threads(2)


@pytest.fixture
def qkv():
    return np.random.default_rng(0).standard_normal((3, 2, 3, 40, 8), dtype=np.float32)


@pytest.fixture
def small():
    """A tiny language model over bytes with a state of constant size."""
    return longline.Model({"model.width": 32, "model.heads": 2, "model.layers": 2, "model.ff": 48,
                           "attention.kernel": "elu1", "train.learning-rate": 0.01, "train.warmup": 0,
                           "data.format": "demo"})
