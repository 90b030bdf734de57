"""The extension module: the public C headers, read by cffi and compiled against liblongline.a.

`declarations` makes of the headers what cffi reads, so that nothing is declared twice. The module keeps to the limited
ABI: one build serves CPython 3.9 and later.
"""
import os
import re
from pathlib import Path

import cffi

HERE = Path(__file__).resolve().parent
# The repository, or what an sdist carries of it.
ROOT = next(r for r in (HERE.parent, HERE / "core") if (r / "include" / "longline.h").exists())
HEADERS = ("base", "attention", "files", "model", "infer", "train", "data")

CALLBACKS = """
extern "Python" int longline_on_progress(const ll_progress *, void *);
extern "Python" int longline_on_done(int64_t, int64_t, void *);
"""

STREAMS = "int64_t ll_stream_left(const ll_stream *);"  # the one function of longline-batch.h that is used


def declarations(text: str) -> str:
    """What cffi needs of a header: no comments, no preprocessor, none of our macros."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*?$", "", text, flags=re.M)
    text = re.sub(r"^static inline [^\n]*\{.*?^\}", "", text, flags=re.M | re.S)
    # What stands between `extern "C" {` and its end is the whole header; the macros that open it are gone with it.
    return re.sub(r"\b(LL_API|LL_MUST_USE|LL_C_BEGIN|LL_C_END)\b", "", text)


def libraries() -> list:
    """What liblongline.a was built to need, as the Makefile tells."""
    flags = os.environ.get("LONGLINE_LIBS", "-ljansson -lz -llzma -lpng -lm -lpthread").split()
    return [flag[2:] for flag in flags if flag.startswith("-l")]


def build() -> cffi.FFI:
    archive = os.environ["LONGLINE_ARCHIVE"]
    ffi = cffi.FFI()
    ffi.cdef("".join(declarations((ROOT / "include" / "longline" / f"{h}.h").read_text()) for h in HEADERS) + CALLBACKS + STREAMS)
    ffi.set_source(
        "longline._native",
        "#include <longline.h>\n#include <longline-batch.h>\n",
        include_dirs=[str(ROOT / "include")],
        extra_objects=[archive],
        libraries=libraries(),
        # DT_RPATH, not DT_RUNPATH: it holds for what the bundled libraries need, too.
        extra_link_args=["-Wl,-rpath,$ORIGIN/../longline.libs", "-Wl,--disable-new-dtags", "-Wl,--exclude-libs,ALL"],
        depends=[archive],
        py_limited_api=True,
        define_macros=[("Py_LIMITED_API", "0x03090000")],
    )
    return ffi
