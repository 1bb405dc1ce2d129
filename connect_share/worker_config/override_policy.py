"""What a connector's configuration changes of its Kafka clients, as far as the worker's policy allows it (KIP-458)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from connect_share.errors import refusal

POLICY_PROPERTY: Final = "connector.client.config.override.policy"
ALLOWLIST_PROPERTY: Final = "connector.client.config.override.allowlist"
POLICY_CLASS: Final = "connectshare.TopicSharingOverridePolicy"
"""Of the worker's jar: it gives the clients of source connectors the interceptor, and leaves the rules to another policy."""

RULES_PROPERTY: Final = "connectshare.override.policy"
"""Names that other policy."""

Client = Literal["producer", "consumer", "admin"]
SINK_GROUP_PROPERTY: Final = "consumer.override.group.id"
"""The consumer group of a sink connector, instead of ``connect-<name>``."""
OWN_TOPIC_PROPERTY: Final = "offsets.storage.topic"
"""The offsets topic of a source connector, instead of the worker's."""

_DEFAULT: Final = "All"
_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_ENDING: Final = "ConnectorClientConfigOverridePolicy"
_PACKAGE: Final = "org.apache.kafka.connect.connector.policy."
# As Connect finds a plugin: by its class, the class without its package, and that without the plugin's kind.
_NAMES: Final = {
    spelled: name
    for name in ("All", "None", "Principal", "Allowlist")
    for spelled in (name, f"{name}{_ENDING}", f"{_PACKAGE}{name}{_ENDING}")
}


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """The settings that connectors may override, by name; ``None`` is all."""

    name: str
    allowed: frozenset[str] | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> OverridePolicy:
        """Read the policy of a worker; as in Java it is ``All`` where the worker's file does not say.

        Raises:
            ConfigError: it is a class of the worker's own, whose rules are not known here.

        Source: ``ConnectorClientConfigOverridePolicy`` and its classes, KIP-458 and KIP-1188.
        """
        given = properties.get(POLICY_PROPERTY, _DEFAULT).strip()
        if given == POLICY_CLASS:
            given = properties.get(RULES_PROPERTY, "").strip() or _DEFAULT
        name = _NAMES.get(given)
        if name is None:
            raise refusal(
                POLICY_PROPERTY,
                f": Java class {given!r} cannot run here, so what connectors may override is not known; "
                "use All, None, Principal or Allowlist",
            )
        if name == "All":
            return cls(name, None)
        listed = properties.get(ALLOWLIST_PROPERTY, "") if name == "Allowlist" else ""
        return cls(name, _PRINCIPAL if name == "Principal" else frozenset(part.strip() for part in listed.split(",")))

    def allows(self, setting: str) -> bool:
        """Return whether a connector may override this setting of a client."""
        return self.allowed is None or setting in self.allowed


def client_overrides(connector_config: Mapping[str, str | None], client: Client) -> dict[str, str | None]:
    """Return the settings that a connector overrides of one kind of client, by Java's names without the prefix.

    >>> client_overrides({"consumer.override.max.poll.records": "5", "topics": "t"}, "consumer")
    {'max.poll.records': '5'}
    """
    prefix = f"{client}.override."
    return {name.removeprefix(prefix): value for name, value in connector_config.items() if name.startswith(prefix)}


def refused_overrides(connector_config: Mapping[str, str | None], policy: OverridePolicy) -> list[str]:
    """Return the properties of a connector that the policy of the worker does not allow, sorted.

    >>> policy = OverridePolicy.of({"connector.client.config.override.policy": "Principal"})
    >>> refused_overrides({"consumer.override.max.poll.records": "5"}, policy)
    ['consumer.override.max.poll.records']

    Source: ``AbstractHerder.validateClientOverrides``.
    """
    clients: tuple[Client, ...] = ("admin", "consumer", "producer")
    return sorted(
        f"{client}.override.{name}"
        for client in clients
        for name in client_overrides(connector_config, client)
        if not policy.allows(name)
    )


def sink_group_id(connector: str, connector_config: Mapping[str, object]) -> str:
    """Return the consumer group of a sink connector: ``connect-<name>``, or what its configuration overrides.

    >>> sink_group_id("sink", {"connector.class": "FileStreamSink"})
    'connect-sink'

    Source: ``SinkUtils.consumerGroupId``.
    """
    return str(connector_config.get(SINK_GROUP_PROPERTY) or f"connect-{connector}")


def is_sink(connector_config: Mapping[str, object]) -> bool:
    """Return whether a connector seems to be a sink, as far as its configuration tells."""
    # MirrorMaker's sources have topics, too.
    name = str(connector_config.get("connector.class", "")).rpartition(".")[2]
    is_source = "Source" in name or name.startswith("Mirror")
    return not is_source and any(connector_config.get(each) for each in ("topics", "topics.regex"))
