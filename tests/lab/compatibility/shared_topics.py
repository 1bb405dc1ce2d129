"""Three shared topics of one cell, the names in it, and the many foreign records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.errors import WriteError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.read import read_ranges
from connect_share.model.keys import ClusterGroupId, prefix_key, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig
from tests.lab.compatibility.cells import Plugin
from tests.lab.embedded.worker import QUICK_MEMBERS, worker_properties

PREFIX: Final = "compat"
_CLIENT: Final = "compatibility"
_OTHER_GROUPS: Final = 20
_CONNECTORS_CLIENTS: Final = ("producer.", "consumer.", "admin.")


@dataclass(frozen=True)
class Place:
    """Where cells are tried: a broker, and how to reach it.

    Attributes:
        client_properties: further lines of worker files, such as ``security.protocol``.
        replicas: of topics; -1 is the broker's default.
        prefix: with which names of topics and groups begin.
    """

    bootstrap_servers: str
    client_properties: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    prefix: str = PREFIX


class SharedTopics:
    """The topics of one cell; names nobody else uses."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.tag = f"{place.prefix}-{uuid.uuid4().hex[:8]}"
        self._data_topics: list[str] = []
        self.config = WorkerConfig.from_properties(self.properties(self.group("topics"), sharing=True))

    def group(self, name: str) -> str:
        """A group id of this cell alone: workers of two cells with the same one would form one group."""
        return f"{self.tag}.{name}"

    def properties(self, group: str, *, sharing: bool, plugin: Plugin | None = None) -> dict[str, str]:
        """Lines of a worker file of a group."""
        own = self.place.client_properties
        replicas = {f"{kind.value}.storage.replication.factor": str(self.place.replicas) for kind in TopicType}
        return {
            **worker_properties(self.place.bootstrap_servers, group, self.tag),
            **replicas,
            **QUICK_MEMBERS,
            **own,
            **{f"{whose}{name}": value for whose in _CONNECTORS_CLIENTS for name, value in own.items()},
            **({SHARING_PROPERTY: "enabled"} if sharing else {}),
            **({"interceptor.classes": INTERCEPTOR_CLASS} if plugin is Plugin.JAR else {}),
        }

    def create(self) -> None:
        """Create the three topics."""
        with self._admin() as admin:
            for topic_type in TopicType:
                ensure_topic(admin, topic_spec(self.config, topic_type))

    def create_data_topic(self, name: str) -> str:
        """Create a topic for a connector to write to; return its name."""
        topic = f"{self.tag}-{name}"
        with self._admin() as admin:
            admin.create_topic(NewTopicRequest(topic, 1, self.place.replicas))
        self._data_topics.append(topic)
        return topic

    def delete(self) -> None:
        """Remove everything that was made."""
        with self._admin() as admin:
            admin.delete_topics([*(self.config.topic(topic_type) for topic_type in TopicType), *self._data_topics])

    def records_written(self, topic: str) -> int:
        """Count what was ever written to a data topic."""
        with self._admin() as admin:
            return admin.end_offsets([(topic, 0)])[topic, 0]

    def records(self, topic_type: TopicType) -> list[Record]:
        """Read one of the three topics."""
        topic = self.config.topic(topic_type)
        with self._admin() as admin:
            pairs = [(topic, number) for number in range(len(admin.describe_topics([topic])[topic].partitions))]
            starts, ends = admin.start_offsets(pairs), admin.end_offsets(pairs)
        ranges = [OffsetRange(topic, number, starts[topic, number], ends[topic, number]) for _, number in pairs]
        settings = self.config.consumer_settings()
        return list(read_ranges(settings, ranges, isolation=Isolation.READ_UNCOMMITTED, client_id=_CLIENT))

    def groups(self, topic_type: TopicType) -> dict[ClusterGroupId | None, int]:
        """Count the records of each group; ``None`` has the plain ones."""
        counts: dict[ClusterGroupId | None, int] = {}
        for record in self.records(topic_type):
            split = split_key(topic_type, record.key or b"")
            if split is None:
                raise WriteError(
                    f"{record.topic}[{record.partition}]@{record.offset} has a key that nobody here writes"
                )
            counts[split[0]] = counts.get(split[0], 0) + 1
        return counts

    def other_groups(self) -> list[str]:
        """Ids of the groups of which there are nothing but records."""
        return [self.group(f"team-{number}.my.conn") for number in range(_OTHER_GROUPS)]

    def write_others(self, number: int) -> None:
        """Write about so many records of other groups, a third to each topic.

        Raises:
            WriteError: not all were acknowledged.
        """
        producer = client.producer(
            self.config.producer_settings(), client_id=_CLIENT, overrides={"linger.ms": "5"}, idempotent=False
        )
        failed: list[str] = []
        for topic_type in TopicType:
            for key, value in _others(topic_type, self.other_groups(), number // len(TopicType)):
                producer.produce(
                    self.config.topic(topic_type),
                    key=key,
                    value=value,
                    on_delivery=lambda error, _: failed.append(str(error)) if error else None,
                )
                producer.poll(0)
        left = producer.flush(60)
        if left or failed:
            raise WriteError(f"{left + len(failed)} records of other groups were not acknowledged within 60 s")

    def _admin(self) -> Admin:
        return Admin(self.config.admin_settings(), client_id=_CLIENT, timeout_s=30.0)


def _others(topic_type: TopicType, groups: list[str], number: int) -> Iterator[tuple[bytes, bytes]]:
    for count in range(number):
        group, connector = groups[count % len(groups)], f"job.{count // len(groups)}"
        if topic_type is TopicType.CONFIG:
            key = f"connector-{connector}"
            properties = {"name": connector, "connector.class": "com.acme.Source", "tasks.max": "1"}
            value: dict[str, object] = {"properties": properties}
        elif topic_type is TopicType.STATUS:
            key = f"status-connector-{connector}"
            value = {"state": "RUNNING", "trace": None, "worker_id": "10.0.0.1:8083", "generation": 3}
        else:
            key = json.dumps([connector, {"filename": "/var/in.1.txt"}], separators=(",", ":"))
            value = {"position": count}
        yield prefix_key(group, key.encode()), json.dumps(value, separators=(",", ":")).encode()
