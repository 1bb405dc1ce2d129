"""Backups in one file: of a group, or of what a layout says; ``docs/backup-format.md``.

Written with bounded memory. The file has one section for each cluster, isolation level and credentials, so one consumer
reads many topics. Its header names the topics of each section.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from connect_share.avro_encoding import RecordBlock, RecordEncoder
from connect_share.backup.contents import BACKUP, BackedUpTopic, BackupContents, BackupFile, Origin, Segment, What
from connect_share.backup.encryption import FileCipher
from connect_share.client import Message, headers_of, to_record
from connect_share.errors import RecordFileError
from connect_share.keys import ClusterGroupId, own_key
from connect_share.log.ranges import read_batches
from connect_share.migration_errors import AlreadyAppliedError
from connect_share.progress import Progress
from connect_share.record_file import RecordFile, RecordFileWriter
from connect_share.records import OffsetRange, TopicType
from connect_share.sealing import KeyRing
from connect_share.topic_io.checked_writer import CLIENT_ID
from connect_share.topic_io.facts import IDLE_TIMEOUT_S, ExistingTopic
from connect_share.worker_config import ClientSettings, WorkerConfig
from connect_share.worker_config.client_settings import Isolation

PARTITIONS_AT_ONCE: Final = 200
"""Of one consumer: it asks for the position of each after every batch."""


KeyTest = Callable[[bytes | None], bool]


def new_backup_path(worker_file: Path, name: str) -> Path:
    """Return where a new backup goes, beside a worker file: two within a second have names of their own."""
    now = datetime.now(UTC)
    moment = f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1_000:03d}Z"
    return worker_file.with_name(f"{name}-{moment}.backup.avro")


@dataclass
class SectionTopic:
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
    topic_id: str | None = None
    ranges: dict[int, OffsetRange] = field(default_factory=dict)
    kept: list[KeyTest] = field(default_factory=list)
    required: list[KeyTest] = field(default_factory=list)

    def add(self, ranges: Sequence[OffsetRange], kept: KeyTest, required: KeyTest) -> None:
        """Read these ranges, too; see the attributes for the tests."""
        for part in ranges:
            known = self.ranges.get(part.partition, part)
            self.ranges[part.partition] = part._replace(
                start=min(known.start, part.start), end=max(known.end, part.end)
            )
        self.kept.append(kept)
        self.required.append(required)


class Reader(NamedTuple):
    """How the topics of a section are read."""

    settings: ClientSettings
    client_id: str
    isolation: Isolation

    def batches(self, ranges: Sequence[OffsetRange]) -> Iterator[list[Message]]:
        """Yield the messages of ranges.

        Raises:
            BrokerError: reading was refused.
            ReadToEndTimeoutError: the end of a range was not reached.
        """
        return read_batches(
            self.settings,
            ranges,
            isolation=self.isolation,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
        )


class SectionPart(NamedTuple):
    """Records that were read, encoded, and their number by topic."""

    blocks: Sequence[RecordBlock]
    written: Counter[str]
    left_out: Counter[str]


@dataclass(frozen=True)
class SectionRead:
    """A part of a section that is read by one consumer; secret: it holds client settings.

    Attributes:
        keys: the first encrypts the values; ``None``: they are as on the topics.
        name: of the file, for errors.
    """

    reader: Reader
    topics: Mapping[str, SectionTopic]
    keys: KeyRing | None = field(repr=False)
    ranges: Sequence[OffsetRange]
    name: str

    def parts(self, advance: Callable[[int], None]) -> Iterator[SectionPart]:
        """Read, and yield what goes into the file; ``advance`` is called with the number of further records.

        Raises:
            ConnectShareError: as :func:`back_up_group`.
        """
        encoder, cipher = RecordEncoder(self.name), None if self.keys is None else FileCipher(self.keys)
        for batch in self.reader.batches(self.ranges):
            advance(len(batch))
            blocks, written, left_out = list[RecordBlock](), Counter[str](), Counter[str]()
            for message in batch:
                topic = self.topics[message.topic() or ""]
                key, value = message.key(), message.value()
                if not any(test(key) for test in topic.kept):
                    continue
                headers = headers_of(message)
                if headers is not None:
                    place = (topic.topic, message.partition() or 0, message.offset() or 0)
                    if cipher is not None:
                        value = cipher.seal(topic.topic_type, place, key, value)
                    block = encoder.add(*place, message.timestamp()[1], key, value, headers)
                    if block is not None:
                        blocks.append(block)
                    written[topic.topic] += 1
                elif any(test(key) for test in topic.required):
                    to_record(message, headers).whole_headers()  # raises
                else:
                    left_out[topic.topic] += 1
            yield SectionPart(blocks, written, left_out)
        rest = encoder.rest()
        yield SectionPart([] if rest is None else [rest], Counter(), Counter())


ReadEngine = Callable[[Sequence[SectionRead], Progress], Iterable[SectionPart]]
"""Yields what reads give, in their order."""


class BackupLayout:
    """The sections of a backup. Each record is read once: sources may share topics, and one may be the destination.

    Attributes:
        what: what the file is.
        segment: its place in a continuous backup.
        keys: the first encrypts the values.
        sections: by number, how it is read.
    """

    def __init__(self, what: What = BACKUP) -> None:
        self.what: What = what
        self.segment: Segment | None = None
        self.keys: KeyRing | None = None
        self.sections: list[Reader] = []
        self.topics: list[SectionTopic] = []
        self.origins: list[Origin] = []
        self._section_numbers: dict[object, int] = {}
        self._topic_numbers: dict[object, int] = {}

    def number_of(
        self, side: str, cluster: str | None, worker: WorkerConfig, topic_type: TopicType, isolation: Isolation
    ) -> int:
        """Return the number of a worker's topic, which is new if nothing was read of it so far."""
        reader = Reader(worker.consumer_settings(), worker.client_id(CLIENT_ID), isolation)
        return self.number_of_topic(side, cluster, worker.topic(topic_type), topic_type, reader)

    def number_of_topic(self, side: str, cluster: str | None, topic: str, topic_type: TopicType, reader: Reader) -> int:
        """Return the number of a topic, as :meth:`number_of`."""
        key = (side, cluster, topic, reader.isolation)
        if key not in self._topic_numbers:
            settings = (side, reader.isolation, tuple(sorted(reader.settings.properties.items())))
            section = self._section_numbers.setdefault(settings, len(self.sections))
            if section == len(self.sections):
                self.sections.append(reader)
            self._topic_numbers[key] = len(self.topics)
            self.topics.append(SectionTopic(section, cluster, topic, topic_type))
        return self._topic_numbers[key]

    def ranges(self) -> Iterator[OffsetRange]:
        """Yield everything that is read."""
        return (part for each in self.topics for part in each.ranges.values())

    def reads(self, number: int, path: Path) -> list[SectionRead]:
        """Return the reads of a section, in the order in which their records go into the file."""
        topics = {each.topic: each for each in self.topics if each.section == number}
        ranges = sorted(part for each in topics.values() for part in each.ranges.values())
        return [
            SectionRead(self.sections[number], topics, self.keys, ranges[first : first + PARTITIONS_AT_ONCE], path.name)
            for first in range(0, len(ranges), PARTITIONS_AT_ONCE)
        ]


def back_up_group(
    path: Path,
    worker: WorkerConfig,
    topics: Mapping[TopicType, ExistingTopic],
    run_id: str,
    progress: Progress,
) -> BackupFile:
    """Write what the group of a worker with topic sharing has on its topics to one file.

    Returns:
        The manifest's entry.

    Raises:
        AlreadyAppliedError: a backup of another run has that name.
        RecordFileError: the file cannot be written; nothing bears its name then.
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of a range was not reached.
        UnreadableHeadersError: a record that is moved or written over cannot be kept whole.
    """
    layout, group, numbers = BackupLayout(), ClusterGroupId(worker.group_id), dict[TopicType, int]()
    for topic_type, topic in topics.items():
        number = layout.number_of("source", None, worker, topic_type, worker.isolation(topic_type))

        def is_own(key: bytes | None, topic_type: TopicType = topic_type) -> bool:
            return key is not None and own_key(topic_type, key, group) is not None

        layout.topics[number].add(topic.ranges(), is_own, is_own)
        numbers[topic_type] = number
    layout.origins.append(Origin(side="source", group_id=group, plain=False, becomes=group, topics=numbers))
    return write_backup(path, layout, run_id, progress)


def read_here(reads: Sequence[SectionRead], progress: Progress) -> Iterator[SectionPart]:
    """Yield what each read gives, one after the other: the engine of this process."""
    for read in reads:
        yield from read.parts(progress.advance)


def write_backup(
    path: Path, layout: BackupLayout, run_id: str, progress: Progress, engine: ReadEngine = read_here
) -> BackupFile:
    """Read what a layout says, and write it to one file, with bounded memory.

    Raises:
        ConnectShareError: as :func:`back_up_group`.
    """
    if path.exists() and RecordFile(path).about.get("run_id") != run_id:
        raise AlreadyAppliedError(f"{path} is the backup of another run: move it away, nothing was written")
    began_s = time.monotonic()
    contents = BackupContents(
        what=layout.what,
        run_id=run_id,
        made_at_ms=int(time.time() * 1000),
        version=version("connect-share"),
        topics=tuple(
            BackedUpTopic(
                section=each.section,
                kafka_cluster_id=each.cluster,
                topic=each.topic,
                topic_type=each.topic_type,
                isolation=layout.sections[each.section].isolation,
                ranges={number: (part.start, part.end) for number, part in each.ranges.items()},
                topic_id=each.topic_id,
            )
            for each in layout.topics
        ),
        origins=tuple(layout.origins),
        segment=layout.segment,
        encrypted_with=None if layout.keys is None else layout.keys.sealing_id,
    )
    progress.phase(f"backing up to {path.name}", sum(part.end - part.start for part in layout.ranges()))
    written: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    with RecordFileWriter(path, contents.model_dump(mode="json"), sections=len(layout.sections)) as writer:
        for number in range(len(layout.sections)):
            if number:
                writer.next_section()
            for part in engine(layout.reads(number, path), progress):
                for block in part.blocks:
                    writer.write_block(block)
                written += part.written
                left_out += part.left_out
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
