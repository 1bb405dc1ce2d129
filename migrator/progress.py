"""What long steps tell whoever waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

_EVERY: Final = 1_000
"""Records between two words: one for each would take longer than the work."""


class Progress(Protocol):
    """Told what is being done, and how far it is."""

    def phase(self, what: str, total: int) -> None:
        """Begin a phase of ``total`` offsets; fewer records may come."""

    def advance(self, records: int) -> None:
        """Report further records."""


class Silent:
    """Progress that nobody looks at."""

    def phase(self, what: str, total: int) -> None:
        """Say nothing."""

    def advance(self, records: int) -> None:
        """Say nothing."""


def counted(items: Iterable[T], advance: Callable[[int], None] | None) -> Iterator[T]:
    """Pass items on and report how many, now and then and at the end."""
    seen = 0
    for seen, item in enumerate(items, 1):
        if advance is not None and seen % _EVERY == 0:
            advance(_EVERY)
        yield item
    if advance is not None:
        advance(seen % _EVERY)
