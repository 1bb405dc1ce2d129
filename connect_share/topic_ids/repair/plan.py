"""How to get back to equal topic ids: the least dangerous way the state allows, as steps. Pure, changes nothing.

What is planned, and what is refused, follows what was tried on real brokers; ``docs/topic-ids.md`` has it.
"""

from __future__ import annotations

from connect_share.topic_ids.authority.authority import Mode
from connect_share.topic_ids.compare.compare import Comparison, Kind
from connect_share.topic_ids.repair.kraft_plan import plan_kraft
from connect_share.topic_ids.repair.steps import Plan, Verdict
from connect_share.topic_ids.repair.zookeeper_plan import plan_zookeeper


def plan_repair(found: Comparison) -> Plan:
    """Plan the repair of everything that was found."""
    plan = Plan(found.authority.mode)
    for reason in _against_everything(found):
        plan.refused.append(Verdict(None, reason))
    if not plan.refused:
        (plan_zookeeper if plan.mode is Mode.ZOOKEEPER else plan_kraft)(found, plan)
    return plan


def _against_everything(found: Comparison) -> list[str]:
    reasons = [
        f"broker {one.broker}, {one.log_dir}: belongs to another cluster; nothing is repaired before that is cleared up"
        for one in found.findings
        if one.kind is Kind.FOREIGN_CLUSTER
    ]
    formats = {one.format for one in found.scans.log_dirs if one.format is not None}
    if found.authority.mode is Mode.KRAFT and 0 in formats:
        reasons.append(
            "the scanned brokers run with ZooKeeper: only the znodes are the truth there, ask with --zookeeper HOST:PORT"
        )
    if found.authority.mode is Mode.ZOOKEEPER and 1 in formats:
        reasons.append("the scanned brokers run with KRaft: what is in ZooKeeper is not the truth for them any more")
    return reasons
