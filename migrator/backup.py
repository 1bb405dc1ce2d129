"""The backup of a migration: what the plan reads and what it writes over, in one file beside the plan.

Written before the first record of ``apply``, with bounded memory; ``docs/backup-format.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from connect_share.backup.backup_file import BackupFile, BackupLayout, KeyTest, Origin, Reader, write_backup
from connect_share.files import Progress
from connect_share.model.keys import split_key
from connect_share.model.records import OffsetRange, TopicType
from migrator.bystanders import KeyOwners
from migrator.checks import Opened
from migrator.plan import SourceCluster, SourceTopic
from migrator.run import MIRRORED, Manifest, MigrationRun, backup_path

Ranges = Callable[[int, SourceTopic], Sequence[OffsetRange]]
"""Returns what is read of a topic of the source with that index."""


def _lay_out_sources(run: MigrationRun, ranges: Ranges) -> BackupLayout:
    layout = BackupLayout()
    for index, (source, worker) in enumerate(zip(run.plan.sources, run.workers, strict=True)):
        numbers = {
            topic_type: layout.add(
                ("source", source.kafka_cluster_id, topic.topic),
                topic_type,
                Reader.of(worker, topic.isolation),
                ranges(index, topic),
                _own_keys(source, topic_type),
                required=source.transform(topic_type).takes,
            )
            for topic_type, topic in source.topics.items()
        }
        layout.origins.append(
            Origin(
                side="source",
                group_id=source.group_id,
                plain=not source.sharing,
                becomes=source.cluster_group_id,
                connectors=source.only_connectors,
                topics=numbers,
            )
        )
    return layout


def _written_keys(owners: KeyOwners) -> KeyTest:
    return lambda key: owners.owner(key) is None


def _own_keys(source: SourceCluster, topic_type: TopicType) -> KeyTest:
    """Return the test for the keys of a source, not of other groups; illegal keys count as plain ones."""
    group = source.group_id if source.sharing else None
    beginnings, _ = replace(source.transform(topic_type), connectors=None).sure_beginnings

    def is_own(key: bytes | None) -> bool:
        if key is not None and key.startswith(beginnings):
            return True
        parts = None if key is None else split_key(topic_type, key)
        return (None if parts is None else parts[0]) == group

    return is_own


def back_up(run: MigrationRun, opened: Opened, progress: Progress) -> BackupFile:
    """Write what the sources of a plan hold, and what the destination holds under the keys it writes, to one file.

    Records of other groups on the same topics are not in it.

    Returns:
        The manifest's entry.

    Raises:
        AlreadyAppliedError: a backup of another run has that name.
        RecordFileError: the file cannot be written; nothing bears its name then.
        UnreadableHeadersError: a record that is moved or written over cannot be kept whole.
    """
    layout, plan = _lay_out_sources(run, lambda _, topic: topic.ranges()), run.plan
    wanted, worker, cluster = plan.wanted(), run.destination, plan.destination.kafka_cluster_id
    replaced: dict[TopicType, int] = {}
    for topic_type, (facts, created) in opened.items():
        if created:
            continue
        known = [each.ranges for each in layout.topics if (each.cluster, each.topic) == (cluster, facts.topic)]
        unread = [
            part._replace(
                start=max([part.start, *(each[part.partition].end for each in known if part.partition in each)])
            )
            for part in facts.ranges()
        ]
        reader, place = Reader.of(worker, worker.isolation(topic_type)), ("destination", cluster, facts.topic)
        written = _written_keys(KeyOwners(topic_type, wanted))
        replaced[topic_type] = layout.add(place, topic_type, reader, unread, written)
    if replaced:
        layout.origins += [
            Origin(side="destination", group_id=space, plain=space is None, becomes=space, topics=replaced)
            for space in wanted
        ]
    return write_backup(backup_path(run.plan_path), layout, run.plan.run_id, progress)


def back_up_mirrored(run: MigrationRun, manifest: Manifest, progress: Progress) -> BackupFile:
    """Write what was mirrored behind the planned ranges, and is still at the sources, to a file of its own."""

    def behind(index: int, topic: SourceTopic) -> list[OffsetRange]:
        planned = topic.ranges()
        copied = manifest.read_ranges_of(index, planned)
        return [each._replace(start=part.end) for part, each in zip(planned, copied, strict=True)]

    path = backup_path(run.plan_path, MIRRORED)
    return write_backup(path, _lay_out_sources(run, behind), run.plan.run_id, progress)
