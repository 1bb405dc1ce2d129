"""Axes of the plots: where a value lies, and which round values are written beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

_LOGARITHMIC_FROM: Final = 20.0
"""Values that lie further apart than this get a logarithmic axis: the small ones would be one dot otherwise."""

_NARROWEST: Final = 4.0
"""A logarithmic axis spans at least this factor, so that a round value is on it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from the values ``low`` to ``high`` onto the positions ``start`` to ``end``.

    Attributes:
        write: a tick's text.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool
    write: Callable[[float], str]

    def at(self, value: float) -> float:
        """Give the position of a value; what lies outside is at the edge."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Give round values on the axis, at most ``most``."""
        return self._powers(most) if self.logarithmic else self._steps(most)

    def _powers(self, most: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits, step in (((1, 2, 5), 1), ((1, 3), 1), *(((1,), step) for step in range(1, last - first + 2))):
            ticks = [
                digit * 10.0**power
                for power in range(first, last + 1)
                if power % step == 0
                for digit in digits
                if self.low * 0.999 <= digit * 10.0**power <= self.high * 1.001
            ]
            if len(ticks) <= most:
                return ticks
        return []

    def _steps(self, most: int) -> list[float]:
        power = 10.0 ** math.floor(math.log10(self.high - self.low))
        for factor in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
            step = factor * power
            number = math.floor((self.high - self.low) / step * 1.001)
            if number < most:
                return [self.low + step * each for each in range(number + 1)]
        return []


def axis(
    values: Iterable[float], start: float, end: float, write: Callable[[float], str], *, logarithmic: bool | None = None
) -> Axis:
    """Make an axis that holds all values, which are above zero; a linear one begins at zero.

    Args:
        values: what has to fit.
        start: position of the lowest value.
        end: position of the highest value.
        write: a tick's text.
        logarithmic: ``None``: if the values span more than a decade.
    """
    known = list(values)
    low, high = min(known, default=1.0), max(known, default=1.0)
    if logarithmic is None:
        logarithmic = high / low >= _LOGARITHMIC_FROM
    if not logarithmic:
        return Axis(0.0, high * 1.04, start, end, logarithmic=False, write=write)
    margin = max((high / low) ** 0.04, (_NARROWEST / (high / low)) ** 0.5)
    return Axis(low / margin, high * margin, start, end, logarithmic=True, write=write)
