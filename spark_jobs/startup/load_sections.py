"""Parts of the report about many workers at once and running stores: the storm, latency; and how all was measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from spark_jobs.bar_plot import Bar, Segment, bar_plot
from spark_jobs.startup.document import Block, Figure, Points, Prose, Section, Table
from spark_jobs.startup.figures import STORES, Spread, drawable, scenario_title, spread
from spark_jobs.startup.names import (
    OURS,
    Look,
    contender_label,
    contender_look,
    contender_order,
    contender_title,
    normal_name,
)
from spark_jobs.startup.plots import Row, row_plot
from spark_jobs.startup.result import Latency, StartupResult, Storm
from spark_jobs.startup.units import duration, milliseconds, ratio, size

_STRIP_DOTS: Final = 40
_JAVA: Final = "java"


def processors_of(result: StartupResult) -> int | None:
    """Give how many processors the machine had, if the result says it."""
    number = result.machine.get("processors")
    return number if isinstance(number, int) and number > 0 else None


def storms_of(result: StartupResult) -> list[list[Storm]]:
    """Give the storms by scenario and number of starts, fewest at once first."""
    groups: dict[tuple[str, int], list[Storm]] = {}
    for storm in result.storms:
        groups.setdefault((storm.scenario, storm.starts), []).append(storm)
    return [sorted(group, key=lambda storm: storm.at_once) for _, group in sorted(groups.items())]


def storm_times(storm: Storm, group: Sequence[Storm]) -> float | None:
    """Give the wall time against that of the same starts one after another."""
    alone = next((other for other in group if other.at_once == 1), None)
    if alone is None or alone is storm or not (drawable(alone.wall_seconds) and drawable(storm.wall_seconds)):
        return None
    return storm.wall_seconds / alone.wall_seconds


def how_many_at_once(storm: Storm) -> str:
    """Say how the starts of a storm ran."""
    if storm.at_once == 1:
        return "one after another"
    return "all at once" if storm.at_once >= storm.starts else f"{storm.at_once:,} at once"


def storm_section(result: StartupResult) -> Section | None:
    """Give the distributions of many starts, and what they cost together."""
    groups = storms_of(result)
    if not groups:
        return None
    processors = processors_of(result)
    machine = "as many starts as the machine has processors" if processors is None else f"{processors} at once"
    blocks: list[Block] = [
        Prose(
            f"Above {machine} a start waits for a processor: what its time shows then is queueing, not latency. "
            "Compare wall time and CPU there."
        ),
        Prose("A row rises from the fastest start to the slowest; the stroke is the median.", dim=True, of_plots=True),
    ]
    rows: list[tuple[object, ...]] = []
    for group in groups:
        where = scenario_title(result, group[0].scenario)
        title = f"{group[0].starts:,} starts: how long each took"
        lines = [_storm_row(storm, processors) for storm in group if spread(storm.seconds)]
        if lines:
            blocks.append(Figure(title, row_plot(title, lines, rising=True), where))
        bars = [_storm_bar(storm, group) for storm in group if drawable(storm.wall_seconds)]
        if bars:
            title = f"{group[0].starts:,} starts: until all were up"
            blocks.append(Figure(title, bar_plot(title, bars), where))
        rows += (_storm_cells(result, storm, group) for storm in group)
    titles = (
        "scenario",
        "starts",
        "at once",
        "× one by one",
        "wall, s",
        "starts/s",
        "CPU a start",
        "p50",
        "p90",
        "p99",
    )
    table = Table(
        (*titles, "failed"), tuple(rows), frozenset(range(1, 11)), folded="Storms: the figures, in milliseconds"
    )
    return Section("The storm", (*blocks, table))


def _storm_row(storm: Storm, processors: int | None) -> Row:
    seconds = Spread(tuple(value for value in storm.seconds if drawable(value)))
    queueing = ", queueing" if processors is not None and storm.at_once > processors else ""
    value = f"p50 {duration(seconds.median)} · p99 {duration(seconds.percentile(0.99))}"
    look = Look(6) if queueing else Look(1) if storm.at_once > 1 else Look(3)
    return Row(f"{how_many_at_once(storm)}{queueing}", value, look, seconds.values, seconds.median)


def _storm_bar(storm: Storm, group: Sequence[Storm]) -> Bar:
    times = storm_times(storm, group)
    shown = duration(storm.wall_seconds)
    cpu = _cpu(storm)
    value = " · ".join(
        part
        for part in ("" if times is None else f"{ratio(times)} ×", shown, f"{cpu} ms CPU a start" if cpu else "")
        if part
    )
    return Bar(how_many_at_once(storm), value, (Segment(storm.wall_seconds, shown, 3 if storm.at_once == 1 else 1),))


def _cpu(storm: Storm) -> str:
    each = storm.cpu_seconds / storm.starts if storm.starts > 0 else 0.0
    return milliseconds(each) if drawable(each) else ""


def _storm_cells(result: StartupResult, storm: Storm, group: Sequence[Storm]) -> tuple[object, ...]:
    times, seconds = storm_times(storm, group), spread(storm.seconds)
    wall = storm.wall_seconds if drawable(storm.wall_seconds) else None
    return (
        scenario_title(result, storm.scenario),
        storm.starts,
        storm.at_once,
        "" if times is None else ratio(times),
        "" if wall is None else f"{wall:,.2f}",
        "" if wall is None else f"{(storm.starts - storm.failed) / wall:,.1f}",
        _cpu(storm),
        "" if seconds is None else milliseconds(seconds.median),
        *("" if seconds is None else milliseconds(seconds.percentile(share)) for share in (0.9, 0.99)),
        storm.failed,
    )


def latencies_of(result: StartupResult) -> list[tuple[Latency, Spread]]:
    """Give the latencies that hold something: by store, number of groups and contender."""
    found = [(latency, seconds) for latency in result.latencies if (seconds := spread(latency.seconds))]
    return sorted(
        found, key=lambda each: (STORES.index(each[0].store), each[0].groups, contender_order(each[0].contender))
    )


def latency_section(result: StartupResult) -> Section | None:
    """Give put to read-back of the running stores."""
    found = latencies_of(result)
    if not found:
        return None
    blocks: list[Block] = [
        Prose("From a put until a read shows it, with one group and with more groups that write to the same topics."),
        Prose("The stroke is the median, the bar reaches from there to the 99th percentile.", dim=True, of_plots=True),
    ]
    rows: list[tuple[object, ...]] = []
    for store in STORES:
        lines = [_latency_row(latency, seconds) for latency, seconds in found if latency.store == store]
        if lines:
            title = f"The {store} store"
            blocks.append(Figure(title, row_plot(f"{title}: put to read-back", lines)))
    java = {(each.store, each.groups): seconds for each, seconds in found if normal_name(each.contender) == _JAVA}
    alone = {(each.store, each.contender): seconds for each, seconds in found if each.groups == 1}
    for each, seconds in found:
        beside = java.get((each.store, each.groups)) if normal_name(each.contender) == OURS else None
        one = alone.get((each.store, each.contender)) if each.groups > 1 else None
        rows.append(
            (
                each.store,
                each.groups,
                _who(each),
                "" if beside is None else ratio(seconds.median / beside.median),
                "" if one is None else ratio(seconds.median / one.median),
                milliseconds(seconds.median),
                milliseconds(seconds.percentile(0.99)),
                seconds.n,
            )
        )
    titles = ("store", "groups", "what", "p50 × Java's", "p50 × one group's", "p50, ms", "p99, ms", "puts")
    table = Table(titles, tuple(rows), frozenset({1, 3, 4, 5, 6, 7}), folded="Latency: the figures")
    return Section("Put to read-back", (*blocks, table))


def _latency_row(latency: Latency, seconds: Spread) -> Row:
    ordered = sorted(seconds.values)
    step = max(1, len(ordered) // _STRIP_DOTS)
    p50, p99 = seconds.median, seconds.percentile(0.99)
    groups = "1 group" if latency.groups == 1 else f"{latency.groups:,} groups"
    return Row(
        f"{_who(latency)}, {groups}",
        f"p50 {duration(p50)} · p99 {duration(p99)}",
        contender_look(latency.contender),
        dots=tuple(value for value in ordered[step // 2 :: step] if value <= p99),
        middle=p50,
        span=(p50, max(p50, p99)),
    )


def _who(latency: Latency) -> str:
    """Name the stores; what their keys look like makes no difference here."""
    return "Java stores" if normal_name(latency.contender) == _JAVA else contender_label(latency.contender)


def measured_at(result: StartupResult) -> str:
    """Give the day and minute of the measurement; empty if the result does not say it."""
    try:
        when = datetime.fromtimestamp(result.measured_at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{when:%Y-%m-%d %H:%M} UTC" if result.measured_at_ms > 0 else ""


def method_section(result: StartupResult) -> Section:
    """Give how and on what was measured."""
    sentences = (
        "A time runs from the begin of a start until all three stores are ready; of a plain client until its last record.",
        "Cold is the first start of a new process, warm a later one of the same process.",
        "All contenders of a scenario read the same topics of the same broker, which runs on the same machine.",
        "Figures are medians, with the fastest and the slowest start. Ratios are of medians.",
    )
    blocks: list[Block] = [Points(sentences)]
    if result.missing:
        blocks.append(
            Points(
                tuple(f"Not measured: {contender_title(name)}: {why}" for name, why in sorted(result.missing.items()))
            )
        )
    when = measured_at(result)
    facts: list[tuple[object, ...]] = [("measured", when)] if when else []
    for name, value in result.machine.items():
        is_size = name.endswith("_bytes") and isinstance(value, int) and value >= 0
        facts.append((name.removesuffix("_bytes").replace("_", " "), size(value) if is_size else value))
    facts += ((f"version of {name}", version) for name, version in result.versions.items())
    if facts:
        blocks.append(Table(("what", "is"), tuple(facts)))
    return Section("How and on what this was measured", tuple(blocks))
