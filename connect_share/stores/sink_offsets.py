"""Offsets of a sink connector: those of its consumer group, in the JSON of Connect's REST (KIP-875)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from connect_share.errors import BrokerError, UsageError, ValueFormatError
from connect_share.kafka.admin import Admin, result_of
from connect_share.kafka.client import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
    consumer,
    translate,
)
from connect_share.model.keys import is_integer, shown
from connect_share.stores.connector_offsets import connector_client_settings
from connect_share.worker_config import Isolation, WorkerConfig

_NO_GROUP = "GROUP_ID_NOT_FOUND"


class ConsumerGroupsAdmin(Admin):
    """An admin client for the offsets of consumer groups.

    Each method raises ``BrokerError``: not reachable, not allowed, or refused because the group has members, with Kafka's
    name for that.
    """

    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition; none of a group that does not exist."""
        doing = f"reading the offsets of consumer group {group_id}"
        # A consumer that never joins, and not the admin client: that one crashes the process where the coordinator is moving
        # or not there yet (librdkafka issue 5040). With a topic the brokers forget its offsets, so all there are are found.
        settings = self.settings.overlaid({"group.id": group_id})
        reader = consumer(settings, client_id="group-offsets", isolation=Isolation.READ_COMMITTED)

        def ask(timeout_s: float) -> dict[tuple[str, int], int]:
            try:
                topics = reader.list_topics(timeout=timeout_s).topics
                wanted = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
                found = reader.committed(wanted, timeout=timeout_s) if wanted else []
            except KafkaException as exc:
                raise translate(exc, doing) from exc
            for each in found:
                if each.error is not None:
                    raise translate(each.error, doing)
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

        try:
            return self._retried(ask)
        finally:
            reader.close()

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set committed offsets of a group without members."""
        partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

        def ask(timeout_s: float) -> None:
            wanted = [ConsumerGroupTopicPartitions(group_id, partitions)]
            (future,) = self._client.alter_consumer_group_offsets(wanted, request_timeout=timeout_s).values()
            doing = f"changing the offsets of consumer group {group_id}"
            for each in result_of(future, doing, timeout_s=timeout_s).topic_partitions:
                if each.error is not None:
                    raise translate(each.error, f"{doing}: {each.topic}, partition {each.partition}")

        self._retried(ask)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, with all its offsets; it need not exist."""

        def ask(timeout_s: float) -> None:
            (future,) = self._client.delete_consumer_groups([group_id], request_timeout=timeout_s).values()
            try:
                result_of(future, f"deleting consumer group {group_id}", timeout_s=timeout_s)
            except BrokerError as error:
                if error.name != _NO_GROUP:
                    raise

        self._retried(ask)


TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
_MOST_DIGITS: Final = len(str(2**63))
_LIVE: Final = frozenset({"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"})

Pair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


def sink_offsets(admin: ConsumerGroupsAdmin, group_id: str) -> list[dict[str, Any]]:
    """Return the committed offsets: ``[{"partition": {..}, "offset": {..}}, ..]`` by topic and partition.

    Raises:
        BrokerError: the cluster cannot be reached, or refuses.
    """
    return [{"partition": at, "offset": offset} for at, offset in sink_pairs(admin.group_offsets(group_id))]


def alter_sink_offsets(admin: ConsumerGroupsAdmin, group_id: str, offsets: Iterable[Pair]) -> None:
    """Set offsets of a stopped sink connector, given as pairs of partition and offset.

    All are checked before one is changed. ``None`` as offset is refused: the client library cannot remove one offset of a
    group; :func:`reset_sink_offsets` removes all.

    Raises:
        ValueFormatError: a pair is not of Connect's form; says which.
        UsageError: the group has members: the connector is not stopped.
        BrokerError: the cluster cannot be reached, or refuses.

    Source: ``Worker.alterSinkConnectorOffsets``, ``SinkUtils.parseSinkConnectorOffsets``.
    """
    wanted = parsed_sink_offsets(offsets)
    if wanted:
        _of_stopped(group_id, lambda: admin.alter_group_offsets(group_id, wanted))


def reset_sink_offsets(admin: ConsumerGroupsAdmin, group_id: str) -> None:
    """Remove all offsets of a stopped sink connector, with its consumer group.

    Raises:
        UsageError: the group has members: the connector is not stopped.
        BrokerError: the cluster cannot be reached, or refuses.
    """
    _of_stopped(group_id, lambda: admin.delete_group(group_id))


def parsed_sink_offsets(offsets: Iterable[Pair]) -> dict[tuple[str, int], int]:
    """Return offsets by topic and partition.

    Raises:
        ValueFormatError: as of :func:`alter_sink_offsets`.
    """
    return {_partition(number, at): _offset(number, offset) for number, (at, offset) in enumerate(offsets)}


def sink_pairs(offsets: Mapping[tuple[str, int], int]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return committed offsets as Connect's REST has them, by topic and partition."""
    return [({TOPIC: topic, PARTITION: number}, {OFFSET: at}) for (topic, number), at in sorted(offsets.items())]


def sink_admin(worker: WorkerConfig, connector: str, config: Mapping[str, Any]) -> ConsumerGroupsAdmin:
    """Return an admin client of the cluster that a sink reads; the caller closes it.

    Raises:
        ConfigError: as of ``connector_client_settings``.
    """
    settings = connector_client_settings(worker, connector, config, "consumer")
    return ConsumerGroupsAdmin(settings, client_id=worker.client_id("console"))


def _of_stopped(group_id: str, change: Callable[[], None]) -> None:
    try:
        change()
    except BrokerError as error:
        if error.name in _LIVE:
            raise UsageError(
                f"consumer group {group_id} has members: stop the connector, and all other consumers of the group"
            ) from error
        raise


def _partition(number: int, given: object) -> tuple[str, int]:
    if not isinstance(given, Mapping) or set(given) != {TOPIC, PARTITION}:
        raise ValueFormatError(f"partition {number} has to be an object with {TOPIC} and {PARTITION}, and nothing else")
    topic, partition = given[TOPIC], given[PARTITION]
    if not isinstance(topic, str) or not topic:
        raise ValueFormatError(f"{TOPIC} of partition {number} has to be the name of a topic")
    found = _number(partition, 2**31)
    if found is None:
        raise ValueFormatError(f"{PARTITION} of {shown(topic)} has to be a partition number")
    return topic, found


def _offset(number: int, given: object) -> int:
    if given is None:
        raise ValueFormatError(
            f"the offset of partition {number} cannot be removed alone: reset the offsets of the connector"
        )
    if not isinstance(given, Mapping) or set(given) != {OFFSET}:
        raise ValueFormatError(f"the offset of partition {number} has to be an object with {OFFSET}, and nothing else")
    offset = _number(given[OFFSET], 2**63)
    if offset is None:
        raise ValueFormatError(f"{OFFSET} of partition {number} has to be an offset")
    return offset


def _number(given: object, end: int) -> int | None:
    """Return a number below ``end``; as with Java's parser it may be text. ``None``: it is none."""
    if isinstance(given, str) and len(given) <= _MOST_DIGITS and given.isascii() and given.isdigit():
        given = int(given)
    return given if is_integer(given) and 0 <= given < end else None
