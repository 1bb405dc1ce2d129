"""The goals of the start-up benchmark, and whether a result meets them. Pure; ratios are of medians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.result import StartupResult, Warmth
from spark_jobs.startup.view import (
    KIP,
    OURS,
    STORES,
    MeasuredScenario,
    drawable,
    measured_scenarios,
    predictions,
    spread,
)
from spark_jobs.units import ratio, size

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


_BESIDE_OURS: Final[Sequence[tuple[str, str, str, Warmth, float]]] = (
    ("KIP's workload, cold: time of Java's stores beside ours", KIP, "java", "cold", 20),
    (
        "KIP's workload, warm: time of Java's stores on the same prefixed topics beside ours",
        KIP,
        "java-foreign",
        "warm",
        5,
    ),
    ("KIP's workload: time of kcat, one topic after another, beside our cold start", KIP, "kcat", "cold", 1),
    ("1,000 groups, warm: time of Java's stores on plain keys beside ours", LARGE, "java", "warm", 7),
)
"""Sentence, scenario, contender, warmth, and how many times our time it has to take at least."""


def goals(result: StartupResult) -> list[Goal]:
    """Return every goal, judged as far as it was measured."""
    scenarios = measured_scenarios(result)

    def start(scenario: str, contender: str, warmth: Warmth) -> float | None:
        found = scenarios[scenario].find(contender, warmth) if scenario in scenarios else None
        return None if found is None else found.total.median

    return [
        *(
            _ratio_goal(
                sentence,
                start(scenario, contender, warmth),
                start(scenario, OURS, warmth),
                least=least,
                missing=result.missing.get(contender),
            )
            for sentence, scenario, contender, warmth, least in _BESIDE_OURS
        ),
        _ratio_goal(
            "1,000 groups, warm: time of our stores beside Java's with the sharing jar",
            start(LARGE, OURS, "warm"),
            start(LARGE, "java-jar", "warm"),
            most=1.5,
            missing=result.missing.get("java-jar"),
        ),
        _ratio_goal(
            "1,000 groups, cold: time of a full read beside a start from a checkpoint with 1 % new records",
            start(LARGE, OURS, "cold"),
            start(LARGE, "python-checkpoint", "cold"),
            least=10,
            missing=result.missing.get("python-checkpoint"),
        ),
        _memory(scenarios),
        *_storm(result),
        _model(result),
        *_latencies(result),
    ]


def _not_measured(sentence: str, target: str, why: str | None = None) -> Goal:
    return Goal(sentence, target, why or "not measured", None)


def _ratio_goal(
    sentence: str,
    first: float | None,
    second: float | None,
    *,
    least: float = 0.0,
    most: float | None = None,
    missing: str | None = None,
) -> Goal:
    """Return a goal of how many times the second value the first one is."""
    target = f"at least {least:g} times" if most is None else f"at most {most:g} times"
    if first is None or second is None:
        return _not_measured(sentence, target, missing)
    times = first / second
    return Goal(sentence, target, f"{ratio(times)} times", times >= least if most is None else times <= most)


def _memory(scenarios: Mapping[str, MeasuredScenario]) -> Goal:
    sentence = "1,000 groups: memory of a start beyond what a group alone on its topics needs"
    target = f"under {size(MEMORY_BYTES)}"
    large, small = (scenarios[name].find(OURS, "cold") if name in scenarios else None for name in (LARGE, SMALL))
    if large is None or large.peak_bytes is None:
        return _not_measured(sentence, target)
    growth = max(0.0, large.peak_bytes - ((small.peak_bytes if small else None) or 0.0))
    return Goal(sentence, target, size(growth), growth < MEMORY_BYTES)


def _storm(result: StartupResult) -> list[Goal]:
    """Return the goals of the storms of the size that counts, side by side and one after another."""
    storms = [each for each in result.storms if each.starts == STORM_STARTS and drawable(each.wall_seconds)]
    alone = {each.scenario: each.wall_seconds for each in storms if each.at_once == 1}
    found = [each for each in storms if each.at_once > 1 and each.scenario in alone]
    sentence = f"storm of {STORM_STARTS} starts: those that fail"
    times = _ratio_goal(
        f"storm of {STORM_STARTS} starts: time side by side beside that of one after another",
        max((each.wall_seconds / alone[each.scenario] for each in found), default=None),
        1.0,
        most=1.3,
    )
    if not found:
        return [times, _not_measured(sentence, "none")]
    failed = sum(each.failed for each in found)
    return [times, Goal(sentence, "none", str(failed or "none"), failed == 0)]


def _model(result: StartupResult) -> Goal:
    sentence = "the cost model predicts a size that it was not fitted on"
    target = f"within {MODEL_ERROR:.0%}"
    errors = [abs(each.error) for each in predictions(result)]
    if not errors:
        return _not_measured(sentence, target)
    worst = max(errors)
    return Goal(sentence, target, f"off by {worst:.0%} at most ({len(errors)} sizes)", worst <= MODEL_ERROR)


def _latencies(result: StartupResult) -> Iterator[Goal]:
    def p50(contender: str, store: str, *, alone: bool) -> float | None:
        found = spread(
            value
            for each in result.latencies
            if (each.contender, each.store) == (contender, store)
            and (each.groups == 1 if alone else each.groups >= MANY_GROUPS)
            for value in each.seconds
        )
        return None if found is None else found.median

    for store in STORES:
        yield _ratio_goal(
            f"put to read-back of the {store} store, p50: ours beside Java's",
            p50(OURS, store, alone=True),
            p50("java", store, alone=True),
            most=1,
            missing=result.missing.get("java"),
        )
    for store in STORES:
        yield _ratio_goal(
            f"put to read-back of the {store} store, p50: {MANY_GROUPS} groups that write, beside one group alone",
            p50(OURS, store, alone=False),
            p50(OURS, store, alone=True),
            most=1.5,
        )
