"""The migrator's core: one record in, the same record under its new key out, or the reason why not.

Pure. A mirror loop, the local engine and a Spark task all use the same object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.keys import ClusterGroupId
from connect_share.records import Record, TopicType
from migrator.transform.rules import KeyTransform, Skipped, SkipReason

SOURCE_CLUSTER_NAMES: Final = "source.cluster.names"
DESTINATION_CLUSTER_NAME: Final = "destination.cluster.name"
TOPIC_TYPE: Final = "topic.type"
MIGRATE_JOB: Final = "migrate.job"
JOB_NAME: Final = "job.name"
OLD_CLIENT: Final = "old.client"
__all__ = ["PROPERTIES", "KafkaConnectTopicMigrator", "SkipReason", "Skipped"]

_PROPERTIES_VERSION: Final = 1
"""Raised whenever the same properties would mean another transform."""
PROPERTIES: Final = (
    SOURCE_CLUSTER_NAMES,
    DESTINATION_CLUSTER_NAME,
    TOPIC_TYPE,
    MIGRATE_JOB,
    JOB_NAME,
    OLD_CLIENT,
)


def _text(properties: Mapping[str, str], name: str, default: str) -> str:
    value = properties.get(name, default)
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be text, not {type(value).__name__}", property_name=name)
    return value


def _boolean(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = _text(properties, name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{name} must be true or false", property_name=name)
    return text == "true"


def _cluster_group_id(text: str, property_name: str) -> ClusterGroupId:
    try:
        return ClusterGroupId(text.strip())
    except InvalidClusterGroupIdError as error:
        raise ConfigError(f"{property_name}: {error}", property_name=property_name) from error


def _source_names(properties: Mapping[str, str]) -> frozenset[ClusterGroupId]:
    text = _text(properties, SOURCE_CLUSTER_NAMES, "").strip()
    if not text:
        return frozenset()
    return frozenset(_cluster_group_id(part, SOURCE_CLUSTER_NAMES) for part in text.split(","))


def _topic_type(properties: Mapping[str, str]) -> TopicType:
    text = _text(properties, TOPIC_TYPE, "").strip()
    legal = ", ".join(member.value for member in TopicType)
    if not text:
        raise ConfigError(f"{TOPIC_TYPE} is required: one of {legal}", property_name=TOPIC_TYPE)
    try:
        return TopicType(text)
    except ValueError:
        raise ConfigError(f"{TOPIC_TYPE} must be one of {legal}, not {text!r}", property_name=TOPIC_TYPE) from None


def _job(properties: Mapping[str, str]) -> str | None:
    migrate_job = _boolean(properties, MIGRATE_JOB, default=False)
    name = _text(properties, JOB_NAME, "")  # not trimmed: Connect allows names with blanks at the ends
    if not migrate_job:
        if name:
            raise ConfigError(
                f"{JOB_NAME} is set but {MIGRATE_JOB} is false: set {MIGRATE_JOB}=true or leave {JOB_NAME} out",
                property_name=JOB_NAME,
            )
        return None
    if not name.strip():
        raise ConfigError(
            f"{JOB_NAME} is required with {MIGRATE_JOB}=true: the exact name of the connector",
            property_name=JOB_NAME,
        )
    if any(ord(character) < 0x20 or 0x7F <= ord(character) <= 0x9F for character in name):
        raise ConfigError(f"{JOB_NAME} holds a control character; no connector has such a name", property_name=JOB_NAME)
    return name


class KafkaConnectTopicMigrator:
    """KIP-1173's transform: gives records of Connect's internal topics the key they have at the destination.

    Properties (names and defaults are the KIP's):
        ``source.cluster.names``: cluster group ids, separated by commas; default empty.
        ``destination.cluster.name``: the cluster group id to write; required.
        ``topic.type``: ``config``, ``status`` or ``offset``; required.
        ``migrate.job``: ``true`` takes one connector only; default ``false``.
        ``job.name``: exact name of that connector; required with, and refused without, ``migrate.job=true``.
        ``old.client``: ``true`` (default) takes plain keys only; ``false`` takes keys of the named groups,
        or, with ``migrate.job=true`` and no names, of any group.

    Instances hold no client and can be pickled.

    Raises:
        ConfigError: a property is unknown, missing, wrong or contradicts another; it names the property.

    Source: KIP-1173 ``KafkaConnectTopicMigrator``.
    """

    __slots__ = ("_destination", "_job", "_old_client", "_sources", "_topic_type", "_transform")

    def __init__(self, properties: Mapping[str, str]) -> None:
        unknown = sorted(str(name) for name in properties if name not in PROPERTIES)
        if unknown:
            raise ConfigError(
                f"{unknown[0]!r} is no property of the migrator; there are {', '.join(PROPERTIES)}",
                property_name=unknown[0],
            )
        self._topic_type = _topic_type(properties)
        destination = _text(properties, DESTINATION_CLUSTER_NAME, "")
        if not destination.strip():
            raise ConfigError(
                f"{DESTINATION_CLUSTER_NAME} is required: the cluster group id to write",
                property_name=DESTINATION_CLUSTER_NAME,
            )
        self._destination = _cluster_group_id(destination, DESTINATION_CLUSTER_NAME)
        self._job = _job(properties)
        self._sources = _source_names(properties)
        self._old_client = _boolean(properties, OLD_CLIENT, default=True)
        if self._old_client and self._sources:
            raise ConfigError(
                f"{SOURCE_CLUSTER_NAMES} is set but {OLD_CLIENT} is true, which takes plain keys, and those "
                f"name no group: set {OLD_CLIENT}=false or leave {SOURCE_CLUSTER_NAMES} empty",
                property_name=SOURCE_CLUSTER_NAMES,
            )
        if not self._old_client and not self._sources and self._job is None:
            raise ConfigError(
                f"{SOURCE_CLUSTER_NAMES} is required with {OLD_CLIENT}=false, unless {MIGRATE_JOB}=true",
                property_name=SOURCE_CLUSTER_NAMES,
            )
        self._transform = KeyTransform(
            topic_type=self._topic_type,
            plain=self._old_client,
            groups=frozenset(str(name) for name in self._sources) or None,
            destination=self._destination,
            connectors=None if self._job is None else frozenset({self._job}),
        )

    @property
    def topic_type(self) -> TopicType:
        """Which of the three topics the records come from."""
        return self._topic_type

    @property
    def destination(self) -> ClusterGroupId:
        """The cluster group id that is written."""
        return self._destination

    @property
    def properties(self) -> dict[str, str]:
        """All six properties in their one spelling; equal for migrators that do the same."""
        return {
            SOURCE_CLUSTER_NAMES: ",".join(sorted(self._sources)),
            DESTINATION_CLUSTER_NAME: str(self._destination),
            TOPIC_TYPE: self._topic_type.value,
            MIGRATE_JOB: "false" if self._job is None else "true",
            JOB_NAME: self._job or "",
            OLD_CLIENT: "true" if self._old_client else "false",
        }

    @property
    def fingerprint(self) -> str:
        """A hash over the properties and the version of the rule: the same means the same transform."""
        told = json.dumps({"rule": _PROPERTIES_VERSION, **self.properties}, sort_keys=True)
        return f"sha256:{hashlib.sha256(told.encode()).hexdigest()}"

    @property
    def transform(self) -> KeyTransform:
        """What it does, without the KIP's names."""
        return self._transform

    def apply(self, record: Record) -> Record | Skipped:
        """Give the record its new key; never raises and keeps no memory of earlier records.

        Everything but the key stays as it is, tombstones, timestamp, headers and ``partition`` included:
        whoever writes the record places it by murmur2 of the new key.
        """
        return self._transform.apply(record)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaConnectTopicMigrator) and self.properties == other.properties

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[type[KafkaConnectTopicMigrator], tuple[dict[str, str]]]:
        return KafkaConnectTopicMigrator, (self.properties,)

    def __repr__(self) -> str:
        return f"KafkaConnectTopicMigrator({self.properties})"
