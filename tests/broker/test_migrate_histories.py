"""A few random lives of Connect clusters through the whole tool, real broker; tests/unit has the many."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.model.records import TopicType
from connect_share.replay import replay_offsets, replay_status
from migrator.moves import Intent
from tests.support.histories import History, histories
from tests.support.migration_runs import apply_plan, verify_plan
from tests.support.migration_site import PARTITIONS, SHARED_PARTITIONS, Site
from tests.support.topics import ONE_SEGMENT

_numbers = count()


@settings(max_examples=4)
@given(history=histories(max_steps=60), fold=st.booleans())
def test_a_life_goes_onto_shared_topics_and_out_again(site: Site, history: History, fold: bool) -> None:
    number = next(_numbers)
    own, there, back = (f"{who}{number}" for who in ("own", "shared", "back"))
    site.create(own, configs=ONE_SEGMENT)
    site.create(there, SHARED_PARTITIONS, ONE_SEGMENT)
    site.create(back, configs=ONE_SEGMENT)
    for topic_type in TopicType:
        records = history.records(topic_type, None, PARTITIONS[topic_type], topic=site.topic(own, topic_type))
        # A compacted topic takes no record without a key.
        site.produce([record for record in records if record.key is not None])
    first, second, third = (
        site.worker_file(own, "g.h", sharing=False),
        site.worker_file(there, "g.h", sharing=True),
        site.worker_file(back, "g.h", sharing=False),
    )
    for source, destination, intent in (
        (first, second, Intent(mode="state" if fold else "mirror")),
        (second, third, Intent()),
    ):
        plan = site.plan(source, destination, f"{number}-{destination.stem}.json", intent)
        apply_plan(plan)
        verification = verify_plan(plan)
        assert verification.equal, verification.differences
    ends = {topic_type: [site.read(site.topic(who, topic_type)) for who in (own, back)] for topic_type in TopicType}
    assert replay_status(ends[TopicType.STATUS][0]) == replay_status(ends[TopicType.STATUS][1])
    assert replay_offsets(ends[TopicType.OFFSET][0]) == replay_offsets(ends[TopicType.OFFSET][1])
