"""KIP-1173's ``KafkaConnectTopicMigrator``: its six properties as a :class:`~connect_share.transform.rules.KeyTransform`.

Pure. Mirror loops use this class. A plan makes the same ``KeyTransform`` from worker files, and the local engine
and Spark tasks copy with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
from connect_share.transform.rules import KeyTransform, Skipped, SkipReason

SOURCE_CLUSTER_NAMES: Final = "source.cluster.names"
DESTINATION_CLUSTER_NAME: Final = "destination.cluster.name"
TOPIC_TYPE: Final = "topic.type"
MIGRATE_JOB: Final = "migrate.job"
JOB_NAME: Final = "job.name"
OLD_CLIENT: Final = "old.client"
__all__ = ["PROPERTIES", "KafkaConnectTopicMigrator", "SkipReason", "Skipped"]

PROPERTIES: Final = (SOURCE_CLUSTER_NAMES, DESTINATION_CLUSTER_NAME, TOPIC_TYPE, MIGRATE_JOB, JOB_NAME, OLD_CLIENT)


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
            f"{JOB_NAME} is required with {MIGRATE_JOB}=true: the exact name of the connector", property_name=JOB_NAME
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

    __slots__ = ("_transform",)

    def __init__(self, properties: Mapping[str, str]) -> None:
        unknown = sorted(str(name) for name in properties if name not in PROPERTIES)
        if unknown:
            raise ConfigError(
                f"{unknown[0]!r} is no property of the migrator; there are {', '.join(PROPERTIES)}",
                property_name=unknown[0],
            )
        topic_type = _topic_type(properties)
        destination = _text(properties, DESTINATION_CLUSTER_NAME, "")
        if not destination.strip():
            raise ConfigError(
                f"{DESTINATION_CLUSTER_NAME} is required: the cluster group id to write",
                property_name=DESTINATION_CLUSTER_NAME,
            )
        group = _cluster_group_id(destination, DESTINATION_CLUSTER_NAME)
        job, names = _job(properties), _text(properties, SOURCE_CLUSTER_NAMES, "").strip()
        sources = {_cluster_group_id(part, SOURCE_CLUSTER_NAMES) for part in names.split(",")} if names else set()
        old_client = _boolean(properties, OLD_CLIENT, default=True)
        if old_client and sources:
            raise ConfigError(
                f"{SOURCE_CLUSTER_NAMES} is set but {OLD_CLIENT} is true, which takes plain keys, and those "
                f"name no group: set {OLD_CLIENT}=false or leave {SOURCE_CLUSTER_NAMES} empty",
                property_name=SOURCE_CLUSTER_NAMES,
            )
        if not old_client and not sources and job is None:
            raise ConfigError(
                f"{SOURCE_CLUSTER_NAMES} is required with {OLD_CLIENT}=false, unless {MIGRATE_JOB}=true",
                property_name=SOURCE_CLUSTER_NAMES,
            )
        self._transform = KeyTransform(
            topic_type=topic_type,
            plain=old_client,
            groups=frozenset(str(name) for name in sources) or None,
            destination=group,
            connectors=None if job is None else frozenset({job}),
        )

    @property
    def transform(self) -> KeyTransform:
        """The same transform without the KIP's names: the object that both engines of ``connect-share-migrate`` use."""
        return self._transform

    def apply(self, record: Record) -> Record | Skipped:
        """Return the record with its new key, or why it is not carried over; see :meth:`KeyTransform.apply`."""
        return self._transform.apply(record)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaConnectTopicMigrator) and self._transform == other.transform

    def __hash__(self) -> int:
        return hash(self._transform)

    def __repr__(self) -> str:
        return f"KafkaConnectTopicMigrator({self._transform})"
