"""Sealing all values of a stopped group again with the first key of its worker file, or making them plain.

The newest believed value of each key is written once more under the same key and with the same time stamp; nothing is
removed before its value is there again. So a run that was killed is completed by the next one. Two runs at once write the
same values; where their forms differ, the one that looks last says so. A group's config topic is
written whole, in Connect's own order: what was written before a kill is behind what was not, and the order of task
configurations and commits means something (:mod:`connect_share.transform.canonical`).
"""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from connect_share.backup.rewrite import Facts, Rewrite, Rewritten, StoppedGroup
from connect_share.errors import AlreadyAppliedError, ConfigError, CopyError
from connect_share.files import Progress
from connect_share.kafka.facts import TopicFacts
from connect_share.model.keys import ClusterGroupId, ConfigKey, own_key, parse
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal, removal_value
from connect_share.sealing import KEYS_PROPERTY, KeyRing, Refusal, SealingMode, TopicSeals
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.transform.canonical import canonical_config
from connect_share.transform.rules import KeyTransform
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.worker import SEALING_PROPERTY

_ORDERED = frozenset({ConfigKey.TASK, ConfigKey.COMMIT})


@dataclass
class ResealTopic:
    """The group's keys on one topic, each by its newest record.

    Attributes:
        facts: the topic as it was read.
        seals: what opened them, and will seal.
        sealed: how many are sealed, by id of the key.
        plain: how many are plain, tombstones among them.
        refused: how many the group does not believe.
        believed: the newest value of each key that it does believe, opened, in the order of the topic.
        outgoing: what is written, not sealed yet.
    """

    facts: TopicFacts
    seals: TopicSeals = field(repr=False)
    sealed: Counter[int] = field(default_factory=Counter)
    plain: int = 0
    refused: int = 0
    believed: dict[bytes, Record] = field(default_factory=dict, repr=False)
    outgoing: list[Record] = field(default_factory=list, repr=False)

    def count(self, record: Record, *, is_believed: bool) -> None:
        """Count a key by its newest record."""
        if not is_believed:
            self.refused += 1
        elif is_sealed(record.value):
            self.sealed[key_id(record.value) or 0] += 1
        else:
            self.plain += 1


@dataclass(frozen=True)
class Reseal(Rewrite[dict[TopicType, ResealTopic]]):
    """One group whose values are to be written again.

    Attributes:
        worker_file: locked while values are written.
        worker: of the group.
        keys: of its worker file.
        plain: make the values plain.
    """

    name: ClassVar[str] = "reseal"
    worker_file: Path
    worker: WorkerConfig
    group: ClusterGroupId
    keys: KeyRing
    plain: bool

    @classmethod
    def of(cls, worker_file: Path, *, plain: bool) -> Reseal:
        """Read a worker file; needs no broker.

        Raises:
            ConfigError: the file is wrong, or has no keys, or its workers would not believe plain values.
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

    @property
    def stopped(self) -> StoppedGroup:
        """The group."""
        return StoppedGroup(self.worker, self.group, self.worker.group_id, "sealed", "the group has no such topic")

    def _read(self, facts: Facts, progress: Progress) -> dict[TopicType, ResealTopic]:
        return {topic_type: self._read_topic(topic_type, topic, progress) for topic_type, topic in facts.items()}

    def _read_topic(self, topic_type: TopicType, facts: TopicFacts, progress: Progress) -> ResealTopic:
        seals = TopicSeals(topic_type, self.group, self.keys, self.worker.sealing_mode)
        topic, newest, history = ResealTopic(facts, seals), dict[bytes, Record](), list[Record]()
        ends_believed: dict[bytes, bool] = {}
        for record in self.stopped.read(topic_type, facts, progress):
            key = record.key
            if key is None or own_key(topic_type, key, self.group) is None:
                continue
            newest[key], taken = record, seals.accepted(record)
            ends_believed[key] = taken is not None
            if taken is not None:
                topic.believed.pop(key, None)
                topic.believed[key] = taken
                if topic_type is TopicType.CONFIG:
                    history.append(taken)
        seals.end_start()
        for key, record in newest.items():
            topic.count(record, is_believed=ends_believed[key])
        due = {key for key in topic.believed if not (ends_believed[key] and self._is_done(newest[key].value))}
        if due and topic_type is TopicType.CONFIG:
            topic.outgoing = self._in_order(history, topic.believed)
        else:
            topic.outgoing = [record for key, record in topic.believed.items() if key in due]
        return topic

    def _is_done(self, value: bytes | None) -> bool:
        if not is_sealed(value):
            return self.plain
        return not self.plain and key_id(value) == self.keys.sealing_id

    def _in_order(self, history: list[Record], believed: Mapping[bytes, Record]) -> list[Record]:
        """Return all that the group believes on the config topic, in an order that does not depend on an earlier run.

        Task configurations that no worker uses are removed first, and so are commits without tasks: written again behind
        their connector they would come into force.
        """
        transform = KeyTransform.between(TopicType.CONFIG, self.group, self.group)
        ordered = canonical_config(transform, history).records
        used = {record.key for record in ordered}
        others = [record for key, record in believed.items() if key not in used]
        removed = removal_value(TopicType.CONFIG, self.group)
        return [replace(each, value=removed) if self._is_left_over(each) else each for each in others] + ordered

    def _is_left_over(self, record: Record) -> bool:
        key = parse(TopicType.CONFIG, (record.key or b"")[len(self.group.prefix) :])
        return key is not None and key.kind in _ORDERED

    def write(self, backup: Path, progress: Progress | None = None) -> Rewritten[dict[TopicType, ResealTopic]]:
        """Write a backup, then the values; may be repeated.

        Raises:
            AlreadyAppliedError: another process on this machine is at it. Or as said there.
        """
        with _only_one(self.worker_file):
            return super().write(backup, progress)

    def _outgoing(self, found: dict[TopicType, ResealTopic]) -> tuple[int, Iterable[Record]]:
        sealed = (record for topic_type, topic in found.items() for record in self._sealed(topic_type, topic))
        return sum(len(topic.outgoing) for topic in found.values()), sealed

    def _sealed(self, topic_type: TopicType, topic: ResealTopic) -> Iterator[Record]:
        for record in topic.outgoing:
            value = removal_value(topic_type, self.group) if record.value is None else record.value
            if not self.plain:
                value = topic.seals.seal(record.key or b"", value)
            yield replace(record, value=value)

    def _compare(self, done: Rewritten[dict[TopicType, ResealTopic]]) -> None:
        for topic_type, topic in done.before.items():
            _check(topic_type, topic, done.after[topic_type])


@contextmanager
def _only_one(worker_file: Path) -> Iterator[None]:
    with worker_file.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyAppliedError(
                f"another process is writing the values of {worker_file} again right now"
            ) from None
        yield


def _check(topic_type: TopicType, before: ResealTopic, now: ResealTopic) -> None:
    """Check that all is written, and that the values are the same.

    Raises:
        CopyError: they are not.
    """
    expected = {key: record.value for key, record in before.believed.items()}
    expected |= {record.key or b"": record.value for record in before.outgoing}
    values = {key: record.value for key, record in now.believed.items()}
    same = all(
        is_removal(topic_type, values.get(key)) if is_removal(topic_type, value) else values.get(key) == value
        for key, value in expected.items()
    )
    if now.outgoing or not same or not values.keys() <= expected.keys():
        raise CopyError(
            f"{before.facts.topic}: the values are not those that were written: another writer has written meanwhile. Find "
            "out who it is, and run the command again"
        )


def refused_plain(topics: Mapping[TopicType, ResealTopic]) -> int:
    """Return how many records were refused only because they are plain."""
    reasons = (Refusal.PLAIN, Refusal.TOMBSTONE)
    return sum(topic.seals.refused[reason] for topic in topics.values() for reason in reasons)
