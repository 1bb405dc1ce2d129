"""Offsets of a sink connector: those of its consumer group, in the JSON of Connect's REST (KIP-875)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from connect_share.admin.consumer_groups import ConsumerGroupsAdmin
from connect_share.errors import BrokerError, UsageError, ValueFormatError
from connect_share.state.names import is_integer, shown

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
_GROUP: Final = "consumer.override.group.id"
_LIVE: Final = frozenset({"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"})

Pair = tuple[Mapping[str, Any], Mapping[str, Any] | None]


def sink_group_id(connector: str, connector_config: Mapping[str, Any]) -> str:
    """Return the consumer group of a sink connector: ``connect-<name>``, or what its configuration overrides.

    >>> sink_group_id("sink", {"connector.class": "FileStreamSink"})
    'connect-sink'

    Source: ``SinkUtils.consumerGroupId``.
    """
    return str(connector_config.get(_GROUP) or f"connect-{connector}")


def sink_offsets(admin: ConsumerGroupsAdmin, group_id: str) -> list[dict[str, Any]]:
    """Return the committed offsets: ``[{"partition": {..}, "offset": {..}}, ..]`` by topic and partition.

    Raises:
        BrokerError: the cluster cannot be reached, or refuses.
    """
    found = sorted(admin.group_offsets(group_id).items())
    return [
        {"partition": {TOPIC: topic, PARTITION: number}, "offset": {OFFSET: offset}}
        for (topic, number), offset in found
    ]


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
    wanted: dict[tuple[str, int], int] = {}
    for number, (partition, offset) in enumerate(offsets):
        wanted[_partition(number, partition)] = _offset(number, offset)
    if wanted:
        _of_stopped(group_id, lambda: admin.alter_group_offsets(group_id, wanted))


def reset_sink_offsets(admin: ConsumerGroupsAdmin, group_id: str) -> None:
    """Remove all offsets of a stopped sink connector, with its consumer group.

    Raises:
        UsageError: the group has members: the connector is not stopped.
        BrokerError: the cluster cannot be reached, or refuses.
    """
    _of_stopped(group_id, lambda: admin.delete_group(group_id))


def _of_stopped(group_id: str, change: Any) -> None:
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
    # As Java's parser, text that is a number is taken, too.
    if isinstance(partition, str) and partition.isascii() and partition.isdigit():
        partition = int(partition[:11])
    if not is_integer(partition) or not 0 <= partition < 2**31:
        raise ValueFormatError(f"{PARTITION} of {shown(topic)} has to be a partition number")
    return topic, partition


def _offset(number: int, given: object) -> int:
    if given is None:
        raise ValueFormatError(
            f"the offset of partition {number} cannot be removed alone: reset the offsets of the connector"
        )
    if not isinstance(given, Mapping) or set(given) != {OFFSET}:
        raise ValueFormatError(f"the offset of partition {number} has to be an object with {OFFSET}, and nothing else")
    offset = given[OFFSET]
    if isinstance(offset, str) and offset.isascii() and offset.isdigit():
        offset = int(offset[:20])
    if not is_integer(offset) or not 0 <= offset < 2**63:
        raise ValueFormatError(f"{OFFSET} of partition {number} has to be an offset")
    return offset
