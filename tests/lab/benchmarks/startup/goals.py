"""The goals of the start-up benchmark, and whether a result meets them. Pure; ratios are of medians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from spark_jobs.benchmark.results import StartupResult, Warmth
from tests.lab.benchmarks.startup.view import (
    KIP,
    OURS,
    STORES,
    MeasuredScenario,
    measured_latencies,
    measured_scenarios,
    measured_storms,
    predictions,
)
from tests.lab.units import ratio, size

LARGE: Final = "groups-1000"
SMALL: Final = "groups-1"
"""Of the same records a group as the large one: what it needs of memory is own state and an empty start."""

MEMORY_BYTES: Final = 128_000_000
STORM_STARTS: Final = 100
MANY_GROUPS: Final = 20
MODEL_ERROR: Final = 0.30


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of the benchmark.

    Attributes:
        sentence: names what is compared.
        target: the mark, in words.
        measured: the figure, or why there is none.
        met: ``None`` if it was not measured.
    """

    sentence: str
    target: str
    measured: str
    met: bool | None


_JAR: Final = "1,000 groups, warm: time of our stores beside Java's with the sharing jar"
_SHORT: Final = "1,000 groups, cold: time of a full read beside a start from a checkpoint with 1 % new records"
_FOREIGN: Final = "KIP's workload, warm: time of Java's stores on the same prefixed topics beside ours"
_KCAT: Final = "KIP's workload: time of kcat, one topic after another, beside our cold start"
_BARE: Final = "KIP's workload, {}: time of our start beside bare librdkafka"
_RATIOS: Final[Mapping[str, tuple[str, Warmth, str, str, str, float]]] = {
    "KIP's workload, cold: time of Java's stores beside ours": (KIP, "cold", "java", OURS, "at least", 20),
    _FOREIGN: (KIP, "warm", "java-foreign", OURS, "at least", 5),
    _KCAT: (KIP, "cold", "kcat", OURS, "at least", 1),
    _BARE.format("cold"): (KIP, "cold", OURS, "librdkafka", "at most", 1.25),
    _BARE.format("warm"): (KIP, "warm", OURS, "librdkafka", "at most", 1.25),
    "1,000 groups, warm: time of Java's stores on plain keys beside ours": (LARGE, "warm", "java", OURS, "at least", 7),
    _JAR: (LARGE, "warm", OURS, "java-jar", "at most", 1.5),
    _SHORT: (LARGE, "cold", OURS, "python-checkpoint", "at least", 10),
}
"""Scenario, warmth and contenders by sentence, and how many times the second one's time the first one's has to be."""


def goals(result: StartupResult) -> list[Goal]:
    """Return every goal, judged as far as it was measured."""
    scenarios = measured_scenarios(result)
    found = []
    for sentence, (name, warmth, first, second, bound, mark) in _RATIOS.items():
        starts = [scenarios[name].find(each, warmth) for each in (first, second)] if name in scenarios else []
        medians = [each.total.median for each in starts if each is not None]
        times = medians[0] / medians[1] if len(medians) == 2 else None
        missing = result.missing.get(first) or result.missing.get(second)
        found.append(_ratio_goal(sentence, times, bound, mark, missing))
    return [*found, _memory(scenarios), *_storm(result), _model(result), *_latencies(result)]


def _ratio_goal(sentence: str, times: float | None, bound: str, mark: float, missing: str | None = None) -> Goal:
    target = f"{bound} {mark:g} times"
    if times is None:
        return Goal(sentence, target, missing or "not measured", None)
    return Goal(sentence, target, f"{ratio(times)} times", times >= mark if bound == "at least" else times <= mark)


def _memory(scenarios: Mapping[str, MeasuredScenario]) -> Goal:
    sentence = "1,000 groups: memory of a start beyond what a group alone on its topics needs"
    target = f"under {size(MEMORY_BYTES)}"
    large, small = (scenarios[name].find(OURS, "cold") if name in scenarios else None for name in (LARGE, SMALL))
    if large is None or large.peak_bytes is None:
        return Goal(sentence, target, "not measured", None)
    growth = max(0.0, large.peak_bytes - ((small.peak_bytes if small else None) or 0.0))
    return Goal(sentence, target, size(growth), growth < MEMORY_BYTES)


def _storm(result: StartupResult) -> list[Goal]:
    """Return the goals of the storms of the size that counts, side by side and one after another."""
    storms = [each for group in measured_storms(result) for each in group if each.storm.starts == STORM_STARTS]
    found = [(each.times, each.storm.failed) for each in storms if each.times is not None]
    sentence = f"storm of {STORM_STARTS} starts: those that fail"
    slower = f"storm of {STORM_STARTS} starts: time side by side beside that of one after another"
    times = _ratio_goal(slower, max((times for times, _ in found), default=None), "at most", 1.3)
    if not found:
        return [times, Goal(sentence, "none", "not measured", None)]
    failed = sum(each for _, each in found)
    return [times, Goal(sentence, "none", str(failed or "none"), failed == 0)]


def _model(result: StartupResult) -> Goal:
    sentence = "the cost model predicts a size that it was not fitted on"
    target = f"within {MODEL_ERROR:.0%}"
    errors = [abs(each.error) for each in predictions(result)]
    if not errors:
        return Goal(sentence, target, "not measured", None)
    worst = max(errors)
    return Goal(sentence, target, f"off by {worst:.0%} at most ({len(errors)} sizes)", worst <= MODEL_ERROR)


def _latencies(result: StartupResult) -> Iterator[Goal]:
    ours = [each for each in measured_latencies(result) if each.latency.contender == OURS]
    for store in STORES:
        alone = [each.beside_java for each in ours if (each.latency.store, each.latency.groups) == (store, 1)]
        sentence = f"put to read-back of the {store} store, p50: ours beside Java's"
        yield _ratio_goal(sentence, next(iter(alone), None), "at most", 1, result.missing.get("java"))
    for store in STORES:
        many = [
            each.beside_one_group
            for each in ours
            if each.latency.store == store and each.latency.groups >= MANY_GROUPS and each.beside_one_group is not None
        ]
        sentence = (
            f"put to read-back of the {store} store, p50: {MANY_GROUPS} groups that write, beside one group alone"
        )
        yield _ratio_goal(sentence, max(many, default=None), "at most", 1.5)
