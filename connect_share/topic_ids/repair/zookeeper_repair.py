"""Carries out the write-back: the planned ids into the znodes, then one change of the controller; and takes it back.

Everything is checked before the first write, because a wrong id in a znode leaves the cluster without a controller.
"""

from __future__ import annotations

import json
import time
from calendar import timegm
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import Authority, AuthorityTopic, Mode, read_id
from connect_share.topic_ids.authority.znodes import with_id
from connect_share.topic_ids.authority.zookeeper import Znode, ZooKeeper
from connect_share.topic_ids.compare.compare import Comparison, compare
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import Backup, State, ZnodeChange
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import Action, Plan
from connect_share.topic_ids.scan.scanner import id_text

_CONTROLLER: Final = "/controller"
_REASSIGNMENT: Final = "/admin/reassign_partitions"
_DONE_HERE: Final = frozenset(
    {Action.BACK_UP, Action.PAUSE, Action.WRITE_ZNODE, Action.CHANGE_CONTROLLER, Action.CHECK}
)
_POLL_S: Final = 0.1
_STEADY_S: Final = 1.0

Tell = Callable[[str], None]


def why_by_hand(plan: Plan) -> str | None:
    """Say why nothing of a plan can be carried out through ZooKeeper; ``None``: its znodes can."""
    if plan.mode is not Mode.ZOOKEEPER:
        return "the brokers run with KRaft, so run it with --step on the machine of each broker in the plan"
    if any(one.action is Action.WRITE_ZNODE for one in plan.steps):
        return None
    topics = sorted({str(one.topic) for one in plan.steps if one.action is Action.WRITE_FILE})
    return (
        f"files on brokers have to be written for {', '.join(topics)}, so run it with --step on the machine of each broker "
        "in the plan"
    )


def prepare(found: Comparison, plan: Plan, session: ZooKeeper, folder: Path) -> Backup:
    """Check everything that must hold before the first write, on what ZooKeeper says now; nothing is written anywhere.

    Args:
        found: what the plan was made of.
        plan: as it was shown.
        session: to ask.
        folder: for the backup.

    Raises:
        TopicIdRepairError: the state is not the plan's any more, or a write would do harm; the message says what.
    """
    now = session.authority()
    if plan_repair(compare(found.scans, now)).to_dict() != plan.to_dict():
        raise TopicIdRepairError("the cluster has changed since the plan was made: nothing was written; run it again")
    refuse_reassignment(session)
    controller = any(one.action is Action.CHANGE_CONTROLLER for one in plan.steps)
    changes = []
    for step in plan.steps:
        if step.action is not Action.WRITE_ZNODE:
            continue
        topic, path, topic_id = str(step.topic), str(step.path), str(step.topic_id)
        znode = session.get(path)
        if znode is None or znode.version != step.version:
            raise TopicIdRepairError(f"{path} has changed since the plan was made: nothing was written; run it again")
        refuse_old_scans(found, now.topics[topic], znode)
        try:
            after = with_id(znode.data.decode(), topic_id).encode()
        except UnicodeDecodeError as exc:
            raise TopicIdRepairError(f"{path} is no UTF-8: put it right by hand first; nothing was written") from exc
        changes.append(ZnodeChange(topic, path, znode.version, znode.data, after))
    _check_ids(now, {one.topic: one.after for one in changes}, whole=controller)
    later = frozenset(
        (str(one.topic), int(one.partition or 0)) for one in plan.steps if one.action is Action.WRITE_FILE
    )
    return Backup(folder, now.cluster_id, controller, tuple(changes), later=later)


def carry_out(backup: Backup, session: ZooKeeper, tell: Tell, wait_s: float) -> None:
    """Do what is not done yet of a repair whose backup is on disk.

    A run that was killed goes on here: what a znode holds tells whether it was written, ZooKeeper's transaction numbers
    tell whether the controller is newer than the writes.

    Args:
        backup: as it was prepared and written, or found.
        session: to write with.
        tell: hears of each step that is done.
        wait_s: longest wait for a new controller, and for the full ISR.

    Raises:
        UsageError: the repair is finished, or of another cluster.
        TopicIdRepairError: a znode is neither as before nor as planned, or what must hold after a step does not.
    """
    if backup.state is not State.PREPARED:
        raise UsageError(f"{backup.folder} is of a repair that is {backup.state.value}; give another with --backup")
    now = _same_cluster(backup, session)
    refuse_reassignment(session)
    waiting = _to_write(backup.changes, session, undo=False)
    _check_ids(now, {one.topic: one.after for one in backup.changes}, whole=backup.controller)
    for one in waiting:
        _write(one.path, one.after, one.version, session, backup.folder)
        tell(f"{one.path}: id {_id_in(one.after)} written")
    paths = [one.path for one in backup.changes]
    if backup.controller:
        _change_controller(paths, session, tell, wait_s, again="--backup")
    for one in backup.changes:
        znode = session.get(one.path)
        if znode is None or _id_in(znode.data) != _id_in(one.after):
            raise TopicIdRepairError(
                f"{one.path} has another id again: a controller wrote from memory; scan again and run it anew"
            )
    backup.at(State.DONE)
    if backup.controller:
        _await_isr(backup, session, tell, wait_s)


def undo(backup: Backup, session: ZooKeeper, tell: Tell, wait_s: float) -> None:
    """Put back what the znodes held before, with one change of the controller if the repair had one.

    Znodes that had no id get it taken after that change, so that the new controller knows it, as the old one did.

    Raises:
        UsageError: the repair is of another cluster, or undone already.
        TopicIdRepairError: something was changed since, or what was there before would leave the cluster without a
            controller; nothing was written then.
    """
    if backup.state is State.UNDONE:
        raise UsageError(f"{backup.folder}: this repair was undone already")
    now = _same_cluster(backup, session)
    refuse_reassignment(session)
    waiting = _to_write(backup.changes, session, undo=True)
    early = [one for one in waiting if _has_none(one.before)]
    with_ids = [one for one in waiting if one not in early]
    _check_ids(now, {one.topic: one.before for one in with_ids}, whole=backup.controller)
    versions = {one.path: _now(one, session).version for one in waiting}
    backup = backup.at(State.UNDOING)
    for one in with_ids:
        _write(one.path, one.before, versions[one.path], session, backup.folder)
        tell(f"{one.path}: as before, id {_id_in(one.before)}")
    paths = [one.path for one in backup.changes if not _has_none(one.before)]
    if backup.controller and paths:
        _change_controller(paths, session, tell, wait_s, again="--undo")
    for one in early:
        _write(one.path, one.before, _now(one, session).version, session, backup.folder)
        tell(f"{one.path}: as before, without id")
    backup.at(State.UNDONE)


def preview(backup: Backup, *, take_back: bool = False) -> list[str]:
    """Tell what would be written, one line for each znode."""
    lines = []
    for one in backup.changes:
        old, new = (one.after, one.before) if take_back else (one.before, one.after)
        lines.append(f"{one.path}: id {_id_in(old) or 'none'} -> {_id_in(new) or 'none'}")
    return [*lines, "one change of the controller"] if backup.controller else lines


def _same_cluster(backup: Backup, session: ZooKeeper) -> Authority:
    now = session.authority()
    if now.cluster_id != backup.cluster_id:
        raise UsageError(f"{backup.folder} is of another cluster than {now.source}: nothing was written")
    return now


def refuse_reassignment(session: ZooKeeper) -> None:
    """Refuse while a reassignment is under way, which writes znodes anew.

    Raises:
        TopicIdRepairError: it is.
    """
    if session.get(_REASSIGNMENT) is not None:
        raise TopicIdRepairError(f"{_REASSIGNMENT} is there: let the reassignment end, nothing was written")


def refuse_old_scans(found: Comparison, topic: AuthorityTopic, znode: Znode) -> None:
    """Refuse a scan that is older than the znode: the topic may have been created again since, with a right new id."""
    for broker in sorted({broker for one in topic.partitions.values() for broker in one.replicas}):
        started = found.scans.started.get(broker)
        if started is None:
            raise TopicIdRepairError(
                f"nothing says when broker {broker} was scanned: to write, use --scan with what the scanner printed there"
            )
        if timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) < znode.modified_s:
            raise TopicIdRepairError(
                f"broker {broker} was scanned before the znode of {topic.name} was written last, so the topic may be "
                "another by now: scan again (and compare the clocks, if that was just done); nothing was written"
            )


def _check_ids(now: Authority, texts: Mapping[str, bytes], *, whole: bool) -> None:
    """See to it that a new controller can read every znode.

    Args:
        now: what all topics have.
        texts: what is written, by topic.
        whole: a controller will read all of them, so the others have to be right as well.
    """
    users: dict[bytes, list[str]] = defaultdict(list)
    for name, topic in sorted(now.topics.items()):
        raw, problem = read_id(_id_in(texts[name])) if name in texts else (topic.topic_id, topic.problem)
        if raw is None:
            if whole or name in texts:
                raise TopicIdRepairError(
                    f"the znode of {name} would have no usable id ({problem}) when the controller changes, which makes up "
                    "a new one or cannot start: repair that first; nothing was written"
                )
            continue
        if name in texts and _id_in(texts[name]) != id_text(raw):
            raise TopicIdRepairError(f"the id for {name} is not as Kafka writes it: nothing was written")
        users[raw].append(name)
    for names in users.values():
        if len(names) > 1 and (whole or set(names) & set(texts)):
            raise TopicIdRepairError(
                f"{', '.join(names)} would have one id: no broker could become controller; nothing was written"
            )
    if missing := sorted(set(texts) - set(now.topics)):
        raise TopicIdRepairError(f"{', '.join(missing)}: deleted meanwhile; nothing was written")


def _to_write(changes: Sequence[ZnodeChange], session: ZooKeeper, *, undo: bool) -> list[ZnodeChange]:
    """Give those that are still to be written; each has to be as it was before or as it was planned."""
    found = []
    for one in changes:
        znode = _now(one, session)
        wanted, other = (one.before, one.after) if undo else (one.after, one.before)
        if znode.data == wanted:
            continue
        if znode.data != other or (not undo and znode.version != one.version):
            raise TopicIdRepairError(
                f"{one.path} was written by somebody else since the backup was made: nothing was written now; "
                "scan again, and plan anew with another --backup"
            )
        found.append(one)
    return found


def _now(one: ZnodeChange, session: ZooKeeper) -> Znode:
    znode = session.get(one.path)
    if znode is None:
        raise TopicIdRepairError(f"{one.path} is gone: the topic was deleted")
    return znode


def _write(path: str, data: bytes, version: int, session: ZooKeeper, folder: Path) -> None:
    if not session.set(path, data, version):
        raise TopicIdRepairError(
            f"{path} was written by somebody else in this moment: it is left as it is, what was written before stays, and "
            f"the controller was not changed; undo with --undo {folder}, or scan again and plan anew with another --backup"
        )
    znode = session.get(path)
    if znode is None or znode.data != data:
        raise TopicIdRepairError(f"{path} does not read back as it was written; undo with --undo {folder}")


def _change_controller(paths: Sequence[str], session: ZooKeeper, tell: Tell, wait_s: float, *, again: str) -> None:
    """Have a controller that has read the znodes after the last write to them."""
    last = max((znode.modified_at for path in paths if (znode := session.get(path)) is not None), default=0)
    old = session.get(_CONTROLLER)
    if old is not None and old.created_at < last:
        session.delete(_CONTROLLER)
    deadline_s = time.monotonic() + wait_s
    steady: tuple[int, float] | None = None
    while True:
        new, moment_s = session.get(_CONTROLLER), time.monotonic()
        if new is None or new.created_at < last:
            steady = None
        elif steady is None or steady[0] != new.created_at:
            steady = new.created_at, moment_s  # one that cannot read the znodes goes again at once
        elif moment_s - steady[1] >= _STEADY_S:
            tell(f"controller changed, it is broker {_broker(new.data)} now")
            return
        if moment_s > deadline_s:
            raise TopicIdRepairError(
                f"no broker became controller within {wait_s:g} s after {_CONTROLLER} was deleted; are brokers up? "
                f"Run it again with the same {again} to go on"
            )
        time.sleep(_POLL_S)


def _await_isr(backup: Backup, session: ZooKeeper, tell: Tell, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    while True:
        now = session.authority()
        short = [
            f"{name}-{number}"
            for name in (one.topic for one in backup.changes)
            for number, one in sorted(now.topics[name].partitions.items())
            if (name, number) not in backup.later and not set(one.isr) >= set(one.replicas)
        ]
        if not short:
            tell(
                "all replicas of these topics are in sync"
                + (", but for partitions whose files are to be written" if backup.later else "")
            )
            return
        if time.monotonic() > deadline_s:
            raise TopicIdRepairError(
                f"the ids are written and the controller has changed, but {wait_s:g} s later not all replicas are in sync: "
                f"{', '.join(short[:10])}; are all brokers up?"
            )
        time.sleep(_POLL_S)


def _id_in(data: bytes) -> str | None:
    """Give ``topic_id`` of a znode's text, as it stands there."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    topic_id = found.get("topic_id") if isinstance(found, dict) else None
    return topic_id if isinstance(topic_id, str) else None


def _has_none(data: bytes) -> bool:
    """Tell whether a znode's text is whole but for an id, as old tools write it; ``null`` would be another thing."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "topic_id" not in found


def _broker(data: bytes) -> object:
    try:
        return json.loads(data).get("brokerid")
    except (ValueError, AttributeError, RecursionError):
        return "?"
