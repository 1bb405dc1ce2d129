"""The view model of the start-up benchmark's report: medians, spreads and ratios, computed once. Pure.

Whatever was not measured is absent, never zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from spark_jobs.benchmark.results import PHASES, Latency, Scenario, StartupResult, Storm, Warmth, median
from tests.lab.benchmarks.startup.statistics import TAIL, by_process, interval
from tests.lab.plots import Look
from tests.lab.units import milliseconds

KIP: Final = "kip"
EMBEDDED: Final = "embedded"
"""What a result of a benchmark on a broker of its own says of the cluster."""

OURS: Final = "python"
STORES: Final = ("config", "status", "offset")
WARMTHS: Final[tuple[Warmth, ...]] = ("exec", "cold", "warm")


_LOOKS: Final = {
    OURS: Look("Python stores", "Python stores", 1),
    "python-checkpoint": Look("Python stores, from a checkpoint", "from a checkpoint", 1, dashed=True),
    "java-jar": Look("Java stores with the sharing jar", "Java with the jar", 3),
    "librdkafka": Look("bare librdkafka read, nothing done to the records", "bare librdkafka", 6),
    "python-dedicated": Look("Python stores, dedicated topics", "dedicated topics", 1, dashed=True),
    "java-dedicated": Look("Java stores, dedicated topics", "Java, dedicated topics", 2, dashed=True),
    "librdkafka-dedicated": Look(
        "bare librdkafka and json.loads, dedicated topics", "bare and json.loads, dedicated", 6, dashed=True
    ),
    "worker-jar": Look("Java worker with the sharing jar", "worker with the jar", 3),
    "worker-dedicated": Look("Java worker, dedicated topics", "worker, dedicated topics", 2),
}
_UNEQUAL: Final = frozenset({"java", "java-foreign", "plain-client", "kcat"})
"""Contenders of earlier results that did other work than those beside them: none of their figures is shown."""

_ORDER: Final = tuple(_LOOKS)


def look_of(contender: str) -> Look:
    """Return how a contender is shown; an unknown one by its own name."""
    return _LOOKS.get(contender) or Look(contender, contender, 6, dashed=True)


def contender_order(contender: str) -> tuple[int, str]:
    """Return a sort key: ours first, then the other known ones, then the rest by name."""
    return (_ORDER.index(contender) if contender in _LOOKS else len(_ORDER), contender)


@dataclass(frozen=True)
class Spread:
    """Seconds of several processes, or ratios of several rounds; never empty."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Where the median lies with 95 % certainty."""
        return interval(self.values)

    def percentile(self, share: float) -> float:
        """Return the value that ``share`` (0 to 1) of all do not exceed, by the nearest rank."""
        ordered = sorted(self.values)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    @property
    def tail(self) -> float | None:
        """The 99th percentile, where enough values tell it."""
        return self.percentile(0.99) if len(self.values) >= TAIL else None


def with_interval(found: Spread, write: Callable[[float], str] = milliseconds) -> str:
    """Return a median with its interval."""
    low, high = map(write, found.interval)
    return f"{write(found.median)} ({low}–{high})"


def spread(values: Sequence[float], rounds: int = 0) -> Spread | None:
    """Return the values, one a process of ``rounds``; ``None`` if there are none."""
    return Spread(by_process(values, rounds)) if values else None


@dataclass(frozen=True, slots=True)
class Measured:
    """One contender on one scenario.

    Attributes:
        total: until all three stores were ready.
        topics: until each store was ready, where the contender knows it.
        phases: the parts of each start, where the contender knows them.
        cpu_seconds, peak_bytes: medians, where they were measured.
        times: the ratio of its median to that of our start of the same warmth, where that does the same work: a cold start of
            Java loads classes, ours has its imports.
    """

    contender: str
    warmth: Warmth
    total: Spread
    topics: dict[str, Spread]
    phases: dict[str, Spread]
    cpu_seconds: float | None
    peak_bytes: float | None
    times: float | None

    @property
    def title(self) -> str:
        """The name in a table."""
        return f"{look_of(self.contender).title}, {self.warmth}"

    def seconds(self, what: str) -> float | None:
        """Return the median until a store was ready, or of a part of its start."""
        found = self.topics.get(what) or self.phases.get(what)
        return None if found is None else found.median


@dataclass(frozen=True, slots=True)
class MeasuredScenario:
    """A scenario and what was measured on it, ours first.

    Attributes:
        scenario: ``None`` if the result does not describe it.
    """

    name: str
    scenario: Scenario | None
    starts: tuple[Measured, ...]

    @property
    def title(self) -> str:
        """Its title, or its name."""
        return (self.scenario.title if self.scenario else "") or self.name

    @property
    def is_of_workers(self) -> bool:
        """Whether whole Java workers were started on it."""
        return self.name.startswith("workers")

    @property
    def phases(self) -> list[str]:
        """Parts of a start that someone knows of, in their order."""
        there = {phase for each in self.starts for phase in each.phases}
        return [*(phase for phase in PHASES if phase in there), *sorted(there - set(PHASES))]

    def phase_texts(self, measured: Measured) -> list[str]:
        """Return the milliseconds of each part of a contender's start, and of all together."""
        parts = [measured.seconds(phase) or 0.0 for phase in self.phases]
        return [milliseconds(seconds) for seconds in (*parts, sum(parts))]

    def find(self, contender: str, warmth: Warmth) -> Measured | None:
        """Return what was measured of a contender."""
        return next((each for each in self.starts if (each.contender, each.warmth) == (contender, warmth)), None)


def measured_scenarios(result: StartupResult) -> dict[str, MeasuredScenario]:
    """Return the scenarios on which something was measured, by name."""
    known = {scenario.name: scenario for scenario in result.scenarios}
    found = {}
    for name in dict.fromkeys(each.scenario for each in result.starts):
        if starts := _measured(result, name):
            found[name] = MeasuredScenario(name, known.get(name), tuple(starts))
    return found


def _measured(result: StartupResult, scenario: str) -> list[Measured]:
    """Return what was measured on a scenario, ours first."""
    found = []
    ours: dict[Warmth, float] = {}
    starts = [each for each in result.starts if each.scenario == scenario and each.contender not in _UNEQUAL]
    rounds = min((len(each.seconds) for each in starts), default=0)
    for each in sorted(starts, key=lambda each: (contender_order(each.contender), WARMTHS.index(each.warmth))):
        total = spread(each.seconds, rounds)
        if total is None:
            continue
        if each.contender == OURS:
            ours[each.warmth] = total.median
        own = None if each.warmth == "cold" and each.contender.startswith("java") else ours.get(each.warmth)
        found.append(
            Measured(
                each.contender,
                each.warmth,
                total,
                {name: Spread(by_process(each.topics[name], rounds)) for name in STORES if each.topics.get(name)},
                {phase: Spread(tuple(values)) for phase, values in each.phases.items() if values},
                median(each.cpu_seconds),
                median(each.peak_bytes),
                own and total.median / own,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class MeasuredStorm:
    """A storm.

    Attributes:
        alone: the same starts one after another, if that is another storm and was measured.
    """

    storm: Storm
    alone: Storm | None

    @property
    def seconds(self) -> Spread | None:
        """The time of each start."""
        return spread(self.storm.seconds)

    @property
    def times(self) -> float | None:
        """The wall time beside that of the same starts one after another."""
        return None if self.alone is None else self.storm.wall_seconds / self.alone.wall_seconds


def measured_storms(result: StartupResult) -> list[MeasuredStorm]:
    """Return the storms by scenario and number of starts, fewest at once first."""
    alone = {(each.scenario, each.starts): each for each in result.storms if each.at_once == 1}
    return [
        MeasuredStorm(each, alone.get((each.scenario, each.starts)) if each.at_once > 1 else None)
        for each in sorted(result.storms, key=lambda each: (each.scenario, each.starts, each.at_once))
    ]


@dataclass(frozen=True, slots=True)
class MeasuredLatency:
    """The times from a put to its read-back in one store.

    Attributes:
        beside_java: times of Java's median with as many groups; of ours only.
        beside_one_group: times of the own median with one group.
    """

    latency: Latency
    seconds: Spread
    beside_java: float | None
    beside_one_group: float | None

    @property
    def label(self) -> str:
        """The stores' name; the form of their keys makes no difference here."""
        contender = self.latency.contender
        return "Java stores" if contender == "java" else look_of(contender).label


def measured_latencies(result: StartupResult) -> list[MeasuredLatency]:
    """Return the latencies that hold something, by store, number of groups and contender."""
    found: dict[tuple[str, int, str], tuple[Latency, Spread]] = {
        (each.store, each.groups, each.contender): (each, seconds)
        for each in sorted(
            result.latencies, key=lambda each: (STORES.index(each.store), each.groups, contender_order(each.contender))
        )
        if (seconds := spread(each.seconds))
    }

    def beside(seconds: Spread, store: str, groups: int, contender: str) -> float | None:
        other = found.get((store, groups, contender))
        return None if other is None else seconds.median / other[1].median

    return [
        MeasuredLatency(
            each,
            seconds,
            beside(seconds, each.store, each.groups, "java") if each.contender == OURS else None,
            beside(seconds, each.store, 1, each.contender) if each.groups > 1 else None,
        )
        for each, seconds in found.values()
    ]
