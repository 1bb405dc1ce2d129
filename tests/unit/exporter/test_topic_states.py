"""The states that the exporter shows: bounded whatever is written, and never an answer that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from connect_share.contents import groups as contents
from connect_share.exporter import topic_states
from connect_share.exporter.metrics import TopicMetrics, label
from connect_share.exporter.topic_states import TopicStates
from connect_share.kafka.create import TopicSpec
from connect_share.model.records import Record, TopicType
from connect_share.sealing import SEALING_PROPERTY
from connect_share.worker_config import WorkerConfig
from tests.support.checked import folded
from tests.support.hostile_records import HostileRecords
from tests.support.sealed import GROUP, key_text, sharing_worker


@dataclass
class Followed:
    """A topic that was read, as far as the metrics look at it."""

    spec: TopicSpec
    states: TopicStates
    lag: int | None = 0
    is_up: bool = True


def followed(*topics: tuple[TopicType, list[Record]], worker: WorkerConfig | None = None) -> list[Any]:
    found = []
    for topic_type, records in topics:
        states = TopicStates(topic_type, worker)
        states.apply(records)
        found.append(Followed(TopicSpec(topic_type.value, topic_type, 1), states))
    return found


def answer(topics: list[Any], members: dict[str, int] | None = None) -> str:
    registry = CollectorRegistry()
    registry.register(TopicMetrics(topics, lambda: members))
    return generate_latest(registry).decode()


def record(key: str, value: bytes | None, *, at_ms: int = 5, offset: int = 0) -> Record:
    return Record("t", 0, offset, at_ms, key.encode(), value)


def test_what_a_cotenant_writes_breaks_no_answer() -> None:
    hostile = HostileRecords(1)
    for topic_type in TopicType:
        records = list(hostile.records(topic_type, 3_000))
        assert list(text_string_to_metric_families(answer(followed((topic_type, records)))))


@given(st.text())
def test_a_label_can_be_written_and_is_short(value: str) -> None:
    text = label(value)
    text.encode()
    assert len(text) <= 250
    assert label(value + "x" * 300) != label(value + "y" * 300)


def test_groups_and_keys_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_GROUPS", 2)
    monkeypatch.setattr(topic_states, "MOST_KEYS", 4)
    states = TopicStates(TopicType.CONFIG, sharing_worker("own"))  # of which there is always one group more
    value, groups = b'{"properties":{}}', ("a", "b", "c", "own")
    states.apply([record(f"{group}.connector-{name}", value) for name in ("one", "two") for group in groups])
    states.apply([record("a.connector-one", value), record("no key", value)])
    assert [(state.group, state.records) for state in states.groups()] == [("a", 3), ("b", 1), ("own", 1)]
    assert (states.left_out, states.unrecognized) == (4, 1)


@pytest.mark.parametrize(
    "worker", [None, sharing_worker("other", keys=key_text(7))], ids=["no file", "another group's"]
)
def test_a_sealed_group_has_counts_and_no_state(worker: WorkerConfig | None) -> None:
    sealed = bytes([1]) + bytes(60)
    text = answer(followed((TopicType.CONFIG, [record("g.connector-a", sealed)]), worker=worker), {})
    assert 'connect_share_group_sealed{group="g",topic="config"} 1.0' in text
    assert 'connect_share_group_live_members{group="g"} 0.0' in text
    assert "kafka_connect_connectors_count{" not in text
    assert 'reason="refused"' not in text


SEALED_KEYS = {
    TopicType.CONFIG: "com.acme.connector-a",
    TopicType.STATUS: "com.acme.status-connector-a",
    TopicType.OFFSET: 'com.acme.["a",{}]',
}


@pytest.mark.parametrize("topic_type", TopicType)
@pytest.mark.parametrize("keys", [None, key_text(8)], ids=["off", "other keys"])
def test_what_the_workers_of_a_file_refuse_is_counted_as_refused(topic_type: TopicType, keys: str | None) -> None:
    """As the console counts it: the alert is for records that look sealed and were not written by the group."""
    worker = sharing_worker(GROUP, keys=keys, **({SEALING_PROPERTY: "off"} if keys is None else {}))
    sealed = record(SEALED_KEYS[topic_type], bytes([1, 0, 0, 0, 7]) + bytes(60))
    text = answer(followed((topic_type, [sealed]), worker=worker))
    topic = f'topic="{topic_type.value}"'
    assert f'connect_share_group_skipped_records_total{{group="com.acme",reason="refused",{topic}}} 1.0' in text
    assert f'connect_share_group_sealed{{group="com.acme",{topic}}} 0.0' in text
    (note,) = folded(topic_type, [sealed], worker=worker).notes
    assert "com.acme were refused (1 " in note


def test_a_time_in_the_future_is_now_and_none_is_none() -> None:
    states = TopicStates(TopicType.OFFSET)
    states.apply([record('g.["a",{}]', b"{}", at_ms=-1)])
    assert [state.last_written_ms for state in states.groups()] == [None]
    states.apply([record('g.["a",{}]', b"{}", at_ms=2**62)])
    assert [(state.last_written_ms or 0) < 2**50 for state in states.groups()] == [True]
    assert [(state.last_written_ms or 0) > 0 for state in states.groups()] == [True]


def tasks_of(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_task_count"):
                yield sample.name.removeprefix("kafka_connect_worker_"), sample.value


def test_a_task_that_no_worker_has_reported_is_unassigned() -> None:
    config = [
        record("g.connector-a", b'{"properties":{}}'),
        record("g.task-a-0", b'{"properties":{}}', offset=1),
        record("g.task-a-1", b'{"properties":{}}', offset=2),
        record("g.commit-a", b'{"tasks":2}', offset=3),
    ]
    running = b'{"state":"RUNNING","worker_id":"w","generation":1}'
    status = [record("g.status-task-a-0", running), record("g.status-task-a-7", running)]
    counts = dict(tasks_of(answer(followed((TopicType.CONFIG, config), (TopicType.STATUS, status)))))
    assert counts["task_count"] == counts["connector_total_task_count"] == 2
    assert (counts["connector_running_task_count"], counts["connector_unassigned_task_count"]) == (1, 1)
