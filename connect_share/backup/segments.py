"""The files of a continuous backup: their names, which of them make up a moment, and which are not needed any more.

A folder has files ``<sequence>-base.avro`` and ``<sequence>-increment.avro``. A base holds all that the topics had; each
increment begins where the file before it ended. So a base and the increments behind it, in their order, are the log of the
topics, less what the cleaner took before it was read. A file with ``.part`` in its name is a part of that log, and its end is
no moment to go back to: something that the cleaner took may have been the newest of its key there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from connect_share.backup.contents import BackupContents, Segment, read_contents
from connect_share.backup.encryption import FileCipher, missing_key
from connect_share.errors import RecordFileError, UsageError
from connect_share.migration_errors import RestoreRejectedError
from connect_share.record_file import RecordFile
from connect_share.records import Record
from connect_share.sealing import KeyRing

_NAME: Final = re.compile(r"([0-9]{10})-(base|increment)(\.part)?\.avro")
_HALF_WRITTEN: Final = re.compile(r"\.[0-9]{10}-(?:base|increment)\.part\.avro\.[a-z0-9_]{8}")


def file_name(sequence: int, kind: str, *, is_point: bool) -> str:
    """Return the name of a file."""
    return f"{sequence:010d}-{kind}{'' if is_point else '.part'}.avro"


def half_written_in(folder: Path) -> list[Path]:
    """Return what writers that were killed have left; nobody may write there now."""
    return [path for path in folder.iterdir() if _HALF_WRITTEN.fullmatch(path.name)]


def shown_time(at_ms: int) -> str:
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
    """Return the place that a header names.

    Raises:
        RecordFileError: it names none, or another than the file's name.
    """
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

    Args:
        files: in their order.
        at_ms: ``None``: the newest moment there is.

    Raises:
        RestoreRejectedError: there is none, or a file is missing in between.
    """
    points = [each for each in files if each.is_point]
    chosen = [each for each in points if at_ms is None or each.at_ms <= at_ms]
    if not chosen:
        known = f"the first is {shown_time(points[0].at_ms)}" if points else "there is none yet"
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
    """Check that an increment begins where the file before it ended.

    Raises:
        RecordFileError: it does not, or is of other topics.
    """
    places = [
        [(each.section, each.kafka_cluster_id, each.topic, each.topic_type, each.topic_id) for each in contents.topics]
        for contents in (before, behind)
    ]
    ends = [{number: part[1] for number, part in each.ranges.items()} for each in before.topics]
    starts = [{number: part[0] for number, part in each.ranges.items()} for each in behind.topics]
    if places[0] != places[1] or ends != starts:
        raise RecordFileError(f"{path} does not begin where the file before it ends", path=str(path))


class BackupFiles:
    """One backup file, or a base and its increments, read as one.

    Attributes:
        path: the file, or the folder.
        names: of the first and the last file.
        contents: of the last file, with the groups of all.
        keys: open the values of encrypted files; to be set before :meth:`read_sections`.

    Raises:
        RecordFileError: a file cannot be read, or does not follow the one before it.
    """

    def __init__(self, path: Path, paths: Sequence[Path]) -> None:
        self.path = path
        self.names = paths[0].name, paths[-1].name
        self.keys: KeyRing | None = None
        files = [RecordFile(each) for each in paths]
        self._files = [(file, read_contents(file)) for file in files]
        for (_, before), (file, behind) in pairwise(self._files):
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
        if path.is_dir():
            return cls(path, [each.path for each in point_at(segment_files(path), at_ms)])
        if at_ms is not None:
            raise UsageError(f"--at chooses a moment of a continuous backup, and {path} is one file")
        return cls(path, [path])

    @property
    def sections(self) -> tuple[int, ...]:
        """How many records each section has, all files together."""
        return tuple(map(sum, zip(*(file.sections for file, _ in self._files), strict=True)))

    @property
    def records(self) -> int:
        """Number of records in all files."""
        return sum(file.records for file, _ in self._files)

    def check(self) -> None:
        """Check that every file is what was written.

        Raises:
            RecordFileError: bytes are missing, added or changed.
        """
        for file, _ in self._files:
            file.check()

    def read_sections(self) -> Iterator[tuple[int, Record]]:
        """Yield all records with the number of their section, file after file, with values as they were on the topics.

        Raises:
            RecordFileError: a file is damaged, or a value is not what was encrypted.
            ConfigError: a file is encrypted, and its key is missing.
        """
        cipher = None if self.keys is None else FileCipher(self.keys)
        for file, contents in self._files:
            if contents.encrypted_with is None:
                yield from file.read_sections()
                continue
            if cipher is None:
                raise missing_key(contents.encrypted_with)
            types = {(topic.section, topic.topic): topic.topic_type for topic in contents.topics}
            for section, record in file.read_sections():
                topic_type = types.get((section, record.topic))
                if topic_type is not None:
                    yield section, cipher.opened(topic_type, record)
