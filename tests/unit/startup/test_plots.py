"""Plots: any text or value."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.lab.plots import Curve, Strip, curves, strips


def test_an_empty_plot_is_drawn() -> None:
    assert ElementTree.fromstring(strips("p", [])).attrib["aria-label"] == "p"


def test_texts_stay_texts() -> None:
    hostile = "</svg><script>alert(1)</script>$\\frac{x$ #1c1c1a 漢\x1b"
    plot = strips(hostile, [Strip(hostile, "1 ms", 1, [1e-3]), Strip("$x$", "$1$", 2, [1.0])])
    plot += curves(hostile, [Curve(hostile, 1, [(1, 1, 1, 1)])], x_label=hostile, x_text=str)
    shown = [text for text in ElementTree.fromstring(f"<p>{plot}</p>").itertext() if text.strip()]
    assert "script" not in re.findall(r"<(\w+)", plot)
    assert "\x1b" not in plot
    assert {"$x$", "$1$"} <= set(shown)
    assert sum(text.startswith("</svg>") for text in shown) == 4
