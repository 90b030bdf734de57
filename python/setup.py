"""Builds the wheel and the sdist; pyproject.toml has the rest.

The library is built first, by its own Makefile, unless LONGLINE_ARCHIVE names one. An sdist carries its sources in
`core/`. A wheel carries the shared libraries that it needs besides those of every Linux, and the licences of these.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist as SDist
from wheel.bdist_wheel import bdist_wheel as BDistWheel

HERE = Path(__file__).resolve().parent
os.chdir(HERE)
ROOT = next(r for r in (HERE.parent, HERE / "core") if (r / "include" / "longline.h").exists())
CORE = ["Makefile", "rules.mk", ".ci/needs", "include", "src", "LICENSE"]
# Every Linux with a C library of the wheel's age has these: the list of the manylinux standard, as far as it matters.
EVERYWHERE = re.compile(r"^(ld-linux.*|libc|libm|libpthread|libdl|librt|libgcc_s|libstdc\+\+)\.so|^linux-vdso")


def version() -> str:
    text = (ROOT / "include" / "longline" / "base.h").read_text()
    return ".".join(re.search(rf"LL_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


BUILD = HERE / "build" / "core"
MAKE = ["make", "-C", str(ROOT), f"B={BUILD}", "SENTENCEPIECE=", "LAB_ROOMS="]


def libraries() -> str:
    """What that library needs: also the optional libraries that are here."""
    return subprocess.run([*MAKE, "-s", "--no-print-directory", "core-libs"], check=True, capture_output=True,
                          text=True).stdout


def archive() -> str:
    """liblongline.a, built if nobody names one. SentencePiece is left out: a wheel would have to carry it."""
    named = os.environ.get("LONGLINE_ARCHIVE")
    if named:
        return named
    subprocess.run([*MAKE, "-j", str(os.cpu_count() or 1), f"{BUILD}/liblongline.a"], check=True)
    os.environ.setdefault("LONGLINE_LIBS", libraries())
    return str(BUILD / "liblongline.a")


class Sdist(SDist):
    """With what the library is built from."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in CORE:
            source, target = ROOT / name, Path(base_dir) / "core" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)


def needed(path: str) -> dict:
    """The shared libraries that a file needs and that not every Linux has: name to path."""
    out = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^\s*(\S+) => (\S+) \(", out, flags=re.M)
    return {name: where for name, where in found if not EVERYWHERE.match(name)}


def glibc(paths) -> str:
    """The newest version of the C library's symbols that any of these uses: manylinux_2_NN."""
    newest = (2, 17)
    for path in paths:
        out = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
        for minor in re.findall(r"GLIBC_2\.(\d+)", out):
            newest = max(newest, (2, int(minor)))
    return "manylinux_%d_%d" % newest


# What a wheel may carry: the beginning of the library's name, its licence, and where it comes from.
LICENCES = [("libjansson", "MIT", "https://github.com/akheron/jansson"),
            ("liblzma", "0BSD or public domain", "https://tukaani.org/xz"),
            ("libpcre2", "BSD-3-Clause", "https://www.pcre.org"),
            ("libpng", "libpng-2.0", "http://www.libpng.org/pub/png"),
            ("libsentencepiece", "Apache-2.0", "https://github.com/google/sentencepiece"),
            ("libutf8proc", "MIT", "https://juliastrings.github.io/utf8proc"),
            ("libzstd", "BSD-3-Clause", "https://facebook.github.io/zstd"),
            ("libz.", "Zlib", "https://zlib.net"),
            ("Random123", "BSD-3-Clause", "https://github.com/DEShawResearch/random123"),
            ("xxHash", "BSD-2-Clause", "https://xxhash.com")]
# Headers whose code is in the extension module itself.
COMPILED_IN = {"Random123": "/usr/include/Random123/philox.h", "xxHash": "/usr/include/xxhash.h"}


def copyright_of(path: str) -> str:
    """Authors and terms: of a header its first comment, of a library what Debian's package of it says; "" elsewhere."""
    try:
        if path.endswith(".h"):
            return Path(path).read_text().split("*/")[0].lstrip("/* \n")
        owner = subprocess.run(["dpkg", "-S", "*/" + os.path.basename(path)], capture_output=True, text=True).stdout
        return (Path("/usr/share/doc") / owner.split(":")[0] / "copyright").read_text()
    except OSError:
        return ""


def licences(paths: dict) -> str:
    """The licences of bundled libraries (name to path), and of what is compiled in: a list, then the texts."""
    inside = " and ".join(COMPILED_IN)
    lines, texts = [f"The libraries in this folder, and {inside}, which are part of longline's extension module:\n"], []
    for name, path in {**paths, **COMPILED_IN}.items():
        found = [f"{licence}, {home}" for begin, licence, home in LICENCES if name.startswith(begin)]
        lines.append(f"{name}: {found[0] if found else 'see the terms of the system that it was taken from'}")
        text = copyright_of(os.path.realpath(path))
        texts += [f"\n---- {name} ----\n\n{text}"] if text else []
    return "\n".join([*lines, *texts]) + "\n"


class Wheel(BDistWheel):
    """For every CPython from 3.9 on (abi3), with its libraries inside."""

    def finalize_options(self):
        self.py_limited_api = "cp39"
        super().finalize_options()

    def write_wheelfile(self, wheelfile_base, *arguments, **named):
        root = Path(wheelfile_base).parent
        self.native = next(root.glob("longline/_native*.so"))
        libraries = root / "longline.libs"
        libraries.mkdir(exist_ok=True)
        bundled = needed(str(self.native))
        for name, where in bundled.items():
            shutil.copy(os.path.realpath(where), libraries / name)
        (libraries / "LICENSES").write_text(licences(bundled))
        super().write_wheelfile(wheelfile_base, *arguments, **named)

    def get_tag(self):
        python, abi, platform = super().get_tag()
        native = sorted(Path(self.get_finalized_command("build").build_lib).glob("longline/_native*.so"))
        if sys.platform == "linux" and native and platform.startswith("linux_"):
            paths = [str(native[-1]), *needed(str(native[-1])).values()]
            platform = platform.replace("linux", glibc(paths), 1)
        return python, abi, platform


building = {"build", "build_ext", "bdist_wheel", "install", "develop", "editable_wheel"} & set(sys.argv)
if building:
    os.environ["LONGLINE_ARCHIVE"] = archive()
setup(
    version=version(),
    packages=["longline", "longline.torch"],
    package_data={"longline": ["py.typed"]},
    cffi_modules=["native.py:build"] if building else [],
    cmdclass={"sdist": Sdist, "bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
