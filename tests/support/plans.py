"""A migration plan made by hand."""

from __future__ import annotations

from pathlib import Path

from connect_share.model.records import TopicType
from connect_share.transform.rules import RecordCounts, SkipReason
from connect_share.worker_config import Isolation
from migrator.plan import (
    Destination,
    DestinationTopic,
    MigrationPlan,
    PlannedPartition,
    PlanStep,
    SourceCluster,
    SourceTopic,
    plan_fingerprint,
)


def a_plan(path: Path, name: str = "orders", *, run_id: str = "r1", sources: int = 1) -> MigrationPlan:
    """Save a plan in which whatever a topic or a file may name has ``name`` in it."""
    moved = tuple(
        SourceCluster(
            worker_config_file=f"/{name}.properties",
            group_id=f"{name}-{index}",
            kafka_cluster_id=name,
            cluster_group_id=f"g{index}",
            only_connectors=(name,),
            destination_worker_config_file="/shared.properties",
            connectors=1,
            topics={
                topic_type: SourceTopic(
                    topic=f"{name}-{topic_type.value}",
                    topic_id=name,
                    isolation=Isolation.READ_COMMITTED
                    if topic_type is TopicType.CONFIG
                    else Isolation.READ_UNCOMMITTED,
                    partitions=(PlannedPartition(partition=0, start=0, end=9, last_stable_offset=9),),
                    counts=RecordCounts(read=9, to_write=7, skipped={SkipReason.SESSION_KEY: 2}),
                )
                for topic_type in TopicType
            },
        )
        for index in range(sources)
    )
    plan = MigrationPlan(
        run_id=run_id,
        created_at_ms=1_700_000_000_000,
        sources=moved,
        destination=Destination(
            kafka_cluster_id=name,
            topics={
                topic_type: DestinationTopic(topic=f"{name}-shared", topic_id=None, partitions=1, create=True)
                for topic_type in TopicType
            },
        ),
        fingerprint=plan_fingerprint(moved, "mirror"),
        warnings=(f"connector {name!r} exists twice", name),
        steps=(PlanStep(who="operator", what=f"stop all workers of {name}"),),
    )
    plan.save(path)
    return plan
