"""The wheel, installed into an environment of its own, and the sdist."""
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LL_BUILD", "build")).resolve()


def run_setup(*arguments):
    """setup.py with the library that is already built. It writes into folders of the test."""
    return subprocess.run([sys.executable, "setup.py", "-q", *arguments], cwd=ROOT / "python", check=True,
                          capture_output=True, text=True, env={**os.environ, "LONGLINE_ARCHIVE": str(BUILD / "liblongline.a")})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run_setup("build", "--build-base", str(folder / "build"), "egg_info", "--egg-base", str(folder), "bdist_wheel",
          "--bdist-dir", str(folder / "bdist"), "--dist-dir", str(folder / "dist"))
    return next((folder / "dist").glob("*.whl"))


def test_wheel_is_for_all_pythons(wheel):
    assert re.fullmatch(r"longline-[\d.]+-cp39-abi3-manylinux_2_\d+_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert "longline/py.typed" in names and "longline/torch/nn.py" in names
    assert any(n.startswith("longline.libs/libjansson") for n in names)


def test_wheel_has_the_licences(wheel):
    """The project's own, and that of every library it carries, or of which its extension module has code."""
    archive = zipfile.ZipFile(wheel)
    own = [n for n in archive.namelist() if re.fullmatch(r"longline-[\d.]+\.dist-info/(licenses/)?LICENSE", n)]
    assert len(own) == 1 and archive.read(own[0]) == (ROOT / "LICENSE").read_bytes()
    text = archive.read("longline.libs/LICENSES").decode()
    bundled = [n.split("/")[1] for n in archive.namelist() if n.startswith("longline.libs/lib")]
    for name in [*bundled, "Random123", "xxHash"]:
        assert re.search(rf"^{re.escape(name)}: (?!see)\S.*https?://", text, re.M), f"{name} is not in python/setup.py"
    if Path("/usr/share/doc/libjansson4/copyright").exists():
        assert "Petri Lehtinen" in text
    for terms in (text, (ROOT / "packaging" / "debian" / "copyright").read_text()):
        assert "D. E. Shaw Research" in terms and "Neither the name of" in terms and "Yann Collet" in terms


def test_wheel_works_by_itself(wheel, tmp_path):
    """The wheel with its own libraries, in another folder, without the sources."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = """
import numpy as np, longline
q = np.ones((1, 1, 5, 4), np.float32)
assert np.allclose(longline.attention(q, q, q, kernel="elu1"), 1)
maps = open("/proc/self/maps").read()
print(longline.__file__)
print([l.split()[-1] for l in maps.splitlines() if "libjansson" in l][0])
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(tmp_path)) for line in done.stdout.split()), done.stdout


def test_wheel_goes_into_an_environment(wheel, tmp_path):
    """pip installs it into a new environment, where a model learns from batches and the extension is for the stable ABI."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True, cwd=tmp_path)
    code = """
import numpy as np, longline
model = longline.Model({"model.width": 16, "model.heads": 2, "model.layers": 1, "model.ff": 16, "attention.kernel": "elu1",
                        "train.warmup": 0, "train.learning-rate": 0.01})
trainer = longline.Trainer(model)
batch = np.tile(np.arange(20), (2, 1))
losses = [trainer.step(batch).loss for _ in range(5)]
assert losses[-1] < losses[0], losses
print(longline.__file__)
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "env")), done.stdout
    assert list((tmp_path / "env").rglob("_native.abi3.so")), "the extension is not for the stable ABI"


def test_sdist_has_what_is_built_from(tmp_path):
    run_setup("egg_info", "--egg-base", str(tmp_path), "sdist", "--dist-dir", str(tmp_path))
    archive = next(tmp_path.glob("*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "out")
    root = next((tmp_path / "out").iterdir())
    assert (root / "native.py").exists() and (root / "longline" / "_core.py").exists()
    assert (root / "LICENSE").read_text() == (ROOT / "LICENSE").read_text() and not (root / "LICENSE").is_symlink()
    # The core needs neither cairo nor what else the laboratory needs.
    for header in ("cairo/cairo.h", "fontconfig/fontconfig.h", "sha2.h"):
        (tmp_path / "without" / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "without" / header).write_text("#error this machine does not have it\n")
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    made = subprocess.run([sys.executable, "-c", "import sys; sys.argv = ['setup.py', '--version']; import setup; "
                           f"setup.subprocess.run([*setup.MAKE, 'CFLAGS=-I{tmp_path}/without', 'B={tmp_path}/b', "
                           f"'{tmp_path}/b/src/base/text.o'], check=True)"],
                          cwd=root, env=environment, capture_output=True, text=True)
    assert made.returncode == 0 and not made.stderr, made.stderr
    listed = subprocess.run(["make", "-n", "-C", str(root / "core"), f"B={tmp_path}/b", "SENTENCEPIECE=",
                             f"{tmp_path}/b/liblongline.a"], capture_output=True, text=True)
    # The optional libraries that are here are linked, too.
    told = subprocess.run([sys.executable, "-c", "import sys; sys.argv = ['setup.py', '--version']; import setup; "
                           "print(setup.libraries())"], cwd=root, env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    for package, library in (("zlib", "-lz"), ("libzstd", "-lzstd"), ("libpcre2-8", "-lpcre2-8")):
        here = subprocess.run(["pkg-config", "--exists", package]).returncode == 0
        assert (library in told.stdout.split()) == here, told.stdout
    assert listed.returncode == 0 and listed.stdout.count(" -c src/") >= len(list((ROOT / "src").rglob("*.c"))) - 5
