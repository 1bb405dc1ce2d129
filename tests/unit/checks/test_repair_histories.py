"""Checks and repairs of whatever a cluster's life, garbage and the cleaner can leave on the topics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.backup.rewrites import Mending, _stays, plan_order, plan_orphans
from connect_share.checks import collisions
from connect_share.checks.order import Order
from connect_share.checks.orphans import orphans_of
from connect_share.checks.sources import GroupState
from connect_share.model.records import Record, TopicType
from tests.support.checked import CONFIG, OFFSET, STATUS, findings_of, state_of
from tests.support.histories import Life, compacted, histories

TOPICS = {topic_type: topic_type.value for topic_type in TopicType}
GROUP = "g.h"
Topics = dict[TopicType, list[Record]]


def drawn(data: st.DataObject, group: str | None) -> Topics:
    history = data.draw(histories())
    return {
        topic_type: compacted(data.draw, history.records(topic_type, group, 1, topic=topic_type.value))
        for topic_type in TopicType
    }


@st.composite
def reconfigured(draw: st.DrawFn, group: str | None) -> Topics:
    """A few connectors that are configured again and again, without garbage, and the cleaner."""
    life = Life(itertools.repeat(0), itertools.repeat(group is not None))
    steps = st.sampled_from(("create", "create", "tasks", "tasks", "target", "delete"))
    for step, name, number in draw(
        st.lists(st.tuples(steps, st.sampled_from(("a", "a-0")), st.integers(0, 5)), min_size=3)
    ):
        getattr(life, step)(name, number)
    prefix = b"" if group is None else group.encode() + b"."
    found: Topics = {topic_type: [] for topic_type in TopicType}
    for topic_type, entries in life.log.items():
        for at, (key, value, timestamp_ms) in enumerate(entries):
            found[topic_type].append(Record(topic_type.value, 0, at, timestamp_ms, prefix + (key or b""), value))
    found[CONFIG] = compacted(draw, found[CONFIG])
    return found


def of_group(topics: Topics, group: str | None) -> GroupState | None:
    return next((each for each in state_of(topics).groups if each.group == group), None)


def with_records(topics: Topics, written: Sequence[Record]) -> Topics:
    """The topics when these were written behind all others."""
    found = {}
    for topic_type, records in topics.items():
        first = records[-1].offset + 1 if records else 0
        new = [record for record in written if record.topic == topic_type.value]
        found[topic_type] = records + [replace(each, partition=0, offset=first + at) for at, each in enumerate(new)]
    return found


PLANS: Mapping[str, Callable[[GroupState, Mapping[TopicType, str]], Mending]] = {
    "order": plan_order,
    "orphans": partial(plan_orphans, with_offsets=True),
}


@pytest.mark.parametrize("group", [None, GROUP])
@pytest.mark.parametrize("repair", PLANS)
@given(st.data())
def test_a_repair_mends_all_it_is_for_and_changes_nothing_else(
    repair: str, group: str | None, data: st.DataObject
) -> None:
    topics = data.draw(reconfigured(group)) if repair == "order" else drawn(data, group)
    before = of_group(topics, group)
    if before is None:
        return
    mending = PLANS[repair](before, TOPICS)
    # A run that was killed has written a part.
    part = data.draw(st.integers(0, len(mending.records)))
    half = with_records(topics, mending.records[:part])
    again = of_group(half, group)
    assert again is not None
    rest = PLANS[repair](again, TOPICS)
    mended = with_records(half, rest.records)
    after = of_group(mended, group)
    assert after is not None
    assert PLANS[repair](after, TOPICS).records == ()
    assert _stays(before, mending) == _stays(after, mending)
    # What others have there is the same, whatever they have there.
    others = {each.group: each.config for each in state_of(topics).groups if each.group != group}
    assert {each.group: each.config for each in state_of(mended).groups if each.group != group} == others
    if repair == "order":
        order = Order(after)
        assert (order.dropped, order.doomed) == ([], [])
        lately = after.kept.history.compacted()
        assert all(lately.tasks(name) for name in mending.connectors)
    else:
        orphans = orphans_of(after, TOPICS)
        assert [orphans.keys(each) for each in (CONFIG, STATUS, OFFSET)] == [[], [], []]


@pytest.mark.parametrize("group", [None, GROUP])
@given(st.data())
def test_checks_take_whatever_is_there(group: str | None, data: st.DataObject) -> None:
    topics = drawn(data, group)
    state = state_of(topics)
    found = findings_of(state)
    assert len({(each.id, each.where, each.what) for each in found}) == len(found)
    assert [each.id for each in collisions.find(state)] == [
        each.id for each in found if each.id.startswith("collision")
    ]
