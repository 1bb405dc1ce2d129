"""``check topics``: the replicas of the topics, their places, and whether work continues if a broker fails."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from connect_share.checks.finding import Finding
from connect_share.checks.topics import Inspection, inspect_topics, kind_of, reassignment_json, topic_of
from connect_share.cli.options import add_replication_factor, add_topics, topic_set_of
from connect_share.console import DEFAULT_TIMEOUT_S, Command, Output, Parser, Result, plural
from connect_share.errors import UsageError
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import topic_specs
from connect_share.kafka.read import CONSOLE_CLIENT_ID
from connect_share.worker_config import ClientSettings


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
        "findings": [_members(finding) for finding in inspection.findings],
        "reassignment": plan,
        "reassignment_file": None if written is None else str(written),
        "reassignment_command": None if plan is None else command,
    }
    return Result(members, _lines(inspection, written, command), 1 if inspection.findings else 0)


def _members(finding: Finding) -> dict[str, Any]:
    return {
        "kind": kind_of(finding),
        "topic": topic_of(finding),
        "partition": finding.partition,
        "message": f"{finding.where} {finding.what}",
        **finding.to_dict(),
    }


def _lines(inspection: Inspection, written: Path | None, command: str) -> Iterator[str]:
    for where, finding in _grouped(inspection.findings):
        yield f"{where}: {finding.what} ({kind_of(finding)})"
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


def _grouped(findings: Sequence[Finding]) -> list[tuple[str, Finding]]:
    """Merge findings that differ in the partition only; return ``topic[0-24]`` and one of them."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((topic_of(finding), finding.what, finding.remedy), []).append(finding)
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
