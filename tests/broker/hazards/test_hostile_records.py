"""Records of others that are garbage, too large or of another time, on a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from connect_share.backup.record_file import RecordFile
from connect_share.errors import PlanRejectedError, UnreadableHeadersError, WriteError
from connect_share.kafka import client
from connect_share.kafka.write import PROCESS_PRODUCERS
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import ConnectorTaskId, OffsetRange, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.storage import ConnectStorage
from connect_share.transform.rules import KeyTransform
from migrator.copy.copy_job import CopyJob, begin_together, open_slices
from migrator.plan import MigrationPlan
from migrator.run import backup_path
from tests.broker.stores.conftest import Pair, Shared
from tests.support.console import console
from tests.support.flushes import flush_offsets
from tests.support.migration_runs import apply_plan, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, SMALL, Site, run
from tests.support.raw_records import RawRecord, write_raw

LARGE = 12_000_000  # more than one answer of a broker to a reader that catches up may have
DEEP = b"[" * 5_000
SECRET = b"hunter2-hunter2"
OWN, OTHER = b"group-a.", b"other.group."

# One of each topic that a reader looks into; the rest is in the fuzz.
GARBAGE: dict[str, list[Pair]] = {
    "config": [(OWN + b"connector-bad", DEEP), (OWN + b"commit-good", b'{"tasks":"' + SECRET + b'"}')],
    "status": [(OWN + b"status-connector-good", DEEP)],
    "offset": [(OWN + b'["good",{"p":1}]', b"[1]"), (OWN + DEEP, b"{}")],
}


@contextmanager
def strangers(shared: Shared) -> Iterator[client.Producer]:
    """A producer of whatever one likes; all of it has arrived at the end."""
    overrides = {"message.max.bytes": str(2 * LARGE), "linger.ms": "5"}
    producer = client.producer(shared.worker().client_settings(), client_id="tests", overrides=overrides)
    yield producer
    assert producer.flush(60) == 0


def pour(shared: Shared) -> None:
    with strangers(shared) as producer:
        for kind, pairs in GARBAGE.items():
            for key, value in [*pairs, (OTHER + b"connector-large", b"\x00" * LARGE)]:
                producer.produce(shared.topics[kind], value, key)
                producer.poll(0)


def current_state(storage: ConnectStorage) -> dict[str, object]:
    config = storage.config.snapshot()
    return {
        "configs": {name: config.connector_config(name) for name in config.connectors()},
        "tasks": [str(task) for task in config.tasks("good")],
        "target": config.target_state("good"),
        "status": storage.status.get("good"),
        "offset": storage.offset_reader("good").offset({"p": 1}),
    }


def test_garbage_and_oversized_records_of_others_change_nothing(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    for kind, partitions in (("config", 1), ("status", 2), ("offset", 3)):
        shared.create(
            shared.topics[kind],
            partitions=partitions,
            cleanup_policy="compact",
            max_message_bytes=str(2 * LARGE),
            segment_ms="10000000000000",
        )
    worker = shared.sharing()
    running = ConnectorStatus("good", State.RUNNING, "w:1", 1, None, None)
    with ConnectStorage(worker, allow_empty=True) as storage:
        storage.config.put_connector_config("good", {"name": "good"})
        storage.config.put_task_configs("good", [{"task.class": "x"}])
        storage.config.put_target_state("good", TargetState.PAUSED)
        storage.status.put(running)
        storage.status.flush()
        flush_offsets(storage.offset_writer("good"), ({"p": 1}, {"n": 1}))
        storage.status.refresh(60)
        before = current_state(storage)
        assert before["status"] == running
        assert before["configs"] == {"good": {"name": "good"}}
        assert before["offset"] == {"n": 1}
        pour(shared)  # while it runs
        for store in (storage.config, storage.status, storage.offsets):
            store.refresh(60)
        garbled = {"offset": None}  # a value that is a list was written under its own key
        assert current_state(storage) == before | garbled
        storage.config.put_connector_config("after", {"name": "after"})
        with pytest.raises(WriteError, match="not written"):
            storage.config.put_connector_config("large", {"name": "x" * 3 * LARGE})
        storage.config.remove_connector_config("after")
    with ConnectStorage(worker) as storage:  # and before it starts
        assert current_state(storage) == before | garbled
        assert storage.startup.config.foreign_records > 0
        assert sum(storage.config.skipped().values()) >= len(GARBAGE["config"])
    assert SECRET.decode() not in caplog.text


def test_clocks_that_jump(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """The order of the log counts. Where partitions have no order, a removal of the future is logged."""
    worker = shared.sharing()
    with ConnectStorage(worker, allow_empty=True):
        pass  # makes the topics
    now_ms = int(time.time() * 1000)
    hour_ms = 3_600_000
    with strangers(shared) as producer:
        for number, at_ms in enumerate(
            [now_ms, now_ms - 400 * 24 * hour_ms, 1, now_ms + hour_ms // 2, now_ms - hour_ms]
        ):
            config = json.dumps({"properties": {"name": "a", "n": str(number)}}).encode()
            producer.produce(shared.topics["config"], config, OWN + b"connector-a", timestamp=at_ms)
            producer.produce(
                shared.topics["offset"], b'{"n":%d}' % number, OWN + b'["a",{"p":1}]', timestamp=at_ms, partition=0
            )
        producer.produce(
            shared.topics["status"], None, OWN + b"status-connector-a", timestamp=now_ms + hour_ms // 2, partition=0
        )
    task = ConnectorTaskId("a", 0)
    for _ in range(2):  # live and after a start
        caplog.clear()
        with ConnectStorage(worker) as storage:
            assert storage.config.snapshot().connector_config("a") == {"name": "a", "n": "4"}
            assert storage.offset_reader("a").offset({"p": 1}) == {"n": 4}
            storage.status.put(TaskStatus(task, State.RUNNING, "w:1", 1, None, None))
            storage.status.put(ConnectorStatus("a", State.RUNNING, "w:1", 1, None, None))
            storage.status.flush()
            storage.status.refresh(120)
            told = [line for line in caplog.messages if "ahead of the clock here" in line]
            assert len(told) == 1
            assert f"The removal at {shared.topics['status']}[0]@0 is dated " in told[0]
            assert storage.status.get("a") is not None
            assert storage.status.get(task) is None  # as told


NOT_UTF_8 = [(b"\xff\xfe", SECRET)]


def test_a_record_with_such_a_header_is_refused_by_its_place_only_if_it_has_to_be_carried(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Onto shared topics and off them again, with such records of others on both."""
    for who in ("shared", "own"):
        site.create(who, SHARED_PARTITIONS)
    for topic_type, pairs in SMALL.items():
        topic, (key, value, _) = site.topic("shared", topic_type), pairs[-1]
        theirs = b"other.group." + key.encode()
        write_raw(
            site.bootstrap_servers,
            topic,
            [RawRecord(theirs, value.encode(), NOT_UTF_8), RawRecord(b"?", b"", NOT_UTF_8)],
        )
        ours = [RawRecord(f"{GROUP}.{key}".encode(), value.encode()) for key, value, _ in pairs]
        write_raw(site.bootstrap_servers, topic, ours)
    source = site.shared()
    destination = site.worker_file("own", "orders", sharing=False)

    flags = [f"--{each.value}-storage-topic={site.topic('shared', each)}" for each in TopicType]
    listed = console(capsys)("get", "groups", "-B", site.bootstrap_servers, *flags, "--output", "json")
    assert {row["group"] for row in listed.json["groups"]} == {GROUP, "other.group"}
    code, out, err = run("survey", "--source-worker-config", source, "--destination-worker-config", destination)
    assert code == 0, err
    config = site.topic("shared", TopicType.CONFIG)
    assert f"other.group in {config}: 1 record(s) cannot be copied completely" in " ".join((out + err).split())
    assert f"the first is {config}[0]@0" in " ".join((out + err).split())

    plan = site.plan(source, destination)
    manifest = apply_plan(plan)
    assert manifest.backup is not None
    assert manifest.backup.left_out == {}  # a backup holds nothing of other groups
    assert sum(1 for _ in RecordFile(backup_path(plan)).read()) == manifest.backup.records == 9
    assert verify_plan(plan).equal

    config = site.topic("own", TopicType.CONFIG)
    offset = write_raw(site.bootstrap_servers, config, [RawRecord(b"connector-b", b'{"properties":{}}', NOT_UTF_8)])
    back = site.worker_file("shared", "another", sharing=True)
    with pytest.raises(PlanRejectedError, match=rf"{config}\[0\]@{offset}: .* cannot be carried whole"):
        site.plan(destination, back, "back.json")
    (slice_,) = [each for each in MigrationPlan.load(plan).slices() if each.topic_type is TopicType.CONFIG]
    transform = KeyTransform(TopicType.CONFIG, plain=True, groups=None, destination=ClusterGroupId("another"))
    for fold in (False, True):  # even where it came after the plan
        job = CopyJob(
            replace(slice_, offset_range=OffsetRange(config, 0, 0, offset + 1), transform=transform, fold=fold),
            *(site.settings, site.settings, site.settings),
            destination_starts=(),
            client_id="tests",
        )
        with pytest.raises(UnreadableHeadersError, match=rf"{config}\[0\]@{offset}: .* cannot be carried whole"):
            job.begin()
        if job.may_be_mirrored(None):
            with pytest.raises(UnreadableHeadersError, match=rf"{config}\[0\]@{offset}: .* cannot be carried whole"):
                begin_together([job], open_slices([job]), PROCESS_PRODUCERS)
