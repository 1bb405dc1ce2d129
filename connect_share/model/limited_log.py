"""Lines about single records, which anybody may write: the first ones, then one a minute. All are counted elsewhere."""

from __future__ import annotations

import logging
import time
from typing import Final

_AT_FIRST: Final = 100
_EVERY_S: Final = 60.0


class LimitedLog(logging.LoggerAdapter[logging.Logger]):
    """Logs what is wrong with records of one topic, but not thousands of lines."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(log)
        self._asked = 0
        self._said_s = 0.0

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name that logging gives it
        """Return whether a line is logged: not if there were many, and one of them a moment ago."""
        if not super().isEnabledFor(level):
            return False
        self._asked += 1
        now_s = time.monotonic()
        if self._asked > _AT_FIRST and now_s - self._said_s < _EVERY_S:
            return False
        self._said_s = now_s
        return True
