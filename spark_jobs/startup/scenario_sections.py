"""Parts of the report that show scenarios one by one: the KIP's table beside ours, and scenarios that no other part shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from spark_jobs.startup.document import Block, Figure, Prose, Section, Table
from spark_jobs.startup.figures import KIP, STORES, WARMTHS, Measured, measured, ratios, scenario_of
from spark_jobs.startup.names import OURS, contender_label, contender_look, normal_name
from spark_jobs.startup.plots import Row, row_plot
from spark_jobs.startup.result import Scenario, StartupResult
from spark_jobs.startup.units import duration, durations, milliseconds, ratio, size

KIP_CONFIG: Final = "about 500"
KIP_STATUS: Final = "400–500"
"""Milliseconds that KIP-1173 itself gives."""

_NOTES: Final = {"cold": "The first start of a new process.", "warm": "Later starts of the same process."}


def kip_section(result: StartupResult) -> Section | None:
    """Give the KIP's table beside ours."""
    found = measured(result, KIP)
    if not found:
        return None
    theirs = ("KIP-1173's own figures", "", "", KIP_CONFIG, KIP_STATUS, "", "", "", "")
    return Section(
        "The KIP's table, beside ours",
        (
            *_ready_plots(result, KIP, found),
            _ready_table(found, (theirs,)),
            Prose(
                "Milliseconds, medians with the fastest and the slowest start. KIP-1173 gives one figure a topic and no "
                "machine; ratios carry over to other machines, milliseconds do not. Stores that start one after the other "
                "are timed from the begin of each.",
                dim=True,
            ),
        ),
    )


def other_section(result: StartupResult, shown: Collection[str]) -> Section | None:
    """Give the scenarios that no other part shows."""
    blocks: list[Block] = []
    for name in dict.fromkeys(starts.scenario for starts in result.starts):
        found = [] if name in shown else measured(result, name)
        if found:
            blocks += [*_ready_plots(result, name, found), _ready_table(found)]
    return Section("Other scenarios", tuple(blocks)) if blocks else None


def _ready_plots(result: StartupResult, name: str, found: Sequence[Measured]) -> list[Block]:
    scenario = scenario_of(result, name)
    blocks: list[Block] = [Prose(f"{name}:" if scenario is None else described(scenario))]
    for warmth in WARMTHS:
        rows = [_start_row(each, contender_label(each.contender)) for each in found if each.warmth == warmth]
        if rows:
            title = f"All three stores ready, {warmth}"
            blocks.append(
                Figure(title, row_plot(title, rows), f"{_NOTES[warmth]} A dot is a start, the stroke their median.")
            )
    return blocks


def described(scenario: Scenario) -> str:
    """Say what lies in the topics of a scenario."""
    parts = "; ".join(
        f"{topic} {records:,} records, {size(total)}, {scenario.partitions.get(topic, '?')} "
        f"{'partition' if scenario.partitions.get(topic) == 1 else 'partitions'}"
        for topic, records, total in (
            ("config", scenario.config_records, scenario.config_bytes),
            ("status", scenario.status_records, scenario.status_bytes),
            ("offset", scenario.offset_records, scenario.offset_bytes),
        )
    )
    return f"{scenario.title}: {parts}."


def _start_row(each: Measured, label: str) -> Row:
    total = each.total
    value = durations(total.median, total.low, total.high) if total.n > 1 else duration(total.median)
    return Row(label, value, contender_look(each.contender), dots=total.values, middle=total.median)


def _ready_table(found: Sequence[Measured], first: tuple[tuple[object, ...], ...] = ()) -> Table:
    times = {(each.other.contender, each.other.warmth): ratio(each.value) for each in ratios(found)}
    rows: list[tuple[object, ...]] = list(first)
    for each in found:
        total = each.total
        rows.append(
            (
                each.title,
                times.get((each.contender, each.warmth), "1" if normal_name(each.contender) == OURS else ""),
                f"{milliseconds(total.median)} ({milliseconds(total.low)}–{milliseconds(total.high)})",
                *(milliseconds(each.topics[store].median) if store in each.topics else "" for store in STORES),
                *cost(each),
                total.n,
            )
        )
    titles = ("what", "× ours", "all three", *STORES, "CPU", "memory", "starts")
    return Table(titles, tuple(rows), frozenset(range(1, len(titles))))


def cost(each: Measured) -> tuple[str, str]:
    """Give median CPU milliseconds and memory of a start, empty where they were not measured."""
    return (
        "" if each.cpu_seconds is None else milliseconds(each.cpu_seconds),
        "" if each.peak_bytes is None else size(max(0.0, each.peak_bytes)),
    )
