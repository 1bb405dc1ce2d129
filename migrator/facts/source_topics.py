"""The topics of a plan's sources as they are now."""

from __future__ import annotations

from dataclasses import replace

from connect_share.records import TopicType
from connect_share.worker_config.client_settings import Isolation
from migrator.facts.inspection import admin_of, read_facts, require_same_topic, require_topic
from migrator.facts.migration_run import MigrationRun
from migrator.plan.plan import CopySlice


def slices_behind(run: MigrationRun) -> list[CopySlice]:
    """Return what is not copied yet: a slice from each position to the end that the source's own worker would read.

    Raises:
        PlanFileError: the plan was not applied.
        TopicError: a source topic is gone or was recreated.
        BrokerError: the cluster refused.
    """
    manifest, found = run.applied(), []
    ends: dict[tuple[int, TopicType], dict[int, int]] = {}
    for index, (source, worker) in enumerate(zip(run.plan.sources, run.workers, strict=True)):
        with admin_of(worker) as admin:
            facts = read_facts(admin, {topic.topic for topic in source.topics.values()})
            for topic_type, topic in source.topics.items():
                there = require_topic(facts, topic.topic, remedy="it was deleted while it was followed")
                require_same_topic(there, topic.topic_id)
                ends[index, topic_type] = there.ends
                if topic.isolation is Isolation.READ_COMMITTED:
                    partitions = [(topic.topic, number) for number in there.ends]
                    stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
                    ends[index, topic_type] = {number: end for (_, number), end in stable.items()}
    for slice_ in run.plan.slices():
        (planned,) = manifest.read_ranges_of(slice_.source_index, [slice_.offset_range])
        end = ends[slice_.source_index, slice_.topic_type].get(planned.partition, planned.end)
        if end > planned.end:
            found.append(replace(slice_, offset_range=planned._replace(start=planned.end, end=end)))
    return found
