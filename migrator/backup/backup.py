"""The backup of a migration: what the plan reads and what it writes over, in one file beside the plan.

Written before the first record of ``apply``, with bounded memory; ``docs/backup-format.md``. The file has one section for
each cluster, isolation level and credentials, so one consumer reads many topics. Its header names the topics of each
section.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from connect_share.client import Message, headers_of, to_record
from connect_share.errors import RecordFileError
from connect_share.keys import split_key
from connect_share.record_file import RecordFile, RecordFileWriter
from connect_share.records import OffsetRange, TopicType
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.backup.contents import BackedUpTopic, BackupContents, Origin
from migrator.errors import AlreadyAppliedError
from migrator.facts.bystanders import KeyOwners
from migrator.facts.manifest import BackupFile, Manifest, backup_path, mirrored_backup_path
from migrator.facts.migration_run import MigrationRun
from migrator.facts.readiness import Opened, wanted_of
from migrator.facts.worker_clients import read_messages
from migrator.plan.plan import SourceCluster, SourceTopic
from migrator.progress import Progress
from migrator.transform.rules import KeyTransform

PARTITIONS_AT_ONCE: Final = 200
"""Of one consumer: it asks for the position of each after every batch."""


KeyTest = Callable[[bytes | None], bool]
Ranges = Callable[[int, SourceTopic], Sequence[OffsetRange]]
"""Returns what is read of a topic of the source with that index."""


@dataclass
class _Section:
    """Everything that is read with one worker's settings and one isolation level.

    Attributes:
        kept: by topic: a record is kept if one of these tests holds for its key.
        required: by topic: if one of these holds too, a record that cannot be kept whole fails the backup.
    """

    worker: WorkerConfig
    isolation: Isolation
    ranges: dict[tuple[str, int], OffsetRange] = field(default_factory=dict)
    kept: defaultdict[str, list[KeyTest]] = field(default_factory=lambda: defaultdict(list))
    required: defaultdict[str, list[KeyTest]] = field(default_factory=lambda: defaultdict(list))

    def add(self, offset_range: OffsetRange) -> None:
        key = (offset_range.topic, offset_range.partition)
        known = self.ranges.get(key, offset_range)
        self.ranges[key] = OffsetRange(*key, min(known.start, offset_range.start), max(known.end, offset_range.end))

    def ranges_of(self, topic: str) -> list[OffsetRange]:
        return [each for each in self.ranges.values() if each.topic == topic]

    def batches(self) -> Iterator[list[Message]]:
        ranges = sorted(self.ranges.values())
        for first in range(0, len(ranges), PARTITIONS_AT_ONCE):
            yield from read_messages(self.worker, ranges[first : first + PARTITIONS_AT_ONCE], self.isolation)


class _Layout:
    """The sections of a backup. Each record is read once: sources may share topics, and one may be the destination."""

    def __init__(self) -> None:
        self.sections: list[_Section] = []
        self.topics: list[tuple[int, str | None, str, TopicType]] = []
        self.origins: list[Origin] = []
        self._section_numbers: dict[object, int] = {}
        self._topic_numbers: dict[object, int] = {}

    def add(
        self,
        *,
        side: str,
        cluster: str | None,
        topic_type: TopicType,
        topic: str,
        worker: WorkerConfig,
        isolation: Isolation,
        ranges: Sequence[OffsetRange],
        kept: KeyTest,
        required: KeyTest,
    ) -> int:
        """Add what is to be read of a topic. Returns the topic's number."""
        key = (side, cluster, topic, isolation)
        if key not in self._topic_numbers:
            self._topic_numbers[key] = len(self.topics)
            self.topics.append((self._section(side, worker, isolation), cluster, topic, topic_type))
        number = self._topic_numbers[key]
        section = self.sections[self.topics[number][0]]
        for offset_range in ranges:
            section.add(offset_range)
        section.kept[topic].append(kept)
        section.required[topic].append(required)
        return number

    def _section(self, side: str, worker: WorkerConfig, isolation: Isolation) -> int:
        key = (side, isolation, tuple(sorted(worker.consumer_settings().properties.items())))
        if key not in self._section_numbers:
            self._section_numbers[key] = len(self.sections)
            self.sections.append(_Section(worker, isolation))
        return self._section_numbers[key]

    def backed_up_topics(self) -> tuple[BackedUpTopic, ...]:
        return tuple(
            BackedUpTopic(
                section=number,
                kafka_cluster_id=cluster,
                topic=topic,
                topic_type=topic_type,
                isolation=self.sections[number].isolation,
                ranges={part.partition: (part.start, part.end) for part in self.sections[number].ranges_of(topic)},
            )
            for number, cluster, topic, topic_type in self.topics
        )

    def ends(self, cluster: str | None, topic: str) -> dict[int, int]:
        """Return per partition where reading a topic ends, as far as it was added."""
        ends: dict[int, int] = {}
        for number, its_cluster, its_topic, _ in self.topics:
            if (its_cluster, its_topic) == (cluster, topic):
                for part in self.sections[number].ranges_of(topic):
                    ends[part.partition] = max(part.end, ends.get(part.partition, 0))
        return ends


def _lay_out_sources(run: MigrationRun, ranges: Ranges) -> _Layout:
    layout = _Layout()
    for index, (source, worker) in enumerate(zip(run.plan.sources, run.workers, strict=True)):
        topics = {
            topic_type: layout.add(
                side="source",
                cluster=source.kafka_cluster_id,
                topic_type=topic_type,
                topic=topic.topic,
                worker=worker,
                isolation=topic.isolation,
                ranges=ranges(index, topic),
                kept=_own_keys(source, topic_type),
                required=_moved_keys(source.transform(topic_type)),
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
                topics=topics,
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
        known = layout.ends(cluster, facts.topic)
        will_be_written = _written_keys(KeyOwners(topic_type, wanted))
        replaced[topic_type] = layout.add(
            side="destination",
            cluster=cluster,
            topic_type=topic_type,
            topic=facts.topic,
            worker=worker,
            isolation=worker.isolation(topic_type),
            ranges=[part._replace(start=max(part.start, known.get(part.partition, 0))) for part in facts.ranges()],
            kept=will_be_written,
            required=will_be_written,
        )
    if replaced:
        layout.origins += [
            Origin(side="destination", group_id=space, plain=space is None, becomes=space, topics=replaced)
            for space in wanted
        ]
    return layout


def _written_keys(owners: KeyOwners) -> KeyTest:
    return lambda key: owners.owner(key) is None


def _moved_keys(transform: KeyTransform) -> KeyTest:
    return lambda key: isinstance(transform.original_key(key), bytes)


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


def _write_file(path: Path, layout: _Layout, run_id: str, progress: Progress) -> BackupFile:
    if path.exists() and RecordFile(path).about.get("run_id") != run_id:
        raise AlreadyAppliedError(f"{path} is the backup of another run: move it away, nothing was written")
    began_s = time.monotonic()
    contents = BackupContents(
        run_id=run_id,
        made_at_ms=int(time.time() * 1000),
        version=version("connect-share"),
        topics=layout.backed_up_topics(),
        origins=tuple(layout.origins),
    )
    total = sum(part.end - part.start for section in layout.sections for part in section.ranges.values())
    progress.phase(f"backing up to {path.name}", total)
    written: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    with RecordFileWriter(path, contents.model_dump(mode="json"), sections=len(layout.sections)) as writer:
        for number, section in enumerate(layout.sections):
            if number:
                writer.next_section()
            for batch in section.batches():
                progress.advance(len(batch))
                for message in batch:
                    _write(writer, section, message, written, left_out)
    file = writer.result
    if file is None:
        raise RecordFileError(f"{path} was not written", path=str(path))
    return BackupFile(
        file=path.name,
        records=file.records,
        topics={topic: written[topic] for _, _, topic, _ in layout.topics},
        size_bytes=file.size_bytes,
        sha256=file.sha256,
        seconds=round(time.monotonic() - began_s, 3),
        left_out=dict(left_out),
    )


def _write(
    writer: RecordFileWriter, section: _Section, message: Message, written: Counter[str], left_out: Counter[str]
) -> None:
    """Write what the client gave, without a :class:`Record` for it, and count it by topic."""
    topic, key = message.topic() or "", message.key()
    if not any(test(key) for test in section.kept[topic]):
        return
    headers = headers_of(message)
    if headers is not None:
        place = (topic, message.partition() or 0, message.offset() or 0)
        writer.write_fields(*place, message.timestamp()[1], key, message.value(), headers)
        written[topic] += 1
    elif any(test(key) for test in section.required[topic]):
        to_record(message, headers).whole_headers()  # raises
    else:
        left_out[topic] += 1
