"""How findings are shown, and which ones the caller wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from connect_share.checks.finding import Finding
from connect_share.checks.worker_file import Severity
from connect_share.console import Output, plural

__all__ = ["Finding", "exit_code", "show_findings", "wanted"]


def show_findings(findings: Sequence[Finding], out: Output) -> str:
    """Print findings; return how many there are, for people."""
    for finding in findings:
        lines = [finding.why, finding.remedy, *([finding.command] if finding.command else [])]
        out.lines(f"{finding.severity.value}: {finding.where}: {finding.what}", *(f"    {line}" for line in lines))
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(plural(counts[severity], severity.value) for severity in Severity if counts[severity])


def wanted(findings: Sequence[Finding], ignored: Collection[str]) -> list[Finding]:
    """Return findings without those of ignored kinds, errors first."""
    return sorted((each for each in findings if each.id not in ignored), key=lambda each: each.severity.rank)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 1 if a finding is an error."""
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0
