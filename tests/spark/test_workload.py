"""Made-up workloads: deterministic, of the size asked for, and readable by the stores."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from connect_share.files import Silent
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from spark_jobs import generate_workload
from spark_jobs.generate_workload import GroupJob, write_groups
from spark_jobs.workload import WorkloadSize, Written, group_records
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker
from tests.support.records import by_key
from tests.support.topics import read_topic

SMALL = WorkloadSize(groups=3, jobs=2, config_records=100, status_records=101, offset_records=50, config_bytes=60_000)


def _topic(size: WorkloadSize, topic_type: TopicType) -> list[Record]:
    entries = [entry for group in range(size.groups) for entry in group_records(size, group, topic_type)]
    return [Record("t", 0, offset, offset, key, value) for offset, (key, value) in enumerate(entries)]


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert _topic(SMALL, TopicType.CONFIG) == _topic(SMALL, TopicType.CONFIG)
    other = WorkloadSize(**{**{f: getattr(SMALL, f) for f in SMALL.__slots__}, "seed": 2})
    assert _topic(SMALL, TopicType.CONFIG) != _topic(other, TopicType.CONFIG)


def test_counts_are_exact_and_sizes_near() -> None:
    kip = WorkloadSize()
    records = [entry for group in range(2) for entry in group_records(kip, group, TopicType.CONFIG)]
    assert len(records) == 800
    total = sum(len(key) + len(value or b"") for key, value in records)
    assert total == pytest.approx(kip.config_bytes / 10, rel=0.1)
    assert len(_topic(SMALL, TopicType.STATUS)) == 101


def test_compaction_changes_no_state() -> None:
    """Half a reconfiguration at the end would take the tasks of the one before with it."""
    for count in range(1, 40):
        size = WorkloadSize(groups=1, jobs=2, config_records=count, config_bytes=count * 300)
        written = list(group_records(size, 0, TopicType.CONFIG))
        records = [Record("configs", 0, at, 0, key, value) for at, (key, value) in enumerate(written)]
        compacted = sorted({record.key: record for record in records}.values(), key=lambda record: record.offset)
        assert replay_config(compacted, "team-000") == replay_config(records, "team-000")


def test_each_group_finds_its_own_jobs() -> None:
    config, status, offsets = (_topic(SMALL, topic_type) for topic_type in TopicType)
    for group in range(SMALL.groups):
        jobs = {SMALL.connector(group, job) for job in range(SMALL.jobs)}
        state = replay_config(config, SMALL.group_id(group))
        assert state.connectors() == jobs
        assert state.session_key is None  # that of a living group would be replaced
        assert {state.task_count(job) for job in jobs} == {1}
        assert replay_status(status, SMALL.group_id(group)).connectors() == jobs
        assert replay_offsets(offsets, SMALL.group_id(group)).connectors() == jobs


WORDS = ["--groups", "3", "--jobs", "2", "--config-records", "60", "--status-records", "30"]
WORDS += ["--offset-records", "30", "--config-bytes", "30000", "--status-bytes", "9000", "--output", "json"]
RECORDS = {"configs": 60, "status": 30, "offsets": 30}


def _worker_file(broker: TestBroker, name: str, folder: Path) -> Path:
    properties = {**worker_properties(broker.bootstrap_servers, name), SHARING_PROPERTY: "enabled"}
    return write_properties(folder / "w.properties", properties)


def _there(broker: TestBroker, name: str) -> dict[str, int]:
    with broker.admin() as admin:
        return {each: len(read_topic(admin, broker.client_settings, f"{name}-{each}")) for each in RECORDS}


@pytest.mark.usefixtures("spark")
def test_the_job_fills_the_topics_of_a_worker_file_and_asks_before_it_fills_them_again(
    broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["-w", str(_worker_file(broker, unique, tmp_path)), *WORDS]
    assert generate_workload.main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["grown"]) == (120, 120)
    assert _there(broker, unique) == RECORDS
    assert generate_workload.main(command) == 1
    said = capsys.readouterr().err
    assert f"{unique}-configs, {unique}-offsets, {unique}-status: records were written there before; nothing" in said
    assert "give --yes" in said
    assert _there(broker, unique) == RECORDS
    assert generate_workload.main([*command, "--yes"]) == 0
    assert _there(broker, unique) == {name: 2 * number for name, number in RECORDS.items()}


@pytest.mark.parametrize("word", ["--groups", "--jobs", "--source-partitions"])
def test_what_makes_no_workload_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    worker_file = write_properties(tmp_path / "w.properties", worker_properties("127.0.0.1:1", "nobody"))
    assert generate_workload.main(["-w", str(worker_file), word, "0"]) == 2
    assert "--groups, --jobs and --source-partitions have to be at least 1" in capsys.readouterr().err


def killed_half_way(jobs: Sequence[GroupJob]) -> int:
    """The first attempt ends by SIGKILL of its Python worker when half of each topic is there."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        entries = GroupJob.entries

        def half(job: GroupJob, topic_type: TopicType, written: Mapping[tuple[str, int], int]) -> Iterator[Written]:
            every = list(entries(job, topic_type, written))
            return iter(every[: len(every) // 2])

        with patch.object(GroupJob, "entries", half):
            write_groups(jobs)
        os.kill(os.getpid(), signal.SIGKILL)
    return write_groups(jobs)


@pytest.mark.parametrize(("prefixed", "transaction_records"), [(True, 0), (False, 7)])
def test_a_repeated_task_writes_nothing_twice(
    spark: SparkSession,
    broker: TestBroker,
    unique: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefixed: bool,
    transaction_records: int,
) -> None:
    monkeypatch.setattr(generate_workload, "write_groups", killed_half_way)
    worker = WorkerConfig.from_file(_worker_file(broker, unique, tmp_path))
    size = replace(SMALL, groups=1, prefixed=prefixed)
    written, grown = generate_workload.generate(
        spark, worker, size, progress=Silent(), transaction_records=transaction_records
    )
    assert written == 251
    assert (grown == written) is not bool(transaction_records)  # markers are offsets, too
    with broker.admin() as admin:
        for topic_type in TopicType:
            there = read_topic(admin, broker.client_settings, worker.topic(topic_type))
            found = by_key((record.key, record.value) for record in there)
            assert found == by_key(group_records(size, 0, topic_type))
