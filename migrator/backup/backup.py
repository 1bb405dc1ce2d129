"""The backup of a migration: what will be read and what will be written over, in one file beside the plan.

Written before the first record of ``apply``, with bounded memory; ``docs/backup-format.md``. The file has one section for
each way of reading (cluster, isolation, credentials), so one consumer reads many topics; its header says which topics of
which cluster lie where.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from connect_share.client import Message, headers_of, to_record
from connect_share.errors import RecordFileError
from connect_share.keys import split_key
from connect_share.log.ranges import read_batches
from connect_share.record_file import RecordFile, RecordFileWriter
from connect_share.records import OffsetRange, TopicType
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.copy.copy_job import IDLE_TIMEOUT_S, MARKER_KEY
from migrator.errors import AlreadyAppliedError
from migrator.facts.inspection import client_id_of
from migrator.facts.living import Wanted
from migrator.facts.manifest import BackupFile, Manifest, backup_path, mirrored_backup_path
from migrator.facts.readiness import Ready, wanted_of
from migrator.plan.plan import SourceCluster, SourceTopic
from migrator.progress import Progress
from migrator.transform.connector_keys import connector_of
from migrator.transform.rules import KeyTransform

BACKUP: Final = "backup of a migration"
PARTITIONS_AT_ONCE: Final = 200
"""Of one consumer: it asks for the position of each again and again."""


class BackedUpTopic(BaseModel):
    """One topic in a backup.

    Attributes:
        section: number of the section of the file that holds its records.
        ranges: per partition what was read, ``[start, end)``.
    """

    model_config = ConfigDict(frozen=True)

    section: int
    kafka_cluster_id: str | None
    topic: str
    topic_type: TopicType
    isolation: Isolation
    ranges: dict[int, tuple[int, int]]


class Origin(BaseModel):
    """One key space whose records are in a backup.

    Attributes:
        side: of the migration.
        group_id: ``group.id`` of the workers it belonged to; at a destination with plain keys that is not known.
        plain: its keys are plain; otherwise they have the prefix ``group_id``.
        becomes: the prefix the migration gave it; ``None``: plain keys.
        connectors: what was moved of it; ``None`` is everything.
        topics: number of its topics in ``BackupContents.topics``.
    """

    model_config = ConfigDict(frozen=True)

    side: Literal["source", "destination"]
    group_id: str | None
    plain: bool
    becomes: str | None = None
    connectors: tuple[str, ...] | None = None
    topics: dict[TopicType, int]


class BackupContents(BaseModel):
    """What the header of a backup says of it; holds no record and no secret."""

    model_config = ConfigDict(frozen=True)

    what: Literal["backup of a migration"] = BACKUP
    run_id: str
    made_at_ms: int
    version: str
    topics: tuple[BackedUpTopic, ...]
    origins: tuple[Origin, ...]


def read_contents(file: RecordFile) -> BackupContents:
    """Read what a backup is.

    Raises:
        RecordFileError: the file is none.
    """
    try:
        return BackupContents.model_validate(file.about)
    except ValidationError as error:
        raise RecordFileError(
            f"{file.path} holds records, but is no {BACKUP} that this version can read", path=str(file.path)
        ) from error


@dataclass
class _Section:
    """Everything that is read in one way."""

    settings: ClientSettings
    client_id: str
    isolation: Isolation
    ranges: dict[tuple[str, int], OffsetRange] = field(default_factory=dict)
    taken: dict[str, list[Callable[[bytes | None], bool]]] = field(default_factory=dict)
    moved: dict[str, list[KeyTransform]] = field(default_factory=dict)

    def add(self, offset_range: OffsetRange) -> None:
        at = (offset_range.topic, offset_range.partition)
        known = self.ranges.get(at, offset_range)
        self.ranges[at] = OffsetRange(*at, min(known.start, offset_range.start), max(known.end, offset_range.end))

    def batches(self) -> Iterator[list[Message]]:
        ranges = sorted(self.ranges.values())
        for first in range(0, len(ranges), PARTITIONS_AT_ONCE):
            yield from read_batches(
                self.settings,
                ranges[first : first + PARTITIONS_AT_ONCE],
                isolation=self.isolation,
                client_id=self.client_id,
                idle_timeout_s=IDLE_TIMEOUT_S,
            )

    def wanted(self, batch: list[Message]) -> list[Message]:
        """Leave out of a batch what is not to be kept."""
        return [message for message in batch if any(take(message.key()) for take in self.taken[message.topic() or ""])]

    def must_hold(self, topic: str, key: bytes | None) -> bool:
        """Tell a record that is moved or written over from what lies beside it in a shared source topic."""
        moved = self.moved.get(topic)
        return moved is None or any(isinstance(transform.original_key(key), bytes) for transform in moved)


Ranges = Callable[[int, SourceTopic], Sequence[OffsetRange]]
"""What is read of a topic of the source with that index."""


class _Layout:
    """Which topic is read how, each record once: several sources may share topics, and one may be the destination."""

    def __init__(self) -> None:
        self.sections: list[_Section] = []
        self.topics: list[tuple[int, str | None, str, TopicType]] = []
        self._numbers: dict[object, int] = {}
        self.origins: list[Origin] = []

    def _section(self, settings: ClientSettings, client_id: str, isolation: Isolation, side: str) -> int:
        at = (side, isolation, tuple(sorted(settings.properties.items())))
        if at not in self._numbers:
            self._numbers[at] = len(self.sections)
            self.sections.append(_Section(settings, client_id, isolation))
        return self._numbers[at]

    def topic(
        self,
        side: str,
        cluster: str | None,
        topic_type: TopicType,
        topic: str,
        *,
        settings: ClientSettings,
        client_id: str,
        isolation: Isolation,
        ranges: Sequence[OffsetRange],
        taken: Callable[[bytes | None], bool],
        moved: KeyTransform | None = None,
    ) -> int:
        """Add what is to be read of a topic; gives the topic's number."""
        at = (side, cluster, topic, isolation)
        if at not in self._numbers:
            self._numbers[at] = len(self.topics)
            self.topics.append((self._section(settings, client_id, isolation, side), cluster, topic, topic_type))
        number = self._numbers[at]
        section = self.sections[self.topics[number][0]]
        for offset_range in ranges:
            section.add(offset_range)
        section.taken.setdefault(topic, []).append(taken)
        if moved is not None:
            section.moved.setdefault(topic, []).append(moved)
        return number

    def described(self) -> tuple[BackedUpTopic, ...]:
        """Give the topics as the file's header names them."""
        return tuple(
            BackedUpTopic(
                section=number,
                kafka_cluster_id=cluster,
                topic=topic,
                topic_type=topic_type,
                isolation=self.sections[number].isolation,
                ranges={
                    part.partition: (part.start, part.end)
                    for part in self.sections[number].ranges.values()
                    if part.topic == topic
                },
            )
            for number, cluster, topic, topic_type in self.topics
        )

    def read_up_to(self, cluster: str | None, topic: str) -> dict[int, int]:
        """Give per partition where reading this topic as a source ends."""
        ends: dict[int, int] = {}
        for number, its_cluster, its_topic, _ in self.topics:
            if (its_cluster, its_topic) == (cluster, topic):
                for part in self.sections[number].ranges.values():
                    if part.topic == topic:
                        ends[part.partition] = max(part.end, ends.get(part.partition, 0))
        return ends


def _lay_out_sources(ready: Ready, ranges: Ranges) -> _Layout:
    layout = _Layout()
    for index, (source, worker) in enumerate(zip(ready.plan.sources, ready.workers, strict=True)):
        topics = {
            topic_type: layout.topic(
                "source",
                source.kafka_cluster_id,
                topic_type,
                topic.topic,
                settings=worker.consumer_settings(),
                client_id=client_id_of(worker),
                isolation=topic.isolation,
                ranges=ranges(index, topic),
                taken=_own_keys(source, topic_type),
                moved=source.transform(topic_type),
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


def _lay_out(ready: Ready) -> _Layout:
    layout, plan = _lay_out_sources(ready, lambda _, topic: topic.ranges()), ready.plan
    wanted, worker, cluster = wanted_of(plan), ready.destinations[0], plan.destination.kafka_cluster_id
    replaced: dict[TopicType, int] = {}
    for topic_type, (facts, created) in ready.opened.items():
        if created:
            continue
        known = layout.read_up_to(cluster, facts.topic)
        replaced[topic_type] = layout.topic(
            "destination",
            cluster,
            topic_type,
            facts.topic,
            settings=worker.consumer_settings(),
            client_id=client_id_of(worker),
            isolation=worker.isolation(topic_type),
            ranges=[part._replace(start=max(part.start, known.get(part.partition, 0))) for part in facts.ranges()],
            taken=partial(_will_be_written, topic_type, wanted),
        )
    layout.origins += [
        Origin(side="destination", group_id=space, plain=space is None, becomes=space, topics=replaced)
        for space in wanted
        if replaced
    ]
    return layout


def _own_keys(source: SourceCluster, topic_type: TopicType) -> Callable[[bytes | None], bool]:
    """Return what takes the keys of a source and leaves those of other groups; illegal keys count as plain ones."""
    group = source.group_id if source.sharing else None
    beginnings, _ = replace(source.transform(topic_type), connectors=None).sure_beginnings

    def is_own(key: bytes | None) -> bool:
        if key is None:
            return group is None
        if key.startswith(beginnings):
            return True
        parts = split_key(topic_type, key)
        if parts is None:
            return group is None
        return parts[0] == group

    return is_own


def _will_be_written(topic_type: TopicType, wanted: Wanted, key: bytes | None) -> bool:
    """Tell whether a record at the destination lies under a key that the plan may write."""
    parts = None if key is None else split_key(topic_type, key)
    if parts is None:
        return False
    space, original = None if parts[0] is None else str(parts[0]), parts[1]
    if space not in wanted:
        return False
    connectors = wanted[space]
    return connectors is None or original == MARKER_KEY or connector_of(topic_type, original) in connectors


def back_up(ready: Ready, progress: Progress) -> BackupFile:
    """Write what the sources of a plan hold, and what the destination holds under the keys it writes, into one file.

    Records of other groups on the same topics are not in it.

    Returns:
        What is noted in the manifest.

    Raises:
        AlreadyAppliedError: a backup of another run has that name.
        RecordFileError: the file cannot be written; nothing bears its name then.
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of a range was not reached.
        UnreadableHeadersError: a record that is moved or written over cannot be kept whole.
    """
    return _write_file(backup_path(ready.plan_path), _lay_out(ready), ready.plan.run_id, progress)


def back_up_mirrored(ready: Ready, manifest: Manifest, progress: Progress) -> BackupFile:
    """Write what was mirrored behind the planned ranges, and is still at the sources, into a file of its own.

    Raises:
        ConnectShareError: as :func:`back_up`.
    """

    def behind(index: int, topic: SourceTopic) -> list[OffsetRange]:
        planned = topic.ranges()
        copied = manifest.read_ranges_of(index, planned)
        return [each._replace(start=part.end) for part, each in zip(planned, copied, strict=True)]

    path = mirrored_backup_path(ready.plan_path)
    return _write_file(path, _lay_out_sources(ready, behind), ready.plan.run_id, progress)


def _write_file(path: Path, layout: _Layout, run_id: str, progress: Progress) -> BackupFile:
    _refuse_another(path, run_id)
    began_s = time.monotonic()
    contents = BackupContents(
        run_id=run_id,
        made_at_ms=int(time.time() * 1000),
        version=version("connect-share"),
        topics=layout.described(),
        origins=tuple(layout.origins),
    )
    total = sum(part.end - part.start for section in layout.sections for part in section.ranges.values())
    progress.phase(f"backing up to {path.name}", total)
    counts: Counter[tuple[int, str]] = Counter()
    left_out: Counter[str] = Counter()
    with RecordFileWriter(path, contents.model_dump(mode="json"), sections=len(layout.sections)) as writer:
        for number, section in enumerate(layout.sections):
            if number:
                writer.next_section()
            for batch in section.batches():
                progress.advance(len(batch))
                counts.update(_write(writer, number, section, section.wanted(batch), left_out))
    written = writer.result
    if written is None:
        raise RecordFileError(f"{path} was not written", path=str(path))
    return BackupFile(
        file=path.name,
        records=written.records,
        topics=_by_topic(layout, counts),
        size_bytes=written.size_bytes,
        sha256=written.sha256,
        seconds=round(time.monotonic() - began_s, 3),
        left_out=dict(left_out),
    )


def _write(
    writer: RecordFileWriter, number: int, section: _Section, batch: list[Message], left_out: Counter[str]
) -> Counter[tuple[int, str]]:
    """Write what the client gave, without an object for each record; gives the counts."""
    counts: Counter[tuple[int, str]] = Counter()
    for message in batch:
        topic, headers = message.topic() or "", headers_of(message)
        if headers is None:
            if section.must_hold(topic, message.key()):
                to_record(message, headers).whole_headers()  # raises
            left_out[topic] += 1
            continue
        writer.write_fields(
            topic,
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            message.key(),
            message.value(),
            headers,
        )
        counts[number, topic] += 1
    return counts


def _by_topic(layout: _Layout, counts: Mapping[tuple[int, str], int]) -> dict[str, int]:
    """Add up per topic; two clusters may have topics of one name."""
    by_topic: Counter[str] = Counter()
    for number, _, topic, _ in layout.topics:
        by_topic[topic] += counts.get((number, topic), 0)
    return dict(by_topic)


def _refuse_another(path: Path, run_id: str) -> None:
    if path.exists() and RecordFile(path).about.get("run_id") != run_id:
        raise AlreadyAppliedError(f"{path} is the backup of another run: move it away, nothing was written")
