"""Progress of long steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

_REPORT_EVERY: Final = 1_000
"""Records between two reports: one for each record would take longer than the work."""


class Progress(Protocol):
    """Where a long step reports how far it is."""

    def phase(self, what: str, total: int) -> None:
        """Begin a phase of ``total`` offsets; fewer records may come."""

    def advance(self, records: int) -> None:
        """Report further records."""


class Silent:
    """Progress that is not shown."""

    def phase(self, what: str, total: int) -> None:
        """Ignore the phase."""

    def advance(self, records: int) -> None:
        """Ignore the records."""


def counted(items: Iterable[T], advance: Callable[[int], None] | None) -> Iterator[T]:
    """Yield the items and report their number in steps."""
    if advance is None:
        yield from items
        return
    seen = 0
    for seen, item in enumerate(items, 1):
        if seen % _REPORT_EVERY == 0:
            advance(_REPORT_EVERY)
        yield item
    advance(seen % _REPORT_EVERY)
