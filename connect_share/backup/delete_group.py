"""Removing all that a stopped group has on its topics, behind a backup, and the proof that no other group was touched.

A key of a shared config topic is removed by JSON null, others by tombstones, as Java does without sharing
(``docs/decisions/0002-config-position.md``). Removals of a sealed group are sealed; behind those of statuses and offsets
follows a tombstone, because no worker is left that would refuse it, and the cleaner takes both. A run that was killed is
completed by the next one: it removes what is still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from connect_share.backup.rewrite import Facts, NewestDigests, Rewrite, Rewritten, StoppedGroup, still_written
from connect_share.console import PLAIN, Group
from connect_share.errors import ConfigError, ConnectShareError, CopyError
from connect_share.files import Progress
from connect_share.kafka.facts import TopicFacts
from connect_share.model.keys import ClusterGroupId, connector_of, prefix_of, split_key
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal, removal
from connect_share.model.status import StatusFold
from connect_share.sealing import KEYS_PROPERTY, TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.worker_config import WorkerConfig


@dataclass
class TopicContent:
    """One topic as it was read.

    Attributes:
        keys: the group's keys; whether something of each is left to be removed.
        others: records of other groups, and with keys that are none of Connect's.
        groups: the other groups with a record.
        connectors: names that the keys to be removed have.
        sealed: sealed values of the group that were not opened.
    """

    facts: TopicFacts
    keys: dict[bytes, bool] = field(default_factory=dict, repr=False)
    others: NewestDigests = field(default_factory=NewestDigests)
    groups: set[Group] = field(default_factory=set)
    connectors: set[str] = field(default_factory=set)
    sealed: int = 0
    seals: TopicSeals | None = field(default=None, repr=False)

    @property
    def due(self) -> list[bytes]:
        """The keys that are to be removed."""
        return [key for key, is_due in self.keys.items() if is_due]


@dataclass(frozen=True)
class GroupDeletion(Rewrite[dict[TopicType, TopicContent]]):
    """One group that is to be removed from the topics of a worker file.

    Attributes:
        group: ``None`` is the cluster with plain keys.
        group_id: ``group.id`` of its workers.
    """

    name: ClassVar[str] = "delete"
    writing: ClassVar[str] = "removing"
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
        worker = WorkerConfig.from_file(worker_file)
        if name == worker.group_id:
            return cls(worker, worker.cluster_group_id, name)
        if name == PLAIN:
            if worker.sharing_enabled:
                raise ConfigError(
                    f"{worker_file} has topic sharing: give the worker file of the cluster with plain keys, whose group.id "
                    "says whether its workers live",
                    property_name="group.id",
                )
            return cls(worker, None, worker.group_id)
        group = ClusterGroupId(name)
        return cls(worker, group, group)

    @property
    def stopped(self) -> StoppedGroup:
        """The group."""
        return StoppedGroup(self.worker, self.group, self.group_id, "retired", "check the worker file")

    def look(self, progress: Progress | None = None) -> dict[TopicType, TopicContent]:
        """Return what there is and what would be removed; writes nothing.

        Raises:
            ConnectShareError: the group has no record there, or two clusters seem to have plain keys there. Or as said there.
        """
        found = super().look(progress)
        if not any(topic.keys for topic in found.values()):
            raise ConnectShareError(
                f"{', '.join(self.stopped.topics.values())} have no record of {self.stopped.shown}: names are exact, dots, "
                "dashes and case included"
            )
        return found

    def _read(self, facts: Facts, progress: Progress) -> dict[TopicType, TopicContent]:
        found = {topic_type: self._read_topic(topic_type, topic, progress) for topic_type, topic in facts.items()}
        sealed, shown = sum(topic.sealed for topic in found.values()), self.stopped.shown
        if sealed:
            raise ConfigError(
                f"{sealed:,} value(s) of {shown} are sealed: without its keys nobody would believe the removals. "
                f"Give the group's own worker file, with its keys in {KEYS_PROPERTY}",
                property_name=KEYS_PROPERTY,
            )
        return found

    def _read_topic(self, topic_type: TopicType, facts: TopicFacts, progress: Progress) -> TopicContent:
        is_own_file = self.group is not None and self.group == self.worker.cluster_group_id
        seals = self.worker.seals(topic_type) if is_own_file and self.worker.keys_in_use is not None else None
        topic, believed = TopicContent(facts, seals=seals), dict[bytes, bool]()
        plain_statuses = StatusFold(None) if topic_type is TopicType.STATUS and self.group is None else None
        for record in self.stopped.read(topic_type, facts, progress):
            parts = None if record.key is None else split_key(topic_type, record.key)
            if record.key is None or parts is None or parts[0] != self.group:
                topic.groups |= set() if parts is None else {parts[0]}
                value = None if is_removal(topic_type, record.value) else record.value
                place = (record.partition, record.offset, record.timestamp_ms)
                topic.others.add(*place, record.key, value, record.headers)
                continue
            if plain_statuses is not None:
                plain_statuses.apply(record)
            if seals is None:
                topic.sealed += self.group is not None and is_sealed(record.value)
                topic.keys[record.key] = not is_removal(topic_type, record.value)
                continue
            taken = seals.accepted(record)
            if taken is not None:
                believed[record.key] = not is_removal(topic_type, taken.value)
            sealed_config = topic_type is TopicType.CONFIG and taken is not None
            topic.keys[record.key] = believed.get(record.key, False) or not (sealed_config or record.value is None)
        if seals is not None:
            seals.end_start()
        if plain_statuses is not None and plain_statuses.clusters.found is not None:
            raise ConnectShareError(plain_statuses.clusters.found.warning(facts.topic))
        names = (connector_of(topic_type, key[len(prefix_of(self.group)) :]) for key in topic.due)
        topic.connectors = {name for name in names if name is not None}
        return topic

    def _outgoing(self, found: dict[TopicType, TopicContent]) -> tuple[int, Iterable[Record]]:
        removals = (record for topic_type, topic in found.items() for record in self._removals(topic_type, topic))
        return sum(len(topic.due) for topic in found.values()), removals

    def _removals(self, topic_type: TopicType, topic: TopicContent) -> Iterator[Record]:
        for key in topic.due:
            record = removal(topic_type, topic.facts.topic, key, self.group)
            value = record.value if topic.seals is None else topic.seals.seal(key, record.value)
            if value is not None:
                yield replace(record, value=value)
            if record.value is None:
                yield record

    def _compare(self, done: Deleted) -> None:
        for topic_type, topic in done.before.items():
            if done.after[topic_type].due:
                raise still_written(topic.facts.topic, self.stopped, done.path)
            after = done.after[topic_type].others.by_key
            if any(after.get(key) != digest for key, digest in _untouched(done, topic_type)):
                raise CopyError(
                    f"{topic.facts.topic}: a record of another group is not what it was, and this command has not "
                    "written it: find out who writes or deletes records there"
                )


Deleted = Rewritten[dict[TopicType, TopicContent]]


def _untouched(done: Deleted, topic_type: TopicType) -> Iterator[tuple[int, int]]:
    """Yield what others had, those keys apart that they have written meanwhile."""
    since, before = done.others[topic_type], done.before[topic_type].others.by_key
    return ((key, digest) for key, digest in before.items() if key not in since)


def count_others(done: Deleted) -> tuple[int, int]:
    """Return how many keys of others have a value, unchanged, and how many they have written meanwhile."""
    kept = sum(1 for topic_type in done.before for _ in _untouched(done, topic_type))
    return kept, sum(len(topic.others.by_key.keys() & done.others[kind]) for kind, topic in done.before.items())
