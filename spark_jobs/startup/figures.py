"""Numbers of the start-up benchmark's report: medians, spreads, ratios. Whatever was not measured is absent, never zero."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.names import OURS, contender_order, contender_title, normal_name
from spark_jobs.startup.result import Scenario, StartupResult, Warmth
from spark_jobs.startup.units import ratio

KIP: Final = "kip"
WARMTHS: Final[tuple[Warmth, ...]] = ("cold", "warm")
STORES: Final = ("config", "status", "offset")

_SHORTEST: Final = 1e-9
_LONGEST: Final = 1e9
"""Seconds outside of these are a broken file, and no plot could show them."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds of several starts; never empty."""

    values: tuple[float, ...]

    @property
    def n(self) -> int:
        """How many starts."""
        return len(self.values)

    @property
    def median(self) -> float:
        """The middle one, seconds."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The fastest one, seconds."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The slowest one, seconds."""
        return max(self.values)

    def percentile(self, share: float) -> float:
        """Give the value that ``share`` (0 to 1) of all are not above, by the nearest rank."""
        ordered = sorted(self.values)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values: Iterable[float]) -> Spread | None:
    """Give what can be drawn and compared of these: finite and above zero; ``None`` if nothing is."""
    usable = tuple(value for value in values if drawable(value))
    return Spread(usable) if usable else None


def drawable(seconds: float) -> bool:
    """Tell whether these seconds can have been measured and can be drawn."""
    return _SHORTEST <= seconds <= _LONGEST


@dataclass(frozen=True, slots=True)
class Measured:
    """One contender in one scenario.

    Attributes:
        total: until all three stores were ready.
        topics: until each store was ready, where the contender knows it.
        phases: median seconds of the parts of a start, where the contender knows them.
        cpu_seconds, peak_bytes: medians, where they were measured.
    """

    scenario: str
    contender: str
    warmth: Warmth
    total: Spread
    topics: dict[str, Spread]
    phases: dict[str, float]
    cpu_seconds: float | None
    peak_bytes: float | None

    @property
    def title(self) -> str:
        """What a table calls it."""
        return f"{contender_title(self.contender)}, {self.warmth}"


def measured(result: StartupResult, scenario: str | None = None) -> list[Measured]:
    """Give every contender that was measured (in one scenario), ours first; starts of several entries are put together."""
    parts: dict[tuple[str, str, Warmth], list[int]] = {}
    for number, starts in enumerate(result.starts):
        if scenario is None or starts.scenario == scenario:
            parts.setdefault((starts.scenario, starts.contender, starts.warmth), []).append(number)
    found = []
    for (name, contender, warmth), numbers in parts.items():
        entries = [result.starts[number] for number in numbers]
        total = spread(value for entry in entries for value in entry.seconds)
        if total is None:
            continue
        topics = {
            topic: found_topic
            for topic in STORES
            if (found_topic := spread(value for entry in entries for value in entry.topics.get(topic, ())))
        }
        phases: dict[str, list[float]] = {}
        for entry in entries:
            for phase, values in entry.phases.items():
                phases.setdefault(phase, []).extend(value for value in values if value == 0 or drawable(value))
        medians = {phase: statistics.median(values) for phase, values in phases.items() if values}
        cpu = spread(value for entry in entries for value in entry.cpu_seconds)
        peaks = [peak for entry in entries for peak in entry.peak_bytes]
        found.append(
            Measured(
                name,
                contender,
                warmth,
                total,
                topics,
                medians,
                None if cpu is None else cpu.median,
                statistics.median(peaks) if peaks else None,
            )
        )
    return sorted(found, key=lambda each: (contender_order(each.contender), WARMTHS.index(each.warmth)))


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long as ours another contender takes."""

    other: Measured
    ours: Measured

    @property
    def value(self) -> float:
        """Median by median."""
        return self.other.total.median / self.ours.total.median

    @property
    def sentence(self) -> str:
        """Say it, whichever is the faster one."""
        other = f"{self.other.warmth}: {contender_title(self.other.contender)}"
        ours = "our stores" if self.other.warmth == self.ours.warmth else f"a {self.ours.warmth} start of ours"
        if self.value >= 1:
            return f"{other}: {ratio(self.value)} times as long as {ours}"
        return f"{other}: sooner, {ours} need {ratio(1 / self.value)} times as long"


def ratios(found: Sequence[Measured]) -> list[Ratio]:
    """Compare every contender of one scenario with our stores, cold with cold where both are there."""
    ours = {each.warmth: each for each in found if normal_name(each.contender) == OURS}
    if not ours:
        return []
    only = next(iter(ours.values()))
    return [Ratio(each, ours.get(each.warmth, only)) for each in found if normal_name(each.contender) != OURS]


def scenario_of(result: StartupResult, name: str) -> Scenario | None:
    """Find a scenario by its name."""
    return next((scenario for scenario in result.scenarios if scenario.name == name), None)


def records_of(scenario: Scenario) -> int:
    """Count the records of all three topics."""
    return scenario.config_records + scenario.status_records + scenario.offset_records


def bytes_of(scenario: Scenario) -> int:
    """Sum up keys and values of all three topics."""
    return scenario.config_bytes + scenario.status_bytes + scenario.offset_bytes


def scenario_title(result: StartupResult, name: str) -> str:
    """Give a scenario's title, or its name if it is not described."""
    scenario = scenario_of(result, name)
    return scenario.title if scenario is not None and scenario.title else name
