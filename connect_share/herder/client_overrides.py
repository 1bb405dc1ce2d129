"""What a connector's configuration changes of its clients, as far as the worker's policy allows it (KIP-458)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from connect_share.worker_config.override_policy import OverridePolicy

Client = Literal["producer", "consumer", "admin"]


def client_overrides(connector_config: Mapping[str, str | None], client: Client) -> dict[str, str | None]:
    """Return the settings that a connector overrides of one kind of client, by Java's names without the prefix.

    >>> client_overrides({"consumer.override.max.poll.records": "5", "topics": "t"}, "consumer")
    {'max.poll.records': '5'}
    """
    prefix = f"{client}.override."
    return {name.removeprefix(prefix): value for name, value in connector_config.items() if name.startswith(prefix)}


def refused_overrides(connector_config: Mapping[str, str | None], policy: OverridePolicy) -> list[str]:
    """Return the properties of a connector that the policy of the worker does not allow, sorted.

    >>> from connect_share.worker_config.override_policy import OverridePolicy
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
