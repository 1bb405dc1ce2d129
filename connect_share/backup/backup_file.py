"""Backups: the header of their file, the files of a continuous backup, and how they are read and written.

``docs/backup-format.md``.

A folder has files ``<sequence>-base.avro`` and ``<sequence>-increment.avro``. A base holds all that the topics had; each
increment begins where the file before it ended. So a base and the increments behind it, in their order, are the log of the
topics, less what the cleaner took before it was read. A file with ``.part`` in its name is a part of that log, and its end is
no moment to go back to: something that the cleaner took may have been the newest of its key there.

A file is written with bounded memory. It has one section for each cluster, isolation level and credentials, so one consumer
reads many topics. Its header names the topics of each section.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from connect_share.backup.record_file import (
    FileCipher,
    RecordBlock,
    RecordEncoder,
    RecordFile,
    missing_key,
    write_record_file,
)
from connect_share.console.output import plural
from connect_share.errors import AlreadyAppliedError, RecordFileError, RestoreRejectedError, UsageError
from connect_share.files import Progress, counted, is_writable_folder
from connect_share.kafka.client import headers_of, to_record
from connect_share.kafka.read import Reader, batches, place_of
from connect_share.model.records import OffsetRange, Record, TopicType, now_ms, size_of
from connect_share.sealing import KeyRing
from connect_share.worker_config import Isolation
from connect_share.worker_config.worker import file_of

What = Literal["backup of a migration", "export", "part of an export"]
BACKUP: Final = "backup of a migration"
EXPORT: Final = "export"
PART: Final = "part of an export"


class _HeaderPart(BaseModel):
    model_config = ConfigDict(frozen=True)


class BackedUpTopic(_HeaderPart):
    """One topic in a backup.

    Attributes:
        section: number of the section of the file that holds its records.
        ranges: per partition what was read, ``[start, end)``.
        topic_id: in a segment: of the topic that was read.
    """

    section: int
    kafka_cluster_id: str | None
    topic: str
    topic_type: TopicType
    isolation: Isolation
    ranges: dict[int, tuple[int, int]]
    topic_id: str | None = None


class Origin(_HeaderPart):
    """One key space whose records are in a backup.

    Attributes:
        side: of the migration.
        group_id: ``group.id`` of the workers it belonged to; at a destination with plain keys that is not known.
        plain: its keys are plain; otherwise they have the prefix ``group_id``.
        becomes: the prefix the migration gave it; ``None``: plain keys.
        connectors: what was moved of it; ``None`` is everything.
        topics: number of its topics in ``BackupContents.topics``.
    """

    side: Literal["source", "destination"]
    group_id: str | None
    plain: bool
    becomes: str | None = None
    connectors: tuple[str, ...] | None = None
    topics: dict[TopicType, int]


class Segment(_HeaderPart):
    """The place of a file in a continuous backup.

    Attributes:
        sequence: the files follow each other without a gap.
        kind: a base holds all that the topics had, an increment what was written behind the file before it.
        at_ms: by the clock of this machine, when the ends of its ranges were known: nothing written later is in it.
        groups: what is backed up; ``None`` in it is the cluster with plain keys, no groups at all: every one.
        connectors: the only ones; ``None``: all.
    """

    sequence: int
    kind: Literal["base", "increment"]
    at_ms: int
    groups: tuple[str | None, ...] | None
    connectors: tuple[str, ...] | None


class BackupContents(_HeaderPart):
    """The header of a backup; holds no record and no secret.

    Attributes:
        part: of an export in parts: number of the file, from 1, and how many there are; all else is that of the whole.
        encrypted_with: id of the key that the values are encrypted with; ``None``: they are as on the topics.
    """

    what: What = BACKUP
    run_id: str
    made_at_ms: int
    version: str
    topics: tuple[BackedUpTopic, ...]
    origins: tuple[Origin, ...]
    segment: Segment | None = None
    part: tuple[int, int] | None = None
    encrypted_with: int | None = None


class BackupFile(BaseModel):
    """The backup that was made before the first write.

    Attributes:
        file: its name; it lies beside the plan.
        topics: how many records of each topic are in it.
        sha256: of the file's bytes.
        left_out: by topic: records of its groups that could not be carried whole, where that does not end the command.
        left_out_first: the place of the first one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    records: int
    topics: dict[str, int]
    size_bytes: int
    sha256: str
    seconds: float
    left_out: dict[str, int] = {}
    left_out_first: str | None = None

    def said_left_out(self) -> str:
        """Return what was left out, for people; empty: nothing."""
        counts = ", ".join(f"{topic}: {plural(count, 'record')}" for topic, count in self.left_out.items())
        return counts and f"left out, for their headers are not readable: {counts}, the first at {self.left_out_first}"


def read_contents(file: RecordFile) -> BackupContents:
    """Return the header of a backup; ``RecordFileError``: the file is none."""
    try:
        return BackupContents.model_validate(file.about)
    except ValidationError as error:
        raise RecordFileError(
            f"{file.path} holds records, but is no {BACKUP} and no {EXPORT} that this version can read",
            path=str(file.path),
        ) from error


_NAME: Final = re.compile(r"([0-9]{10})-(base|increment)(\.part)?\.avro")


def file_name(sequence: int, kind: str, *, is_point: bool) -> str:
    """Return the name of a file."""
    return f"{sequence:010d}-{kind}{'' if is_point else '.part'}.avro"


def shown_moment(at_ms: int) -> str:
    """Return a moment as ``--at`` takes it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class SegmentFile:
    """One file of a continuous backup.

    Attributes:
        is_point: its end is a moment that can be restored.
        at_ms: that moment.
    """

    path: Path
    sequence: int
    is_base: bool
    is_point: bool
    at_ms: int


def segment_of(contents: BackupContents, path: Path) -> Segment:
    """Return the place that a header names; ``RecordFileError``: it names none, or another than the file's name."""
    segment, name = contents.segment, _NAME.fullmatch(path.name)
    if segment is None or name is None or (segment.sequence, segment.kind) != (int(name[1]), name[2]):
        raise RecordFileError(f"{path} is not the file of a continuous backup that its name says", path=str(path))
    return segment


def segment_files(folder: Path) -> list[SegmentFile]:
    """Return the files of a folder in their order; others in it are left alone.

    Raises:
        RecordFileError: the folder or a header cannot be read, or a file is there twice.
    """
    found = []
    try:
        paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError as error:
        raise RecordFileError(f"{folder} cannot be read: {error.strerror}", path=str(folder)) from error
    for path in paths:
        try:
            segment = segment_of(read_contents(RecordFile(path)), path)
        except RecordFileError:
            if path.exists():
                raise
            continue  # the writer has deleted it, or given the last one its other name
        is_point = ".part." not in path.name
        found.append(SegmentFile(path, segment.sequence, segment.kind == "base", is_point, segment.at_ms))
    if len({each.sequence for each in found}) < len(found):
        raise RecordFileError(f"{folder} has two files with one number: remove the copy", path=str(folder))
    return found


def point_at(files: Sequence[SegmentFile], at_ms: int | None) -> list[SegmentFile]:
    """Return the files that make up the newest moment that is not later, a base first.

    Without ``at_ms`` it is the newest moment there is.

    Raises:
        RestoreRejectedError: there is none, or a file is missing in between.
    """
    points = [each for each in files if each.is_point]
    chosen = [each for each in points if at_ms is None or each.at_ms <= at_ms]
    if not chosen:
        known = f"the first is {shown_moment(points[0].at_ms)}" if points else "there is none yet"
        raise RestoreRejectedError(f"there is no moment to go back to by then: {known}")
    last = max(chosen, key=lambda each: each.sequence)
    chain = [each for each in files if each.sequence <= last.sequence]
    bases = [number for number, each in enumerate(chain) if each.is_base]
    if not bases:
        raise RestoreRejectedError(f"the base before {last.path.name} is missing")
    chain = chain[bases[-1] :]
    for before, behind in pairwise(chain):
        if behind.sequence != before.sequence + 1:
            raise RestoreRejectedError(f"between {before.path.name} and {behind.path.name} files are missing")
    return chain


def not_needed(files: Sequence[SegmentFile], horizon_ms: int) -> list[SegmentFile]:
    """Return the files that no moment since the horizon needs, the oldest first; to be removed in this order."""
    old = [each for each in files if each.is_point and each.at_ms <= horizon_ms]
    if not old:
        return []
    needed = point_at([each for each in files if each.sequence <= old[-1].sequence], None)[0]
    return [each for each in files if each.sequence < needed.sequence]


def require_connected(before: BackupContents, behind: BackupContents, path: Path) -> None:
    """Check that an increment begins where the file before it ended, else ``RecordFileError``."""
    places = [
        [(each.section, each.kafka_cluster_id, each.topic, each.topic_type, each.topic_id) for each in contents.topics]
        for contents in (before, behind)
    ]
    ends = [{number: part[1] for number, part in each.ranges.items()} for each in before.topics]
    starts = [{number: part[0] for number, part in each.ranges.items()} for each in behind.topics]
    if places[0] != places[1] or ends != starts:
        raise RecordFileError(f"{path} does not begin where the file before it ends", path=str(path))


class BackupFiles:
    """One backup file, the parts of an export, or a base and its increments, read as one.

    Attributes:
        path: the file, or the folder.
        names: of the first and the last file.
        contents: of the last file, with the groups of all.
        keys: open the values of encrypted files; to be set before :meth:`read`.

    Raises:
        RecordFileError: a file cannot be read, or does not follow the one before it.
    """

    def __init__(self, path: Path, paths: Sequence[Path]) -> None:
        self.path = path
        self.names = paths[0].name, paths[-1].name
        self.keys: KeyRing | None = None
        files = [RecordFile(each) for each in paths]
        self._files = [(file, read_contents(file)) for file in files]
        self._require_all_parts()
        for (_, before), (file, behind) in pairwise(self._files):
            if behind.part is None:
                require_connected(before, behind, file.path)
        origins = {repr(origin): origin for _, contents in self._files for origin in contents.origins}
        self.contents = self._files[-1][1].model_copy(update={"origins": tuple(origins.values())})

    @classmethod
    def at(cls, path: Path, at_ms: int | None) -> BackupFiles:
        """Return a file, or what makes up a moment of a folder: the newest that is not later, ``None``: the last.

        Raises:
            UsageError: a file is no folder of moments.
            RestoreRejectedError: the moment is not there.
            RecordFileError: as the class says.
        """
        parts = sorted(path.glob("[0-9]*-of-[0-9]*.avro"))
        if path.is_dir() and not parts:
            return cls(path, [each.path for each in point_at(segment_files(path), at_ms)])
        if at_ms is not None:
            raise UsageError(f"--at chooses a moment of a continuous backup, and {path} is none")
        return cls(path, parts or [path])

    def _require_all_parts(self) -> None:
        found = [(contents.run_id, contents.part) for _, contents in self._files if contents.part is not None]
        number = len(self._files)
        if found and found != [(found[0][0], (each, number)) for each in range(1, number + 1)]:
            raise RecordFileError(
                f"{self.path} is not whole: an export in parts is a folder with all of its files, those of one run and "
                "no others; use another copy of it",
                path=str(self.path),
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether the values of all files are encrypted, and so are what was written."""
        return all(contents.encrypted_with is not None for _, contents in self._files)

    @property
    def sections(self) -> tuple[int, ...]:
        """How many records each section has, all files together."""
        return tuple(map(sum, zip(*(file.sections for file, _ in self._files), strict=True)))

    @property
    def records(self) -> int:
        """Number of records in all files."""
        return sum(file.records for file, _ in self._files)

    def check(self) -> None:
        """Check that every file is what was written, else ``RecordFileError``."""
        for file, _ in self._files:
            file.check()

    def read(
        self, progress: Progress, topics: Collection[BackedUpTopic] | None = None, *, closed: bool = False
    ) -> Iterator[tuple[TopicType, Record]]:
        """Yield the records of topics, by default of all, file after file, with values as they were on the topics.

        ``closed``: encrypted values are not opened.

        Raises:
            RecordFileError: a file is damaged, or a value is not what was encrypted.
            ConfigError: a file is encrypted, and its key is missing.
        """
        wanted = self.contents.topics if topics is None else topics
        types = {(topic.section, topic.topic): topic.topic_type for topic in wanted}
        for file, contents in self._files:
            cipher = None if closed else self._cipher_of(contents)
            for section, record in counted(file.read_sections(), progress.advance):
                topic_type = types.get((section, record.topic))
                if topic_type is not None:
                    yield topic_type, record if cipher is None else cipher.opened(topic_type, record)

    def _cipher_of(self, contents: BackupContents) -> FileCipher | None:
        if contents.encrypted_with is None:
            return None
        if self.keys is None:
            raise missing_key(contents.encrypted_with)
        return FileCipher(self.keys)


PARTITIONS_AT_ONCE: Final = 200
"""Of one consumer: it asks for the position of each after every batch."""


KeyTest = Callable[[bytes | None], bool]


def new_backup_path(worker_file: Path, name: str) -> Path:
    """Return where a new backup goes, beside a worker file: two within a second have names of their own."""
    now = datetime.now(UTC)
    moment = f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1_000:03d}Z"
    return file_of(worker_file).with_name(f"{name}-{moment}.backup.avro")


def require_place_for(path: Path) -> None:
    """Refuse a path where no new file can be made, as far as that is known before the work."""
    if not is_writable_folder(path.parent):
        text = f"{path} cannot be written: {path.parent} is no folder that can be written to"
        raise RecordFileError(text, path=str(path))
    if path.exists():
        raise RecordFileError(f"{path} is there already: give another name, or move it away", path=str(path))


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


class SectionPart(NamedTuple):
    """Records that were read, encoded, their number by topic, and the places of those that are left out."""

    blocks: Sequence[RecordBlock]
    written: Counter[str]
    left_out: Sequence[tuple[str, int, int]]


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
        """Read, and yield what goes into the file; ``advance`` is called with the number of further records."""
        encoder, cipher = RecordEncoder(self.name), None if self.keys is None else FileCipher(self.keys)
        for batch in self.reader.batches(self.ranges):
            advance(len(batch))
            blocks, written, left_out = list[RecordBlock](), Counter[str](), list[tuple[str, int, int]]()
            for message in batch:
                topic = self.topics[message.topic() or ""]
                key, value = message.key(), message.value()
                if not any(test(key) for test in topic.kept):
                    continue
                headers = headers_of(message)
                if headers is not None:
                    place = place_of(message)
                    if cipher is not None:
                        value = cipher.seal(topic.topic_type, place, key, value)
                    block = encoder.add(*place, message.timestamp()[1], key, value, headers)
                    if block is not None:
                        blocks.append(block)
                    written[topic.topic] += 1
                elif any(test(key) for test in topic.required):
                    to_record(message, headers).whole_headers()  # raises
                else:
                    left_out.append(place_of(message))
            yield SectionPart(blocks, written, left_out)
        rest = encoder.rest()
        yield SectionPart([] if rest is None else [rest], Counter(), ())


ReadEngine = Callable[[Sequence[SectionRead], Progress], Iterable[SectionPart]]
"""Yields what reads give, in their order."""


@dataclass
class BackupLayout:
    """The sections of a backup. Each record is read once: sources may share topics, and one may be the destination.

    Attributes:
        what: what the file is.
        segment: its place in a continuous backup.
        keys: the first encrypts the values.
        sections: by number, how it is read.
    """

    what: What = BACKUP
    segment: Segment | None = None
    keys: KeyRing | None = field(default=None, repr=False)
    sections: list[Reader] = field(default_factory=list, repr=False)
    topics: list[SectionTopic] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    _section_numbers: dict[object, int] = field(default_factory=dict, repr=False)
    _topic_numbers: dict[object, int] = field(default_factory=dict, repr=False)

    def add(
        self,
        place: tuple[str, str | None, str],
        topic_type: TopicType,
        reader: Reader,
        ranges: Sequence[OffsetRange],
        kept: KeyTest,
        *,
        required: KeyTest | None = None,
    ) -> int:
        """Read these ranges of a topic, too, and return its number.

        ``place`` is the side of the move, the id of the Kafka cluster, the topic; for the tests see :class:`SectionTopic`.
        """
        key = (*place, reader.isolation)
        if key not in self._topic_numbers:
            apart = reader.apart and topic_type
            settings = (place[0], reader.isolation, apart, tuple(sorted(reader.settings.properties.items())))
            section = self._section_numbers.setdefault(settings, len(self.sections))
            if section == len(self.sections):
                self.sections.append(reader)
            self._topic_numbers[key] = len(self.topics)
            self.topics.append(SectionTopic(section, *place[1:], topic_type))
        number = self._topic_numbers[key]
        topic = self.topics[number]
        for part in ranges:
            known = topic.ranges.get(part.partition, part)
            topic.ranges[part.partition] = part._replace(
                start=min(known.start, part.start), end=max(known.end, part.end)
            )
        topic.kept.append(kept)
        topic.required.append(required or kept)
        return number

    def reads(self, number: int, path: Path) -> list[SectionRead]:
        """Return the reads of a section, in the order in which their records go into the file."""
        topics = {each.topic: each for each in self.topics if each.section == number}
        ranges = sorted(part for each in topics.values() for part in each.ranges.values())
        return [
            SectionRead(self.sections[number], topics, self.keys, some, path.name)
            for some in batches(ranges, PARTITIONS_AT_ONCE)
        ]

    def contents(self, run_id: str) -> BackupContents:
        """Return the header of what is written now."""
        return BackupContents(
            what=self.what,
            run_id=run_id,
            made_at_ms=now_ms(),
            version=version("connect-share"),
            topics=tuple(
                BackedUpTopic(
                    section=each.section,
                    kafka_cluster_id=each.cluster,
                    topic=each.topic,
                    topic_type=each.topic_type,
                    isolation=self.sections[each.section].isolation,
                    ranges={number: (part.start, part.end) for number, part in each.ranges.items()},
                    topic_id=each.topic_id,
                )
                for each in self.topics
            ),
            origins=tuple(self.origins),
            segment=self.segment,
            encrypted_with=None if self.keys is None else self.keys.sealing_id,
        )


def read_here(reads: Sequence[SectionRead], progress: Progress) -> Iterator[SectionPart]:
    """Yield what each read gives, one after the other: the engine of this process."""
    for read in reads:
        yield from read.parts(progress.advance)


def write_backup(
    path: Path, layout: BackupLayout, run_id: str, progress: Progress, engine: ReadEngine = read_here
) -> BackupFile:
    """Read what a layout says, and write it to one file, with bounded memory. Returns the manifest's entry.

    Raises:
        AlreadyAppliedError: a backup of another run has that name.
        RecordFileError: the file cannot be written; nothing bears its name then.
        UnreadableHeadersError: a record that is moved or written over cannot be kept whole.
    """
    if path.exists() and RecordFile(path).about.get("run_id") != run_id:
        raise AlreadyAppliedError(f"{path} is the backup of another run: move it away, nothing was written")
    reads = [layout.reads(number, path) for number in range(len(layout.sections))]
    ranges = [part for each in layout.topics for part in each.ranges.values()]
    progress.phase(f"backing up to {path.name}", sum(map(size_of, ranges)))
    return write_sections(path, layout.contents(run_id), reads, progress, engine)


def write_sections(
    path: Path,
    contents: BackupContents,
    reads: Sequence[Sequence[SectionRead]],
    progress: Progress,
    engine: ReadEngine = read_here,
) -> BackupFile:
    """Write what the reads of each section give, as :func:`write_backup`; a part may be written beside others."""
    began_s = time.monotonic()
    written: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    first: list[str] = []

    def blocks_of(section: Sequence[SectionRead]) -> Iterator[RecordBlock]:
        for part in engine(section, progress):
            written.update(part.written)
            left_out.update(topic for topic, _, _ in part.left_out)
            first.extend("{}[{}]@{}".format(*place) for place in part.left_out[: 1 - len(first)])
            yield from part.blocks

    sections = [blocks_of(section) for section in reads]
    file = write_record_file(path, contents.model_dump(mode="json"), sections, alone=contents.part is None)
    return BackupFile(
        file=path.name,
        records=file.records,
        topics={each.topic: written[each.topic] for each in contents.topics},
        size_bytes=file.size_bytes,
        sha256=file.sha256,
        seconds=round(time.monotonic() - began_s, 3),
        left_out=dict(left_out),
        left_out_first=first[0] if first else None,
    )
