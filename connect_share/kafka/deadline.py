"""A point in time that several steps share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point of the monotonic clock, handed down to each step that has to end by then.

    Attributes:
        timeout_s: the seconds that all steps have together, for texts.
        at_s: the point.
    """

    timeout_s: float
    at_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        """Return the deadline so many seconds from now."""
        return cls(timeout_s, time.monotonic() + timeout_s)

    def remaining_s(self, at_least_s: float = 0.0) -> float:
        """Return the seconds that are left, and never less than ``at_least_s``."""
        return max(at_least_s, self.at_s - time.monotonic())

    def is_within(self, seconds: float = 0.0) -> bool:
        """Return whether it is over in so many seconds from now."""
        return time.monotonic() + seconds > self.at_s
