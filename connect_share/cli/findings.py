"""How findings are shown, and which ones the caller wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from connect_share.checks.finding import Finding, Severity, errors_first
from connect_share.console import plural


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield findings as text."""
    for finding in findings:
        yield f"{finding.severity.value}: {finding.where}: {finding.what}"
        yield from (f"    {line}" for line in (finding.why, finding.remedy, finding.command) if line)


def counted(findings: Iterable[Finding]) -> str:
    """Return how many findings there are, for people."""
    counts = Counter(finding.severity for finding in findings)
    found = ", ".join(plural(counts[severity], severity.value) for severity in Severity if counts[severity])
    return found or "nothing found"


def wanted(findings: Sequence[Finding], ignored: Collection[str]) -> list[Finding]:
    """Return findings without those of ignored kinds, errors first."""
    return errors_first(each for each in findings if each.id not in ignored)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 1 if a finding is an error."""
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0
