"""The backup of the part of a repair that changes the files of one broker."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from connect_share.topic_ids.authority.authority import MetadataMode
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import Number, RepairBackup, Text, read_index
from connect_share.topic_ids.repair.file_changes import FileChange, PutBack, WriteId

_Port = Annotated[int, Field(strict=True, gt=0, lt=2**16)]
_Act = Annotated[FileChange, Field(discriminator="act")]


class BrokerBackup(RepairBackup):
    """The changes of one broker.

    Attributes:
        cluster_id: of the log dirs.
        wrong: topic, partition and the brokers whose replica had a wrong id when the backup was made; such a replica is
            not in the ISR, or keeps others out of it.
        dark: brokers with a file that takes a whole log dir offline.
        peers: other brokers that have to be stopped as well, with host and port.
    """

    kind: Literal["broker"] = "broker"
    mode: MetadataMode
    broker: Number
    cluster_id: Text | None
    log_dirs: tuple[Text, ...]
    wrong: tuple[tuple[Text, Number, tuple[Number, ...]], ...] = ()
    dark: tuple[Number, ...] = ()
    peers: tuple[tuple[Number, Text, _Port], ...] = ()
    changes: tuple[_Act, ...] = Field(alias="acts")

    @property
    def topics(self) -> dict[str, str]:
        """The changed topics with their right ids."""
        return {one.topic: one.topic_id for one in self.changes if isinstance(one, WriteId)}

    @property
    def wrong_replicas(self) -> Mapping[tuple[str, int], frozenset[int]]:
        """The brokers of ``wrong`` by topic and partition."""
        return {(topic, number): frozenset(brokers) for topic, number, brokers in self.wrong}

    @property
    def other_brokers(self) -> set[int]:
        """The other brokers with a wrong id."""
        return {broker for _, _, brokers in self.wrong for broker in brokers} - {self.broker}

    @property
    def stopped_together(self) -> list[int]:
        """The brokers that have to be stopped at the same time, this one included."""
        return sorted({self.broker, *(broker for broker, _, _ in self.peers)})

    @property
    def peer_ids(self) -> list[int]:
        """The other brokers that have to be stopped."""
        return [broker for broker, _, _ in self.peers]

    def write(self) -> Self:
        """Create the folder, if its disk has room for the copies."""
        needed = sum(_disk_bytes(Path(one.stray)) for one in self.changes if isinstance(one, PutBack))
        existing = next(one for one in self.folder.absolute().parents if one.exists())
        if needed > shutil.disk_usage(existing).free:
            raise TopicIdRepairError(
                f"{existing} has no room for {needed:,} bytes: give another --backup; nothing was changed"
            )
        return super().write()


def is_broker_backup(folder: Path) -> bool:
    """Return whether a folder is a backup of one broker's files, complete or damaged."""
    try:
        return read_index(folder).get("kind") == "broker"
    except (OSError, ValueError, RecursionError):
        return False


def _disk_bytes(folder: Path) -> int:
    """Return the bytes that a directory takes on its disk; files with holes take less than their size."""
    try:
        return sum(path.stat().st_blocks * 512 for path in folder.iterdir())
    except OSError as exc:
        raise TopicIdRepairError(f"{folder} cannot be read: {exc.strerror}; nothing was changed") from exc
