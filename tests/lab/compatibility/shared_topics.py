"""Three shared topics of one cell, the names in it, and the many foreign records."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from connect_share.errors import WriteError
from connect_share.files import Silent
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import ClusterGroupId, split_key
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import WorkerConfig
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import create_topics, delete_topics, write_groups
from tests.lab.embedded.worker import QUICK_MEMBERS, Sharing, worker_properties
from tests.support.topics import read_topic

PREFIX: Final = "compat"
_CLIENT: Final = "compatibility"
_OTHERS: Final = WorkloadSize(groups=20, config_bytes=0, status_bytes=0)
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
        self.config = WorkerConfig.from_properties(self.properties(self.group("topics"), "python"))

    def group(self, name: str) -> str:
        """A group id of this cell alone: workers of two cells with the same one would form one group."""
        return f"{self.tag}.{name}"

    def properties(self, group: str, sharing: Sharing) -> dict[str, str]:
        """Lines of a worker file of a group."""
        own = self.place.client_properties
        replicas = {f"{kind.value}.storage.replication.factor": str(self.place.replicas) for kind in TopicType}
        return {
            **worker_properties(self.place.bootstrap_servers, group, self.tag, sharing=sharing),
            **replicas,
            **QUICK_MEMBERS,
            **own,
            **{f"{whose}{name}": value for whose in _CONNECTORS_CLIENTS for name, value in own.items()},
        }

    def create(self) -> None:
        """Create the three topics."""
        create_topics(self.config)

    def create_data_topic(self, name: str) -> str:
        """Create a topic for a connector to write to; return its name."""
        topic = f"{self.tag}-{name}"
        with self._admin() as admin:
            admin.create_topic(NewTopicRequest(topic, 1, self.place.replicas))
        self._data_topics.append(topic)
        return topic

    def delete(self) -> None:
        """Remove everything that was made."""
        delete_topics(self.config)
        with self._admin() as admin:
            admin.delete_topics(self._data_topics)

    def records_written(self, topic: str) -> int:
        """Count what was ever written to a data topic."""
        with self._admin() as admin:
            return admin.end_offsets([(topic, 0)])[topic, 0]

    def records(self, topic_type: TopicType) -> list[Record]:
        """Read one of the three topics."""
        with self._admin() as admin:
            return read_topic(admin, self.config.consumer_settings(), self.config.topic(topic_type))

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
        return [_OTHERS.group_id(number) for number in range(_OTHERS.groups)]

    def write_others(self, number: int) -> None:
        """Write about so many records of other groups, a third to each topic, few of them with a key of an earlier one."""
        each, jobs = number // len(TopicType), -(-number // (4 * len(TopicType) * _OTHERS.groups))
        size = replace(_OTHERS, jobs=max(1, jobs), config_records=each, status_records=each, offset_records=each)
        write_groups(self.config, size, Silent())

    def _admin(self) -> Admin:
        return Admin(self.config.admin_settings(), client_id=_CLIENT, timeout_s=30.0)
