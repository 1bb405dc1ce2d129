"""Removing all that a stopped group has on its topics, behind a backup, and the proof that no other group was touched.

A key of a shared config topic is removed by JSON null, others by tombstones, as Java does without sharing
(``docs/decisions/0002-config-position.md``). Removals of a sealed group are sealed; behind those of statuses and offsets
follows a tombstone, because no worker is left that would refuse it, and the cleaner takes both. A run that was killed is
completed by the next one: it removes what is still there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from connect_share.backup.backup_file import BackupFile
from connect_share.backup.export import Export
from connect_share.console import PLAIN, Group
from connect_share.errors import ConfigError, ConnectShareError, CopyError
from connect_share.files import Progress, Silent, counted
from connect_share.kafka.facts import (
    BUSY_TOPIC_WAIT_S,
    TopicFacts,
    admin_of,
    read_facts,
    read_records,
    require_no_live_workers,
    require_no_open_transaction,
    require_topic,
)
from connect_share.kafka.write import write_records
from connect_share.model.keys import ClusterGroupId, connector_of, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.model.removal import is_removal, removal
from connect_share.model.status import StatusFold
from connect_share.sealing import KEYS_PROPERTY, TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.worker_config import Isolation, TopicSet, WorkerConfig

_REMOVED: Final = 0


@dataclass
class Others:
    """What the other groups have on one topic, and keys that are none of Connect's.

    Attributes:
        newest: a hash of the newest value, by hash of partition and key; 0 is a removal.
        groups: the groups with a record.
    """

    newest: dict[int, int] = field(default_factory=dict, repr=False)
    groups: set[Group] = field(default_factory=set)

    def add(self, topic_type: TopicType, record: Record) -> None:
        """Add the next record; those of one key in order."""
        value = _REMOVED if is_removal(topic_type, record.value) else _hash(record.value or b"") or 1
        self.newest[_place(record)] = value


@dataclass
class TopicContent:
    """One topic as it was read.

    Attributes:
        keys: the group's keys; whether something of each is left to be removed.
        others: of the rest.
        connectors: names that the keys to be removed have.
        sealed: sealed values of the group that were not opened.
    """

    facts: TopicFacts
    keys: dict[bytes, bool] = field(default_factory=dict, repr=False)
    others: Others = field(default_factory=Others)
    connectors: set[str] = field(default_factory=set)
    sealed: int = 0
    seals: TopicSeals | None = field(default=None, repr=False)

    @property
    def due(self) -> list[bytes]:
        """The keys that are to be removed."""
        return [key for key, is_due in self.keys.items() if is_due]


@dataclass(frozen=True)
class Deleted:
    """What was done.

    Attributes:
        backup: what the group had.
        removed: keys that were removed, by topic type.
        others: keys of others with a value, unchanged.
        others_wrote: keys that others have written meanwhile.
    """

    backup: BackupFile
    removed: Mapping[TopicType, int]
    others: int
    others_wrote: int


@dataclass(frozen=True)
class GroupDeletion:
    """One group that is to be removed from the topics of a worker file.

    Attributes:
        group: ``None`` is the cluster with plain keys.
        group_id: ``group.id`` of its workers.
    """

    topic_set: TopicSet
    worker: WorkerConfig
    group: Group
    group_id: str

    @classmethod
    def of(cls, worker_file: Path, name: str) -> GroupDeletion:
        """Read a worker file on whose topics the group is; needs no broker.

        Raises:
            ConfigError: the file is wrong, or the cluster with plain keys is meant and the file is not its own.
            InvalidClusterGroupIdError: the name can be no group's.
        """
        topic_set = TopicSet.from_worker_file(worker_file)
        worker = topic_set.worker
        if worker is None:
            raise ConfigError(f"{worker_file} is no worker file")
        if name == worker.group_id:
            return cls(topic_set, worker, worker.cluster_group_id, name)
        if name == PLAIN:
            if worker.sharing_enabled:
                raise ConfigError(
                    f"{worker_file} has topic sharing: give the worker file of the cluster with plain keys, whose group.id "
                    "says whether its workers live",
                    property_name="group.id",
                )
            return cls(topic_set, worker, None, worker.group_id)
        group = ClusterGroupId(name)
        return cls(topic_set, worker, group, group)

    def look(self, progress: Progress | None = None) -> dict[TopicType, TopicContent]:
        """Return what there is and what would be removed; writes nothing.

        Raises:
            ConnectShareError: the group has no record there, or two clusters seem to have plain keys there.
            LiveMembersError: workers of the group are alive.
            TopicError: a topic is missing, or a transaction is open on it.
            ConfigError: values of the group are sealed, and the worker file does not have its keys.
            BrokerError: reading was refused.
        """
        found = self._look(progress or Silent())
        if not any(topic.keys for topic in found.values()):
            raise ConnectShareError(
                f"{', '.join(self.topic_set.topics.values())} have no record of {self.shown}: names are exact, dots, "
                "dashes and case included"
            )
        return found

    def _look(self, progress: Progress) -> dict[TopicType, TopicContent]:
        with admin_of(self.worker) as admin:
            require_no_live_workers(admin, self.group_id, side="retired")
            facts = read_facts(admin, self.topic_set.topics.values())
            for name in self.topic_set.topics.values():
                topic = require_topic(facts, name, remedy="check the worker file")
                require_no_open_transaction(admin, topic, wait_s=BUSY_TOPIC_WAIT_S)
        found = {
            topic_type: self._read(topic_type, facts[name], progress)
            for topic_type, name in self.topic_set.topics.items()
        }
        sealed = sum(topic.sealed for topic in found.values())
        if sealed:
            raise ConfigError(
                f"{sealed:,} value(s) of {self.shown} are sealed: without its keys nobody would believe the removals. Give "
                f"the group's own worker file, with its keys in {KEYS_PROPERTY}",
                property_name=KEYS_PROPERTY,
            )
        return found

    @property
    def shown(self) -> str:
        """The group, for people."""
        return f"group {self.group}" if self.group is not None else f"the plain keys of {self.group_id}"

    def _read(self, topic_type: TopicType, facts: TopicFacts, progress: Progress) -> TopicContent:
        is_own_file = self.group is not None and self.group == self.worker.cluster_group_id
        seals = self.worker.seals(topic_type) if is_own_file and self.worker.keys_in_use is not None else None
        topic, believed = TopicContent(facts, seals=seals), dict[bytes, bool]()
        plain_statuses = StatusFold(None) if topic_type is TopicType.STATUS and self.group is None else None
        ranges = facts.ranges()
        progress.phase(f"reading {facts.topic}", sum(part.end - part.start for part in ranges))
        # Of a transaction that was aborted nobody believes the removals.
        isolation = Isolation.READ_UNCOMMITTED if topic_type is TopicType.STATUS else Isolation.READ_COMMITTED
        for record in counted(read_records(self.worker, ranges, isolation), progress.advance):
            parts = None if record.key is None else split_key(topic_type, record.key)
            if record.key is None or parts is None or parts[0] != self.group:
                topic.others.groups |= set() if parts is None else {parts[0]}
                topic.others.add(topic_type, record)
                continue
            if plain_statuses is not None:
                plain_statuses.apply(record)
            if seals is None:
                topic.sealed += self.group is not None and is_sealed(record.value)
                topic.keys[record.key] = not is_removal(topic_type, record.value)
                continue
            taken = seals.believed(record)
            if taken is not None:
                believed[record.key] = not is_removal(topic_type, taken.value)
            sealed_config = topic_type is TopicType.CONFIG and taken is not None
            topic.keys[record.key] = believed.get(record.key, False) or not (sealed_config or record.value is None)
        if seals is not None:
            seals.end_start()
        if plain_statuses is not None and plain_statuses.clusters.found is not None:
            raise ConnectShareError(plain_statuses.clusters.found.warning(facts.topic))
        names = (connector_of(topic_type, key[len(self._prefix) :]) for key in topic.due)
        topic.connectors = {name for name in names if name is not None}
        return topic

    @property
    def _prefix(self) -> bytes:
        return b"" if self.group is None else self.group.prefix

    def delete(self, backup: Path, progress: Progress | None = None) -> Deleted:
        """Write a backup, then the removals, then read everything again; may be repeated.

        Raises:
            ConnectShareError: as :meth:`look`.
            RecordFileError: the backup cannot be written; nothing was written to Kafka then.
            BrokerError: a removal was refused; others were written.
            CopyError: another writer writes under the group's keys, or others do not have what they had.
        """
        progress = progress or Silent()
        before = self.look(progress)
        ranges = {topic_type: topic.facts.ranges() for topic_type, topic in before.items()}
        with admin_of(self.worker) as admin:
            cluster = admin.cluster_id()
        made = Export(self.topic_set, frozenset({self.group})).write(backup, cluster, ranges, progress)
        self._require_unchanged(before)
        progress.phase("removing", sum(len(topic.due) for topic in before.values()))
        removals = [(0, record) for topic_type, topic in before.items() for record in self._removals(topic_type, topic)]
        write_records([self.worker], counted(removals, progress.advance))
        return self._checked(made.file, before, self._look(progress), Counter(each.topic for _, each in removals))

    def _removals(self, topic_type: TopicType, topic: TopicContent) -> Iterator[Record]:
        for key in topic.due:
            record = removal(topic_type, topic.facts.topic, key, self.group)
            value = record.value if topic.seals is None else topic.seals.seal(key, record.value)
            if value is not None:
                yield replace(record, value=value)
            if record.value is None:
                yield record

    def _require_unchanged(self, before: Mapping[TopicType, TopicContent]) -> None:
        """Check that nothing was written under the group's keys since they were read: it would not be in the backup."""
        with admin_of(self.worker) as admin:
            require_no_live_workers(admin, self.group_id, side="retired")
            now = read_facts(admin, self.topic_set.topics.values())
        for topic_type, topic in before.items():
            written, _ = self._since(topic_type, topic.facts, now[topic.facts.topic])
            if written:
                raise CopyError(
                    f"{topic.facts.topic}: another writer has written under the keys of {self.shown} meanwhile; nothing was "
                    "removed. Find out who it is, and run the command again"
                )

    def _since(self, topic_type: TopicType, before: TopicFacts, now: TopicFacts) -> tuple[int, set[int]]:
        """Return how many records of the group were written since, and where others have written."""
        ranges = [
            OffsetRange(now.topic, number, before.ends.get(number, 0), end)
            for number, end in now.ends.items()
            if end > before.ends.get(number, 0)
        ]
        own, others = 0, set[int]()
        for record in read_records(self.worker, ranges, Isolation.READ_UNCOMMITTED):
            parts = None if record.key is None else split_key(topic_type, record.key)
            if parts is not None and parts[0] == self.group:
                own += 1
            else:
                others.add(_place(record))
        return own, others

    def _checked(
        self,
        backup: BackupFile,
        before: Mapping[TopicType, TopicContent],
        now: Mapping[TopicType, TopicContent],
        written: Mapping[str, int],
    ) -> Deleted:
        kept = wrote = 0
        for topic_type, topic in before.items():
            after = now[topic_type]
            found, since = self._since(topic_type, topic.facts, after.facts)
            if after.due or found > written.get(topic.facts.topic, 0):
                raise CopyError(
                    f"{topic.facts.topic}: another writer writes under the keys of {self.shown}. Find out who it is, and run "
                    f"the command again; what was there is in {backup.file}"
                )
            for key, value in topic.others.newest.items():
                if key in since:
                    wrote += 1
                elif after.others.newest.get(key, _REMOVED) != value:
                    raise CopyError(
                        f"{topic.facts.topic}: a record of another group is not what it was, and this command has not "
                        "written it: find out who writes or deletes records there"
                    )
                else:
                    kept += value != _REMOVED
        return Deleted(backup, {kind: len(topic.due) for kind, topic in before.items()}, kept, wrote)


def _place(record: Record) -> int:
    return _hash(record.partition.to_bytes(4, "big") + (record.key or b""))


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
