"""Numbers of the start-up benchmark's report: medians, spreads, ratios. Whatever was not measured is absent, never zero."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.result import Scenario, StartupResult, Warmth

KIP: Final = "kip"
OURS: Final = "python"
WARMTHS: Final[tuple[Warmth, ...]] = ("cold", "warm")
STORES: Final = ("config", "status", "offset")

_TITLES: Final = {
    # Name: what a table calls it, what a plot calls it.
    "python": ("Python stores", "Python stores"),
    "python-checkpoint": ("Python stores, from a checkpoint", "Python, checkpoint"),
    "java-jar": ("Java stores with the sharing jar", "Java with the jar"),
    "java": ("Java stores, plain keys", "Java, plain keys"),
    "java-foreign": ("Java stores, prefixed keys", "Java, prefixed keys"),
    "plain-client": ("plain confluent-kafka read, default settings", "plain client"),
    "librdkafka": ("bare librdkafka read, nothing done to the records", "bare librdkafka"),
    "kcat": ("kcat, one topic after another", "kcat"),
}


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
    usable = tuple(value for value in values if math.isfinite(value) and value > 0)
    return Spread(usable) if usable else None


@dataclass(frozen=True, slots=True)
class Measured:
    """One contender in one scenario: all three stores, and each store where the contender knows it."""

    scenario: str
    contender: str
    warmth: Warmth
    total: Spread
    topics: dict[str, Spread]
    phases: dict[str, float]

    @property
    def title(self) -> str:
        """What a table calls it."""
        return f"{contender_title(self.contender)}, {self.warmth}"


def normal_name(contender: str) -> str:
    """Give the contender's name as this module looks it up."""
    return contender.lower().replace("_", "-")


def contender_title(contender: str) -> str:
    """Name a contender in a table; one that is not known here by its own name."""
    return _TITLES.get(normal_name(contender), (contender,))[0]


def contender_label(contender: str) -> str:
    """Name a contender in a plot."""
    return _TITLES.get(normal_name(contender), (contender,))[-1]


def contender_order(contender: str) -> tuple[int, str]:
    """Sort ours first, then the other known ones, then the rest by name."""
    names = list(_TITLES)
    name = normal_name(contender)
    return (names.index(name) if name in names else len(names), name)


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
                phases.setdefault(phase, []).extend(value for value in values if math.isfinite(value) and value >= 0)
        medians = {phase: statistics.median(values) for phase, values in phases.items() if values}
        found.append(Measured(name, contender, warmth, total, topics, medians))
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
        what = f"{self.other.warmth}: {contender_title(self.other.contender)}"
        return f"{what} take {ratio(self.value)} times as long as the Python stores"


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


def milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds, with as many digits as mean something."""
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def ratio(value: float) -> str:
    """Write a ratio with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def size(count: float) -> str:
    """Write bytes in the unit that people use."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.3g} {unit}" if count < 1e12 else f"{count / scale:,.0f} {unit}"
    return f"{count:.0f} B"
