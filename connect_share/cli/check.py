"""``check``: the commands of all checks, and ``check all``: every check that can run with what was given, in one go."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from connect_share.checks.check import add_check_options, all_checks
from connect_share.checks.collisions import TWO_PLAIN_CLUSTERS
from connect_share.checks.finding import Finding, counted, exit_code, finding_lines, wanted
from connect_share.checks.orphans import find_lost
from connect_share.checks.sources import CheckSources
from connect_share.console.options import Parser, add_runtime
from connect_share.console.output import Output, ProgressLine, Result, plural
from connect_share.console.program import Command
from connect_share.errors import AuthorizationError, TopicMissingError, command_line
from connect_share.kafka.create import LOST, ONE_PARTITION

_ON_A_SCREEN: Final = 10
"""Findings that are shown: each takes up to four lines."""
_REFUSED: Final = AuthorizationError, TopicMissingError
_SCANS: Final = f"needs scans of the brokers' disks: {command_line('connect-share', 'check', 'topic-ids', '--help')}"


def _check_all(arguments: argparse.Namespace, out: Output) -> Result:
    sources = CheckSources.asked(arguments, out)
    if len(getattr(arguments, "own_groups", ())) > 1:
        out.note(f"of these worker files worker-config, rights and sealing look at {arguments.worker_config} alone")
    every: list[Finding] = []
    checks: dict[str, Any] = {}
    verdicts: list[str] = []

    def note(name: str, findings: list[Finding], reason: str | None = None) -> None:
        checks[name] = {"run": reason is None, "reason": reason, "findings": len(findings)}
        verdicts.append(f"{name}: {f'not run: {reason}' if reason is not None else counted(findings)}")

    with ProgressLine() as progress:
        progress.phase("reading the topics", 0)
        lost = set[str | None]()
        with suppress(*_REFUSED):  # each check that reads the topics says so
            lost = {each.group for each in wanted(find_lost(sources), arguments.ignore)}
        for check in all_checks():
            progress.phase(f"check {check.name}", 0)
            if missing := check.missing(sources):
                note(check.name, [], f"needs {' and '.join(missing)}")
                continue
            if None in lost and check.name != "orphans":
                note(check.name, [], f"a topic is lost: {LOST}")
                continue
            try:
                findings = wanted(sources.with_file(check.find(sources)), arguments.ignore)
                findings = [each for each in findings if each.id == LOST or each.group not in lost]
                findings = [each for each in findings if not _is_said(each, every)]
            except _REFUSED as error:
                note(check.name, [], str(error))
            else:
                every += findings
                note(check.name, findings)
    note("topic-ids", [], _SCANS)
    found = wanted(every, ())
    shown = found if arguments.all else found[:_ON_A_SCREEN]
    more = len(found) - len(shown)
    left_out = [f"and {plural(more, 'more finding')}: --all shows all"] if more else []
    lines = [*finding_lines(shown), *left_out, *verdicts]
    topics = {topic_type.value: topic for topic_type, topic in sources.topic_set.topics.items()}
    members = {"findings": [finding.to_dict() for finding in found], "checks": checks, "topics": topics}
    return Result(members, lines, exit_code(every))


def _is_said(finding: Finding, before: Sequence[Finding]) -> bool:
    """Return whether an earlier check says the same, with the remedy; what else a topic or a group has is another thing."""
    if finding.id == TWO_PLAIN_CLUSTERS:
        return any(each.id == finding.id for each in before)
    said = None
    if finding.id == "startup-problem" and finding.what.endswith(ONE_PARTITION):
        said = "topics-partition-count"
    elif finding.id == "startup-setting" and finding.what.startswith("cleanup.policy "):
        said = "topics-cleanup-policy"
    return any((each.id, each.where) == (said, finding.where) for each in before)


def _add_options(parser: Parser) -> None:
    add_check_options(parser)
    add_runtime(parser)
    parser.refuse("--runtime", without="-w")
    parser.add_argument("--all", action="store_true", help=f"show all findings, not only the {_ON_A_SCREEN} worst")


COMMANDS: Final = [
    Command(
        "check all",
        _check_all,
        "is anything wrong? runs all checks that can run with what is given",
        about="Run every check that can run with what is given: the checks of what lies on the topics, of the topics "
        "themselves, of what is sealed, of what a start costs, and of the worker file. Those that cannot run are named. "
        "The worst findings come first, causes before what follows from them. Reads only; exit code 1 if a finding is an "
        "error.",
        examples=[
            "connect-share check all -w worker.properties",
            "connect-share check all -w worker.properties --output json --ignore secrets-clear-text",
        ],
        options=_add_options,
    ),
    *(check.command() for check in all_checks()),
]
