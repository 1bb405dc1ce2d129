"""The backup of a migration: what the plan reads and what it writes over, in one file beside the plan.

Written before the first record of ``apply``, with bounded memory; ``docs/backup-format.md``. The file has one section for
each cluster, isolation level and credentials, so one consumer reads many topics. Its header names the topics of each
section.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from connect_share.client import Message, headers_of, to_record
from connect_share.errors import RecordFileError
from connect_share.keys import ClusterGroupId, own_key, split_key
from connect_share.record_file import RecordFile, RecordFileWriter
from connect_share.records import OffsetRange, TopicType
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.backup.contents import BackedUpTopic, BackupContents, Origin
from migrator.errors import AlreadyAppliedError
from migrator.facts.bystanders import KeyOwners
from migrator.facts.inspection import ExistingTopic, read_messages
from migrator.facts.manifest import BackupFile, Manifest, backup_path, mirrored_backup_path
from migrator.facts.migration_run import MigrationRun
from migrator.facts.readiness import Opened, wanted_of
from migrator.plan.plan import SourceCluster, SourceTopic
from migrator.progress import Progress

PARTITIONS_AT_ONCE: Final = 200
"""Of one consumer: it asks for the position of each after every batch."""


KeyTest = Callable[[bytes | None], bool]
Ranges = Callable[[int, SourceTopic], Sequence[OffsetRange]]
"""Returns what is read of a topic of the source with that index."""


@dataclass
class _Topic:
    """What is read of one topic.

    Attributes:
        section: number of the section that holds its records.
        ranges: by partition.
        kept: a record is kept if one of these tests holds for its key.
        required: if one of these holds too, a record that cannot be kept whole fails the backup.
    """

    section: int
    cluster: str | None
    topic: str
    topic_type: TopicType
    ranges: dict[int, OffsetRange] = field(default_factory=dict)
    kept: list[KeyTest] = field(default_factory=list)
    required: list[KeyTest] = field(default_factory=list)

    def add(self, ranges: Sequence[OffsetRange], kept: KeyTest, required: KeyTest) -> None:
        for part in ranges:
            known = self.ranges.get(part.partition, part)
            self.ranges[part.partition] = part._replace(
                start=min(known.start, part.start), end=max(known.end, part.end)
            )
        self.kept.append(kept)
        self.required.append(required)


class _Layout:
    """The sections of a backup. Each record is read once: sources may share topics, and one may be the destination.

    Attributes:
        sections: by number, the worker whose settings are used for reading, and the isolation level.
    """

    def __init__(self) -> None:
        self.sections: list[tuple[WorkerConfig, Isolation]] = []
        self.topics: list[_Topic] = []
        self.origins: list[Origin] = []
        self._section_numbers: dict[object, int] = {}
        self._topic_numbers: dict[object, int] = {}

    def number_of(
        self, side: str, cluster: str | None, worker: WorkerConfig, topic_type: TopicType, isolation: Isolation
    ) -> int:
        """Return the number of a worker's topic, which is new if nothing was read of it so far."""
        topic = worker.topic(topic_type)
        key = (side, cluster, topic, isolation)
        if key not in self._topic_numbers:
            settings = (side, isolation, tuple(sorted(worker.consumer_settings().properties.items())))
            section = self._section_numbers.setdefault(settings, len(self.sections))
            if section == len(self.sections):
                self.sections.append((worker, isolation))
            self._topic_numbers[key] = len(self.topics)
            self.topics.append(_Topic(section, cluster, topic, topic_type))
        return self._topic_numbers[key]


def _lay_out_sources(run: MigrationRun, ranges: Ranges) -> _Layout:
    layout = _Layout()
    for index, (source, worker) in enumerate(zip(run.plan.sources, run.workers, strict=True)):
        numbers = {}
        for topic_type, topic in source.topics.items():
            number = layout.number_of("source", source.kafka_cluster_id, worker, topic_type, topic.isolation)
            moved = source.transform(topic_type).takes
            layout.topics[number].add(ranges(index, topic), _own_keys(source, topic_type), moved)
            numbers[topic_type] = number
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


def _lay_out(run: MigrationRun, opened: Opened) -> _Layout:
    layout, plan = _lay_out_sources(run, lambda _, topic: topic.ranges()), run.plan
    wanted, worker, cluster = wanted_of(plan), run.destination, plan.destination.kafka_cluster_id
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
        number = layout.number_of("destination", cluster, worker, topic_type, worker.isolation(topic_type))
        will_be_written = _written_keys(KeyOwners(topic_type, wanted))
        layout.topics[number].add(unread, will_be_written, will_be_written)
        replaced[topic_type] = number
    if replaced:
        layout.origins += [
            Origin(side="destination", group_id=space, plain=space is None, becomes=space, topics=replaced)
            for space in wanted
        ]
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
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of a range was not reached.
        UnreadableHeadersError: a record that is moved or written over cannot be kept whole.
    """
    return _write_file(backup_path(run.plan_path), _lay_out(run, opened), run.plan.run_id, progress)


def back_up_mirrored(run: MigrationRun, manifest: Manifest, progress: Progress) -> BackupFile:
    """Write what was mirrored behind the planned ranges, and is still at the sources, to a file of its own.

    Raises:
        ConnectShareError: as :func:`back_up`.
    """

    def behind(index: int, topic: SourceTopic) -> list[OffsetRange]:
        planned = topic.ranges()
        copied = manifest.read_ranges_of(index, planned)
        return [each._replace(start=part.end) for part, each in zip(planned, copied, strict=True)]

    path = mirrored_backup_path(run.plan_path)
    return _write_file(path, _lay_out_sources(run, behind), run.plan.run_id, progress)


def back_up_group(
    path: Path,
    worker: WorkerConfig,
    topics: Mapping[TopicType, ExistingTopic],
    run_id: str,
    progress: Progress,
) -> BackupFile:
    """Write what the group of a worker with topic sharing has on its topics to one file.

    Raises:
        ConnectShareError: as :func:`back_up`.
    """
    layout, group, numbers = _Layout(), ClusterGroupId(worker.group_id), dict[TopicType, int]()
    for topic_type, topic in topics.items():
        number = layout.number_of("source", None, worker, topic_type, worker.isolation(topic_type))

        def is_own(key: bytes | None, topic_type: TopicType = topic_type) -> bool:
            return key is not None and own_key(topic_type, key, group) is not None

        layout.topics[number].add(topic.ranges(), is_own, is_own)
        numbers[topic_type] = number
    layout.origins.append(Origin(side="source", group_id=group, plain=False, becomes=group, topics=numbers))
    return _write_file(path, layout, run_id, progress)


def _write_file(path: Path, layout: _Layout, run_id: str, progress: Progress) -> BackupFile:
    if path.exists() and RecordFile(path).about.get("run_id") != run_id:
        raise AlreadyAppliedError(f"{path} is the backup of another run: move it away, nothing was written")
    began_s = time.monotonic()
    contents = BackupContents(
        run_id=run_id,
        made_at_ms=int(time.time() * 1000),
        version=version("connect-share"),
        topics=tuple(
            BackedUpTopic(
                section=each.section,
                kafka_cluster_id=each.cluster,
                topic=each.topic,
                topic_type=each.topic_type,
                isolation=layout.sections[each.section][1],
                ranges={number: (part.start, part.end) for number, part in each.ranges.items()},
            )
            for each in layout.topics
        ),
        origins=tuple(layout.origins),
    )
    total = sum(part.end - part.start for each in layout.topics for part in each.ranges.values())
    progress.phase(f"backing up to {path.name}", total)
    written: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    with RecordFileWriter(path, contents.model_dump(mode="json"), sections=len(layout.sections)) as writer:
        for number, (worker, isolation) in enumerate(layout.sections):
            if number:
                writer.next_section()
            topics = {each.topic: each for each in layout.topics if each.section == number}
            ranges = sorted(part for each in topics.values() for part in each.ranges.values())
            for first in range(0, len(ranges), PARTITIONS_AT_ONCE):
                for batch in read_messages(worker, ranges[first : first + PARTITIONS_AT_ONCE], isolation):
                    progress.advance(len(batch))
                    for message in batch:
                        _write(writer, topics[message.topic() or ""], message, written, left_out)
    file = writer.result
    if file is None:
        raise RecordFileError(f"{path} was not written", path=str(path))
    return BackupFile(
        file=path.name,
        records=file.records,
        topics={each.topic: written[each.topic] for each in layout.topics},
        size_bytes=file.size_bytes,
        sha256=file.sha256,
        seconds=round(time.monotonic() - began_s, 3),
        left_out=dict(left_out),
    )


def _write(
    writer: RecordFileWriter, topic: _Topic, message: Message, written: Counter[str], left_out: Counter[str]
) -> None:
    """Write what the client gave, without a :class:`Record` for it, and count it by topic."""
    key = message.key()
    if not any(test(key) for test in topic.kept):
        return
    headers = headers_of(message)
    if headers is not None:
        place = (topic.topic, message.partition() or 0, message.offset() or 0)
        writer.write_fields(*place, message.timestamp()[1], key, message.value(), headers)
        written[topic.topic] += 1
    elif any(test(key) for test in topic.required):
        to_record(message, headers).whole_headers()  # raises
    else:
        left_out[topic.topic] += 1
