"""Lines in the log about what may go wrong again and again."""

from __future__ import annotations

import logging
import time


class LimitedLog(logging.LoggerAdapter[logging.Logger]):
    """Logs the first lines, and then one in so many seconds, not thousands."""

    def __init__(self, log: logging.Logger, *, at_first: int = 100, every_s: float = 60.0) -> None:
        super().__init__(log)
        self.every_s = every_s
        self._at_first = at_first
        self._asked = 0
        self._said_s = 0.0

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name that logging gives it
        """Return whether a line is logged: not if there were many, and one of them a moment ago."""
        if not super().isEnabledFor(level):
            return False
        self._asked += 1
        now_s = time.monotonic()
        if self._asked > self._at_first and now_s - self._said_s < self.every_s:
            return False
        self._said_s = now_s
        return True
