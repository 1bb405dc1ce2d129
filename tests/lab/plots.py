"""Plots as SVG that stands inside an HTML page; the page's style colours them, so they are light and dark."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, Formatter, FuncFormatter, LogLocator, NullLocator

from connect_share.console.output import printable, truncated

_COLOURS: Final = ("#0b61a4", "#b3480a", "#00705a", "#8a3b8f", "#7a5c00", "#5f5f5a")
"""Those of the light page, after Okabe and Ito; the names in startup.css that replace them have dark ones, too."""

_INK, _DIM, _LINE = "#1c1c1a", "#5c5c57", "#e2e2dd"
_VARIABLES: Final = {
    **{colour: f"var(--c{number})" for number, colour in enumerate(_COLOURS, 1)},
    _INK: "var(--ink)",
    _DIM: "var(--dim)",
    _LINE: "var(--line)",
}
_LEFT_OUT: Final = [
    re.compile(pattern)
    for pattern in (r' id="\w+\.?\w*_\d+"', r" font-family: [^;]*;", r' transform="rotate\(-0 [^"]*"')
]
"""Names of groups, which all plots of a page would share; fonts, for the page's is used; turns by nothing."""

_MARKERS: Final = "o^sDvP"
_SIZE: Final = (5.0, 4.0)
"""Of every plot, in inches: about the width of a phone."""

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


@mpl.rc_context(_SETTINGS)
def curves(
    title: str,
    lines: Sequence[Curve],
    *,
    x_label: str,
    x_text: Callable[[float], str],
    model: Sequence[tuple[float, float, float, float]] = (),
) -> Markup:
    """Return a plot of seconds over a size.

    Args:
        title: for those who cannot see the plot.
        lines: what was measured; whiskers reach from the lowest to the highest value.
        x_label: of the axis.
        x_text: writes a size.
        model: points of a dotted line, with its range as a band.
    """
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, axis="y")
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
        axes.plot(x, y, color=colour, linestyle=style, marker=marker, markersize=5, label=label)
    # Small values would be one dot on linear axes.
    axes.set(xscale="log", yscale="log")
    _write_ticks(axes.xaxis, FuncFormatter(lambda value, _: x_text(value)))
    _write_ticks(axes.yaxis, EngFormatter("s"))
    axes.set_xlabel(printable(x_label), labelpad=2)
    figure.legend(loc="outside lower left", ncols=2, fontsize=10)
    return _svg(title, figure)


def _svg(title: str, figure: Figure) -> Markup:
    """Return the drawing."""
    text = StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # A character has no glyph in the font that measures; the browser has its own.
        warnings.simplefilter("ignore")
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    whole = text.getvalue()
    view = re.search(r'viewBox="[^"]*"', whole)
    inside = re.sub(r"\s+", " ", whole[whole.index("</defs>") + len("</defs>") : whole.rindex("</svg>")])
    for colour, variable in _VARIABLES.items():
        inside = inside.replace(colour, variable)
    for pattern in _LEFT_OUT:
        inside = pattern.sub("", inside)
    inside = inside.replace("xlink:href", "href")
    head = f'<svg class="plot" role="img" aria-label="{escape(printable(title))}" {view[0] if view else ""}>'
    return Markup(f"{head}{inside}</svg>")


def _look(number: int) -> tuple[str, str]:
    """Return the colour and the marker of a number from 1."""
    place = (number - 1) % len(_COLOURS)
    return _COLOURS[place], _MARKERS[place]


def _write_ticks(axis: Axis, formatter: Formatter) -> None:
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=7))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(formatter)
    axis.set_tick_params(length=0)
