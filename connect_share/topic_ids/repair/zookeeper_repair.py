"""The changes of znodes and their backup: writes the planned ids, changes the controller once, and undoes both.

Everything is checked before the first write, because a wrong id in a znode leaves the cluster without a controller.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from pydantic import Field

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import Authority, AuthorityTopic, MetadataMode, read_id
from connect_share.topic_ids.authority.zookeeper import Znode, ZooKeeper, topic_path, with_id
from connect_share.topic_ids.compare.compare import Comparison, compare
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import (
    BackupPart,
    Checksum,
    RepairBackup,
    RepairState,
    Report,
    checksum,
    keep_files,
    read_kept,
)
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import RepairPlan, StepAction
from connect_share.topic_ids.scan.scanner import directory_names
from connect_share.topic_ids.scan.scans import json_object

_CONTROLLER: Final = "/controller"
_REASSIGNMENT: Final = "/admin/reassign_partitions"
_POLL_S: Final = 0.1
_STEADY_S: Final = 1.0


class ZnodeChange(BackupPart):
    """The change that writes one znode.

    Attributes:
        version: of the znode with the old content.
        before, after: files with the contents.
        old, new: whole contents.
    """

    topic: str
    path: str
    version: int
    before: str
    before_sha256: Checksum
    after: str
    after_sha256: Checksum
    old: bytes = Field(default=b"", exclude=True, repr=False)
    new: bytes = Field(default=b"", exclude=True, repr=False)

    @classmethod
    def of(cls, number: int, topic: str, version: int, old: bytes, new: bytes) -> Self:
        """Return the change of a topic's znode; the number names its files."""
        return cls(
            topic=topic,
            path=topic_path(topic),
            version=version,
            before=f"{number}.before",
            before_sha256=checksum(old),
            after=f"{number}.after",
            after_sha256=checksum(new),
            old=old,
            new=new,
        )

    def keep(self, folder: Path) -> tuple[Self, dict[str, str]]:
        """Write both contents into a folder; return the change and the checksums."""
        return self, keep_files(folder, {self.before: self.old, self.after: self.new})

    def load(self, backup: RepairBackup) -> Self:
        """Return the change with the kept contents; raise ``UsageError`` if more than the topic's id would be written."""
        folder = backup.folder
        old = read_kept(folder / Path(self.before).name, self.before_sha256)
        new = read_kept(folder / Path(self.after).name, self.after_sha256)
        named = directory_names(f"{self.topic}-0")
        if self.path != topic_path(self.topic) or named is None or named[0] != self.topic or self.topic in (".", ".."):
            raise UsageError(f"{folder}: backup.json names a znode that is no topic's")
        topic_id = json.loads(new)["topic_id"]
        if read_id(topic_id)[0] is None or with_id(old.decode(), topic_id).encode() != new:
            raise UsageError(f"{folder}: more than the id of {self.topic} would be written: it was changed")
        return self.model_copy(update={"old": old, "new": new})

    def preview(self, *, undo: bool) -> list[str]:
        """Return the lines that show it to people."""
        old, new = (self.new, self.old) if undo else (self.old, self.new)
        return [f"{self.path}: id {id_in(old) or 'none'} -> {id_in(new) or 'none'}"]

    def is_done(self, session: ZooKeeper) -> bool:
        """Return whether it is done."""
        znode = self._now(session)
        if znode.data != self.new and (znode.data != self.old or znode.version != self.version):
            raise self._changed()
        return znode.data == self.new

    def do(self, session: ZooKeeper) -> str:
        """Do it; return the line that says so."""
        self._write(session, self.new, self.version)
        return f"{self.path}: id {id_in(self.new)} written"

    def is_undone(self, session: ZooKeeper) -> bool:
        """Return whether it is undone."""
        znode = self._now(session)
        if znode.data not in (self.old, self.new):
            raise self._changed()
        return znode.data == self.old

    def undo(self, session: ZooKeeper) -> str:
        """Undo it; return the line that says so."""
        znode = self._now(session)
        if znode.data != self.new:
            raise self._changed()
        self._write(session, self.old, znode.version)
        return f"{self.path}: as before, {'without id' if self.had_no_id else f'id {id_in(self.old)}'}"

    @property
    def had_no_id(self) -> bool:
        """The old content had everything but an id, as old tools write it; ``null`` as id is something else."""
        found = json_object(self.old)
        return bool(found) and "topic_id" not in found

    def _now(self, session: ZooKeeper) -> Znode:
        znode = session.get(self.path)
        if znode is None:
            raise TopicIdRepairError(f"{self.path} is gone: the topic was deleted")
        return znode

    def _changed(self) -> TopicIdRepairError:
        return TopicIdRepairError(
            f"{self.path} was written by another client since the backup was made: nothing was written now; "
            "scan again, and plan anew with another --backup"
        )

    def _write(self, session: ZooKeeper, data: bytes, version: int) -> None:
        if not session.set(self.path, data, version):
            raise TopicIdRepairError(
                f"{self.path} was written by another client in this moment: it is left as it is, what was written before "
                "stays, and the controller was not changed; undo with --undo and the backup, or scan again and plan anew "
                "with another --backup"
            )
        if self._now(session).data != data:
            raise TopicIdRepairError(
                f"{self.path} does not read back as it was written; undo with --undo and the backup"
            )


class ZnodeBackup(RepairBackup):
    """The changes of znodes.

    Attributes:
        change_controller: the controller has to change after the writes.
        later: topics and partitions whose files are written afterwards, so they are not in sync before.
    """

    cluster_id: str | None
    change_controller: bool
    later: tuple[tuple[str, int], ...] = ()
    changes: tuple[ZnodeChange, ...] = Field(alias="znodes")

    def preview(self, *, undo: bool = False) -> list[str]:
        """Return the lines that show to people what would be done, or undone."""
        controller = ["one change of the controller"] if self.change_controller else []
        return super().preview(undo=undo) + controller


def id_in(data: bytes) -> str | None:
    """Return ``topic_id`` of a znode's text, as it is written there."""
    topic_id = json_object(data).get("topic_id")
    return topic_id if isinstance(topic_id, str) else None


def manual_reason(plan: RepairPlan) -> str | None:
    """Return why nothing of a plan can be done through ZooKeeper; ``None``: its znodes can be written."""
    if plan.mode is not MetadataMode.ZOOKEEPER:
        return "the brokers run with KRaft, so run it with --step on the machine of each broker in the plan"
    if plan.has(StepAction.WRITE_ZNODE):
        return None
    topics = sorted({str(one.topic) for one in plan.steps if one.action is StepAction.WRITE_FILE})
    return (
        f"files on brokers have to be written for {', '.join(topics)}, so run it with --step on the machine of each broker "
        "in the plan"
    )


def prepare_znodes(found: Comparison, plan: RepairPlan, session: ZooKeeper, folder: Path) -> ZnodeBackup:
    """Check everything that must hold before the first write, against ZooKeeper as it is now; return what to write.

    The comparison is the one that the plan was made from; the backup is not written here. Raise ``TopicIdRepairError`` if
    the state has changed since, or a write would do harm.
    """
    now = session.authority()
    if plan_repair(compare(found.scans, now)).to_dict() != plan.to_dict():
        raise TopicIdRepairError("the cluster has changed since the plan was made: nothing was written; run it again")
    refuse_reassignment(session)
    changes: list[ZnodeChange] = []
    for step in plan.steps:
        if step.action is not StepAction.WRITE_ZNODE:
            continue
        topic, path, topic_id = str(step.topic), str(step.path), str(step.topic_id)
        znode = session.get(path)
        if znode is None or znode.version != step.version:
            raise TopicIdRepairError(f"{path} has changed since the plan was made: nothing was written; run it again")
        refuse_old_scans(found, now.topics[topic], znode)
        try:
            new = with_id(znode.data.decode(), topic_id).encode()
        except UnicodeDecodeError as exc:
            raise TopicIdRepairError(f"{path} is no UTF-8: put it right by hand first; nothing was written") from exc
        changes.append(ZnodeChange.of(len(changes) + 1, topic, znode.version, znode.data, new))
    backup = ZnodeBackup(
        folder=folder,
        cluster_id=now.cluster_id,
        change_controller=plan.has(StepAction.CHANGE_CONTROLLER),
        later=tuple(
            sorted({(str(one.topic), one.partition or 0) for one in plan.steps if one.action is StepAction.WRITE_FILE})
        ),
        znodes=tuple(changes),
    )
    _check_ids(now, {one.topic: one.new for one in changes}, whole=backup.change_controller)
    return backup


def write_znodes(backup: ZnodeBackup, session: ZooKeeper, report: Report, wait_s: float) -> None:
    """Do everything of a repair that is not done yet; its backup is on disk.

    A repair that was killed is continued: the content of a znode shows whether it was written, the numbers of ZooKeeper's
    transactions whether the controller is newer than the writes. ``report`` is called with each step that is done;
    ``wait_s`` is the longest wait for a new controller, and for the ISR. Raise ``UsageError`` if the repair is of another
    cluster, ``TopicIdRepairError`` if anything is not as it must be before or after a step.
    """
    now = _same_cluster(backup, session)
    refuse_reassignment(session)
    missing = backup.not_done(session)
    _check_ids(now, {one.topic: one.new for one in backup.changes}, whole=backup.change_controller)
    for change in missing:
        report(change.do(session))
    if backup.change_controller:
        _change_controller(backup.changes, session, report, wait_s, option="--backup")
    for one in backup.changes:
        znode = session.get(one.path)
        if znode is None or id_in(znode.data) != id_in(one.new):
            raise TopicIdRepairError(
                f"{one.path} has another id again: a controller wrote from memory; scan again and run it anew"
            )
    backup.at(RepairState.DONE)
    if backup.change_controller:
        _await_isr(backup, session, report, wait_s)


def undo_znodes(backup: ZnodeBackup, session: ZooKeeper, report: Report, wait_s: float) -> None:
    """Write the old contents back, with one change of the controller if the repair had one.

    A znode that had no id gets that content after the change, so that the new controller knows the id, as the old one did.
    Errors are as of :func:`write_znodes`; nothing is written if no broker could become controller with the old contents.
    """
    if backup.state is RepairState.UNDONE:
        raise UsageError(f"{backup.folder}: this repair was undone already")
    now = _same_cluster(backup, session)
    refuse_reassignment(session)
    left = backup.not_undone(session)
    with_id_before = [one for one in backup.changes if not one.had_no_id]
    first = {one.topic: one.old for one in with_id_before if one in left}
    _check_ids(now, first, whole=backup.change_controller)
    backup = backup.at(RepairState.UNDOING)
    for one in with_id_before:
        if one in left:
            report(one.undo(session))
    if backup.change_controller and with_id_before:
        _change_controller(with_id_before, session, report, wait_s, option="--undo")
    for one in backup.changes:
        if one in left and one.had_no_id:
            report(one.undo(session))
    backup.at(RepairState.UNDONE)


def _same_cluster(backup: ZnodeBackup, session: ZooKeeper) -> Authority:
    now = session.authority()
    if now.cluster_id != backup.cluster_id:
        raise UsageError(f"{backup.folder} is of another cluster than {now.source}: nothing was written")
    return now


def refuse_reassignment(session: ZooKeeper) -> None:
    """Raise ``TopicIdRepairError`` while a reassignment is in progress, which rewrites znodes."""
    if session.get(_REASSIGNMENT) is not None:
        raise TopicIdRepairError(f"{_REASSIGNMENT} is there: let the reassignment end, nothing was written")


def refuse_old_scans(found: Comparison, topic: AuthorityTopic, znode: Znode) -> None:
    """Raise ``TopicIdRepairError`` for a scan that is older than the znode: the topic may have been recreated since."""
    for broker in sorted(topic.brokers()):
        started = found.scans.started.get(broker)
        if started is None:
            raise TopicIdRepairError(
                f"it is not known when broker {broker} was scanned: to write, use --scan with what the scanner printed there"
            )
        if started < znode.modified_s:
            raise TopicIdRepairError(
                f"broker {broker} was scanned before the znode of {topic.name} was written last, so the topic may be "
                "another by now: scan again (and compare the clocks, if that was just done); nothing was written"
            )


def _check_ids(now: Authority, texts: Mapping[str, bytes], *, whole: bool) -> None:
    """Check that a new controller can read every znode; ``texts`` are written, by topic.

    ``whole``: a controller will read all topics, so those that are not written are checked as well.
    """
    users: dict[str, list[str]] = defaultdict(list)
    for name, topic in sorted(now.topics.items()):
        topic_id, problem = read_id(id_in(texts[name])) if name in texts else (topic.topic_id, topic.problem)
        if topic_id is None:
            if whole or name in texts:
                raise TopicIdRepairError(
                    f"the znode of {name} would have no usable id ({problem}) when the controller changes, which makes up "
                    "a new one or cannot start: repair that first; nothing was written"
                )
            continue
        if name in texts and id_in(texts[name]) != topic_id:
            raise TopicIdRepairError(f"the id for {name} is not as Kafka writes it: nothing was written")
        users[topic_id].append(name)
    for names in users.values():
        if len(names) > 1 and (whole or set(names) & set(texts)):
            raise TopicIdRepairError(
                f"{', '.join(names)} would have one id: no broker could become controller; nothing was written"
            )
    if missing := sorted(set(texts) - set(now.topics)):
        raise TopicIdRepairError(f"{', '.join(missing)}: deleted meanwhile; nothing was written")


def _change_controller(
    changes: Sequence[ZnodeChange], session: ZooKeeper, report: Report, wait_s: float, *, option: str
) -> None:
    """Wait until a controller was elected after the last write to these znodes, and has stayed for a moment."""
    znodes = [session.get(one.path) for one in changes]
    last = max((znode.modified_at for znode in znodes if znode is not None), default=0)
    old = session.get(_CONTROLLER)
    if old is not None and old.created_at < last:
        session.delete(_CONTROLLER)
    deadline_s = time.monotonic() + wait_s
    steady: tuple[int, float] | None = None
    while True:
        new, now_s = session.get(_CONTROLLER), time.monotonic()
        if new is None or new.created_at < last:
            steady = None
        elif steady is None or steady[0] != new.created_at:
            steady = new.created_at, now_s  # a controller that cannot read the znodes resigns at once
        elif now_s - steady[1] >= _STEADY_S:
            report(f"controller changed, it is broker {json_object(new.data).get('brokerid', '?')} now")
            return
        if now_s > deadline_s:
            raise TopicIdRepairError(
                f"no broker became controller within {wait_s:g} s after {_CONTROLLER} was deleted; are brokers up? "
                f"Run it again with the same {option} to go on"
            )
        time.sleep(_POLL_S)


def _await_isr(backup: ZnodeBackup, session: ZooKeeper, report: Report, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    later = set(backup.later)
    while True:
        now = session.authority()
        short = [
            f"{name}-{number}"
            for name in (one.topic for one in backup.changes if one.topic in now.topics)
            for number, one in sorted(now.topics[name].partitions.items())
            if (name, number) not in later and not set(one.isr) >= set(one.replicas)
        ]
        if not short:
            but = ", but for partitions whose files are to be written" if later else ""
            report(f"all replicas of these topics are in sync{but}")
            return
        if time.monotonic() > deadline_s:
            raise TopicIdRepairError(
                f"the ids are written and the controller has changed, but {wait_s:g} s later not all replicas are in sync: "
                f"{', '.join(short[:10])}; are all brokers up?"
            )
        time.sleep(_POLL_S)
