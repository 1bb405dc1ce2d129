"""The plots of the start-up benchmark's report, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from connect_share.startup import CostModel
from spark_jobs import plots
from spark_jobs.startup.result import Prediction, StartupResult, Warmth
from spark_jobs.startup.series import Contrast, Growth
from spark_jobs.startup.view import MeasuredLatency, MeasuredScenario, MeasuredStorm, drawable, look_of
from spark_jobs.units import duration, milliseconds, percent, ratio

_DOTS: Final = 40
"""Of a latency: enough to see the shape of many puts."""


def starts_plot(title: str, scenario: MeasuredScenario, warmth: Warmth) -> Markup:
    """Return every start of one warmth, one line for each contender."""
    rows = []
    for each in scenario.starts:
        if each.warmth == warmth:
            look, total = look_of(each.contender), each.total
            value = duration(total.median, total.low, total.high) if len(total.values) > 1 else duration(total.median)
            rows.append(plots.Strip(look.label, value, look.colour, total.values, total.median))
    return plots.strips(title, rows)


def growth_plot(growth: Growth, result: StartupResult) -> Markup:
    """Return the curves of one series with the model's line."""
    dimension = growth.dimension
    return plots.curves(
        dimension.title,
        growth.curves(),
        x_label=dimension.x_label,
        x_text=dimension.write,
        model=growth.model_curve(result),
        predicted=growth.predicted(result),
    )


def predictions_plot(title: str, predictions: Sequence[tuple[str, Prediction]], model: CostModel | None) -> Markup:
    """Return what was predicted of each size, with the range of its error, and what was measured."""
    rows = []
    for label, each in predictions:
        factor = 1.0 if model is None else 1 + model.error
        low, high = each.predicted_seconds / factor, each.predicted_seconds * factor
        rows.append(
            plots.Strip(
                label,
                f"{error_text(each)} at {duration(each.measured_seconds)}",
                1,
                (each.measured_seconds,),
                each.predicted_seconds,
                (low, high) if drawable(low) and drawable(high) else None,
            )
        )
    return plots.strips(title, rows)


def error_text(prediction: Prediction) -> str:
    """Return how far off a prediction was."""
    share = prediction.predicted_seconds / prediction.measured_seconds - 1
    return f"{'+' if share >= 0 else '−'}{percent(abs(share))}"


def phases_plot(scenario: MeasuredScenario) -> Markup:
    """Return the parts of a start, one bar for each contender that knows them."""
    rows = []
    for each in scenario.starts:
        parts = [
            (each.phases[phase], f"{phase.replace('_', ' ')}: {duration(each.phases[phase])}", number)
            for number, phase in enumerate(scenario.phases, 1)
            if each.phases.get(phase, 0.0) > 0
        ]
        if parts:
            rows.append(plots.Bar(each.label, duration(sum(length for length, _, _ in parts)), parts))
    return plots.bars(scenario.title, rows, legend=[phase.replace("_", " ") for phase in scenario.phases])


def contrast_plot(contrast: Contrast) -> Markup:
    """Return how many times as long a start takes with a setting."""
    rows = []
    for pair in contrast.pairs:
        before, after = duration(pair.without.total.median), duration(pair.having.total.median)
        rows.append((pair.without.label, f"{ratio(pair.times)} × · {before} → {after}", pair.times))
    return plots.ratios(contrast.title, rows)


def storm_plot(title: str, storms: Sequence[MeasuredStorm]) -> Markup | None:
    """Return the distributions of the starts' times."""
    rows = []
    for each in storms:
        if each.seconds is not None:
            value = f"p50 {duration(each.seconds.median)} · p99 {duration(each.seconds.percentile(0.99))}"
            label = f"{each.label}, queueing" if each.queueing else each.label
            colour = 6 if each.queueing else 3 if each.storm.at_once == 1 else 1
            rows.append(plots.Strip(label, value, colour, each.seconds.values))
    return plots.distributions(title, rows) if rows else None


def storm_wall_plot(title: str, storms: Sequence[MeasuredStorm]) -> Markup | None:
    """Return the time until all starts were up."""
    rows = []
    for each in storms:
        if each.wall_seconds is not None:
            wall = duration(each.wall_seconds)
            facts = [f"{ratio(each.times)} ×"] if each.times is not None else []
            facts.append(wall)
            if each.cpu_seconds is not None:
                facts.append(f"{milliseconds(each.cpu_seconds)} ms CPU a start")
            colour = 3 if each.storm.at_once == 1 else 1
            rows.append(plots.Bar(each.label, " · ".join(facts), [(each.wall_seconds, wall, colour)]))
    return plots.bars(title, rows) if rows else None


def latency_plot(title: str, latencies: Sequence[MeasuredLatency]) -> Markup:
    """Return the puts of one store: medians, and bars that reach to the 99th percentile."""
    rows = []
    for each in latencies:
        p50, p99 = each.seconds.median, each.seconds.percentile(0.99)
        ordered = sorted(each.seconds.values)
        step = max(1, len(ordered) // _DOTS)
        rows.append(
            plots.Strip(
                f"{each.label}, {each.groups}",
                f"p50 {duration(p50)} · p99 {duration(p99)}",
                look_of(each.latency.contender).colour,
                [value for value in ordered[step // 2 :: step] if value <= p99],
                p50,
                (p50, max(p50, p99)),
            )
        )
    return plots.strips(title, rows)
