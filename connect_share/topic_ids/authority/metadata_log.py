"""KRaft's metadata log, as ``kafka-dump-log --cluster-metadata-decoder`` prints it, as the truth about topics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import (
    REMOTE_LOG_METADATA,
    Authority,
    AuthorityPartition,
    AuthorityTopic,
    Mode,
    integers,
    leader_of,
    read_id,
)

_PAYLOAD: Final = "payload: "
_TOPIC_RESOURCE: Final = 2
_COMMAND: Final = "kafka-dump-log --cluster-metadata-decoder --skip-record-metadata --files ..."


@dataclass
class _Partition:
    replicas: tuple[int, ...] = ()
    leader: int | None = None
    isr: tuple[int, ...] = ()
    directories: tuple[str, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass
class _Fold:
    """The records of the log in their order; topics go by id in it, and names may come again with another id."""

    names: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[bytes, dict[int, _Partition]] = field(default_factory=dict)
    removed: dict[bytes, str] = field(default_factory=dict)
    log_dirs: dict[int, tuple[str, ...]] = field(default_factory=dict)
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict)
    remote: dict[str, bool] = field(default_factory=dict)
    configs: bool = False
    records: int = 0
    damaged: int = 0

    def take(self, line: str) -> None:
        start = line.find(_PAYLOAD)
        if start < 0:
            return
        try:
            found = json.loads(line[start + len(_PAYLOAD) :])
        except (ValueError, RecursionError):
            self.damaged += 1
            return
        if not isinstance(found, dict) or not isinstance(found.get("data"), dict):
            self.damaged += 1
            return
        self.records += 1
        handler = _HANDLERS.get(str(found.get("type")))
        if handler is not None:
            handler(self, found["data"])

    def topic(self, data: dict[str, Any]) -> None:
        topic_id, _ = read_id(data.get("topicId"))
        name = data.get("name")
        if topic_id is None or not isinstance(name, str):
            self.damaged += 1
            return
        self.names[topic_id] = name
        self.removed.pop(topic_id, None)

    def removed_topic(self, data: dict[str, Any]) -> None:
        topic_id, _ = read_id(data.get("topicId"))
        if topic_id is not None:
            self.removed[topic_id] = self.names.pop(topic_id, "")
            self.partitions.pop(topic_id, None)

    def partition(self, data: dict[str, Any]) -> None:
        topic_id, _ = read_id(data.get("topicId"))
        number = data.get("partitionId")
        if topic_id is None or not isinstance(number, int):
            self.damaged += 1
            return
        # A change record has the changed fields only; a whole one has all of them.
        found = self.partitions.setdefault(topic_id, {}).setdefault(number, _Partition())
        for name, member in (("replicas", "replicas"), ("isr", "isr"), ("addingReplicas", "adding")):
            if isinstance(data.get(name), list):
                setattr(found, member, integers(data[name]))
        if isinstance(data.get("removingReplicas"), list):
            found.removing = integers(data["removingReplicas"])
        if isinstance(data.get("directories"), list):
            found.directories = tuple(str(item) for item in data["directories"])
        if isinstance(data.get("leader"), int):
            found.leader = leader_of(data["leader"])

    def broker(self, data: dict[str, Any]) -> None:
        number, log_dirs = data.get("brokerId"), data.get("logDirs")
        if isinstance(number, int) and isinstance(log_dirs, list):
            self.log_dirs[number] = tuple(str(item) for item in log_dirs)
        ends = data.get("endPoints")
        if isinstance(number, int) and isinstance(ends, list) and ends and isinstance(ends[0], dict):
            host, port = ends[0].get("host"), ends[0].get("port")
            if isinstance(host, str) and isinstance(port, int):
                self.addresses[number] = host, port

    def config(self, data: dict[str, Any]) -> None:
        self.configs = True
        if data.get("resourceType") == _TOPIC_RESOURCE and data.get("name") == "remote.storage.enable":
            self.remote[str(data.get("resourceName"))] = str(data.get("value")).lower() == "true"


_HANDLERS: Final = {
    "TOPIC_RECORD": _Fold.topic,
    "REMOVE_TOPIC_RECORD": _Fold.removed_topic,
    "PARTITION_RECORD": _Fold.partition,
    "PARTITION_CHANGE_RECORD": _Fold.partition,
    "REGISTER_BROKER_RECORD": _Fold.broker,
    "CONFIG_RECORD": _Fold.config,
}


def read_metadata_dump(path: Path) -> Authority:
    """Read a dump of the metadata log.

    A log that was snapshotted starts in its ``.checkpoint`` file: the dump of that has to come first in the file.

    Raises:
        UsageError: it cannot be read, or holds no metadata records.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return authority_of_metadata_log(lines, str(path))
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc


def authority_of_metadata_log(lines: Iterable[str], source: str) -> Authority:
    """Fold the lines of a dump; those that are no records (the tool prints some) are passed over.

    Raises:
        UsageError: there is no record in it.
    """
    fold = _Fold()
    for line in lines:
        fold.take(line)
    if not fold.records:
        raise UsageError(f"{source} has no metadata records; make it with {_COMMAND}")
    notes = []
    if fold.damaged:
        notes.append(f"{source}: {fold.damaged:,} damaged records were passed over; the dump may be cut off")
    topics = {}
    for topic_id, name in fold.names.items():
        partitions = fold.partitions.get(topic_id, {})
        topics[name] = AuthorityTopic(
            name,
            topic_id,
            {
                number: AuthorityPartition(one.replicas, one.leader, one.isr, one.directories)
                for number, one in sorted(partitions.items())
            },
            moving=any(one.adding or one.removing for one in partitions.values()),
            # A whole log has every setting that was ever changed: what it does not have is the default, off.
            remote_storage=fold.remote.get(name, False) if fold.configs else None,
        )
    return Authority(
        Mode.KRAFT,
        source,
        topics,
        removed=fold.removed,
        log_dirs=fold.log_dirs,
        addresses=fold.addresses,
        tiered_storage=REMOTE_LOG_METADATA in topics or any(fold.remote.values()),
        notes=notes,
    )
