"""Mending what ``check order`` and ``check orphans`` find in the records of one stopped group.

What is written depends on what a replay of the topics believes, so a run that was killed is completed by the next one. The
replay is repeated afterwards: what has to stay must be the same, and nothing to be mended may be left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from connect_share.backup.rewrite import Facts, Rewrite, Rewritten, StoppedGroup
from connect_share.checks.order import Order
from connect_share.checks.orphans import orphans_of
from connect_share.checks.sources import GroupRecords, GroupState
from connect_share.console import Group
from connect_share.contents.groups import GroupFold
from connect_share.errors import CopyError
from connect_share.files import Progress
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import StatusKey, Subject, connector_of, own_key, parse, prefix_of
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import removal
from connect_share.sealing import TopicSeals
from connect_share.worker_config import WorkerConfig


@dataclass(frozen=True)
class Mending:
    """What is to be written.

    Attributes:
        connectors: whose records.
        records: values not sealed yet; ``None`` removes.
    """

    connectors: tuple[str, ...]
    records: tuple[Record, ...] = field(repr=False)


Plan = Callable[[GroupState, Mapping[TopicType, str]], Mending]
"""Returns what is to be written for a state of the topics with these names."""


def plan_order(state: GroupState, _: Mapping[TopicType, str]) -> Mending:
    """Return task configurations and commits, to be written behind their connectors."""
    order = Order(state)
    return Mending(tuple(sorted({*order.dropped, *order.doomed})), tuple(order.records))


def plan_orphans(state: GroupState, topics: Mapping[TopicType, str], *, with_offsets: bool) -> Mending:
    """Return removals of what belongs to no connector; source offsets only where that is wanted."""
    orphans, group = orphans_of(state, topics), state.group
    kinds = [each for each in topics if with_offsets or each is not TopicType.OFFSET]
    keys = [(topic_type, original) for topic_type in kinds for original in orphans.keys(topic_type)]
    return Mending(
        tuple(sorted({connector_of(*each) or "" for each in keys})),
        tuple(removal(kind, topics[kind], prefix_of(group) + original, group) for kind, original in keys),
    )


@dataclass
class Seen:
    """What was read.

    Attributes:
        seals: seal what is written later than all that was read.
        mending: what is to be written.
        expected: the state of the group when that is written.
    """

    seals: Mapping[TopicType, TopicSeals | None] = field(repr=False)
    mending: Mending
    expected: GroupState


@dataclass(frozen=True)
class Repair(Rewrite[Seen]):
    """The group of a worker file, and how its records are mended."""

    name: ClassVar[str] = "repair"
    worker: WorkerConfig
    plan: Plan

    @property
    def stopped(self) -> StoppedGroup:
        """The group."""
        worker = self.worker
        remedy = "so there is nothing to repair"
        return StoppedGroup(worker, worker.cluster_group_id, worker.group_id, "repaired", remedy)

    def _read(self, facts: Facts, progress: Progress) -> Seen:
        stopped = self.stopped
        group, names = stopped.group, stopped.topics
        kept, folds = GroupRecords(group), {each: GroupFold(each, group, self.worker) for each in TopicType}
        for topic_type, topic in facts.items():
            fold = folds[topic_type]
            for record in stopped.read(topic_type, topic, progress):
                original = None if record.key is None else own_key(topic_type, record.key, group)
                if original is not None:
                    kept.add(topic_type, original, fold.apply(record))
            if fold.seals is not None:
                fold.seals.end_start()
        state = _state(folds, kept)
        mending = self.plan(state, names)
        for record in mending.records:
            folds[_type_of(names, record)].fold.apply(record)  # not sealed yet
        expected = _state(folds, kept)
        if _stays(state, mending) != _stays(expected, mending):
            raise CopyError(
                "what would be written would change more than it should: nothing was written; please report this"
            )
        return Seen({each: fold.seals for each, fold in folds.items()}, mending, expected)

    def _outgoing(self, found: Seen) -> tuple[int, Iterable[Record]]:
        return len(found.mending.records), self._sealed(found)

    def _sealed(self, found: Seen) -> Iterator[Record]:
        for record in found.mending.records:
            seals = found.seals[_type_of(self.stopped.topics, record)]
            yield record if seals is None else replace(record, value=seals.seal(record.key or b"", record.value))

    def _compare(self, done: Rewritten[Seen]) -> None:
        left = len(done.after.mending.records)
        if left or _beliefs(done.before.expected) != _beliefs(done.after.expected):
            what = f"{left:,} record(s) are still to be mended" if left else "something else changed"
            raise CopyError(
                f"the replay is not as expected: {what}. Another writer has written meanwhile, or a key lies in two "
                f"partitions; the state before is in {done.path}, which connect-share restore puts back"
            )


def _type_of(topics: Mapping[TopicType, str], record: Record) -> TopicType:
    return next(topic_type for topic_type, topic in topics.items() if topic == record.topic)


def _state(folds: Mapping[TopicType, GroupFold], kept: GroupRecords) -> GroupState:
    config, status, offsets = (
        folds[each].snapshot() for each in (TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET)
    )
    return GroupState(kept.group, config, status, offsets, kept)


def _beliefs(state: GroupState) -> tuple[object, ...]:
    """Return all that is believed of a group, its position apart."""
    config = state.config
    names = {*config.connectors(), *config.target_states(), *config.task_count_records()}
    return ({name: _belief(config, name) for name in names}, config.session_key, state.status, dict(state.offsets.raw))


def _belief(config: ClusterConfigState, name: str) -> tuple[object, ...]:
    tasks = {task.task: config.task_config(task) for task in config.tasks(name)}
    return (config.connector_config(name), config.target_state(name), config.task_count_record(name), tasks)


def _stays(state: GroupState, mending: Mending) -> tuple[object, ...]:
    """Return what must not change: all of the connectors that are there, apart from tasks that come back."""
    config, status = state.config, state.status
    names = config.connectors()
    keys = (record.key or b"" for record in mending.records)
    removed = {subject for key in keys if (subject := _status_subject(state.group, key)) is not None}
    tasks = (task for name in names for task in status.task_statuses(name))
    return (
        config.session_key,
        {name: _belief(config, name)[: 3 if name in mending.connectors else 4] for name in names},
        {name: (status.connector_status(name), status.topic_statuses(name)) for name in names},
        [task for task in tasks if Subject(task.task_id.connector, StatusKey.TASK, task.task_id.task) not in removed],
        {key: value for key, value in state.offsets.raw.items() if connector_of(TopicType.OFFSET, key) in names},
    )


def _status_subject(group: Group, key: bytes) -> Subject | None:
    found = parse(TopicType.STATUS, key[len(prefix_of(group)) :])
    return None if found is None else found.subject
