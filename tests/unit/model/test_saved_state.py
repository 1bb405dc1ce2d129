"""Saving what a fold believes and going on from it: the same as never having stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusFold
from tests.support.histories import History, histories
from tests.support.records import FOLDS

GROUP = ClusterGroupId("g.h")


@pytest.mark.parametrize("topic_type", TopicType)
@given(history=histories(), cut=st.integers(0, 60), shared=st.booleans())
def test_going_on_from_what_was_saved(topic_type: TopicType, history: History, cut: int, *, shared: bool) -> None:
    group = GROUP if shared else None
    records = history.records(topic_type, group, 1 if topic_type is TopicType.CONFIG else 3)
    whole, first, second = (FOLDS[topic_type](group) for _ in range(3))
    for record in records:
        whole.apply(record)
    for record in records[:cut]:
        first.apply(record)
    before = json.dumps(first.saved())
    second.restore(json.loads(before))
    assert json.dumps(second.saved()) == before
    assert second.snapshot() == first.snapshot()
    for record in records[cut:]:
        second.apply(record)
    # What was saved is of its moment, whatever comes afterwards.
    kept = first.saved()
    for record in records[cut:]:
        first.apply(record)
    assert json.dumps(kept) == before
    assert second.saved() == whole.saved()
    assert second.snapshot() == whole.snapshot()


def test_what_is_gone_leaves_no_trace_in_a_saved_state() -> None:
    """Not even in the order: names of connectors come and go, and would stay for ever."""
    whole, restored = StatusFold(), StatusFold()
    status = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
    topic = b'{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}'
    written: list[tuple[str, bytes | None]] = [
        *(("status-task-a-0", status), ("status-task-b-0", status), ("status-connector-a", None)),
        *(("status-topic-t:connector-a", topic), ("status-topic-t:connector-b", topic)),
        ("status-topic-t:connector-a", None),
    ]
    for offset, (key, value) in enumerate(written):
        whole.apply(Record("status", 0, offset, offset, key.encode(), value))
    restored.restore(whole.saved())
    for fold in (whole, restored):
        fold.apply(Record("status", 0, 9, 9, b"status-task-a-0", status))
        fold.apply(Record("status", 0, 10, 10, b"status-topic-t:connector-a", topic))
    assert [name for name, *_ in whole.saved()["tasks"]] == ["b", "a"]
    assert restored.saved() == whole.saved()


@pytest.mark.parametrize("topic_type", TopicType)
@pytest.mark.parametrize("saved", [None, {}, [], {"offset": 1}, [["a"]], "x", 7])
def test_something_else_is_no_state(topic_type: TopicType, saved: Any) -> None:
    fold = FOLDS[topic_type](None)
    if topic_type is TopicType.OFFSET and not saved and saved is not None:
        fold.restore(saved)
        assert fold.saved() == []
        return
    with pytest.raises((KeyError, TypeError, ValueError)):
        fold.restore(saved)
