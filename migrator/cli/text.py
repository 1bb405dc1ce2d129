"""Plans, previews and results as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connect_share.model.records import TopicType
from migrator.advice import named_connectors
from migrator.plan import MigrationPlan, SourceCluster
from migrator.run import MigrationRun
from migrator.verify.verification import Verification

if TYPE_CHECKING:  # an apply has no use for them
    from migrator.cutover import CutoverPreview, CutoverResult
    from migrator.rollback import Rollback


def plan_lines(plan: MigrationPlan) -> list[str]:
    """Return a plan as text: what goes where, what stays behind, warnings, steps."""
    lines = [f"run {plan.run_id}, mode {plan.mode}"]
    for source in plan.sources:
        whose = f"{source.connectors} connector{'' if source.connectors == 1 else 's'}"
        if source.only_connectors is not None:
            whose = f"only {named_connectors(source.only_connectors)}"
        keys = "gets plain keys" if source.cluster_group_id is None else f"becomes {source.cluster_group_id}"
        lines += ["", f"{source.group_id} {keys} ({whose}), {source.worker_config_file}"]
        lines += _sealing_lines(source)
        for topic_type in TopicType:
            topic, shared = source.topics[topic_type], plan.destination.topics[topic_type]
            counts = topic.counts
            lines.append(
                f"  {topic_type.value:6}  {topic.topic} -> {shared.topic}"
                f"{' (to be created)' if shared.create else ''}: {counts.to_write:,} of {counts.read:,} records, "
                f"{counts.bytes_to_write:,} bytes, {topic.isolation.value}"
            )
            lines += [f"          left behind: {n:,} {reason.value}" for reason, n in counts.skipped.items()]
    if plan.warnings:
        lines.append("")
        lines += [f"warning: {warning}" for warning in plan.warnings]
    lines.append("")
    lines += [
        f"{number}. {'you' if step.who == 'operator' else 'this tool'}: {step.what}"
        for number, step in enumerate(plan.steps, 1)
    ]
    return lines


def _sealing_lines(source: SourceCluster) -> list[str]:
    """Return what happens to values if one of both sides is sealed."""
    if source.sealed_as_is:
        return ["  values  sealed, copied as they are"]
    sides = (source.sealing, source.destination_sealing)
    shown = ["plain" if each is None else f"sealed with key {each.key_ids[0]}" for each in sides]
    return [] if sides == (None, None) else [f"  values  {' -> '.join(shown)}"]


def cutover_lines(shown: CutoverPreview) -> list[str]:
    """Return what a cut-over is about to do."""
    lines = [
        f"{group}: {_alive(count, same=group in shown.same_members)}" for group, count in shown.live_workers.items()
    ]
    lines += [f"fence {transactional_id}" for transactional_id in shown.transactional_ids]
    what = {
        "stop": "seal the source: target state STOPPED for each connector",
        "remove": "remove the originals: a tombstone for each record that was moved",
        "none": "seal nothing: a worker started at the source by mistake runs everything a second time",
    }[shown.how]
    lines.append(what)
    lines += [f"  {topic}: {count:,} record(s)" for topic, count in sorted(shown.seal.topics.items())]
    return lines


def _alive(count: int, *, same: bool) -> str:
    if not count:
        return "0 worker(s) alive"
    return f"{count} worker(s) alive, {'make sure that they are the new ones' if same else 'stop them first'}"


def preview_json(shown: CutoverPreview) -> dict[str, object]:
    """Return what a cut-over or a seal would do, as JSON."""
    return {
        "live_workers": shown.live_workers,
        "seal": shown.how,
        "seal_records": shown.seal.topics,
        "connectors": list(shown.seal.connectors),
        "transactional_ids": list(shown.transactional_ids),
    }


def result_json(run: MigrationRun, result: CutoverResult) -> dict[str, object]:
    """Return what a cut-over or a seal has done, as JSON."""
    return {
        "dry_run": False,
        "manifest_file": str(run.manifest_path),
        "manifest": result.manifest.model_dump(mode="json"),
        "fenced": result.fenced,
    }


def rollback_lines(found: Rollback) -> list[str]:
    """Return what a rollback removes and what it leaves, by connector."""
    lines = [f"{found.records:,} key(s) whose newest record this plan wrote are removed:"]
    lines += [
        f"  {topic_type.value:6}  {'-' if name is None else repr(name)}: {count:,}"
        for (topic_type, name), count in sorted(found.by_connector.items(), key=str)
    ]
    if found.newer:
        lines.append(
            f"{sum(found.newer.values()):,} key(s) were written by others since and stay; needs --although-used:"
        )
        lines += [
            f"  {topic_type.value:6}  {'-' if name is None else repr(name)}: {count:,}"
            for (topic_type, name), count in sorted(found.newer.items(), key=str)
        ]
    return lines


def verification_lines(verification: Verification, shown: int) -> list[str]:
    """Return the first ``shown`` differences, and in the last line whether both sides are equal."""
    lines = [f"warning: {warning}" for warning in verification.warnings]
    if verification.equal:
        return [*lines, f"equal: {verification.compared} comparisons, no difference"]
    total = len(verification.differences)
    lines += [f"  {difference}" for difference in verification.differences[:shown]]
    if total > shown:
        lines.append(f"  and {total - shown} more: --output json shows all")
    return [*lines, f"different: {total} difference{'' if total == 1 else 's'}"]
