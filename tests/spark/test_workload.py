"""Made-up workloads: deterministic, of the size asked for, and readable by the stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.worker_config import SHARING_PROPERTY
from spark_jobs import generate_workload
from spark_jobs.workload import WorkloadSize, group_records
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker

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


@pytest.mark.parametrize("count", range(1, 40))
def test_compaction_changes_no_state(count: int) -> None:
    """Half a reconfiguration at the end would take the tasks of the one before with it."""
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
        assert state.session_key is not None
        assert {state.task_count(job) for job in jobs} == {1}
        assert replay_status(status, SMALL.group_id(group)).connectors() == jobs
        assert replay_offsets(offsets, SMALL.group_id(group)).connectors() == jobs


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("sharing", ["enabled", "disabled"])
def test_the_job_fills_the_topics_of_a_worker_file(
    broker: TestBroker, unique: str, tmp_path: Path, sharing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = {**worker_properties(broker.bootstrap_servers, unique), SHARING_PROPERTY: sharing}
    worker_file = write_properties(tmp_path / "w.properties", properties)
    options = ["--groups", "3", "--jobs", "2", "--config-records", "60", "--status-records", "30"]
    options += ["--offset-records", "30", "--config-bytes", "30000", "--status-bytes", "9000", "--output", "json"]
    assert generate_workload.main(["-w", str(worker_file), *options]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 120
    with broker.admin() as admin:
        assert sum(admin.end_offsets([(f"{unique}-configs", 0)]).values()) == 60
