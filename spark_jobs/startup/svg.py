"""SVG as text that stands inside an HTML page: shapes with classes, coloured by the page's style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from connect_share.console import printable, text_width, truncated

WIDTH: Final = 360
"""Of every plot, in its own units: about the width of a phone, so that its text stays readable there."""
_COLUMN: Final = 6.9
_BOLD_COLUMN: Final = 7.4
"""Widths of a character at the plots' font size, on average and in a rather wide font."""


def width_of(content: str) -> float:
    """Give about the width that a text takes in a plot."""
    return text_width(printable(content)) * _COLUMN


def bold_width_of(content: str) -> float:
    """Give about the width that a name takes in a plot."""
    return text_width(printable(content)) * _BOLD_COLUMN


class Canvas:
    """A drawing that grows by shapes, in the order in which they lie upon each other."""

    def __init__(self, title: str, height: float) -> None:
        self._parts = [
            f'<svg class="plot" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(printable(title))}">'
        ]

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a straight line."""
        self._parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def path(self, points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        """Draw a line through points."""
        if points:
            steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self._parts.append(f'<path class="{kind}" d="M{steps}{"Z" if closed else ""}"/>')

    def rect(self, x: float, y: float, width: float, height: float, *, kind: str, hint: str = "") -> None:
        """Draw a box with slightly round corners."""
        self._shape(
            "rect", f'class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"', hint
        )

    def dot(self, x: float, y: float, kind: str, hint: str = "", *, radius: float = 3.0) -> None:
        """Draw a circle."""
        self._shape("circle", f'class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"', hint)

    def diamond(self, x: float, y: float, kind: str, hint: str = "", *, radius: float = 4.5) -> None:
        """Draw a square that stands on its corner."""
        corners = (
            f"M{x:.1f} {y - radius:.1f}L{x + radius:.1f} {y:.1f}L{x:.1f} {y + radius:.1f}L{x - radius:.1f} {y:.1f}Z"
        )
        self._shape("path", f'class="{kind}" d="{corners}"', hint)

    def marker(self, colour: int, x: float, y: float, kind: str, hint: str = "") -> None:
        """Draw the shape that goes with a colour, so that nobody depends on the colour alone."""
        if colour % 3 == 1:
            self.dot(x, y, kind, hint)
        elif colour % 3 == 2:
            self._shape("path", f'class="{kind}" d="M{x:.1f} {y - 4:.1f}L{x + 4:.1f} {y + 3:.1f}H{x - 4:.1f}Z"', hint)
        else:
            self.rect(x - 2.9, y - 2.9, 5.8, 5.8, kind=kind, hint=hint)

    def text(self, x: float, y: float, content: str, kind: str, *, anchor: str = "start", width: float = WIDTH) -> None:
        """Write a text, cut to about ``width``."""
        shown = escape(
            truncated(printable(content), max(1, int(width / (_BOLD_COLUMN if kind.startswith("name") else _COLUMN))))
        )
        self._parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>')

    def svg(self) -> str:
        """Give the whole drawing."""
        return "".join([*self._parts, "</svg>"])

    def _shape(self, tag: str, attributes: str, hint: str) -> None:
        inside = f"><title>{escape(printable(hint))}</title></{tag}>" if hint else "/>"
        self._parts.append(f"<{tag} {attributes}{inside}")
