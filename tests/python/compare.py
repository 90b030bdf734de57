"""compare.py EXPECTED GOT: two tables of numbers differ by at most 1e-4 of the largest."""

import sys

import numpy as np

expected, got = (np.loadtxt(path, ndmin=2) for path in sys.argv[1:3])
if expected.shape != got.shape:
    sys.exit(f"{expected.shape} expected, {got.shape} found")
error = np.abs(expected - got).max() / np.abs(expected).max()
if not error < 1e-4:
    sys.exit(f"relative error {error}")
