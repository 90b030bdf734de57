"""The examples of the tutorial and the docstrings are right, notebooks run from top to bottom, and types are checked."""
import doctest
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import longline

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("page, least", [("docs/python.md", 20), ("python/README.md", 4)])
def test_pages(page, least):
    failed, count = doctest.testfile(str(ROOT / page), module_relative=False)
    assert count > least and not failed


def test_docstrings():
    names = [m.name for m in pkgutil.walk_packages(longline.__path__, "longline.") if "_native" not in m.name]
    count = 0
    for name in ["longline", *names]:
        result = doctest.testmod(importlib.import_module(name))
        assert not result.failed, name
        count += result.attempted
    assert count > 5


def test_everything_public_is_documented():
    for name in longline.__all__:
        thing = getattr(longline, name)
        if callable(thing):
            assert thing.__doc__, name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path, tmp_path):
    """Runs a notebook by nbconvert if a kernel is installed, otherwise its cells one after the other."""
    environment = {**os.environ, "PYTHONPATH": str(Path(longline.__file__).parents[1]), "MPLBACKEND": "agg",
                   "JUPYTER_DATA_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path)}
    convert = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", str(tmp_path), str(path)]
    if subprocess.run([sys.executable, "-c", "import nbconvert, ipykernel"], capture_output=True).returncode:
        cells = json.loads(path.read_text())["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        convert = [sys.executable, "-c", code]
    done = subprocess.run(convert, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_three_notebooks():
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        assert all(not c.get("outputs") for c in cells) and cells[0]["cell_type"] == "markdown"


def test_types():
    """mypy --strict over the package, and over a program that uses it."""
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(ROOT / "python" / "pyproject.toml"),
                           "--cache-dir", os.devnull, "-p", "longline"], cwd=Path(longline.__file__).parents[1],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
