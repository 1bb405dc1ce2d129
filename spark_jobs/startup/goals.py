"""What the start-up benchmark is meant to show, and whether it does. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.figures import spread
from spark_jobs.startup.names import normal_name
from spark_jobs.startup.result import StartupResult, Warmth
from spark_jobs.startup.units import ratio, size

KIP: Final = "kip"
LARGE: Final = "groups-1000"
SMALL: Final = "groups-1"
"""Of the same records a group as the large one: what it needs of memory is own state and an empty start."""

COLD_JAVA: Final = 20.0
WARM_JAVA: Final = 5.0
KCAT: Final = 1.0
LARGE_JAVA: Final = 7.0
LARGE_JAR: Final = 1.5
CHECKPOINT: Final = 10.0
MEMORY_BYTES: Final = 128_000_000
STORM_STARTS: Final = 100
STORM: Final = 1.3
MODEL: Final = 0.30
MANY_GROUPS: Final = 20
WRITING: Final = 1.5


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of the benchmark.

    Attributes:
        sentence: what is compared.
        target: the mark, in words.
        measured: the figure; why there is none if it was not measured.
        met: ``None`` if it was not measured.
    """

    sentence: str
    target: str
    measured: str
    met: bool | None


def goals(result: StartupResult) -> list[Goal]:
    """Judge a result, or the part of it that is there. Ratios are of medians."""
    return [
        _at_least(
            result,
            "KIP's workload, cold: time of Java's stores beside ours",
            KIP,
            contender="java",
            warmth="cold",
            least=COLD_JAVA,
        ),
        _at_least(
            result,
            "KIP's workload, warm: time of Java's stores on the same prefixed topics beside ours",
            KIP,
            contender="java-foreign",
            warmth="warm",
            least=WARM_JAVA,
        ),
        _at_least(
            result,
            "KIP's workload: time of kcat, one topic after another, beside our cold start",
            KIP,
            contender="kcat",
            warmth="cold",
            least=KCAT,
        ),
        _at_least(
            result,
            "1,000 groups, warm: time of Java's stores on plain keys beside ours",
            LARGE,
            contender="java",
            warmth="warm",
            least=LARGE_JAVA,
        ),
        _large_beside_jar(result),
        _checkpoint(result),
        _memory(result),
        _storm_ratio(result),
        _storm_failures(result),
        _model(result),
        *(_latency_beside_java(result, store) for store in _STORES),
        *(_latency_with_others(result, store) for store in _STORES),
    ]


_STORES: Final = ("config", "status", "offset")
_NOT_MEASURED: Final = "not measured"


def _median(result: StartupResult, scenario: str, contender: str, warmth: Warmth) -> float | None:
    found = spread(
        value
        for starts in result.starts
        if (starts.scenario, normal_name(starts.contender), starts.warmth) == (scenario, contender, warmth)
        for value in starts.seconds
    )
    return None if found is None else found.median


def _not_measured(result: StartupResult, sentence: str, target: str, contender: str = "") -> Goal:
    return Goal(sentence, target, result.missing.get(contender, _NOT_MEASURED), None)


def _at_least(
    result: StartupResult, sentence: str, scenario: str, *, contender: str, warmth: Warmth, least: float
) -> Goal:
    """Another contender's median is at least so many times ours of the same warmth."""
    target = f"at least {least:g} times"
    ours, other = _median(result, scenario, "python", warmth), _median(result, scenario, contender, warmth)
    if ours is None or other is None:
        return _not_measured(result, sentence, target, contender)
    return Goal(sentence, target, f"{ratio(other / ours)} times", other / ours >= least)


def _large_beside_jar(result: StartupResult) -> Goal:
    sentence = "1,000 groups, warm: time of our stores beside Java's with the sharing jar"
    target = f"at most {LARGE_JAR:g} times"
    ours, jar = _median(result, LARGE, "python", "warm"), _median(result, LARGE, "java-jar", "warm")
    if ours is None or jar is None:
        return _not_measured(result, sentence, target, "java-jar")
    return Goal(sentence, target, f"{ratio(ours / jar)} times", ours / jar <= LARGE_JAR)


def _checkpoint(result: StartupResult) -> Goal:
    sentence = "1,000 groups, cold: time of a full read beside a start from a checkpoint with 1 % new records"
    target = f"at least {CHECKPOINT:g} times"
    full, short = (_median(result, LARGE, contender, "cold") for contender in ("python", "python-checkpoint"))
    if full is None or short is None:
        return _not_measured(result, sentence, target, "python-checkpoint")
    return Goal(sentence, target, f"{ratio(full / short)} times", full / short >= CHECKPOINT)


def _peak(result: StartupResult, scenario: str) -> float | None:
    peaks = [
        peak
        for starts in result.starts
        if (starts.scenario, normal_name(starts.contender), starts.warmth) == (scenario, "python", "cold")
        for peak in starts.peak_bytes
    ]
    return statistics.median(peaks) if peaks else None


def _memory(result: StartupResult) -> Goal:
    sentence = "1,000 groups: memory of a start beyond what a group alone on its topics needs"
    target = f"under {size(MEMORY_BYTES)}"
    large, small = _peak(result, LARGE), _peak(result, SMALL)
    if large is None:
        return _not_measured(result, sentence, target)
    growth = max(0.0, large - (small or 0.0))
    return Goal(sentence, target, size(growth), growth < MEMORY_BYTES)


def _storms(result: StartupResult) -> list[tuple[float, float, int]]:
    """Wall seconds side by side and one after another, and failures, of storms of the size that counts."""
    found = []
    for storm in result.storms:
        if storm.starts == STORM_STARTS and storm.at_once > 1:
            alone = [
                other.wall_seconds
                for other in result.storms
                if (other.scenario, other.starts, other.at_once) == (storm.scenario, storm.starts, 1)
            ]
            if alone:
                found.append((storm.wall_seconds, alone[0], storm.failed))
    return found


def _storm_ratio(result: StartupResult) -> Goal:
    sentence = f"storm of {STORM_STARTS} starts: time side by side beside that of one after another"
    target = f"at most {STORM:g} times"
    found = _storms(result)
    if not found:
        return _not_measured(result, sentence, target)
    worst = max(wall / alone for wall, alone, _ in found)
    return Goal(sentence, target, f"{ratio(worst)} times", worst <= STORM)


def _storm_failures(result: StartupResult) -> Goal:
    sentence = f"storm of {STORM_STARTS} starts: those that fail"
    found = _storms(result)
    if not found:
        return _not_measured(result, sentence, "none")
    failed = sum(failed for _, _, failed in found)
    return Goal(sentence, "none", str(failed) if failed else "none", failed == 0)


def _model(result: StartupResult) -> Goal:
    sentence = "the cost model predicts a size that it was not fitted on"
    target = f"within {MODEL:.0%}"
    errors = [
        abs(each.predicted_seconds / each.measured_seconds - 1)
        for each in result.predictions
        if each.measured_seconds > 0
    ]
    if not errors:
        return _not_measured(result, sentence, target)
    worst = max(errors)
    return Goal(sentence, target, f"off by {worst:.0%} at most ({len(errors)} sizes)", worst <= MODEL)


def _p50(result: StartupResult, contender: str, store: str, groups: Callable[[int], bool]) -> float | None:
    values: Sequence[float] = [
        value
        for latency in result.latencies
        if normal_name(latency.contender) == contender and latency.store == store and groups(latency.groups)
        for value in latency.seconds
    ]
    return statistics.median(values) if values else None


def _latency_beside_java(result: StartupResult, store: str) -> Goal:
    sentence = f"put to read-back of the {store} store, p50: ours beside Java's"
    ours, java = (_p50(result, contender, store, lambda groups: groups == 1) for contender in ("python", "java"))
    if ours is None or java is None:
        return _not_measured(result, sentence, "at most 1 times", "java")
    return Goal(sentence, "at most 1 times", f"{ratio(ours / java)} times", ours <= java)


def _latency_with_others(result: StartupResult, store: str) -> Goal:
    sentence = f"put to read-back of the {store} store, p50: {MANY_GROUPS} groups that write, beside one group alone"
    target = f"at most {WRITING:g} times"
    alone = _p50(result, "python", store, lambda groups: groups == 1)
    many = _p50(result, "python", store, lambda groups: groups >= MANY_GROUPS)
    if alone is None or many is None:
        return _not_measured(result, sentence, target)
    return Goal(sentence, target, f"{ratio(many / alone)} times", many / alone <= WRITING)
