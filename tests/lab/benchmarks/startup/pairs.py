"""What the start-up benchmark compares: pairs that do the same work, and what is inside the clock of each. Pure.

A round measures both sides of a pair one after the other, each in a new process; the figure is the median of the rounds'
ratios, so a machine whose speed drifts harms both sides alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spark_jobs.benchmark.results import StartupResult, Warmth
from tests.lab.benchmarks.startup.view import MeasuredScenario, Spread, measured_scenarios

MAINS: Final[Mapping[str, tuple[str, ...]]] = {"kip": ("kip", "tiny"), "workers": ("workers-20", "workers-3")}
"""Scenarios with the KIP's workload, and the small ones that stand for them where the benchmark is tried out."""

Side = tuple[str, Warmth, str]
"""A contender, a warmth, and a part of the start, or "" for the whole."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides that do the same work.

    Attributes:
        title: names both; the figure is the first one's time beside the second one's.
        at_most: the budget, if there is one.
        decides: whether the pair decides a comparison of two results.
        headline: whether the README shows the pair.
    """

    title: str
    scenario: str
    first: Side
    second: Side
    at_most: float | None = None
    decides: bool = True
    headline: bool = False


def _workers(scenario: str, part: str, title: str, **more: float | bool | None) -> Pair:
    warmth: Warmth = "cold" if part else "exec"
    sides: tuple[Side, Side] = ("worker-jar", warmth, part), ("worker-dedicated", warmth, part)
    return Pair(f"a Java worker{title}: shared topics with the jar, beside dedicated topics", scenario, *sides, **more)  # type: ignore[arg-type]


def _kip(title: str, first: str, second: str, warmth: Warmth, **more: float | bool) -> Pair:
    return Pair(title, "kip", (first, warmth, ""), (second, warmth, ""), **more)  # type: ignore[arg-type]


_SHARED: Final = "{}: shared topics, beside dedicated topics with the same records of their own, {}"
_JAVA: Final = "Java's stores with the jar beside the Python stores, shared topics, the same records, {}"
_BARE: Final = "Python stores beside bare librdkafka, shared topics, {}"
_ALONE: Final = "Python stores beside bare librdkafka and json.loads, dedicated topics, warm"
PAIRS: Final = (
    _workers("workers", "", " from exec to all connectors running", at_most=1.07, headline=True),
    _workers("workers", "stores", ", its stores' part", headline=True),
    _workers("workers", "put", ", a PUT of a configuration while 19 groups write", decides=False),
    _workers("workers", "restart", ", a restart of a connector while 19 groups write", decides=False),
    _workers("workers-1", "", " from exec, 1 group", decides=False),
    _workers("workers-100", "", " from exec, 100 groups"),
    _workers("workers-500", "", " from exec, 500 groups", decides=False),
    _kip(_SHARED.format("Java's stores", "from exec"), "java-jar", "java-dedicated", "exec"),
    _kip(_SHARED.format("Java's stores", "warm"), "java-jar", "java-dedicated", "warm", headline=True),
    _kip(_SHARED.format("Python stores", "from exec"), "python", "python-dedicated", "exec"),
    _kip(_SHARED.format("Python stores", "warm"), "python", "python-dedicated", "warm", headline=True),
    _kip(_JAVA.format("from exec"), "java-jar", "python", "exec"),
    _kip(_JAVA.format("warm"), "java-jar", "python", "warm"),
    _kip(_BARE.format("first start of a process"), "python", "librdkafka", "cold", at_most=1.25, headline=True),
    _kip(_BARE.format("warm"), "python", "librdkafka", "warm", at_most=1.25, headline=True),
    _kip(_ALONE, "python-dedicated", "librdkafka-dedicated", "warm", at_most=1.8),
)
"""All of the page, in this order; headlines in the README. A dozen decide."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A pair as it was measured.

    Attributes:
        ratios: of each round.
        first, second: median seconds.
        scenario: where it was found.
    """

    pair: Pair
    scenario: str
    ratios: Spread
    first: float
    second: float

    @property
    def met(self) -> bool | None:
        """Whether the budget is kept; ``None`` without one."""
        return None if self.pair.at_most is None else self.ratios.median <= self.pair.at_most

    @property
    def budget(self) -> str:
        """The budget, and whether it is kept, for people; nothing without one."""
        return "" if self.met is None else f"at most {self.pair.at_most:g}: {'kept' if self.met else 'missed'}"


def compared(result: StartupResult) -> list[Compared]:
    """Return the pairs of which both sides were measured."""
    scenarios = measured_scenarios(result)
    found = []
    for pair in PAIRS:
        name = next((each for each in MAINS.get(pair.scenario, (pair.scenario,)) if each in scenarios), None)
        if name is None:
            continue
        first, second = (_seconds(scenarios[name], *side) for side in (pair.first, pair.second))
        if first and second and len(first.values) == len(second.values):
            ratios = tuple(one / other for one, other in zip(first.values, second.values, strict=True))
            found.append(Compared(pair, name, Spread(ratios), first.median, second.median))
    return found


def _seconds(scenario: MeasuredScenario, contender: str, warmth: Warmth, part: str) -> Spread | None:
    measured = scenario.find(contender, warmth)
    if measured is None:
        return None
    return measured.phases.get(part) if part else measured.total


CLOCK_HEADS: Final = ("work", "stores, exec", "stores, cold", "stores, warm", "bare librdkafka", "Java worker, exec")
CLOCK: Final = (
    ("start of the interpreter or the JVM", "yes", "no", "no", "as the stores", "yes"),
    ("loading: Python's imports, Java's classes", "yes", "Java: yes", "no", "as the stores", "yes"),
    ("looking up the cluster's id", "Java: yes", "no", "no", "no", "yes"),
    ("finding topics, their settings and ends", "yes", "yes", "yes", "without settings", "yes"),
    ("making the client that reads", "yes", "yes", "yes", "yes", "yes"),
    ("reading all records of the three topics", "yes", "yes", "yes", "yes", "yes"),
    ("passing over records of other groups", "yes", "yes", "yes", "no", "yes"),
    ("parsing and folding own records", "yes", "yes", "yes", "dedicated topics: json.loads alone", "yes"),
    ("making the producers", "Java: yes", "Java: yes", "Java: yes", "no", "yes"),
    ("REST server, plugins, joining the group, rebalance", "no", "no", "no", "no", "yes"),
    ("starting five connectors and their tasks", "no", "no", "no", "no", "yes"),
    ("closing", "no", "no", "no", "no", "no"),
)
"""What is inside the clock. Python makes its producers at the first write, Java in a start."""
