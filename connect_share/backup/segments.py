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

from connect_share.backup.contents import BackupContents, Origin, Segment, read_contents
from connect_share.errors import RecordFileError
from connect_share.migration_errors import RestoreRejectedError
from connect_share.record_file import RecordFile
from connect_share.records import Record

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


class BackupChain:
    """A base and its increments as one file of records; see :class:`connect_share.record_file.RecordFile`.

    Attributes:
        path: the folder.
        names: of the first and the last file.
        contents: of the last file, with the groups of all.

    Raises:
        RestoreRejectedError: the moment is not there.
        RecordFileError: a file cannot be read, or does not follow the one before it.
    """

    def __init__(self, folder: Path, at_ms: int | None) -> None:
        self.path = folder
        chain = point_at(segment_files(folder), at_ms)
        self.names = chain[0].path.name, chain[-1].path.name
        self._files = [RecordFile(each.path) for each in chain]
        origins: dict[str, Origin] = {}
        before: BackupContents | None = None
        for file in self._files:
            contents = read_contents(file)
            if before is not None:
                require_connected(before, contents, file.path)
            origins |= {repr(origin): origin for origin in contents.origins}
            before = contents
        assert before is not None  # noqa: S101 - a chain has a base
        self.contents = before.model_copy(update={"origins": tuple(origins.values()), "made_at_ms": chain[-1].at_ms})

    @property
    def sections(self) -> tuple[int, ...]:
        """How many records each section has, all files together."""
        return tuple(map(sum, zip(*(file.sections for file in self._files), strict=True)))

    @property
    def records(self) -> int:
        """Number of records in all files."""
        return sum(file.records for file in self._files)

    def check(self) -> None:
        """Check that every file is what was written.

        Raises:
            RecordFileError: bytes are missing, added or changed.
        """
        for file in self._files:
            file.check()

    def read_sections(self) -> Iterator[tuple[int, Record]]:
        """Yield all records with the number of their section, file after file."""
        for file in self._files:
            yield from file.read_sections()
