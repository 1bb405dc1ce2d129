"""The page of Kafka's tests: what passed in which mode, and the evidence beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Final

from tests.lab.peers.result import Mode, Run

_TEMPLATE: Final = Path(__file__).with_name("page_template.md")
_MODES: Final = {
    Mode.PLAIN: "without the jar",
    Mode.SHARED: "with the jar, among records of other groups",
    Mode.SEALED: "the same, values sealed",
    Mode.MUTANT: "with a jar that takes the keys of other groups",
}


def page(runs: Sequence[Run]) -> str:
    """Return the whole page as Markdown."""
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        tests=_table(("Kafka", "workers", "tests", "passed", "minutes"), map(_tests_row, runs)),
        keys=_table(
            ("Kafka", "mode", "clusters", "workers", "own", "foreign", "plain", "other", "sharing stopped"),
            map(_keys_row, runs),
        ),
        differences="".join(_differences(runs)) or "None: each test had the same outcome in each mode.\n",
        measured="".join(f"- {line}\n" for line in dict.fromkeys(map(_measured, runs))),
    )


def _tests_row(run: Run) -> tuple[str, ...]:
    found = run.found
    passed = f"{found.passed} of {len(found.tests)}"
    if run.mode is Mode.MUTANT:
        passed += ": **noticed**" if found.failed else ": **not noticed**"
    elif not run.troubles:
        passed = f"**{passed}**"
    which = ", ".join(f"`{name}`" for name in run.classes) or "all"
    return run.kafka, _MODES[run.mode], which, passed, f"{found.seconds / 60:.0f}"


def _keys_row(run: Run) -> tuple[str, ...]:
    seen = run.found.evidence
    numbers = (seen.clusters, seen.workers, seen.own, seen.foreign, seen.plain, seen.other, seen.stopped)
    return run.kafka, run.mode, *(f"{number:,}" for number in numbers)


def _differences(runs: Sequence[Run]) -> Iterable[str]:
    for run in runs:
        where, found = f"{run.kafka}, {run.mode}", run.found
        if run.mode is Mode.MUTANT:
            continue
        yield from (f"- {where}: `{test.name}` failed: {_plain(test.trouble)}\n" for test in found.failed)
        yield from (f"- {where}: `{test.name}` was skipped by Kafka.\n" for test in found.tests if test.skipped)
        yield from (f"- {where}: `{name}` passed at the second try.\n" for name in found.again)
        yield from (f"- {where}: keys not counted of {_plain(text)}\n" for text in found.evidence.uncounted)
        if run.mode is Mode.SEALED:
            yield f"- {where}: {found.evidence.unsealed:,} own values were not sealed.\n"


def _plain(text: str) -> str:
    """Return a text of a program so that Markdown shows it as it is."""
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`"


def _measured(run: Run) -> str:
    return f"{run.measured_on}, connect-share {run.product}, {run.machine.title}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rows))
