"""Plans a repair: the least dangerous way to equal topic ids, as steps. Pure, changes nothing.

The choices follow tests on real brokers; ``docs/topic-ids.md`` describes them.
"""

from __future__ import annotations

from connect_share.topic_ids.authority.authority import MetadataMode
from connect_share.topic_ids.compare.compare import Comparison, IdFindingKind
from connect_share.topic_ids.repair.kraft_plan import plan_kraft
from connect_share.topic_ids.repair.steps import RepairPlan
from connect_share.topic_ids.repair.zookeeper_plan import plan_zookeeper


def plan_repair(found: Comparison) -> RepairPlan:
    """Return the plan for all findings."""
    plan = RepairPlan(found.authority.mode)
    for one in found.findings:
        if one.kind is IdFindingKind.FOREIGN_CLUSTER:
            place = f"broker {one.broker}, {one.log_dir}"
            plan.refuse(None, f"{place}: belongs to another cluster; nothing is repaired before that is cleared up")
    formats = {one.version for one in found.scans.log_dirs}
    if plan.mode is MetadataMode.KRAFT and 0 in formats:
        reason = "the scanned brokers run with ZooKeeper: only the znodes count there, ask with --zookeeper HOST:PORT"
        plan.refuse(None, reason)
    if plan.mode is MetadataMode.ZOOKEEPER and 1 in formats:
        plan.refuse(None, "the scanned brokers run with KRaft: what is in ZooKeeper does not count for them any more")
    if not plan.refused:
        (plan_zookeeper if plan.mode is MetadataMode.ZOOKEEPER else plan_kraft)(found, plan)
    return plan
