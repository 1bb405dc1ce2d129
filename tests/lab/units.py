"""Numbers as people write them: durations, ratios, counts and sizes, with as many digits as mean something."""

from __future__ import annotations

from collections.abc import Sequence

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds, without the unit; nothing for what was not measured."""
    return "" if seconds is None else _digits(seconds * 1e3)


def duration(seconds: float) -> str:
    """Return seconds in the unit that suits them: ``340 ms``."""
    scale, unit = _duration_unit(seconds)
    return f"{_in_unit(seconds / scale, unit)} {unit}"


def ratio(value: float | None) -> str:
    """Return how many times as much something is; nothing for what was not measured."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(share: float) -> str:
    """Return a share as percent: ``0.125`` is ``12 %``; a share below ten percent has a digit more."""
    value = share * 100
    return f"{value:,.0f} %" if abs(value) >= 10 else f"{value:.1f} %"


def count_tick(value: float) -> str:
    """Return a round number for an axis: ``20``, ``10 k``, ``1 M``."""
    return _scaled(value, "")


def size(count: float) -> str:
    """Return bytes in the unit that people use."""
    return _scaled(count, "B")


def listed(parts: Sequence[str]) -> str:
    """Return parts of a sentence in a row: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _in_unit(value: float, unit: str) -> str:
    if unit != "s":
        return _digits(value)
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else _digits(value)


def _duration_unit(seconds: float) -> tuple[float, str]:
    if seconds >= 1:
        return 1.0, "s"
    return (1e-3, "ms") if seconds >= 1e-3 else (1e-6, "µs") if seconds >= 1e-6 else (1e-9, "ns")


def _scaled(value: float, unit: str) -> str:
    for scale, prefix in _PREFIXES:
        if value >= scale * 0.9995:
            number = value / scale
            return f"{number:,.0f} {prefix}{unit}" if number >= 1000 else f"{number:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()
