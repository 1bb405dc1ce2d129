"""The hybrid clock of sealed values, and what it tells of old ones that are written again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from connect_share.sealing.cipher import LATEST_MS

LEEWAY_MS: Final = 60_000
"""Two workers that write one key without having read each other lose no write if their clocks differ by less."""


def _now_ms() -> int:
    return int(time.time() * 1000)


class Freshness:
    """When the newest value of each key was written; whoever remembers that refuses older ones. Thread-safe.

    Args:
        now_ms: the local clock.
    """

    def __init__(self, now_ms: Callable[[], int] = _now_ms) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._newest: dict[bytes, int] = {}
        self._sealed: dict[bytes, int] = {}

    def next_ms(self, key: bytes) -> int:
        """Return when a value that is sealed now was written: later than all of its key that were read, or sealed here."""
        with self._lock:
            known_ms = max(self._newest.get(key, -1), self._sealed.get(key, -1))
            written_ms = self._sealed[key] = min(max(self._now_ms(), known_ms + 1), LATEST_MS)
            return written_ms

    def accept(self, key: bytes, written_ms: int) -> bool:
        """Note the time of a value that was read and opened; return ``False`` if it is too old to be believed.

        What was sealed here and not yet read back does not count: it may never be written, and readers have to agree.
        To be called from one thread at a time, as records are read; so it takes no lock.
        """
        newest_ms = self._newest.get(key, -1)
        if written_ms > newest_ms:
            self._newest[key] = written_ms
        return written_ms >= newest_ms - LEEWAY_MS

    def newest_ms(self, key: bytes) -> int | None:
        """Return the time of the newest value of a key, ``None``: none was read."""
        with self._lock:
            return self._newest.get(key)

    def newest(self) -> dict[bytes, int]:
        """Return the time of the newest value of each key."""
        return dict(self._newest)

    def restore(self, newest: Mapping[bytes, int]) -> None:
        """Replace what is known by what :meth:`newest` returned."""
        self._newest = dict(newest)
