"""``check``: the commands of all checks, and ``check all``: every check that can run with what was given, in one go."""

from __future__ import annotations

import argparse
from typing import Any, Final

from connect_share.checks.check import add_check_options, all_checks
from connect_share.checks.finding import Finding, counted, exit_code, finding_lines, wanted
from connect_share.checks.orphans import find_lost
from connect_share.checks.sources import CheckSources
from connect_share.console import DEFAULT_TIMEOUT_S, Command, Output, Result
from connect_share.errors import AuthorizationError
from connect_share.kafka.lost import LOST

_SCANS: Final = "needs scans of the brokers' disks: connect-share check topic-ids --help"


def _check_all(arguments: argparse.Namespace, out: Output) -> Result:
    """Run all checks; 1 if a finding is an error."""
    sources = CheckSources.asked(arguments, out)
    every: list[Finding] = []
    checks: dict[str, Any] = {}

    def note(name: str, findings: list[Finding], reason: str | None = None) -> None:
        checks[name] = {"run": reason is None, "reason": reason, "findings": len(findings)}
        if not out.is_json:  # at once, for a check may take long
            verdict = f"not run: {reason}" if reason is not None else counted(findings)
            out.lines(*finding_lines(findings), f"{name}: {verdict}")

    lost = {each.group for each in wanted(find_lost(sources), arguments.ignore)}
    # Those of files come behind those of what lies on the topics.
    for check in sorted(all_checks(), key=lambda check: check.needs_file):
        if missing := check.missing(sources):
            note(check.name, [], f"needs {' and '.join(missing)}")
            continue
        if None in lost and check.name != "orphans":
            note(check.name, [], f"a topic is lost: {LOST}")
            continue
        try:
            findings = wanted(list(check.find(sources)), arguments.ignore)
            findings = [each for each in findings if each.id == LOST or each.group not in lost]
        except AuthorizationError as error:
            note(check.name, [], str(error))
        else:
            every += findings
            note(check.name, findings)
    note("topic-ids", [], _SCANS)
    topics = {topic_type.value: topic for topic_type, topic in sources.topic_set.topics.items()}
    found = [finding.to_dict() for finding in wanted(every, ())]
    return Result({"findings": found, "checks": checks, "topics": topics}, code=exit_code(every))


COMMANDS: Final = [
    Command(
        "check all",
        _check_all,
        "is anything wrong? runs all checks that can run with what is given",
        about="Run every check that can run with what is given: the checks of what lies on the topics, of the topics "
        "themselves, of what is sealed, of what a start costs, and of the worker file. Those that cannot run are named. "
        "Reads only; exit code 1 if a finding is an error.",
        examples=[
            "connect-share check all -w worker.properties",
            "connect-share check all -w worker.properties --output json --ignore secrets-clear-text",
        ],
        options=add_check_options,
        timeout_s=DEFAULT_TIMEOUT_S,
    ),
    *(check.command() for check in all_checks()),
]
