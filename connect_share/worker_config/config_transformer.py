"""Connector configurations with their references resolved, and turned back before they are written (KIP-297)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final, Self

from connect_share.errors import ValueFormatError, refusal
from connect_share.model.keys import shown
from connect_share.worker_config.config_providers import ConfigProvider, Replacements, declared_providers, has_reference
from connect_share.worker_config.worker import WorkerConfig

RELOAD_PROPERTY: Final = "config.action.reload"
# Shorter ones are in other texts by chance.
_SHORTEST_SECRET: Final = 4


class WorkerConfigTransformer:
    """Replaces ``${provider:[path:]key}`` by what the providers of the worker file have. Thread-safe; no thread of its own.

    References to providers that are not declared, and keys that a provider does not have, stay as they are. What a
    reference is replaced by is not looked at again.

    Args:
        worker_config: declares providers in ``config.providers``; Kafka's file, directory and environment providers and
            ``connect_share.CommandConfigProvider`` are here.
        providers: further ones by their name in references, or in place of a class that only Java has. They are configured
            here, and closed by :meth:`close`.
        clock: seconds.

    Source: ``WorkerConfigTransformer``, ``ConfigTransformer``, ``AbstractHerder.reverseTransform``.

    >>> import os
    >>> from connect_share import WorkerConfig
    >>> os.environ["DB_PASSWORD"] = "secret"
    >>> properties = {
    ...     "bootstrap.servers": "kafka:9092",
    ...     "group.id": "group-a",
    ...     "config.storage.topic": "configs",
    ...     "offset.storage.topic": "offsets",
    ...     "status.storage.topic": "statuses",
    ...     "config.providers": "env",
    ...     "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    ... }
    >>> transformer = WorkerConfigTransformer(WorkerConfig.from_properties(properties))
    >>> raw = {"password": "${env:DB_PASSWORD}"}
    >>> resolved = transformer.transform(raw)
    >>> resolved["password"], transformer.reverse(raw, resolved)
    ('secret', {'password': '${env:DB_PASSWORD}'})
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        providers: Mapping[str, ConfigProvider] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._providers = declared_providers(worker_config.originals, providers)
        self._clock = clock
        self._lock = threading.Lock()
        self._reloads: dict[str, float] = {}
        self._applied: dict[str, tuple[Mapping[str, Any], dict[str, Any]]] = {}

    def transform(self, properties: Mapping[str, Any], *, connector: str | None = None) -> dict[str, Any]:
        """Return properties with their references replaced; each provider is asked once for each path.

        Args:
            properties: of a connector or a task; values that are no text stay as they are.
            connector: whose they are: data with a time to live is noted for :meth:`reloads_due`, unless the properties
                say ``config.action.reload=none``.

        Raises:
            ConfigError: a provider failed, there are more references than anybody means, or ``config.action.reload`` is
                neither ``restart`` nor ``none``; names the property, never the value.
            ValueFormatError: that are no properties.
        """
        result, found = self._transformed(properties)
        if connector is not None and _is_reloaded(connector, properties):
            ttls_ms = [data.ttl_ms for data in found.found.values() if data.ttl_ms is not None and data.ttl_ms >= 0]
            if ttls_ms:
                due_s = self._clock() + min(ttls_ms) / 1000
                with self._lock:
                    self._reloads[connector] = min(due_s, self._reloads.get(connector, due_s))
        return result

    def transform_applied(self, connector: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return what :meth:`transform` made of these very properties when it was asked first.

        So a secret that changed since then makes a difference. Source: ``AppliedConnectorConfig``.
        """
        with self._lock:
            raw, result = self._applied.get(connector, (None, {}))
        if raw is not properties:
            result = self._transformed(properties)[0]
            with self._lock:
                raw, earlier = self._applied.get(connector, (None, {}))
                result = earlier if raw is properties else result
                self._applied[connector] = (properties, result)
        return dict(result)

    def reverse(self, raw: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of a task as it is written: with the references of its connector.

        Each property that has a reference in the connector's own configuration gets that text back, whatever value it has
        now. Everything else stays: see :meth:`clear_text_secrets`.

        Args:
            raw: configuration of the connector, not transformed.
            resolved: of one task, as the connector made it.

        Raises:
            ValueFormatError: that are no properties.
        """
        _check_properties(raw)
        _check_properties(resolved)
        references = {name: text for name, text in raw.items() if isinstance(text, str) and has_reference(text)}
        return {name: references.get(name, value) for name, value in resolved.items()}

    def clear_text_secrets(self, raw: Mapping[str, Any], resolved: Mapping[str, Any]) -> list[str]:
        """Name the properties that would still hold what a reference stands for if :meth:`reverse` were written.

        Such as a URL that the connector made of a password. The providers are asked again; of what they have, texts of less
        than four characters are not looked for.

        Raises:
            ConfigError: as :meth:`transform`.
        """
        written = self.reverse(raw, resolved)
        changed = {name: text for name, text in written.items() if isinstance(text, str) and text != raw.get(name)}
        if not changed:
            return []
        secrets = self.secret_texts(raw)
        return sorted(name for name, text in changed.items() if any(secret in text for secret in secrets))

    def secret_texts(self, raw: Mapping[str, Any]) -> list[str]:
        """Return what references stand for, but texts of less than four characters; raises as :meth:`transform`."""
        return [value for value in self._transformed(raw)[1].values() if len(value) >= _SHORTEST_SECRET]

    def reloads_due(self) -> list[str]:
        """Return the connectors to restart now, because data of theirs has outlived its time to live; each once.

        The shortest time to live of a connector and its tasks counts, from when it was noted first. In Java each
        transformation begins it anew, so that a connector that is looked at often is never restarted.
        """
        now_s = self._clock()
        with self._lock:
            due = sorted(name for name, at in self._reloads.items() if at <= now_s)
            for name in due:
                del self._reloads[name]  # the restart transforms, which notes the next time
        return due

    def next_reload_s(self) -> float | None:
        """Return the seconds until :meth:`reloads_due` has a connector, 0 if it has; ``None``: nothing has a time to live."""
        with self._lock:
            first_s = min(self._reloads.values(), default=None)
        return None if first_s is None else max(0.0, first_s - self._clock())

    def forget(self, connector: str) -> None:
        """Forget when a connector has to be reloaded, and its secrets: it was stopped or removed."""
        with self._lock:
            self._reloads.pop(connector, None)
            self._applied.pop(connector, None)

    def close(self) -> None:
        """Close the providers."""
        with ExitStack() as each:
            for provider in self._providers.values():
                each.callback(provider.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _transformed(self, properties: Mapping[str, Any]) -> tuple[dict[str, Any], Replacements]:
        _check_properties(properties)
        found = Replacements(properties, self._providers, strict=False)
        result = {
            name: found.applied(name, value) if isinstance(value, str) else value for name, value in properties.items()
        }
        return result, found


def _check_properties(properties: object) -> None:
    if not isinstance(properties, Mapping):
        raise ValueFormatError(
            f"the properties of a connector or task have to be a map, not {type(properties).__name__}"
        )


def _is_reloaded(connector: str, properties: Mapping[str, Any]) -> bool:
    """Return whether data that outlives its time restarts the connector. Source: ``ConnectorConfig.ConfigReloadAction``."""
    action = properties.get(RELOAD_PROPERTY)
    word = "RESTART" if action is None else action.strip().upper() if isinstance(action, str) else ""
    if word not in ("RESTART", "NONE"):
        raise refusal(RELOAD_PROPERTY, f"of connector {shown(connector)} has to be restart or none")
    return word == "RESTART"
