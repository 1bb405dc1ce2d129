"""The topics of a KRaft cluster: as its brokers describe them, or as ``kafka-dump-log`` prints its metadata log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connect_share.errors import UsageError
from connect_share.kafka.admin import Admin
from connect_share.topic_ids.authority.authority import (
    REMOTE_LOG_METADATA,
    Authority,
    AuthorityPartition,
    AuthorityTopic,
    MetadataMode,
    integers,
    partition_of,
    read_id,
)
from connect_share.topic_ids.scan.scans import json_object, lines_of

_PAYLOAD: Final = "payload: "
_TOPIC_RESOURCE: Final = 2
_MOVING: Final = ("addingReplicas", "removingReplicas")
_COMMAND: Final = "kafka-dump-log --cluster-metadata-decoder --skip-record-metadata --files ..."


def authority_of_brokers(admin: Admin) -> Authority:
    """Return all topics of a KRaft cluster; raise ``BrokerError`` if it does not answer, or does not allow it.

    Brokers with ZooKeeper only return what the controller remembers; the scans show which of the two it is.
    """
    topics = {}
    for name, described in admin.describe_topics(admin.topic_names(), expected=True).items():
        partitions = {one.id: AuthorityPartition(one.replicas, one.leader, one.isr) for one in described.partitions}
        topic_id, problem = read_id(described.topic_id)
        topics[name] = AuthorityTopic(name, topic_id, partitions, problem)
    return Authority(
        MetadataMode.KRAFT,
        admin.bootstrap_servers,
        topics,
        cluster_id=admin.cluster_id(),
        addresses={one.id: one.address for one in admin.brokers() if one.address is not None},
        tiered_storage=REMOTE_LOG_METADATA in topics,
        from_memory=True,
    )


@dataclass
class _MetadataFold:
    """The state after some records of the log; a name can come again with another id.

    Attributes:
        partitions: members of the partition's records, the newest value of each, by topic id and partition.
    """

    names: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    removed: dict[str, str] = field(default_factory=dict)
    log_dirs: dict[int, tuple[str, ...]] = field(default_factory=dict)
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict)
    remote: dict[str, bool] = field(default_factory=dict)
    configs: bool = False
    records: int = 0
    damaged: int = 0

    def apply_line(self, line: str) -> None:
        _, separator, text = line.partition(_PAYLOAD)
        if not separator:
            return
        found = json_object(text)
        data = found.get("data")
        if not isinstance(data, dict):
            self.damaged += 1
            return
        self.records += 1
        kind = found.get("type")
        if kind == "REGISTER_BROKER_RECORD":
            self._apply_broker(data)
        elif kind == "CONFIG_RECORD":
            self.configs = True
            if data.get("resourceType") == _TOPIC_RESOURCE and data.get("name") == "remote.storage.enable":
                self.remote[str(data.get("resourceName"))] = str(data.get("value")).lower() == "true"
        elif kind in ("TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REMOVE_TOPIC_RECORD"):
            self._apply_topic(kind, data)

    def _apply_topic(self, kind: str, data: Mapping[str, Any]) -> None:
        topic_id, _ = read_id(data.get("topicId"))
        name, number = data.get("name"), data.get("partitionId")
        if topic_id is None:
            self.damaged += 1
        elif kind == "REMOVE_TOPIC_RECORD":
            self.removed[topic_id] = self.names.pop(topic_id, "")
            self.partitions.pop(topic_id, None)
        elif kind == "TOPIC_RECORD" and isinstance(name, str):
            self.names[topic_id] = name
            self.removed.pop(topic_id, None)
        elif kind != "TOPIC_RECORD" and isinstance(number, int):
            # A change record has the changed members only; a whole record has all of them.
            changed = {member: value for member, value in data.items() if isinstance(value, (list, int))}
            self.partitions[topic_id].setdefault(number, {}).update(changed)
        else:
            self.damaged += 1

    def _apply_broker(self, data: Mapping[str, Any]) -> None:
        match data:
            case {"brokerId": int(number), "logDirs": [*log_dirs]}:
                self.log_dirs[number] = tuple(map(str, log_dirs))
        match data:
            case {"brokerId": int(number), "endPoints": [{"host": str(host), "port": int(port)}, *_]}:
                self.addresses[number] = host, port

    def topic(self, topic_id: str, name: str) -> AuthorityTopic:
        partitions = self.partitions.get(topic_id, {})
        return AuthorityTopic(
            name,
            topic_id,
            {number: partition_of(data) for number, data in sorted(partitions.items())},
            moving=any(integers(data.get(member)) for data in partitions.values() for member in _MOVING),
            # A whole log has every setting that was ever changed; one that it does not have is the default, off.
            remote_storage=self.remote.get(name, False) if self.configs else None,
        )


def read_metadata_dump(path: Path) -> Authority:
    """Read a dump of the metadata log; raise ``UsageError`` if it cannot be read, or has no metadata records.

    A log with a snapshot starts in its ``.checkpoint`` file: the dump of that has to come first in the file.
    """
    return authority_of_metadata_log(lines_of(path, errors="replace"), str(path))


def authority_of_metadata_log(lines: Iterable[str], source: str) -> Authority:
    """Fold the lines of a dump, of which some are no records; raise ``UsageError`` if none is."""
    fold = _MetadataFold()
    for line in lines:
        fold.apply_line(line)
    if not fold.records:
        raise UsageError(f"{source} has no metadata records; make it with {_COMMAND}")
    topics = {name: fold.topic(topic_id, name) for topic_id, name in fold.names.items()}
    damaged = f"{source}: {fold.damaged:,} damaged records were passed over; the dump may be cut off"
    return Authority(
        MetadataMode.KRAFT,
        source,
        topics,
        removed=fold.removed,
        log_dirs=fold.log_dirs,
        addresses=fold.addresses,
        tiered_storage=REMOTE_LOG_METADATA in topics or any(fold.remote.values()),
        notes=[damaged] if fold.damaged else [],
    )
