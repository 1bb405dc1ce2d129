"""Plots as SVG that stands inside an HTML page; the page's style colours them, so they are light and dark.

Labels stand above their row and not beside it, so that text stays readable on a phone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import accumulate
from typing import Any, Final, Literal

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from connect_share.console import printable, text_width, truncated
from spark_jobs.units import duration, duration_tick, ratio

_COLOURS: Final = ("#0b61a4", "#b3480a", "#00705a", "#8a3b8f", "#7a5c00", "#5f5f5a")
"""Those of the light page, after Okabe and Ito; the names in plots.css that replace them have dark ones, too."""

_INK, _DIM, _LINE, _CARD = "#1c1c1a", "#5c5c57", "#e2e2dd", "#fffffe"
_VARIABLES: Final = {
    **{colour: f"var(--c{number})" for number, colour in enumerate(_COLOURS, 1)},
    _INK: "var(--ink)",
    _DIM: "var(--dim)",
    _LINE: "var(--line)",
    _CARD: "var(--card)",
}
_LEFT_OUT: Final = [
    re.compile(pattern)
    for pattern in (r' id="\w+\.?\w*_\d+"', r" font-family: [^;]*;", r' transform="rotate\(-0 [^"]*"')
]
"""Names of groups, which all plots of a page would share; fonts, for the page's is used; turns by nothing."""

_MARKERS: Final = "o^sDvP"
_WIDTH: Final = 360.0
"""Of every plot, in points: about the width of a phone."""

_COLUMNS: Final = 52
"""Characters in the width of a plot."""

_ROW: Final = 38.0
_LEGEND_ROW: Final = 15.0
_LOGARITHMIC_FROM: Final = 20.0
"""Values that lie further apart than this get a logarithmic axis: the small ones would be one dot otherwise."""

_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "connect-share",
    "text.parse_math": False,
    "font.size": 11,
    "text.color": _INK,
    "xtick.color": _DIM,
    "ytick.color": _DIM,
    "axes.labelcolor": _DIM,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.labelsize": 10,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.edgecolor": _LINE,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of one contender, from left to right.

    Attributes:
        points: x, value, lowest and highest value, all above zero.
    """

    label: str
    colour: int
    points: Sequence[tuple[float, float, float, float]]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """A line of text with values below it.

    Attributes:
        value: stands at the right.
        dots: single values.
        middle: a median, drawn as a strong stroke.
        span: a range, drawn as a bar.
    """

    label: str
    value: str
    colour: int
    dots: Sequence[float] = ()
    middle: float | None = None
    span: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A line of text with a bar of one or more parts below it.

    Attributes:
        parts: length, text to be shown on hover, and colour of each.
    """

    label: str
    value: str
    parts: Sequence[tuple[float, str, int]]


@mpl.rc_context(_SETTINGS)
def curves(
    title: str,
    lines: Sequence[Curve],
    *,
    x_label: str,
    x_text: Callable[[float], str],
    model: Curve | None = None,
    predicted: Sequence[tuple[float, float]] = (),
) -> Markup:
    """Return a plot of seconds over a size.

    Args:
        title: for those who cannot see the plot.
        lines: what was measured; whiskers reach from the lowest to the highest value.
        x_label: of the axis.
        x_text: writes a size.
        model: a dotted line with its range as a band.
        predicted: sizes and seconds, drawn as hollow diamonds.
    """
    plot = _Plot(title, 210, left=48, bottom=36, legend=len(lines) + (model is not None) + bool(predicted), columns=2)
    axes = plot.axes
    axes.grid(visible=True, axis="y")
    handles: list[Artist] = []
    everything = [*(point for line in lines for point in line.points), *((x, y, y, y) for x, y in predicted)]
    if model is not None and model.points:
        everything += model.points
        x, y, low, high = zip(*model.points, strict=True)
        axes.fill_between(x, low, high, color=_INK, alpha=0.08, linewidth=0)
        handles += axes.plot(x, y, color=_INK, linestyle=":", linewidth=1.3, label=_short(model.label, 22))
    for line in lines:
        x, y, low, high = zip(*line.points, strict=True)
        colour, marker = _colour(line.colour), _MARKERS[(line.colour - 1) % len(_MARKERS)]
        style = "--" if line.dashed else "-"
        axes.vlines(x, low, high, color=colour, linewidth=1.2, alpha=0.5)
        handles += axes.plot(
            x, y, color=colour, linestyle=style, marker=marker, markersize=4, label=_short(line.label, 22)
        )
        for point in line.points:
            plot.dots(
                [point[0]], [point[1]], line.colour, [f"{line.label}, {x_text(point[0])}: {duration(point[1])}"], 30
            )
    if predicted:
        x, y = zip(*predicted, strict=True)
        hints = [f"predicted from the other sizes, {x_text(x)}: {duration(y)}" for x, y in predicted]
        marks = axes.scatter(x, y, marker="D", s=36, facecolor=_CARD, edgecolor=_colour(1), zorder=3)
        plot.hint(marks, hints)
        marks.set_label("predicted")
        handles.append(marks)
    _scale(axes, "x", [point[0] for point in everything], x_text)
    _scale(axes, "y", [bound for point in everything for bound in point[2:]], duration_tick)
    axes.set_xlabel(printable(x_label), labelpad=2)
    plot.legend(handles)
    return plot.svg()


@mpl.rc_context(_SETTINGS)
def strips(title: str, rows: Sequence[Strip]) -> Markup:
    """Return a plot of seconds of several things below each other, on one axis."""
    plot = _Plot(title, _ROW * len(rows))
    for number, row in enumerate(rows):
        plot.label(number, row.label, row.value, _colour(row.colour))
        middle, colour = number + 0.7, _colour(row.colour)
        if row.span is not None:
            low, high = row.span
            plot.axes.barh(middle, high - low, left=low, height=0.14, color=colour, alpha=0.25)
        # Many values at one place would look like one: they lie a little above and below each other.
        places = [
            middle + ((each * 0.618 % 1 - 0.5) * 0.26 if len(row.dots) > 1 else 0) for each in range(len(row.dots))
        ]
        plot.dots(row.dots, places, row.colour, map(duration, row.dots), 40 if len(row.dots) <= 3 else 16)
        if row.middle is not None:
            plot.axes.vlines(row.middle, middle - 0.25, middle + 0.25, color=colour, linewidth=3)
    plot.rows(len(rows))
    bounds = [each for row in rows for each in (*row.dots, *(row.span or ()), row.middle) if each is not None]
    _scale(plot.axes, "x", bounds, duration_tick)
    return plot.svg()


@mpl.rc_context(_SETTINGS)
def distributions(title: str, rows: Sequence[Strip]) -> Markup:
    """Return the distribution functions of the rows' dots, in seconds."""
    plot = _Plot(title, 120, left=40, legend=len(rows), columns=1)
    handles: list[Artist] = []
    for row in rows:
        steps = plot.axes.ecdf(
            row.dots, color=_colour(row.colour), linewidth=2, label=_short(f"{row.label}: {row.value}", 50)
        )
        plot.hint(steps, [f"{row.label}: {row.value}"])
        handles.append(steps)
    _scale(plot.axes, "x", [value for row in rows for value in row.dots], duration_tick)
    plot.axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    plot.axes.yaxis.set_major_locator(MaxNLocator(4))
    plot.legend(handles)
    return plot.svg()


@mpl.rc_context(_SETTINGS)
def bars(title: str, rows: Sequence[Bar], *, legend: Sequence[str] = (), timeline: bool = False) -> Markup:
    """Return bars on one scale that starts at zero.

    Args:
        title: for those who cannot see the plot.
        rows: from top to bottom.
        legend: what the colours are, from the first on.
        timeline: each bar begins where the one above ended.
    """
    plot = _Plot(title, _ROW * len(rows), bottom=4, legend=len(legend), columns=3)
    left = 0.0
    for number, row in enumerate(rows):
        plot.label(number, row.label, row.value)
        lengths = [length for length, _, _ in row.parts]
        for begin, (length, hint, colour) in zip(accumulate(lengths, initial=left), row.parts, strict=False):
            plot.bar(number, begin, length, colour, hint)
        left = left + sum(lengths) if timeline else 0.0
    longest = left if timeline else max((sum(part[0] for part in row.parts) for row in rows), default=0.0)
    plot.rows(len(rows))
    plot.axes.set_xlim(0, longest or 1.0)
    plot.axes.xaxis.set_major_locator(NullLocator())
    plot.legend([Patch(color=_colour(number), label=_short(name, 16)) for number, name in enumerate(legend, 1)])
    return plot.svg()


@mpl.rc_context(_SETTINGS)
def ratios(title: str, rows: Sequence[tuple[str, str, float]]) -> Markup:
    """Return bars to the left of 1 for what takes less time, to the right for what takes more.

    Args:
        title: for those who cannot see the plot.
        rows: label, value, ratio (above zero).
    """
    plot = _Plot(title, _ROW * len(rows))
    furthest = max([2.2, *(max(times, 1 / times) ** 1.05 for _, _, times in rows)])
    for number, (label, value, times) in enumerate(rows):
        plot.label(number, label, value)
        plot.bar(
            number, 1.0, times - 1, 6 if abs(times - 1) <= 0.05 else 1 if times < 1 else 2, f"{ratio(times)} times"
        )
    plot.axes.axvline(1.0, color=_INK, linewidth=1.2)
    plot.rows(len(rows))
    _scale(plot.axes, "x", [1 / furthest, furthest], lambda times: f"{times:,g} ×", ratio=True)
    return plot.svg()


class _Plot:
    """A figure with one pair of axes, and the texts that are shown on hover."""

    def __init__(
        self, title: str, height: float, *, left: float = 8, bottom: float = 20, legend: int = 0, columns: int = 1
    ) -> None:
        self._title = title
        self._columns = columns
        self._hints: list[str] = []
        below = bottom + _LEGEND_ROW * -(-legend // columns)
        whole = height + below + 6
        self._figure = Figure(figsize=(_WIDTH / 72, whole / 72))
        inside = (left / _WIDTH, below / whole, (_WIDTH - left - 8) / _WIDTH, height / whole)
        self.axes: Axes = self._figure.add_axes(inside)

    def rows(self, number: int) -> None:
        """Make the y axis one of rows from top to bottom."""
        self.axes.set_ylim(max(1, number), 0)
        self.axes.yaxis.set_major_locator(NullLocator())

    def label(self, row: int, label: str, value: str, colour: str = _INK) -> None:
        """Write the text of a row."""
        place = self.axes.get_yaxis_transform()
        room = max(8, _COLUMNS - text_width(printable(value)))
        self.axes.text(0, row + 0.36, _short(label, room), transform=place, color=colour, weight="bold")
        self.axes.text(1, row + 0.36, printable(value), transform=place, color=_DIM, ha="right")

    def bar(self, row: int, begin: float, length: float, colour: int, hint: str) -> None:
        """Draw a part of a bar."""
        (drawn,) = self.axes.barh(
            row + 0.7, length, left=begin, height=0.38, color=_colour(colour), edgecolor=_CARD, linewidth=0.4
        )
        self.hint(drawn, [hint])

    def dots(self, x: Sequence[float], y: Sequence[float], colour: int, hints: Iterable[str], area: float) -> None:
        """Draw single values."""
        marker = _MARKERS[(colour - 1) % len(_MARKERS)]
        alpha = 1.0 if len(x) <= 3 else 0.5
        drawn = self.axes.scatter(
            x, y, s=area, color=_colour(colour), marker=marker, alpha=alpha, linewidth=0, zorder=3
        )
        self.hint(drawn, hints)

    def hint(self, drawn: Any, texts: Iterable[str]) -> None:
        """Show texts when a thing is pointed at: matplotlib writes a link around it, which becomes a title."""
        links = []
        for text in texts:
            links.append(f"hint:{len(self._hints)}")
            self._hints.append(escape(printable(text)))
        drawn.set_urls(links) if hasattr(drawn, "set_urls") else drawn.set_url(links[0])

    def legend(self, handles: Sequence[Artist]) -> None:
        """Write below the axes what the colours are."""
        if handles:
            self._figure.legend(handles=handles, loc="lower left", ncols=self._columns, fontsize=10, borderaxespad=0)

    def svg(self) -> Markup:
        """Return the drawing."""
        text = StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # a character without a glyph in the font that measures; the browser has its own
            self._figure.savefig(text, format="svg", transparent=True, metadata=nothing)
        whole = text.getvalue()
        view = re.search(r'viewBox="[^"]*"', whole)
        inside = re.sub(r"\s+", " ", whole[whole.index("</defs>") + len("</defs>") : whole.rindex("</svg>")])
        for colour, variable in _VARIABLES.items():
            inside = inside.replace(colour, variable)
        for pattern in _LEFT_OUT:
            inside = pattern.sub("", inside)
        inside = re.sub(
            r'<a xlink:href="hint:(\d+)"[^>]*>', lambda found: f"<g><title>{self._hints[int(found[1])]}</title>", inside
        )
        inside = inside.replace("</a>", "</g>").replace("xlink:href", "href")
        head = f'<svg class="plot" role="img" aria-label="{escape(printable(self._title))}" {view[0] if view else ""}>'
        return Markup(f"{head}{inside}</svg>")  # noqa: S704 - matplotlib and escape have made it safe


def _short(text: str, columns: int) -> str:
    return truncated(printable(text), columns)


def _colour(number: int) -> str:
    return _COLOURS[(number - 1) % len(_COLOURS)]


def _scale(
    axes: Axes, name: Literal["x", "y"], values: Sequence[float], text: Callable[[float], str], *, ratio: bool = False
) -> None:
    """Make an axis that holds all values, which are above zero; a linear one begins at zero."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    factor = high / low
    axis: Axis = axes.xaxis if name == "x" else axes.yaxis
    if ratio or factor >= _LOGARITHMIC_FROM:
        margin = factor**0.04
        axes.set(**{f"{name}scale": "log", f"{name}lim": (low / margin, high * margin)})
        axis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if factor < 200 else (1, 3) if factor < 1e4 else (1,), numticks=7)
        )
    else:
        axes.set(**{f"{name}lim": (0, high * 1.04)})
        axis.set_major_locator(MaxNLocator(5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_tick_params(length=0)
