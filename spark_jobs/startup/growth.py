"""How a start grows with groups, records and their size: what was measured, and what the model expects between."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from connect_share.startup import CostModel, StartSize
from spark_jobs.startup.figures import WARMTHS, Measured, bytes_of, drawable, measured, records_of
from spark_jobs.startup.names import OURS, Look, contender_brief, contender_look, contender_order, normal_name
from spark_jobs.startup.plots import Curve, Expected, Point
from spark_jobs.startup.result import Scenario, StartupResult
from spark_jobs.startup.units import count_tick, size

_BETWEEN: Final = 12
"""Sizes between two measured ones that the model's line is drawn through."""
_LARGEST: Final = 1e18
_VARIES: Final = 1.5


def _record_size(scenario: Scenario) -> float:
    if scenario.config_records > 0:
        return scenario.config_bytes / scenario.config_records
    return bytes_of(scenario) / max(1, records_of(scenario))


@dataclass(frozen=True, slots=True)
class Dimension:
    """What grows along a curve.

    Attributes:
        write: a value as a tick has it.
        say: a value as a sentence has it, before the unit.
    """

    title: str
    x_name: str
    of: Callable[[Scenario], float]
    write: Callable[[float], str]
    say: Callable[[float], str]
    unit: str


def _whole(value: float) -> str:
    return f"{value:,.0f}"


_DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "groups": Dimension(
        "More groups on the same topics", "groups", lambda scenario: scenario.groups, count_tick, _whole, "groups"
    ),
    "records": Dimension("More records", "records in all three topics", records_of, count_tick, _whole, "records"),
    "record-size": Dimension("Larger records", "size of a config record", _record_size, size, size, "a config record"),
}


@dataclass(frozen=True, slots=True)
class Growth:
    """One curve family: scenarios by what grows, smallest first.

    Attributes:
        measured: what was measured in them, in the same order.
    """

    name: str
    dimension: Dimension
    scenarios: tuple[tuple[float, Scenario], ...]
    measured: tuple[tuple[Measured, ...], ...]

    def curves(self) -> list[Curve]:
        """Give one curve a contender: warm starts, or cold ones where there are no others; of our stores both."""
        contenders = {each.contender for found in self.measured for each in found}
        curves = []
        for contender in sorted(contenders, key=contender_order):
            warmths = {each.warmth for found in self.measured for each in found if each.contender == contender}
            both = normal_name(contender) == OURS
            look, brief = contender_look(contender), contender_brief(contender)
            for warmth in WARMTHS:
                if warmth not in warmths or (warmth == "cold" and "warm" in warmths and not both):
                    continue
                points = tuple(
                    Point(x, each.total.median, each.total.low, each.total.high)
                    for (x, _), found in zip(self.scenarios, self.measured, strict=True)
                    for each in found
                    if (each.contender, each.warmth) == (contender, warmth)
                )
                dashed = look.dashed or (both and warmth == "cold")
                curves.append(Curve(f"{brief}, cold" if warmth == "cold" else brief, Look(look.colour, dashed), points))
        return curves

    def expected(self, result: StartupResult) -> Expected | None:
        """Give the model's line over the sizes that our stores read, and what the model of the other sizes predicts."""
        if result.model is None:
            return None
        sizes = {
            starts.scenario: starts.size
            for starts in result.starts
            if starts.size is not None and normal_name(starts.contender) == OURS
        }
        sizes |= {prediction.scenario: prediction.size for prediction in result.predictions}
        known = [(x, sizes[scenario.name]) for x, scenario in self.scenarios if scenario.name in sizes]
        line = []
        for (x, first), (end_x, last) in itertools.pairwise(known):
            for step in range(_BETWEEN):
                share = step / _BETWEEN
                line.append(_expected_at(result.model, _between(x, end_x, share), _size_between(first, last, share)))
        if known:
            line.append(_expected_at(result.model, *known[-1]))
        places = {scenario.name: x for x, scenario in self.scenarios}
        unseen = tuple(
            Point(places[each.scenario], each.predicted_seconds, each.predicted_seconds, each.predicted_seconds)
            for each in result.predictions
            if each.scenario in places and drawable(each.predicted_seconds)
        )
        return Expected("fitted model", tuple(point for point in line if point is not None), unseen)


def _between(first: float, last: float, share: float) -> float:
    """Go from one value to the other as a logarithmic axis does."""
    if first <= 0 or last <= 0:
        return first + (last - first) * share
    return first * math.exp(math.log(last / first) * share)


def _size_between(first: StartSize, last: StartSize, share: float) -> StartSize:
    return StartSize(
        records=round(_between(first.records, last.records, share)),
        bytes=round(_between(first.bytes, last.bytes, share)),
        own_records=round(_between(first.own_records, last.own_records, share)),
    )


def _expected_at(model: CostModel, x: float, size_there: StartSize) -> Point | None:
    predicted = model.seconds(size_there)
    low, high = model.between(size_there)
    return Point(x, predicted, low, high) if drawable(low) and drawable(predicted) and drawable(high) else None


def growths(result: StartupResult) -> list[Growth]:
    """Give the curve families of a result: at least two sizes of which something was measured."""
    names = dict.fromkeys(scenario.series for scenario in result.scenarios)
    order = [*(name for name in _DIMENSIONS if name in names), *(name for name in names if name not in _DIMENSIONS)]
    found = []
    for name in order:
        scenarios = [scenario for scenario in result.scenarios if scenario.series == name]
        dimension = _DIMENSIONS.get(name) or _what_varies(scenarios)
        if dimension is None:
            continue
        of = dimension.of
        placed = sorted(
            ((of(scenario), scenario) for scenario in scenarios if 0 < of(scenario) < _LARGEST),
            key=lambda each: each[0],
        )
        parts = [(each, tuple(measured(result, each[1].name))) for each in placed]
        parts = [part for part in parts if part[1]]
        if len({x for (x, _), _ in parts}) > 1:
            found.append(Growth(name, dimension, tuple(part[0] for part in parts), tuple(part[1] for part in parts)))
    return found


def _what_varies(scenarios: list[Scenario]) -> Dimension | None:
    for dimension in _DIMENSIONS.values():
        values = [dimension.of(scenario) for scenario in scenarios]
        if min(values) > 0 and max(values) / min(values) >= _VARIES:
            return dimension
    return None
