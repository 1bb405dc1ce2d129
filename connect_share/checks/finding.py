"""The form of what a check finds: what, where, why it matters, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from connect_share.checks.worker_file import Severity
from connect_share.console import Group, plural, shown_group

MOST_FINDINGS: Final = 100
"""A limit for each kind: any writer of a topic can make up connectors."""
_MOST_NAMES: Final = 10
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; only errors make a check fail.

    Attributes:
        id: of the kind of finding; public.
        where: a topic, a group or a file.
        command: that helps, ready for a shell; ``None`` if none does.
    """

    id: str
    severity: Severity
    where: str
    what: str
    why: str
    remedy: str
    command: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the members for JSON."""
        return {**asdict(self), "severity": self.severity.value}


def named(names: Sequence[str]) -> str:
    """Return the first of many names for people, each cut; they come from a topic."""
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names[:_MOST_NAMES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def place(topic: str, group: Group, connector: str | None = None) -> str:
    """Return where something is, for people."""
    of = "" if connector is None else f", connector {named([connector])}"
    return f"{topic}, group {shown_group(group)}{of}"


def limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings of one kind up to :data:`MOST_FINDINGS`, then one that says how many more there are."""
    last, more = None, 0
    for number, finding in enumerate(findings):
        if number < MOST_FINDINGS:
            yield finding
        else:
            last, more = finding, more + 1
    if last is not None:
        yield Finding(
            last.id,
            last.severity,
            last.where,
            f"and {plural(more, 'more finding')} of this kind, not shown",
            last.why,
            last.remedy,
            last.command,
        )
