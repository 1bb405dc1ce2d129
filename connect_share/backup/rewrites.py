"""What delete group, repair and reseal write in place of what a stopped group has.

Each writes what depends on what is there, so a run that was killed is completed by the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from connect_share.backup.changes import hash_of
from connect_share.backup.rewrite import Facts, Rewrite, Rewritten, Sample, StoppedGroup, key_hash
from connect_share.checks.order import Order
from connect_share.checks.orphans import is_lost, orphans_of
from connect_share.checks.sources import GroupRecords, GroupState
from connect_share.checks.values import REPAIRED
from connect_share.console.options import PLAIN, Group
from connect_share.contents.groups import GroupFold
from connect_share.errors import ConfigError, ConnectShareError, CopyError
from connect_share.files import SILENT, Progress, lock_alone, open_to_lock
from connect_share.kafka.create import lost_topics
from connect_share.kafka.facts import TopicFacts
from connect_share.model.config import (
    connector_config_record,
    target_state_record,
    task_commit_record,
    task_config_record,
)
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.connect_json import JSON_NULL, dumps
from connect_share.model.keys import (
    MARKER,
    ClusterGroupId,
    ConfigKey,
    Key,
    StatusKey,
    Subject,
    connector_of,
    own_key,
    parse,
    prefix_of,
    split_key,
)
from connect_share.model.murmur2 import partition_for
from connect_share.model.places import KeyPlaces, dated
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.model.removal import OLDEST_MS, is_removal, removal, removal_value
from connect_share.model.status import StatusFold
from connect_share.sealing import KEYS_PROPERTY, SEALING_PROPERTY, KeyRing, Refusal, SealingMode, TopicSeals
from connect_share.sealing.cipher import Cipher, is_sealed, key_id
from connect_share.transform.canonical import canonical_config
from connect_share.transform.rules import KeyTransform
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.worker import file_of


@dataclass
class TopicContent:
    """One topic as it was read.

    Attributes:
        keys: the group's keys; whether something of each is left to be removed.
        others: the living keys of other groups, and those that are none of Connect's.
        groups: the other groups with a record on any topic; ``is_shared``: on this one.
        connectors: names that the keys to be removed have.
        claims: of keys at which nothing opens the id of the key that the newest value claims, ``None``: it is too short.
        opened: ids of the keys under which anything opens, 0: it is plain.
    """

    facts: TopicFacts
    seals: TopicSeals = field(repr=False)
    keys: dict[bytes, bool] = field(default_factory=dict, repr=False)
    others: Sample = field(default_factory=Sample, repr=False)
    groups: Sample = field(default_factory=Sample, repr=False)
    is_shared: bool = False
    connectors: set[str] = field(default_factory=set)
    claims: dict[bytes, int | None] = field(default_factory=dict, repr=False)
    opened: set[int] = field(default_factory=set)

    @property
    def due(self) -> list[bytes]:
        """The keys that are to be removed."""
        return [key for key, is_due in self.keys.items() if is_due]


@dataclass(frozen=True)
class GroupDeletion(Rewrite[dict[TopicType, TopicContent]]):
    """One group that is to be removed from the topics of a worker file, and the proof that no other group was touched.

    A key of a shared config topic is removed by JSON null, others by tombstones, as Java does without sharing
    (``docs/decisions/0002-config-position.md``). Removals of a sealed group are sealed; behind those of statuses and offsets
    follows a tombstone, because no worker is left that would refuse it, and the cleaner takes both.

    Attributes:
        group: ``None`` is the cluster with plain keys.
        group_id: ``group.id`` of its workers.
    """

    name: ClassVar[str] = "delete"
    writing: ClassVar[str] = "removing"
    side: ClassVar[str] = "retired"
    what: ClassVar[str] = "all that {} has"
    again: ClassVar[str] = "If the group is to go all the same, run the command again"
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

    @cached_property
    def stopped(self) -> StoppedGroup:
        """The group, which may be another one than that of the worker file."""
        return StoppedGroup(self.worker, self.group, self.group_id, self.side, again=self.again)

    def look(self, progress: Progress = SILENT, *, beside_workers: bool = False) -> dict[TopicType, TopicContent]:
        """Return what there is and what would be removed; writes nothing.

        A group without any record there is refused, and plain keys that two clusters seem to share.
        """
        found = super().look(progress, beside_workers=beside_workers)
        if not any(topic.keys for topic in found.values()):
            raise ConnectShareError(
                f"{', '.join(self.stopped.topics.values())} have no record of {self.stopped.shown}: names are exact, dots, "
                "dashes and case included"
            )
        return found

    def _read(self, facts: Facts, progress: Progress) -> dict[TopicType, TopicContent]:
        groups = Sample()
        found = {kind: TopicContent(topic, self._seals(kind), groups=groups) for kind, topic in facts.items()}
        for topic_type, topic in found.items():
            self._read_topic(topic_type, topic, progress)
            names = (connector_of(topic_type, key[len(prefix_of(self.group)) :]) for key in topic.due)
            topic.connectors = {name for name in names if name is not None}
        self._require_known(found)
        return found

    def _seals(self, topic_type: TopicType) -> TopicSeals:
        is_own = self.group == self.worker.cluster_group_id
        return self.worker.seals(topic_type) if is_own else TopicSeals(topic_type, None)

    def _require_known(self, found: dict[TopicType, TopicContent]) -> None:
        """Refuse where the worker file vouches for the group, or no other group is there: it is no orphan then."""
        config, length = found[TopicType.CONFIG], len(prefix_of(self.group))
        is_orphan = self.group != self.worker.cluster_group_id and config.is_shared
        named = any(connector_of(TopicType.CONFIG, key[length:]) for key in config.keys)
        if not is_orphan and not named and any(topic.due for topic in found.values()):
            what = f"has no record that names a connector of {self.stopped.shown}, and other topics have"
            raise lost_topics({TopicType.CONFIG: config.facts.topic}, what)

    def _own(
        self, topic_type: TopicType, topic: TopicContent, progress: Progress
    ) -> Iterator[tuple[bytes, Record, bool]]:
        """Yield the group's records, with their keys and whether these live, and note those of others."""
        length = len(prefix_of(self.group))
        for record in self.stopped.read(topic_type, topic.facts, progress):
            parts = None if record.key is None else split_key(topic_type, record.key)
            if record.key is not None and parts is not None and parts[0] == self.group:
                lives = bool(self.stopped.places[topic_type].living(hash_of(record.key[length:])))
                yield record.key, record, lives and not (topic_type is TopicType.CONFIG and record.value == JSON_NULL)
                continue
            if parts is not None:
                topic.groups.add(hash(parts[0]))
                topic.is_shared = True
            is_removed, at = is_removal(topic_type, record.value), key_hash(record.partition, record.key)
            (topic.others.hashes.discard if is_removed else topic.others.add)(at)

    def _read_topic(self, topic_type: TopicType, topic: TopicContent, progress: Progress) -> None:
        accepted, living = KeyPlaces(partial(len, topic.facts.ends)), set[bytes]()
        plain_statuses = StatusFold(None) if topic_type is TopicType.STATUS and self.group is None else None
        for key, record, lives in self._own(topic_type, topic, progress):
            if plain_statuses is not None:
                plain_statuses.apply(record)
            taken = topic.seals.accepted(record)
            if taken is not None:
                removed = is_removal(topic_type, accepted.take(key, taken).value)
                (living.discard if removed else living.add)(key)
            sealed_config = topic_type is TopicType.CONFIG and taken is not None
            topic.keys[key] = key in living or (lives and not sealed_config)
        fence = prefix_of(self.group) + MARKER[0]
        if topic_type is TopicType.CONFIG and fence in topic.keys:
            topic.keys[fence] = False  # a group that was moved away stays fenced
        if plain_statuses is not None and plain_statuses.clusters.found is not None:
            raise ConnectShareError(plain_statuses.clusters.found.warning(topic.facts.topic))

    def _outgoing(self, found: dict[TopicType, TopicContent]) -> tuple[int, Iterable[Record]]:
        removals = (record for topic_type, topic in found.items() for record in self._removals(topic_type, topic))
        return sum(len(topic.due) for topic in found.values()), removals

    def _removals(self, topic_type: TopicType, topic: TopicContent) -> Iterator[Record]:
        for key in topic.due:
            record = removal(topic_type, topic.facts.topic, key, self.group)
            value = topic.seals.seal(key, record.value)
            if value is not None:
                yield replace(record, value=value)
            if record.value is None:
                yield record

    def _compare(self, done: Deleted) -> None:
        for topic_type, topic in done.before.items():
            if done.after[topic_type].due:
                raise CopyError(
                    f"{topic.facts.topic}: keys of {self.stopped.shown} are still there; run the command again"
                )
            if topic.others.without(done.after[topic_type].others, done.others[topic_type]):
                raise CopyError(
                    f"{topic.facts.topic}: a record of another group is gone, and this command has not written it: find out "
                    "who writes or deletes records there"
                )


@dataclass(frozen=True)
class RefusedKeys(GroupDeletion):
    """Keys of the group of a worker file at which nothing opens: nobody but strangers wrote there, or the cleaner took it."""

    name: ClassVar[str] = "repair"
    side: ClassVar[str] = "repaired"
    what: ClassVar[str] = "what lies under keys of {} at which nothing opens that the group wrote"
    again: ClassVar[str] = StoppedGroup.again

    def _require_known(self, found: dict[TopicType, TopicContent]) -> None:
        """Refuse where the keys of the worker file are not known to be those of the group."""
        opened = set[int]().union(*(topic.opened for topic in found.values()))
        keys = () if self.worker.keys_in_use is None else self.worker.keys_in_use.ids
        doubtful = {claim for topic in found.values() for claim in topic.claims.values() if claim in keys} - opened
        if not found[TopicType.CONFIG].opened or doubtful:
            under = f" under key {', '.join(map(str, sorted(filter(None, doubtful))))}" if doubtful else ""
            raise ConnectShareError(
                f"no value of {self.stopped.shown} opens{under}: the key may be another one than that of the group, and then "
                f"nothing tells what strangers wrote. Look at {KEYS_PROPERTY} first"
            )

    def _read_topic(self, topic_type: TopicType, topic: TopicContent, progress: Progress) -> None:
        opens = set[bytes]()
        for key, record, _ in self._own(topic_type, topic, progress):
            topic.claims[key] = key_id(record.value) if is_sealed(record.value) else 0
            if topic.seals.accepted(record) is not None:
                opens.add(key)
                topic.opened.add(topic.claims[key] or 0)
        topic.keys = {key: key not in opens for key in topic.claims}
        topic.claims = {key: topic.claims[key] for key in topic.due}

    def _removals(self, topic_type: TopicType, topic: TopicContent) -> Iterator[Record]:
        for key in topic.due:
            record, keys = removal(topic_type, topic.facts.topic, key, self.group), self.worker.keys_in_use
            if keys is not None:  # older than whatever the group may write: it replaces nothing
                record = replace(record, value=Cipher(keys, topic_type).seal(key, record.value, OLDEST_MS))
            yield record


Deleted = Rewritten[dict[TopicType, TopicContent]]


def count_others(done: Deleted) -> tuple[int, int]:
    """Return how many living keys of others nobody has written, and how many they have written meanwhile."""
    kept = sum(len(topic.others.without(done.others[topic_type])) for topic_type, topic in done.before.items())
    return kept, sum(len(topic.others) for topic in done.before.values()) - kept


@dataclass(frozen=True)
class Mending:
    """What is to be written.

    Attributes:
        connectors: whose records.
        records: values not sealed yet; ``None`` removes.
        configured: connectors whose configuration, target state or tasks become other ones.
    """

    connectors: tuple[str, ...]
    records: tuple[Record, ...] = field(repr=False)
    configured: frozenset[str] = frozenset()


Plan = Callable[[GroupState, Mapping[TopicType, str]], Mending]
"""Returns what is to be written for a state of the topics with these names."""


def plan_order(state: GroupState, _: Mapping[TopicType, str]) -> Mending:
    """Return task configurations and commits, to be written behind their connectors."""
    order = Order(state)
    return Mending(tuple(sorted({*order.dropped, *order.doomed})), tuple(order.records))


def plan_orphans(state: GroupState, topics: Mapping[TopicType, str], *, with_offsets: bool) -> Mending:
    """Return removals of what belongs to no connector; source offsets only where that is wanted.

    ``LostTopicError``: all belongs to none, for the config topic was made anew, or emptied.
    """
    if is_lost(state):
        what = "has no record that names a connector, others have"
        raise lost_topics({TopicType.CONFIG: topics[TopicType.CONFIG]}, what)
    orphans, group = orphans_of(state, topics), state.group
    kinds = [each for each in topics if with_offsets or each is not TopicType.OFFSET]
    keys = [(topic_type, original) for topic_type in kinds for original in orphans.keys(topic_type)]
    return Mending(
        tuple(sorted({connector_of(*each) or "" for each in keys})),
        tuple(removal(kind, topics[kind], prefix_of(group) + original, group) for kind, original in keys),
    )


def plan_values(state: GroupState, topics: Mapping[TopicType, str]) -> Mending:
    """Return what takes the place of values of the config topic that no store would have written.

    That is what the workers of the group have of them, each property as text. The tasks and their commit are written behind
    their connector. What no worker has is removed.
    """
    config, group, topic = state.config, state.group, topics[TopicType.CONFIG]
    made: list[tuple[bytes, bytes | None]] = []
    bad = {
        key: found for key in state.config_faults if (found := parse(TopicType.CONFIG, key)) and found.kind in REPAIRED
    }
    by_name: dict[str, list[Key]] = {}
    for key in bad.values():
        by_name.setdefault(connector_of(TopicType.CONFIG, key.original) or "", []).append(key)
    for name, keys in sorted(by_name.items()):
        target, tasks = config.target_state(name), config.tasks(name)
        there = {ConfigKey.TASK.key(task) for task in tasks}
        gone = [key.original for key in keys if key.kind is ConfigKey.TASK and key.original not in there]
        if not config.contains(name):
            gone = [key.original for key in keys if key.kind is not ConfigKey.TARGET_STATE or target is None]
        made += [(original, removal_value(TopicType.CONFIG, group)) for original in gone]
        if target is not None and ConfigKey.TARGET_STATE.key(name) in bad:
            made.append(target_state_record(name, target))
        if config.contains(name) and any(key.kind is not ConfigKey.TARGET_STATE for key in keys):
            made.append(connector_config_record(name, _as_text(config.connector_config(name))))
            made += [task_config_record(task, _as_text(config.task_config(task))) for task in tasks]
            made += [task_commit_record(name, len(tasks))] if tasks else []
    at_ms, prefix = now_ms(), prefix_of(group)
    records = tuple(Record(topic, 0, 0, at_ms, prefix + original, value) for original, value in made)
    return Mending(tuple(sorted(by_name)), records, frozenset(by_name))


def _as_text(properties: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {
        name: value if value is None or isinstance(value, str) else dumps(value).decode()
        for name, value in (properties or {}).items()
    }


@dataclass
class Seen:
    """What was read.

    Attributes:
        seals: seal what is written later than all that was read.
        mending: what is to be written.
        expected: the state of the group when that is written.
    """

    seals: Mapping[TopicType, TopicSeals] = field(repr=False)
    mending: Mending
    expected: GroupState


@dataclass(frozen=True)
class Repair(Rewrite[Seen]):
    """The group of a worker file, and how its records are mended.

    The topics are replayed again afterwards: what has to stay must be the same, and nothing to be mended may be left.
    """

    name: ClassVar[str] = "repair"
    side: ClassVar[str] = "repaired"
    worker: WorkerConfig
    plan: Plan

    def _read(self, facts: Facts, progress: Progress) -> Seen:
        stopped = self.stopped
        group, names = stopped.group, stopped.topics
        kept = GroupRecords(group)
        folds = {
            each: GroupFold(each, group, self.worker, partial(len, facts[each].ends) if each in facts else int)
            for each in TopicType
        }
        for topic_type, topic in facts.items():
            fold = folds[topic_type]
            for record in stopped.read(topic_type, topic, progress):
                original = None if record.key is None else own_key(topic_type, record.key, group)
                if original is not None:
                    if (opened := fold.open(record)) is not None:
                        fold.fold.apply(opened)
                    kept.add(topic_type, original, opened)
        state = _state(folds, kept)
        mending = self.plan(state, names)
        for record, place in stopped.everywhere(mending.records):
            topic_type = _type_of(names, record)
            count = len(facts[topic_type].ends) if topic_type in facts else 1
            at = partition_for(record.key or b"", count) if place < 0 else place
            folds[topic_type].fold.apply(replace(record, partition=at))  # not sealed yet
        expected = _state(folds, kept)
        if _stays(state, mending) != _stays(expected, mending):
            raise CopyError(
                "what would be written would change more than it should: nothing was written; please report this"
            )
        seals = {each: fold.seals for each, fold in folds.items() if fold.seals is not None}
        return Seen(seals, mending, expected)

    def _outgoing(self, found: Seen) -> tuple[int, Iterable[Record]]:
        return len(found.mending.records), self._sealed(found)

    def _sealed(self, found: Seen) -> Iterator[Record]:
        for record in found.mending.records:
            seals = found.seals[_type_of(self.stopped.topics, record)]
            yield replace(record, value=seals.seal(record.key or b"", record.value))

    def _compare(self, done: Rewritten[Seen]) -> None:
        left = len(done.after.mending.records)
        if left or _all_of(done.before.expected) != _all_of(done.after.expected):
            what = f"{left:,} record(s) are still to be mended" if left else "something else changed"
            raise CopyError(
                f"the replay is not as expected: {what}; {self.stopped.restoring(done.path)} puts back what was"
            )


def _type_of(topics: Mapping[TopicType, str], record: Record) -> TopicType:
    return next(topic_type for topic_type, topic in topics.items() if topic == record.topic)


def _state(folds: Mapping[TopicType, GroupFold], kept: GroupRecords) -> GroupState:
    config, status, offsets = (folds[each].snapshot() for each in TopicType)
    return GroupState(kept.group, config, status, offsets, kept)


def _all_of(state: GroupState) -> tuple[object, ...]:
    """Return all that counts of a group, its position apart."""
    config = state.config
    names = {*config.connectors(), *config.target_states(), *config.task_count_records()}
    return ({name: _one_of(config, name) for name in names}, config.session_key, state.status, dict(state.offsets.raw))


def _one_of(config: ClusterConfigState, name: str) -> tuple[object, ...]:
    tasks = {task.task: config.task_config(task) for task in config.tasks(name)}
    return (config.connector_config(name), config.target_state(name), config.task_count_record(name), tasks)


def _stays(state: GroupState, mending: Mending) -> tuple[object, ...]:
    """Return what must not change: all of the connectors that are there, apart from tasks that come back."""
    config, status = state.config, state.status
    names = config.connectors()
    originals = ((record.key or b"")[len(prefix_of(state.group)) :] for record in mending.records)
    removed = {key.subject for each in originals if (key := parse(TopicType.STATUS, each)) is not None}
    tasks = (task for name in names for task in status.task_statuses(name))
    return (
        config.session_key,
        {name: _one_of(config, name)[: 3 if name in mending.connectors else 4] for name in names - mending.configured},
        {name: (status.connector_status(name), status.topic_statuses(name)) for name in names},
        [task for task in tasks if Subject(task.task_id.connector, StatusKey.TASK, task.task_id.task) not in removed],
        {key: value for key, value in state.offsets.raw.items() if connector_of(TopicType.OFFSET, key) in names},
    )


_ORDERED = frozenset({ConfigKey.TASK, ConfigKey.COMMIT})


@dataclass
class ResealTopic:
    """The group's keys on one topic, each by its newest record; one in several partitions counts in each.

    Attributes:
        facts: the topic as it was read.
        seals: what opened them, and will seal.
        sealed: how many are sealed, by id of the key.
        plain: how many are plain, tombstones among them.
        refused: how many the group does not accept.
        accepted: the newest value of each key that it does accept, opened, in the order of the topic.
        outgoing: what is written, not sealed yet.
    """

    facts: TopicFacts
    seals: TopicSeals = field(repr=False)
    sealed: Counter[int] = field(default_factory=Counter)
    plain: int = 0
    refused: int = 0
    accepted: dict[bytes, Record] = field(default_factory=dict, repr=False)
    outgoing: list[Record] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Reseal(Rewrite[dict[TopicType, ResealTopic]]):
    """One group whose values are to be sealed again with the first key of its worker file, or made plain.

    The newest accepted value of each key is written once more under the same key and with the same time stamp; nothing is
    removed before its value is there again. Two runs at once write the same values; where their forms differ, the one that
    looks last says so. A config topic is written whole, in Connect's own order: what was written before a kill is behind what
    was not, and the order of task configurations and commits means something (:mod:`connect_share.transform.canonical`).

    Attributes:
        worker_file: locked while values are written.
        worker: of the group.
        keys: of its worker file.
        plain: make the values plain.
    """

    name: ClassVar[str] = "reseal"
    side: ClassVar[str] = "sealed"
    worker_file: Path
    worker: WorkerConfig
    group: ClusterGroupId
    keys: KeyRing
    plain: bool

    @classmethod
    def of(cls, worker_file: Path, *, plain: bool) -> Reseal:
        """Read a worker file; needs no broker.

        ``ConfigError``: the file is wrong, or has no keys, or its workers would not accept plain values.
        """
        worker = WorkerConfig.from_file(worker_file)
        keys = worker.keys_in_use
        if keys is None:
            raise ConfigError(
                f"{worker_file}: {KEYS_PROPERTY} is missing, or {SEALING_PROPERTY}=off: without keys nothing is opened or "
                "sealed",
                property_name=KEYS_PROPERTY,
            )
        if plain and worker.sealing_mode is not SealingMode.ACCEPT:
            raise ConfigError(
                f"{worker_file}: its workers would refuse plain values: set {SEALING_PROPERTY}=accept",
                property_name=SEALING_PROPERTY,
            )
        return cls(worker_file, worker, ClusterGroupId(worker.group_id), keys, plain)

    def _read(self, facts: Facts, progress: Progress) -> dict[TopicType, ResealTopic]:
        return {topic_type: self._read_topic(topic_type, topic, progress) for topic_type, topic in facts.items()}

    def _read_topic(self, topic_type: TopicType, facts: TopicFacts, progress: Progress) -> ResealTopic:
        seals = TopicSeals(topic_type, self.group, self.keys, self.worker.sealing_mode)
        topic, history = ResealTopic(facts, seals), list[Record]()
        accepted, newest = KeyPlaces(partial(len, facts.ends)), dict[tuple[bytes, int], tuple[Record, bool]]()

        def value_of(key: bytes) -> bytes | None:
            return topic.accepted[key].value if key in topic.accepted else None

        for record in self.stopped.read(topic_type, facts, progress):
            key = record.key
            if key is None or own_key(topic_type, key, self.group) is None:
                continue
            taken = seals.accepted(record)
            newest[key, record.partition] = record, taken is not None
            if taken is not None:
                counts = accepted.take(key, taken, value_of)
                topic.accepted.pop(key, None)
                topic.accepted[key] = counts
                if topic_type is TopicType.CONFIG:
                    history.append(taken)
        left = set[bytes]()
        for (key, partition), (record, is_accepted) in newest.items():
            if not is_accepted:
                topic.refused += 1
            elif is_sealed(record.value):
                topic.sealed[key_id(record.value) or 0] += 1
            else:
                topic.plain += 1
            is_done = is_accepted and self._is_done(record.value)
            # What lies under a stranger's tombstone elsewhere is gone, and nothing is written there.
            is_gone = record.value is None and partition != partition_for(key, len(facts.ends))
            left |= set() if is_done or is_gone else {key}
        due = left & topic.accepted.keys()
        if due and topic_type is TopicType.CONFIG:
            topic.outgoing = self._in_order(history, topic.accepted)
        else:
            topic.outgoing = [record for key, record in topic.accepted.items() if key in due]
        return topic

    def _is_done(self, value: bytes | None) -> bool:
        if not is_sealed(value):
            return self.plain
        return not self.plain and key_id(value) == self.keys.sealing_id

    def _in_order(self, history: list[Record], accepted: Mapping[bytes, Record]) -> list[Record]:
        """Return all that the group accepts on the config topic, in an order that does not depend on an earlier run.

        Task configurations that no worker uses are removed first, and so are commits without tasks: written again behind
        their connector they would come into force.
        """
        transform = KeyTransform.between(TopicType.CONFIG, self.group, self.group)
        ordered = canonical_config(transform, history).records
        used = {record.key for record in ordered}
        others = [record for key, record in accepted.items() if key not in used]
        removed, prefix = removal_value(TopicType.CONFIG, self.group), len(self.group.prefix)
        keys = [parse(TopicType.CONFIG, (record.key or b"")[prefix:]) for record in others]
        return [
            replace(each, value=removed) if key is not None and key.kind in _ORDERED else each
            for each, key in zip(others, keys, strict=True)
        ] + ordered

    def write(self, backup: Path, progress: Progress = SILENT) -> Rewritten[dict[TopicType, ResealTopic]]:
        """Write a backup, then the values; may be repeated.

        ``AlreadyAppliedError``: another process on this machine is at it.
        """
        with open_to_lock(file_of(self.worker_file)) as file:
            lock_alone(file, f"is writing the values of {self.worker_file} again")
            return super().write(backup, progress)

    def _outgoing(self, found: dict[TopicType, ResealTopic]) -> tuple[int, Iterable[Record]]:
        sealed = (record for topic_type, topic in found.items() for record in self._sealed(topic_type, topic))
        return sum(len(topic.outgoing) for topic in found.values()), sealed

    def _sealed(self, topic_type: TopicType, topic: ResealTopic) -> Iterator[Record]:
        for record in topic.outgoing:
            value = removal_value(topic_type, self.group) if record.value is None else record.value
            if not self.plain:
                value = topic.seals.seal(record.key or b"", value)
            yield replace(dated(record), value=value)

    def _compare(self, done: Rewritten[dict[TopicType, ResealTopic]]) -> None:
        for topic_type, before in done.before.items():
            expected = {key: record.value for key, record in before.accepted.items()}
            expected |= {record.key or b"": record.value for record in before.outgoing}
            values = {key: record.value for key, record in done.after[topic_type].accepted.items()}
            same = all(
                is_removal(topic_type, values.get(key)) if is_removal(topic_type, value) else values.get(key) == value
                for key, value in expected.items()
            )
            if done.after[topic_type].outgoing or not same or not values.keys() <= expected.keys():
                topic = before.facts.topic
                raise CopyError(f"{topic}: the values are not those that were written; run the command again")


def refused_plain(topics: Mapping[TopicType, ResealTopic]) -> int:
    """Return how many records were refused only because they are plain."""
    reasons = (Refusal.PLAIN, Refusal.TOMBSTONE)
    return sum(topic.seals.refused[reason] for topic in topics.values() for reason in reasons)
