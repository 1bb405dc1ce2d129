"""Bar plots as SVG text that stands inside an HTML page: small enough for a phone, coloured by the page's style.

A row is a line of text with its bar below, so that nothing has to shrink on a narrow screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

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
    parts = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    start = 0.0
    for row, bar in enumerate(bars):
        top = row * _ROW_HEIGHT
        parts.append(f'<text x="0" y="{top + 13}">{escape(bar.label)}</text>')
        parts.append(f'<text class="value" x="{_WIDTH}" y="{top + 13}" text-anchor="end">{escape(bar.value)}</text>')
        parts.append(f'<rect class="track" x="0" y="{top + 19}" width="{_WIDTH}" height="{_BAR_HEIGHT}" rx="3"/>')
        left = start * scale
        for segment in bar.segments:
            width = segment.size * scale
            colour = (segment.series - 1) % _SERIES + 1
            parts.append(
                f'<rect class="s{colour}" x="{left:.2f}" y="{top + 19}" width="{max(width, 1.0):.2f}" '
                f'height="{_BAR_HEIGHT}" rx="2"><title>{escape(segment.title)}</title></rect>'
            )
            left += width
        if cumulative:
            start += bar.size
    parts.append("</svg>")
    return "".join(parts)


def legend(names: Sequence[str]) -> str:
    """Name the colours of a plot with several series."""
    items = "".join(
        f'<li><span class="swatch b{number % _SERIES + 1}"></span>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'
