"""The plan for ZooKeeper: the original id back into the znode; files only where that is not enough."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.topic_ids.authority.authority import INTERNAL_TOPICS, NO_ID, AuthorityPartition, AuthorityTopic
from connect_share.topic_ids.authority.zookeeper import topic_path, with_id
from connect_share.topic_ids.compare.compare import Comparison, IdFindingKind
from connect_share.topic_ids.repair.steps import (
    BACKED_UP,
    LEFT_ALONE,
    RefusedError,
    RepairMethod,
    RepairPlan,
    RepairStep,
    StepAction,
    TopicRepair,
    brokers_text,
    refuse_internal,
    refuse_tiered,
    refuse_unread,
    start_step,
    stop_step,
    write_file_step,
)
from connect_share.topic_ids.scan.scans import PartitionDirectory

_LEFT: Final = {
    **LEFT_ALONE,
    IdFindingKind.TOPIC_UNKNOWN: "ZooKeeper does not know the topic; move its directories out of the log dirs before a topic "
    "of this name is created again, which would be crippled by them",
    IdFindingKind.STRAY_DIRECTORY: "brokers with ZooKeeper leave -stray directories alone; they are from a KRaft broker, or "
    "by hand",
}
_CLEANED: Final = " (or, in a compacted topic, were cleaned at another time)"


@dataclass
class _TopicDecision:
    """The id one topic is to have, and the replicas whose file has to be written for it.

    Attributes:
        write: the id goes into the znode.
        files: directories, with the conditions that only a person can check.
    """

    topic: AuthorityTopic
    target: str
    write: bool
    why: str
    files: list[tuple[PartitionDirectory, tuple[str, ...]]] = field(default_factory=list)

    @property
    def early(self) -> bool:
        """The znode has no id: the controller still uses the one in its memory, and a new one would create another."""
        return self.topic.problem == NO_ID


def plan_zookeeper(found: Comparison, plan: RepairPlan) -> None:
    """Add topics, steps and refusals to an empty plan."""
    decisions: dict[str, _TopicDecision] = {}
    for name, findings in sorted(found.of_topic().items()):
        kinds = {finding.kind for finding in findings}
        topic = found.authority.topics.get(name)
        if topic is None or kinds <= _LEFT.keys():
            for kind in sorted(kinds & _LEFT.keys()):
                plan.leave(name, _LEFT[kind])
            continue
        with plan.judging(name):
            decision = _decide(found, topic, kinds)
            if decision.write or decision.files:
                decisions[name] = decision
            else:
                plan.leave(name, decision.why)
    _resolve_duplicates(found, decisions, plan)
    if decisions:
        _add_steps(found, list(decisions.values()), plan)


def _decide(found: Comparison, topic: AuthorityTopic, kinds: set[IdFindingKind]) -> _TopicDecision:
    _check_preconditions(found, topic, kinds)
    served = {
        number: topic_id
        for number, partition in topic.partitions.items()
        if (topic_id := _served_id(partition, found.current(topic.name, number), topic.topic_id)) is not None
    }
    target, why = _target(found, topic, served)
    decision = _TopicDecision(topic, target, target != topic.topic_id, why)
    for number, replicas in sorted(found.replicas.get(topic.name, {}).items()):
        partition = topic.partitions.get(number)
        if partition is None:
            raise RefusedError(f"partition {number} is on disk but not in ZooKeeper")
        for one in replicas:
            checks = _file_checks(one, replicas, partition, target, served.get(number))
            if checks is not None:
                decision.files.append((one, checks))
    if decision.files:
        refuse_internal(topic)
    return decision


def _check_preconditions(found: Comparison, topic: AuthorityTopic, kinds: set[IdFindingKind]) -> None:
    refuse_tiered(topic, found)
    if topic.name in found.authority.deleting:
        raise RefusedError("its deletion is under way")
    if topic.moving:
        raise RefusedError(
            "a reassignment is under way, and the controller writes the znode anew from its memory: let it end"
        )
    if not topic.partitions:
        raise RefusedError("its znode cannot be understood: put the partitions back from a backup first")
    refuse_unread(topic, found)
    if IdFindingKind.DUPLICATE_DIRECTORY in kinds:
        raise RefusedError(
            "a partition lies in two log dirs of one broker: move one of the two out of the log dirs first"
        )
    for number, partition in sorted(topic.partitions.items()):
        have = {one.broker for one in found.current(topic.name, number)}
        for broker in sorted(set(partition.replicas) - have):
            if partition.leader in (None, broker) or not set(partition.isr) - {broker}:
                raise RefusedError(
                    f"partition {number} has no directory on broker {broker}, and no other replica leads and is in sync: an "
                    "empty one there would make the others throw their records away, or there are none"
                )


def _served_id(partition: AuthorityPartition, replicas: list[PartitionDirectory], own: str | None) -> str | None:
    """Return the id under which a partition was served: the replicas with it have the acknowledged records.

    It is the leader's, or else the one of all in-sync replicas, or else the one of all replicas; ``None``: no file has one.
    """
    ids = {one.broker: one.topic_id for one in replicas if one.metadata == "ok" and one.topic_id is not None}
    in_sync = {ids[broker] for broker in partition.isr if broker in ids}
    if partition.leader in ids:
        leading = ids[partition.leader]
        if leading != own and len(in_sync) > 1:
            raise RefusedError(
                f"partition {replicas[0].partition}: in-sync replicas have different ids, and the leader not ZooKeeper's: "
                "which one has the records is not known"
            )
        return leading
    candidates = in_sync or set(ids.values())
    if len(candidates) > 1:
        raise RefusedError(
            f"partition {replicas[0].partition}: replicas have {len(candidates)} different ids and no leader shows "
            "which one has the records"
        )
    return next(iter(candidates), None)


def _target(found: Comparison, topic: AuthorityTopic, served: dict[int, str]) -> tuple[str, str]:
    """Return the id the topic is to have, and why."""
    own = topic.topic_id
    ids = Counter(served.values())
    if not ids:
        if own is None:
            raise RefusedError("neither ZooKeeper nor any replica has a usable id")
        return own, "ZooKeeper has the right id"
    if len(ids) == 1:
        [target] = ids
        if target == own:
            return (
                target,
                "ZooKeeper and the replicas that serve have the same id; what is missing is made anew by the brokers",
            )
        return target, f"all {len(served)} partitions are served under the original id"
    if own is None or own not in ids or len(ids) > 2:
        raise RefusedError(f"its partitions have {len(ids)} different ids: no single id fits")
    [other] = ids.keys() - {own}
    mine = _bytes_of(found, topic, [number for number, topic_id in served.items() if topic_id == own])
    theirs = _bytes_of(found, topic, [number for number, topic_id in served.items() if topic_id == other])
    if mine is None or theirs is None:
        raise RefusedError(
            "some partitions have the old id and others the new one (added since), and which hold more records is not "
            "known: scan the brokers themselves, not copies without logs"
        )
    if theirs > mine:
        return other, f"the partitions with the original id hold more ({theirs:,} bytes, the others {mine:,})"
    return own, f"the partitions with ZooKeeper's id hold no less ({mine:,} bytes, the others {theirs:,})"


def _bytes_of(found: Comparison, topic: AuthorityTopic, numbers: list[int]) -> int | None:
    """Return the size of the largest replicas of some partitions; ``None``: not known of one of them."""
    known = [
        [one.log_bytes for one in found.replicas[topic.name][number] if one.log_bytes is not None] for number in numbers
    ]
    return sum(map(max, known)) if all(known) else None


def _file_checks(
    one: PartitionDirectory,
    replicas: list[PartitionDirectory],
    partition: AuthorityPartition,
    target: str,
    served: str | None,
) -> tuple[str, ...] | None:
    """Return what a person must check before a replica's file is written; ``None``: it is not written."""
    if one.metadata == "missing" or one.topic_id == target:
        return None  # the broker itself writes a missing file, with the controller's id
    if one.metadata == "inaccessible":
        raise RefusedError(f"broker {one.broker}, {one.path}: {one.reason}; scan as the user that runs the broker")
    if one.broker not in partition.replicas:
        raise RefusedError(f"broker {one.broker}, {one.path}: the cluster gives this broker no such replica")
    if one.metadata != "ok" or one.topic_id == served:
        return ()
    others = [other for other in replicas if other is not one and other.topic_id == served]
    for other in others:
        if (what := _contradiction(one, other)) is not None:
            raise RefusedError(
                f"broker {one.broker}, {one.path}: its {what} contradict those of broker {other.broker}, so its "
                f"records are another topic's{_CLEANED if what == 'batches' else ''}: writing the id would mix them in; move "
                "the directory out of the log dirs "
                "while the broker is stopped, it then copies from the leader"
            )
    # With the same batch at the same offset, in the same leader epoch, it is one log up to there.
    if one.log_bytes == 0 or any(set(one.batches) & set(other.batches) for other in others):
        return ()
    same_log = (
        f"the records are this topic's: kafka-dump-log shows the same first and last common batch in {one.path} and on "
        "the leader; if not, move the directory out of the log dirs instead, the broker copies from the leader"
    )
    return (same_log,)


def _contradiction(one: PartitionDirectory, other: PartitionDirectory) -> str | None:
    """Return what shows that two replicas cannot be of one log; ``None``: nothing does.

    Either a leader epoch that begins at different offsets (the oldest one is left out: its first offset moves when old
    records are deleted), or another batch at the same offset.
    """
    mine, theirs = dict(one.last_epochs[1:]), dict(other.last_epochs[1:])
    if any(mine[epoch] != theirs[epoch] for epoch in mine.keys() & theirs.keys()):
        return "leader epochs"
    batches = {offset: rest for offset, *rest in other.batches}
    if any(batches.get(offset, rest) != rest for offset, *rest in one.batches):
        return "batches"
    return None


def _resolve_duplicates(found: Comparison, decisions: dict[str, _TopicDecision], plan: RepairPlan) -> None:
    """Remove writes that would give two topics one id: with that no broker could become controller."""
    while True:
        users = defaultdict(set)
        for topic in found.authority.topics.values():
            final = decisions[topic.name].target if topic.name in decisions else topic.topic_id
            if final is not None:
                users[final].add(topic.name)
        duplicates = sorted(
            name for name, decision in decisions.items() if decision.write and len(users[decision.target]) > 1
        )
        if not duplicates:
            return
        for name in duplicates:
            decision = decisions.pop(name)
            others = sorted(users[decision.target] - {name})
            if (instead := _by_files(found, decision, others, users)) is not None:
                decisions[name] = instead
            else:
                plan.refuse(
                    name,
                    f"its replicas have the id that {', '.join(others)} has too: written into the znode it would leave "
                    "the cluster without a controller",
                )


def _by_files(
    found: Comparison, decision: _TopicDecision, others: list[str], users: Mapping[str, set[str]]
) -> _TopicDecision | None:
    """Return the decision to keep ZooKeeper's id and write it into the files; ``None``: that is not safe.

    It is for a topic whose original id is another topic's by now. The directories must not be copies of that topic's:
    their batches have to differ.
    """
    topic, own = decision.topic, decision.topic.topic_id
    if own is None or topic.name in INTERNAL_TOPICS or users.get(own, set()) - {topic.name}:
        return None
    why = f"the original id is that of {', '.join(others)} now, so ZooKeeper's goes into the files"
    result = _TopicDecision(topic, own, write=False, why=why)
    for number, replicas in sorted(found.replicas.get(topic.name, {}).items()):
        rivals = [one for other in others for one in found.current(other, number)]
        for one in replicas:
            if one.metadata == "missing" or one.topic_id == own:
                continue
            if one.metadata == "ok" and one.topic_id != decision.target:
                return None
            if one.metadata == "inaccessible" or any(_contradiction(one, rival) is None for rival in rivals):
                return None
            result.files.append((one, ()))
    return result


def _add_steps(found: Comparison, decisions: list[_TopicDecision], plan: RepairPlan) -> None:
    writes = [one for one in decisions if one.write]
    files = [replica for one in decisions for replica, _ in one.files]
    for one in decisions:
        with_files = RepairMethod.WRITE_BACK_AND_FILES if one.files else RepairMethod.WRITE_BACK
        method = with_files if one.write else RepairMethod.FILES
        plan.topics.append(TopicRepair(one.topic.name, method, one.target, one.why))
    plan.add_back_up(
        [f"znode {topic_path(one.topic.name)}" for one in writes]
        + [f"broker {replica.broker}: {replica.path}/partition.metadata" for replica in files]
    )
    plan.steps += [
        RepairStep(
            StepAction.PAUSE,
            "let nobody add partitions, reassign, create or delete topics, and take tools older than 2.8 away from "
            "ZooKeeper until the end: a partition added between write-back and controller change gets the wrong id",
            ("/admin/reassign_partitions does not exist",),
        ),
        *map(_write_znode_step, writes),
    ]
    if any(not one.early for one in writes):
        plan.steps.append(
            RepairStep(
                StepAction.CHANGE_CONTROLLER,
                "change the controller once: delete /controller, a broker takes it within a second and reads all znodes anew",
                (
                    "every znode above reads back with its new id, no other topic has it",
                    "a controller is there; without one (wrong ids in the znodes) the next election comes by itself",
                ),
                path="/controller",
                command="delete /controller",
            )
        )
    if writes:
        plan.add_check(found.authority)
    controller = found.authority.controller
    brokers = sorted({replica.broker for replica in files}, key=lambda broker: (broker == controller, broker))
    for broker in brokers:
        _add_file_steps(broker, brokers, decisions, plan)
    if files:
        plan.add_check(found.authority)


def _write_znode_step(one: _TopicDecision) -> RepairStep:
    topic_id, version, path = one.target, one.topic.version, topic_path(one.topic.name)
    unchanged = "the znode is as it was read" if version is None else f"the znode still has version {version}"
    before = [
        BACKED_UP,
        f"{unchanged}: the write names the version; if it is refused, another client wrote meanwhile: check again",
        f"no other topic has {topic_id}",
    ]
    if one.early:
        before.append(f"kafka-topics --describe still shows {topic_id}: no other controller has come since")
    shown = "VERSION" if version is None else version
    return RepairStep(
        StepAction.WRITE_ZNODE,
        f"write the original id {topic_id} into {path}, nothing else of its text changes",
        tuple(before),
        topic=one.topic.name,
        path=path,
        topic_id=topic_id,
        version=version,
        command=f"set -v {shown} {path} {with_id(one.topic.text, topic_id)}",
    )


def _add_file_steps(broker: int, brokers: list[int], decisions: list[_TopicDecision], plan: RepairPlan) -> None:
    own = [(one, replica, checks) for one in decisions for replica, checks in one.files if replica.broker == broker]
    done = brokers[: brokers.index(broker)]
    before = [BACKED_UP]
    if done and broker == brokers[-1]:
        before.append("all other brokers of the plan are done; a broker that is controller now comes last")
    if done:
        before.append(
            f"{brokers_text(done)} {'is' if len(done) == 1 else 'are'} back, and the ISR is full, but for partitions of "
            "this plan whose leader is not done yet (a follower with another id than its leader stays out)"
        )
    alone = sorted(
        f"{one.topic.name}-{replica.partition}"
        for one, replica, _ in own
        if set(one.topic.partitions[replica.partition].isr) <= {broker}
    )
    if alone:
        before.append(f"their writers can wait: {', '.join(alone)} cannot be served while this broker is down")
    plan.steps.append(stop_step(broker, before))
    plan.steps += [
        write_file_step(replica, replica.path, one.topic.name, one.target, checks, unproven=bool(checks))
        for one, replica, checks in own
    ]
    gone = f"/brokers/ids/{broker} is gone (after a kill it stays until the session runs out)"
    plan.steps.append(start_step(broker, [gone]))
