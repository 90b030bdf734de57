"""The C library: calls that raise, and the exceptions they raise.

Every exception carries the sentence of the library's last error, which says where, what was found, and what to do.
"""
from __future__ import annotations

from typing import Any, Callable, Optional

from ._native import ffi, lib

__all__ = ["ffi", "lib", "check", "LonglineError", "ArgumentError", "FileError", "FormatError", "OutOfMemory",
           "Diverged", "NotCopied", "Stopped", "Watch", "own", "progress_bar", "text"]


class LonglineError(Exception):
    """Any failure of the library."""


class ArgumentError(LonglineError, ValueError):
    """An argument, option or recipe key that cannot be."""


class FileError(LonglineError, OSError):
    """A file that cannot be read or written."""


class FormatError(LonglineError, ValueError):
    """A file whose content is wrong."""


class OutOfMemory(LonglineError, MemoryError):
    """Memory was refused."""


class Diverged(LonglineError, ArithmeticError):
    """A loss, a gradient or a result became infinite or NaN."""


class Stopped(LonglineError):
    """Stopped on request; everything is saved."""


_EXCEPTIONS = {
    lib.LL_EINVAL: ArgumentError,
    lib.LL_ENOMEM: OutOfMemory,
    lib.LL_EIO: FileError,
    lib.LL_EFORMAT: FormatError,
    lib.LL_ESTOPPED: Stopped,
    lib.LL_EDIVERGED: Diverged,
}


def text(pointer: Any) -> str:
    """A C string as Python's; "" for NULL."""
    if pointer == ffi.NULL:
        return ""
    raw: bytes = ffi.string(pointer)
    return raw.decode("utf-8", "replace")


def check(status: int) -> None:
    """Raises what a status other than LL_OK means."""
    if status:
        raise _EXCEPTIONS[status](text(lib.ll_error()))


def own(native: Any, free: Any, *keep: Any) -> Any:
    """A native object that is freed with its last reference, and until then keeps what it borrows."""
    return ffi.gc(native, lambda pointer: (free(pointer), keep)[0])


class NotCopied:
    """An object of the library that Python cannot copy. deepcopy and pickle raise TypeError, which says what to do."""

    instead = ""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"longline.{type(self).__name__}: deepcopy and pickle cannot copy it; {self.instead}")


class Watch:
    """Hands a call's progress to Python, and what Python raises there (Ctrl-C among it) back out of the call.

    `handle` goes to the C function. What the callback raises stops that function at its report; `check` raises it
    again.
    """

    def __init__(self, callback: Callable[..., Any]) -> None:
        self.callback = callback
        self.error: Optional[BaseException] = None

    def check(self, status: int) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        check(status)


def _failed(kind: Any, error: Optional[BaseException], traceback: Any) -> None:
    """What was raised in a callback, even before its first line, as Ctrl-C is at times."""
    handle = traceback.tb_frame.f_locals.get("handle") if traceback else None
    if handle is not None:
        ffi.from_handle(handle).error = error


@ffi.def_extern(name="longline_on_done", error=1, onerror=_failed)
def _on_done(done: int, total: int, handle: Any) -> int:
    return 1 if ffi.from_handle(handle).callback(done, total) else 0


@ffi.def_extern(name="longline_on_progress", error=1, onerror=_failed)
def _on_progress(progress: Any, handle: Any) -> int:
    return 1 if ffi.from_handle(handle).callback(progress) else 0


def progress_bar(total: int, what: str, done: int = 0) -> Any:
    """A tqdm bar where tqdm is installed, of steps after the first `done`; else None."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=done + total if total else 0, initial=done, desc=what, leave=False)
