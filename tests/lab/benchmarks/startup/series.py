"""Scenarios beside each other: a start that grows with groups, records and their size, and what one setting does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from spark_jobs.benchmark.results import Scenario, StartupResult, measurable
from tests.lab.benchmarks.startup.view import (
    OURS,
    WARMTHS,
    Measured,
    MeasuredScenario,
    Spread,
    contender_order,
    look_of,
)
from tests.lab.plots import Curve, curves
from tests.lab.units import count_tick, size

_LARGEST: Final = 1e18


@dataclass(frozen=True, slots=True)
class Dimension:
    """A quantity that grows along a curve.

    Attributes:
        write: a value on the axis.
        unit: of a value in a sentence.
    """

    title: str
    x_label: str
    of: Callable[[Scenario], float]
    write: Callable[[float], str]
    unit: str


_DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "groups": Dimension("More groups on the same topics", "groups", lambda each: each.groups, count_tick, "groups"),
    "records": Dimension(
        "More records", "records in all three topics", lambda each: each.records, count_tick, "records"
    ),
    "record-size": Dimension(
        "Larger records",
        "size of a config record",
        lambda each: each.config_bytes / max(1, each.config_records),
        size,
        "bytes of a config record",
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
        lines = []
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
                lines.append(Curve(label, look.colour, points, dashed))
        return lines

    def ends_of_ours(self) -> tuple[tuple[float, Spread], tuple[float, Spread]] | None:
        """Return our start at the smallest and at the largest size, warm where that was measured."""
        for warmth in reversed(WARMTHS):
            ours = [(x, found.total) for x, scenario in self.sizes if (found := scenario.find(OURS, warmth))]
            if len(ours) > 1:
                return ours[0], ours[-1]
        return None

    def model_curve(self, result: StartupResult) -> list[tuple[float, float, float, float]]:
        """Return what the model says of each size that our stores read: the seconds, and their bounds."""
        sizes = {each.scenario: each.size for each in result.starts if each.size is not None and each.contender == OURS}
        sizes |= {each.scenario: each.size for each in result.predictions}
        points = [
            (x, result.model.seconds(size), *result.model.between(size))
            for x, scenario in self.sizes
            if result.model is not None and (size := sizes.get(scenario.name)) is not None
        ]
        return [point for point in points if all(map(measurable, point[1:]))]

    def predicted(self, result: StartupResult) -> list[tuple[float, float]]:
        """Return what the model predicts of each size when it is fitted to the others alone."""
        places = {scenario.name: x for x, scenario in self.sizes}
        return [
            (places[each.scenario], each.predicted_seconds)
            for each in result.predictions
            if each.scenario in places and measurable(each.predicted_seconds)
        ]

    def plot(self, result: StartupResult) -> Markup:
        """Return the curves with the model's line."""
        return curves(
            self.dimension.title,
            self.curves(),
            x_label=self.dimension.x_label,
            x_text=self.dimension.write,
            model=self.model_curve(result),
            predicted=self.predicted(result),
        )


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


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two scenarios that differ in one setting; the title names both sides."""

    title: str
    without: MeasuredScenario
    having: MeasuredScenario

    @property
    def pairs(self) -> list[tuple[Measured, Measured]]:
        """The starts of the contenders that were measured on both, without the setting and with it."""
        others = ((each, self.having.find(each.contender, each.warmth)) for each in self.without.starts)
        return [(each, other) for each, other in others if other is not None]


_SETTINGS: Final[Mapping[str, tuple[object, str]]] = {
    "compacted": (False, "Compacted against dirty"),
    "shared": (True, "Shared against dedicated"),
    "compression": ("none", "Compressed with {} against uncompressed"),
    "transactions": (False, "In transactions, read committed, against plain records"),
}
"""Settings of the topics by the scenario's member: the value that most scenarios have, and a title.

Where that value is true, its side is the one that is asked about."""


def contrasts(result: StartupResult, scenarios: Mapping[str, MeasuredScenario]) -> list[Contrast]:
    """Return each scenario with a setting beside the nearest one without, where a contender was measured on both."""
    found = []
    for setting, (usual, title) in _SETTINGS.items():
        for scenario in result.scenarios:
            value = getattr(scenario, setting)
            if value != usual and scenario.name in scenarios:
                candidates = [
                    Contrast(title.format(value), *_sides(scenarios[other.name], scenarios[scenario.name], usual))
                    for other in sorted(result.scenarios, key=lambda other: _distance(other, scenario))
                    if other.name in scenarios and _differ_in(setting, other, scenario)
                ]
                found += [each for each in candidates if each.pairs][:1]
    return found


def _sides(
    usual: MeasuredScenario, other: MeasuredScenario, value: object
) -> tuple[MeasuredScenario, MeasuredScenario]:
    """Return the scenarios without and with what is asked about."""
    return (other, usual) if value is True else (usual, other)


def _differ_in(setting: str, other: Scenario, scenario: Scenario) -> bool:
    """Return whether a scenario has the usual value of a setting, and is like another one in all else."""
    alike = {*_SETTINGS, "jobs"} if setting == "shared" else {*_SETTINGS, "jobs", "groups"}
    return getattr(other, setting) == _SETTINGS[setting][0] and all(
        getattr(other, each) == getattr(scenario, each) for each in alike - {setting}
    )


def _distance(first: Scenario, second: Scenario) -> tuple[float, float, str]:
    """Return how far two scenarios are apart in records and bytes a group, whichever is the larger one."""

    def apart(of: Callable[[Scenario], float]) -> float:
        one, other = (max(1.0, of(each) / max(1, each.groups)) for each in (first, second))
        return abs(math.log(one / other))

    return apart(lambda each: each.records), apart(lambda each: each.bytes), first.name
