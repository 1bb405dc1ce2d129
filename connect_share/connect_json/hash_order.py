"""The order in which a Java hash map would list its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

V = TypeVar("V")


def _string_hash(text: str) -> int:
    """Source: ``java.lang.String.hashCode`` (over UTF-16 units, modulo 2^32)."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value


def java_hash_order(mapping: Mapping[str, V]) -> dict[str, V]:
    """Return the members in the order a default ``java.util.HashMap`` filled one by one lists them.

    Offset keys are compared as bytes, and Java connectors often pass hash maps: who must meet a key that a Java
    connector wrote needs this order. A Java map made by *copying* another may be sized differently and differ.
    """
    buckets = 16
    while len(mapping) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        value = _string_hash(name)
        return (value ^ value >> 16) & (buckets - 1)

    return {name: mapping[name] for name in sorted(mapping, key=bucket)}
