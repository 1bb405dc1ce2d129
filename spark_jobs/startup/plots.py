"""Plots of the start-up benchmark's report: curves, rows of dots, ratios; names stand where the thing is, not in a legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.startup.axes import Axis, axis
from spark_jobs.startup.names import Look
from spark_jobs.startup.svg import WIDTH, Canvas, bold_width_of, width_of
from spark_jobs.startup.units import duration, duration_tick, ratio

_LEFT: Final = 46.0
_MOST_FOR_LABELS: Final = 134.0
_LABEL_HEIGHT: Final = 14.0
_ROW: Final = 38.0
_TALL_ROW: Final = 84.0
_FEW_DOTS: Final = 40
_SINGLE_DOTS: Final = 3
_NOISE: Final = 0.05
"""Ratios that differ from 1 by less than this are drawn as no difference."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a curve with the range it was measured in; all above zero."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A contender's values, from left to right."""

    label: str
    look: Look
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says: a line with the range its error allows, and what it says of a size when fitted without it."""

    label: str
    line: tuple[Point, ...]
    unseen: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A line of text with values below it on a common axis.

    Attributes:
        value: stands at the right.
        look: of what is drawn.
        dots: single values.
        middle: a median, drawn as a strong stroke.
        span: a range, drawn as a bar.
    """

    label: str
    value: str
    look: Look
    dots: tuple[float, ...] = ()
    middle: float | None = None
    span: tuple[float, float] | None = None


def line_plot(
    title: str,
    curves: Sequence[Curve],
    *,
    x_name: str,
    x_write: Callable[[float], str],
    expected: Expected | None = None,
) -> str:
    """Draw seconds over a size, each curve named at its right end."""
    line, unseen = (expected.line, expected.unseen) if expected is not None else ((), ())
    everything = [*(point for curve in curves for point in curve.points), *line, *unseen]
    ends = len(curves) + (1 if line else 0)
    bottom = max(210.0, _LABEL_HEIGHT * ends + 20)
    canvas = Canvas(title, bottom + 36)
    names = [*(curve.label for curve in curves), expected.label if expected is not None else ""]
    right = WIDTH - min(_MOST_FOR_LABELS, max(map(bold_width_of, names)) + 14)
    x_axis = axis([point.x for point in everything], _LEFT + 6, right, x_write)
    y_axis = axis([bound for point in everything for bound in (point.low, point.high)], bottom, 10, duration_tick)
    for tick in y_axis.ticks(7):
        y = y_axis.at(tick)
        canvas.line(_LEFT, y, right + 4, y, "grid")
        canvas.text(_LEFT - 5, y + 4, y_axis.write(tick), "tick", anchor="end", width=_LEFT - 3)
    _ticks_below(canvas, x_axis, [], bottom)
    canvas.text((_LEFT + right) / 2, bottom + 32, x_name, "tick", anchor="middle", width=right - _LEFT)
    labels: list[tuple[float, str, str]] = []
    if expected is not None and line:
        upper = [(x_axis.at(point.x), y_axis.at(point.high)) for point in line]
        lower = [(x_axis.at(point.x), y_axis.at(point.low)) for point in line]
        canvas.path([*upper, *reversed(lower)], "band", closed=True)
        canvas.path([(x_axis.at(point.x), y_axis.at(point.y)) for point in line], "curve model")
        labels.append((y_axis.at(line[-1].y), expected.label, "name dim"))
    for curve in curves:
        places = [(x_axis.at(point.x), y_axis.at(point.y)) for point in curve.points]
        colour = f"k{curve.look.colour}"
        for (x, _), point in zip(places, curve.points, strict=True):
            canvas.line(x, y_axis.at(point.low), x, y_axis.at(point.high), f"whisker {colour}")
        canvas.path(places, f"curve {colour}{' dashed' if curve.look.dashed else ''}")
        for (x, y), point in zip(places, curve.points, strict=True):
            hint = f"{curve.label}, {x_write(point.x)}: {duration(point.y)}"
            canvas.marker(curve.look.colour, x, y, f"mark {colour}", hint)
        if places:
            labels.append((places[-1][1], curve.label, f"name {colour}"))
    for point in unseen:
        hint = f"predicted from the other sizes, {x_write(point.x)}: {duration(point.y)}"
        canvas.diamond(x_axis.at(point.x), y_axis.at(point.y), "hollow k1", hint)
    _names_at_the_right(canvas, labels, right, bottom)
    return canvas.svg()


def _names_at_the_right(canvas: Canvas, labels: list[tuple[float, str, str]], left: float, bottom: float) -> None:
    """Write names beside the ends of their curves, apart from each other."""
    labels.sort()
    places: list[float] = []
    for wanted, _, _ in labels:
        places.append(max(wanted, places[-1] + _LABEL_HEIGHT if places else 10.0))
    lowest = bottom
    for number in reversed(range(len(places))):
        places[number] = min(places[number], lowest)
        lowest = places[number] - _LABEL_HEIGHT
    for place, (wanted, label, kind) in zip(places, labels, strict=True):
        if abs(place - wanted) > 3:
            canvas.path([(left + 4, wanted), (left + 10, place)], "leader")
        canvas.text(left + 12, place + 4, label, kind, width=WIDTH - left - 11)


def row_plot(
    title: str, rows: Sequence[Row], *, write: Callable[[float], str] = duration_tick, rising: bool = False
) -> str:
    """Draw values of several things below each other on one axis.

    Args:
        title: said to those who cannot see the plot.
        rows: from top to bottom.
        write: a tick's text.
        rising: dots rise from the smallest value to the largest: each row is a distribution function.
    """
    height = _TALL_ROW if rising else _ROW
    bottom = height * len(rows) + 4
    canvas = Canvas(title, bottom + 20)
    bounds = [
        value
        for row in rows
        for value in (*row.dots, *(row.span or ()), *(() if row.middle is None else (row.middle,)))
    ]
    across = axis(bounds, 8, WIDTH - 8, write)
    _ticks_below(canvas, across, [(height * number + 17, height * (number + 1)) for number in range(len(rows))], bottom)
    for number, row in enumerate(rows):
        top = height * number
        colour = f"k{row.look.colour}"
        room = WIDTH - width_of(row.value) - 10
        canvas.text(1.5, top + 12, row.label, f"name {colour}", width=room)
        canvas.text(WIDTH, top + 12, row.value, "value", anchor="end")
        if rising:
            _rising_dots(canvas, across, row, top + 24, top + height - 8)
        else:
            _dots_in_line(canvas, across, row, top + 27)
    return canvas.svg()


def _dots_in_line(canvas: Canvas, across: Axis, row: Row, middle: float) -> None:
    colour = f"k{row.look.colour}"
    if row.span is not None:
        low, high = (across.at(value) for value in row.span)
        canvas.rect(low, middle - 2.5, max(high - low, 1.0), 5, kind=f"span {colour}")
    for number, value in enumerate(row.dots):
        # Many values at one place would look like one: they lie a little above and below each other.
        shift = (number * 0.618 % 1 - 0.5) * 10 if len(row.dots) > 1 else 0.0
        kind, radius = ("mark", 4.0) if len(row.dots) <= _SINGLE_DOTS else ("spot", 2.6)
        canvas.dot(across.at(value), middle + shift, f"{kind} {colour}", duration(value), radius=radius)
    if row.middle is not None:
        x = across.at(row.middle)
        canvas.line(x, middle - 9, x, middle + 9, f"median {colour}")


def _rising_dots(canvas: Canvas, across: Axis, row: Row, top: float, bottom: float) -> None:
    colour = f"k{row.look.colour}"
    values = sorted(row.dots)
    radius = 2.6 if len(values) <= _FEW_DOTS else 1.8
    if row.middle is not None:
        x = across.at(row.middle)
        canvas.line(x, top - 2, x, bottom + 2, f"median thin {colour}")
    for number, value in enumerate(values):
        share = (number + 0.5) / len(values)
        canvas.dot(across.at(value), bottom - share * (bottom - top), f"spot {colour}", duration(value), radius=radius)


def _ticks_below(canvas: Canvas, across: Axis, stripes: Sequence[tuple[float, float]], bottom: float) -> None:
    """Write an axis below a plot, and draw its lines through the stripes that hold values."""
    right = -math.inf
    for tick in across.ticks():
        x, written = across.at(tick), across.write(tick)
        for top, end in stripes:
            canvas.line(x, top, x, end, "grid")
        half = width_of(written) / 2
        middle = min(max(x, half), WIDTH - half)
        if middle - half > right + 6:
            canvas.line(x, bottom, x, bottom + 4, "grid")
            canvas.text(middle, bottom + 16, written, "tick", anchor="middle")
            right = middle + half


def ratio_plot(title: str, rows: Sequence[tuple[str, str, float]]) -> str:
    """Draw bars to the left of 1 for what takes shorter, to the right for what takes longer.

    Args:
        title: said to those who cannot see the plot.
        rows: label, value, ratio (above zero).
    """
    furthest = max((max(value, 1 / value) for _, _, value in rows), default=1.0) ** 1.05
    across = Axis(
        1 / max(furthest, 2.2),
        max(furthest, 2.2),
        8,
        WIDTH - 8,
        logarithmic=True,
        write=lambda value: f"{ratio_tick(value)} ×",
    )
    bottom = _ROW * len(rows) + 4
    canvas = Canvas(title, bottom + 20)
    stripes = [(_ROW * number + 18, _ROW * (number + 1)) for number in range(len(rows))]
    _ticks_below(canvas, across, stripes, bottom)
    one = across.at(1.0)
    for number, (label, value, times) in enumerate(rows):
        top = _ROW * number
        canvas.text(1.5, top + 12, label, "name", width=WIDTH - width_of(value) - 10)
        canvas.text(WIDTH, top + 12, value, "value", anchor="end")
        end = across.at(times)
        colour = "s6" if abs(times - 1) <= _NOISE else "s1" if times < 1 else "s2"
        canvas.rect(min(one, end), top + 20, max(abs(end - one), 1.5), 14, kind=colour, hint=f"{ratio(times)} times")
        canvas.line(one, top + 18, one, top + 36, "baseline")
    return canvas.svg()


def ratio_tick(value: float) -> str:
    """Write a round ratio at an axis."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.2g}"
