"""Making a plan: ask the cluster for facts, refuse what is not safe, write down the rest."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.errors import ConfigError
from connect_share.log.ranges import read_ranges
from connect_share.records import Record, TopicType
from connect_share.state import replay_config
from connect_share.topics import check_cleanup_policy, check_partition_count, topic_spec
from connect_share.worker_config import WorkerConfig
from migrator.copying import IDLE_TIMEOUT_S
from migrator.errors import PlanRejectedError
from migrator.inspection import (
    PROGRESS_EVERY,
    TopicFacts,
    client_id_of,
    read_facts,
    refuse_present_groups,
    require_no_live_workers,
    require_no_open_transaction,
    require_same_cluster,
    require_topic,
)
from migrator.moves import Move, pair, refuse_directions, refuse_same_topics
from migrator.plan import (
    Destination,
    DestinationTopic,
    MigrationPlan,
    PlannedPartition,
    RecordCounts,
    SourceCluster,
    SourceTopic,
    Step,
    plan_fingerprint,
)
from migrator.progress import Progress, Silent
from migrator.rewrite import KafkaConnectTopicMigrator, Skipped, SkipReason

DEFAULT_MAX_MESSAGE_BYTES: Final = 1_048_588
RECORD_OVERHEAD_BYTES: Final = 61 + 70
"""A batch header and the lengths and deltas of one record, rounded up."""
OWN_OFFSETS_TOPIC: Final = "offsets.storage.topic"

_WARNED_REASONS: Final = (
    SkipReason.NO_KEY,
    SkipReason.NOT_A_LEGAL_KEY,
    SkipReason.ALREADY_PREFIXED,
)


def _limits(admin: Admin, worker: WorkerConfig, topic_type: TopicType, *, exists: bool) -> int:
    """Largest batch the destination topic takes, in bytes."""
    settings = worker.topic_settings(topic_type)
    if exists:
        settings = admin.topic_configs(worker.topic(topic_type))
    return int(settings.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))


def _plan_destination(
    admin: Admin, worker: WorkerConfig, kafka_cluster_id: str | None
) -> tuple[Destination, dict[TopicType, TopicFacts], dict[TopicType, int], list[str]]:
    facts = read_facts(admin, {worker.topic(topic_type) for topic_type in TopicType})
    existing: dict[TopicType, TopicFacts] = {}
    topics: dict[TopicType, DestinationTopic] = {}
    limits: dict[TopicType, int] = {}
    warnings: list[str] = []
    for topic_type in TopicType:
        name = worker.topic(topic_type)
        found, spec = facts.get(name), topic_spec(worker, topic_type)
        limits[topic_type] = _limits(admin, worker, topic_type, exists=found is not None)
        if found is not None:
            check_cleanup_policy(admin, spec)
            check_partition_count(spec, len(found.ends))
            existing[topic_type] = found
            if admin.topic_configs(name).get("message.timestamp.type") == "LogAppendTime":
                warnings.append(
                    f"{name} stamps records with the time of the write (message.timestamp.type): the records' "
                    "own timestamps will be lost"
                )
        partitions = len(found.ends) if found is not None else spec.partitions
        if partitions < 1:
            raise ConfigError(
                f"{topic_type.value}.storage.partitions is {partitions} (the broker decides) and {name} does not "
                "exist yet: create the topic or give a number",
                property_name=f"{topic_type.value}.storage.partitions",
            )
        topics[topic_type] = DestinationTopic(
            topic=name,
            topic_id=None if found is None else found.topic_id,
            partitions=partitions,
            create=found is None,
        )
    return Destination(kafka_cluster_id=kafka_cluster_id, topics=topics), existing, limits, warnings


def _require_groups_absent(moves: Sequence[Move], existing: dict[TopicType, TopicFacts], progress: Progress) -> None:
    groups = {str(move.group) for move in moves}
    worker = moves[0].destination
    for topic_type, facts in existing.items():
        refuse_present_groups(
            worker.consumer_settings(), topic_type, facts, groups, client_id=client_id_of(worker), progress=progress
        )


class _Counting:
    """Reads one source topic, counts what the transform does, and passes the records on."""

    def __init__(self, migrator: KafkaConnectTopicMigrator, limit_bytes: int, advance: Callable[[int], None]) -> None:
        self._migrator = migrator
        self._limit_bytes = limit_bytes
        self._advance = advance
        self._skipped: Counter[SkipReason] = Counter()
        self._read = self._to_write = self._tombstones = self._bytes = 0
        self.undated = 0

    def through(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            self._count(record)
            yield record

    def _count(self, record: Record) -> None:
        self._read += 1
        if self._read % PROGRESS_EVERY == 0:
            self._advance(PROGRESS_EVERY)
        rewritten = self._migrator.apply(record)
        if isinstance(rewritten, Skipped):
            self._skipped[rewritten.reason] += 1
            return
        size = len(rewritten.key or b"") + len(rewritten.value or b"")
        self._to_write += 1
        self._bytes += size
        self._tombstones += rewritten.value is None
        self.undated += rewritten.timestamp_ms == 0  # the client library takes 0 for "now"
        headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in rewritten.headers)
        if size + headers + RECORD_OVERHEAD_BYTES > self._limit_bytes:
            raise PlanRejectedError(
                f"{record.topic}[{record.partition}]@{record.offset}: with its new key the record has {size} bytes "
                f"and no longer fits into max.message.bytes={self._limit_bytes} of the destination: raise that"
            )

    def counts(self) -> RecordCounts:
        return RecordCounts(
            read=self._read,
            to_write=self._to_write,
            tombstones=self._tombstones,
            bytes_to_write=self._bytes,
            skipped=dict(sorted(self._skipped.items(), key=lambda item: item[0].value)),
        )


def _plan_source(admin: Admin, move: Move, limits: dict[TopicType, int], progress: Progress) -> list[str]:
    """Fill in the topics of one source; returns warnings."""
    warnings: list[str] = []
    facts = read_facts(admin, {move.source.topic(topic_type) for topic_type in TopicType})
    for topic_type in TopicType:
        found = require_topic(
            facts, move.source.topic(topic_type), remedy=f"look at {move.source_file}, nothing can be moved"
        )
        check_partition_count(topic_spec(move.source, topic_type), len(found.ends))
        stable = require_no_open_transaction(admin, found)
        isolation = move.source.isolation(topic_type)
        planned = SourceTopic(
            topic=found.topic,
            topic_id=found.topic_id,
            isolation=isolation,
            partitions=tuple(
                PlannedPartition(
                    partition=number,
                    start=found.starts[number],
                    end=found.ends[number],
                    last_stable_offset=stable[number],
                )
                for number in sorted(found.ends)
            ),
        )
        counting = _Counting(
            KafkaConnectTopicMigrator({"destination.cluster.name": str(move.group), "topic.type": topic_type.value}),
            limits[topic_type],
            progress.advance,
        )
        ranges = planned.ranges()
        progress.phase(f"reading {found.topic}", sum(part.end - part.start for part in ranges))
        records = counting.through(
            read_ranges(
                move.source.consumer_settings(),
                ranges,
                isolation=isolation,
                client_id=client_id_of(move.source),
                idle_timeout_s=IDLE_TIMEOUT_S,
            )
        )
        if topic_type is TopicType.CONFIG:
            move.state = replay_config(records)
        else:
            for _ in records:
                pass
        counts = counting.counts()
        move.planned[topic_type] = planned.model_copy(update={"counts": counts})
        warnings += [
            f"{found.topic}: {counts.skipped[reason]} record(s) are left behind: each {reason.explanation}"
            for reason in _WARNED_REASONS
            if reason in counts.skipped
        ]
        if counting.undated:
            warnings.append(
                f"{found.topic}: {counting.undated} record(s) have the timestamp 0 (1970) and will get that of the write"
            )
    return warnings


def _warn_about(move: Move, destination_cluster: str | None) -> list[str]:
    warnings: list[str] = []
    state = move.state
    connectors = sorted(state.connectors()) if state is not None else []
    if state is not None:
        own = [name for name in connectors if (state.connector_config(name) or {}).get(OWN_OFFSETS_TOPIC)]
        if own and move.kafka_cluster_id != destination_cluster:
            raise PlanRejectedError(
                f"{len(own)} connector(s) of {move.source.group_id} have an offsets topic of their own "
                f"({', '.join(map(repr, own))}), which is not moved to the other Kafka cluster: they would read "
                "everything again; mirror those topics first and leave these connectors out"
            )
        if own:
            warnings.append(f"{', '.join(map(repr, own))}: offsets are in a topic of their own, which stays as it is")
        inconsistent = sorted(state.inconsistent_connectors())
        if inconsistent:
            warnings.append(
                f"{', '.join(map(repr, inconsistent))}: task configs are inconsistent at the source already; the "
                "workers will make them anew"
            )
    if move.kafka_cluster_id != destination_cluster:
        warnings.append(
            f"{move.source.group_id} goes to another Kafka cluster: consumer groups of its sink connectors are "
            "not in these topics and have to be moved apart"
        )
    if str(move.group) != move.source.group_id:
        warnings.append(
            f"{move.source.group_id} becomes {move.group}: transactional ids of exactly-once connectors change with "
            "the group, so old workers would not be fenced by the new ones; make sure they never start again"
        )
    return warnings


def _colliding_connectors(moves: Sequence[Move]) -> list[str]:
    owners: dict[str, list[str]] = {}
    for move in moves:
        for name in sorted(move.state.connectors()) if move.state is not None else []:
            owners.setdefault(name, []).append(move.source.group_id)
    return [
        f"connector {name!r} exists in {', '.join(groups)}: if it is a sink on the same Kafka cluster, both use "
        f"the consumer group connect-{name}"
        for name, groups in sorted(owners.items())
        if len(groups) > 1
    ]


def _steps(moves: Sequence[Move], destination: Destination) -> tuple[Step, ...]:
    sources = ", ".join(move.source.group_id for move in moves)
    create = [topic.topic for topic in destination.topics.values() if topic.create]
    steps = [
        Step(who="operator", what=f"stop all workers of {sources} and keep them stopped"),
        Step(who="connect-share-migrate", what="apply: check that nothing changed since this plan was made"),
    ]
    if create:
        steps.append(
            Step(
                who="connect-share-migrate",
                what=f"apply: create {', '.join(create)} as a worker of the destination would",
            )
        )
    steps += [
        Step(
            who="connect-share-migrate",
            what=f"apply: copy the records of {move.source.group_id} under the prefix {move.group}.",
        )
        for move in moves
    ]
    steps.append(Step(who="connect-share-migrate", what="verify: fold both sides and compare the states"))
    steps += [
        Step(
            who="operator",
            what=f"start the workers of {move.group} on the shared topics, with sharing enabled"
            + (f" ({move.destination_file})" if str(move.group) == move.destination.group_id else ""),
        )
        for move in moves
    ]
    return tuple(steps)


def make_plan(
    source_files: Sequence[Path],
    destination_files: Sequence[Path],
    *,
    now_ms: int,
    progress: Progress | None = None,
) -> MigrationPlan:
    """Plan the move of dedicated clusters onto one set of shared topics; writes nothing to Kafka.

    Args:
        source_files: worker files with topic sharing disabled.
        destination_files: worker files with topic sharing enabled: one for all sources, or one for each.
        now_ms: the time, milliseconds since the epoch.
        progress: told how far the reading is.

    Raises:
        ConfigError: the files contradict each other.
        NotYetSupportedError: a direction other than dedicated to shared.
        TopicError: a topic is missing, not compacted, has too many partitions or an open transaction.
        LiveMembersError: workers of a group are alive.
        PlanRejectedError: a record would no longer fit, or the destination already holds the group.
        BrokerError: the cluster refused.
    """
    progress = progress or Silent()
    source_paths = [Path(path).resolve() for path in source_files]
    destination_paths = [Path(path).resolve() for path in destination_files]
    moves = pair(source_paths, destination_paths)
    refuse_directions(moves)
    warnings: list[str] = []
    with ExitStack() as stack:
        shared = moves[0].destination
        at_destination = stack.enter_context(Admin(shared.admin_settings(), client_id=client_id_of(shared)))
        destination_cluster = at_destination.cluster_id()
        admins: list[Admin] = []
        for move in moves:
            admin = stack.enter_context(Admin(move.source.admin_settings(), client_id=client_id_of(move.source)))
            admins.append(admin)
            move.kafka_cluster_id = admin.cluster_id()
        for move in moves[1:]:
            with Admin(move.destination.admin_settings(), client_id=client_id_of(move.destination)) as admin:
                require_same_cluster(admin, destination_cluster, str(move.destination_file))
        refuse_same_topics(moves, destination_cluster)
        for move, admin in zip(moves, admins, strict=True):
            require_no_live_workers(admin, move.source.group_id, side="source")
            require_no_live_workers(at_destination, str(move.group), side="destination")
        destination, existing, limits, notes = _plan_destination(at_destination, shared, destination_cluster)
        warnings += notes
        for move, admin in zip(moves, admins, strict=True):
            warnings += _plan_source(admin, move, limits, progress)
            warnings += _warn_about(move, destination_cluster)
        _require_groups_absent(moves, existing, progress)
    warnings += _colliding_connectors(moves)
    warnings += [
        f"{move.source_file}: none of its records would be moved; are these the topics of this cluster?"
        for move in moves
        if not any(topic.counts.to_write for topic in move.planned.values())
    ]
    if len(moves) > 1 and len(destination_paths) == 1:
        warnings.append(
            f"several sources, one destination worker file: each keeps its own group.id as prefix; "
            f"group.id {shared.group_id} of {destination_paths[0]} is not used"
        )
    sources = tuple(
        SourceCluster(
            worker_config_file=str(move.source_file),
            group_id=move.source.group_id,
            kafka_cluster_id=move.kafka_cluster_id,
            cluster_group_id=str(move.group),
            destination_worker_config_file=str(move.destination_file),
            connectors=len(move.state.connectors()) if move.state is not None else 0,
            topics=move.planned,
        )
        for move in moves
    )
    return MigrationPlan(
        run_id=uuid.uuid4().hex,
        created_at_ms=now_ms,
        sources=sources,
        destination=destination,
        fingerprint=plan_fingerprint(sources),
        warnings=tuple(warnings),
        steps=_steps(moves, destination),
    )
