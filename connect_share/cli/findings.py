"""The form of what a check finds: what, where, why it matters, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from connect_share.console import Output, plural
from connect_share.worker_plugin.worker_file_check import Severity


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


def show_findings(findings: Sequence[Finding], out: Output) -> str:
    """Print findings; return how many there are, for people."""
    for finding in findings:
        lines = [finding.why, finding.remedy, *([finding.command] if finding.command else [])]
        out.lines(f"{finding.severity.value}: {finding.where}: {finding.what}", *(f"    {line}" for line in lines))
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(plural(counts[severity], severity.value) for severity in Severity if counts[severity])
