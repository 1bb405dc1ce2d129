"""Pairs of scenarios that differ in one setting of the topics, and what that does to a start."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.result import Scenario, StartupResult
from spark_jobs.startup.view import Measured, MeasuredScenario, bytes_of, records_of


@dataclass(frozen=True, slots=True)
class Pair:
    """One contender without a setting and with it."""

    without: Measured
    having: Measured

    @property
    def times(self) -> float:
        """The ratio of a start with the setting to one without."""
        return self.having.total.median / self.without.total.median


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two scenarios that differ in one setting; the title names both sides."""

    title: str
    without: MeasuredScenario
    having: MeasuredScenario
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting of the topics.

    Attributes:
        of: its value in a scenario.
        usual: the value that most scenarios have.
        reversed: the usual value is the side with the setting.
    """

    of: Callable[[Scenario], object]
    usual: object
    title: str
    reversed: bool = False


_SETTINGS: Final = (
    _Setting(lambda each: each.compacted, usual=False, title="Compacted against dirty"),
    _Setting(lambda each: each.shared, usual=True, title="Shared against dedicated", reversed=True),
    _Setting(lambda each: each.compression, usual="none", title="Compressed with {} against uncompressed"),
    _Setting(
        lambda each: each.transactions, usual=False, title="In transactions, read committed, against plain records"
    ),
)


def contrasts(result: StartupResult, scenarios: Mapping[str, MeasuredScenario]) -> list[Contrast]:
    """Return each scenario with a setting beside the nearest one without, where a contender was measured on both."""
    found = []
    for setting in _SETTINGS:
        for scenario in result.scenarios:
            value = setting.of(scenario)
            partner = None if value == setting.usual else _partner(result, scenarios, scenario, setting)
            if partner is not None:
                names = (scenario.name, partner.name) if setting.reversed else (partner.name, scenario.name)
                without, having = (scenarios[name] for name in names)
                found.append(Contrast(setting.title.format(value), without, having, _pairs(without, having)))
    return found


def _pairs(without: MeasuredScenario, having: MeasuredScenario) -> tuple[Pair, ...]:
    return tuple(
        Pair(each, other) for each in without.starts if (other := having.find(each.contender, each.warmth)) is not None
    )


def _partner(
    result: StartupResult, scenarios: Mapping[str, MeasuredScenario], scenario: Scenario, setting: _Setting
) -> Scenario | None:
    """Return the scenario with the usual value, all other settings alike, whose groups are most alike."""
    candidates = [
        other
        for other in result.scenarios
        if setting.of(other) == setting.usual
        and all(each.of(other) == each.of(scenario) for each in _SETTINGS if each is not setting)
        and other.jobs == scenario.jobs
        and (setting.reversed or other.groups == scenario.groups)
        and {scenario.name, other.name} <= scenarios.keys()
        and _pairs(scenarios[scenario.name], scenarios[other.name])
    ]
    return min(
        candidates,
        key=lambda other: (
            _distance(records_of(other) / max(1, other.groups), records_of(scenario) / max(1, scenario.groups)),
            _distance(bytes_of(other) / max(1, other.groups), bytes_of(scenario) / max(1, scenario.groups)),
            other.name,
        ),
        default=None,
    )


def _distance(first: float, second: float) -> float:
    """Return how far two sizes are apart, whichever is the larger one."""
    return abs(math.log(max(1.0, first) / max(1.0, second)))
