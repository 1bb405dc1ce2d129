"""Topics as columns for SQL: what the library says of the same records, and nothing that is secret unless it is asked for."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from connect_share.backup.record_file import write_record_file
from connect_share.contents.profile import PartitionCounter, TopicProfile
from connect_share.model.config import connector_config_record, target_state_record
from connect_share.model.config_state import SessionKey, TargetState
from connect_share.model.keys import KINDS, ClusterGroupId
from connect_share.model.offsets import offset_key, offset_value
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus, status_record
from connect_share.model.writable import session_key_record
from connect_share.replay import replay_status
from connect_share.sealing import TopicSeals
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from spark_jobs import decode, read_kafka
from spark_jobs.decoded import DECODED, DECODED_VALUES
from spark_jobs.sources import KAFKA_SOURCE
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.examples import marked
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.records import encoded
from tests.support.sealed import KEYS
from tests.support.topics import create_topic, read_topic, write_records

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "analysis" / "__main__.py"
PAGE = EXAMPLE.parents[2] / "spark.md"
SECRET = "zebra"
Pair = tuple[bytes, bytes | None]


@dataclasses.dataclass(frozen=True)
class SharedSet:
    worker: WorkerConfig
    worker_file: Path
    records: dict[TopicType, list[Record]]


def _pairs(topic_type: TopicType) -> list[Pair]:
    """Three groups: one well, one with a failed and a left-behind task, one sealed; a plain cluster; garbage."""
    task = ConnectorTaskId("orders", 0)
    config: list[Pair] = [
        connector_config_record("orders", {"password": SECRET}),
        target_state_record("orders", TargetState.STARTED),
        connector_config_record("orders", {"password": SECRET, "more": "1"}),
        session_key_record(SessionKey(SECRET.encode(), "HmacSHA256", 1)),
    ]
    status: list[Pair] = [
        status_record(ConnectorStatus("orders", State.RUNNING, "w:8083", 7)),
        status_record(TaskStatus(task, State.FAILED, "w:8083", 7, SECRET)),
        status_record(TaskStatus(task, State.RUNNING, "w:8083", 8)),
        status_record(TopicStatus("orders-in", "orders", 0, 1)),
    ]
    offsets: list[Pair] = [
        (offset_key("orders", {"file": SECRET}), offset_value({"at": number})) for number in range(5)
    ]
    well = {TopicType.CONFIG: config, TopicType.STATUS: status, TopicType.OFFSET: offsets}[topic_type]
    ill = [
        *well,
        *{
            TopicType.CONFIG: [target_state_record("orders", TargetState.PAUSED), (b"connector-gone", None)],
            TopicType.STATUS: [
                status_record(TaskStatus(task, State.FAILED, "w2:8083", 9, SECRET)),
                status_record(ConnectorStatus("gone", State.RUNNING, "w:8083", 7)),
                status_record(ConnectorStatus("removed", State.DESTROYED, "w:8083", 7)),
                (b"status-task-odd-0", b"{}"),
            ],
            TopicType.OFFSET: [(offset_key("gone", None), offset_value({"at": 1}))],
        }[topic_type],
    ]
    seals = TopicSeals(topic_type, ClusterGroupId("sealed"), KEYS)
    sealed = [(key, seals.seal(b"sealed." + key, value)) for key, value in well]

    def of(group: str, pairs: list[Pair]) -> list[Pair]:
        return [(f"{group}.".encode() + key, value) for key, value in pairs]

    return [*of("well", well), *of("ill", ill), *of("sealed", sealed), *well[:1], (b"\xff no key of Connect", b"x")]


@pytest.fixture(scope="module")
def shared_set(broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> SharedSet:
    name = f"{TOPIC_PREFIX}-decoded-{uuid.uuid4().hex[:6]}"
    properties = {**worker_properties(broker.bootstrap_servers, "well", name), SHARING_PROPERTY: "enabled"}
    worker_file = write_properties(tmp_path_factory.mktemp("decoded") / "worker.properties", properties)
    worker, records = WorkerConfig.from_file(worker_file), {}
    for topic_type in TopicType:
        topic = worker.topic(topic_type)
        create_topic(broker.client_settings, topic, 1 if topic_type is TopicType.CONFIG else 2)
        pairs = _pairs(topic_type)
        rows = [Record(topic, 0, 0, 1_700_000_000_000, key, value) for key, value in pairs]
        write_records(broker.client_settings, topic, rows, keep_partition=False)
        with broker.admin() as admin:
            records[topic_type] = read_topic(admin, broker.client_settings, topic)
    return SharedSet(worker, worker_file, records)


def test_each_record_is_a_row_with_what_its_key_and_its_status_say(spark: SparkSession, shared_set: SharedSet) -> None:
    frame = decode(read_kafka(spark, shared_set.worker))
    assert frame.schema == spark.createDataFrame([], DECODED).schema
    rows = frame.collect()
    assert len(rows) == sum(map(len, shared_set.records.values()))
    assert SECRET not in repr(rows)
    by_place = {(row.topic, row.partition, row.offset): row for row in rows}
    for topic_type, records in shared_set.records.items():
        for record in records:
            row = by_place[record.topic, record.partition, record.offset]
            assert (row.key_bytes, row.value_bytes) == (
                len(record.key or b""),
                None if record.value is None else len(record.value),
            )
            assert row.timestamp.timestamp() == record.timestamp_ms / 1000
            known = (record.key or b"")[:1] != b"\xff"
            assert (row.topic_type, row.kind is not None) == (topic_type.value if known else None, known)
    statuses = replay_status(shared_set.records[TopicType.STATUS], ClusterGroupId("ill"))
    (failed,) = [row for row in rows if (row.group, row.state, row.generation) == ("ill", "FAILED", 9)]
    task = statuses.task_status(ConnectorTaskId(failed.connector, failed.task))
    assert task is not None
    assert (failed.state, failed.worker_id) == (task.state.value, task.worker_id)
    assert {row.used_topic for row in rows if row.kind == "status-topic"} == {"orders-in"}
    sealed = [row for row in rows if row.group == "sealed"]
    assert {(row.sealed, row.state) for row in sealed} == {(True, None)}
    assert {row.connector for row in sealed} == {"orders", None}  # no connector has a session key
    assert {row.removes for row in rows if row.connector == "removed"} == {True}
    assert [row.state for row in rows if row.connector == "odd"] == [None]
    value = b'{"state":"RUNNING","worker_id":"\\ud800","generation":1}'
    strange = [("t", 0, 0, 2**62, b"status-task-c-0", value, None), ("t", 3, 5, -1, None, b"", None)]
    late, bare = decode(spark.createDataFrame(strange, KAFKA_SOURCE)).collect()
    assert (late.timestamp, late.worker_id) == (None, "\\ud800")
    found = [value for value in bare if value is not None]  # of a record without a key and a time
    assert found == ["t", 3, 5, False, False, 0, 0]


def test_values_are_given_when_they_are_asked_for_and_sealed_ones_are_not(
    spark: SparkSession, shared_set: SharedSet
) -> None:
    frame = decode(read_kafka(spark, str(shared_set.worker_file), topics=[TopicType.CONFIG]), values=True)
    assert frame.schema == spark.createDataFrame([], DECODED_VALUES).schema
    rows = frame.collect()
    assert {row.topic for row in rows} == {shared_set.worker.config_storage_topic}
    found = {(row.group, row.key): row.value for row in rows}
    assert json.loads(found["well", "connector-orders"])["properties"] == {"password": SECRET, "more": "1"}
    assert found["well", "session-key"] is found["sealed", "connector-orders"] is found["ill", "connector-gone"] is None


def _answers(spark: SparkSession, worker_file: Path) -> list[list[dict[str, Any]]]:
    spec = importlib.util.spec_from_file_location("analysis", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [[row.asDict() for row in each.collect()] for each in module.answers(spark, str(worker_file)).values()]


def test_the_example_answers_its_five_questions(spark: SparkSession, shared_set: SharedSet) -> None:
    sizes, failed, left_behind, resting, written = _answers(spark, shared_set.worker_file)
    wanted: dict[str | None, list[int]] = {}
    for topic_type, records in shared_set.records.items():
        counters = {number: PartitionCounter(topic_type, number) for number in (0, 1)}
        for each in records:
            counters[each.partition].add(each.offset, each.timestamp_ms, each.key, each.value)
        profile = TopicProfile.of("t", topic_type, [counter.finish() for counter in counters.values()])
        for (group, _), count in profile.counts().items():
            figures = wanted.setdefault(group, [0, 0, 0])
            for at, figure in enumerate((count.records, count.bytes, count.superseded_records)):
                figures[at] += figure
    assert {row["group"]: [row["records"], row["bytes"], row["superseded"]] for row in sizes} == wanted
    assert failed == [{"group": "ill", "connector": "orders", "task": 0, "worker_id": "w2:8083"}]
    gone = {(row["group"], row["connector"]): row["keys"] for row in left_behind}
    assert gone == {("ill", "gone"): 2, ("ill", "odd"): 1}
    assert resting == [{"group": "ill", "connector": "orders", "state": "PAUSED"}]
    assert sum(row["records"] for row in written) == sum(map(len, shared_set.records.values()))
    assert len({row["hour"] for row in written}) == 1


def test_the_examples_of_pages(
    spark: SparkSession, shared_set: SharedSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worker.properties").write_bytes(shared_set.worker_file.read_bytes())
    write_record_file(tmp_path / "move.backup.avro", {}, [encoded([Record("t", 3, 5, -1, None, b"")])])
    names: dict[str, Any] = {}
    for page, code in marked(__file__):
        exec(compile(code, page, "exec"), names)
    assert names["spark"] is spark
    assert names["records"].count() == sum(map(len, shared_set.records.values()))


def test_the_page_names_every_column_and_kind(spark: SparkSession) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for schema, heading in ((KAFKA_SOURCE, "## Records"), (DECODED, "## What keys")):
        section = page.partition(heading)[2].partition("\n## ")[0].partition("| column |")[2]
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == spark.createDataFrame(
            [], schema
        ).columns
    (kinds,) = [line for line in page.splitlines() if line.startswith("| `kind` |")]
    labels = {kind.label for each in KINDS.values() for kind in each}
    assert set(re.findall(r"`([\w-]+)`", kinds)) == {*labels, "kind"}
