"""What a move did, as one HTML page that a change manager can attach to a ticket; names and figures, never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from connect_share.records import TopicType
from migrator.copy.evidence import SliceEvidence
from migrator.facts.manifest import Manifest, MigrationStatus
from migrator.plan.plan import MigrationPlan, SourceCluster
from migrator.report.page import page, paragraph, section, table, verdict
from migrator.report.runs import KeptVerification, Run
from migrator.transform.rules import SkipReason

ROWS_SHOWN: Final = 300
"""Of one table: a page with a hundred thousand rows opens nowhere; the JSON files beside it have all."""

_STATUS: Final[Mapping[MigrationStatus, str]] = {
    MigrationStatus.PLANNED: "the copy did not end: the destination holds a part of it, or nothing",
    MigrationStatus.COPIED: "copied",
    MigrationStatus.VERIFIED: "copied and verified",
    MigrationStatus.CUT_OVER: "copied, verified and cut over",
    MigrationStatus.ROLLED_BACK: "rolled back: what was written was removed again",
}


def render_report(
    plan: MigrationPlan,
    manifest: Manifest | None,
    verification: KeptVerification | None,
    runs: Sequence[Run],
    facts: Mapping[str, str],
) -> str:
    """Give the page as text.

    Args:
        plan: what was to be done.
        manifest: what was done; ``None``: nothing yet, or not from here.
        verification: the last one.
        runs: the commands that were run.
        facts: further lines for the end of the page: versions, hashes.
    """
    parts = [
        _head(plan, manifest, verification),
        section("What moved where", _moved(plan, manifest)),
        section("What stayed behind, and why", _left_behind(plan, manifest)),
        section("Verification", _verification(verification)),
        section("Warnings", _warnings(plan, verification)),
        section("Steps of the plan", _steps(plan)),
        section("Who ran what", _runs(runs)),
        section("Backup", _backup(manifest)),
        *([] if manifest is None else _after_the_copy(manifest)),
        section("Partitions read and written", _slices(() if manifest is None else manifest.evidence)),
        section("Versions and hashes", table(("what", "is"), facts.items())),
    ]
    return page(f"Migration {plan.run_id}", parts)


def _time(at_ms: int | None) -> str:
    return "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _some(rows: Sequence[Sequence[object]]) -> tuple[Sequence[Sequence[object]], str]:
    left = len(rows) - ROWS_SHOWN
    return rows[:ROWS_SHOWN], "" if left <= 0 else paragraph(f"and {left:,} more: the JSON files have all", dim=True)


def _rows(titles: Sequence[str], rows: Sequence[Sequence[object]], numbers: frozenset[int] = frozenset()) -> str:
    shown, more = _some(rows)
    return table(titles, shown, numbers) + more


def _head(plan: MigrationPlan, manifest: Manifest | None, verification: KeptVerification | None) -> str:
    clusters = len(plan.sources)
    title = f"<h1>Move of {clusters:,} Connect cluster{'' if clusters == 1 else 's'}</h1>"
    if manifest is None:
        status = verdict("not applied", good=False)
    else:
        good = manifest.status not in {MigrationStatus.PLANNED, MigrationStatus.ROLLED_BACK}
        status = verdict(_STATUS[manifest.status], good=good)
    if verification is None:
        equal = verdict("not verified yet", good=False)
    elif verification.equal:
        equal = verdict("source and destination are equal", good=True)
    else:
        equal = verdict(f"{len(verification.differences):,} differences", good=False)
    lines: list[tuple[str, object]] = [
        ("run", plan.run_id),
        ("mode", plan.mode + (", following a live source" if plan.follow else "")),
        ("planned", _time(plan.created_at_ms)),
    ]
    if manifest is not None:
        lines += [
            ("engine", manifest.engine),
            ("copy began", _time(manifest.started_at_ms)),
            ("copy ended", _time(manifest.finished_at_ms)),
            ("gone on with after an interruption", f"{manifest.resumed} times"),
            ("records written", manifest.records_written),
        ]
    return f"{title}<p>{status}; {equal}.</p>{table(('what', 'is'), lines)}"


def _moved(plan: MigrationPlan, manifest: Manifest | None) -> str:
    done: dict[tuple[int, TopicType], list[SliceEvidence]] = {}
    for evidence in () if manifest is None else manifest.evidence:
        done.setdefault((evidence.source_index, evidence.topic_type), []).append(evidence)
    rows: list[tuple[object, ...]] = []
    for index, source in enumerate(plan.sources):
        copied = {topic_type: done.get((index, topic_type), []) for topic_type in TopicType}
        rows += _rows_of(source, plan, None if manifest is None else copied)
    titles = ("group", "becomes", "connectors", "from topic", "to topic", "read", "written", "removals", "bytes")
    destination: list[tuple[object, ...]] = [
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
    return (
        _rows(titles, rows, frozenset({2, 5, 6, 7, 8}))
        + paragraph(f"Destination: Kafka cluster {plan.destination.kafka_cluster_id or '-'}")
        + table(("type", "topic", "topic id", "made", "partitions"), destination, frozenset({4}))
        + paragraph("Figures are those of the copy; before it, those of the plan.", dim=True)
    )


def _rows_of(
    source: SourceCluster, plan: MigrationPlan, copied: Mapping[TopicType, Sequence[SliceEvidence]] | None
) -> Iterator[tuple[object, ...]]:
    connectors = "all" if source.only_connectors is None else ", ".join(map(repr, source.only_connectors))
    for topic_type in TopicType:
        topic = source.topics[topic_type]
        planned = topic.counts
        counts = (planned.read, planned.to_write, planned.tombstones, planned.bytes_to_write)
        if copied is not None:
            done = copied[topic_type]
            counts = (
                sum(each.read for each in done),
                sum(each.written for each in done),
                sum(each.tombstones for each in done),
                sum(each.bytes_written for each in done),
            )
        first = topic_type is TopicType.CONFIG
        yield (
            source.group_id if first else "",
            source.becomes if first else "",
            f"{source.connectors:,} ({connectors})" if first else "",
            f"{topic.topic} (id {topic.topic_id or '-'}, {topic.isolation.value})",
            plan.destination.topics[topic_type].topic,
            *counts,
        )


def _left_behind(plan: MigrationPlan, manifest: Manifest | None) -> str:
    reasons: Counter[SkipReason] = Counter()
    if manifest is None:
        for source in plan.sources:
            for topic in source.topics.values():
                reasons.update(topic.counts.skipped)
    else:
        for evidence in manifest.evidence:
            reasons.update(evidence.skipped)
    if not reasons:
        return paragraph("Nothing: every record was carried over.")
    rows = [(count, reason.value, reason.explanation) for reason, count in sorted(reasons.items(), key=str)]
    return table(("records", "reason", "because the record"), rows, frozenset({0}))


def _verification(verification: KeptVerification | None) -> str:
    if verification is None:
        return paragraph("Not done yet: connect-share-migrate verify compares what workers would believe.")
    told = paragraph(
        f"{_time(verification.at_ms)}: {verification.compared:,} comparisons of what workers would believe, "
        f"{len(verification.differences):,} differences."
    )
    if not verification.differences:
        return told
    rows = [
        (
            difference.cluster_group_id or "plain keys",
            difference.topic_type.value,
            difference.kind,
            difference.connector or "-",
            difference.item or "-",
            difference.field or "-",
            difference.problem.value,
        )
        for difference in verification.differences
    ]
    return told + _rows(("group", "type", "kind", "connector", "item", "field", "is"), rows)


def _warnings(plan: MigrationPlan, verification: KeptVerification | None) -> str:
    warnings = [*plan.warnings, *(() if verification is None else verification.warnings)]
    return "".join(paragraph(warning) for warning in warnings) or paragraph("None.")


def _steps(plan: MigrationPlan) -> str:
    rows = [(number, step.who, step.what) for number, step in enumerate(plan.steps, 1)]
    return table(("step", "who", "does"), rows, frozenset({0}))


def _runs(runs: Sequence[Run]) -> str:
    rows = [
        (
            _time(run.began_ms),
            run.command,
            f"{(run.ended_ms - run.began_ms) / 1000:,.1f}",
            run.outcome,
            f"{run.operator} on {run.host}",
            run.version,
        )
        for run in runs
    ]
    return _rows(("began", "command", "seconds", "outcome", "who", "version"), rows, frozenset({2}))


def _backup(manifest: Manifest | None) -> str:
    if manifest is None or manifest.backup is None:
        return paragraph("None was made: nothing can be restored from a file.")
    backup = manifest.backup
    lines: list[tuple[str, object]] = [
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
    return table(("what", "is"), lines) + paragraph("The file holds secrets; this page does not.", dim=True)


def _after_the_copy(manifest: Manifest) -> Iterator[str]:
    rows: list[tuple[str, object]] = []
    if manifest.followed is not None:
        rows.append(("records mirrored behind the live source", manifest.followed.written))
    if manifest.sealed is not None:
        what = {"stop": "target states STOPPED", "remove": "records removed"}[manifest.sealed.how]
        rows.append(("source sealed", f"{_time(manifest.sealed.at_ms)}, {what}: {manifest.sealed.records:,}"))
    if rows:
        yield section("After the copy", table(("what", "is"), rows))


def _slices(evidence: Sequence[SliceEvidence]) -> str:
    rows = [
        (
            f"{each.topic}[{each.partition}]",
            f"{each.start:,} to {each.end:,}",
            each.read,
            each.written,
            each.found_present,
            ", ".join(
                f"[{part}] {first:,}-{last:,}" for part, (first, last) in sorted(each.destination_offsets.items())
            )
            or "-",
            each.digest,
        )
        for each in evidence
    ]
    if not rows:
        return paragraph("None yet.")
    titles = (
        "source",
        "offsets, end exclusive",
        "read",
        "written",
        "of these found there",
        "at the destination",
        "digest",
    )
    return _rows(titles, rows, frozenset({2, 3, 4}))
