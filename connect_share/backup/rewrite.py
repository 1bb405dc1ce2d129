"""The rewrite of what a stopped group has on its topics: repairs, reseal and delete group; restore is made of a part of it.

The rules are the same for all. No worker of the group is alive, which is asked before the topics are read and directly before
they are written. The topics are there, and no transaction is open on them. What the group has is read as its workers read it.
It is in a backup before anything is written. Nothing was written under its keys meanwhile, and the topics are the same.
Afterwards everything is read again and compared, records of others by their digests. What is written depends on what is
there, so a run that was killed is completed by the next one.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from connect_share.backup.backup_file import (
    BackupFile,
    BackupLayout,
    Origin,
    new_backup_path,
    require_place_for,
    write_backup,
)
from connect_share.backup.changes import hash_of
from connect_share.console.options import Group
from connect_share.errors import ConnectShareError, CopyError, also_saying, command_line, listed, raised_by
from connect_share.files import SILENT, Progress, counted, is_writable_folder
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import TopicRight
from connect_share.kafka.create import require_topics
from connect_share.kafka.due_look import DueLook, DueTopic, due_path, load_due, mark_of, save_due
from connect_share.kafka.facts import (
    TopicFacts,
    admin_of,
    config_facts,
    count_aborted,
    read_facts,
    read_records,
    require_keys_of,
    require_no_live_workers,
    require_no_open_transaction,
)
from connect_share.kafka.read import Reader
from connect_share.kafka.write import Written, write_records
from connect_share.kafka.write_access import TopicNeed, require_access, require_writable
from connect_share.model.keys import connector_of, own_key
from connect_share.model.places import KeyPlaces
from connect_share.model.records import Record, TopicType, size_of
from connect_share.sealing.cipher import Cipher, Opened, is_sealed
from connect_share.worker_config import WorkerConfig


def key_hash(partition: int | None, key: bytes | None) -> int:
    """Return a number for partition and key. It is salted per process, so that nobody can write keys that collide."""
    return hash((partition, key or b""))


@dataclass
class Sample:
    """Hashes of what others have, all of them up to a limit, behind it one of so many; its length is about how many."""

    hashes: set[int] = field(default_factory=set, repr=False)
    one_of: int = 1

    def add(self, at: int) -> None:
        """Add a hash."""
        if not at % self.one_of:
            self.hashes.add(at)
            while len(self.hashes) > _MOST_HASHES:
                self.one_of *= 2
                self.hashes = {each for each in self.hashes if not each % self.one_of}

    def __len__(self) -> int:
        return self.one_of * len(self.hashes)

    def without(self, *others: Sample) -> Sample:
        """Return what is in none of these others, as far as they tell."""
        one_of = max(each.one_of for each in (self, *others))
        gone = set[int]().union(*(each.hashes for each in others))
        return Sample({at for at in self.hashes if not at % one_of} - gone, one_of)


Facts = Mapping[TopicType, TopicFacts]
Others = dict[TopicType, Sample]
"""Where other groups have written."""
Found = TypeVar("Found")
_SHOWN: Final = 5
_MOST_HASHES: Final = 500_000


class Since(NamedTuple):
    """What was written to a topic since it was read.

    Attributes:
        theirs: under the group's keys, by others than us; without values.
        ours: by the hash of a key the partition (-1: several) and offset of the last record that is ours, and when its value
            was sealed (-1: it is plain).
        others: where other groups have written.
    """

    theirs: list[Record]
    ours: dict[int, tuple[int, int, int]]
    others: Sample

    def add_own(self, record: Record, sealed_ms: int) -> None:
        """Note the next record that is ours."""
        at = key_hash(None, record.key)
        is_first = self.ours.get(at, (record.partition,))[0] == record.partition
        self.ours[at] = record.partition if is_first else -1, record.offset, sealed_ms


@dataclass(frozen=True)
class StoppedGroup:
    """A group whose workers are stopped, on the topics of a worker file.

    Attributes:
        worker: of the file.
        group: whose records; ``None``: those with plain keys.
        group_id: of its workers.
        side: what messages call the group.
        may_miss: a topic of it may be missing.
        again: what to do when others have written meanwhile.
        connector: whose offsets alone are written; ``None``: what the group has.
        kinds: of the topics that are written.
        notes: the folder for a note of what is written if that of the worker file cannot be written to.
        places: where its keys lie, by their hashes, on the topics that were read.
    """

    worker: WorkerConfig
    group: Group
    group_id: str
    side: str
    may_miss: bool = False
    again: str = "Run the command again"
    connector: str | None = None
    kinds: Collection[TopicType] = tuple(TopicType)
    notes: Path | None = None
    must_be_stopped: ClassVar[bool] = True
    lost_as: ClassVar[str] = "no longer count, for records of ours lie behind them"
    places: dict[TopicType, KeyPlaces] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def topics(self) -> dict[TopicType, str]:
        """The names of the topics."""
        return {topic_type: self.worker.topic(topic_type) for topic_type in self.kinds}

    @property
    def shown(self) -> str:
        """The group, for people."""
        return f"group {self.group}" if self.group is not None else f"the plain keys of {self.group_id}"

    def facts(self, *, beside_workers: bool = False) -> dict[TopicType, TopicFacts]:
        """Return the topics that are there, up to their ends of now.

        Refused are missing rights, all named at once, live workers (not ``beside_workers``), missing topics, open
        transactions, and worker files without the group's keys, as at a start; see also :meth:`end_due_look`.
        """
        self.end_due_look()
        return self._facts_now("WRITE", beside_workers=beside_workers)

    def _facts_now(self, *rights: TopicRight, beside_workers: bool = False) -> dict[TopicType, TopicFacts]:
        require_access(
            (TopicNeed(self.worker, topic, ("READ", *rights)) for topic in self.topics.values()), to_write=False
        )
        with admin_of(self.worker) as admin:
            found = self._facts(admin, beside_workers=beside_workers)
            for topic in found.values():
                require_no_open_transaction(admin, topic)
            config = found.get(TopicType.CONFIG)
            if self.group is not None and TopicType.CONFIG not in self.kinds:  # which says what keys the group has
                config = config_facts(self.worker, expected=not self.may_miss)
        require_keys_of(self.worker, [self.group], config)
        return found

    def _facts(self, admin: Admin, *, beside_workers: bool = False) -> dict[TopicType, TopicFacts]:
        if self.must_be_stopped and not beside_workers:
            require_no_live_workers(admin, self.group_id, side=self.side)
        if not self.may_miss:
            require_topics(admin, self.topics)
        found = read_facts(admin, self.topics.values(), expected=not self.may_miss)
        return {topic_type: found[topic] for topic_type, topic in self.topics.items() if topic in found}

    def require_stopped(self) -> None:
        """Check that no worker of the group is alive, else ``LiveMembersError``."""
        with admin_of(self.worker) as admin:
            require_no_live_workers(admin, self.group_id, side=self.side)

    def objections(self, *checks: Callable[[], object]) -> Iterator[ConnectShareError]:
        """Yield why nothing may be written now: live workers, and what these checks raise."""
        return raised_by(self.require_stopped, *checks)

    def is_own(self, topic_type: TopicType, key: bytes | None) -> bool:
        """Return whether a key is the group's."""
        return key is not None and own_key(topic_type, key, self.group) is not None

    def read(
        self, topic_type: TopicType, facts: TopicFacts, progress: Progress, doing: str = "reading"
    ) -> Iterator[Record]:
        """Yield all records of a topic, those of others included; from now on it is known where the group's keys lie."""
        ranges = facts.ranges()
        progress.phase(f"{doing} {facts.topic}", sum(map(size_of, ranges)))
        places = self.places[topic_type] = KeyPlaces(partial(len, facts.ends))
        records = read_records(self.worker, ranges, self.worker.isolation_of(self.group, topic_type), with_headers=True)
        for record in counted(records, progress.advance):
            original = None if record.key is None else own_key(topic_type, record.key, self.group)
            if original is not None:
                places.take(hash_of(original), record)
            yield record

    def aborted(self) -> dict[TopicType, int]:
        """Return how many records of the group its workers leave out as aborted."""
        with admin_of(self.worker) as admin:
            found = self._facts(admin, beside_workers=True)
        counts = {}
        for topic_type, topic in found.items():
            isolation, takes = self.worker.isolation_of(self.group, topic_type), partial(self.is_own, topic_type)
            counts[topic_type] = count_aborted(self.worker, topic.ranges(), isolation, takes)
        return counts

    def back_up(
        self,
        path: Path,
        facts: Facts,
        run_id: str,
        progress: Progress,
        only: Collection[tuple[str, int, int]] | None = None,
    ) -> BackupFile:
        """Write what the group has on its topics to one file, or ``only`` records at these places."""
        layout, plain = BackupLayout(), self.group is None
        with admin_of(self.worker) as admin:
            cluster = admin.cluster_id()
        numbers = {
            topic_type: layout.add(
                ("source", cluster, topic.topic),
                topic_type,
                Reader.of(self.worker, self.worker.isolation_of(self.group, topic_type))._replace(only=only),
                topic.ranges(),
                partial(self.is_own, topic_type),
            )
            for topic_type, topic in facts.items()
        }
        origin = Origin(side="source", group_id=self.group_id, plain=plain, becomes=self.group, topics=numbers)
        layout.origins.append(origin)
        return write_backup(path, layout, run_id, progress)

    def restoring(self, backup: Path) -> str:
        """Return the command that puts back what a backup has."""
        own = self.group == self.worker.cluster_group_id and self.worker.file is not None
        file = str(self.worker.file) if own else f"WORKER_FILE_OF_{self.group_id}"
        return command_line("connect-share", "restore", backup, "-w", file)

    def everywhere(self, records: Iterable[Record]) -> Iterator[tuple[Record, int]]:
        """Yield each record with -1, murmur2's partition, and with each other one that has a living record of its key.

        What is put back with an old time counts all the same: it is not older there than the removal of its key elsewhere.
        """
        types = {topic: topic_type for topic_type, topic in self.topics.items()}
        for record in records:
            key, topic_type = record.key or b"", types[record.topic]
            original, known = own_key(topic_type, key, self.group), self.places.get(topic_type)
            if known is None or original is None:
                yield record, -1
                continue
            placed = known.placed(name := hash_of(original), key)
            is_dated = record.value is not None and not is_sealed(record.value)  # else the sealed time decides, or none
            at_ms = known.newest_ms_of_others(name, placed) if is_dated else -1
            dated = replace(record, timestamp_ms=at_ms) if at_ms > record.timestamp_ms else record
            for place in (-1, *known.others(name, placed)):
                yield dated, place

    def write(
        self, facts: Facts, records: Iterable[Record], beside: Path, remedy: str = "the same command completes it"
    ) -> tuple[Facts, Others]:
        """Write records, unless something has changed since the facts were asked for; look again afterwards.

        Each goes to every partition where its key lies. Returns the topics up to their ends of afterwards, and where other
        groups have written meanwhile. ``beside``: where a file with what was overtaken goes; ``remedy``: see
        :func:`write_records`. A ``CopyError`` says what others have written, and how what was overtaken is put back.
        """
        now = self.require_unchanged(facts)
        before = {**now, **facts}  # what others wrote before that is theirs, too
        outgoing, note = ((0, *each) for each in self.everywhere(records)), partial(self.note_due, before)
        return self.look_again(before, write_records([self.worker], outgoing, remedy=remedy, note=note), beside)

    def require_unchanged(self, facts: Facts) -> Facts:
        """Check that nothing has changed since the facts were asked for. Returns those of now."""
        with admin_of(self.worker) as admin:
            now = self._facts(admin)
        for topic_type, topic in now.items():
            before = facts.get(topic_type)
            self._require_same(before, topic, "nothing was written. Run the command again")
            if self._since(topic_type, {} if before is None else before.ends, topic).theirs:
                raise CopyError(
                    f"{topic.topic}: another writer has written under the keys of {self.shown} meanwhile, perhaps another "
                    "run of this command; nothing was written. Look at who it is, and run the command again"
                )
        return now

    def _require_same(self, before: TopicFacts | None, now: TopicFacts, remedy: str) -> None:
        if before is not None and (before.topic_id, {*before.ends}) != (now.topic_id, {*now.ends}):
            raise CopyError(f"{now.topic}: it was made again, or partitions were added, since it was read; {remedy}")

    def look_again(self, before: Facts, written: Written, beside: Path, index: int = 0) -> tuple[Facts, Others]:
        """Refuse what others have written under the group's keys since ``before``; see :meth:`write`.

        ``index`` is the place of the group's worker among those of ``written``.
        """
        found = dict[TopicType, Since]()
        with also_saying("Everything was written; it is not known what others wrote meanwhile: run the command again"):
            now = self._facts_now()
            for topic_type, topic in now.items():
                self._require_same(before[topic_type], topic, "what was written before that is gone")
                found[topic_type] = self._since(topic_type, before[topic_type].ends, topic, written, index)
        self._end_look(self.overtaken(found, {kind: now[kind].since(before[kind].ends) for kind in now}, beside))
        return now, {topic_type: since.others for topic_type, since in found.items()}

    @cached_property
    def due(self) -> Path:
        """Where the note is of what was written, until what others wrote was looked for."""
        path = due_path(self.worker.file or Path(self.group_id), self.group_id)
        return path if self.notes is None or is_writable_folder(path.parent) else self.notes / path.name

    def note_due(self, before: Facts, written: Written, index: int = 0) -> DueLook:
        """Note what is written, until :meth:`look_again` has looked: a command may be killed in between."""
        topics = {
            kind: DueTopic(
                each.topic,
                each.topic_id,
                {**each.ends},
                {**written.runs.get((index, each.topic), {})},
                written.marks,
                self.connector,
            )
            for kind, each in before.items()
        }
        with suppress(OSError):  # the look itself is worth more than its note
            save_due(self.due, topics)
        return topics

    def end_due_look(self) -> None:
        """Look for what others wrote, in the place of an earlier command that was killed before it could.

        ``CopyError`` names what its records hide. Nothing else has to be said: workers may have been started since.
        """
        due, now = load_due(self.due) or {}, dict[str, TopicFacts]()
        if due:
            with admin_of(self.worker) as admin:
                now = read_facts(admin, [each.topic for each in due.values()], expected=True)
        self._end_look(
            self.hidden(due, now.values(), self.due, "an earlier command wrote, which was ended before it looked")
        )

    def hidden(
        self, due: DueLook, topics: Iterable[TopicFacts], beside: Path, when: str = "this command wrote"
    ) -> CopyError | None:
        """Return the error that names what records of a note hide, on the topics up to their ends of now."""
        now = {each.topic: each for each in topics}
        found, starts = dict[TopicType, Since](), dict[TopicType, TopicFacts]()
        for kind, (topic, topic_id, ends, runs, marks, _) in due.items():
            if topic not in now or now[topic].topic_id != topic_id:
                continue
            since = self._since(kind, ends, now[topic], Written({(0, topic): runs}, marks))
            lost = [*self.lost_of(since)]
            counting = {record.key for record in since.theirs} - {record.key for record in lost}
            found[kind] = since._replace(theirs=[record for record in lost if record.key not in counting])
            starts[kind] = now[topic].since(ends)
        return self.overtaken(found, starts, beside, when)

    def _end_look(self, error: CopyError | None) -> None:
        self.due.unlink(missing_ok=True)
        if error is not None:
            raise error

    def _since(
        self,
        topic_type: TopicType,
        ends: Mapping[int, int],
        now: TopicFacts,
        written: Written | None = None,
        index: int = 0,
    ) -> Since:
        since = Since([], {}, Sample())
        isolation = self.worker.isolation_of(self.group, topic_type)
        for record in read_records(self.worker, now.since(ends).ranges(), isolation):
            if not self.is_own(topic_type, record.key):
                since.others.add(key_hash(record.partition, record.key))
                continue
            sealed_ms, value = self._opened(topic_type, record)
            if written is not None and (
                written.has(index, record) or mark_of(record.key or b"", value) in written.marks
            ):
                since.add_own(record, sealed_ms)
            else:
                since.theirs.append(replace(record, value=None, sealed_ms=sealed_ms))
        return since

    def lost_of(self, since: Since) -> Iterator[Record]:
        """Yield what others have written that one of ours hides; in another partition it may."""
        for record in since.theirs:
            at, offset, sealed_ms = since.ours.get(key_hash(None, record.key), (record.partition, -1, -1))
            theirs_ms = record.sealed_ms or 0
            # Of sealed values the time decides, else the place.
            if min(sealed_ms, theirs_ms) > 0 and sealed_ms != theirs_ms:
                is_hidden = sealed_ms > theirs_ms
            else:
                is_hidden = at != record.partition or offset > record.offset
            if is_hidden:
                yield record

    @cached_property
    def _ciphers(self) -> dict[TopicType, Cipher]:
        keys = self.worker.keys_in_use if self.group == self.worker.cluster_group_id else None
        return {} if keys is None else {kind: Cipher(keys, kind) for kind in TopicType}

    def _opened(self, topic_type: TopicType, record: Record) -> tuple[int, bytes | None]:
        """Return when a value of the worker's own group was sealed, -1: it is plain, or does not open; and the value."""
        if not is_sealed(record.value) or (cipher := self._ciphers.get(topic_type)) is None:
            return -1, record.value
        opened = cipher.open(record.key or b"", record.value)
        return (opened.written_ms, opened.value) if isinstance(opened, Opened) else (-1, record.value)

    def overtaken(
        self, found: Mapping[TopicType, Since], facts: Facts, beside: Path, when: str = "this command wrote"
    ) -> CopyError | None:
        """Return the error that names what others have written, and where what was overtaken still lies."""
        texts = []
        for topic_type, since in found.items():
            keys = {record.key or b"" for record in since.theirs}
            names = {connector_of(topic_type, own_key(topic_type, key, self.group) or b"") for key in keys} - {None}
            whose = f" of {listed(sorted(map(repr, names)), _SHOWN)}" if names else ""
            counts = f"{len(since.theirs):,} record(s) under {len(keys):,} key(s){whose}"
            texts += [f"{facts[topic_type].topic}: {counts}"] if keys else []
        if not texts:
            return None
        text = (
            f"another writer has written under the keys of {self.shown} while {when}: {'; '.join(texts)}. Find out who it "
            "is, and stop it. "
        )
        places = [
            (record.topic, record.partition, record.offset)
            for since in found.values()
            for record in self.lost_of(since)
        ]
        if not places:
            return CopyError(f"{text}What it wrote counts. {self.again}")
        shown = listed((f"{topic}[{at}] offset {offset}" for topic, at, offset in places), _SHOWN)
        text += f"{len(places):,} of these {self.lost_as}: {shown}. They are "
        with also_saying(f"{text[0].upper()}{text[1:]}in no file"):
            kept = self.keep(new_backup_path(beside, f"{self.group_id}.overtaken"), facts, {*places})
        return CopyError(f"{text}in {kept} puts them back. {self.again}")

    def keep(self, file: Path, facts: Facts, places: Collection[tuple[str, int, int]]) -> str:
        """Write records at these places to a file; return where it is, and the command that puts them back."""
        self.back_up(file, facts, f"overtaken-{uuid.uuid4()}", SILENT, places)
        return f"{file}: {self.restoring(file)}"


@dataclass(frozen=True)
class Rewritten(Generic[Found]):
    """What was done.

    Attributes:
        path: of the backup of what the group had.
        before: what was found.
        after: the same after the writing.
        others: where others have written meanwhile.
    """

    path: Path
    before: Found
    after: Found
    others: Others


class Rewrite(ABC, Generic[Found]):
    """What one command writes in place of what a stopped group has. Its methods look at records only, and write nothing."""

    name: ClassVar[str]
    """Of the command."""
    writing: ClassVar[str] = "writing"
    """For people, while it writes."""
    side: ClassVar[str]
    """What messages call the group."""
    worker: WorkerConfig

    @cached_property
    def stopped(self) -> StoppedGroup:
        """The group, by default that of the worker file."""
        return StoppedGroup(self.worker, self.worker.cluster_group_id, self.worker.group_id, self.side)

    @abstractmethod
    def _read(self, facts: Facts, progress: Progress) -> Found:
        """Read the topics, and decide what is to be written."""

    @abstractmethod
    def _outgoing(self, found: Found) -> tuple[int, Iterable[Record]]:
        """Return how many records or keys are to be written, and the records as they go to the topics."""

    @abstractmethod
    def _compare(self, done: Rewritten[Found]) -> None:
        """Check that all is as it should be after the writing; else ``CopyError``."""

    def look(self, progress: Progress = SILENT, *, beside_workers: bool = False) -> Found:
        """Return what there is, and what would be written, live workers or not as is asked; writes nothing."""
        return self._read(self.stopped.facts(beside_workers=beside_workers), progress)

    def objections(self, found: Found, backup: Path) -> Iterator[ConnectShareError]:
        """Yield why :meth:`write` would refuse now what was found."""
        count, outgoing = self._outgoing(found)
        to_write = (partial(require_place_for, backup), partial(require_writable, self.stopped.worker, outgoing))
        return self.stopped.objections(*(to_write if count else ()))

    def write(self, backup: Path, progress: Progress = SILENT) -> Rewritten[Found]:
        """Write a backup, then the records, then read everything again, which has to be as it should be; may be repeated."""
        stopped = self.stopped
        facts = stopped.facts()
        before = self._read(facts, progress)
        require_writable(stopped.worker, self._outgoing(before)[1])
        stopped.back_up(backup, facts, f"{self.name}-{uuid.uuid4()}", progress)
        total, outgoing = self._outgoing(before)
        progress.phase(self.writing, total)
        again = "the same command completes it (with another --backup, if one was given)"
        remedy = f"{again}, or {stopped.restoring(backup)} takes it back"
        now, others = stopped.write(facts, counted(outgoing, progress.advance), backup, remedy)
        with also_saying(f"Everything was written; what was there is in {backup}. Run the command again"):
            done = Rewritten(backup, before, self._read(now, progress), others)
            self._compare(done)
        return done
