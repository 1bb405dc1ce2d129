"""The states that the exporter shows: bounded whatever is written, and never an answer that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from connect_share.contents.group_room import GroupRoom
from connect_share.contents.seals import KEY_BYTES
from connect_share.exporter import StorageMetrics, metrics, topic_states
from connect_share.exporter.metrics import TopicMetrics, label
from connect_share.exporter.topic_states import TopicStates
from connect_share.kafka.create import TopicSpec
from connect_share.model.keys import ClusterGroupId, SkipKind
from connect_share.model.records import Record, TopicType
from connect_share.sealing import SEALING_PROPERTY
from connect_share.storage.memory import MemoryConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.checked import folded
from tests.support.hostile_records import HostileRecords
from tests.support.sealed import GROUP, key_text, sealed, sharing_worker


@dataclass
class Followed:
    """A topic that was read, as far as the metrics look at it."""

    spec: TopicSpec
    states: TopicStates
    lag: int | None = 0
    is_up: bool = True


def followed(
    *topics: tuple[TopicType, list[Record]], worker: WorkerConfig | None = None, most_bytes: int = 10**9
) -> list[Any]:
    found, room = [], GroupRoom(() if worker is None else (worker.cluster_group_id,), most_bytes)
    for topic_type, records in topics:
        states = TopicStates(topic_type, worker, room)
        states.apply(records)
        found.append(Followed(TopicSpec(topic_type.value, topic_type, 1), states))
    return found


def answer(topics: list[Any], **members: int) -> str:
    registry = CollectorRegistry()
    registry.register(TopicMetrics(topics, lambda: members, topics[0].states.room))
    return generate_latest(registry).decode()


def record(key: str, value: bytes | None, *, at_ms: int = 5, offset: int = 0) -> Record:
    return Record("t", 0, offset, at_ms, key.encode(), value)


def test_what_a_cotenant_writes_breaks_no_answer() -> None:
    """Prometheus refuses it whole if a series is there twice, as where one topic is given for all three."""
    topics = followed(*((each, list(HostileRecords(1).records(each, 3_000))) for each in TopicType))
    for topic in topics:
        topic.spec = replace(topic.spec, topic="one")
    text = answer(topics)
    assert list(text_string_to_metric_families(text))
    series = [line.rpartition(" ")[0] for line in text.split("\n") if line[:1] != "#"]
    assert len({*series}) == len(series) > 100
    topics[0].lag = None  # it is not read: its records do not come when they are
    assert answer(topics).count("connect_share_topic_left_out_records_total{") == 2


@given(st.text())
def test_a_label_can_be_written_and_is_short_and_that_of_one_text(value: str) -> None:
    text = label(value)
    text.encode()
    assert len(text) <= 250
    assert label(value + "x" * 300) != label(value + "y" * 300)
    assert text != label(text + "\ud800") != label("\\ud800")


CONFIGURED = b'{"properties":{}}'


def shown(text: str) -> dict[str, dict[str, float]]:
    """The values of each metric that has no other label than a group, by group."""
    found: dict[str, dict[str, float]] = {}
    for each in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
        if each.labels.keys() == {"group"}:
            found.setdefault(each.name.removeprefix("connect_share_group_"), {})[each.labels["group"]] = each.value
    return found


def test_the_groups_of_worker_files_have_room_and_others_as_much_as_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever invents groups takes room from later ones, whoever invents keys only from larger ones; on all topics."""
    monkeypatch.setattr("connect_share.contents.group_room.MOST_GROUPS", 3)
    groups = ("small", "large", "b", "late", "own")
    config = [record(f"{group}.connector-one", CONFIGURED) for group in groups]
    config += [record(f"large.connector-{number}", CONFIGURED) for number in range(9)]
    config += [record(f"own.connector-{number}", CONFIGURED) for number in range(20)]
    config += [record("no key", CONFIGURED), record("small.connector-two", CONFIGURED)]
    status = [record(f"{group}.status-connector-one", b"{}") for group in groups]
    topics = followed(
        (TopicType.STATUS, status), (TopicType.CONFIG, config), worker=sharing_worker("own"), most_bytes=4_000
    )
    for topic in topics:
        assert {state.group for state in topic.states.groups()} == {"small", "b", "own"}
    assert [topic.states.left_out for topic in topics] == [2, 11]
    assert topics[1].states.unrecognized == 1
    found = shown(answer(topics))
    assert "live_members" not in found  # of no group they are known
    assert found["left_out_records"] == {"late": 2, "large": 2}
    assert found["kafka_connect_connectors_count"] == {"small": 2, "b": 1, "own": 21}
    states = TopicStates(TopicType.CONFIG, None, GroupRoom((ClusterGroupId("large"),), 4_000))
    states.apply(config)
    assert [state.left_out for state in states.groups() if state.group == "large"] == [0]
    monkeypatch.setattr(topic_states, "MOST_BYTES", 4_000)  # nobody fills memory under the keys of such a group, either
    states.apply([record(f"large.connector-more-{number}", CONFIGURED) for number in range(9)])
    (large,) = [state for state in states.groups() if state.group == "large"]
    assert (large.left_out, large.kept) == (9, 10 * (KEY_BYTES + 1 + len(CONFIGURED)))


def test_what_is_removed_gives_no_room_and_what_is_changed_takes_little() -> None:
    (topic,) = followed((TopicType.CONFIG, [record("g.connector-a", CONFIGURED)] * 50), most_bytes=4_000)
    (state,) = topic.states.groups()
    assert (state.records, state.left_out, state.living) == (50, 0, 1)
    for number in range(50):
        topic.states.apply([record(f"g.connector-{number}", value) for value in (CONFIGURED, None)])
    assert topic.states.groups() == []
    assert topic.states.left_out == 150


def test_connectors_and_tasks_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No group, and no connector, takes the series of others; what has none is counted, and alerts still find it."""
    monkeypatch.setattr(metrics, "MOST_CONNECTORS", 9)
    monkeypatch.setattr(metrics, "MOST_TASKS", 10)
    failed = b'{"state":"FAILED","worker_id":"w","generation":1}'
    config = [record(f"-.connector-{number}", CONFIGURED) for number in range(50)]
    config += [record(f"{group}.connector-{name}", CONFIGURED) for group in ("a", "own") for name in "xyz"]
    status = [record(f"a.status-task-x-{number}", failed) for number in range(50)]
    status += [record(f"{group}.status-task-{name}-0", failed) for group in ("a", "own") for name in "yz"]
    text = answer(followed((TopicType.CONFIG, config), (TopicType.STATUS, status)))
    assert shown(text)["left_out_connectors"] == {"-": 47}
    status_only = answer(followed((TopicType.STATUS, status), worker=sharing_worker("own")))
    assert shown(status_only)["left_out_tasks"] == {"a": 42}
    assert 'kafka_connect_connector_task_status{connector="z",group="a",status="failed",task="0"} 1.0' in status_only
    assert 'kafka_connect_worker_connector_failed_task_count{connector="x",group="a"} 50.0' in status_only
    assert metrics.shares({"a": 1, "b": 9, "c": 4}, 9) == {"a": 1, "b": 4, "c": 4}


@pytest.mark.parametrize(
    "worker", [None, sharing_worker("other", keys=key_text(7))], ids=["no file", "another group's"]
)
def test_a_sealed_group_has_counts_and_no_state(worker: WorkerConfig | None) -> None:
    looks_sealed = record("g.connector-a", bytes([1]) + bytes(60))
    text = answer(followed((TopicType.CONFIG, [looks_sealed]), worker=worker), g=0)
    assert 'connect_share_group_sealed{group="g",topic="config",type="config"} 1.0' in text
    assert 'connect_share_group_live_members{group="g"} 0.0' in text
    assert 'kafka_connect_connectors_count{group="g"' not in text
    assert 'group="g",reason="refused"' not in text


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
    refused = record(SEALED_KEYS[topic_type], bytes([1, 0, 0, 0, 7]) + bytes(60))
    topic = f'topic="{topic_type.value}",type="{topic_type.value}"'
    for records in ([], [refused]):  # no query sees the growth of what begins above 0
        text = answer(followed((topic_type, records), worker=worker))
        counted = f'connect_share_group_skipped_records_total{{group="com.acme",reason="refused",{topic}}}'
        assert f"{counted} {len(records)}.0" in text
    assert f'connect_share_group_sealed{{group="com.acme",{topic}}} 0.0' in text
    (note,) = folded(topic_type, [refused], worker=worker).notes
    assert "com.acme were refused (1 " in note


def test_a_removal_that_is_written_again_removes_nothing() -> None:
    made = [record("com.acme.connector-a", value, offset=at) for at, value in enumerate((b"null", CONFIGURED))]
    log = [sealed(each, written_ms=each.offset) for each in made]
    (state,) = followed((TopicType.CONFIG, [*log, log[0]]), worker=sharing_worker(keys=key_text(7)))[0].states.groups()
    assert (state.living, state.skipped[SkipKind.REFUSED]) == (2, 1)  # what is refused counts, too


def test_a_time_in_the_future_is_now_and_none_is_none() -> None:
    states = TopicStates(TopicType.OFFSET)
    states.apply([record('g.["a",{}]', b"{}", at_ms=-1)])
    assert [state.last_written_ms for state in states.groups()] == [None]
    states.apply([record('g.["a",{}]', b"{}", at_ms=2**62)])
    assert [0 < (state.last_written_ms or 0) < 2**50 for state in states.groups()] == [True]


def test_a_task_that_no_worker_has_reported_is_unassigned() -> None:
    config = [record(f"g.{key}", CONFIGURED) for key in ("connector-a", "task-a-0", "task-a-1")]
    config.append(record("g.commit-a", b'{"tasks":2}'))
    value = b'{"state":"RUNNING","worker_id":"w","generation":1}'
    status = [record(f"g.status-task-a-{number}", value) for number in (0, 7)]
    for statuses, running in ((status, 1), ([], 0)):  # none at all: the topic was lost
        text = answer(followed((TopicType.CONFIG, config), (TopicType.STATUS, statuses)))
        assert shown(text)["kafka_connect_worker_task_count"] == {"g": 2}
        for which, count in (("total", 2), ("running", running), ("unassigned", 2 - running)):
            assert f'kafka_connect_worker_connector_{which}_task_count{{connector="a",group="g"}} {count}.0' in text


def test_a_store_counts_what_is_refused_from_the_beginning() -> None:
    with MemoryConnectStorage() as storage:
        samples = [each for family in StorageMetrics(storage, group="g").collect() for each in family.samples]
    counts = [each for each in samples if each.labels.get("reason") == "refused"]
    assert [(each.name, each.value) for each in counts] == [("connect_share_storage_skipped_records_total", 0)] * 3
