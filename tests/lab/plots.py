"""Plots as SVG that stands inside an HTML page; the page's style colours them, so they are light and dark.

Labels stand above their row and not beside it, so that text stays readable on a phone.
"""

from __future__ import annotations

import re
import statistics
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from connect_share.console import printable, text_width, truncated
from tests.lab.units import duration, duration_tick

_COLOURS: Final = ("#0b61a4", "#b3480a", "#00705a", "#8a3b8f", "#7a5c00", "#5f5f5a")
"""Those of the light page, after Okabe and Ito; the names in startup.css that replace them have dark ones, too."""

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

_MARGIN: Final = 20.0
"""Points beside an axis: half of the widest text of a size, which may stand at its end."""

_COLUMNS: Final = 48
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
    """A line of text, with a value at its right, and single values and their median below it."""

    label: str
    value: str
    colour: int
    dots: Sequence[float]


@mpl.rc_context(_SETTINGS)
def curves(
    title: str,
    lines: Sequence[Curve],
    *,
    x_label: str,
    x_text: Callable[[float], str],
    model: Sequence[tuple[float, float, float, float]] = (),
    predicted: Sequence[tuple[float, float]] = (),
) -> Markup:
    """Return a plot of seconds over a size.

    Args:
        title: for those who cannot see the plot.
        lines: what was measured; whiskers reach from the lowest to the highest value.
        x_label: of the axis.
        x_text: writes a size.
        model: points of a dotted line, with its range as a band.
        predicted: sizes and seconds, drawn as hollow diamonds.
    """
    below = 36 + _LEGEND_ROW * -(-(len(lines) + bool(model) + bool(predicted)) // 2)
    plot = _Plot(title, 210, left=48, below=below)
    axes = plot.axes
    axes.grid(visible=True, axis="y")
    everything = [*model, *(point for line in lines for point in line.points), *((x, y, y, y) for x, y in predicted)]
    if model:
        x, y, low, high = zip(*model, strict=True)
        axes.fill_between(x, low, high, color=_INK, alpha=0.08, linewidth=0)
        axes.plot(x, y, color=_INK, linestyle=":", linewidth=1.3, label="fitted model")
    for line in lines:
        x, y, low, high = zip(*line.points, strict=True)
        colour, marker = _look(line.colour)
        axes.vlines(x, low, high, color=colour, linewidth=1.2, alpha=0.5)
        style = "--" if line.dashed else "-"
        label = truncated(printable(line.label), 22)
        axes.plot(x, y, color=colour, linestyle=style, marker=marker, markersize=4, label=label)
        hints = [f"{line.label}, {x_text(point[0])}: {duration(point[1])}" for point in line.points]
        plot.dots(x, y, hints, s=30, color=colour, marker=marker, linewidth=0)
    if predicted:
        x, y = zip(*predicted, strict=True)
        hints = [f"predicted from the other sizes, {x_text(x)}: {duration(y)}" for x, y in predicted]
        plot.dots(x, y, hints, s=36, facecolor=_CARD, edgecolor=_COLOURS[0], marker="D", label="predicted")
    _scale(axes.xaxis, [point[0] for point in everything], x_text)
    _scale(axes.yaxis, [bound for point in everything for bound in point[2:]], duration_tick)
    axes.set_xlabel(printable(x_label), labelpad=2)
    plot.figure.legend(loc="lower left", ncols=2, fontsize=10, borderaxespad=0)
    return plot.svg()


@mpl.rc_context(_SETTINGS)
def strips(title: str, rows: Sequence[Strip]) -> Markup:
    """Return a plot of seconds of several things below each other, on one axis."""
    plot = _Plot(title, _ROW * len(rows), left=_MARGIN, below=20)
    axes = plot.axes
    place = axes.get_yaxis_transform()
    for number, row in enumerate(rows):
        colour, marker = _look(row.colour)
        value = printable(row.value)
        label = truncated(printable(row.label), max(8, _COLUMNS - text_width(value)))
        axes.text(0, number + 0.36, label, transform=place, color=colour, weight="bold")
        axes.text(1, number + 0.36, value, transform=place, color=_DIM, ha="right")
        few, middle, median = len(row.dots) <= 3, number + 0.7, statistics.median(row.dots)
        # Many values at one place would look like one: they lie a little above and below each other.
        y = [middle + ((each * 0.618 % 1 - 0.5) * 0.26 if len(row.dots) > 1 else 0) for each in range(len(row.dots))]
        style: dict[str, Any] = {"s": 40, "alpha": 1.0} if few else {"s": 16, "alpha": 0.5}
        plot.dots(row.dots, y, map(duration, row.dots), color=colour, marker=marker, linewidth=0, **style)
        axes.vlines(median, middle - 0.25, middle + 0.25, color=colour, linewidth=3)
    axes.set_ylim(max(1, len(rows)), 0)
    axes.yaxis.set_major_locator(NullLocator())
    _scale(axes.xaxis, [value for row in rows for value in row.dots], duration_tick)
    return plot.svg()


class _Plot:
    """A figure with one pair of axes, and the texts that are shown on hover."""

    def __init__(self, title: str, height: float, *, left: float, below: float) -> None:
        self._title = title
        self._hints: list[str] = []
        whole = height + below + 6
        self.figure = Figure(figsize=(_WIDTH / 72, whole / 72))
        inside = (left / _WIDTH, below / whole, (_WIDTH - left - _MARGIN) / _WIDTH, height / whole)
        self.axes: Axes = self.figure.add_axes(inside)

    def dots(self, x: Sequence[float], y: Sequence[float], hints: Iterable[str], **style: Any) -> None:
        """Draw single values; a hint is shown on hover: matplotlib writes a link, which becomes a title."""
        first = len(self._hints)
        self._hints += [escape(printable(hint)) for hint in hints]
        links = [f"hint:{number}" for number in range(first, len(self._hints))]
        self.axes.scatter(x, y, zorder=3, urls=links, **style)

    def svg(self) -> Markup:
        """Return the drawing."""
        text = StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with warnings.catch_warnings():
            # A character has no glyph in the font that measures; the browser has its own.
            warnings.simplefilter("ignore")
            self.figure.savefig(text, format="svg", transparent=True, metadata=nothing)
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
        return Markup(f"{head}{inside}</svg>")


def _look(number: int) -> tuple[str, str]:
    """Return the colour and the marker of a number from 1."""
    place = (number - 1) % len(_COLOURS)
    return _COLOURS[place], _MARKERS[place]


def _scale(axis: Axis, values: Sequence[float], text: Callable[[float], str]) -> None:
    """Make an axis that holds all values, which are above zero; a linear one begins at zero."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    factor, name = high / low, "x" if axis is axis.axes.xaxis else "y"
    if factor >= _LOGARITHMIC_FROM:
        margin = factor**0.04
        axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low / margin, high * margin)})
        axis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if factor < 200 else (1, 3) if factor < 1e4 else (1,), numticks=7)
        )
    else:
        axis.axes.set(**{f"{name}lim": (0, high * 1.04)})
        axis.set_major_locator(MaxNLocator(5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_tick_params(length=0)
