"""Compare two results of the start-up benchmark: of two versions on one machine, or of two machines.

Compares the pairs of the report that both results have, by the ratios of their rounds. Both sides of a ratio were measured
side by side, so it holds between machines, and on one whose speed drifts. A dozen pairs decide.

Exit codes: 0 same, 1 a pair differs, 2 failed, or the results cannot be compared.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from spark_jobs import command_line
from spark_jobs.benchmark.results import Scenario, StartupResult, read
from tests.lab.benchmarks.startup.pairs import PAIRS, Compared, compared
from tests.lab.benchmarks.startup.statistics import ALARM, FEWEST, chance
from tests.lab.benchmarks.startup.view import with_interval
from tests.lab.units import ratio

_SAME: Final = math.log(1.1)
"""A ratio within 10 % of 1 is no difference, whatever the spread is."""

_LEVEL: Final = ALARM / sum(pair.decides for pair in PAIRS)
_MACHINE: Final = ("processors", "architecture", "memory_bytes", "system", "cluster", "python", "java")


@dataclass(frozen=True, slots=True)
class Row:
    """One pair in both results."""

    before: Compared
    after: Compared

    @property
    def ratio(self) -> float:
        """How many times as large the pair's figure is."""
        return self.after.ratios.median / self.before.ratios.median

    @property
    def verdict(self) -> str:
        """In a word: ``shown`` is a pair that does not decide."""
        if not self.before.pair.decides:
            return "shown"
        if abs(math.log(self.ratio)) <= _SAME:
            return "same"
        before, after = self.before.ratios.values, self.after.ratios.values
        if min(len(before), len(after)) < FEWEST:
            return "too few rounds"
        if chance(before, after) >= _LEVEL:
            return "same"
        return "**larger**" if self.ratio > 1 else "**smaller**"

    @property
    def differs(self) -> bool:
        """Whether it decides, and is not the same."""
        return self.verdict.startswith("**")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two results have in common.

    Attributes:
        facts: what of machine and versions differs: name, before, after.
        left_out: titles of pairs that one of the results has, or has with other records.
    """

    facts: tuple[tuple[str, str, str], ...]
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether a pair that decides differs."""
        return any(row.differs for row in self.rows)


def compare(before: StartupResult, after: StartupResult) -> Comparison:
    """Compare the pairs that both results have, measured on the same records; ``ConfigError`` if none can be judged."""
    records = [{each.name: _records(each) for each in result.scenarios} for result in (before, after)]
    left, right = ({each.pair.title: each for each in compared(result)} for result in (before, after))
    both = [
        title
        for title in left
        if title in right and records[0].get(left[title].scenario) == records[1].get(right[title].scenario)
    ]
    rows = tuple(Row(left[title], right[title]) for title in both)
    if not any(row.before.pair.decides for row in rows):
        raise ConfigError(
            "the two results have no pair in common that decides, or the records of their scenarios differ; measure both "
            "with the same --suite, and all contenders"
        )
    found = Comparison(tuple(_facts(before, after)), rows, tuple((left.keys() ^ right.keys()) | left.keys() - both))
    if not found.differs and any(row.verdict == "too few rounds" for row in rows):
        raise ConfigError(f"a pair differs, but {FEWEST} rounds are needed to judge it; measure with more --rounds")
    return found


def _records(scenario: Scenario) -> object:
    return scenario.model_dump(exclude={"title", "series"})


def _facts(before: StartupResult, after: StartupResult) -> Iterator[tuple[str, str, str]]:
    """Yield what machine and versions differ in."""
    sides = [
        {name.replace("_", " "): result.machine.get(name) for name in _MACHINE}
        | {f"version of {name}": version for name, version in result.versions.items()}
        for result in (before, after)
    ]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        here, there = (str(side.get(name, "-")) for side in sides)
        if here != there:
            yield name, here, there


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as Markdown that a terminal can show, too."""
    if comparison.facts:
        yield "| what differs | before | after |"
        yield "| --- | --- | --- |"
        yield from (f"| {' | '.join(fact)} |" for fact in comparison.facts)
        yield ""
    yield "| pair | before, times (95 %) | after, times (95 %) | after / before | |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for row in comparison.rows:
        figures = (*(with_interval(each.ratios, ratio) for each in (row.before, row.after)), ratio(row.ratio))
        yield f"| {row.before.pair.title} | {' | '.join(figures)} | {row.verdict} |"
    yield ""
    decide = sum(row.before.pair.decides for row in comparison.rows)
    found = sum(row.differs for row in comparison.rows)
    yield f"Different: {found} of {decide} pairs that decide." if found else f"Same: {decide} pairs that decide."
    if comparison.left_out:
        yield ""
        yield "Not compared, because only one result has them or their records differ:"
        yield from (f"- {title}" for title in sorted(comparison.left_out))


def _body(options: argparse.Namespace) -> int:
    found = compare(read(options.before), read(options.after))
    print(*comparison_lines(found), sep="\n")
    return 1 if found.differs else 0


def main(argv: Sequence[str]) -> int:
    """Compare. As diff: 0 same, 1 a pair differs, 2 failed, or the results cannot be compared."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.startup.comparison", description=__doc__)
    arguments.add_argument("before", type=Path, help="JSON file of a benchmark (--result)")
    arguments.add_argument("after", type=Path, help="another one")
    return command_line.run(arguments.parse_args(argv), _body, failed=2)


if __name__ == "__main__":
    command_line.exit_with(main)
