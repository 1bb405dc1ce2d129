"""Put the results of ``make bench`` into the docs, and draw from them the report, the README's figures and the pages' tables.

The cost model that the package ships with is that of the start-up benchmark.

``figures FOLDER`` takes the results of a folder over into ``docs/benchmarks``; without one the drawings are made again from
what is there.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from connect_share.contents.cost_model import FittedModel
from connect_share.errors import ConfigError
from spark_jobs import command_line
from spark_jobs.benchmark.results import StartupResult, Warmth, read
from tests.lab.benchmarks.backup import backup_table
from tests.lab.benchmarks.console import console_table
from tests.lab.benchmarks.frame import Table
from tests.lab.benchmarks.many_groups import many_groups_table
from tests.lab.benchmarks.migration_report import KIP as KIP_MOVE
from tests.lab.benchmarks.migration_report import MILLION, migration_table
from tests.lab.benchmarks.sealing import sealing_table
from tests.lab.benchmarks.startup.goals import LARGE, SMALL, goals
from tests.lab.benchmarks.startup.report import render_report
from tests.lab.benchmarks.startup.view import (
    KIP,
    OURS,
    STORES,
    WARMTHS,
    MeasuredScenario,
    measured_latencies,
    measured_scenarios,
    measured_storms,
)
from tests.lab.benchmarks.steady_state import steady_table
from tests.lab.benchmarks.workers import workers_table
from tests.lab.units import listed, milliseconds, percent, ratio, size

ROOT: Final = Path(__file__).parents[3]
BEGIN: Final = "<!-- make bench writes this: {} -->"
END: Final = "<!-- end of what make bench writes -->"
TABLES: Final[Mapping[str, tuple[str, Table]]] = {
    "backup.md": ("backup", backup_table),
    "console.md": ("console", console_table),
    "how-many-groups.md": ("steady_state", steady_table),
    "java-workers.md": ("workers", workers_table),
    "many-groups.md": ("many_groups", many_groups_table),
    "migrating.md": ("migration", migration_table),
    "sealed-sharing.md": ("sealing", sealing_table),
}
"""Pages of the docs, and the benchmarks whose tables they show."""

_SHOWN: Final = (KIP, LARGE, SMALL)
_BOTH: Final[Mapping[str, str]] = {
    "java-jar": "Java stores with the jar, warm / first of a JVM",
    "java": "Java stores, plain keys, warm / first of a JVM",
    "java-foreign": "Java stores without the jar, every record foreign, warm / first of a JVM",
    "plain-client": "plain client, default settings, records only read, warm / first",
    "librdkafka": "bare librdkafka with our settings, records thrown away unseen: the limit, warm / first",
    "kcat": "kcat (C), one topic after another, its process included",
}
_STORM: Final = 100


def readme_figures(result: StartupResult) -> str:
    """Return the README's part about starts as Markdown."""
    scenarios = measured_scenarios(result)
    missing = [name for name in _SHOWN if name not in scenarios or scenarios[name].find(OURS, "warm") is None]
    if missing:
        raise ConfigError(
            f"the README shows {listed(_SHOWN)}, and {listed(missing)} is not in the result: run make bench with --suite full"
        )
    shown = [scenarios[name] for name in _SHOWN]
    judged = [goal for goal in goals(result) if goal.met is not None]
    missed = [f"- {goal.sentence}: {goal.measured} (goal: {goal.target})" for goal in judged if not goal.met]
    count = f"{len(judged) - len(missed)} of {len(judged)}"
    verdict = f"{count} [goals](docs/benchmarks/startup.md) are met{'; missed:' if missed else '.'}"
    parts = [_measured(result, shown[0]), "\n".join(_table(shown)), " ".join(_sentences(result, shown)), verdict]
    return "\n\n".join([*parts, *(["\n".join(missed)] if missed else [])])


def _measured(result: StartupResult, kip: MeasuredScenario) -> str:
    machine, versions = result.machine, result.versions
    date = f"{datetime.fromtimestamp(result.measured_at_ms / 1000, UTC):%Y-%m-%d}"
    rounds = min(len(each.total.values) for each in kip.starts if each.warmth == "cold")
    processors, memory = machine.get("processors", "?"), size(machine.get("memory_bytes", 0))
    programs = {"Kafka": versions.get("kafka"), "librdkafka": versions.get("librdkafka")}
    programs |= {"Java": machine.get("java"), "Python": machine.get("python")}
    known = ", ".join(f"{name} {version}" for name, version in programs.items() if version)
    return (
        f"Measured by `make bench` on {date}, in one run on one machine with {processors} processors and {memory} (broker, "
        f"Java and Python together; {known}; {rounds} rounds), until all three stores are ready. Ratios hold on other "
        "machines, milliseconds do not."
    )


def _table(shown: Sequence[MeasuredScenario]) -> Iterator[str]:
    yield f"| milliseconds, median (min-max) | {' | '.join(map(_title, shown))} |"
    yield "| --- |" + " --- |" * len(shown)
    yield from _row("**Python stores**, shared topics, warm", [_spread(each, OURS, "warm", "**") for each in shown])
    yield from _row("the same, first start of a process", [_spread(each, OURS, "cold") for each in shown])
    short = [_spread(each, "python-checkpoint", "cold") for each in shown]
    yield from _row("the same, from a checkpoint with 1 % new records, first start of a process", short)
    for contender, words in _BOTH.items():
        yield from _row(words, [_both(each, contender) for each in shown])


def _title(scenario: MeasuredScenario) -> str:
    known = scenario.scenario
    if known is None or scenario.name != KIP:
        return scenario.title
    return (
        f"KIP's workload: {known.groups} groups of {known.jobs} jobs, {known.config_records:,} records a topic, configs "
        f"{size(known.config_bytes)}"
    )


def _row(words: str, cells: Sequence[str]) -> Iterator[str]:
    if any(cells):
        yield f"| {words} | {' | '.join(cells)} |"


def _spread(scenario: MeasuredScenario, contender: str, warmth: Warmth, mark: str = "") -> str:
    found = scenario.find(contender, warmth)
    if found is None:
        return ""
    total = found.total
    return f"{mark}{milliseconds(total.median)}{mark} ({milliseconds(total.low)}-{milliseconds(total.high)})"


def _both(scenario: MeasuredScenario, contender: str) -> str:
    found = (scenario.find(contender, warmth) for warmth in reversed(WARMTHS))
    return " / ".join(milliseconds(each.total.median) for each in found if each is not None)


def _sentences(result: StartupResult, shown: Sequence[MeasuredScenario]) -> Iterator[str]:
    for each in (storm for group in measured_storms(result) for storm in group):
        if each.storm.starts == _STORM and each.times is not None:
            yield f"{_STORM} starts, {each.label}, take {ratio(each.times)} times as long as one after another."
    puts = {
        (each.latency.contender, each.latency.store, each.latency.groups): each for each in measured_latencies(result)
    }
    for contender, whose in ((OURS, "the Python stores"), ("java", "Java's")):
        alone = [puts.get((contender, store, 1)) for store in STORES]
        times = [f"{milliseconds(each.seconds.median)} ms ({each.latency.store})" for each in alone if each is not None]
        if times:
            yield f"A put is read back from {whose} after {listed(times)}."
    slower = [each.beside_one_group for (name, *_), each in puts.items() if name == OURS and each.beside_one_group]
    if slower:
        yield f"Other groups that write to the same topics cost at most {percent(max(0.0, max(slower) - 1))} of that."
    peaks = [start.peak_bytes for each in shown[1:] if (start := each.find(OURS, "cold")) and start.peak_bytes]
    if len(peaks) == 2:
        yield f"A start at 1,000 groups needs {size(max(0.0, peaks[0] - peaks[1]))} more memory than that of a single group."
    yield "The KIP's own figures: config about 500 ms, status 400-500 ms."


def moves(report: Mapping[str, Any]) -> str:
    """Return the README's sentences about moves, of a result of the migration benchmark."""

    def seconds(name: str, contender: str) -> str:
        return f"{report['sizes'][name]['contenders'][contender]['wall_s']['median']:.1f} s"

    def processor(name: str, contender: str) -> str:
        cpu_s = report["sizes"][name]["contenders"][contender]["cpu_s"]["median"]
        return f"{seconds(name, contender)} ({cpu_s:.1f} CPU seconds)"

    large, ours, theirs = str(MILLION), "local_apply", "mirror_maker"
    ratios = report["sizes"][KIP_MOVE]["ratios"], report["sizes"][large]["ratios"]
    times = [ratio(each["mirror_maker_to_apply_wall"]) for each in ratios]
    misplaced = report["sizes"][large]["wrong"][theirs]["misplaced"]
    apply, both, mirror = (processor(large, each) for each in (ours, "local_apply_verify", theirs))
    return (
        f"Moving the KIP's workload onto shared topics takes {seconds(KIP_MOVE, ours)} as a whole process, and "
        f"{seconds(KIP_MOVE, theirs)} with MirrorMaker 2 and a key transform: {times[0]} times as long. A million offset "
        f"records take {apply}, {both} with verification, and {mirror} with MirrorMaker 2: {times[1]} times as long. It "
        f"leaves {misplaced:,} of them in a partition where no worker looks for their new key."
    )


def with_figures(page: str, name: str, figures: str) -> str:
    """Return a page with these figures between the two marks of this name."""
    begin = BEGIN.format(name)
    before, found, rest = page.partition(f"{begin}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not found or not end or begin in after:
        raise ConfigError(f"the page needs the line {begin} once and, further down, {END}")
    return f"{before}{found}\n{figures}\n\n{end}{after}"


def drawings(root: Path) -> dict[Path, str]:
    """Return the files that are made of the results in the docs, by path."""
    docs = root / "docs"
    results = docs / "benchmarks"
    result = read(results / "startup.json", "run make bench")
    report, markdown = render_report(result)
    readme = with_figures((root / "README.md").read_text("utf-8"), "starts", readme_figures(result))
    migration = results / "migration.json"
    if migration.exists():
        readme = with_figures(readme, "moves", moves(json.loads(migration.read_text("utf-8"))))
    drawn = {results / "startup.html": report, results / "startup.md": markdown, root / "README.md": readme}
    if result.model is not None:
        fitted = FittedModel.model_validate(result.model_dump()).model_dump_json(indent=2)
        drawn[root / "connect_share" / "contents" / "model.json"] = f"{fitted}\n"
    for name, (benchmark, table) in TABLES.items():
        if (results / f"{benchmark}.json").exists():
            measured = json.loads((results / f"{benchmark}.json").read_text("utf-8"))
            facts = [
                ", ".join(f"{what} {value}" for what, value in measured[part].items())
                for part in ("machine", "versions")
            ]
            printed = "\n".join([*table(measured), "", *facts])
            drawn[docs / name] = with_figures((docs / name).read_text("utf-8"), benchmark, f"```text\n{printed}\n```")
    return drawn


def take_over(folder: Path, root: Path) -> None:
    """Copy the results of a run of ``make bench``."""
    startup = folder / "startup" / "result.json"
    readme_figures(read(startup, "run make bench"))
    docs = root / "docs" / "benchmarks"
    docs.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(startup, docs / "startup.json")
    for each in sorted(folder.glob("*.json")):
        shutil.copyfile(each, docs / each.name)


def main(argv: Sequence[str]) -> int:
    """Draw. 0 done, 2 there is no whole result."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.figures", description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, help="results of make bench, such as build/bench")

    def body(options: argparse.Namespace) -> int:
        if options.folder is not None:
            take_over(options.folder, ROOT)
        for path, text in drawings(ROOT).items():
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
        return 0

    return command_line.run(arguments.parse_args(argv), body)


if __name__ == "__main__":
    command_line.exit_with(main)
