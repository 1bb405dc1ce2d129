"""The rewrite of what a stopped group has on its topics: repairs, reseal and delete group; restore is made of a part of it.

The rules are the same for all. No worker of the group is alive, which is asked before the topics are read and directly before
they are written. The topics are there, and no transaction is open on them. What the group has is read as its workers read it.
It is in a backup before anything is written. Nothing was written under its keys meanwhile, and the topics are the same.
Afterwards everything is read again and compared, records of others by their digests. What is written depends on what is
there, so a run that was killed is completed by the next one.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from connect_share.backup.backup_file import BackupFile, BackupLayout, Origin, Reader, common_isolation, write_backup
from connect_share.console import Group
from connect_share.errors import CopyError
from connect_share.files import Progress, Silent, counted
from connect_share.kafka.admin import Admin
from connect_share.kafka.facts import (
    BUSY_TOPIC_WAIT_S,
    TopicFacts,
    admin_of,
    ranges_since,
    read_facts,
    read_records,
    require_keys_of,
    require_no_live_workers,
    require_no_open_transaction,
)
from connect_share.kafka.lost import require_topics
from connect_share.kafka.write import write_records
from connect_share.model.keys import own_key
from connect_share.model.places import KeyPlaces
from connect_share.model.records import Headers, Record, TopicType
from connect_share.worker_config import Isolation, WorkerConfig

_PLACE: Final = struct.Struct(">iqqI")


def key_hash(partition: int | None, key: bytes | None) -> int:
    """Return a number for partition and key. It is salted per process, so that nobody can write keys that collide."""
    return hash((partition, key or b""))


@dataclass
class NewestDigests:
    """The newest records that have a value: a hash of place, timestamp, key, value and headers, by ``key_hash``."""

    by_key: dict[int, int] = field(default_factory=dict, repr=False)

    def add(  # noqa: PLR0917 - the fields of a record in their order
        self,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
    ) -> tuple[int | None, int | None]:
        """Add the next record, those of one key in order. Returns the hash before it and its own; ``None``: no value."""
        at, key = key_hash(partition, key), key or b""
        before = self.by_key.pop(at, None)
        if value is None:
            return before, None
        hashed = hashlib.blake2b(_PLACE.pack(partition, offset, timestamp_ms, len(key)), digest_size=8)
        hashed.update(key)
        hashed.update(value)
        if headers != ():  # headers that cannot be read all count as equal
            hashed.update(repr(headers and [*headers]).encode())
        self.by_key[at] = digest = int.from_bytes(hashed.digest(), "big")
        return before, digest


Facts = Mapping[TopicType, TopicFacts]
Placed = tuple[Record, int]
"""A record and the partition that it goes to; -1: that of murmur2."""
Found = TypeVar("Found")


class Since(NamedTuple):
    """What was written to a topic since it was read: how many records of the group, and where others have written."""

    own: int
    others: set[int]


@dataclass(frozen=True)
class StoppedGroup:
    """A group whose workers are stopped, on the topics of a worker file.

    Attributes:
        worker: of the file.
        group: whose records; ``None``: those with plain keys.
        group_id: of its workers.
        side: what messages call the group.
        may_miss: a topic of it may be missing.
    """

    worker: WorkerConfig
    group: Group
    group_id: str
    side: str
    may_miss: bool = False

    @property
    def topics(self) -> dict[TopicType, str]:
        """The names of the topics."""
        return {topic_type: self.worker.topic(topic_type) for topic_type in TopicType}

    @property
    def shown(self) -> str:
        """The group, for people."""
        return f"group {self.group}" if self.group is not None else f"the plain keys of {self.group_id}"

    def facts(self) -> dict[TopicType, TopicFacts]:
        """Return the topics that are there, up to their ends of now.

        Raises:
            LiveMembersError: workers of the group are alive.
            TopicError: a topic is missing, or a transaction is open on it.
            SealedGroupError, ConfigError: the worker file has not the group's keys, as at a start.
        """
        with admin_of(self.worker) as admin:
            found = self._facts(admin)
            for topic in found.values():
                require_no_open_transaction(admin, topic, wait_s=BUSY_TOPIC_WAIT_S)
        require_keys_of(self.worker, [self.group], found.get(TopicType.CONFIG))
        return found

    def _facts(self, admin: Admin) -> dict[TopicType, TopicFacts]:
        require_no_live_workers(admin, self.group_id, side=self.side)
        if not self.may_miss:
            require_topics(admin, self.topics)
        found = read_facts(admin, self.topics.values())
        return {topic_type: found[topic] for topic_type, topic in self.topics.items() if topic in found}

    def is_own(self, topic_type: TopicType, key: bytes | None) -> bool:
        """Return whether a key is the group's."""
        return key is not None and own_key(topic_type, key, self.group) is not None

    def isolation(self, topic_type: TopicType) -> Isolation:
        """Return the isolation of the group's workers; what every group agrees with, if the worker file is not its own."""
        if self.group == self.worker.cluster_group_id:
            return self.worker.isolation(topic_type)
        return common_isolation(topic_type)

    def read(
        self, topic_type: TopicType, facts: TopicFacts, progress: Progress, doing: str = "reading"
    ) -> Iterator[Record]:
        """Yield all records of a topic, those of others included."""
        ranges = facts.ranges()
        progress.phase(f"{doing} {facts.topic}", sum(part.end - part.start for part in ranges))
        records = read_records(self.worker, ranges, self.isolation(topic_type), with_headers=True)
        return counted(records, progress.advance)

    def since(self, topic_type: TopicType, ends: Mapping[int, int], now: TopicFacts) -> Since:
        """Return what was written behind these ends."""
        own, others = 0, set[int]()
        ranges = ranges_since(now.topic, ends, now.ends)
        for record in read_records(self.worker, ranges, Isolation.READ_UNCOMMITTED):
            if self.is_own(topic_type, record.key):
                own += 1
            else:
                others.add(key_hash(record.partition, record.key))
        return Since(own, others)

    def back_up(self, path: Path, facts: Facts, run_id: str, progress: Progress) -> BackupFile:
        """Write what the group has on its topics to one file."""
        layout, plain = BackupLayout(), self.group is None
        with admin_of(self.worker) as admin:
            cluster = admin.cluster_id()
        numbers = {
            topic_type: layout.add(
                ("source", cluster, topic.topic),
                topic_type,
                Reader.of(self.worker, self.isolation(topic_type)),
                topic.ranges(),
                partial(self.is_own, topic_type),
            )
            for topic_type, topic in facts.items()
        }
        origin = Origin(side="source", group_id=self.group_id, plain=plain, becomes=self.group, topics=numbers)
        layout.origins.append(origin)
        return write_backup(path, layout, run_id, progress)

    def everywhere(
        self,
        records: Iterable[Record],
        places: Mapping[TopicType, KeyPlaces],
        known_as: Callable[[bytes], bytes] = bytes,
    ) -> Iterator[Placed]:
        """Yield each record with -1, and with each other partition that has a living record of its key.

        What is put back with an old time counts all the same: it is not older there than the removal of its key elsewhere.
        ``known_as`` returns how an original key is known to ``places``.
        """
        types = {topic: topic_type for topic_type, topic in self.topics.items()}
        for record in records:
            key, topic_type = record.key or b"", types[record.topic]
            original, known = own_key(topic_type, key, self.group), places.get(topic_type)
            if known is None or original is None:
                yield record, -1
                continue
            name = known_as(original)
            at_ms = -1 if record.value is None else known.newest_ms_of_others(name, key)
            dated = replace(record, timestamp_ms=at_ms) if at_ms > record.timestamp_ms else record
            for place in (-1, *known.others(name, key)):
                yield dated, place

    def write(self, facts: Facts, records: Iterable[Placed]) -> None:
        """Write records, unless something has changed since the facts were asked for.

        Raises:
            LiveMembersError: workers of the group are alive.
            CopyError: another writer has written under the group's keys, or a topic is not the one that was read; nothing was
                written. Or an acknowledgement is missing; some records were written.
        """
        with admin_of(self.worker) as admin:
            now = self._facts(admin)
        for topic_type, topic in now.items():
            before = facts.get(topic_type)
            if before is not None and (before.topic_id, {*before.ends}) != (topic.topic_id, {*topic.ends}):
                raise CopyError(
                    f"{topic.topic}: it was made again, or partitions were added, since it was read; nothing was written. "
                    "Run the command again"
                )
            if self.since(topic_type, {} if before is None else before.ends, topic).own:
                raise CopyError(
                    f"{topic.topic}: another writer has written under the keys of {self.shown} meanwhile, perhaps another "
                    "run of this command; nothing was written. Look at who it is, and run the command again"
                )
        write_records([self.worker], ((0, *placed) for placed in records))


@dataclass(frozen=True)
class Rewritten(Generic[Found]):
    """What was done.

    Attributes:
        path: of the backup.
        backup: what the group had.
        before: what was found.
        after: the same after the writing.
        others: where others have written meanwhile.
    """

    path: Path
    backup: BackupFile
    before: Found
    after: Found
    others: Mapping[TopicType, set[int]]


class Rewrite(ABC, Generic[Found]):
    """What one command writes in place of what a stopped group has. Its methods look at records only, and write nothing."""

    name: ClassVar[str]
    """Of the command."""
    writing: ClassVar[str] = "writing"
    """For people, while it writes."""

    @property
    @abstractmethod
    def stopped(self) -> StoppedGroup:
        """The group."""

    @abstractmethod
    def _read(self, facts: Facts, progress: Progress) -> Found:
        """Read the topics, and decide what is to be written."""

    @abstractmethod
    def _outgoing(self, found: Found) -> tuple[int, Iterable[Placed]]:
        """Return how many records or keys are to be written, and the records as they go to the topics, and where."""

    @abstractmethod
    def _compare(self, done: Rewritten[Found]) -> None:
        """Check that all is as it should be after the writing; else ``CopyError``."""

    def look(self, progress: Progress | None = None) -> Found:
        """Return what there is, and what would be written; writes nothing.

        Raises:
            LiveMembersError: workers of the group are alive.
            TopicError: a topic is missing, or a transaction is open on it.
            ConfigError: a value is sealed with a key that is not in the worker file.
        """
        return self._read(self.stopped.facts(), progress or Silent())

    def write(self, backup: Path, progress: Progress | None = None) -> Rewritten[Found]:
        """Write a backup, then the records, then read everything again; may be repeated.

        Raises:
            AlreadyAppliedError: there is a backup of that name.
            RecordFileError: the backup cannot be written; nothing was written to Kafka then.
            BrokerError: a record was refused; some of the others were written.
            CopyError: another writer writes meanwhile, an acknowledgement is missing, or the result is not as it should be.
        """
        progress, stopped = progress or Silent(), self.stopped
        facts = stopped.facts()
        before = self._read(facts, progress)
        made = stopped.back_up(backup, facts, f"{self.name}-{uuid.uuid4()}", progress)
        total, outgoing = self._outgoing(before)
        progress.phase(self.writing, total)
        written = Counter[str]()
        stopped.write(facts, counted(_noted(outgoing, written), progress.advance))
        now = stopped.facts()
        after, others = self._read(now, progress), dict[TopicType, set[int]]()
        for topic_type, topic in now.items():
            since = stopped.since(topic_type, facts[topic_type].ends, topic)
            if since.own > written[topic.topic]:
                raise still_written(topic.topic, stopped, backup)
            others[topic_type] = since.others
        done = Rewritten(backup, made, before, after, others)
        self._compare(done)
        return done


def _noted(records: Iterable[Placed], written: Counter[str]) -> Iterator[Placed]:
    """Yield the records, and count them by topic."""
    for record, place in records:
        written[record.topic] += 1
        yield record, place


def still_written(topic: str, stopped: StoppedGroup, backup: Path) -> CopyError:
    """Return the error for records of the group that this command has not written."""
    return CopyError(
        f"{topic}: another writer writes under the keys of {stopped.shown}. Find out who it is, and run the command again; "
        f"what was there is in {backup}"
    )
