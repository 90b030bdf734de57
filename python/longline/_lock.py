"""Locks of objects that several threads use."""
from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_holders: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()  # by id: a mapping has no hash


def give_lock(holder: Any) -> None:
    """Makes holder._lock. A thread may take it again, and in a child of os.fork it is not left locked."""
    holder._lock = threading.RLock()
    _holders[id(holder)] = holder


def _renew() -> None:
    """A child of os.fork has only the thread that forked. Locks that others held would never be released."""
    for holder in _holders.values():
        if holder._lock.acquire(blocking=False):
            holder._lock.release()
        else:
            holder._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
