"""One round of following a topic: wait, take all that is there, say how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from connect_share.client import Consumer, KafkaError, TopicPartition, is_end_of_partition, to_record
from connect_share.log.protocol import RecordSink

_IDLE_S: Final = 0.2  # how late a marker that nobody waits for is noticed
_AWAITED_S: Final = 0.002
_BATCH: Final = 500


def take_next(
    reader: Consumer,
    topic: str,
    sink: RecordSink,
    partitions: Sequence[int],
    *,
    awaited: bool,
    on_error: Callable[[KafkaError], None],
) -> dict[int, int]:
    """Wait for one message, hand all that are there to the sink, give the positions that were reached.

    Args:
        reader: assigned to the partitions.
        topic: its name.
        sink: takes the records.
        partitions: all that are followed.
        awaited: somebody waits for the end: positions are asked for in any case.
        on_error: given what the client says instead of a record; raises what ends the log.
    """
    first = reader.poll(_AWAITED_S if awaited else _IDLE_S)
    messages = [] if first is None else [first, *reader.consume(_BATCH, 0)]
    reached: dict[int, int] = {}
    own, foreign = [], []
    prefix = sink.key_prefix
    for message in messages:
        error = message.error()
        partition, offset = message.partition() or 0, message.offset() or 0
        if error is not None:
            if is_end_of_partition(error):
                reached[partition] = max(offset, reached.get(partition, 0))
            else:
                on_error(error)
            continue
        reached[partition] = offset + 1
        key = message.key()
        if not prefix or (key is not None and key.startswith(prefix)):
            own.append(to_record(message))
        else:
            foreign.append(key)
    if foreign:
        sink.skip(len(foreign), foreign)
    if own:
        sink.apply(own)
    if not messages or awaited:
        # Markers and aborted records move the consumer's position without being delivered.
        for at in reader.position([TopicPartition(topic, partition) for partition in partitions]):
            reached[at.partition] = max(at.offset, reached.get(at.partition, 0))
    return reached
