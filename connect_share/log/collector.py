"""Python's cycle collector, paused while a topic is read for the first time.

A first read makes tens of thousands of objects and no cycles; the collector would look through them, and through all that
the host process holds, again and again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_paused_by = 0
_was_enabled = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """Switch the collector off, and leave it as it was found when the last of several readers has ended."""
    global _paused_by, _was_enabled  # noqa: PLW0603 - the collector is one for the whole process
    with _lock:
        if _paused_by == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _paused_by += 1
    try:
        yield
    finally:
        with _lock:
            _paused_by -= 1
            if _paused_by == 0 and _was_enabled:
                gc.enable()
