"""``check topics``: the replicas of the topics, their places, and whether work continues if a broker fails."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from connect_share.checks.topics import FindingKind, Inspection, TopicFinding, inspect_topics, reassignment_json
from connect_share.checks.worker_file import Severity
from connect_share.cli.findings import Finding
from connect_share.cli.options import add_replication_factor, add_topics, topic_set_of
from connect_share.console import DEFAULT_TIMEOUT_S, Command, Output, Parser, Result, plural
from connect_share.errors import UsageError
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import topic_specs
from connect_share.kafka.read import CONSOLE_CLIENT_ID
from connect_share.worker_config import ClientSettings

_STOPS: Final = "workers cannot start, or cannot read and write"
_ONE_FAILURE: Final = "the failure of one broker, or of one rack, stops the groups, or takes records with it"
_WHY: Final = {
    FindingKind.MISSING: _STOPS,
    FindingKind.CANNOT_BE_CREATED: _STOPS,
    FindingKind.NO_LEADER: _STOPS,
    FindingKind.PARTITION_COUNT: _STOPS,
    FindingKind.CLEANUP_POLICY: "what Connect needs is deleted by age or size, and workers refuse to start on such a topic",
    FindingKind.UNCLEAN_ELECTION: "workers continue from an older state, without an error",
    FindingKind.MIN_INSYNC_REPLICAS: _ONE_FAILURE,
    FindingKind.TOO_FEW_REPLICAS: _ONE_FAILURE,
    FindingKind.ONE_RACK: _ONE_FAILURE,
    FindingKind.UNDER_REPLICATED: _ONE_FAILURE,
}
_ERRORS: Final = (
    *(FindingKind.MISSING, FindingKind.CANNOT_BE_CREATED, FindingKind.NO_LEADER),
    *(FindingKind.PARTITION_COUNT, FindingKind.CLEANUP_POLICY),
)
_MAKES: Final = (
    FindingKind.MISSING,
    FindingKind.CLEANUP_POLICY,
    FindingKind.UNCLEAN_ELECTION,
    FindingKind.MIN_INSYNC_REPLICAS,
)
"""Their remedy is a command."""


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    add_replication_factor(parser)
    parser.add_argument(
        "--reassignment",
        metavar="FILE",
        type=Path,
        help="write where replicas should be, for kafka-reassign-partitions; only if some have to move",
    )


def _check_topics(arguments: argparse.Namespace, out: Output) -> Result:
    """Check the topics; 1 if something is found."""
    topic_set = topic_set_of(arguments)
    specs = topic_specs(topic_set, arguments.replication_factor)
    with Admin(topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=arguments.timeout) as admin:
        inspection = inspect_topics(admin, specs)
    for note in inspection.notes:
        out.note(note)
    plan = reassignment_json(inspection.reassignment) if inspection.reassignment else None
    written = arguments.reassignment if plan is not None else None
    if plan is not None and written is not None:
        _write(written, plan)
    command = _command(topic_set.settings, written or Path("reassignment.json"))
    members = {
        "topics": list(inspection.topics),
        "differences": [{"topic": topic, **asdict(found)} for topic, found in inspection.differences],
        "findings": [{**finding.to_dict(), **finding_of(finding).to_dict()} for finding in inspection.findings],
        "reassignment": plan,
        "reassignment_file": None if written is None else str(written),
        "reassignment_command": None if plan is None else command,
    }
    return Result(members, _lines(inspection, written, command), 1 if inspection.findings else 0)


def finding_of(finding: TopicFinding) -> Finding:
    """Return a fault of a topic in the form of all checks."""
    return Finding(
        f"topics-{finding.kind.value}",
        Severity.ERROR if finding.kind in _ERRORS else Severity.WARNING,
        finding.topic if finding.partition is None else f"{finding.topic}[{finding.partition}]",
        finding.what,
        _WHY[finding.kind],
        finding.remedy,
        finding.remedy if finding.kind in _MAKES else None,
    )


def _lines(inspection: Inspection, written: Path | None, command: str) -> Iterator[str]:
    for where, finding in _grouped(inspection.findings):
        yield f"{where}: {finding.what} ({finding.kind.value})"
        yield f"    {finding.remedy}"
    if inspection.reassignment:
        partitions = plural(len(inspection.reassignment), "partition")
        yield ""
        if written is None:
            yield f"replicas of {partitions} have to move; --reassignment FILE writes how, then:"
        else:
            yield f"{written} has the new replicas of {partitions}; carry it out with:"
        yield f"    {command} --execute"
        yield f"    {command} --verify"
    if inspection.differences:
        yield from ([""] if inspection.findings else [])
        yield "not as create topics would make it (no finding):"
    for topic, difference in inspection.differences:
        yield f"    {topic}: {difference.what} is {difference.actual}, wanted {difference.wanted}"
    number = len(inspection.findings)
    verdict = plural(number, "finding") if number else "nothing found"
    yield from ([""] if number or inspection.differences else [])
    yield f"{', '.join(inspection.topics)}: {verdict}"


def _grouped(findings: Sequence[TopicFinding]) -> list[tuple[str, TopicFinding]]:
    """Merge findings that differ in the partition only; return ``topic[0-24]`` and one of them."""
    groups: dict[tuple[str, str, str], list[TopicFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.topic, finding.what, finding.remedy), []).append(finding)
    return [
        (
            topic
            if members[0].partition is None
            else f"{topic}[{_ranges([member.partition for member in members if member.partition is not None])}]",
            members[0],
        )
        for (topic, _, _), members in groups.items()
    ]


def _ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers as ``0-4,7``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _command(settings: ClientSettings, path: Path) -> str:
    secure = settings.properties.get("security.protocol", "plaintext").lower() != "plaintext"
    parts = ["kafka-reassign-partitions", "--bootstrap-server", settings.bootstrap_servers]
    parts += ["--command-config", "client.properties"] if secure else []
    return shlex.join([*parts, "--reassignment-json-file", str(path)])


def _write(path: Path, plan: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(plan, indent=2) + "\n", encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"--reassignment: {path} cannot be written ({exc.strerror}); choose another place") from exc


COMMANDS: Final = [
    Command(
        "check topics",
        _check_topics,
        "do the topics have their replicas, and do writes continue if a broker fails?",
        about="Check the topics of a worker, __consumer_offsets and __transaction_state: replicas, racks, "
        "min.insync.replicas, leaders, cleanup.policy. Reads only. Exit code 1 if something is found.",
        examples=[
            "connect-share check topics -w worker.properties",
            "connect-share check topics -w worker.properties --reassignment new-replicas.json",
        ],
        options=_add_options,
        timeout_s=DEFAULT_TIMEOUT_S,
    )
]
