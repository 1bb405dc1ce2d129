"""Floating point numbers in Java's text form."""

from __future__ import annotations

import math


def java_double_text(value: float) -> str | None:
    """Return what ``Double.toString`` prints.

    Positional from 1e-3 (inclusive) to 1e7 (exclusive), else ``d.dddE[-]n``; always a fraction digit. ``None`` for NaN
    and infinities, which Connect writes as strings.
    """
    if not math.isfinite(value):
        return None
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    magnitude = abs(value)
    if magnitude == 0.0:
        return sign + "0.0"
    text = repr(float(magnitude))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or "0") + len(whole) - 1
    if whole == "0":
        power = int(exponent or "0") - (len(fraction) - len(fraction.lstrip("0")) + 1)
    digits = digits.rstrip("0")
    if len(digits) == 1:
        # Java prints two digits at least and takes the closest two: 4.9E-324, where Python says 5e-324.
        mantissa, _, exponent = f"{magnitude:.1e}".partition("e")
        digits, power = mantissa.replace(".", "").rstrip("0") or "0", int(exponent)
    if 1e-3 <= magnitude < 1e7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        return f"{sign}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
