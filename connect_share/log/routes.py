"""Whose a key is, among many prefixes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Routes(Generic[T]):
    """Finds the owners of keys by their prefixes, in a sorted list: neither their number nor their lengths count for much.

    One prefix may begin another, as ``a.`` begins ``a.b.``.

    Attributes:
        shortest: length of the shortest prefix.
        begins: by the first so many bytes of prefixes: the number of the one that begins so, -1 if several do. A key that
            begins otherwise has no owner.
        owners: by number of a prefix: its own, and those of the prefixes with which it begins.
    """

    def __init__(self, owned: Sequence[tuple[bytes, T]]) -> None:
        own: dict[bytes, list[T]] = {}
        for prefix, owner in owned:
            own.setdefault(prefix, []).append(owner)
        self._prefixes = sorted(own)
        self._outer: list[int] = []
        self.shortest = min(map(len, self._prefixes), default=0)
        self.begins: dict[bytes, int] = {}
        self.owners: list[tuple[T, ...]] = []
        for number, prefix in enumerate(self._prefixes):
            begin = prefix[: self.shortest]
            self.begins[begin] = -1 if begin in self.begins else number
            outer = self._longest(prefix, number - 1)
            self._outer.append(outer)
            self.owners.append((*own[prefix], *(self.owners[outer] if outer >= 0 else ())))

    def find(self, key: bytes, only: int = -1) -> int:
        """Return the number of the longest prefix with which a key begins; -1: there is none.

        ``only``: what ``begins`` has for the key.
        """
        return self._longest(key, only if only >= 0 else bisect_right(self._prefixes, key) - 1)

    def _longest(self, key: bytes, at: int) -> int:
        # A prefix of the key comes before it in order, and whatever is in between begins with that prefix, too.
        while at >= 0 and not key.startswith(self._prefixes[at]):
            at = self._outer[at]
        return at
