"""Plots: bars on a common scale, hints, and any text or value."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from spark_jobs.plots import Bar, Curve, Strip, bars, curves, ratios, strips


def boxes(plot: str) -> list[tuple[str, float, float]]:
    """Each part of a bar: its hint, where it begins and ends."""
    found = re.findall(r'<title>([^<]*)</title> <path d="M ([\d.]+) [\d.]+ L ([\d.]+) ', plot)
    return [(hint, float(begin), float(end)) for hint, begin, end in found]


def test_bars_share_one_scale_that_starts_at_zero() -> None:
    plot = bars("p", [Bar("a", "1", [(1.0, "a", 1)]), Bar("b", "4", [(1.0, "x", 1), (3.0, "y", 2)])])
    assert boxes(plot) == [("a", 8, 94), ("x", 8, 94), ("y", 94, 352)]


def test_a_bar_of_a_timeline_begins_where_the_one_above_ended() -> None:
    plot = bars("p", [Bar("a", "", [(1.0, "a", 1)]), Bar("b", "", [(3.0, "b", 1)])], timeline=True)
    assert boxes(plot) == [("a", 8, 94), ("b", 94, 352)]


def test_empty_plots_are_drawn() -> None:
    for plot in (bars("p", []), bars("p", [Bar("a", "0", [(0.0, "a", 1)])]), strips("p", []), ratios("p", [])):
        assert ElementTree.fromstring(plot).attrib["aria-label"] == "p"


def test_texts_stay_texts() -> None:
    hostile = "</svg><script>alert(1)</script>$\\frac{x$ #1c1c1a 漢\x1b"
    plot = strips(hostile, [Strip(hostile, "1 ms", 1, [1e-3]), Strip("$x$", "$1$", 2, [1.0], 1.0, (0.5, 2.0))])
    plot += curves(hostile, [Curve(hostile, 1, [(1, 1, 1, 1)])], x_label=hostile, x_text=str)
    plot += bars(hostile, [Bar(hostile, "1", [(1.0, hostile, 1)])], legend=[hostile])
    shown = [text for text in ElementTree.fromstring(f"<p>{plot}</p>").itertext() if text.strip()]
    assert "script" not in re.findall(r"<(\w+)", plot)
    assert "\x1b" not in plot
    assert {"$x$", "$1$"} <= set(shown)
    assert sum(text.startswith("</svg>") for text in shown) == 7
