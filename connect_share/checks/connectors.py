"""Checks whether a group's connectors bypass the interceptor. Pure: connector configurations in, findings out.

These clients of connectors use the worker's offset topic, in all versions:

- with exactly-once, the producer and the offset consumer of each source connector without an offsets topic of its own;
- those of a connector whose ``offsets.storage.topic`` names the worker's offset topic.

They get the worker's ``producer.`` and ``consumer.`` lines, over which the connector's own overrides win.
Sources: ``Worker.exactlyOnceSourceTaskProducerConfigs``, ``regularSourceOffsetsConsumerConfigs``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from connect_share.checks.finding import Finding, Severity, limited, named
from connect_share.checks.worker_file import (
    CLIENT_KINDS,
    INTERCEPTORS,
    WORKER_ONLY,
    class_names,
    has_policy_of_jar,
    refuses_overrides,
    worker_finding,
)
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.model.records import TopicType
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.config_providers import has_reference
from connect_share.worker_config.override_policy import OWN_TOPIC_PROPERTY

# Sinks have one of these; some sources have one too.
_TOPICS: Final = ("topics", "topics.regex")


def check_connectors(
    config: WorkerConfig, connectors: Mapping[str, Mapping[str, Any]], *, sources: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Check the configurations of a group's connectors. ``sources`` are the names of those that are known to be sources."""
    found = (
        finding
        for name in sorted(connectors)
        for finding in _CheckedConnector(config, name, connectors[name], is_source=name in sources).findings()
    )
    return tuple(limited(found))


class _CheckedConnector:
    def __init__(self, config: WorkerConfig, name: str, properties: Mapping[str, Any], *, is_source: bool) -> None:
        self._config = config
        self._name = name
        self._properties = properties
        self._sure = (
            is_source or bool(self._text(OWN_TOPIC_PROPERTY)) or not any(self._text(topics) for topics in _TOPICS)
        )
        self._exactly_once = config.exactly_once_source_support == "enabled"

    def findings(self) -> Iterable[Finding]:
        topic = self._text(OWN_TOPIC_PROPERTY)
        for other in (TopicType.CONFIG, TopicType.STATUS):
            if topic == self._config.topic(other):
                yield self._finding(
                    OWN_TOPIC_PROPERTY,
                    f"names the worker's {other.value} topic, where its client would write offsets with plain keys; "
                    f"remove it, or name a topic of its own",
                )
        names_workers = topic == self._config.offset_storage_topic
        if names_workers or (self._exactly_once and not topic):
            if names_workers and not has_policy_of_jar(self._config.originals):
                yield from self._missing_lines()
            if not refuses_overrides(self._config.originals):
                for kind in CLIENT_KINDS:
                    yield from self._overrides(kind)

    def _missing_lines(self) -> Iterable[Finding]:
        # A list that the connector overrides is reported there.
        lines = tuple(
            f"{kind}.{INTERCEPTORS}={','.join([*others, INTERCEPTOR_CLASS])}"
            for kind in CLIENT_KINDS
            if f"{kind}.override.{INTERCEPTORS}" not in self._properties
            and INTERCEPTOR_CLASS
            not in (others := class_names(self._config.originals.get(f"{kind}.{INTERCEPTORS}", "")))
        )
        if lines:
            yield self._finding(
                OWN_TOPIC_PROPERTY,
                "names the worker's own offset topic, where its client would write plain keys; remove it, or give "
                "the clients of connectors the interceptor too",
                add=lines,
            )

    def _overrides(self, kind: str) -> Iterable[Finding]:
        name = f"{kind}.override.{INTERCEPTORS}"
        if name in self._properties:
            value = self._text(name)
            times = class_names(value).count(INTERCEPTOR_CLASS)
            does = "writes its offsets with" if kind == "producer" else "looks for its offsets under"
            if times == 0:
                yield self._finding(
                    name,
                    f"replaces the worker's interceptor, so it {does} plain keys in a shared topic; "
                    f"add {INTERCEPTOR_CLASS} to it, or remove it",
                    sure=not has_reference(value),
                )
            elif times > 1:
                yield self._finding(name, f"has {INTERCEPTOR_CLASS} {times} times; it has to be there once")
        for other in WORKER_ONLY:
            if f"{kind}.override.{other}" in self._properties:
                yield self._finding(
                    f"{kind}.override.{other}",
                    "makes the interceptor treat this client as one of the worker's own; remove it",
                )

    def _finding(self, property_name: str, text: str, *, add: tuple[str, ...] = (), sure: bool = True) -> Finding:
        doubt = ""
        if not self._sure:
            doubt = " (if this is a source connector; a sink is not concerned)"
        elif not sure:
            doubt = " (its value is a reference, which is not followed here)"
        return worker_finding(
            Severity.WARNING if doubt else Severity.ERROR,
            property_name,
            f"connector '{named([self._name])}': {property_name} {text}{doubt}",
            add=add,
            connector=self._name,
        )

    def _text(self, name: str) -> str:
        value = self._properties.get(name)
        return value.strip() if isinstance(value, str) else ""
