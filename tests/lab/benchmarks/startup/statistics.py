"""Statistics of the start-up benchmark: the unit is a process within its run. Pure.

A median has a bootstrap interval over processes. Two runs are told apart by ranks: that needs no form of the distribution, so
two runs of the same thing differ as seldom as :data:`ALARM` says, on every machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

import numpy as np

ALARM: Final = 0.05
"""Chance that any deciding row of a comparison differs although nothing changed."""

FEWEST: Final = 8
"""Rounds without which ranks cannot show a difference at that level."""

TAIL: Final = 1_000
"""Values without which a 99th percentile rests on less than ten of them."""

_RESAMPLES: Final = 2_000
_SEED: Final = 1173


def by_process(values: Sequence[float], rounds: int) -> tuple[float, ...]:
    """Return one value a round: the median of what its process measured; all if they are no whole rounds."""
    each, rest = divmod(len(values), rounds) if rounds else (0, 0)
    if rest or each < 2:
        return tuple(values)
    return tuple(statistics.median(values[first : first + each]) for first in range(0, len(values), each))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median; always the same for the same values."""
    known = np.array(values)
    chosen = np.random.default_rng(_SEED).integers(0, len(known), (_RESAMPLES, len(known)))
    low, high = np.quantile(np.median(known[chosen], axis=1), (0.025, 0.975))
    return float(low), float(high)


def chance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how likely ranks are to lie so far apart if nothing differs (Mann and Whitney, two-sided)."""
    above = sum((left > right) + (left == right) / 2 for left in one for right in other)
    pairs = len(one) * len(other)
    apart = max(0.0, abs(above - pairs / 2) - 0.5)
    return math.erfc(apart / math.sqrt(pairs * (len(one) + len(other) + 1) / 12) / math.sqrt(2))
