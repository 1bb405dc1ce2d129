"""Captures of real workers, folded: the stores hold what the Java workers held."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.contents.groups import FOLDS
from connect_share.model.connect_json import dumps, loads
from connect_share.model.keys import ClusterGroupId, is_original_key, split_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from tests.support.captures import VERSIONS, captured, prefixed, rest_answers
from tests.support.histories import History, histories

# None: as captured. The others: hostile but legal ids.
GROUPS = (None, "com.acme.orders", "connect-cluster", "session-key", "42.-.x..", "a.connectorx")
SINKS = ("FileStreamSink", "org.apache.kafka.connect.file.FileStreamSinkConnector")

every_capture = pytest.mark.parametrize("version", VERSIONS)
every_group = pytest.mark.parametrize("group", GROUPS)


def _records(version: str, topic: str, group: str | None) -> list[Record]:
    records = captured(version, topic)
    return list(records) if group is None else prefixed(records, group)


@every_capture
@every_group
def test_connectors_configs_tasks_and_target_states_are_what_rest_said(version: str, group: str | None) -> None:
    state, view = replay_config(_records(version, "configs", group), group), rest_answers(version)["connectors"]
    assert state.connectors() == frozenset(view)
    assert state.inconsistent_connectors() == frozenset()
    for name, said in view.items():
        shown, target = said["status"]["body"]["connector"]["state"], state.target_state(name)
        assert target is not None
        assert target.name == (shown if shown in ("PAUSED", "STOPPED") else "STARTED")
        assert state.connector_config(name) == said["config"]["body"]
        assert [task.task for task in state.tasks(name)] == [task["id"]["task"] for task in said["tasks"]["body"]]
        for task in said["tasks"]["body"]:
            assert state.task_config(ConnectorTaskId(name, task["id"]["task"])) == task["config"]


@every_capture
@every_group
def test_statuses_and_topics_are_what_rest_said(version: str, group: str | None) -> None:
    snapshot, view = replay_status(_records(version, "status", group), group), rest_answers(version)["connectors"]
    for name, said in view.items():
        status = snapshot.connector_status(name)
        assert status is not None
        assert (status.state.name, status.worker_id) == (
            said["status"]["body"]["connector"]["state"],
            said["status"]["body"]["connector"]["worker_id"],
        )
        assert status.trace == said["status"]["body"]["connector"].get("trace")
        assert status.version == said["status"]["body"]["connector"].get("version")
        found = [(s.task_id.task, s.state.name, s.worker_id, s.trace) for s in snapshot.task_statuses(name)]
        wanted = [(t["id"], t["state"], t["worker_id"], t.get("trace")) for t in said["status"]["body"]["tasks"]]
        assert found == sorted(wanted)
        assert snapshot.topics(name) == frozenset(said["topics"]["body"][name]["topics"])


def _listed(offsets: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps([entry["partition"], entry["offset"]], sort_keys=True) for entry in offsets)


@every_capture
@every_group
def test_offsets_of_sources_are_what_rest_said(version: str, group: str | None) -> None:
    snapshot, compared = replay_offsets(_records(version, "offsets", group), group), 0
    for name, said in rest_answers(version)["connectors"].items():
        # A sink's offsets are those of its consumer group; 2.8.2 has no such interface.
        if said["config"]["body"]["connector.class"] in SINKS or said["offsets"]["http"] != 200:
            continue
        found = [{"partition": p, "offset": snapshot.offset(name, p)} for p in snapshot.partitions(name)]
        # REST answers for the connector's own offsets topic, the capture is of the worker's.
        if "offsets.storage.topic" not in said["config"]["body"]:
            assert _listed(found) == _listed(said["offsets"]["body"]["offsets"])
            compared += 1
    assert compared or version == "2.8.2"


@every_capture
def test_every_json_text_is_written_again_byte_for_byte(version: str) -> None:
    count = 0
    for topic in ("configs", "offsets", "status"):
        for record in captured(version, topic):
            texts = [record.value] if topic != "offsets" else [record.key, record.value]
            for text in texts:
                # What other producers left in the aborted capture is not a worker's.
                if text is not None and not text.startswith(b"B."):
                    assert dumps(loads(text)) == text
                    count += 1
    assert count > 20


@every_capture
def test_keys_are_legal_and_lie_where_murmur2_puts_them(version: str) -> None:
    topics = {"configs": TopicType.CONFIG, "offsets": TopicType.OFFSET, "status": TopicType.STATUS}
    for topic, topic_type in topics.items():
        partitions = 1 if topic == "configs" else 5
        for record in captured(version, topic):
            key = record.key or b""
            assert record.partition == partition_for(key, partitions)
            if not key.startswith(b"B."):
                assert is_original_key(topic_type, key)
                assert split_key(topic_type, key) == (None, key)


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


@pytest.mark.parametrize("topic_type", TopicType)
@pytest.mark.parametrize("saved", [None, {}, [], {"offset": 1}, [["a"]], "x", 7])
def test_something_else_is_no_state(topic_type: TopicType, saved: Any) -> None:
    fold = FOLDS[topic_type](None)
    if topic_type is TopicType.OFFSET and saved == []:  # as 0.3.0 saved nothing
        fold.restore(saved)
        assert fold.saved() == FOLDS[topic_type](None).saved()
        return
    with pytest.raises((KeyError, TypeError, ValueError)):
        fold.restore(saved)
