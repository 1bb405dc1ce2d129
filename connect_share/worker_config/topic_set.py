"""Internal topics and the way to them, without being one worker: for looking at what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.worker_config.client_settings import ClientSettings, Isolation, refusal
from connect_share.worker_config.client_translation import common_settings, is_java_client_property
from connect_share.worker_config.worker import (
    TOPIC_PROPERTIES,
    WorkerConfig,
    check_topic_name,
    connection_settings,
    load_worker_file,
)

_ISOLATION_PROPERTY: Final = "isolation.level"


def split_client_settings(pairs: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part settings into Java's, which have to be translated, and librdkafka's own; a name both know is Java's."""
    java = {
        name: value
        for name, value in pairs.items()
        if is_java_client_property(name) or name in (_ISOLATION_PROPERTY, "bootstrap.servers")
    }
    return java, {name: value for name, value in pairs.items() if name not in java}


@dataclass(frozen=True)
class TopicSet:
    """Some or all of the three internal topics of Connect clusters.

    Attributes:
        topics: names; those not known are absent.
        settings: how to reach the cluster.
        isolation: of each topic in ``topics``.
        worker_group: the worker's own group when a worker file was given: ``(group id or None for plain keys,)``.
        worker: what the worker file says, where one was given.
    """

    topics: Mapping[TopicType, str]
    settings: ClientSettings
    isolation: Mapping[TopicType, Isolation] = field(default_factory=dict)
    worker_group: tuple[ClusterGroupId | None] | None = None
    worker: WorkerConfig | None = None

    @classmethod
    def from_flags(
        cls, bootstrap_servers: str | None, topics: Mapping[TopicType, str], client: Mapping[str, str]
    ) -> TopicSet:
        """Return the topics that a command line names.

        ``bootstrap_servers`` wins over ``bootstrap.servers`` in ``client``, which has Java's or librdkafka's names.

        Raises:
            ConfigError: names the setting that is missing or wrong.
        """
        for topic_type, topic in topics.items():
            check_topic_name(TOPIC_PROPERTIES[topic_type], topic)
        java, own = split_client_settings(client)
        java = connection_settings() | java
        if bootstrap_servers is not None:
            java["bootstrap.servers"] = bootstrap_servers
        level = java.pop(_ISOLATION_PROPERTY, Isolation.READ_UNCOMMITTED.value).strip().lower()
        if level not in {isolation.value for isolation in Isolation}:
            raise refusal(_ISOLATION_PROPERTY, "has to be read_uncommitted or read_committed")
        return cls(
            dict(topics),
            common_settings(java, own),
            {
                topic_type: Isolation.READ_UNCOMMITTED if topic_type is TopicType.STATUS else Isolation(level)
                for topic_type in topics
            },
        )

    @classmethod
    def from_worker_file(
        cls,
        path: str | Path,
        *,
        bootstrap_servers: str | None = None,
        topics: Mapping[TopicType, str] | None = None,
        client: Mapping[str, str] | None = None,
    ) -> TopicSet:
        """Return the topics of a worker file; options of a command line win over it.

        Raises:
            ConfigError: names the file and the property that is missing or wrong.
            InvalidClusterGroupIdError: sharing is on and ``group.id`` cannot be a cluster group id.
        """
        java, own = split_client_settings(client or {})
        properties = {**load_worker_file(path), **java}
        if bootstrap_servers is not None:
            properties["bootstrap.servers"] = bootstrap_servers
        for topic_type, topic in (topics or {}).items():
            properties[TOPIC_PROPERTIES[topic_type]] = topic
        config = WorkerConfig.from_file_properties(path, properties)
        return cls(
            {topic_type: config.topic(topic_type) for topic_type in TopicType},
            config.client_settings().overlaid(own),
            {topic_type: config.isolation(topic_type) for topic_type in TopicType},
            (config.cluster_group_id,),
            config,
        )
