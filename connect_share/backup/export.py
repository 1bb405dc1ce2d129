"""Exports of groups, whole or by connector, to one file; its format is that of backups, ``docs/backup-format.md``.

What a group's workers see is exported, by its worker file, and of groups whose file is not given what is committed. Where
others are exported, too, what lies behind an open transaction is not there yet.

Continuous backup: a folder with a base and increments, from which every moment of the last days can be restored.

One round asks for the ends of the topics and writes what lies before them and behind the file before. A file gets its name
when it is whole and on disk, so a run that was killed goes on behind the last file: nothing is missing and nothing twice.

The cleaner may take a record before it is read; something newer of its key is in the log by then. So after a file in which
offsets are missing, the next one is written at once, and the first that has every offset, or after which nothing was written,
ends at a moment that can be restored. Offsets of transaction markers are missing, too: after some tries the last file counts,
for what was written during the one before is not old enough for the cleaner. A tombstone that was taken would bring its key
back: when offsets are missing, a base is written, unless ``delete.retention.ms`` cannot have passed. What it was before this
process looked nobody knows, so the first increment of a process counts if nothing is missing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from connect_share.backup.backup_file import (
    EXPORT,
    BackupContents,
    BackupFile,
    BackupLayout,
    KeyTest,
    Origin,
    Segment,
    SegmentFile,
    file_name,
    not_needed,
    point_at,
    read_contents,
    require_place_for,
    segment_files,
    segment_of,
    shown_moment,
    write_backup,
)
from connect_share.backup.record_file import RecordFile, remove_half_written, writing_records
from connect_share.console.options import group_order
from connect_share.contents.group_room import GroupRoom
from connect_share.errors import ConnectShareError, RecordFileError, RestoreRejectedError, UsageError, listed
from connect_share.files import SILENT, Progress, Silent, lock_alone, sync_folder
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import TOMBSTONES_MS
from connect_share.kafka.read import CONSOLE_CLIENT_ID, Reader, console_admin, groups_reader, topic_ranges
from connect_share.model.keys import ClusterGroupId, connector_of, own_key, split_key
from connect_share.model.records import OffsetRange, TopicType, now_ms
from connect_share.sealing import KeyRing
from connect_share.worker_config import TopicSet

Ranges = Mapping[TopicType, Sequence[OffsetRange]]
BackupWriter = Callable[[Path, BackupLayout, str, Progress], BackupFile]


@dataclass
class Present:
    """The groups and connectors that were found, and records of groups for which there was no room."""

    groups: set[ClusterGroupId | None] = field(default_factory=set)
    connectors: set[str | None] = field(default_factory=set)
    left_out: int = 0


@dataclass(frozen=True)
class Export:
    """What is exported of which topics.

    Attributes:
        groups: ``None`` in it is the cluster with plain keys; no groups at all: every one that is there.
        connectors: exact names; ``None``: all, and what belongs to no connector.
        keys: the first encrypts the values in the file; ``None``: they are as on the topics.
        follows: a later file goes on where this one ends, so all is read up to where it is committed.
    """

    topic_set: TopicSet
    groups: frozenset[ClusterGroupId | None] | None = None
    connectors: frozenset[str] | None = None
    keys: KeyRing | None = field(default=None, repr=False)
    follows: bool = False

    def __post_init__(self) -> None:
        """Refuse one topic for several kinds of records: a file knows one of each topic, and others would not come back."""
        topics = [*self.topic_set.topics.values()]
        if twice := [each for each in dict.fromkeys(topics) if topics.count(each) > 1]:
            raise ConnectShareError(f"{twice[0]} is given as several topics: export each kind of its records by itself")

    def look(self, admin: Admin) -> tuple[dict[TopicType, list[OffsetRange]], list[str]]:
        """Return what there is to read now, and notes for people; raises as :func:`topic_ranges`."""
        found = topic_ranges(admin, self._read_as, self.topic_set.topics, self.groups)
        ranges = {topic_type: each.ranges for topic_type, each in found.items()}
        return ranges, [note for each in found.values() for note in each.notes]

    @property
    def _read_as(self) -> TopicSet:
        is_own = self.groups is not None and tuple(self.groups) == self.topic_set.worker_group
        return self.topic_set if is_own and not self.follows else replace(self.topic_set, worker_group=None)

    def _reader(self, topic_type: TopicType, parts: Sequence[OffsetRange]) -> Reader:
        topic_set = self._read_as if self.follows else self.topic_set
        return groups_reader(topic_set, topic_type, self.groups, {part[:2]: part.end for part in parts})

    def takes(self, topic_type: TopicType) -> KeyTest:
        """Return the test for the keys that are exported."""
        if self.connectors is None and self.groups is not None and len(self.groups) == 1:
            (group,) = self.groups
            return lambda key: key is not None and own_key(topic_type, key, group) is not None
        return lambda key: self._owner(topic_type, key) is not None

    def _owner(self, topic_type: TopicType, key: bytes | None) -> tuple[ClusterGroupId | None, str | None] | None:
        """Return the group of a key and, if connectors were named, its connector; ``None``: it is not exported."""
        parts = None if key is None else split_key(topic_type, key)
        if parts is None or (self.groups is not None and parts[0] not in self.groups):
            return None
        if self.connectors is None:
            return parts[0], None
        name = connector_of(topic_type, parts[1])
        return (parts[0], name) if name in self.connectors else None

    def write(
        self, path: Path, progress: Progress, note: Callable[[str], None], *, by: BackupWriter = write_backup
    ) -> tuple[BackupFile, list[ClusterGroupId | None]]:
        """Write what there is now to a file, with bounded memory; return it, and the groups in it.

        ``note`` gets notes for people, ``by`` writes the file.

        Raises:
            ConnectShareError: a group or connector that was named has no record there; nothing was written.
            RecordFileError: there is such a file, or it cannot be written; nothing new bears its name then.
        """
        require_place_for(path)
        with console_admin(self.topic_set) as admin:
            ranges, notes = self.look(admin)
            cluster = admin.cluster_id()
        for each in notes:
            note(each)
        room = GroupRoom(self.topic_set.own)
        present = self.present(ranges, progress, room)
        if room.left_out:
            note(self.left_out(present, room))
        missing = [each or "plain keys" for each in (self.groups or frozenset()) - present.groups]
        missing += [repr(each) for each in (self.connectors or frozenset()) - present.connectors]
        if missing:
            raise ConnectShareError(
                f"{', '.join(self.topic_set.topics.values())} have no record of {listed(sorted(missing))}: "
                "names are exact, dots, dashes and case included"
            )
        layout = self.layout(cluster, ranges, present.groups)
        file = by(path, layout, f"export-{uuid.uuid4()}", progress)
        return file, sorted(present.groups, key=group_order)

    def layout(self, cluster: str, ranges: Ranges, groups: set[ClusterGroupId | None]) -> BackupLayout:
        """Return what the file of these groups holds."""
        layout, topics = BackupLayout(EXPORT, keys=self.keys), self.topic_set.topics
        only = self if self.groups is not None else replace(self, groups=frozenset(groups))
        numbers = {}
        for kind, parts in ranges.items():
            reader, taken, place = self._reader(kind, parts), only.takes(kind), ("source", cluster, topics[kind])
            numbers[kind] = layout.add(place, kind, reader, parts, taken, required=lambda _: False)
        worker, names = self.topic_set.worker, self.connectors
        plain_id = None if worker is None or worker.sharing_enabled else worker.group_id
        layout.origins += [
            Origin(
                side="source",
                group_id=plain_id if group is None else group,
                plain=group is None,
                becomes=group,
                connectors=None if names is None else tuple(sorted(names)),
                topics=numbers,
            )
            for group in sorted(groups, key=group_order)
        ]
        return layout

    def present(self, ranges: Ranges, progress: Progress, room: GroupRoom) -> Present:
        """Read the keys alone, until all that was named is found: the file begins with what is in it."""
        found, connectors = Present(), self.connectors or frozenset()
        progress.phase("looking for groups", sum(part.end - part.start for parts in ranges.values() for part in parts))
        for topic_type, parts in ranges.items():
            for batch in self._reader(topic_type, parts).batches(parts):
                progress.advance(len(batch))
                for message in batch:
                    owner = self._owner(topic_type, message.key())
                    if owner is not None and (self.groups is not None or room.admits(owner[0])):
                        found.groups.add(owner[0])
                        found.connectors.add(owner[1])
                    elif owner is not None:
                        found.left_out += 1
                if self.groups is not None and found.groups >= self.groups and found.connectors >= connectors:
                    return found
        return found

    def left_out(self, present: Present, room: GroupRoom) -> str:
        """Return for which groups there was no room."""
        return room.said(", ".join(self.topic_set.topics.values()), present.left_out)


def _within(first_ms: int, second_ms: int, most_ms: int) -> bool:
    """Return whether a time is less than so long behind another one, and not before it, as after a clock was set."""
    return 0 <= second_ms - first_ms < most_ms


_MOST_TRIES: Final = 5
_CLOCK_STEP_MS: Final = 3_600_000
"""By how much a clock is set in normal times."""
_UNSEEN_MS: Final = 300_000
"""So long nobody changes a setting and changes it back."""


@dataclass(frozen=True)
class Written:
    """One file that was written, and what was removed after it."""

    file: SegmentFile
    made: BackupFile
    removed: int = 0


@dataclass(frozen=True)
class _View:
    """The topics at one moment.

    Attributes:
        ids: of the topics, by type.
        ranges: everything, up to the ends of now.
        at_ms: after the ends were known.
        tombstones_ms: the shortest time that a topic keeps tombstones.
    """

    cluster: str
    ids: dict[TopicType, str | None]
    ranges: dict[TopicType, list[OffsetRange]]
    at_ms: int
    tombstones_ms: int


class _Counted(Silent):
    """Progress that counts the records that were read."""

    read = 0

    def advance(self, records: int) -> None:
        self.read += records


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder for a continuous backup, readable by its owner only, and lock it.

    Raises:
        AlreadyAppliedError: another process writes there.
        RecordFileError: it cannot be made.
    """
    with writing_records(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handles = [os.open(folder, os.O_RDONLY)]
    try:
        try:
            lock_alone(handles[0], f"writes to {folder}")
        except UsageError:  # NFS locks no folder
            handles.append(os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600))
            lock_alone(handles[1], f"writes to {folder}")
        yield
    finally:
        for handle in handles:
            os.close(handle)


class Follower:
    """Writes the files of one folder, which is locked.

    ``base_every_ms`` is the longest time between two bases, moments of ``keep_ms`` ago can be restored, ``note`` gets what
    people should know, once.

    Raises:
        RecordFileError: the folder is that of something else, or a file cannot be read.
    """

    def __init__(
        self, folder: Path, export: Export, base_every_ms: int, keep_ms: int, note: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._export = replace(export, follows=True)
        self._base_every_ms, self._keep_ms = base_every_ms, keep_ms
        self._note = note
        self._noted: list[str] = []
        remove_half_written(folder)
        self._files = segment_files(folder)
        self._last: BackupContents | None = None
        self._base_due = False
        self._tombstones_ms = 0
        self._room = GroupRoom(export.topic_set.own)
        if self._files:
            last = self._files[-1]
            self._last = read_contents(RecordFile(last.path))
            segment = segment_of(self._last, last.path)
            topics = {each.topic_type: each.topic for each in self._last.topics}
            if (segment.groups, segment.connectors) != self._scope or topics != dict(export.topic_set.topics):
                raise RecordFileError(
                    f"{folder} is the backup of other topics, groups or connectors: give another folder",
                    path=str(folder),
                )
            begin = max((each.sequence for each in self._files if each.is_base), default=0)
            chain = [read_contents(RecordFile(each.path)) for each in self._files if each.sequence >= begin]
            self._room.others = {origin.becomes for contents in chain for origin in contents.origins}
            try:
                point_at(self._files, None)
            except RestoreRejectedError:  # files are missing: an increment would be of no use
                self._base_due = True
            # In a file behind the last moment tombstones may be missing.
            self._base_due = self._base_due or not (last.is_point or last.is_base)

    @property
    def _scope(self) -> tuple[tuple[str | None, ...] | None, tuple[str, ...] | None]:
        groups, connectors = self._export.groups, self._export.connectors
        return (
            None if groups is None else tuple(sorted(groups, key=group_order)),
            None if connectors is None else tuple(sorted(connectors)),
        )

    def round(self) -> list[Written]:
        """Write what is new, and remove what is not needed any more. Returns the files, the oldest first.

        Raises:
            RecordFileError: a file cannot be written.
            TopicMissingError: a topic is gone.
        """
        written: list[Written] = []
        for left in reversed(range(_MOST_TRIES)):
            view = self._look()
            base = self._needs_base(view)
            new = sum(part.end - part.start for parts in self._unread(view).values() for part in parts)
            if not base and not new:
                if not self._files[-1].is_point:
                    self._make_point()  # what is missing in front of the end was replaced before it
                break
            one, whole = self._write(view, base=base)
            written.append(one)
            if not self._base_due and (whole or not left):
                self._make_point()
                break
        by_number = {each.sequence: each for each in self._files}
        written = [replace(each, file=by_number[each.file.sequence]) for each in written]
        if written:
            written[-1] = replace(written[-1], removed=self._remove_old())
        return written

    def _look(self) -> _View:
        topic_set = self._export.topic_set
        # Not one that is kept: this runs for months, and each new one finds the brokers anew.
        with Admin(topic_set.settings, client_id=CONSOLE_CLIENT_ID) as admin:
            described = admin.describe_topics(topic_set.topics.values(), expected=True)
            ranges, notes = self._export.look(admin)
            clock_ms = now_ms()
            last_ms = self._files[-1].at_ms if self._files else clock_ms
            # Not before the last one, unless a clock was far ahead then.
            at_ms = last_ms if clock_ms < last_ms <= clock_ms + _CLOCK_STEP_MS else clock_ms
            kept = [admin.topic_configs(name).get("delete.retention.ms", TOMBSTONES_MS) for name in described]
            cluster = admin.cluster_id()
        for note in notes:
            if note not in self._noted:
                self._note(note)
        self._noted = notes
        ids = {kind: described[name].topic_id for kind, name in topic_set.topics.items()}
        return _View(cluster, ids, ranges, at_ms, min(map(int, kept)))

    def _needs_base(self, view: _View) -> bool:
        """Return whether nothing is there that an increment could follow, or a base is due."""
        bases = [each for each in self._files if each.is_base]
        if self._last is None or not bases or self._base_due:
            return True
        for each in self._last.topics:
            now = {part.partition: part for part in view.ranges[each.topic_type]}
            if (each.kafka_cluster_id, each.topic_id) != (view.cluster, view.ids[each.topic_type]):
                return True
            if now.keys() != each.ranges.keys():
                return True
            if any(not now[number].start <= end <= now[number].end for number, (_, end) in each.ranges.items()):
                return True
        return not _within(bases[-1].at_ms, view.at_ms, self._base_every_ms)

    def _unread(self, view: _View) -> dict[TopicType, list[OffsetRange]]:
        read = {} if self._last is None else {each.topic_type: each.ranges for each in self._last.topics}
        return {
            kind: [part._replace(start=read[kind][part.partition][1]) for part in parts] if kind in read else parts
            for kind, parts in view.ranges.items()
        }

    def _write(self, view: _View, *, base: bool) -> tuple[Written, bool]:
        """Write one file. Returns it, and whether it has every offset."""
        before_ms = self._files[-1].at_ms if self._files else view.at_ms
        sequence = self._files[-1].sequence + 1 if self._files else 1
        ranges = view.ranges if base else self._unread(view)
        if base:
            self._room = GroupRoom(self._export.topic_set.own)
        was_full, present = bool(self._room.left_out), self._export.present(ranges, SILENT, self._room)
        if self._room.left_out and not was_full:
            self._note(self._export.left_out(present, self._room))
        layout = self._export.layout(view.cluster, ranges, present.groups)
        for topic in layout.topics:
            topic.topic_id = view.ids[topic.topic_type]
        kind: Literal["base", "increment"] = "base" if base else "increment"
        groups, connectors = self._scope
        layout.segment = Segment(sequence=sequence, kind=kind, at_ms=view.at_ms, groups=groups, connectors=connectors)
        path, counted = self._folder / file_name(sequence, kind, is_point=False), _Counted()
        made = write_backup(path, layout, f"follow-{uuid.uuid4()}", counted)
        file = SegmentFile(path, sequence, base, is_point=False, at_ms=view.at_ms)
        self._files.append(file)
        self._last = read_contents(RecordFile(path))
        whole = counted.read == sum(part.end - part.start for parts in ranges.values() for part in parts)
        known_ms, self._tombstones_ms = min(self._tombstones_ms, view.tombstones_ms, _UNSEEN_MS), view.tombstones_ms
        late = not _within(before_ms, now_ms(), known_ms)
        self._base_due = not base and not whole and late
        return Written(file, made), whole

    def _make_point(self) -> None:
        last = self._files[-1]
        path = self._folder / file_name(last.sequence, "base" if last.is_base else "increment", is_point=True)
        last.path.replace(path)
        sync_folder(self._folder)
        self._files[-1] = replace(last, path=path, is_point=True)

    def _remove_old(self) -> int:
        last_ms = self._files[-1].at_ms
        before = [each.at_ms for each in self._files[:-1] if each.at_ms <= last_ms]
        if before and last_ms - max(before) > max(self._keep_ms, _CLOCK_STEP_MS):
            ahead = f"{shown_moment(max(before))} to {shown_moment(last_ms)}"
            self._note(f"from {ahead} no file was written, or the clock is wrong; nothing old is deleted in this round")
            return 0
        try:
            old = not_needed(self._files, self._files[-1].at_ms - self._keep_ms)
        except RestoreRejectedError as error:  # somebody has removed files: what is left of that time is kept
            self._note(f"{error}; nothing old is deleted")
            return 0
        for each in old:
            each.path.unlink(missing_ok=True)
        self._files = self._files[len(old) :]
        return len(old)
