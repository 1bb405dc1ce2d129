"""A point in time that several steps share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point of the monotonic clock, handed down to each step that has to end by then.

    Attributes:
        timeout_s: the seconds that all steps have together, for texts.
        at_s: the point.
        clock: gives the time now.
    """

    timeout_s: float
    at_s: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Self:
        """Return the deadline so many seconds from now."""
        return cls(timeout_s, clock() + timeout_s, clock)

    def remaining_s(self, at_least_s: float = 0.0) -> float:
        """Return the seconds that are left, and never less than ``at_least_s``."""
        return max(at_least_s, self.at_s - self.clock())

    def is_within(self, seconds: float = 0.0) -> bool:
        """Return whether it is over in so many seconds from now."""
        return self.clock() + seconds > self.at_s
