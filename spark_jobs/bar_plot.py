"""Bar plots as SVG text that stands inside an HTML page: small enough for a phone, coloured by the page's style.

A row is a line of text with its bar below, so that nothing has to shrink on a narrow screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.html_page import text

STYLE: Final = """
.plot { display: block; width: 100%; max-width: 34rem; height: auto; font-size: 12px; }
.plot text { fill: var(--ink); } .plot .value { fill: var(--dim); font-variant-numeric: tabular-nums; }
.track { fill: var(--track); } .s1 { fill: var(--c1); } .s2 { fill: var(--c2); } .s3 { fill: var(--c3); }
.s4 { fill: var(--c4); } .s5 { fill: var(--c5); } .s6 { fill: var(--c6); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; margin: .3rem 0; font-size: .9rem; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: .2em; margin-right: .4em; }
.b1 { background: var(--c1); } .b2 { background: var(--c2); } .b3 { background: var(--c3); }
.b4 { background: var(--c4); } .b5 { background: var(--c5); } .b6 { background: var(--c6); }
"""
"""What the plots need in the style of a page of :mod:`migrator.report.page`."""

_WIDTH: Final = 360
_ROW_HEIGHT: Final = 40
_BAR_HEIGHT: Final = 14
_SERIES: Final = 6


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: its size, what it is, and the number (from 1) of its colour."""

    size: float
    title: str
    series: int = 1


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: label on the left, value on the right, one or more segments below."""

    label: str
    value: str
    segments: tuple[Segment, ...]

    @property
    def size(self) -> float:
        """Length of the whole bar in the plot's unit."""
        return sum(segment.size for segment in self.segments)


def bar_plot(title: str, bars: Sequence[Bar], *, cumulative: bool = False) -> str:
    """Draw bars on one common scale that starts at zero.

    Args:
        title: said to those who cannot see the plot.
        bars: rows from top to bottom.
        cumulative: each bar begins where the one above ended, as in a timeline.
    """
    full = sum(bar.size for bar in bars) if cumulative else max((bar.size for bar in bars), default=0.0)
    scale = _WIDTH / full if full > 0 else 0.0
    height = _ROW_HEIGHT * len(bars)
    parts = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{text(title)}">']
    start = 0.0
    for row, bar in enumerate(bars):
        top = row * _ROW_HEIGHT
        parts.append(f'<text x="1" y="{top + 13}">{text(bar.label)}</text>')
        parts.append(f'<text class="value" x="{_WIDTH}" y="{top + 13}" text-anchor="end">{text(bar.value)}</text>')
        parts.append(f'<rect class="track" x="0" y="{top + 19}" width="{_WIDTH}" height="{_BAR_HEIGHT}" rx="3"/>')
        left = start * scale
        for segment in bar.segments:
            width = segment.size * scale
            colour = (segment.series - 1) % _SERIES + 1
            parts.append(
                f'<rect class="s{colour}" x="{left:.2f}" y="{top + 19}" width="{max(width, 1.0):.2f}" '
                f'height="{_BAR_HEIGHT}" rx="2"><title>{text(segment.title)}</title></rect>'
            )
            left += width
        if cumulative:
            start += bar.size
    parts.append("</svg>")
    return "".join(parts)


def legend(names: Sequence[str]) -> str:
    """Name the colours of a plot with several series."""
    items = "".join(
        f'<li><span class="swatch b{number % _SERIES + 1}"></span>{text(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'
