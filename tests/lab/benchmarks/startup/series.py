"""Scenarios beside each other: a start that grows with groups, records and their size, and what one setting does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from spark_jobs.benchmark.results import Scenario, StartupResult
from tests.lab.benchmarks.startup.view import (
    OURS,
    WARMTHS,
    Measured,
    MeasuredScenario,
    contender_order,
    look_of,
)
from tests.lab.plots import Look, Points, curves
from tests.lab.units import count_tick, size


@dataclass(frozen=True, slots=True)
class Dimension:
    """A quantity that grows along a curve.

    Attributes:
        write: a value on the axis.
    """

    title: str
    x_label: str
    of: Callable[[Scenario], float]
    write: Callable[[float], str]


_DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "groups": Dimension("More groups on the same topics", "groups", lambda each: each.groups, count_tick),
    "records": Dimension("More records", "records in all three topics", lambda each: each.records, count_tick),
    "record-size": Dimension(
        "Larger records",
        "size of a config record",
        lambda each: each.config_bytes / max(1, each.config_records),
        size,
    ),
}


@dataclass(frozen=True, slots=True)
class Growth:
    """Scenarios of one series, smallest first, each with its value of what grows."""

    dimension: Dimension
    sizes: tuple[tuple[float, MeasuredScenario], ...]

    def curves(self) -> list[tuple[Look, Points]]:
        """Return one curve for each contender, of its warm starts; of our stores one of cold starts, too."""
        kinds = {(each.contender, each.warmth) for _, scenario in self.sizes for each in scenario.starts}
        lines: list[tuple[Look, Points]] = []
        for contender, warmth in sorted(kinds, key=lambda kind: (contender_order(kind[0]), WARMTHS.index(kind[1]))):
            if warmth != "warm" and (contender, warmth) != (OURS, "cold"):
                continue
            points = [
                (x, found.total.median, *found.total.interval)
                for x, scenario in self.sizes
                if (found := scenario.find(contender, warmth)) is not None
            ]
            look = look_of(contender)
            drawn = replace(look, label=f"{look.label}, cold", dashed=True) if warmth == "cold" else look
            lines.append((drawn, points))
        return lines

    def model_curve(self, result: StartupResult) -> Points:
        """Return what the model says of each size that our stores read: the seconds, and their bounds."""
        sizes = {each.scenario: each.size for each in result.starts if each.size is not None and each.contender == OURS}
        sizes |= {each.scenario: each.size for each in result.predictions}
        return [
            (x, result.model.seconds(size), *result.model.between(size))
            for x, scenario in self.sizes
            if result.model is not None and (size := sizes.get(scenario.name)) is not None
        ]

    def plot(self, result: StartupResult) -> Markup:
        """Return the curves with the model's line."""
        return curves(
            self.dimension.title,
            self.curves(),
            x_label=self.dimension.x_label,
            x_text=self.dimension.write,
            model=self.model_curve(result),
        )


def growths(result: StartupResult, scenarios: Mapping[str, MeasuredScenario]) -> list[Growth]:
    """Return the series in which something was measured at two sizes at least."""
    found = []
    for series, dimension in _DIMENSIONS.items():
        sizes = [
            (x, scenarios[scenario.name])
            for scenario in result.scenarios
            if scenario.series == series and scenario.name in scenarios and (x := dimension.of(scenario)) > 0
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


_CONTRASTS: Final[Mapping[str, tuple[str, str]]] = {
    "Compacted against dirty": ("kip", "compacted"),
    "Compressed with zstd against uncompressed": ("kip", "zstd"),
    "Compressed with lz4 against uncompressed": ("kip", "lz4"),
    "In transactions, read committed, against plain records": ("kip", "transactions"),
}
"""By title the scenario without the setting, and the one with it."""


def contrasts(scenarios: Mapping[str, MeasuredScenario]) -> list[Contrast]:
    """Return the pairs of scenarios of which a contender was measured on both."""
    found = [
        Contrast(title, scenarios[without], scenarios[having])
        for title, (without, having) in _CONTRASTS.items()
        if without in scenarios and having in scenarios
    ]
    return [each for each in found if each.pairs]
