"""Making a plan: ask the cluster for facts, refuse what is not safe, write down the rest."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from connect_share.files import Progress, Silent, counted
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import to_whole_record
from connect_share.kafka.create import check_partition_count, topic_spec
from connect_share.kafka.facts import (
    BUSY_TOPIC_WAIT_S,
    TopicFacts,
    admin_of,
    destination_settings,
    read_facts,
    read_messages,
    require_no_live_workers,
    require_no_open_transaction,
    require_topic,
)
from connect_share.model.records import TopicType
from connect_share.replay import replay_config
from connect_share.sealing.cipher import SEALED_BYTES
from connect_share.transform.counter import RecordCounter, limit_of
from connect_share.transform.rules import SkipReason
from connect_share.transform.sealed import Opener, Sealing
from connect_share.worker_config import Isolation, WorkerConfig
from migrator.advice import check_sharing_lines, refuse_unclear, steps_of, warn_about, warn_about_shared_topics
from migrator.checks import refuse_present, require_same_cluster
from migrator.moves import Intent, PlannedMove, pair, refuse_same_topics
from migrator.plan import (
    Destination,
    DestinationTopic,
    MigrationPlan,
    PlannedPartition,
    PlannedSealing,
    SourceCluster,
    SourceTopic,
    key_spaces,
    plan_fingerprint,
)

# On dedicated topics nothing of this kind is expected. On shared ones prefixed and plain keys of others are.
_EXPECTED_WHEN_SHARED: Final = (SkipReason.NOT_A_LEGAL_KEY, SkipReason.ALREADY_PREFIXED)
_WARNED_REASONS: Final = (SkipReason.NO_KEY, *_EXPECTED_WHEN_SHARED, SkipReason.REFUSED)


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
        found = facts.get(name)
        settings = destination_settings(admin, worker, topic_type, found)
        limits[topic_type] = limit_of(settings)
        if found is not None:
            existing[topic_type] = found
            if settings.get("message.timestamp.type") == "LogAppendTime":
                warnings.append(
                    f"{name} stamps records with the time of the write (message.timestamp.type): the records' "
                    "own timestamps will be lost"
                )
        partitions = len(found.ends) if found is not None else topic_spec(worker, topic_type).partitions
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


def _plan_source(
    admin: Admin, move: PlannedMove, limits: dict[TopicType, int], progress: Progress, intent: Intent
) -> list[str]:
    """Read the topics of a source into the move. Returns warnings."""
    warnings, openers = list[str](), list[Opener]()
    sealing, added = move.sealing, SEALED_BYTES if move.destination_sealing.keys is not None else 0
    facts = read_facts(admin, {move.source.topic(topic_type) for topic_type in TopicType})
    for topic_type in TopicType:
        found = require_topic(
            facts, move.source.topic(topic_type), remedy=f"look at {move.source_file}, nothing can be moved"
        )
        check_partition_count(topic_spec(move.source, topic_type), len(found.ends))
        # On a busy topic a transaction is often open; that of a healthy worker ends soon.
        busy = move.source.sharing_enabled or intent.follow
        require_no_open_transaction(admin, found, wait_s=BUSY_TOPIC_WAIT_S if busy else 0.0)
        planned = _planned(found, move.source.isolation(topic_type))
        transform = move.transform(topic_type)
        openers.append(Opener(sealing, transform))
        counter = RecordCounter(transform, limits[topic_type], openers[-1], added)
        ranges = planned.ranges()
        progress.phase(f"reading {found.topic}", sum(part.end - part.start for part in ranges))
        batches = read_messages(move.source, ranges, planned.isolation)
        if topic_type is TopicType.CONFIG and not sealing.as_is:
            messages = (message for batch in batches for message in batch)
            records = (to_whole_record(message) for message in counted(messages, progress.advance))
            move.state = replay_config(counter.through(records), move.source.cluster_group_id)
        else:
            for batch in batches:
                counter.count_batch(batch)
                progress.advance(len(batch))
        move.connectors_seen |= counter.connectors
        move.planned[topic_type] = planned.model_copy(update={"counts": counter.counts()})
        warnings += _warnings_of(found.topic, counter, is_shared=move.source.cluster_group_id is not None)
    if any(opener.unopened for opener in openers) and move.may_copy_as_is(intent.mode):
        move.sealed_as_is = True
        return _plan_source(admin, move, limits, progress, intent)
    for opener in openers:
        opener.require_opened()
    return warnings


def _planned(found: TopicFacts, isolation: Isolation) -> SourceTopic:
    partitions = tuple(
        PlannedPartition(partition=number, start=found.starts[number], end=end, last_stable_offset=end)
        for number, end in sorted(found.ends.items())
    )
    return SourceTopic(topic=found.topic, topic_id=found.topic_id, isolation=isolation, partitions=partitions)


def _warnings_of(topic: str, counter: RecordCounter, *, is_shared: bool) -> Iterator[str]:
    skipped = counter.counts().skipped
    for reason in _WARNED_REASONS:
        if reason in skipped and not (is_shared and reason in _EXPECTED_WHEN_SHARED):
            yield f"{topic}: {skipped[reason]} record(s) are left behind: each {reason.explanation}"
    if counter.undated:
        yield f"{topic}: {counter.undated} record(s) have the timestamp 0 (1970) and will get that of the write"


def make_plan(
    source_files: Sequence[Path],
    destination_files: Sequence[Path],
    *,
    now_ms: int,
    intent: Intent | None = None,
    progress: Progress | None = None,
) -> MigrationPlan:
    """Plan a move; writes nothing to Kafka. Sharing in the worker files says the direction.

    Args:
        source_files: worker files of the clusters that are moved.
        destination_files: worker files of where they go: one for all sources, or one for each.
        now_ms: the time, milliseconds since the epoch.
        intent: what the files cannot say.
        progress: reports the reading.

    Raises:
        ConfigError: the files contradict each other.
        TopicError: a topic is missing, not compacted, has too many partitions or an open transaction.
        LiveMembersError: workers of a group are alive.
        PlanRejectedError: a record would no longer fit, or the destination already holds the group.
    """
    progress, intent = progress or Silent(), intent or Intent()
    sources, destinations = ([Path(path).resolve() for path in files] for files in (source_files, destination_files))
    moves = pair(sources, destinations, intent)
    warnings = check_sharing_lines([*sources, *destinations])
    moves, destination, notes = _read_clusters(moves, intent, progress)
    warnings += notes
    warnings += warn_about(moves, destination.kafka_cluster_id, intent.mode)
    if all(move.group == move.source.group_id for move in moves) and len(sources) > len(destinations):
        warnings.append(
            f"several sources, one destination worker file: each keeps its own group.id as prefix; "
            f"group.id {moves[0].destination.group_id} of {destinations[0]} is not used"
        )
    clusters = tuple(_source_of(move) for move in moves)
    return MigrationPlan(
        run_id=uuid.uuid4().hex,
        created_at_ms=now_ms,
        mode=intent.mode,
        follow=intent.follow,
        merge=intent.merge,
        sources=clusters,
        destination=destination,
        fingerprint=plan_fingerprint(clusters, intent.mode),
        warnings=tuple(warnings),
        steps=steps_of(moves, destination, intent),
    )


def _read_clusters(
    moves: list[PlannedMove], intent: Intent, progress: Progress
) -> tuple[list[PlannedMove], Destination, list[str]]:
    """Ask all clusters, and read the sources into the moves. Returns the moves to be made, the destination, and warnings."""
    with ExitStack() as stack:
        shared = moves[0].destination
        at_destination = stack.enter_context(admin_of(shared))
        destination_cluster = at_destination.cluster_id()
        admins: list[Admin] = []
        for move in moves:
            admin = stack.enter_context(admin_of(move.source))
            admins.append(admin)
            move.kafka_cluster_id = admin.cluster_id()
        for move in moves[1:]:
            with admin_of(move.destination) as admin:
                require_same_cluster(admin, destination_cluster, str(move.destination_file))
        refuse_same_topics(moves, destination_cluster)
        warnings: list[str] = []
        for move, admin in zip(moves, admins, strict=True):
            warnings += _check_workers(move, admin, at_destination, destination_cluster, intent)
        destination, existing, limits, notes = _plan_destination(at_destination, shared, destination_cluster)
        warnings += warn_about_shared_topics(moves[0].destination_file, shared, existing.get(TopicType.CONFIG)) + notes
        for move, admin in zip(moves, admins, strict=True):
            warnings += _plan_source(admin, move, limits, progress, intent)
        warnings += refuse_unclear(moves, intent)
        moved = [move for move in moves if intent.job is None or move.has_records()]
        wanted = key_spaces((move.group, move.only_connectors) for move in moved)
        sealings: dict[str | None, Sealing] = {move.group: move.destination_sealing for move in moved}
        refuse_present(shared, existing, wanted, progress, sealings)
    return moved, destination, warnings


def _check_workers(
    move: PlannedMove, at_source: Admin, at_destination: Admin, destination_cluster: str | None, intent: Intent
) -> list[str]:
    """Refuse live workers. Returns a warning where they may be alive."""
    if not intent.follow:
        require_no_live_workers(at_source, move.source.group_id, side="source")
    if (
        intent.follow
        and move.kafka_cluster_id == destination_cluster
        and move.destination_group_id == move.source.group_id
    ):
        # One Kafka cluster and one group.id: the members of the group are the workers of the source.
        return [f"{move.source.group_id} keeps its group.id: start no new worker before the cut-over has ended"]
    require_no_live_workers(at_destination, move.destination_group_id, side="destination")
    return []


def _source_of(move: PlannedMove) -> SourceCluster:
    return SourceCluster(
        worker_config_file=str(move.source_file),
        group_id=move.source.group_id,
        sharing=move.source.sharing_enabled,
        kafka_cluster_id=move.kafka_cluster_id,
        cluster_group_id=move.group,
        only_connectors=None if move.only_connectors is None else tuple(sorted(move.only_connectors)),
        destination_worker_config_file=str(move.destination_file),
        connectors=len(move.connectors()),
        sealing=PlannedSealing.of(move.source),
        destination_sealing=PlannedSealing.of(move.destination),
        sealed_as_is=move.sealed_as_is,
        topics=move.planned,
    )
