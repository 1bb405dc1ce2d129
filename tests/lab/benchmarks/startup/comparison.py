"""Compare two results of the start-up benchmark: of two versions on one machine, or of two machines.

Shows medians of all starts that both have, and which of them differ by more than their spread. On one machine milliseconds
are compared, on two machines multiples of bare librdkafka in the same run.

Exit codes: 0 same within the spread, 1 a start differs, 2 failed, or the results cannot be compared.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from spark_jobs import command_line
from spark_jobs.benchmark.results import Scenario, StartupResult, Warmth, read
from tests.lab.benchmarks.startup.view import MeasuredScenario, look_of, measured_scenarios
from tests.lab.units import milliseconds, ratio

BARE: Final = "librdkafka"
_SAME: Final = math.log(1.1)
"""A ratio within 10 % of 1 is no difference, whatever the spread is."""

FEWEST: Final = 3
"""Starts that are needed to see a spread."""

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
        differs: the ratio is not near 1, and the middle halves of the starts do not meet; ``None``: it cannot be judged.
    """

    scenario: str
    contender: str
    warmth: str
    before: float
    after: float
    bare_before: float | None
    bare_after: float | None
    ratio: float | None
    differs: bool | None

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.differs is None or self.ratio is None:
            return "" if self.ratio is None else "too few starts"
        return "same" if not self.differs else "**slower**" if self.ratio > 1 else "**sooner**"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two results have in common.

    Attributes:
        same_machine: whether milliseconds can be compared; otherwise only multiples of bare librdkafka can.
        facts: what of machine and versions differs: name, before, after.
        rows: by scenario and contender.
        left_out: names of scenarios that one of the results has, or has with other records.
    """

    same_machine: bool
    facts: tuple[tuple[str, str, str], ...]
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether a row differs."""
        return any(row.differs for row in self.rows)


def compare(before: StartupResult, after: StartupResult) -> Comparison:
    """Compare the starts that both results have, scenario by scenario."""
    here, there = ({each.name: each for each in result.scenarios} for result in (before, after))
    names = [name for name in here if name in there and _records(here[name]) == _records(there[name])]
    same = _machine(before) == _machine(after)
    left, right = measured_scenarios(before), measured_scenarios(after)
    rows = [row for name in names if name in left and name in right for row in _rows(left[name], right[name], same)]
    if not rows:
        found = (", ".join(sorted(each)) or "none" for each in (left, right))
        raise ConfigError(
            f"the two results have no scenario and contender in common ({' against '.join(found)}), or the records of the "
            "scenarios differ; measure both with the same --suite"
        )
    if not any(row.differs is not None for row in rows):
        raise ConfigError(_unjudged(rows))
    left_out = sorted((here.keys() | there.keys()) - set(names))
    return Comparison(same, tuple(_facts(before, after)), tuple(rows), tuple(left_out))


def _unjudged(rows: Sequence[Row]) -> str:
    if all(row.ratio is None for row in rows):
        return (
            f"the results are of two machines or clusters, and have no start beside bare {BARE} in both: milliseconds of two "
            f"machines cannot be compared; measure both with --contenders python,{BARE}"
        )
    return (
        f"all starts were measured less than {FEWEST} times, so their spread is not known; measure with more --rounds"
    )


def _records(scenario: Scenario) -> object:
    return scenario.model_dump(exclude={"title", "series"})


def _machine(result: StartupResult) -> dict[str, object]:
    return {name: result.machine.get(name) for name in _MACHINE}


def _facts(before: StartupResult, after: StartupResult) -> Iterator[tuple[str, str, str]]:
    """Yield what machine and versions differ in."""
    left, right = (_machine(result) | {"python": result.machine.get("python")} for result in (before, after))
    for name in left:
        if left[name] != right[name]:
            yield name.replace("_", " "), str(left[name]), str(right[name])
    for name in sorted(before.versions.keys() | after.versions.keys()):
        versions = [result.versions.get(name, "-") for result in (before, after)]
        if versions[0] != versions[1]:
            yield f"version of {name}", versions[0], versions[1]


def _rows(left: MeasuredScenario, right: MeasuredScenario, same_machine: bool) -> Iterator[Row]:
    for each in left.starts:
        other = right.find(each.contender, each.warmth)
        if other is None:
            continue
        bare, other_bare = (_bare(scenario, each.warmth) for scenario in (left, right))
        first, second = each.total.median, other.total.median
        scale, other_scale = (1.0, 1.0) if same_machine else (bare, other_bare)
        found, differs = None, None
        # The multiple of itself is 1 everywhere.
        if scale and other_scale and (same_machine or each.contender != BARE):
            found = second / other_scale / (first / scale)
            one = [value / scale for value in each.total.values]
            two = [value / other_scale for value in other.total.values]
            if min(len(one), len(two)) >= FEWEST:
                differs = abs(math.log(found)) > _SAME and _apart(one, two)
        multiples = first / bare if bare else None, second / other_bare if other_bare else None
        yield Row(left.name, each.contender, each.warmth, first, second, *multiples, found, differs)


def _bare(scenario: MeasuredScenario, warmth: Warmth) -> float | None:
    found = scenario.find(BARE, warmth)
    return None if found is None else found.total.median


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether the middle halves of two samples do not meet."""
    (low, high), (other_low, other_high) = _middle(one), _middle(other)
    return high < other_low or other_high < low


def _middle(values: Sequence[float]) -> tuple[float, float]:
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return quarters[0], quarters[2]


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as Markdown that a terminal can show, too."""
    if not comparison.same_machine:
        yield "Two machines or clusters: milliseconds cannot be compared. The ratio is that of multiples of bare librdkafka."
        yield ""
    if comparison.facts:
        yield "| what differs | before | after |"
        yield "| --- | --- | --- |"
        yield from (f"| {' | '.join(fact)} |" for fact in comparison.facts)
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
        yield f"| {row.scenario} | {look_of(row.contender).label}, {row.warmth} | {' | '.join(figures)} | {row.verdict} |"
    yield ""
    found = [row for row in comparison.rows if row.differs]
    judged = sum(row.differs is not None for row in comparison.rows)
    yield f"Different: {len(found)} of {judged} starts." if found else f"Same within the spread: {judged} starts."
    if comparison.left_out:
        yield ""
        yield f"Not compared, because only one result has them or their records differ: {', '.join(comparison.left_out)}."


def _body(options: argparse.Namespace) -> int:
    found = compare(read(options.before), read(options.after))
    print(*comparison_lines(found), sep="\n")
    return 1 if found.differs else 0


def main(argv: Sequence[str]) -> int:
    """Compare. As diff: 0 same within the spread, 1 a start differs, 2 failed, or the results cannot be compared."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.startup.comparison", description=__doc__)
    arguments.add_argument("before", type=Path, help="JSON file of a benchmark (--result)")
    arguments.add_argument("after", type=Path, help="another one")
    return command_line.run(arguments.parse_args(argv), _body, failed=2)


if __name__ == "__main__":
    command_line.exit_with(main)
