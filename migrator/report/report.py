"""The HTML page of a migration, fit for a change ticket: names and figures, never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.records import TopicType
from migrator.copy.evidence import SliceEvidence
from migrator.facts.manifest import Manifest, MigrationStatus
from migrator.plan.plan import MigrationPlan
from migrator.report.page import render_page
from migrator.transform.rules import SkipReason
from migrator.verify.equality import StateDifference
from migrator.verify.verification import Verification

Row = tuple[object, ...]
Verdict = tuple[str, bool]
"""Words, and whether they are good news."""

_STATUS: Final[Mapping[MigrationStatus, str]] = {
    MigrationStatus.PLANNED: "the copy did not end: the destination holds a part of it, or nothing",
    MigrationStatus.COPIED: "copied",
    MigrationStatus.VERIFIED: "copied and verified",
    MigrationStatus.CUT_OVER: "copied, verified and cut over",
    MigrationStatus.ROLLED_BACK: "rolled back: what was written was removed again",
}


class CommandRun(BaseModel):
    """One command.

    Attributes:
        command: its word, such as ``apply``.
        outcome: ``done``, ``interrupted``, ``differences found``, or the error's name.
        operator: who ran it: the name of the user of the system.
        host: where.
    """

    model_config = ConfigDict(frozen=True)

    command: str
    began_ms: int
    ended_ms: int
    outcome: str
    operator: str
    host: str
    version: str


class CommandRuns(BaseModel):
    """All commands on a plan, in order."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    runs: tuple[CommandRun, ...] = ()


class KeptVerification(Verification):
    """A verification, and when it was made."""

    at_ms: int
    version: str


def render_report(
    plan: MigrationPlan,
    manifest: Manifest | None,
    verification: KeptVerification | None,
    runs: Sequence[CommandRun],
    facts: Mapping[str, str],
) -> str:
    """Return the page.

    Args:
        plan: what was to be done.
        manifest: what was done; ``None``: nothing yet, or not from here.
        verification: the last one.
        runs: the commands that were run.
        facts: further lines for the end of the page: versions, hashes.
    """
    return render_page(
        "evidence.html.j2",
        plan=plan,
        verification=verification,
        status=_status(manifest),
        equality=_equality(verification),
        summary=_summary(plan, manifest),
        moved=_moved(plan, manifest),
        destination=_destination(plan, manifest),
        left_behind=_left_behind(plan, manifest),
        verified_at=_time(None if verification is None else verification.at_ms),
        differences=[] if verification is None else [_difference(each) for each in verification.differences],
        warnings=[*plan.warnings, *(() if verification is None else verification.warnings)],
        steps=[(number, step.who, step.what) for number, step in enumerate(plan.steps, 1)],
        runs=[_run(run) for run in runs],
        backup=_backup(manifest),
        after_the_copy=_after_the_copy(manifest),
        slices=[_slice(each) for each in (() if manifest is None else manifest.evidence)],
        facts=facts.items(),
    )


def _time(at_ms: int | None) -> str:
    return "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _status(manifest: Manifest | None) -> Verdict:
    if manifest is None:
        return "not applied", False
    return _STATUS[manifest.status], manifest.status not in {MigrationStatus.PLANNED, MigrationStatus.ROLLED_BACK}


def _equality(verification: KeptVerification | None) -> Verdict:
    if verification is None:
        return "not verified yet", False
    if verification.equal:
        return "source and destination are equal", True
    return f"{len(verification.differences):,} differences", False


def _summary(plan: MigrationPlan, manifest: Manifest | None) -> list[Row]:
    lines: list[Row] = [
        ("run", plan.run_id),
        ("mode", plan.mode + (", following a live source" if plan.follow else "")),
        ("planned", _time(plan.created_at_ms)),
    ]
    if manifest is not None:
        lines += [
            ("engine", manifest.engine),
            ("copy began", _time(manifest.started_at_ms)),
            ("copy ended", _time(manifest.finished_at_ms)),
            ("resumed after an interruption", f"{manifest.resumed} times"),
            ("records written", manifest.records_written),
        ]
    return lines


def _moved(plan: MigrationPlan, manifest: Manifest | None) -> list[Row]:
    done: dict[tuple[int, TopicType], list[SliceEvidence]] = {}
    for evidence in () if manifest is None else manifest.evidence:
        done.setdefault((evidence.source_index, evidence.topic_type), []).append(evidence)
    rows: list[Row] = []
    for index, source in enumerate(plan.sources):
        connectors = "all" if source.only_connectors is None else ", ".join(map(repr, source.only_connectors))
        who: Row = (source.group_id, source.becomes, f"{source.connectors:,} ({connectors})")
        for topic_type in TopicType:
            topic, copied = source.topics[topic_type], done.get((index, topic_type), [])
            planned = topic.counts
            counts = (planned.read, planned.to_write, planned.tombstones, planned.bytes_to_write)
            if manifest is not None:
                counts = (
                    sum(each.read for each in copied),
                    sum(each.written for each in copied),
                    sum(each.tombstones for each in copied),
                    sum(each.bytes_written for each in copied),
                )
            rows.append(
                (
                    *(who if topic_type is TopicType.CONFIG else ("", "", "")),
                    f"{topic.topic} (id {topic.topic_id or '-'}, {topic.isolation.value})",
                    plan.destination.topics[topic_type].topic,
                    *counts,
                )
            )
    return rows


def _destination(plan: MigrationPlan, manifest: Manifest | None) -> list[Row]:
    return [
        (
            topic_type.value,
            topic.topic,
            (topic.topic_id if manifest is None else manifest.destination[topic_type].topic_id) or "-",
            "created by apply" if manifest is not None and manifest.destination[topic_type].created else "was there",
            topic.partitions,
        )
        for topic_type, topic in plan.destination.topics.items()
        if manifest is None or topic_type in manifest.destination
    ]


def _left_behind(plan: MigrationPlan, manifest: Manifest | None) -> list[Row]:
    reasons: Counter[SkipReason] = Counter()
    if manifest is None:
        for source in plan.sources:
            for topic in source.topics.values():
                reasons.update(topic.counts.skipped)
    else:
        for evidence in manifest.evidence:
            reasons.update(evidence.skipped)
    return [(count, reason.value, reason.explanation) for reason, count in sorted(reasons.items(), key=str)]


def _difference(difference: StateDifference) -> Row:
    return (
        difference.cluster_group_id or "plain keys",
        difference.topic_type.value,
        difference.kind,
        difference.connector or "-",
        difference.item or "-",
        difference.field or "-",
        difference.problem.value,
    )


def _run(run: CommandRun) -> Row:
    return (
        _time(run.began_ms),
        run.command,
        f"{(run.ended_ms - run.began_ms) / 1000:,.1f}",
        run.outcome,
        f"{run.operator} on {run.host}",
        run.version,
    )


def _backup(manifest: Manifest | None) -> list[Row]:
    if manifest is None or manifest.backup is None:
        return []
    backup = manifest.backup
    lines: list[Row] = [
        ("file, beside the plan", backup.file),
        ("records", backup.records),
        ("bytes", backup.size_bytes),
        ("sha256", backup.sha256),
        ("seconds taken", f"{backup.seconds:,.1f}"),
        *((f"records of {topic}", count) for topic, count in backup.topics.items()),
    ]
    if manifest.mirrored_backup is not None:
        mirrored = manifest.mirrored_backup
        lines.append(("what was mirrored", f"{mirrored.file}, {mirrored.records:,} records, sha256 {mirrored.sha256}"))
    return lines


def _after_the_copy(manifest: Manifest | None) -> list[Row]:
    lines: list[Row] = []
    if manifest is not None and manifest.followed is not None:
        lines.append(("records mirrored behind the live source", manifest.followed.written))
    if manifest is not None and manifest.sealed is not None:
        what = {"stop": "target states STOPPED", "remove": "records removed"}[manifest.sealed.how]
        lines.append(("source sealed", f"{_time(manifest.sealed.at_ms)}, {what}: {manifest.sealed.records:,}"))
    return lines


def _slice(evidence: SliceEvidence) -> Row:
    written = sorted(evidence.destination_offsets.items())
    return (
        f"{evidence.topic}[{evidence.partition}]",
        f"{evidence.start:,} to {evidence.end:,}",
        evidence.read,
        evidence.written,
        evidence.found_present,
        ", ".join(f"[{partition}] {first:,}-{last:,}" for partition, (first, last) in written) or "-",
        evidence.digest,
    )
