"""What long steps tell whoever waits for them."""

from __future__ import annotations

from typing import Protocol


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
