"""The changes to ZooKeeper's znodes, and their backup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

from pydantic import Field

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import read_id
from connect_share.topic_ids.authority.znodes import with_id
from connect_share.topic_ids.authority.zookeeper import Znode, ZooKeeper
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import BackupPart, Checksum, RepairBackup, checksum, keep_files, read_kept
from connect_share.topic_ids.scan.scanner import directory_names
from connect_share.topic_ids.scan.scans import json_object


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
            path=_path(topic),
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
        if self.path != _path(self.topic) or named is None or named[0] != self.topic or self.topic in (".", ".."):
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
            f"{self.path} was written by somebody else since the backup was made: nothing was written now; "
            "scan again, and plan anew with another --backup"
        )

    def _write(self, session: ZooKeeper, data: bytes, version: int) -> None:
        if not session.set(self.path, data, version):
            raise TopicIdRepairError(
                f"{self.path} was written by somebody else in this moment: it is left as it is, what was written before "
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


def _path(topic: str) -> str:
    return f"/brokers/topics/{topic}"


def id_in(data: bytes) -> str | None:
    """Return ``topic_id`` of a znode's text, as it is written there."""
    topic_id = json_object(data).get("topic_id")
    return topic_id if isinstance(topic_id, str) else None
