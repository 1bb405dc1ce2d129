"""The growth of a start with groups, records and their size: measured values, and the model's line between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from connect_share.startup import CostModel, StartSize
from spark_jobs.plots import Curve
from spark_jobs.startup.result import Scenario, StartupResult
from spark_jobs.startup.view import (
    OURS,
    WARMTHS,
    MeasuredScenario,
    Spread,
    contender_order,
    drawable,
    look_of,
    records_of,
)
from spark_jobs.units import count_tick, size

_BETWEEN: Final = 12
"""Sizes between two measured ones that the model's line is drawn through."""

_LARGEST: Final = 1e18


@dataclass(frozen=True, slots=True)
class Dimension:
    """A quantity that grows along a curve.

    Attributes:
        write: a value on the axis.
        form: of a value in a sentence, before the unit.
    """

    title: str
    x_label: str
    of: Callable[[Scenario], float]
    write: Callable[[float], str]
    form: str
    unit: str


def _config_record_size(scenario: Scenario) -> float:
    return scenario.config_bytes / max(1, scenario.config_records)


_DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "groups": Dimension(
        "More groups on the same topics", "groups", lambda scenario: scenario.groups, count_tick, "{:,.0f}", "groups"
    ),
    "records": Dimension("More records", "records in all three topics", records_of, count_tick, "{:,.0f}", "records"),
    "record-size": Dimension(
        "Larger records", "size of a config record", _config_record_size, size, "{:,.0f}", "bytes of a config record"
    ),
}


@dataclass(frozen=True, slots=True)
class Growth:
    """Scenarios of one series, smallest first, each with its value of what grows."""

    dimension: Dimension
    sizes: tuple[tuple[float, MeasuredScenario], ...]

    def curves(self) -> list[Curve]:
        """Return one curve for each contender: warm starts, or cold ones without those; of our stores both."""
        kinds = {(each.contender, each.warmth) for _, scenario in self.sizes for each in scenario.starts}
        curves = []
        for contender in sorted({contender for contender, _ in kinds}, key=contender_order):
            look = look_of(contender)
            for warmth in WARMTHS:
                cold_too = contender == OURS or (contender, "warm") not in kinds
                if (contender, warmth) not in kinds or (warmth == "cold" and not cold_too):
                    continue
                points = [
                    (x, found.total.median, found.total.low, found.total.high)
                    for x, scenario in self.sizes
                    if (found := scenario.find(contender, warmth)) is not None
                ]
                label = f"{look.label}, cold" if warmth == "cold" else look.label
                dashed = look.dashed or (contender == OURS and warmth == "cold")
                curves.append(Curve(label, look.colour, points, dashed))
        return curves

    def ends_of_ours(self) -> tuple[tuple[float, Spread], tuple[float, Spread]] | None:
        """Return our start at the smallest and at the largest size, warm where that was measured."""
        for warmth in reversed(WARMTHS):
            ours = [(x, found.total) for x, scenario in self.sizes if (found := scenario.find(OURS, warmth))]
            if len(ours) > 1:
                return ours[0], ours[-1]
        return None

    def model_curve(self, result: StartupResult) -> Curve | None:
        """Return the model's line over the sizes that our stores read."""
        if result.model is None:
            return None
        sizes = {each.scenario: each.size for each in result.starts if each.size is not None and each.contender == OURS}
        sizes |= {each.scenario: each.size for each in result.predictions}
        known = [(x, sizes[scenario.name]) for x, scenario in self.sizes if scenario.name in sizes]
        line = [
            _expected(result.model, _between(x, end_x, step / _BETWEEN), _size_between(first, last, step / _BETWEEN))
            for (x, first), (end_x, last) in itertools.pairwise(known)
            for step in range(_BETWEEN)
        ]
        line += [_expected(result.model, *each) for each in known[-1:]]
        return Curve("fitted model", 1, [point for point in line if all(map(drawable, point[1:]))])

    def predicted(self, result: StartupResult) -> list[tuple[float, float]]:
        """Return what the model predicts of each size when it is fitted to the others alone."""
        places = {scenario.name: x for x, scenario in self.sizes}
        return [
            (places[each.scenario], each.predicted_seconds)
            for each in result.predictions
            if each.scenario in places and drawable(each.predicted_seconds)
        ]


def growths(result: StartupResult, scenarios: Mapping[str, MeasuredScenario]) -> list[Growth]:
    """Return the series in which something was measured at two sizes at least."""
    found = []
    for series, dimension in _DIMENSIONS.items():
        sizes = [
            (x, scenarios[scenario.name])
            for scenario in result.scenarios
            if scenario.series == series and scenario.name in scenarios and 0 < (x := dimension.of(scenario)) < _LARGEST
        ]
        if len({x for x, _ in sizes}) > 1:
            found.append(Growth(dimension, tuple(sorted(sizes, key=lambda each: each[0]))))
    return found


def _between(first: float, last: float, share: float) -> float:
    """Return a value between two others as it lies on a logarithmic axis."""
    if first <= 0 or last <= 0:
        return first + (last - first) * share
    return float(first * (last / first) ** share)


def _size_between(first: StartSize, last: StartSize, share: float) -> StartSize:
    return StartSize(
        records=round(_between(first.records, last.records, share)),
        bytes=round(_between(first.bytes, last.bytes, share)),
        own_records=round(_between(first.own_records, last.own_records, share)),
    )


def _expected(model: CostModel, x: float, size_there: StartSize) -> tuple[float, float, float, float]:
    return x, model.seconds(size_there), *model.between(size_there)
