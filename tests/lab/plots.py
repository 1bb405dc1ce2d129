"""Plots as SVG that stands inside an HTML page, light and dark."""

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

_DRAWN: Final = tuple(zip(("#0b61a4", "#b3480a", "#00705a", "#8a3b8f", "#7a5c00", "#5f5f5a"), "o^sDvP", strict=True))
"""Colours, after Okabe and Ito, and markers; a dark page inverts the plot."""

_INK, _DIM, _LINE = "#1c1c1a", "#5c5c57", "#e2e2dd"
_LEFT_OUT: Final = [
    re.compile(pattern)
    for pattern in (r' id="\w+\.?\w*_\d+"', r" font-family: [^;]*;", r' transform="rotate\(-0 [^"]*"')
]
"""Names of groups, which all plots of a page would share; fonts, for the page's is used; turns by nothing."""

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


Points = Sequence[tuple[float, float, float, float]]
"""x, value, lowest and highest value, all above zero."""


@dataclass(frozen=True, slots=True)
class Look:
    """Names and colour (a number from 1) of a contender."""

    title: str
    label: str
    colour: int
    dashed: bool = False


@mpl.rc_context(_SETTINGS)
def curves(
    title: str,
    lines: Sequence[tuple[Look, Points]],
    *,
    x_label: str,
    x_text: Callable[[float], str],
    model: Points = (),
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
    for look, points in lines:
        x, y, low, high = zip(*points, strict=True)
        colour, marker = _DRAWN[look.colour - 1]
        axes.vlines(x, low, high, color=colour, linewidth=1.2, alpha=0.5)
        style = "--" if look.dashed else "-"
        label = truncated(printable(look.label), 22)
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
    for pattern in _LEFT_OUT:
        inside = pattern.sub("", inside)
    inside = inside.replace("xlink:href", "href")
    head = f'<svg class="plot" role="img" aria-label="{escape(printable(title))}" {view[0] if view else ""}>'
    return Markup(f"{head}{inside}</svg>")


def _write_ticks(axis: Axis, formatter: Formatter) -> None:
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=7))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(formatter)
    axis.set_tick_params(length=0)
