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
from spark_jobs.benchmark.results import StartupResult, read
from tests.lab.benchmarks.backup import backup_table
from tests.lab.benchmarks.console import console_table
from tests.lab.benchmarks.frame import Table
from tests.lab.benchmarks.many_groups import many_groups_table
from tests.lab.benchmarks.migration_report import KIP as KIP_MOVE
from tests.lab.benchmarks.migration_report import MILLION, migration_table
from tests.lab.benchmarks.sealing import sealing_table
from tests.lab.benchmarks.spark import spark_table
from tests.lab.benchmarks.startup.report import pair_table, render_report, runs_table
from tests.lab.benchmarks.startup.view import (
    KIP,
    OURS,
    STORES,
    MeasuredScenario,
    measured_latencies,
    measured_scenarios,
)
from tests.lab.benchmarks.steady_state import steady_table
from tests.lab.units import listed, milliseconds, percent, ratio, size

ROOT: Final = Path(__file__).parents[3]
BEGIN: Final = "<!-- make bench writes this: {} -->"
END: Final = "<!-- end of what make bench writes -->"
TABLES: Final[Mapping[str, tuple[str, Table]]] = {
    "backup.md": ("backup", backup_table),
    "console.md": ("console", console_table),
    "how-many-groups.md": ("steady_state", steady_table),
    "many-groups.md": ("many_groups", many_groups_table),
    "migrating.md": ("migration", migration_table),
    "sealed-sharing.md": ("sealing", sealing_table),
    "spark.md": ("spark", spark_table),
}
"""Pages of the docs, and the benchmarks whose tables they show."""

_LARGE: Final = "groups-1000"
_SMALL: Final = "groups-1"
"""Of the same records a group as the large one: what it needs of memory is own state and an empty start."""


def readme_figures(result: StartupResult) -> str:
    """Return the README's part about starts as Markdown."""
    scenarios = measured_scenarios(result)
    if KIP not in scenarios:
        raise ConfigError(f"the README shows {KIP}, which is not in the result: run make bench-start")
    return "\n\n".join(
        [_measured(result), "\n".join(pair_table(result, headlines=True)), " ".join(_sentences(result, scenarios))],
    )


def _measured(result: StartupResult) -> str:
    date = f"{datetime.fromtimestamp(result.measured_at_ms / 1000, UTC):%Y-%m-%d}"
    processors = result.machine.get("processors", "?")
    return (
        f"Measured on {date}, in one run on one machine with {processors} processors, with KIP-1173's workload: "
        "20 groups of 5 jobs, 8,000 records a topic, configs 32 MB. Both sides of a pair do the same work, side by side; "
        "medians over processes, in brackets the 95 % interval. Ratios hold on other machines, milliseconds do not. "
        "[What is inside the clock](docs/benchmarks/startup.md#what-is-inside-the-clock)."
    )


def _sentences(result: StartupResult, scenarios: Mapping[str, MeasuredScenario]) -> Iterator[str]:
    puts = {
        (each.latency.contender, each.latency.store, each.latency.groups): each for each in measured_latencies(result)
    }
    for contender, whose in ((OURS, "the Python stores"), ("java", "Java's")):
        alone = [puts.get((contender, store, 1)) for store in STORES]
        times = [f"{milliseconds(each.seconds.median)} ms ({each.latency.store})" for each in alone if each is not None]
        if times:
            yield f"A put is read back from {whose} after {listed(times)} (medians)."
    slower = [each.beside_one_group for (name, *_), each in puts.items() if name == OURS and each.beside_one_group]
    if slower:
        more = percent(max(0.0, max(slower) - 1))
        yield f"Other groups that write to the same topics make these medians at most {more} longer."
    starts = [scenarios[name].find(OURS, "cold") for name in (_LARGE, _SMALL) if name in scenarios]
    peaks = [start.peak_bytes for start in starts if start is not None and start.peak_bytes]
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
    figures = [readme_figures(result), moves(json.loads((results / "migration.json").read_text("utf-8")))]
    readme = with_figures((root / "README.md").read_text("utf-8"), "figures", "\n\n".join(figures))
    further, runs = docs / "startup-benchmark.md", [result, *map(read, sorted(results.glob("startup-*.json")))]
    drawn = {further: with_figures(further.read_text("utf-8"), "runs", "\n".join(runs_table(runs)))}
    drawn |= {results / "startup.html": report, results / "startup.md": markdown, root / "README.md": readme}
    if result.model is not None:
        fitted = FittedModel.model_validate(result.model_dump()).model_dump_json(indent=2)
        drawn[root / "connect_share" / "contents" / "model.json"] = f"{fitted}\n"
    for name, (benchmark, table) in TABLES.items():
        files = [results / f"{benchmark}.json", *sorted(results.glob(f"{benchmark}-*.json"))]
        measured, *more = (json.loads(each.read_text("utf-8")) for each in files)
        facts = [
            ", ".join(f"{what} {value}" for what, value in measured[part].items()) for part in ("machine", "versions")
        ]
        printed = "\n".join([*table(measured, *more), "", *facts])
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
