"""Two results of the start-up benchmark side by side: of two versions on one machine, or of two machines. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.errors import ConfigError
from spark_jobs.startup.result import Scenario, Starts, StartupResult
from spark_jobs.startup.view import contender_order, look_of
from spark_jobs.units import milliseconds, ratio

BARE: Final = "librdkafka"
_SAME: Final = 0.1
"""A ratio within 10 % of 1 is no difference, whatever the spread is."""

_MACHINE: Final = ("processors", "architecture", "memory_bytes", "system", "cluster")


@dataclass(frozen=True, slots=True)
class Row:
    """One contender's starts in one scenario, in both results.

    Attributes:
        scenario: its name.
        contender: its name.
        warmth: ``cold`` or ``warm``.
        before, after: median seconds.
        bare_before, bare_after: the same as a multiple of bare librdkafka in the same run; ``None`` where it is not measured.
        ratio: after to before; on two machines that of the multiples.
        differs: the ratio is not near 1, and the middle halves of the starts do not meet.
    """

    scenario: str
    contender: str
    warmth: str
    before: float
    after: float
    bare_before: float | None
    bare_after: float | None
    ratio: float | None
    differs: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two results have in common.

    Attributes:
        same_machine: whether milliseconds can be compared; otherwise only multiples of bare librdkafka can.
        rows: by scenario and contender.
        left_out: names of scenarios that one of the results has, or has with other records.
    """

    same_machine: bool
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether a row differs."""
        return any(row.differs for row in self.rows)


def compare(before: StartupResult, after: StartupResult) -> Comparison:
    """Compare the starts that both results have, scenario by scenario.

    Raises:
        ConfigError: they have no scenario in common.
    """
    here, there = ({each.name: each for each in result.scenarios} for result in (before, after))
    names = [name for name in here if name in there and _records(here[name]) == _records(there[name])]
    same = _machine(before) == _machine(after)
    rows = [row for name in names for row in _rows(name, before, after, same)]
    if not rows:
        raise ConfigError(
            "the two results have no scenario and contender in common; measure both with the same --suite"
        )
    left_out = sorted((here.keys() | there.keys()) - set(names))
    return Comparison(same, tuple(rows), tuple(left_out))


def _records(scenario: Scenario) -> object:
    return scenario.model_dump(exclude={"title", "series"})


def _machine(result: StartupResult) -> dict[str, object]:
    return {name: result.machine.get(name) for name in _MACHINE}


def _rows(scenario: str, before: StartupResult, after: StartupResult, same_machine: bool) -> Iterator[Row]:
    left, right = _starts(before, scenario), _starts(after, scenario)
    for contender, warmth in sorted(left.keys() & right.keys(), key=lambda key: (contender_order(key[0]), key[1])):
        one, other = left[contender, warmth], right[contender, warmth]
        first, second = statistics.median(one), statistics.median(other)
        bare, other_bare = _bare(left, warmth), _bare(right, warmth)
        scale, other_scale = (1.0, 1.0) if same_machine else (bare, other_bare)
        found, differs = None, False
        if scale and other_scale:
            found = second / other_scale / (first / scale)
            is_apart = _apart([each / scale for each in one], [each / other_scale for each in other])
            differs = is_apart and abs(found - 1) > _SAME
        multiple, other_multiple = first / bare if bare else None, second / other_bare if other_bare else None
        yield Row(scenario, contender, warmth, first, second, multiple, other_multiple, found, differs)


def _starts(result: StartupResult, scenario: str) -> dict[tuple[str, str], list[float]]:
    def is_whole(each: Starts) -> bool:
        return each.scenario == scenario and bool(each.seconds) and min(each.seconds) > 0

    return {(each.contender, each.warmth): each.seconds for each in result.starts if is_whole(each)}


def _bare(starts: dict[tuple[str, str], list[float]], warmth: str) -> float | None:
    found = starts.get((BARE, warmth))
    return None if found is None else statistics.median(found)


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether the middle halves of two samples do not meet."""
    (low, high), (other_low, other_high) = _middle(one), _middle(other)
    return high < other_low or other_high < low


def _middle(values: Sequence[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return quarters[0], quarters[2]


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as Markdown that a terminal can show, too."""
    if not comparison.same_machine:
        yield "Two machines or clusters: milliseconds cannot be compared. The ratio is that of multiples of bare librdkafka."
        yield ""
    yield "| scenario | start | before, ms | after, ms | before, x bare | after, x bare | ratio | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for row in comparison.rows:
        multiples = ("-" if each is None else ratio(each) for each in (row.bare_before, row.bare_after))
        figures = (
            milliseconds(row.before),
            milliseconds(row.after),
            *multiples,
            "-" if row.ratio is None else ratio(row.ratio),
        )
        verdict = "" if not row.differs or row.ratio is None else "**slower**" if row.ratio > 1 else "**sooner**"
        yield f"| {row.scenario} | {look_of(row.contender).label}, {row.warmth} | {' | '.join(figures)} | {verdict} |"
    if comparison.left_out:
        yield ""
        yield f"Not compared, because only one result has them or their records differ: {', '.join(comparison.left_out)}."
