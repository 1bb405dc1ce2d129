"""Records that new workers have written since the copy.

Before the cut-over nothing may be copied over them. After it, a connector with such records may differ from the source;
the other connectors are compared as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from connect_share.errors import DestinationUsedError, listed
from connect_share.kafka.facts import admin_of, ranges_since, read_facts, read_records, require_topic
from connect_share.model.keys import connector_of, split_key
from connect_share.model.records import Record, TopicType
from connect_share.transform.sealed import Resealer, SealTimes
from connect_share.worker_config import Isolation
from migrator.bystanders import KeyOwners
from migrator.checks import openers_of, sealings_of, slices_behind, times_at_destination
from migrator.copy.copy_job import Tally, rewritten
from migrator.copy.existing_records import identity
from migrator.plan import CopySlice
from migrator.run import MigrationRun, MigrationStatus
from migrator.verify.equality import Mismatch, StateDifference

_NAMED: Final = 3
Written = set[tuple[TopicType, str | None, str | None]]
"""Topic type, cluster group (``None``: plain keys) and connector."""


def written_since(run: MigrationRun) -> Written:
    """Return the connectors of which others have written something at the destination since the plan has.

    A process that follows may be ahead of the manifest, or may have been killed.

    Raises:
        PlanFileError: the plan was not applied.
        TopicError: a topic is gone.
    """
    manifest = run.applied()
    written: Written = set()
    mirrored: set[bytes] | None = None
    if manifest.followed is None or manifest.status is MigrationStatus.CUT_OVER:
        mirrored = set()
    before = {topic_type: topic.end_offsets for topic_type, topic in manifest.destination.items()}
    times = times_at_destination(run, before)
    with admin_of(run.destination) as admin:
        facts = read_facts(admin, {topic.topic for topic in manifest.destination.values()})
    wanted = run.plan.wanted()
    for topic_type, topic in manifest.destination.items():
        found = require_topic(facts, topic.topic, remedy="what was copied is gone")
        others, known = KeyOwners(topic_type, wanted), manifest.written_up_to(topic_type)
        openers = openers_of(topic_type, sealings_of(run), times)
        # What is refused of the records behind the plan's own depends on these.
        with_keys = any(opener.is_on for opener in openers.values())
        ranges = ranges_since(topic.topic, topic.end_offsets if with_keys else known, found.ends)
        for each in read_records(run.destination, ranges, Isolation.READ_UNCOMMITTED):
            parts = None if each.key is None else split_key(topic_type, each.key)
            if parts is None or others.owner(each.key) is not None or others.is_marker(each.key):
                continue
            record = openers[parts[0]].open(each)
            if record is None or record.offset < known.get(record.partition, 0):
                continue
            if mirrored is None:  # the sources' ends are read later than the destination's
                mirrored = _identities(run, slices_behind(run))
            if _identity(record) not in mirrored:
                written.add((topic_type, parts[0], connector_of(topic_type, parts[1])))
    return written


def _identities(run: MigrationRun, slices: Sequence[CopySlice]) -> set[bytes]:
    found: set[bytes] = set()
    for slice_ in slices:
        index = slice_.source_index
        records = read_records(run.workers[index], [slice_.offset_range], slice_.isolation, with_headers=True)
        resealer = Resealer(slice_.transform, run.source_sealing(index), run.destination_sealing(index), SealTimes())
        found.update(_identity(record) for record in rewritten(slice_, records, Tally(), resealer=resealer))
    return found


def _identity(record: Record) -> bytes:
    # The destination may stamp records with the time of the write.
    return identity(replace(record, timestamp_ms=0))


def require_unused(run: MigrationRun) -> None:
    """Check that no new worker has written: a further copy would replace its records by older ones.

    Raises:
        DestinationUsedError: one has; the error says what to do.
    """
    written = written_since(run)
    if written:
        groups = ", ".join(dict.fromkeys(source.becomes for source in run.plan.sources))
        raise DestinationUsedError(
            f"new workers have written since: {describe_written(written)} under {groups}. Do not start the old ones, they "
            "would do the same work again. Nothing was copied, fenced or sealed; connect-share-migrate seal "
            f"{run.plan_path} fences and seals the source now, verify shows what differs, rollback --although-used "
            "removes what the plan wrote"
        )


def describe_written(written: Written) -> str:
    """Return the names of the connectors, for people."""
    names = sorted({name for _, _, name in written if name is not None})
    return f"records of {listed(map(repr, names), _NAMED)}" if names else "records that belong to no connector"


def without_new_writes(
    differences: Sequence[StateDifference], written: Written, *, stopped: bool
) -> tuple[list[StateDifference], list[str]]:
    """Return the differences without those that new workers or the seal explain, and warnings that name these.

    ``stopped``: the source was sealed with STOPPED, and the cleaner may have removed the earlier target states.
    """
    kept, changed, states = [], set(), 0
    for difference in differences:
        if (difference.topic_type, difference.cluster_group_id, difference.connector) in written:
            changed.add(difference.connector)
        elif stopped and difference.kind == "target_state" and difference.problem is Mismatch.UNEXPECTED:
            states += 1
        else:
            kept.append(difference)
    warnings = []
    if changed:
        names = ", ".join(sorted(map(repr, changed)))
        warnings.append(f"new workers have written since the cut-over: what differs of {names} was not judged")
    if states:
        warnings.append(
            f"{states} target state(s) cannot be compared any more: the seal has replaced them at the source"
        )
    return kept, warnings
