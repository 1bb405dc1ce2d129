"""The start-up benchmark's report: a page, the same as Markdown, and a table for the terminal.

``python -m spark_jobs.startup.report RESULT.json --to DIR`` draws both files again from a saved result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from connect_share.cli.output import printable
from connect_share.errors import ConnectShareError, UsageError
from migrator.report_page import page, section, table
from spark_jobs import command_line
from spark_jobs.startup.figures import (
    STORES,
    contender_title,
    measured,
    milliseconds,
    ratios,
    scenario_title,
    spread,
)
from spark_jobs.startup.result import StartupResult


def write_report(result: StartupResult, folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into a folder, which is made if need be.

    Raises:
        ConnectShareError: the folder or a file cannot be written.
    """
    html, markdown = folder / "report.html", folder / "report.md"
    lines = startup_table(result)
    rows = [
        (scenario_title(result, each.scenario), each.title, milliseconds(each.total.median), each.total.n)
        for each in measured(result)
    ]
    content = table(("scenario", "contender", "median, ms", "starts"), rows, frozenset({2, 3}))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        html.write_text(page("How long a start takes", [section("Starts", content)]), "utf-8")
        markdown.write_text("# How long a start takes\n\n" + "".join(f"    {line}\n" for line in lines), "utf-8")
    except OSError as exc:
        raise ConnectShareError(
            f"the report cannot be written to {folder}: {exc.strerror}; name another folder"
        ) from exc
    return html, markdown


def startup_table(result: StartupResult) -> list[str]:
    """Give the result as lines for a terminal: ratios first, then milliseconds."""
    lines: list[str] = []
    scenarios = list(dict.fromkeys(starts.scenario for starts in result.starts))
    for name in scenarios:
        compared = ratios(measured(result, name))
        if compared:
            lines += [scenario_title(result, name), *(f"  {each.sentence}" for each in compared), ""]
    heads = "".join(f"{store:>9}" for store in STORES)
    for name in scenarios:
        found = measured(result, name)
        if not found:
            continue
        lines.append(f"{scenario_title(result, name) + ': milliseconds':<58}{'all three':>22}{heads}")
        for each in found:
            total = each.total
            shown = f"{milliseconds(total.median)} ({milliseconds(total.low)}-{milliseconds(total.high)})"
            cells = "".join(
                f"{milliseconds(each.topics[store].median) if store in each.topics else '':>9}" for store in STORES
            )
            lines.append(f"  {each.title:<56}{shown:>22}{cells}")
        lines.append("")
    for storm in result.storms:
        seconds = spread(storm.seconds)
        if seconds is not None:
            lines.append(
                f"storm of {storm.starts}, {storm.at_once} at once: {storm.wall_seconds:.1f} s in all, median start "
                f"{milliseconds(seconds.median)} ms, slowest {milliseconds(seconds.high)} ms, {storm.failed} failed"
            )
    for latency in result.latencies:
        seconds = spread(latency.seconds)
        if seconds is not None:
            lines.append(
                f"put to read-back, {contender_title(latency.contender)}, {latency.store}, {latency.groups} groups: "
                f"p50 {milliseconds(seconds.percentile(0.5))} ms, p99 {milliseconds(seconds.percentile(0.99))} ms"
            )
    lines.append("KIP-1173's own figures: config about 500 ms, status 400-500 ms")
    return [printable(line) for line in lines]


def load_result(path: Path) -> StartupResult:
    """Read a saved result.

    Raises:
        UsageError: the file cannot be read, or is not a result of this format.
    """
    try:
        return StartupResult.model_validate_json(path.read_bytes())
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from exc
    except ValidationError as exc:
        raise UsageError(
            f"{path} is not a result of the start-up benchmark: {exc.errors()[0]['msg']}; run benchmark_startup again"
        ) from exc


def main(argv: Sequence[str]) -> int:
    """Draw the report of a saved result; give the exit code."""
    arguments = command_line.parser("startup.report", "Draw the start-up benchmark's report from its saved result.")
    arguments.add_argument("result", type=Path, help="JSON file that benchmark_startup wrote")
    arguments.add_argument("--to", type=Path, required=True, metavar="DIR", help="folder for report.html and report.md")
    options = arguments.parse_args(argv)

    def body(_: object) -> int:
        for path in write_report(load_result(options.result), options.to):
            print(path)
        return 0

    return command_line.run(options, body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
