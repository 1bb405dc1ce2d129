"""When a checkpoint and what is new together are what a full read would give. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_share.checkpoint.file import TopicCheckpoint


@dataclass(frozen=True, slots=True)
class TopicNow:
    """What the cluster says of a topic before it is read.

    Attributes:
        topic_id: ``None`` if the brokers are too old to give one.
        isolation: with which it will be read.
        log_starts, end_offsets: by partition.
        leader_epochs: by partition, -1 where the broker does not say.
        delete_retention_ms: for how long tombstones stay at least; ``None`` if that could not be learnt.
    """

    topic: str
    topic_id: str | None
    isolation: str
    log_starts: Mapping[int, int]
    end_offsets: Mapping[int, int]
    leader_epochs: Mapping[int, int]
    delete_retention_ms: int | None


def why_not_usable(saved: TopicCheckpoint, now: TopicNow, *, age_ms: int) -> str | None:
    """Return why a full read is needed, or nothing.

    Four things make a checkpoint as good as a full read: it is the same topic; nothing before the positions went away
    other than by compaction, which keeps what a fold needs; no tombstone behind the positions can have been cleaned
    away unread, that is the checkpoint is younger than half the time tombstones stay (half: clocks are set, too); and
    the log behind the positions goes on from the log before them, that is each partition still has the leader it had:
    only a new leader cuts a log.

    ``age_ms``: since the positions were the ends; negative after a clock jump.
    """
    where = now.topic
    if saved.topic != now.topic:
        return f"it is of topic {saved.topic}, not of {where}"
    if now.topic_id is None:
        return f"the brokers give no id of topic {where}, so it may be another one"
    if saved.topic_id != now.topic_id:
        return f"topic {where} was created again: its id was {saved.topic_id} and is {now.topic_id}"
    if saved.isolation != now.isolation:
        return f"topic {where} was read {saved.isolation} and is read {now.isolation}"
    partitions = set(now.end_offsets)
    if (
        not partitions
        == set(saved.positions)
        == set(saved.log_starts)
        == set(saved.leader_epochs)
        == set(now.log_starts)
    ):
        return f"topic {where} has other partitions now"
    if age_ms < 0:
        return "its time is in the future: a clock was set back"
    if now.delete_retention_ms is None:
        return f"the delete.retention.ms of topic {where} could not be read"
    if age_ms * 2 >= now.delete_retention_ms:
        return f"it is older than half of delete.retention.ms={now.delete_retention_ms} of topic {where}"
    for partition in sorted(partitions):
        position, start = saved.positions[partition], now.log_starts[partition]
        if start != saved.log_starts[partition]:
            return f"records at the beginning of {where}[{partition}] were deleted"
        if not start <= position <= now.end_offsets[partition]:
            return (
                f"{where}[{partition}] was truncated: it ended at {position} and ends at {now.end_offsets[partition]}"
            )
        before, after = saved.leader_epochs[partition], now.leader_epochs.get(partition, -1)
        if before < 0 or before != after:
            return f"{where}[{partition}] has another leader (epoch {before}, now {after}): its log may have been cut"
    return None
