"""The usage of all groups, measured: what was counted, with what was written lately and who is alive."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from connect_share.console import Group
from connect_share.contents.cost_model import CostModel
from connect_share.contents.profile import TopicProfile
from connect_share.contents.startup import CountPlan
from connect_share.contents.usage import Limits, Recent, Usage, usage_of
from connect_share.errors import BrokerError
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import CONSOLE_CLIENT_ID, read_batches
from connect_share.model.keys import split_key
from connect_share.model.records import TopicType

DEFAULT_WINDOW_S: Final = 3_600.0


def measured_usage(
    plan: CountPlan,
    topics: Mapping[TopicType, TopicProfile],
    model: CostModel,
    *,
    window_s: float = DEFAULT_WINDOW_S,
    limits: Limits | None = None,
    note: Callable[[str], object],
) -> Usage:
    """Return the usage of all groups of topics that were counted; ``note`` gets what could not be learnt.

    Raises:
        BrokerError: not reachable, or not allowed.
    """
    since_ms = time.time_ns() // 1_000_000 - round(window_s * 1000)
    with Admin(plan.topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=plan.timeout_s) as admin:
        recent = {topic_type: _recent(admin, plan, topic_type, since_ms) for topic_type in TopicType}
        try:
            members = admin.connect_groups()
        except BrokerError as error:
            members = None
            note(f"how many workers are alive is not known: {error}")
    return usage_of(topics, recent, members, model, window_s=window_s, limits=limits)


def _recent(admin: Admin, plan: CountPlan, topic_type: TopicType, since_ms: int) -> Recent:
    """Read what was written since a time, once more: it is a small part of the topic."""
    ranges, topic_set = plan.ranges[topic_type], plan.topic_set
    begins = admin.offsets_at([(each.topic, each.partition) for each in ranges], since_ms)
    late = [each._replace(start=max(each.start, begins.get(each[:2], each.end))) for each in ranges]
    records: Counter[Group] = Counter()
    size: Counter[Group] = Counter()
    for batch in read_batches(
        topic_set.settings,
        late,
        isolation=topic_set.isolation[topic_type],
        client_id=CONSOLE_CLIENT_ID,
        idle_timeout_s=plan.timeout_s,
    ):
        for message in batch:
            key, value = message.key(), message.value()
            owner = None if key is None else split_key(topic_type, key)
            if owner is not None:
                records[owner[0]] += 1
                size[owner[0]] += len(key or b"") + len(value or b"")
    return Recent(sum(max(0, each.end - each.start) for each in late), records, size)
