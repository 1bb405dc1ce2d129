"""The cost model of a start, fitted to measured starts: least squares without negative prices. Pure.

Errors are weighed relative to what was measured, so that a start of 50 ms counts as much as one of 2 s.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connect_share.contents.cost_model import CostModel, StartSize, amounts
from spark_jobs.benchmark.results import Prediction, StartupResult, median
from spark_jobs.benchmark.topics import DEDICATED

_PRICES: Final = tuple(amounts(StartSize(records=0, bytes=0, own_records=0)))
_SINGULAR: Final = 1e-6
"""Columns that are nearer to each other than this have no prices of their own."""

FloatArray = NDArray[np.float64]
Point = tuple[StartSize, float]
"""A size, and the seconds that a start of it took."""


def points(result: StartupResult) -> dict[str, Point]:
    """Return what the model is fitted to: the median cold start of our stores on each scenario's topics, shared or dedicated.

    Compressed topics and those read past markers are left out: the model knows of neither.
    """
    usable = {each.name for each in result.scenarios if each.compression == "none" and not each.transactions}
    found = {}
    for starts in result.starts:
        seconds = median(starts.seconds)
        ours = starts.contender in ("python", f"python{DEDICATED}") and starts.warmth == "cold"
        if ours and starts.scenario in usable and starts.size is not None and seconds is not None:
            found[starts.scenario + starts.contender.removeprefix("python")] = (starts.size, seconds)
    return found


def fit(measured: Sequence[Point]) -> CostModel | None:
    """Fit the model; ``None`` with nothing measured. Its ``error`` is 0: see :func:`fitted`."""
    rows = np.array(
        [[amount / seconds for amount in amounts(size).values()] for size, seconds in measured if seconds > 0]
    )
    best: tuple[float, FloatArray] | None = None
    # With so few prices the best solution is found by trying every choice of those that are not zero.
    for count in range(1, min(len(_PRICES), len(rows)) + 1):
        for chosen in map(list, itertools.combinations(range(len(_PRICES)), count)):
            whole = np.zeros(len(_PRICES))
            scales = np.linalg.norm(rows[:, chosen], axis=0)
            if scales.min() == 0:
                continue
            prices, _, rank, _ = np.linalg.lstsq(rows[:, chosen] / scales, np.ones(len(rows)), rcond=_SINGULAR)
            if rank < count or prices.min() < 0:
                continue
            whole[chosen] = prices / scales
            error = float(((rows @ whole - 1.0) ** 2).sum())
            if best is None or error < best[0]:
                best = error, whole
    return None if best is None else CostModel(**dict(zip(_PRICES, best[1].tolist(), strict=True)))


def fitted(measured: Mapping[str, Point]) -> tuple[CostModel | None, list[Prediction]]:
    """Fit the model to all, and predict each scenario by the model of the others.

    One that is larger than all others in any respect is not predicted: a fit says nothing of what lies beyond it. The
    model's ``error`` is the largest :attr:`Prediction.error`, whichever its sign.
    """
    model = fit(list(measured.values()))
    if model is None:
        return None, []
    predictions = []
    for name, (size, seconds) in measured.items():
        rest = [point for other, point in measured.items() if other != name]
        others = fit(rest)
        if others is None or len(measured) <= len(_PRICES) or _is_beyond(size, [each for each, _ in rest]):
            continue
        if (predicted := others.seconds(size)) > 0:
            predictions.append(
                Prediction(scenario=name, size=size, predicted_seconds=predicted, measured_seconds=seconds)
            )
    error = max((abs(each.error) for each in predictions), default=0.0)
    return model.model_copy(update={"error": error}), predictions


def _is_beyond(size: StartSize, others: Sequence[StartSize]) -> bool:
    each = (amounts(one).values() for one in (size, *others))
    return any(mine > max(theirs) for mine, *theirs in zip(*each, strict=True))
