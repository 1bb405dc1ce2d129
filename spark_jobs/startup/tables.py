"""Rows of the tables of the start-up benchmark's report; what was not measured is an empty cell."""

from __future__ import annotations

from spark_jobs.startup.growth import Growth
from spark_jobs.startup.view import OURS, STORES, Measured, MeasuredLatency, MeasuredScenario, MeasuredStorm
from spark_jobs.units import milliseconds, ratio, size

Row = tuple[object, ...]


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else milliseconds(seconds)


def _ratio(value: float | None) -> str:
    return "" if value is None else ratio(value)


def starts_row(each: Measured) -> Row:
    """Return the figures of one contender."""
    total = each.total
    return (
        each.title,
        "1" if each.contender == OURS else _ratio(each.times),
        f"{milliseconds(total.median)} ({milliseconds(total.low)}–{milliseconds(total.high)})",
        *(milliseconds(each.topics[store].median) if store in each.topics else "" for store in STORES),
        _milliseconds(each.cpu_seconds),
        "" if each.peak_bytes is None else size(max(0.0, each.peak_bytes)),
        total.n,
    )


def growth_row(growth: Growth, x: float, scenario: MeasuredScenario, each: Measured) -> Row:
    """Return the figures of one contender at one size."""
    title, *figures = starts_row(each)
    return (growth.dimension.write(x), title, scenario.records, size(scenario.bytes), *figures)


def phase_titles(scenario: MeasuredScenario) -> tuple[str, ...]:
    """Return the names of the parts of a start."""
    return tuple(phase.replace("_", " ") for phase in scenario.phases)


def phases_row(scenario: MeasuredScenario, each: Measured) -> Row:
    """Return the parts of one contender's start and their sum."""
    parts = [each.phases.get(phase, 0.0) for phase in scenario.phases]
    return (each.title, *map(milliseconds, parts), milliseconds(sum(parts)))


def storm_row(each: MeasuredStorm) -> Row:
    """Return the figures of one storm."""
    wall_s, seconds = each.wall_seconds, each.seconds
    return (
        each.storm.starts,
        each.storm.at_once,
        _ratio(each.times),
        "" if wall_s is None else f"{wall_s:,.2f}",
        "" if wall_s is None else f"{(each.storm.starts - each.storm.failed) / wall_s:,.1f}",
        _milliseconds(each.cpu_seconds),
        *("" if seconds is None else milliseconds(seconds.percentile(share)) for share in (0.5, 0.9, 0.99)),
        each.storm.failed,
    )


def latency_row(each: MeasuredLatency) -> Row:
    """Return the figures of the puts into one store."""
    return (
        each.latency.store,
        each.label,
        each.latency.groups,
        _ratio(each.beside_java),
        _ratio(each.beside_one_group),
        milliseconds(each.seconds.median),
        milliseconds(each.seconds.percentile(0.99)),
        each.seconds.n,
    )
