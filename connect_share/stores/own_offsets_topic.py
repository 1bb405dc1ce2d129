"""Where a connector with an offsets topic of its own keeps its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_share.errors import ConfigError
from connect_share.worker_config import WorkerConfig

OWN_TOPIC_PROPERTY: Final = "offsets.storage.topic"
_OVERRIDE_PREFIXES: Final = ("consumer.override.", "producer.override.", "admin.override.")
# Each client of a store has its own; a connector cannot mean them for the store.
_NOT_FOR_THE_STORE: Final = frozenset({"client.id", "group.id", "transactional.id"})


def own_offsets_worker_config(
    worker_config: WorkerConfig, connector: str, connector_config: Mapping[str, str | None]
) -> WorkerConfig | None:
    """Describe the store of a connector's own offsets topic.

    Args:
        worker_config: the worker's; partitions, replication and topic settings come from it.
        connector: the connector's name, for messages.
        connector_config: ``offsets.storage.topic`` names the topic; ``consumer.override.*``,
            ``producer.override.*`` and ``admin.override.*`` are laid over the worker's client settings.

    Returns:
        ``None`` where the connector's offsets lie in the worker's topic: no topic of its own, or the same
        topic of the same cluster.

    Raises:
        ConfigError: two overrides give the same setting different values, or one cannot be translated.

    Source: ``Worker.offsetStoreForRegularSourceConnector``.
    """
    topic = connector_config.get(OWN_TOPIC_PROPERTY)
    if topic is None:
        return None
    if not topic.strip():
        raise ConfigError(
            f"{OWN_TOPIC_PROPERTY} of connector {connector!r} is blank; name a topic or leave it out",
            property_name=OWN_TOPIC_PROPERTY,
        )
    overrides: dict[str, str] = {}
    for name, value in connector_config.items():
        for prefix in _OVERRIDE_PREFIXES:
            setting = name.removeprefix(prefix)
            if setting == name or setting in _NOT_FOR_THE_STORE or value is None:
                continue
            if overrides.setdefault(setting, value) != value:
                raise ConfigError(
                    f"{name} of connector {connector!r} contradicts another override of {setting}: producer, "
                    "consumer and admin of an offsets topic have to reach the same cluster in the same way",
                    property_name=name,
                )
    own = WorkerConfig.from_properties({**worker_config.originals, **overrides, "offset.storage.topic": topic})
    same_cluster = own.bootstrap_servers == worker_config.bootstrap_servers
    return None if same_cluster and topic == worker_config.offset_storage_topic else own
