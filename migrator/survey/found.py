"""What a survey found, as data: names, counts and sizes; never a value of a configuration or an offset."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.records import TopicType
from connect_share.transform.rules import TopicText

TOPIC_CONFIGS: Final = (
    "cleanup.policy",
    "min.insync.replicas",
    "max.message.bytes",
    "message.timestamp.type",
    "retention.ms",
    "retention.bytes",
    "segment.ms",
    "segment.bytes",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
)
"""Topic settings that matter for a move; the others are not asked for."""


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True)


class PartitionFacts(_Fact):
    """One partition: ``start`` is the first offset kept, ``end`` the high watermark.

    ``transaction_open``: the last stable offset is below the end; committed readers stop there.
    """

    partition: int
    start: int
    end: int
    last_stable_offset: int
    transaction_open: bool


class GroupInTopic(_Fact):
    """The records of one group in one topic.

    Attributes:
        group: cluster group id, ``None`` for plain keys.
        bytes: keys and values.
        largest_bytes: of the largest record, with the key it has; an upper bound for its batch.
        unparseable: records whose key or value Connect cannot read.
        refused: sealed records without their key among them, and what the workers of a sealed group do not believe.
        unopened: keys whose newest value is sealed with a key that is in no worker file here.
        unreadable_headers: records that cannot be carried whole, for the name of a header is not UTF-8.
        first_unreadable: where the first of them is.
    """

    group: str | None
    records: int
    tombstones: int
    bytes: int
    largest_bytes: int
    unparseable: int
    refused: int = 0
    unopened: int = 0
    unreadable_headers: int = 0
    first_unreadable: str | None = None


class TopicSurvey(_Fact):
    """One topic; a missing one has no id, no partitions and no groups.

    Attributes:
        named_by: worker files that name it.
        replication_factor: of its partition with the fewest replicas.
        illegal_keys: records whose key Connect does not write to such a topic; null keys count too.
    """

    kafka_cluster_id: str | None
    topic: str
    topic_type: TopicType
    named_by: tuple[str, ...]
    exists: bool
    topic_id: str | None = None
    replication_factor: int | None = None
    configs: dict[str, str] = {}
    partitions: tuple[PartitionFacts, ...] = ()
    illegal_keys: int = 0
    groups: tuple[GroupInTopic, ...] = ()


class SecretPlace(_Fact):
    """Where a secret stands in clear text."""

    connector: TopicText
    property: TopicText


class ConnectorSurvey(_Fact):
    """One connector of a group.

    Attributes:
        sink: it has ``topics`` or ``topics.regex``: on one Kafka cluster its consumer group is ``connect-<name>``.
        own_offsets_topic: its offsets are in a topic of its own, which a plan does not move; to another Kafka cluster
            a plan refuses it.
        inconsistent: Connect gives its workers no tasks as the records stand.
        state_mode: what ``plan --mode state`` would do: ``heals`` or ``leaves_without_tasks``; ``None``: nothing.
        fenced_tasks: tasks that were counted for the fencing of exactly-once sources, ``None`` without.
        offset_records: in the worker's offset topic.
        worker_ids: seen in its statuses, for plain keys only: whose connector it is, where clusters share by accident.
    """

    name: str
    tasks: int
    sink: bool
    own_offsets_topic: bool
    inconsistent: bool
    state_mode: str | None
    fenced_tasks: int | None
    offset_records: int
    worker_ids: tuple[TopicText, ...] = ()


class GroupSurvey(_Fact):
    """One group on one set of three topics.

    Attributes:
        group: cluster group id, ``None`` for plain keys.
        group_ids: ``group.id`` of its workers: the group itself; for plain keys those of the worker files that name
            these topics with sharing disabled.
        members: workers alive, ``None`` when nobody could say.
        alive: unknown counts as alive.
        exactly_once: ``exactly.once.source.support`` of its worker file, ``None`` without a file.
        secrets: in clear text in connector configurations.
        secrets_in_tasks: how many further ones are in task configurations.
        refused: records that its workers do not believe.
        unopened: keys whose values cannot be opened here; then there are no connectors, for the rest may be old or forged.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    kafka_cluster_id: str | None
    topics: dict[TopicType, str]
    group: str | None
    side: str
    group_ids: tuple[str, ...]
    members: int | None
    alive: bool
    exactly_once: str | None
    connectors: tuple[ConnectorSurvey, ...]
    tasks: int
    records: int
    bytes: int
    unparseable: int
    secrets: tuple[SecretPlace, ...]
    secrets_in_tasks: int
    refused: int = 0
    unopened: int = 0
    two_clusters: str | None = None


class LargestRecord(_Fact):
    """The largest record of a source with its new key, against what the destination takes (bytes)."""

    largest_bytes: int
    limit_bytes: int
    fits: bool


class MoveSurvey(_Fact):
    """What the worker files amount to: where a source would go.

    Attributes:
        becomes: cluster group id at the destination, ``None`` for plain keys.
        illegal_id: that id cannot be a key prefix.
        other_kafka_cluster: source and destination are on different ones.
        records_at_destination: under those keys already.
        members_at_destination: workers alive there under the ``group.id`` that will be used; ``None`` is unknown.
    """

    source: str
    group_id: str
    becomes: str | None
    destination: str
    illegal_id: bool
    other_kafka_cluster: bool
    records_at_destination: int
    members_at_destination: int | None
    largest: dict[TopicType, LargestRecord]


class NameCollision(_Fact):
    """A connector name in several groups of one Kafka cluster; sinks among them share ``connect-<name>``."""

    kafka_cluster_id: str | None
    connector: str
    groups: tuple[str, ...]
    sinks: int


class Survey(_Fact):
    """All facts; ``unanswered`` names what could not be asked."""

    topics: tuple[TopicSurvey, ...]
    groups: tuple[GroupSurvey, ...]
    moves: tuple[MoveSurvey, ...]
    collisions: tuple[NameCollision, ...]
    unanswered: tuple[str, ...] = ()
