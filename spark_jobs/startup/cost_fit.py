"""The cost model of a start, fitted to measured starts: least squares without negative prices. Pure.

Errors are weighed relative to what was measured, so that a start of 50 ms counts as much as one of 2 s.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

from connect_share.startup import CostModel, StartSize, amounts
from spark_jobs.startup.result import Prediction, StartupResult
from spark_jobs.startup.view import spread

_PRICES: Final = tuple(amounts(StartSize(records=0, bytes=0, own_records=0)))
_SINGULAR: Final = 1e-12
Point = tuple[StartSize, float]
"""A size, and the seconds that a start of it took."""


def points(result: StartupResult) -> dict[str, Point]:
    """Give what can be fitted: the median cold start of our stores in each scenario, since a worker that comes up is cold.

    Compressed topics and those read past markers are left out: the model knows of neither.
    """
    usable = {each.name for each in result.scenarios if each.compression == "none" and not each.transactions}
    found = {}
    for starts in result.starts:
        median = spread(starts.seconds)
        ours = (starts.contender, starts.warmth) == ("python", "cold")
        if ours and starts.scenario in usable and starts.size is not None and median is not None:
            found[starts.scenario] = (starts.size, median.median)
    return found


def fit(measured: Sequence[Point]) -> CostModel | None:
    """Fit the model; ``None`` with nothing measured. Its ``error`` is 0: see :func:`fitted`."""
    best: tuple[float, list[float]] | None = None
    rows = [[amount / seconds for amount in amounts(size).values()] for size, seconds in measured if seconds > 0]
    # With so few prices the best solution is found by trying every choice of those that are not zero.
    for count in range(1, len(_PRICES) + 1):
        for chosen in itertools.combinations(range(len(_PRICES)), count):
            prices = _least_squares([[row[column] for column in chosen] for row in rows])
            if prices is None or min(prices) < 0:
                continue
            whole = [0.0] * len(_PRICES)
            for column, price in zip(chosen, prices, strict=True):
                whole[column] = price
            error = sum((sum(p * x for p, x in zip(whole, row, strict=True)) - 1.0) ** 2 for row in rows)
            if best is None or error < best[0]:
                best = error, whole
    if best is None:
        return None
    return CostModel(**dict(zip(_PRICES, best[1], strict=True)))


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Solve ``rows @ prices = 1`` by the normal equations, columns scaled to one; ``None`` if they depend on each other."""
    if not rows or len(rows) < len(rows[0]):
        return None
    width = len(rows[0])
    scales = [math.sqrt(sum(row[column] ** 2 for row in rows)) for column in range(width)]
    if min(scales) == 0:
        return None
    scaled = [[value / scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    matrix = [
        [sum(row[i] * row[j] for row in scaled) for j in range(width)] + [sum(row[i] for row in scaled)]
        for i in range(width)
    ]
    for column in range(width):
        pivot = max(range(column, width), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        if abs(matrix[column][column]) < _SINGULAR:
            return None
        for row in range(width):
            if row != column:
                factor = matrix[row][column] / matrix[column][column]
                matrix[row] = [x - factor * y for x, y in zip(matrix[row], matrix[column], strict=True)]
    return [matrix[row][width] / matrix[row][row] / scales[row] for row in range(width)]


def fitted(measured: Mapping[str, Point]) -> tuple[CostModel | None, list[Prediction]]:
    """Fit the model to all, and predict each scenario by the model of the others.

    One that is larger than all others in any respect is not predicted: a fit says nothing of what lies beyond it. The
    model's ``error`` is the largest factor by which such a prediction is off, minus one.
    """
    model = fit(list(measured.values()))
    if model is None:
        return None, []
    predictions = []
    for name, (size, seconds) in measured.items():
        rest = [point for other, point in measured.items() if other != name]
        others = fit(rest)
        if others is not None and len(measured) > len(_PRICES) and not _is_beyond(size, [each for each, _ in rest]):
            predictions.append(
                Prediction(scenario=name, size=size, predicted_seconds=others.seconds(size), measured_seconds=seconds)
            )
    factors = [each.predicted_seconds / each.measured_seconds for each in predictions if each.predicted_seconds > 0]
    error = max((max(factor, 1 / factor) - 1 for factor in factors), default=0.0)
    return model.model_copy(update={"error": error}), predictions


def _is_beyond(size: StartSize, others: Sequence[StartSize]) -> bool:
    each = (amounts(one).values() for one in (size, *others))
    return any(mine > max(theirs) for mine, *theirs in zip(*each, strict=True))
