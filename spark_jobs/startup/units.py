"""Numbers as people write them: durations, ratios, counts and sizes, with as many digits as mean something."""

from __future__ import annotations

from collections.abc import Sequence

_STEPS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds, without the unit."""
    return _digits(seconds * 1e3)


def duration(seconds: float) -> str:
    """Write seconds with the unit that suits them: ``340 ms``, ``7.1 s``."""
    return f"{_in_unit(seconds, seconds)} {_duration_unit(seconds)[1]}"


def durations(first: float, *more: float) -> str:
    """Write a duration and more of them in its unit: ``340 ms (300–412)``."""
    return f"{duration(first)} ({'–'.join(_in_unit(each, first) for each in more)})"


def _in_unit(seconds: float, first: float) -> str:
    """Write seconds in the unit that suits the first value."""
    scale, unit = _duration_unit(first)
    value = seconds / scale
    return (
        f"{value:.2f}"
        if unit == "s" and value < 10
        else f"{value:.1f}"
        if unit == "s" and value < 100
        else _digits(value)
    )


def _duration_unit(seconds: float) -> tuple[float, str]:
    if seconds >= 1:
        return 1.0, "s"
    return (1e-3, "ms") if seconds >= 1e-3 else (1e-6, "µs") if seconds >= 1e-6 else (1e-9, "ns")


def duration_tick(seconds: float) -> str:
    """Write a round duration at an axis."""
    scale, unit = _duration_unit(seconds * 1.0001)
    return f"{round(seconds / scale, 6):,g} {unit}" if seconds else "0"


def ratio(value: float) -> str:
    """Write how many times as much something is."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(share: float) -> str:
    """Write a share as percent: ``0.125`` is ``12 %``, and less than ten has a digit more."""
    value = share * 100
    return f"{value:,.0f} %" if abs(value) >= 10 else f"{value:.1f} %"


def count_tick(value: float) -> str:
    """Write a round number at an axis: ``20``, ``10 k``, ``1 M``."""
    return _scaled(value, "")


def size(count: float) -> str:
    """Write bytes in the unit that people use."""
    return _scaled(count, "B")


def _scaled(value: float, unit: str) -> str:
    for scale, prefix in _STEPS:
        if value >= scale * 0.9995:
            number = value / scale
            return f"{number:,.0f} {prefix}{unit}" if number >= 1000 else f"{number:.3g} {prefix}{unit}"
    return f"{value:,.3g} {unit}".rstrip() if value < 1000 else f"{value:,.0f} {unit}".rstrip()


def listed(parts: Sequence[str]) -> str:
    """Join parts of a sentence: ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
