"""Pairs of scenarios that differ in one setting of the topics, and what that does to a start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.figures import Measured, bytes_of, measured, records_of
from spark_jobs.startup.result import Scenario, StartupResult

_SAME_RECORDS: Final = 1.2
"""Scenarios whose records differ by more than this factor are no pair, where the setting leaves the records alone."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """What was measured with a setting beside what was measured without it.

    Attributes:
        title: names both sides.
        pairs: ``(without, with)`` of each contender that was measured on both.
    """

    title: str
    without: Scenario
    having: Scenario
    pairs: tuple[tuple[Measured, Measured], ...]


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting of the topics.

    Attributes:
        value: what a scenario has of it.
        plain: the value that most scenarios have.
        turned: the plain value is the side that is looked at, the other one the side to compare with.
        alters_records: the topics hold more or fewer records with it.
    """

    value: Callable[[Scenario], object]
    plain: object
    title: Callable[[Scenario], str]
    turned: bool = False
    alters_records: bool = False


_SETTINGS: Final = (
    _Setting(lambda each: each.compacted, plain=False, title=lambda _: "Compacted against dirty", alters_records=True),
    _Setting(
        lambda each: each.shared,
        plain=True,
        title=lambda _: "Shared against dedicated",
        turned=True,
        alters_records=True,
    ),
    _Setting(
        lambda each: each.compression,
        plain="none",
        title=lambda each: f"Compressed with {each.compression} against uncompressed",
    ),
    _Setting(
        lambda each: each.transactions,
        plain=False,
        title=lambda _: "In transactions, read committed, against plain records",
    ),
)


def contrasts(result: StartupResult) -> list[Contrast]:
    """Give every pair that a contender was measured on, each scenario with its nearest one without the setting."""
    found = []
    for setting in _SETTINGS:
        for scenario in result.scenarios:
            if setting.value(scenario) == setting.plain:
                continue
            partner = _partner(result, scenario, setting)
            if partner is None:
                continue
            without, having = (scenario, partner) if setting.turned else (partner, scenario)
            pairs = _pairs(result, without, having)
            if pairs:
                found.append(Contrast(setting.title(scenario), without, having, pairs))
    return found


def _pairs(result: StartupResult, without: Scenario, having: Scenario) -> tuple[tuple[Measured, Measured], ...]:
    other = {(each.contender, each.warmth): each for each in measured(result, having.name)}
    return tuple(
        (each, other[each.contender, each.warmth])
        for each in measured(result, without.name)
        if (each.contender, each.warmth) in other
    )


def _partner(result: StartupResult, scenario: Scenario, setting: _Setting) -> Scenario | None:
    candidates = [
        other
        for other in result.scenarios
        if setting.value(other) == setting.plain
        and all(each.value(other) == each.value(scenario) for each in _SETTINGS if each is not setting)
        and other.jobs == scenario.jobs
        and (setting.turned or other.groups == scenario.groups)
        and (setting.alters_records or _apart(records_of(other), records_of(scenario)) <= math.log(_SAME_RECORDS))
        and _pairs(result, scenario, other)
    ]
    return min(
        candidates,
        key=lambda other: (
            _apart(records_of(other) / max(1, other.groups), records_of(scenario) / max(1, scenario.groups)),
            _apart(bytes_of(other) / max(1, other.groups), bytes_of(scenario) / max(1, scenario.groups)),
            other.name,
        ),
        default=None,
    )


def _apart(first: float, second: float) -> float:
    """Tell how far two sizes are apart, whichever is the larger one."""
    return abs(math.log(max(1.0, first) / max(1.0, second)))
