"""The start-up benchmark's report: a page, the same as Markdown, and a table for the terminal.

``python -m spark_jobs.startup.report RESULT.json --to DIR`` draws both files again from a saved result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from connect_share.console import printable
from connect_share.errors import ConnectShareError, UsageError
from spark_jobs import command_line
from spark_jobs.startup.contrasts import contrasts
from spark_jobs.startup.document import Document, as_markdown, as_page
from spark_jobs.startup.figures import KIP, STORES, measured, ratios, scenario_title
from spark_jobs.startup.growth import growths
from spark_jobs.startup.load_sections import (
    how_many_at_once,
    latencies_of,
    latency_section,
    measured_at,
    method_section,
    processors_of,
    storm_section,
    storm_times,
    storms_of,
)
from spark_jobs.startup.result import StartupResult
from spark_jobs.startup.scenario_sections import kip_section, other_section
from spark_jobs.startup.start_sections import (
    growth_section,
    model_section,
    phases_section,
    settings_section,
)
from spark_jobs.startup.style import STYLE
from spark_jobs.startup.summary import goals_section, summary_section
from spark_jobs.startup.units import milliseconds, ratio

_TITLE = "How long a worker's start takes when the topics are shared"


def document_of(result: StartupResult) -> Document:
    """Give the report's parts; what was not measured is left out."""
    sections = (
        summary_section(result),
        goals_section(result),
        kip_section(result),
        growth_section(result),
        model_section(result),
        phases_section(result),
        settings_section(result),
        other_section(result, _shown(result)),
        storm_section(result),
        latency_section(result),
        method_section(result),
    )
    processors = processors_of(result)
    about = [
        "Start-up of Connect's three stores on shared internal topics",
        "" if processors is None else "one processor" if processors == 1 else f"{processors:,} processors",
        measured_at(result),
    ]
    return Document(
        _TITLE, ", ".join(part for part in about if part), tuple(section for section in sections if section is not None)
    )


def _shown(result: StartupResult) -> set[str]:
    """Give the scenarios that have a place in a part of their own."""
    grown = {scenario.name for growth in growths(result) for _, scenario in growth.scenarios}
    compared = {each.name for contrast in contrasts(result) for each in (contrast.without, contrast.having)}
    return {KIP, *grown, *compared}


def write_report(result: StartupResult, folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into a folder, which is made if need be.

    Raises:
        ConnectShareError: the folder or a file cannot be written.
    """
    html, markdown = folder / "report.html", folder / "report.md"
    document = document_of(result)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        html.write_text(as_page(document, STYLE), "utf-8")
        markdown.write_text(as_markdown(document), "utf-8")
    except OSError as exc:
        raise ConnectShareError(
            f"the report cannot be written to {folder}: {exc.strerror}; name another folder"
        ) from exc
    return html, markdown


def startup_table(result: StartupResult) -> list[str]:
    """Give the result as lines for a terminal: ratios first, then milliseconds."""
    lines = [*_ratio_lines(result), *_millisecond_lines(result), *_storm_lines(result), *_latency_lines(result)]
    lines.append("KIP-1173's own figures: config about 500 ms, status 400-500 ms")
    return [printable(line) for line in lines]


def _scenarios(result: StartupResult) -> list[str]:
    return list(dict.fromkeys(starts.scenario for starts in result.starts))


def _ratio_lines(result: StartupResult) -> list[str]:
    lines = []
    for name in _scenarios(result):
        compared = ratios(measured(result, name))
        if compared:
            lines += [scenario_title(result, name), *(f"  {each.sentence}" for each in compared), ""]
    return lines


def _millisecond_lines(result: StartupResult) -> list[str]:
    lines = []
    for name in _scenarios(result):
        found = measured(result, name)
        if not found:
            continue
        heads = "".join(f"{store:>9}" for store in STORES)
        lines += [scenario_title(result, name), f"  {'milliseconds, median (min-max)':<58}{'all three':>24}{heads}"]
        for each in found:
            total = each.total
            shown = f"{milliseconds(total.median)} ({milliseconds(total.low)}-{milliseconds(total.high)})"
            cells = "".join(
                f"{milliseconds(each.topics[store].median) if store in each.topics else '':>9}" for store in STORES
            )
            lines.append(f"  {each.title:<58}{shown:>24}{cells}".rstrip())
        lines.append("")
    return lines


def _storm_lines(result: StartupResult) -> list[str]:
    lines = []
    for group in storms_of(result):
        for storm in group:
            times = storm_times(storm, group)
            shown = "" if times is None else f", {ratio(times)} times one after another"
            lines.append(
                f"storm of {storm.starts:,}, {how_many_at_once(storm)}: {storm.wall_seconds:,.1f} s{shown}, "
                f"{storm.failed:,} failed"
            )
    return [*lines, ""] if lines else []


def _latency_lines(result: StartupResult) -> list[str]:
    lines = [
        f"put to read-back, {each.contender}, {each.store}, {each.groups:,} "
        f"{'group' if each.groups == 1 else 'groups'}: "
        f"p50 {milliseconds(seconds.median)} ms, p99 {milliseconds(seconds.percentile(0.99))} ms"
        for each, seconds in latencies_of(result)
    ]
    return [*lines, ""] if lines else []


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
    arguments.epilog = None  # nothing runs on a cluster
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
