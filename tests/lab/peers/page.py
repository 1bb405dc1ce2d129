"""The page of Kafka's tests: what passed in which mode, and the evidence beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import Final

from tests.lab.compatibility.page import table
from tests.lab.peers.result import Evidence, Mode, Result, Run

_TEMPLATE: Final = Path(__file__).with_name("page_template.md")
_HEADS: Final = (
    "tests",
    "passed",
    "clusters",
    "workers",
    "own",
    "foreign",
    "plain",
    "other",
    "sharing stopped",
    "minutes",
)


def page(result: Result) -> str:
    """Return the whole page as Markdown."""
    groups = [(kafka, mode) for kafka in result.classes for mode in Mode if result.of(kafka, mode)]
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        sums=table(("Kafka", "mode", "classes", *_HEADS), (_sums_row(result, *group) for group in groups)),
        classes="\n".join(_classes(result, kafka) for kafka in result.classes),
        differences="".join(line for run in result.runs for line in _differences(run)) or "None.\n",
        measured="".join(f"- {line}\n" for line in dict.fromkeys(map(_measured, result.runs))),
    )


def _sums_row(result: Result, kafka: str, mode: Mode) -> tuple[str, ...]:
    runs = result.of(kafka, mode).values()
    seen = sum((run.found.evidence for run in runs), Evidence())
    passed, tests = sum(run.found.passed for run in runs), sum(run.found.ran for run in runs)
    numbers = (seen.clusters, seen.workers, seen.own, seen.foreign, seen.plain, seen.other, seen.stopped)
    return (
        kafka,
        mode,
        f"{len(runs)} of {len(result.classes[kafka])}",
        str(tests),
        f"**{passed}**" if not any(run.troubles for run in runs) else str(passed),
        *(f"{number:,}" for number in numbers),
        f"{sum(run.found.seconds for run in runs) / 60:.0f}",
    )


def _classes(result: Result, kafka: str) -> str:
    modes = {mode: result.of(kafka, mode) for mode in Mode}
    rows = ((f"`{name}`", *(_passed(runs.get(name)) for runs in modes.values())) for name in result.classes[kafka])
    return table((f"passed with {kafka}", *Mode), rows)


def _passed(run: Run | None) -> str:
    return f"{run.found.passed} of {run.found.ran}" if run else "not run"


def _differences(run: Run) -> Iterable[str]:
    where, found = f"- {run.kafka}, {run.mode}", run.found
    if run.mode is Mode.MUTANT:
        return
    yield from (f"{where}: `{test.name}` failed: {_plain(test.trouble)}\n" for test in found.failed)
    yield from (f"{where}: `{test.name}` was skipped by Kafka.\n" for test in found.tests if test.skipped)
    yield from (f"{where}: `{name}` passed at the second try.\n" for name in found.again)
    yield from (
        f"{where}: `{run.test_class}`, keys not counted of {_plain(text)}\n" for text in found.evidence.uncounted
    )


def _plain(text: str) -> str:
    """Return a text of a program so that Markdown shows it as it is."""
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`"


def _measured(run: Run) -> str:
    return f"{run.measured_on}, connect-share {run.product}, {run.machine}"
