"""Where a connector with an offsets topic of its own keeps its offsets, and how that topic is reached.

The configuration comes from a topic that others may write to, so nothing in it is believed: what it may override is
the worker's policy, references to config providers are not followed, and the worker's credentials stay with the worker's
own way to its brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from connect_share.errors import ConfigError
from connect_share.records import TopicType
from connect_share.sealing import SealingMode
from connect_share.state.names import shown
from connect_share.worker_config import ClientSettings, Isolation, WorkerConfig, common_settings
from connect_share.worker_config.client_translation import consumer_tuning, producer_tuning
from connect_share.worker_config.config_providers import has_reference
from connect_share.worker_config.override_policy import (
    POLICY_PROPERTY,
    OverridePolicy,
    client_overrides,
    refused_overrides,
)
from connect_share.worker_config.worker_config import is_topic_name

OWN_TOPIC_PROPERTY: Final = "offsets.storage.topic"
_CLIENTS: Final = ("admin", "consumer", "producer")
_OVERRIDE_PREFIXES: Final = tuple(f"{client}.override." for client in _CLIENTS)
# Each client of a store has its own; a connector cannot mean them for the store.
_NOT_FOR_THE_STORE: Final = frozenset({"client.id", "group.id", "transactional.id"})
_WHERE: Final = "bootstrap.servers"
_HOW: Final = ("security.", "sasl.", "ssl.")
_CREDENTIALS: Final = ("sasl.jaas.config", "sasl.oauthbearer.client.credentials.")
_CLIENT_PREFIXES: Final = tuple(f"{client}." for client in _CLIENTS)
_UNPAIRED: Final = re.compile("[\ud800-\udfff]")
_SHOWN: Final = 200
_VALUE_LIMIT: Final = 65_536


class OwnOffsetsConfig(WorkerConfig):
    """The worker's configuration as it is for one connector's own offsets topic, which is shared only if it is the worker's.

    Attributes:
        is_the_workers: it is the worker's own topic, in the same cluster, reached by clients of the connector's.
    """

    admin_client: ClientSettings
    consumer_client: ClientSettings
    producer_client: ClientSettings
    offsets_isolation: Isolation
    is_the_workers: bool

    def isolation(self, topic_type: TopicType) -> Isolation:
        """Return how the topic is read: committed records only, unless the connector or the worker says otherwise."""
        return self.offsets_isolation if topic_type is TopicType.OFFSET else super().isolation(topic_type)

    def client_settings(self) -> ClientSettings:
        """Return the settings of the admin client."""
        return self.admin_client

    def consumer_settings(self) -> ClientSettings:
        """Return the settings of the consumer."""
        return self.consumer_client

    def producer_settings(self) -> ClientSettings:
        """Return the settings of the producer."""
        return self.producer_client


def own_offsets_properties(worker_config: WorkerConfig, connector_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a connector's configuration that says where its offsets are; empty: in the worker's topic.

    With exactly-once a source without a topic of its own has its offsets where its records go, which may be another
    cluster: in a topic named as the worker's.
    """
    found = {name: value for name, value in connector_config.items() if name.startswith(_OVERRIDE_PREFIXES)}
    topic = connector_config.get(OWN_TOPIC_PROPERTY)
    if topic is None and worker_config.exactly_once_source_support == "enabled":
        moved = any(f"{prefix}{_WHERE}" in found for prefix in _OVERRIDE_PREFIXES)
        if moved or any(f"{prefix}{_WHERE}" in worker_config.originals for prefix in _CLIENT_PREFIXES):
            topic = worker_config.offset_storage_topic
    return {} if topic is None else {**found, OWN_TOPIC_PROPERTY: topic}


def own_offsets_worker_config(
    worker_config: WorkerConfig, connector: str, connector_config: Mapping[str, Any]
) -> OwnOffsetsConfig | None:
    """Describe the store of a connector's own offsets topic.

    As in Java its producer is made of the worker's ``producer.*``, its consumer of ``consumer.*``, its admin client of
    ``admin.*`` over what has no prefix, each under the connector's ``<client>.override.*``.

    Partitions, replication and topic settings come from the worker's.

    Returns:
        ``None`` where the offsets are in the worker's topic, and the worker's own clients reach it.

    Raises:
        ConfigError: a value is no text, the worker's policy does not allow an override, or a client cannot be made of
            them; names the connector and the property, never the value.

    Source: ``Worker.offsetStoreForRegularSourceTask``, ``baseProducerConfigs``, ``regularSourceOffsetsConsumerConfigs``,
    ``adminConfigs``.
    """
    properties = own_offsets_properties(worker_config, connector_config)
    if not properties:
        return None
    topic = _text(connector, OWN_TOPIC_PROPERTY, properties[OWN_TOPIC_PROPERTY]).strip()
    _check_topic(worker_config, connector, topic)
    overrides = _overrides(worker_config, connector, properties)
    java = {client: _laid_over(_of_the_worker(worker_config, client), overrides[client]) for client in _CLIENTS}
    servers = {client: _servers(java[client][_WHERE]) for client in _CLIENTS}
    for client in _CLIENTS:
        if servers[client] != servers["producer"]:
            raise _refused(
                connector,
                f"{client}.override.{_WHERE}",
                f"and the producer's {_WHERE} are different: producer, consumer and admin client of an offsets topic have to "
                f"reach the same cluster; set {', '.join(f'{prefix}{_WHERE}' for prefix in _OVERRIDE_PREFIXES)} alike",
            )
    clients = {client: _translated(connector, client, java[client], overrides[client]) for client in _CLIENTS}
    changed: dict[str, object] = {"offset_storage_topic": topic}
    if topic != worker_config.offset_storage_topic:
        # Only the name counts, also in another cluster, as with the jar.
        changed |= {"sharing_enabled": False, "sealing_mode": SealingMode.OFF, "sealing_keys": None}
    return OwnOffsetsConfig(
        **{**dict(worker_config), **changed},
        admin_client=clients["admin"],
        consumer_client=clients["consumer"].overlaid({"group.id": worker_config.group_id}),
        producer_client=clients["producer"],
        offsets_isolation=_isolation(worker_config, connector, java["consumer"]),
        is_the_workers=topic == worker_config.offset_storage_topic
        and servers["producer"] == _servers(worker_config.bootstrap_servers),
    )


def _text(connector: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refused(connector, name, "is not text; every value of a connector's configuration is a string")
    if len(value) > _VALUE_LIMIT or "\0" in value or _UNPAIRED.search(value):
        raise _refused(connector, name, f"has more than {_VALUE_LIMIT} characters, or characters that no setting has")
    if has_reference(value):
        raise _refused(
            connector, name, "refers to a config provider, which is not followed here; write the value itself"
        )
    return value


def _check_topic(worker_config: WorkerConfig, connector: str, topic: str) -> None:
    if not topic:
        raise _refused(connector, OWN_TOPIC_PROPERTY, "is blank; name a topic or leave it out")
    if not is_topic_name(topic):
        raise _refused(connector, OWN_TOPIC_PROPERTY, "is not a legal topic name")
    for other in (TopicType.CONFIG, TopicType.STATUS):
        if topic == worker_config.topic(other):
            raise _refused(
                connector, OWN_TOPIC_PROPERTY, f"names the worker's {other.value} topic; name a topic for offsets"
            )


def _overrides(
    worker_config: WorkerConfig, connector: str, connector_config: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return what the connector overrides, by client, after the worker's policy."""
    given = {client: client_overrides(connector_config, client) for client in _CLIENTS}
    if any(given.values()):
        policy = OverridePolicy.of(worker_config.originals)
        refused = refused_overrides(connector_config, policy)
        if refused:
            raise _refused(
                connector, refused[0], f"is not allowed by the worker's {POLICY_PROPERTY}={policy.name}; remove it"
            )
    return {
        client: {
            setting: _text(connector, f"{client}.override.{setting}", value)
            for setting, value in settings.items()
            if value is not None and setting not in _NOT_FOR_THE_STORE
        }
        for client, settings in given.items()
    }


def _of_the_worker(worker_config: WorkerConfig, client: str) -> dict[str, str]:
    java = worker_config.originals
    prefixed = {name.removeprefix(f"{client}."): value for name, value in java.items() if name.startswith(f"{client}.")}
    plain = {} if client != "admin" else {n: v for n, v in java.items() if not n.startswith(_CLIENT_PREFIXES)}
    return {_WHERE: worker_config.bootstrap_servers, **plain, **prefixed}


def _laid_over(workers: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a client; the worker's credentials go nowhere else, and in no other way, than the worker."""
    moved = any(name == _WHERE or name.startswith(_HOW) for name in overrides)
    kept = {name: value for name, value in workers.items() if not (moved and name.startswith(_CREDENTIALS))}
    return {**kept, **overrides}


def _servers(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _isolation(worker_config: WorkerConfig, connector: str, java: Mapping[str, str]) -> Isolation:
    if worker_config.exactly_once_source_support == "enabled":
        return Isolation.READ_COMMITTED
    try:
        return Isolation(java.get("isolation.level", Isolation.READ_COMMITTED.value).strip().lower())
    except ValueError:
        words = " or ".join(level.value for level in Isolation)
        raise _refused(connector, "isolation.level of the consumer", f"has to be {words}") from None


def _translated(connector: str, client: str, java: Mapping[str, str], overrides: Mapping[str, str]) -> ClientSettings:
    try:
        settings = common_settings(java)
        tuning = {"consumer": consumer_tuning, "producer": producer_tuning}.get(client)
        return settings if tuning is None else settings.overlaid(tuning(java))
    except ConfigError as error:
        if not overrides:
            raise ConfigError(
                f"the {client} client of connector {shown(connector)}: {error}", property_name=error.property_name
            ) from error
        # Its text may hold what the connector wrote.
        name = f"{client}.override.{error.property_name or _WHERE}"
    raise _refused(
        connector,
        name,
        "is missing or has a value that no client can be made of here; where a connector overrides how a client "
        "reaches the brokers, it brings the credentials too",
    )


def _refused(connector: str, name: str, why: str) -> ConfigError:
    return ConfigError(f"{shown(name)} of connector {shown(connector)} {why}", property_name=name[:_SHOWN])
