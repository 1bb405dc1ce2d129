"""The plan for brokers with ZooKeeper: the original id back into the znode; files only where that is not enough."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.topic_ids.authority.authority import NO_ID, AuthorityPartition, AuthorityTopic, shown_id
from connect_share.topic_ids.authority.znodes import with_id
from connect_share.topic_ids.compare.compare import Comparison, Finding, Kind
from connect_share.topic_ids.compare.same_log import contradiction, shares_a_batch
from connect_share.topic_ids.repair.steps import (
    BACKED_UP,
    Action,
    Method,
    Plan,
    Step,
    TopicPlan,
    Verdict,
    back_up,
    brokers_text,
    check_again,
    internal,
    not_read,
    start_broker,
    stop_broker,
    tiered,
    write_file,
)
from connect_share.topic_ids.scan.scans import PartitionDirectory

_TO_REPAIR: Final = frozenset(
    {
        Kind.ID_DIFFERS,
        Kind.FILE_UNREADABLE,
        Kind.ZERO_ID,
        Kind.AUTHORITY_ID_MISSING,
        Kind.DUPLICATE_ID,
        Kind.DUPLICATE_DIRECTORY,
        Kind.DIRECTORY_MISSING,
        Kind.FILE_MISSING,
    }
)
_LEFT: Final = {
    Kind.TOPIC_UNKNOWN: "ZooKeeper does not know the topic; move its directories out of the log dirs before a topic of this "
    "name is created again, which would be crippled by them",
    Kind.STRAY_DIRECTORY: "brokers with ZooKeeper leave -stray directories alone; they are from a KRaft broker, or by hand",
    Kind.DELETE_DIRECTORY: "directories named -delete go away by themselves after file.delete.delay.ms",
    Kind.FUTURE_DIRECTORY: "a move between log dirs is under way, the broker finishes it",
}

_CLEANED: Final = " (or, in a compacted topic, were cleaned at another time)"


class _RefusedError(Exception):
    """A topic cannot be repaired; the text says why."""


@dataclass
class _Decision:
    """What one topic will have: the id, and the replicas whose file has to be written for it."""

    topic: AuthorityTopic
    target: bytes
    write: bool
    early: bool
    why: str
    files: list[tuple[PartitionDirectory, tuple[str, ...]]] = field(default_factory=list)


def plan_zookeeper(found: Comparison, plan: Plan) -> None:
    """Add topics, steps and refusals to an empty plan."""
    decisions: dict[str, _Decision] = {}
    for name, findings in sorted(found.of_topic().items()):
        kinds = {finding.kind for finding in findings}
        topic = found.authority.topics.get(name)
        if topic is None or not kinds & _TO_REPAIR:
            plan.left += [
                Verdict(name, _LEFT[kind]) for kind in sorted(kinds & set(_LEFT), key=lambda kind: kind.value)
            ]
            continue
        try:
            decision = _decide(found, topic, findings)
        except _RefusedError as exc:
            plan.refused.append(Verdict(name, str(exc)))
            continue
        if decision.write or decision.files:
            decisions[name] = decision
        else:
            plan.left.append(Verdict(name, decision.why))
    _refuse_doubles(found, decisions, plan)
    if decisions:
        _steps(found, list(decisions.values()), plan)


def _decide(found: Comparison, topic: AuthorityTopic, findings: list[Finding]) -> _Decision:
    kinds = {finding.kind for finding in findings}
    _check_preconditions(found, topic, kinds)
    sides = {
        number: side
        for number, partition in topic.partitions.items()
        if (side := _side(partition, found.replicas.get(topic.name, {}).get(number, []), topic.topic_id)) is not None
    }
    target, why = _target(found, topic, sides)
    # While there is none, the controller goes by what it remembers; a new one would have made one up.
    early = topic.problem == NO_ID
    decision = _Decision(topic, target, target != topic.topic_id, early, why)
    for number, replicas in sorted(found.replicas.get(topic.name, {}).items()):
        partition = topic.partitions.get(number)
        if partition is None:
            raise _RefusedError(f"partition {number} is on disk but not in ZooKeeper")
        for one in replicas:
            checks = _file_checks(one, replicas, partition, target, sides.get(number))
            if checks is not None:
                decision.files.append((one, checks))
    if decision.files and (reason := internal(topic)):
        raise _RefusedError(reason)
    return decision


def _check_preconditions(found: Comparison, topic: AuthorityTopic, kinds: set[Kind]) -> None:
    if reason := tiered(topic, found):
        raise _RefusedError(reason)
    if topic.name in found.authority.deleting:
        raise _RefusedError("its deletion is under way")
    if topic.moving:
        raise _RefusedError(
            "a reassignment is under way, and the controller writes the znode anew from its memory: let it end"
        )
    if not topic.partitions:
        raise _RefusedError("its znode cannot be understood: put the partitions back from a backup first")
    if reason := not_read(topic, found):
        raise _RefusedError(reason)
    if Kind.DUPLICATE_DIRECTORY in kinds:
        raise _RefusedError(
            "a partition lies in two log dirs of one broker: move one of the two out of the log dirs first"
        )
    for number, partition in sorted(topic.partitions.items()):
        have = {one.broker for one in found.replicas.get(topic.name, {}).get(number, ())}
        for broker in sorted(set(partition.replicas) - have):
            if partition.leader in (None, broker) or not set(partition.isr) - {broker}:
                raise _RefusedError(
                    f"partition {number} has no directory on broker {broker}, and no other replica leads and is in sync: an "
                    "empty one there would make the others throw their records away, or there are none"
                )


def _side(partition: AuthorityPartition, replicas: list[PartitionDirectory], own: bytes | None) -> bytes | None:
    """Find the id under which a partition was served, which is where acknowledged records are.

    The leader's counts, then the one all in-sync replicas share, then the one all replicas share; ``None``: no file tells.
    """
    ids = {one.broker: one.topic_id for one in replicas if one.metadata == "ok" and one.topic_id is not None}
    in_sync = {ids[broker] for broker in partition.isr if broker in ids}
    if partition.leader in ids:
        leading = ids[partition.leader]
        if leading != own and len(in_sync) > 1:
            raise _RefusedError(
                f"partition {replicas[0].partition}: in-sync replicas have different ids, and the leader not ZooKeeper's: "
                "which one has the records cannot be told"
            )
        return leading
    for candidates in (in_sync, set(ids.values())):
        if len(candidates) == 1:
            return candidates.pop()
        if len(candidates) > 1:
            raise _RefusedError(
                f"partition {replicas[0].partition}: replicas have {len(candidates)} different ids and no leader tells "
                "which one has the records"
            )
    return None


def _target(found: Comparison, topic: AuthorityTopic, sides: dict[int, bytes]) -> tuple[bytes, str]:
    own = topic.topic_id
    ids = Counter(sides.values())
    if not ids:
        if own is None:
            raise _RefusedError("neither ZooKeeper nor any replica has a usable id")
        return own, "ZooKeeper has the right id"
    if len(ids) == 1:
        target = next(iter(ids))
        if target == own:
            return (
                target,
                "ZooKeeper and the replicas that serve have the same id; what is missing is made anew by the brokers",
            )
        return target, f"all {len(sides)} partitions are served under the original id"
    if own is None or own not in ids or len(ids) > 2:
        raise _RefusedError(f"its partitions have {len(ids)} different ids: no single id fits")
    other = next(raw for raw in ids if raw != own)
    sizes = {raw: _bytes_of(found, topic, [number for number, side in sides.items() if side == raw]) for raw in ids}
    mine, theirs = sizes[own], sizes[other]
    if mine is None or theirs is None:
        raise _RefusedError(
            "some partitions have the old id and others the new one (added since), and which hold more records is not "
            "known: scan the brokers themselves, not copies without logs"
        )
    if theirs > mine:
        return other, f"the partitions with the original id hold more ({theirs:,} bytes, the others {mine:,})"
    return own, f"the partitions with ZooKeeper's id hold no less ({mine:,} bytes, the others {theirs:,})"


def _bytes_of(found: Comparison, topic: AuthorityTopic, numbers: list[int]) -> int | None:
    total = 0
    for number in numbers:
        sizes = [one.log_bytes for one in found.replicas[topic.name][number] if one.log_bytes is not None]
        if not sizes:
            return None
        total += max(sizes)
    return total


def _file_checks(
    one: PartitionDirectory,
    replicas: list[PartitionDirectory],
    partition: AuthorityPartition,
    target: bytes,
    side: bytes | None,
) -> tuple[str, ...] | None:
    """Tell what must hold before a replica's file is written; ``None``: it needs no writing."""
    if one.metadata == "missing" or one.topic_id == target:
        return None  # a missing file is written by the broker itself, with the controller's id
    if one.metadata == "inaccessible":
        raise _RefusedError(f"broker {one.broker}, {one.path}: {one.reason}; scan as the user that runs the broker")
    if one.broker not in partition.replicas:
        raise _RefusedError(f"broker {one.broker}, {one.path}: the cluster gives this broker no such replica")
    if one.metadata != "ok" or one.topic_id == side:
        return ()
    for other in replicas:
        what = contradiction(one, other) if other is not one and other.topic_id == side else None
        if what is not None:
            raise _RefusedError(
                f"broker {one.broker}, {one.path}: its {what} contradict those of broker {other.broker}, so its "
                f"records are another topic's{_CLEANED if what == 'batches' else ''}: writing the id would mix them in; move "
                "the directory out of the log dirs "
                "while the broker is stopped, it then copies from the leader"
            )
    if one.log_bytes == 0:
        return ()
    if any(shares_a_batch(one, other) for other in replicas if other is not one and other.topic_id == side):
        return ()
    same = (
        f"the records are this topic's: kafka-dump-log shows the same first and last common batch in {one.path} and on "
        "the leader; if not, move the directory out of the log dirs instead, the broker copies from the leader"
    )
    return (same,)


def _refuse_doubles(found: Comparison, decisions: dict[str, _Decision], plan: Plan) -> None:
    """Take out writes that would give two topics one id: no broker could become controller with that."""
    while True:
        users = defaultdict(set)
        for topic in found.authority.topics.values():
            final = decisions[topic.name].target if topic.name in decisions else topic.topic_id
            if final is not None:
                users[final].add(topic.name)
        doubles = sorted(
            name for name, decision in decisions.items() if decision.write and len(users[decision.target]) > 1
        )
        if not doubles:
            return
        for name in doubles:
            others = sorted(users[decisions[name].target] - {name})
            instead = _by_files(found, decisions.pop(name), others, users)
            if instead is not None:
                decisions[name] = instead
                continue
            plan.refused.append(
                Verdict(
                    name,
                    f"its replicas have the id that {', '.join(others)} has too: written into the znode it would leave "
                    "the cluster without a controller",
                )
            )


def _by_files(
    found: Comparison, decision: _Decision, others: list[str], users: Mapping[bytes, set[str]]
) -> _Decision | None:
    """Keep ZooKeeper's id and write it into the files, where the original one is another topic's by now.

    Not where the directories may be copies of that topic's: their batches have to differ.
    """
    topic, own = decision.topic, decision.topic.topic_id
    if own is None or users.get(own, set()) - {topic.name} or internal(topic):
        return None
    files: list[tuple[PartitionDirectory, tuple[str, ...]]] = []
    for number, replicas in sorted(found.replicas.get(topic.name, {}).items()):
        rivals = [one for other in others for one in found.replicas.get(other, {}).get(number, ())]
        for one in replicas:
            if one.metadata == "missing" or one.topic_id == own:
                continue
            if one.metadata == "ok" and one.topic_id != decision.target:
                return None
            if one.metadata == "inaccessible" or any(contradiction(one, rival) is None for rival in rivals):
                return None
            files.append((one, ()))
    why = f"the original id is that of {', '.join(others)} now, so ZooKeeper's goes into the files"
    return _Decision(topic, own, write=False, early=False, why=why, files=files)


def _steps(found: Comparison, decisions: list[_Decision], plan: Plan) -> None:
    writes = [one for one in decisions if one.write]
    files = [(one, replica, checks) for one in decisions for replica, checks in one.files]
    for one in decisions:
        method = Method.FILES if not one.write else Method.WRITE_BACK_AND_FILES if one.files else Method.WRITE_BACK
        plan.topics.append(TopicPlan(one.topic.name, method, str(shown_id(one.target)), one.why))
    plan.steps.append(
        back_up(
            [f"znode {_path(one)}" for one in writes]
            + [f"broker {replica.broker}: {replica.path}/partition.metadata" for _, replica, _ in files]
        )
    )
    plan.steps.append(
        Step(
            Action.PAUSE,
            "let nobody add partitions, reassign, create or delete topics, and take tools older than 2.8 away from "
            "ZooKeeper until the end: a partition added between write-back and controller change gets the wrong id",
            ("/admin/reassign_partitions does not exist",),
        )
    )
    plan.steps += [_write_znode(one) for one in writes]
    if any(not one.early for one in writes):
        plan.steps.append(
            Step(
                Action.CHANGE_CONTROLLER,
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
        plan.steps.append(check_again(found.authority))
    if files:
        _file_steps(found, files, plan)


def _path(one: _Decision) -> str:
    return f"/brokers/topics/{one.topic.name}"


def _write_znode(one: _Decision) -> Step:
    topic_id, version = str(shown_id(one.target)), one.topic.version
    unchanged = "the znode is as it was read" if version is None else f"the znode still has version {version}"
    before = [
        BACKED_UP,
        f"{unchanged}: the write names the version; if it is refused, somebody wrote meanwhile: check again",
        f"no other topic has {topic_id}",
    ]
    if one.early:
        before.append(f"kafka-topics --describe still shows {topic_id}: no other controller has come since")
    shown = "VERSION" if version is None else version
    return Step(
        Action.WRITE_ZNODE,
        f"write the original id {topic_id} into {_path(one)}, nothing else of its text changes",
        tuple(before),
        topic=one.topic.name,
        path=_path(one),
        topic_id=topic_id,
        version=version,
        command=f"set -v {shown} {_path(one)} {with_id(one.topic.text, topic_id)}",
    )


def _file_steps(
    found: Comparison, files: list[tuple[_Decision, PartitionDirectory, tuple[str, ...]]], plan: Plan
) -> None:
    controller = found.authority.controller
    brokers = sorted({replica.broker for _, replica, _ in files}, key=lambda broker: (broker == controller, broker))
    done: list[int] = []
    for broker in brokers:
        own = [(one, replica, checks) for one, replica, checks in files if replica.broker == broker]
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
        plan.steps.append(stop_broker(broker, before))
        plan.steps += [
            write_file(replica, replica.path, one.topic.name, str(shown_id(one.target)), checks, unproven=bool(checks))
            for one, replica, checks in own
        ]
        plan.steps.append(
            start_broker(broker, [f"/brokers/ids/{broker} is gone (after a kill it stays until the session runs out)"])
        )
        done.append(broker)
    plan.steps.append(check_again(found.authority))
