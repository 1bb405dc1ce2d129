"""Parts of the report about single starts: the KIP's table, growth, the model, phases, settings of the topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from connect_share.startup import EARLY_BYTES, EARLY_RECORDS
from spark_jobs.bar_plot import Bar, Segment, bar_plot
from spark_jobs.startup.contrasts import Contrast, contrasts
from spark_jobs.startup.document import Block, Card, Cards, Figure, Prose, Section, Table
from spark_jobs.startup.figures import (
    KIP,
    Measured,
    bytes_of,
    drawable,
    measured,
    ratios,
    records_of,
    scenario_of,
    scenario_title,
)
from spark_jobs.startup.growth import Growth, growths
from spark_jobs.startup.names import OURS, Look, contender_label, contender_title, normal_name
from spark_jobs.startup.plots import Row, line_plot, ratio_plot, row_plot
from spark_jobs.startup.result import PHASES, Prediction, StartupResult
from spark_jobs.startup.scenario_sections import cost
from spark_jobs.startup.units import duration, milliseconds, percent, ratio, size

_PHASE_PLOTS: Final = 2


def growth_section(result: StartupResult) -> Section | None:
    """Give the curves with the model's line, and the figures of every size."""
    found = growths(result)
    if not found:
        return None
    blocks: list[Block] = [
        Prose(
            "Warm starts unless a name says cold, medians with the range of all; the model is of our cold starts. "
            "Where the values lie decades apart the axes are logarithmic: "
            "a straight line that rises by one decade a decade is a price per record.",
            of_plots=True,
        )
    ]
    tables = []
    for each in found:
        dimension = each.dimension
        plot = line_plot(
            dimension.title,
            each.curves(),
            x_name=dimension.x_name,
            x_write=dimension.write,
            expected=each.expected(result),
        )
        note = (
            "Dotted: the fitted model with its error. Diamonds: predicted from the other sizes alone."
            if result.model
            else ""
        )
        blocks.append(Figure(dimension.title, plot, note))
        tables.append(_growth_table(each))
    return Section("How a start grows", (*blocks, *tables))


def _growth_table(growth: Growth) -> Table:
    rows: list[tuple[object, ...]] = []
    for (x, scenario), found in zip(growth.scenarios, growth.measured, strict=True):
        times = {(each.other.contender, each.other.warmth): ratio(each.value) for each in ratios(found)}
        rows += (
            (
                growth.dimension.write(x),
                records_of(scenario),
                size(bytes_of(scenario)),
                each.title,
                times.get((each.contender, each.warmth), "1" if normal_name(each.contender) == OURS else ""),
                f"{milliseconds(each.total.median)} ({milliseconds(each.total.low)}–{milliseconds(each.total.high)})",
                *cost(each),
                each.total.n,
            )
            for each in found
        )
    titles = (
        growth.dimension.x_name,
        "records",
        "bytes",
        "what",
        "× ours",
        "all three, ms",
        "CPU, ms",
        "memory",
        "starts",
    )
    return Table(
        titles, tuple(rows), frozenset({0, 1, 2, 4, 5, 6, 7, 8}), folded=f"{growth.dimension.title}: the figures"
    )


def _early(price_s: float, first: str) -> tuple[Card, ...]:
    return (Card(duration(price_s), "more", f"for each of the first {first}"),) if price_s else ()


def model_section(result: StartupResult) -> Section | None:
    """Give the fitted model, and how well it met sizes that it had not seen."""
    model = result.model
    if model is None and not result.predictions:
        return None
    blocks: list[Block] = []
    if model is not None:
        blocks += [
            Prose(
                "A cold start of ours takes a fixed time, and a price for each record, each byte "
                "and each record of the group's own."
            ),
            Cards(
                (
                    Card(duration(model.fixed_s), "fixed"),
                    Card(duration(model.per_record_s), "a record", "own or foreign"),
                    *_early(model.per_early_record_s, f"{EARLY_RECORDS:,}"),
                    Card(duration(model.per_byte_s), "a byte", "of keys and values"),
                    *_early(model.per_early_byte_s, size(EARLY_BYTES)),
                    Card(duration(model.per_own_record_s), "an own record", "parsed and folded"),
                    *(
                        (Card(f"± {percent(model.error)}", "largest error", "of a size predicted from the others"),)
                        if result.predictions
                        else ()
                    ),
                )
            ),
        ]
    if not result.predictions:
        blocks.append(Prose("Too few sizes were measured to tell how far off it is."))
    known = [
        each for each in result.predictions if drawable(each.predicted_seconds) and drawable(each.measured_seconds)
    ]
    if known:
        title = "Each size, predicted from the others"
        rows = [_prediction_row(result, each) for each in known]
        blocks.append(
            Figure(title, row_plot(title, rows), "Dot: measured. Stroke: predicted, with the range of its error.")
        )
        blocks.append(
            Table(
                ("size", "error", "predicted, ms", "measured, ms", "records", "bytes", "own records"),
                tuple(
                    (
                        scenario_title(result, each.scenario),
                        _error(each),
                        milliseconds(each.predicted_seconds),
                        milliseconds(each.measured_seconds),
                        each.size.records,
                        size(each.size.bytes),
                        each.size.own_records,
                    )
                    for each in known
                ),
                frozenset(range(1, 7)),
                folded="Predictions: the figures",
            )
        )
    return Section("The cost model", tuple(blocks))


def _error(prediction: Prediction) -> str:
    share = prediction.predicted_seconds / prediction.measured_seconds - 1
    return f"{'+' if share >= 0 else '−'}{percent(abs(share))}"


def _prediction_row(result: StartupResult, prediction: Prediction) -> Row:
    predicted, factor = prediction.predicted_seconds, 1 + (0.0 if result.model is None else result.model.error)
    span = (predicted / factor, predicted * factor)
    return Row(
        scenario_title(result, prediction.scenario),
        f"{_error(prediction)} at {duration(prediction.measured_seconds)}",
        Look(1),
        dots=(prediction.measured_seconds,),
        middle=prediction.predicted_seconds,
        span=span if all(map(drawable, span)) else None,
    )


def phases_section(result: StartupResult) -> Section | None:
    """Give where the time of a start goes: on the KIP's workload, and on the largest one."""
    having: dict[str, list[Measured]] = {}
    for each in measured(result):
        if sum(each.phases.values()) > 0:
            having.setdefault(each.scenario, []).append(each)
    names = sorted(having, key=lambda name: (name != KIP, -_records(result, name)))[:_PHASE_PLOTS]
    if not names:
        return None
    blocks: list[Block] = [
        Prose(
            "Medians of each part, in their order from left to right; reads of the three topics run side by side.",
            dim=True,
        )
    ]
    tables = []
    for name in names:
        found = having[name]
        parts = _phase_names(found)
        title = scenario_title(result, name)
        blocks.append(
            Figure(title, bar_plot(title, [_phase_bar(each, parts) for each in found]), legend=_spaced(parts))
        )
        tables.append(
            Table(
                ("milliseconds", *_spaced(parts), "sum"),
                tuple(
                    (
                        each.title,
                        *(milliseconds(each.phases.get(part, 0.0)) for part in parts),
                        milliseconds(sum(each.phases.values())),
                    )
                    for each in found
                ),
                frozenset(range(1, len(parts) + 2)),
                folded=f"{title}: the figures",
            )
        )
    return Section("Where the time goes", (*blocks, *tables))


def _records(result: StartupResult, name: str) -> int:
    scenario = scenario_of(result, name)
    return 0 if scenario is None else records_of(scenario)


def _phase_names(found: Iterable[Measured]) -> list[str]:
    there = {phase for each in found for phase in each.phases}
    return [*(phase for phase in PHASES if phase in there), *sorted(there - set(PHASES))]


def _spaced(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.replace("_", " ") for part in parts)


def _phase_bar(each: Measured, parts: Sequence[str]) -> Bar:
    segments = tuple(
        Segment(each.phases[part], f"{part.replace('_', ' ')}: {duration(each.phases[part])}", number)
        for number, part in enumerate(parts, 1)
        if each.phases.get(part, 0.0) > 0
    )
    label = f"{contender_label(each.contender)[:40]}, {each.warmth}"
    return Bar(label, duration(sum(segment.size for segment in segments)), segments)


def settings_section(result: StartupResult) -> Section | None:
    """Give what settings of the topics do to a start."""
    found = contrasts(result)
    if not found:
        return None
    blocks: list[Block] = [
        Prose(
            "A bar to the left: the start takes that much less time with the setting. To the right: more.",
            dim=True,
            of_plots=True,
        )
    ]
    for contrast in found:
        rows = [
            (_short(without), _both(without, having), _times(without, having)) for without, having in contrast.pairs
        ]
        note = f"“{contrast.having.title}” against “{contrast.without.title}”"
        blocks.append(Figure(contrast.title, ratio_plot(contrast.title, rows), note))
    return Section("What the topics' settings do", (*blocks, _settings_table(found)))


def _short(each: Measured) -> str:
    return f"{contender_label(each.contender)}, {each.warmth}"


def _times(without: Measured, having: Measured) -> float:
    return having.total.median / without.total.median


def _both(without: Measured, having: Measured) -> str:
    return f"{ratio(_times(without, having))} × · {duration(without.total.median)} → {duration(having.total.median)}"


def _settings_table(found: Sequence[Contrast]) -> Table:
    rows = tuple(
        (
            contrast.title,
            f"{contender_title(without.contender)}, {without.warmth}",
            ratio(_times(without, having)),
            milliseconds(having.total.median),
            milliseconds(without.total.median),
        )
        for contrast in found
        for without, having in contrast.pairs
    )
    return Table(
        ("setting", "what", "times", "with, ms", "without, ms"),
        rows,
        frozenset({2, 3, 4}),
        folded="Settings: the figures",
    )
