"""The start-up benchmark's report: a page, the same as Markdown, and a table for the terminal.

``python -m spark_jobs.startup.report RESULT.json --to DIR`` draws both files again from a saved result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from connect_share.console import printable
from connect_share.errors import ConnectShareError
from migrator.report_page import render_markdown, render_page
from spark_jobs import command_line, units
from spark_jobs.startup import resume
from spark_jobs.startup.goals import goals
from spark_jobs.startup.result import StartupResult, Warmth
from spark_jobs.startup.series import contrasts, growths
from spark_jobs.startup.summary import model_cards, ratio_cards, sentences
from spark_jobs.startup.view import (
    EMBEDDED,
    KIP,
    OURS,
    STORES,
    WARMTHS,
    MeasuredScenario,
    look_of,
    measured_latencies,
    measured_scenarios,
    measured_storms,
    predictions,
)
from tests.lab import plots

_PHASE_PLOTS: Final = 2


def report_values(result: StartupResult) -> dict[str, Any]:
    """Return what the report's template shows; what was not measured is empty."""
    scenarios = measured_scenarios(result)
    grown = growths(result, scenarios)
    compared = contrasts(result, scenarios)
    storms, latencies = measured_storms(result), measured_latencies(result)
    large = next((each.sizes[-1][1] for each in grown if each.dimension.x_label == "groups"), None)
    kip = scenarios.get(KIP)
    elsewhere = {KIP, *(scenario.name for each in grown for _, scenario in each.sizes)}
    elsewhere |= {scenario.name for each in compared for scenario in (each.without, each.having)}
    with_phases = [each for each in scenarios.values() if any(sum(one.phases.values()) > 0 for one in each.starts)]
    titles = {scenario.name: scenario.title for scenario in result.scenarios}
    return {
        "result": result,
        "goals": goals(result),
        "cards": list(ratio_cards(kip, large)),
        "sentences": list(sentences(scenarios, grown, storms, latencies)),
        "kip": kip,
        "growths": grown,
        "model_cards": model_cards(result.model, predicted=bool(result.predictions)) if result.model else [],
        "predictions": [(titles.get(each.scenario) or each.scenario, each) for each in predictions(result)],
        "phased": sorted(
            with_phases, key=lambda each: (each.name != KIP, -(each.scenario.records if each.scenario else 0))
        )[:_PHASE_PLOTS],
        "contrasts": compared,
        "contrast_titles": [f"{each.title}: “{each.having.title}” against “{each.without.title}”" for each in compared],
        "others": [each for each in scenarios.values() if each.name not in elsewhere],
        "storms": storms,
        "latencies": latencies,
        "facts": _facts(result),
        "is_embedded": _is_embedded(result),
        "missing": [f"Not measured: {look_of(name).title}: {why}" for name, why in sorted(result.missing.items())],
        "titles": titles,
        "described": _described,
        "starts_plot": starts_plot,
        "units": units,
        "OURS": OURS,
        "STORES": STORES,
        "WARMTHS": WARMTHS,
    }


def starts_plot(title: str, scenario: MeasuredScenario, warmth: Warmth) -> Markup:
    """Return every start of one warmth, one line for each contender."""
    rows = []
    for each in scenario.starts:
        if each.warmth == warmth:
            look, total = look_of(each.contender), each.total
            bounds = (total.low, total.high) if len(total.values) > 1 else ()
            rows.append(plots.Strip(look.label, units.duration(total.median, *bounds), look.colour, total.values))
    return plots.strips(title, rows)


def _described(scenario: MeasuredScenario) -> str:
    """Return what lies in the topics of a scenario."""
    if scenario.scenario is None:
        return f"{scenario.name}:"
    topics = []
    for store in STORES:
        records, size = getattr(scenario.scenario, f"{store}_records"), getattr(scenario.scenario, f"{store}_bytes")
        partitions = scenario.scenario.partitions.get(store, "?")
        unit = "partition" if partitions == 1 else "partitions"
        topics.append(f"{store} {records:,} records, {units.size(size)}, {partitions} {unit}")
    return f"{scenario.title}: {'; '.join(topics)}."


def _is_embedded(result: StartupResult) -> bool:
    return bool(result.machine.get("cluster", EMBEDDED) == EMBEDDED)


def _facts(result: StartupResult) -> list[tuple[str, object]]:
    """Return the lines about machine and versions."""
    facts: list[tuple[str, object]] = []
    if result.measured_at_ms > 0:
        with suppress(OverflowError, ValueError, OSError):
            facts.append(
                ("measured", f"{datetime.fromtimestamp(result.measured_at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC")
            )
    for name, value in result.machine.items():
        is_size = name.endswith("_bytes") and isinstance(value, int) and value >= 0
        facts.append((name.removesuffix("_bytes").replace("_", " "), units.size(value) if is_size else value))
    # No client asks brokers for their version.
    names = {} if _is_embedded(result) else {"kafka": "Java's stores (the brokers may have another)"}
    return [*facts, *((f"version of {names.get(name, name)}", version) for name, version in result.versions.items())]


def render_report(result: StartupResult) -> tuple[str, str]:
    """Return the report as one self-contained HTML page, and as Markdown, which has no plots."""
    values = {"package": "tests.lab", **report_values(result)}
    return render_page("startup_page.html.j2", **values), render_markdown(
        "startup.j2", **values, parts="startup_parts.md.j2"
    )


def write_report(result: StartupResult, folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into a folder, which is made if need be.

    Raises:
        ConnectShareError: the folder or a file cannot be written.
    """
    html, markdown = folder / "report.html", folder / "report.md"
    page, text = render_report(result)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        html.write_text(page, "utf-8")
        markdown.write_text(text, "utf-8")
    except OSError as exc:
        raise ConnectShareError(
            f"the report cannot be written to {folder}: {exc.strerror}; name another folder"
        ) from exc
    return html, markdown


def startup_table(result: StartupResult) -> list[str]:
    """Return the result as lines for a terminal: ratios first, then milliseconds."""
    lines = []
    for scenario in measured_scenarios(result).values():
        compared = [f"  {each.sentence}" for each in scenario.starts if each.sentence]
        lines += [scenario.title, *compared, ""] if compared else []
    for scenario in measured_scenarios(result).values():
        heads = "".join(f"{store:>9}" for store in STORES)
        lines += [scenario.title, f"  {'milliseconds, median (min-max)':<58}{'all three':>24}{heads}"]
        for each in scenario.starts:
            median, low, high = map(units.milliseconds, (each.total.median, each.total.low, each.total.high))
            cells = [units.milliseconds(each.store_seconds(store)) for store in STORES]
            line = f"  {each.title:<58}{f'{median} ({low}-{high})':>24}{''.join(f'{cell:>9}' for cell in cells)}"
            lines.append(line.rstrip())
        lines += ["", *_budget(scenario)]
    for storm in (storm for group in measured_storms(result) for storm in group):
        times = "" if storm.times is None else f", {units.ratio(storm.times)} times one after another"
        lines.append(
            f"storm of {storm.storm.starts:,}, {storm.label}: {storm.storm.wall_seconds:,.1f} s{times}, "
            f"{storm.storm.failed:,} failed"
        )
    for put in measured_latencies(result):
        p50, p99 = units.milliseconds(put.seconds.median), units.milliseconds(put.seconds.percentile(0.99))
        groups = "1 group" if put.latency.groups == 1 else f"{put.latency.groups:,} groups"
        lines.append(
            f"put to read-back, {put.latency.contender}, {put.latency.store}, {groups}: p50 {p50} ms, p99 {p99} ms"
        )
    lines.append("KIP-1173's own figures: config about 500 ms, status 400-500 ms")
    return [printable(line) for line in lines]


def _budget(scenario: MeasuredScenario) -> list[str]:
    """Return where the time of those starts goes whose contenders know it."""
    known = [each for each in scenario.starts if each.phases]
    if not known:
        return []
    heads = "".join(f"{phase.replace('_', ' '):>14}" for phase in (*scenario.phases, "sum"))
    rows = (f"  {each.title:<58}{''.join(f'{text:>14}' for text in scenario.phase_texts(each))}" for each in known)
    return [f"  {'where the milliseconds go, medians':<58}{heads}", *rows, ""]


def main(argv: Sequence[str]) -> int:
    """Draw the report of a saved result; return the exit code."""
    arguments = command_line.parser("startup.report", "Draw the start-up benchmark's report from its saved result.")
    arguments.epilog = None  # nothing runs on a cluster
    arguments.add_argument("result", type=Path, help="JSON file that benchmark_startup wrote")
    arguments.add_argument("--to", type=Path, required=True, metavar="DIR", help="folder for report.html and report.md")
    options = arguments.parse_args(argv)

    def body(_: object) -> int:
        for path in write_report(resume.read(options.result), options.to):
            print(path)
        return 0

    return command_line.run(options, body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
