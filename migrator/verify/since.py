"""What has happened since the cut-over: differences that are no fault of the move.

New workers write from then on, so a connector of which they wrote something differs from the source by right. What they
did not touch is compared as before.
"""

from __future__ import annotations

from collections.abc import Sequence

from connect_share.admin import Admin
from connect_share.log.ranges import read_ranges
from connect_share.records import TopicType
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.copy.copying import IDLE_TIMEOUT_S
from migrator.copy.reading_back import ranges_since
from migrator.facts.inspection import client_id_of, read_facts
from migrator.facts.manifest import Manifest, MigrationStatus
from migrator.plan.plan import MigrationPlan
from migrator.transform.connector_keys import connector_of
from migrator.verify.equality import Difference, Problem

Written = set[tuple[TopicType, str | None, str | None]]
"""Topic type, cluster group (``None``: plain keys) and connector."""


def written_since(plan: MigrationPlan, manifest: Manifest, worker: WorkerConfig) -> Written:
    """Give the connectors of which something was written at the destination since the cut-over; empty before one.

    Raises:
        BrokerError: reading was refused.
    """
    written: Written = set()
    if manifest.status is not MigrationStatus.CUT_OVER or manifest.followed is None:
        return written
    with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
        facts = read_facts(admin, {topic.topic for topic in plan.destination.topics.values()})
    for topic_type, topic in plan.destination.topics.items():
        starts = manifest.followed.destination_ends.get(topic_type, {})
        backs = {source.transform(topic_type).at_destination() for source in plan.sources}
        records = read_ranges(
            worker.consumer_settings(),
            ranges_since(topic.topic, starts, facts[topic.topic].ends),
            isolation=Isolation.READ_UNCOMMITTED,
            client_id=client_id_of(worker),
            idle_timeout_s=IDLE_TIMEOUT_S,
        )
        for record in records:
            for back in backs:
                original = back.original_key(record.key)
                if isinstance(original, bytes):
                    group = None if back.plain else next(iter(back.groups or ()), None)
                    written.add((topic_type, group, connector_of(topic_type, original)))
    return written


def without_what_came_since(
    differences: Sequence[Difference], written: Written, *, stopped: bool
) -> tuple[list[Difference], list[str]]:
    """Split off what differs by right; gives the rest and warnings that say what was not compared.

    Args:
        differences: found.
        written: by the new workers.
        stopped: the source was sealed with STOPPED, and the cleaner may have taken the target states of before.
    """
    kept, changed, states = [], set(), 0
    for difference in differences:
        if (difference.topic_type, difference.cluster_group_id, difference.connector) in written:
            changed.add(difference.connector)
        elif stopped and difference.kind == "target_state" and difference.problem is Problem.UNEXPECTED:
            states += 1
        else:
            kept.append(difference)
    warnings = []
    if changed:
        names = ", ".join(sorted(map(repr, changed)))
        warnings.append(f"new workers have written since the cut-over: what differs of {names} was not judged")
    if states:
        warnings.append(
            f"{states} target state(s) cannot be compared any more: the seal has replaced them at the source"
        )
    return kept, warnings
