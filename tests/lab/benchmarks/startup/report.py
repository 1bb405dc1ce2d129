"""The start-up benchmark's report: a page, and the same as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from connect_share.contents.cost_model import EARLY_BYTES, EARLY_RECORDS, CostModel
from migrator.report import shown_value, templates_of
from spark_jobs.benchmark.results import StartupResult
from spark_jobs.benchmark.topics import DEDICATED, PLANS, SUITES
from tests.lab import units
from tests.lab.benchmarks.startup.pairs import CLOCK, CLOCK_HEADS, compared
from tests.lab.benchmarks.startup.series import contrasts, growths
from tests.lab.benchmarks.startup.view import (
    EMBEDDED,
    KIP,
    OURS,
    STORES,
    MeasuredScenario,
    Spread,
    look_of,
    measured_latencies,
    measured_scenarios,
    measured_storms,
    with_interval,
)
from tests.lab.units import duration, percent, size

_PHASE_PLOTS: Final = 2
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")
_BLANK_LINES: Final = re.compile(r"\n\s*\n")


def report_values(result: StartupResult) -> dict[str, Any]:
    """Return what the report's template shows; what was not measured is empty."""
    scenarios = measured_scenarios(result)
    grown = growths(result, scenarios)
    settings = contrasts(scenarios)
    kip = scenarios.get(KIP)
    scenarios_of_stores = [each for each in scenarios.values() if not each.is_of_workers]
    elsewhere = {KIP, *(scenario.name for each in grown for _, scenario in each.sizes)}
    elsewhere |= {scenario.name for each in settings for scenario in (each.without, each.having)}
    with_phases = [each for each in scenarios_of_stores if each.phases]
    titles = {scenario.name: scenario.title for scenario in result.scenarios}
    titles[f"{KIP}{DEDICATED}"] = "one of the KIP's groups, on dedicated topics"
    return {
        "result": result,
        "pairs": compared(result),
        "with_interval": with_interval,
        "clock": (CLOCK_HEADS, CLOCK),
        "not_run": [PLANS[name].scenario.title for name in SUITES["full"] if name not in scenarios],
        "kip": kip,
        "growths": grown,
        "model_cards": model_cards(result.model, predicted=bool(result.predictions)) if result.model else [],
        "predictions": [(titles.get(each.scenario) or each.scenario, each) for each in result.predictions],
        "phased": sorted(
            with_phases, key=lambda each: (each.name != KIP, -(each.scenario.records if each.scenario else 0))
        )[:_PHASE_PLOTS],
        "contrasts": settings,
        "contrast_titles": [f"{each.title}: “{each.having.title}” against “{each.without.title}”" for each in settings],
        "others": [each for each in scenarios_of_stores if each.name not in elsewhere],
        "workers": [each for each in scenarios.values() if each.is_of_workers],
        "storms": measured_storms(result),
        "latencies": measured_latencies(result),
        "facts": _facts(result),
        "is_embedded": _is_embedded(result),
        "missing": [f"Not measured: {look_of(name).title}: {why}" for name, why in sorted(result.missing.items())],
        "titles": titles,
        "described": _described,
        "units": units,
        "OURS": OURS,
        "STORES": STORES,
    }


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
        facts.append(("measured", f"{datetime.fromtimestamp(result.measured_at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"))
    for name, value in result.machine.items():
        is_size = name.endswith("_bytes") and isinstance(value, int) and value >= 0
        facts.append((name.removesuffix("_bytes").replace("_", " "), units.size(value) if is_size else value))
    # No client asks brokers for their version.
    names = {} if _is_embedded(result) else {"kafka": "Java's stores (the brokers may have another)"}
    return [*facts, *((f"version of {names.get(name, name)}", version) for name, version in result.versions.items())]


def render_report(result: StartupResult) -> tuple[str, str]:
    """Return the report as one self-contained HTML page, and as Markdown, which has no plots."""
    values, templates = report_values(result), templates_of("tests.lab")
    page = templates.get_template("startup_page.html.j2").render(values)
    markdown = templates.overlay(finalize=_as_markdown).get_template("startup.j2")
    text = markdown.render(**values, parts="startup_parts.md.j2")
    return page, _BLANK_LINES.sub("\n\n", text).strip() + "\n"


def _as_markdown(value: object) -> str:
    """Return text without anything that Markdown takes as markup."""
    if isinstance(value, Markup):
        return value
    return Markup(_MARKDOWN.sub(r"\\\1", shown_value(value)).replace("://", ":\\//"))


def write_report(result: StartupResult, folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into a folder, which is made if need be."""
    html, markdown = folder / "report.html", folder / "report.md"
    page, text = render_report(result)
    folder.mkdir(parents=True, exist_ok=True)
    html.write_text(page, "utf-8")
    markdown.write_text(text, "utf-8")
    return html, markdown


def latency_lines(result: StartupResult) -> Iterator[str]:
    """Yield what was measured of puts, for a terminal."""
    for put in measured_latencies(result):
        p50, p99 = units.milliseconds(put.seconds.median), units.milliseconds(put.seconds.tail)
        what = f"{put.latency.contender}, {put.latency.store}, groups: {put.latency.groups:,}"
        yield f"put to read-back, {what}: p50 {p50} ms{p99 and f', p99 {p99} ms'}"


def pair_table(result: StartupResult, *, headlines: bool = False) -> Iterator[str]:
    """Yield the pairs, all or those of the README, as Markdown that a terminal can show, too."""
    yield "| pair | times (95 %) | first, ms | second, ms | budget |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for each in compared(result):
        if headlines and not each.pair.headline:
            continue
        first, second = map(units.milliseconds, (each.first, each.second))
        figures = (with_interval(each.ratios, units.ratio), first, second, each.budget)
        yield f"| {each.pair.title} | {' | '.join(figures)} |"


def runs_table(runs: Sequence[StartupResult]) -> Iterator[str]:
    """Yield the pairs that all of several runs have, by run and of all rounds together, as Markdown."""
    yield f"| pair | {' | '.join(f'run {number}' for number, _ in enumerate(runs, 1))} | together (95 %) | budget |"
    yield f"| --- |{' ---: |' * (len(runs) + 1)} --- |"
    measured = [{each.pair: each for each in compared(run)} for run in runs]
    for pair, first in measured[0].items():
        found = [run[pair] for run in measured if pair in run]
        if len(found) == len(runs):
            whole = replace(first, ratios=Spread(sum((each.ratios.values for each in found), ())))
            figures = [*(units.ratio(each.ratios.median) for each in found), with_interval(whole.ratios, units.ratio)]
            yield f"| {pair.title} | {' | '.join(figures)} | {whole.budget} |"


def model_cards(model: CostModel, *, predicted: bool) -> list[tuple[str, str, str]]:
    """Return the prices of the cost model: how much, of what, and which of these."""
    prices = [
        (model.per_record_s, "a record", "own or foreign"),
        (model.per_early_record_s, "more", f"for each of the first {EARLY_RECORDS:,}"),
        (model.per_byte_s, "a byte", "of keys and values"),
        (model.per_early_byte_s, "more", f"for each of the first {size(EARLY_BYTES)}"),
        (model.per_own_record_s, "an own record", "parsed and folded"),
    ]
    cards = [(duration(seconds), what, detail) for seconds, what, detail in prices if seconds or what != "more"]
    error = (
        f"{percent(model.error)}",
        "largest error",
        "the longer beside the shorter, of a size predicted from the others",
    )
    return [(duration(model.fixed_s), "fixed", ""), *cards, *([error] if predicted else [])]
