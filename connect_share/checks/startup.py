"""What the start-up profile finds, in the form of all checks. Pure."""

from __future__ import annotations

from typing import Any

from connect_share.checks.finding import Finding, Severity
from connect_share.console import shown_group
from connect_share.contents.startup import StartupProfile, members


def findings_of(found: StartupProfile) -> list[Finding]:
    """Return advice, problems and starts that are too slow in the form of all checks."""
    changes = [
        Finding(
            "startup-setting",
            Severity.WARNING,
            change.topic,
            f"{change.setting} is {change.old}; {change.new} would save up to {change.gain_seconds:.2f} s of each start",
            change.reason,
            "change the setting",
            "connect-share check startup -w FILE --apply",
        )
        for change in found.advice.changes
    ]
    problems = [
        Finding(
            "startup-problem",
            Severity.WARNING,
            problem.topic,
            problem.what,
            "workers read it as they start: they do not start, or do not agree on what they have read",
            "see the text of the finding",
        )
        for problem in found.advice.problems
    ]
    slow = [
        Finding(
            "startup-slow",
            Severity.ERROR,
            shown_group(group),
            f"its start is predicted to take longer than {found.limit_s:g} s",
            "that is the limit that was given",
            "make the topics smaller, or move groups to a second set of topics",
        )
        for group in found.too_slow
    ]
    return [*problems, *slow, *changes]


def startup_members(found: StartupProfile) -> dict[str, Any]:
    """Return the whole profile for JSON, with its findings."""
    return {**members(found), "findings": [finding.to_dict() for finding in findings_of(found)]}
