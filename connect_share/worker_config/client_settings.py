"""Settings of one Kafka client, in librdkafka's names."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.errors import ConfigError

SECRET_WORDS: Final = (
    "password",
    "secret",
    "jaas",
    "token",
    "credential",
    "private",
    "key.pem",
    "keystore.key",
    "access.key",
    "api.key",
    "user.info",
    "sasl.username",
    "oauthbearer.config",
    "oauthbearer.extensions",
    "encryption.keys",
)


def is_secret_property(name: str) -> bool:
    """Return whether the value of a property must never be shown."""
    lowered = name.lower()
    return any(word in lowered for word in SECRET_WORDS)


def refusal(name: str, text: str) -> ConfigError:
    """Return the error for a property that is missing or wrong; the text continues after its name."""
    return ConfigError(f"{name}{text}" if text.startswith(":") else f"{name} {text}", property_name=name)


class Isolation(enum.Enum):
    """The isolation level of a consumer; always set, because the client's default is not Java's."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True)
class ClientSettings:
    """The settings with which a Kafka client reaches a cluster: bootstrap servers, security, user settings.

    Attributes:
        properties: librdkafka property names and values; never printed whole, ``repr`` masks secrets.
    """

    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        """Comma list ``host:port``, empty when unset."""
        return self.properties.get("bootstrap.servers", "")

    def overlaid(self, overrides: Mapping[str, str]) -> ClientSettings:
        """Return settings in which ``overrides`` win."""
        return ClientSettings({**self.properties, **overrides})

    def __repr__(self) -> str:
        shown = {
            name: "[hidden]" if is_secret_property(name) else value for name, value in sorted(self.properties.items())
        }
        return f"ClientSettings({shown})"
